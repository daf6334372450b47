"""Who may run a model together: ranks with the same program, the same weights and the same settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from paceline.errors import PacelineError
from paceline.ranks.orders import PROTOCOL


class RankRefused(PacelineError):
    """A rank cannot take part, because it differs (the CLI exits with 2: to start it again does not help)."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What a rank says of itself. `settings`: those that all ranks must have in common."""

    rank: int
    world: int  # ranks in all
    version: str  # of Paceline
    packages: str  # that the model is computed with
    weights: str  # digest of the checkpoint's configuration and weights
    settings: Mapping[str, str]
    protocol: int = PROTOCOL

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"settings": dict(self.settings)}

    @classmethod
    def from_json(cls, found: Any) -> Identity:
        """Raises RankRefused. One of another protocol may have other fields: that is said first."""
        if not isinstance(found, dict) or found.get("protocol") != PROTOCOL:
            spoken = found.get("protocol") if isinstance(found, dict) else None
            raise RankRefused(f"it speaks version {spoken} of the protocol, and rank 0 version {PROTOCOL}.")
        try:
            return cls(**found)
        except TypeError as error:
            raise RankRefused(f"it does not say who it is: {error}.") from error

    def check(self, other: Identity) -> None:
        """Raises RankRefused with what differs; `self` is rank 0."""
        if other.world != self.world:
            raise RankRefused(f"it was started as one of {other.world} ranks, and rank 0 as one of {self.world}.")
        if not 0 < other.rank < self.world:
            raise RankRefused(f"there is no rank {other.rank} among {self.world}.")
        for name, mine, theirs in (
            ("Paceline", self.version, other.version),
            ("packages", self.packages, other.packages),
        ):
            if mine != theirs:
                raise RankRefused(f"it has {name} {theirs}, and rank 0 has {mine}.")
        if self.weights != other.weights:
            raise RankRefused("its weights or its config.json differ from those of rank 0.")
        for name in sorted({*self.settings, *other.settings}):
            mine, theirs = self.settings.get(name, "nothing"), other.settings.get(name, "nothing")
            if mine != theirs:
                raise RankRefused(f"{name} is {theirs} there, and {mine} on rank 0.")
