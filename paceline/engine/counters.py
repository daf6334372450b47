"""What the engine has done, in numbers. No MLX."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Counters:
    """What the engine has done since it started; written by its thread, read by anyone."""

    steps: int = 0
    decode_steps: int = 0
    prompt_tokens: int = 0
    generated_tokens: int = 0
    finished: dict[str, int] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)  # by cause
    failed_steps: int = 0
    out_of_memory: int = 0
    queue_seconds: float = 0.0  # that sequences waited before they ran, all together
    queued: int = 0  # sequences that this was
