"""A model as lists of models show it, loaded or not: OpenAI's, Anthropic's and Ollama's forms."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from paceline import generation_config
from paceline.errors import LoadError
from paceline.front.catalog import Entry
from paceline.front.pool import Pool, Slot
from paceline.models.description import Description, describe
from paceline.server.ollama.models import NEVER, description, model_card
from paceline.types import Sampling


@dataclass(frozen=True, slots=True)
class Cards:
    pool: Pool
    started: int

    @classmethod
    def of(cls, pool: Pool) -> Cards:
        return cls(pool, int(time.time()))

    async def all(self, form: Callable[[Cards, str, Slot], dict[str, Any]]) -> list[dict[str, Any]]:
        """A card for every name, a model's own before its aliases. In a thread: files are read."""
        await self.pool.refresh()
        names = self.names()
        return await asyncio.to_thread(lambda: [form(self, name, slot) for name, slot in names])

    async def one(self, form: Callable[[Cards, str, Slot], dict[str, Any]], name: str, slot: Slot) -> dict[str, Any]:
        return await asyncio.to_thread(form, self, name, slot)

    def names(self) -> list[tuple[str, Slot]]:
        return [(name, slot) for slot in self.pool.slots() for name in slot.entry.names]

    def openai(self, name: str, slot: Slot) -> dict[str, Any]:
        about = described(slot.entry)
        return {
            "id": name,
            "object": "model",
            "created": self.started,
            "owned_by": "paceline",
            "root": slot.name,
            "parent": None,
            "max_model_len": context_length(slot.entry),
            "sampling_defaults": sampling_defaults(slot.entry),
            "state": slot.state,
            "why": slot.why,
            "pinned": slot.entry.pinned,
            "aliases": list(slot.entry.aliases),
            "size_bytes": None if about is None else about.size,
        }

    def anthropic(self, name: str, slot: Slot) -> dict[str, Any]:
        length = context_length(slot.entry)
        created = datetime.fromtimestamp(self.started, UTC).isoformat().replace("+00:00", "Z")
        card = {"type": "model", "id": name, "display_name": name, "created_at": created, "lifecycle": "active"}
        return {**card, "max_input_tokens": length, "max_tokens": length}

    def ollama(self, name: str, slot: Slot) -> dict[str, Any]:
        about = described(slot.entry)
        size, family = (0, "") if about is None else (about.size, about.family)
        card = model_card(name, size, family, None if about is None else about.quantization)
        return {**card, "modified_at": datetime.fromtimestamp(self.started, UTC).isoformat()}

    def ollama_running(self, slot: Slot) -> dict[str, Any]:
        left = self.pool.expires_in(slot)
        expires = NEVER
        if left is not None:
            expires = datetime.fromtimestamp(time.time() + left, UTC).isoformat()
        more = {"expires_at": expires, "size_vram": slot.granted, "context_length": context_length(slot.entry)}
        return {**self.ollama(slot.name, slot), **more}

    def ollama_shown(self, slot: Slot) -> dict[str, Any]:
        """Without loading it."""
        about, card = described(slot.entry), self.ollama(slot.name, slot)
        has = {"completion": True}
        if about is not None:
            has |= {"vision": about.sees, "tools": about.calls_tools}
        shown = description(card, "{{ .Prompt }}", context_length(slot.entry), has)
        return {**shown, "modified_at": card["modified_at"]}


def described(entry: Entry) -> Description | None:
    """None: it must be downloaded first, or its files are damaged."""
    folder = entry.folder()
    return None if folder is None else _described(folder)


@lru_cache(maxsize=1024)
def _described(folder: Path) -> Description | None:
    try:
        return describe(folder)
    except (LoadError, OSError):
        return None


def context_length(entry: Entry) -> int | None:
    if entry.settings.context_length is not None:
        return entry.settings.context_length
    about = described(entry)
    return None if about is None else about.context_length


def sampling_defaults(entry: Entry) -> dict[str, float | None] | None:
    folder, settings = entry.folder(), entry.settings
    if folder is None:
        return None
    try:
        found = generation_config.defaults(folder, settings.generation_config, settings.override_generation_config)
        return generation_config.shown(Sampling(**dict(found.values)))  # type: ignore[arg-type]
    except LoadError:
        return None
