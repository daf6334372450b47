"""Rows as an onlooker may see them: how far they are, and why they wait; nothing of what they say. No MLX."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from paceline.engine.row import Row

State = Literal["prefill", "decode", "held", "waiting"]


def running(rows: Sequence[Row], now: float) -> list[dict[str, Any]]:
    return [{**_row(row, now), "state": state(row)} for row in rows]


def waiting(rows: Sequence[Row], now: float) -> list[dict[str, Any]]:
    """In the order in which they are looked at; who comes first has the position 1."""
    return [
        {**_row(row, now), "state": "waiting", "position": place, "reason": row.waits or "order"}
        for place, row in enumerate(rows, 1)
    ]


def state(row: Row) -> State:
    """Held: another row's prefill, or the disk, is about to bring what it needs."""
    if row.held:
        return "held"
    return "prefill" if row.remaining or row.images_left else "decode"


def _row(row: Row, now: float) -> dict[str, Any]:
    request_id, _, choice = row.id.rpartition("/")
    return {
        "id": request_id or row.id,
        "choice": int(choice) if request_id and choice.isdecimal() else 0,
        "prompt_tokens": len(row.prompt.token_ids),
        "cached_tokens": row.cached,
        "generated_tokens": len(row.generated),
        "age_seconds": round(max(now - row.arrived, 0.0), 3),
        "tenant": row.tenant,
        "priority": row.priority,
        "setbacks": row.setbacks,
    }
