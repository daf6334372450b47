"""What a row hears: its tokens as text, and how it ended. No MLX."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from paceline.types import Delta, FinishReason, PromptInfo, TokenLogprob

if TYPE_CHECKING:
    from paceline.engine.row import Row
    from paceline.errors import InvalidRequest, Refused


def word(row: Row, token: int, logprob: TokenLogprob | None, *, guessed: bool = False) -> FinishReason | None:
    """Its next token. Sends what can be said now; returns how the row has ended with it, None: it goes on."""
    row.generated.append(token)
    row.accepted += guessed
    row.rejected -= guessed
    if row.grammar is not None:
        row.grammar.accept(token)
    count = len(row.generated)
    may_stop = count > row.sampling.min_tokens
    if may_stop and token in row.ends:
        row.text.silent(token, logprob)
        return last_words(row, "stop", stop_reason=token if token in row.sampling.stop_token_ids else None)
    piece = row.text.push(token, logprob, may_stop=may_stop)
    if piece.stop is not None:
        send(row, Delta(piece.text, piece.token_ids, piece.logprobs, "stop", piece.stop))
        return "stop"
    if count >= row.limit:
        send(row, Delta(piece.text, piece.token_ids, piece.logprobs))
        return last_words(row, "length")
    if piece.token_ids or piece.text:
        send(row, Delta(piece.text, piece.token_ids, piece.logprobs))
    return None


def last_words(
    row: Row,
    reason: FinishReason,
    *,
    stop_reason: str | int | None = None,
    error: str | None = None,
    refusal: Refused | InvalidRequest | None = None,
) -> FinishReason:
    """It is over: what its text still holds goes out with the reason, which that text may change. Returns it."""
    if reason not in ("stop", "length"):
        send(row, Delta(finish_reason=reason, error=error, refusal=refusal))
        return reason
    piece = row.text.finish(may_stop=len(row.generated) > row.sampling.min_tokens)
    if piece.stop is not None:
        reason, stop_reason = "stop", piece.stop
    send(row, Delta(piece.text, piece.token_ids, piece.logprobs, reason, stop_reason, error))
    return reason


def send(row: Row, delta: Delta) -> None:
    """The first delta tells of the prompt, the last one of what was used."""
    prompt = None
    if not row.greeted:
        row.greeted = True
        scores = row.prompt_logprobs
        known = None if scores is None else tuple(scores)
        prompt = PromptInfo(row.prompt.token_ids, known, row.route.reason, row.cached, row.prompt.tail, row.queued)
    usage = row.usage if delta.finish_reason is not None else None
    if prompt is not None or usage is not None:
        delta = replace(delta, usage=usage, prompt=prompt)
    row.sink(delta)
