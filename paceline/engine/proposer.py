"""Who proposes draft tokens: the one interface between proposers and the engine. No MLX.

A proposer on the device (`DeviceProposer`) drafts for all rows of a step at once, with sampling, and without a host
read. A proposer on the host (`HostProposer`) knows a sequence's next tokens from its text: it makes an offer per
sequence and step, once all earlier tokens were read. Rows of one step may have different proposers: the runner puts all
draft tokens into one array, and one forward pass verifies them. A draft token from the host is certain: its proposer
gives no probability, which is a distribution with all weight on one token.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from paceline.types import LONGEST_DRAFT, MAX_DRAFTED, SpeculationMethod

if TYPE_CHECKING:
    from paceline.cache.batch import Batch
    from paceline.engine import sequence
    from paceline.engine.forward import Forward


@dataclass(frozen=True, slots=True)
class Offer:
    """Tokens that a sequence may say next, and for each the probability that it does if it said those before."""

    method: SpeculationMethod
    tokens: tuple[int, ...]
    rates: tuple[float, ...]

    def cut(self, length: int) -> Offer:
        return Offer(self.method, self.tokens[:length], self.rates[:length])


@dataclass(frozen=True, slots=True)
class Draft:
    """What a sequence drafts in the next step. `tokens`: known to the host; else a device proposer drafts them."""

    method: SpeculationMethod = "mtp"
    length: int = 0
    tokens: tuple[int, ...] = ()


NO_DRAFT = Draft()


class Proposer(ABC):
    method: SpeculationMethod
    longest: int  # draft tokens for a row in one step


class HostProposer(Proposer):
    """On the engine's thread, between two steps: every call must be cheap, above all one without an offer."""

    longest = LONGEST_DRAFT

    @abstractmethod
    def offer(self, seq: sequence.Sequence) -> Offer | None:
        """What it would draft for a sequence whose tokens were all read."""

    @abstractmethod
    def peek(self, seq: sequence.Sequence) -> Offer | None:
        """What it would probably offer after the step in flight: is that step worth waiting for?"""

    def finished(self, seq: sequence.Sequence) -> None:
        """The sequence has ended, and `seq.finished` says how."""


class DeviceProposer(Proposer):
    """Has a batch of its own with the same sequences as the target's. Arrays are MLX's.

    A step calls `propose`, if a row drafts with it, and then `add_pending` with the step's results. `propose` commits
    nothing: a failed step can be retried. `sync_lengths` tells how many tokens the oldest unread step has kept.
    """

    longest = MAX_DRAFTED

    forward: Forward  # its passes
    batch: Batch | None  # of its rows

    def begin_step(self, seqs: Collection[sequence.Sequence]) -> None:
        """A decode step of these sequences begins; all steps before it with drafts were read."""

    @abstractmethod
    def join(self, seq: sequence.Sequence, at: Any) -> None: ...

    @abstractmethod
    def keep(self, rows: list[int], seqs: Collection[sequence.Sequence]) -> None:
        """Only these rows of the target's batch stay, which are these sequences'."""

    @abstractmethod
    def clear(self) -> None: ...

    @abstractmethod
    def can_run_ahead(self, length: int) -> bool:
        """Can it draft on before the host knows how many tokens the last step has kept?"""

    @abstractmethod
    def propose(self, length: int, choose: Any, rows: list[sequence.Sequence | None], inputs: Any) -> list[Any]:
        """`length` draft tokens for every row of the target's batch, each (rows,); none: the step does without.
        `choose` samples: logits, place, tokens before. `inputs`: each row's next token."""

    @abstractmethod
    def add_pending(self, tokens: Any, hidden: Any, counts: Any) -> None:
        """Results of a step: hidden states (rows, width, hidden) and the tokens that followed them."""

    @abstractmethod
    def sync_lengths(self, kept: list[int]) -> None: ...

    @abstractmethod
    def arrays(self) -> Sequence[Any]:
        """Arrays to evaluate with each step, so that no graph grows."""
