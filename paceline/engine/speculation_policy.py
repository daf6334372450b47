"""How a request decodes: decided once, in one place, with the reason. No MLX.

Text and image sequences draft alike, in the same batch: the MTP head reads their prompts, images included. The
request's own setting overrides the server's.
"""

from __future__ import annotations

from dataclasses import dataclass

from paceline.types import Prompt, Sampling, Speculation


@dataclass(frozen=True, slots=True)
class SpeculationMode:
    """`draft_length`: draft tokens in every step; None: as many as pay (engine/draft_length); 0: none."""

    draft_length: int | None
    reason: str

    @property
    def drafts(self) -> bool:
        return self.draft_length != 0


PLAIN = SpeculationMode(0, "plain: nobody decided otherwise")


@dataclass(frozen=True, slots=True)
class SpeculationPolicy:
    """`no_head`: why this model cannot draft, or None when it can."""

    setting: Speculation = "auto"
    no_head: str | None = None

    def mode(self, prompt: Prompt, sampling: Sampling) -> SpeculationMode:
        asked = sampling.speculation
        wanted, who = (self.setting, "the server") if asked is None else (asked, "the request")
        if self.no_head is not None:
            return SpeculationMode(0, f"plain: {self.no_head}")
        if wanted == "off":
            return SpeculationMode(0, f"plain: {who} says so")
        if sampling.max_tokens == 0 or prompt.pooling is not None:
            return SpeculationMode(0, "plain: nothing is generated")
        kind = "images, which the head reads too" if prompt.media else "text only"
        if wanted == "auto":
            return SpeculationMode(None, f"drafts as deep as it pays: {kind}")
        return SpeculationMode(wanted, f"drafts {wanted} a step, as {who} says: {kind}")
