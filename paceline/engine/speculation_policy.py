"""How a request decodes: decided once, in one place, with the reason. No MLX.

Text and image sequences draft alike, in the same batch: the MTP head reads their prompts, images included. The
request's own setting overrides the server's. Which of the allowed methods drafts is decided step by step, by what pays
(engine/draft_choice).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from paceline.types import SPECULATION_METHODS, Prompt, Sampling, Speculation, SpeculationMethod

HEADED: tuple[SpeculationMethod, ...] = ("mtp",)
DEVICE_METHODS: tuple[SpeculationMethod, ...] = ("mtp", "draft_model")  # a server has one of them


@dataclass(frozen=True, slots=True)
class SpeculationMode:
    """`draft_length`: draft tokens in every step; None: as many as pay (engine/draft_length); 0: none."""

    draft_length: int | None
    reason: str
    methods: tuple[SpeculationMethod, ...] = HEADED  # those that may draft

    @property
    def drafts(self) -> bool:
        return self.draft_length != 0

    @property
    def head_length(self) -> int | None:
        """The same for the proposer on the device alone."""
        return self.draft_length if any(method in self.methods for method in DEVICE_METHODS) else 0


PLAIN = SpeculationMode(0, "plain decoding")


@dataclass(frozen=True, slots=True)
class SpeculationPolicy:
    """`no_head`: why the MTP head does not draft, or None when it can. `methods`: those that the server allows;
    `unavailable`: why some of the others do not draft."""

    setting: Speculation = "auto"
    no_head: str | None = None
    methods: tuple[SpeculationMethod, ...] = HEADED
    unavailable: Mapping[SpeculationMethod, str] = field(default_factory=dict)

    @property
    def available(self) -> tuple[SpeculationMethod, ...]:
        """The methods that may draft here."""
        return tuple(method for method in self.methods if self.why_not(method) is None)

    def why_not(self, method: SpeculationMethod) -> str | None:
        """Why a method does not draft here; None: it does."""
        if method == "mtp" and self.no_head is not None:
            return self.no_head
        if method not in self.methods:
            return "the server's speculation_methods leave it out"
        return self.unavailable.get(method)

    @property
    def missing(self) -> dict[SpeculationMethod, str]:
        """Why methods do not draft here."""
        return {method: why for method in SPECULATION_METHODS if (why := self.why_not(method)) is not None}

    @property
    def cannot_draft(self) -> str | None:
        """Why no method drafts here; None: one does."""
        if self.available:
            return None
        # Every model lacks some method, and most lack a head: why prompt lookup does not draft says more.
        wanted = sorted(self.methods, key=lambda method: method != "lookup")
        return next((why for method in wanted if (why := self.why_not(method))), "the server allows no method")

    def mode(self, prompt: Prompt, sampling: Sampling) -> SpeculationMode:
        asked = sampling.speculation
        wanted, who = (self.setting, "the server") if asked is None else (asked, "the request")
        methods = self.available
        if sampling.speculation_method is not None:
            methods = tuple(method for method in methods if method == sampling.speculation_method)
        if not methods:
            return SpeculationMode(0, f"plain: {self.cannot_draft or 'the method of the request does not draft here'}")
        if wanted == "off":
            return SpeculationMode(0, f"plain: {who} says so")
        if sampling.max_tokens == 0 or prompt.pooling is not None:
            return SpeculationMode(0, "plain: nothing is generated")
        kind = "images, which the head reads too" if prompt.media else "text only"
        by = "" if methods == HEADED else f", by {' or '.join(methods)}"
        if wanted == "auto":
            return SpeculationMode(None, f"drafts as deep as it pays{by}: {kind}", methods)
        return SpeculationMode(wanted, f"drafts {wanted} a step, as {who} says{by}: {kind}", methods)
