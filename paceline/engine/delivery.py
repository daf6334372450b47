"""What a sequence's client receives: tokens as text, and the finish reason. No MLX."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from paceline.types import Acceptance, Delta, FinishReason, PromptInfo, TokenLogprob

if TYPE_CHECKING:
    from paceline.engine.sequence import Sequence
    from paceline.errors import InvalidRequest, Refused


class Arrivals:
    """Sequences whose clients are to be told that they were accepted."""

    def __init__(self) -> None:
        self._sequences: list[Sequence] = []

    def add(self, seq: Sequence) -> None:
        if seq.request.announce:
            self._sequences.append(seq)

    def announce(self) -> None:
        """The step is planned: a sequence that has not ended runs, or has its place in the queue."""
        for seq in self._sequences:
            if seq.finished is None:
                count = len(seq.prompt.token_ids)
                restored = seq.queue.started and not seq.prefix.waiting
                cached = seq.prefix.cached_tokens if restored else count - seq.queue.uncached_tokens
                seq.sink(Delta(accepted=Acceptance(count, cached)))
        self._sequences.clear()


def deliver_token(
    seq: Sequence, token: int, logprob: TokenLogprob | None, *, drafted: bool = False
) -> FinishReason | None:
    """Deliver the next token. Sends what can be sent now; returns the finish reason, None: it continues."""
    seq.generated.append(token)
    seq.accepted += drafted
    seq.rejected -= drafted
    if seq.grammar is not None:
        seq.grammar.accept(token)
    count = len(seq.generated)
    may_stop = count > seq.sampling.min_tokens
    if may_stop and token in seq.stop_ids:
        seq.text.silent(token, logprob)
        return finish(seq, "stop", stop_reason=token if token in seq.sampling.stop_token_ids else None)
    piece = seq.text.push(token, logprob, may_stop=may_stop)
    if piece.stop is not None:
        send(seq, Delta(piece.text, piece.token_ids, piece.logprobs, "stop", piece.stop))
        return "stop"
    if count >= seq.max_tokens:
        send(seq, Delta(piece.text, piece.token_ids, piece.logprobs))
        return finish(seq, "length")
    if piece.token_ids or piece.text:
        drafts = (seq.accepted, max(seq.rejected, 0))
        send(seq, Delta(piece.text, piece.token_ids, piece.logprobs, drafts=drafts))
    return None


def deliver_vector(seq: Sequence, vector: NDArray[np.float32] | None) -> bool:
    """An embedding; False: there is none, and nothing was sent."""
    if vector is None:
        return False
    send(seq, Delta(finish_reason="stop", vector=vector))
    return True


def finish(
    seq: Sequence,
    reason: FinishReason,
    *,
    stop_reason: str | int | None = None,
    error: str | None = None,
    refusal: Refused | InvalidRequest | None = None,
) -> FinishReason:
    """Send what the text stream still holds with the finish reason, which that text may change. Returns the reason."""
    if reason not in ("stop", "length"):
        send(seq, Delta(finish_reason=reason, error=error, refusal=refusal))
        return reason
    piece = seq.text.finish(may_stop=len(seq.generated) > seq.sampling.min_tokens)
    if piece.stop is not None:
        reason, stop_reason = "stop", piece.stop
    send(seq, Delta(piece.text, piece.token_ids, piece.logprobs, reason, stop_reason, error))
    return reason


def send(seq: Sequence, delta: Delta) -> None:
    """The first delta carries the prompt's facts, the last one the usage."""
    prompt = None
    if not seq.first_delta_sent:
        seq.first_delta_sent = True
        scores = seq.prompt_logprobs
        known = None if scores is None else tuple(scores)
        prompt = PromptInfo(
            seq.prompt.token_ids,
            known,
            seq.speculation.reason,
            seq.prefix.cached_tokens,
            seq.prompt.tail,
            seq.queue.seconds,
        )
    usage = seq.usage if delta.finish_reason is not None else None
    if prompt is not None or usage is not None:
        delta = replace(delta, usage=usage, prompt=prompt)
    seq.sink(delta)
