"""How a request decodes, decided once, in one place, with the reason. No MLX.

Text rows draft. Media rows ride in the same batch and draft too: the head is fed with their prompt, pictures
included. What the request says is stronger than what the server is set to.
"""

from __future__ import annotations

from dataclasses import dataclass

from paceline.types import Prompt, Sampling, Speculation


@dataclass(frozen=True, slots=True)
class Route:
    """`depth`: draft tokens at every step; None: as many as pay (engine/depth); 0: none, ever."""

    depth: int | None
    reason: str

    @property
    def drafts(self) -> bool:
        return self.depth != 0


@dataclass(frozen=True, slots=True)
class Router:
    """`no_head`: why this model cannot draft, or None when it can."""

    setting: Speculation = "auto"
    no_head: str | None = None

    def route(self, prompt: Prompt, sampling: Sampling) -> Route:
        asked = sampling.speculation
        wanted, who = (self.setting, "the server") if asked is None else (asked, "the request")
        if self.no_head is not None:
            return Route(0, f"plain: {self.no_head}")
        if wanted == "off":
            return Route(0, f"plain: {who} says so")
        if sampling.max_tokens == 0 or prompt.pooling is not None:
            return Route(0, "plain: nothing is generated")
        kind = "media, the head reads the pictures too" if prompt.images else "text only"
        if wanted == "auto":
            return Route(None, f"drafts as deep as it pays: {kind}")
        return Route(wanted, f"drafts {wanted} a step, as {who} says: {kind}")
