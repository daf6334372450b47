"""What rank 0 tells the others: numbered records in JSON, of a version. Never pickle.

Every rank runs the same engine on its part of the model. An order is something from outside (a request, an abort, the
end of a pause), or the answer to a question that the ranks would answer differently: what the next step does, how much
memory is left, which sequences have ended. The follower asks the same questions in the same order, and takes rank 0's
answers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

PROTOCOL = 1  # both ends have the same, or the handshake fails
Kind = Literal[
    # from outside
    "add",  # a sequence
    "abort",  # a sequence ends
    "step",  # the engine steps
    "clear",  # the prefix cache is cleared
    "stop",  # the server ends
    # answers
    "plan",  # of the step
    "wants_tokens",  # is the step in flight read before the next plan?
    "release",  # must finished sequences leave the batch now?
    "overflow",  # which sequences the queue has no room for
    "bytes",  # how much memory is left, or held
    "ended",  # which sequences end with the tokens of this step
    "digest",  # of what the engine holds after the step
    # between the processes
    "ping",
    "pong",
    "ready",  # the model is loaded
    "lost",  # this rank cannot go on
]
KINDS: frozenset[str] = frozenset(get_args(Kind))


class BadOrder(Exception):
    """A record that is no order, or not the one that was due."""


@dataclass(frozen=True, slots=True)
class Order:
    number: int  # each end counts its own, from 1
    kind: Kind
    body: Mapping[str, Any] = field(default_factory=dict)

    def encoded(self) -> bytes:
        record = {"version": PROTOCOL, "number": self.number, "kind": self.kind, "body": self.body}
        return json.dumps(record, separators=(",", ":"), allow_nan=True).encode()

    @classmethod
    def decoded(cls, payload: bytes) -> Order:
        """Raises BadOrder."""
        try:
            record = json.loads(payload)
            version, number, kind, body = (record[name] for name in ("version", "number", "kind", "body"))
        except (ValueError, KeyError, TypeError) as error:
            raise BadOrder(f"no order: {error}") from error
        if version != PROTOCOL:
            raise BadOrder(f"an order of version {version}, and this rank knows {PROTOCOL}")
        if not isinstance(number, int) or kind not in KINDS or not isinstance(body, dict):
            raise BadOrder(f"no order: number {number!r}, kind {kind!r}")
        return cls(number, kind, body)
