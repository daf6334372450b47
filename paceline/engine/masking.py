"""What grammars allow, applied to scores."""

from __future__ import annotations

import mlx.core as mx

from paceline.types import INHERITS

LOWEST = -1e30  # a finite stand-in for the sum of nothing


def masked(scores: mx.array, allowed: mx.array) -> mx.array:
    """`allowed` (..., vocabulary) is boolean, or of `types.INHERITS` where tokens take over others' probability.

    Where a model may call a tool or write in a format, and would rather write prose, plain masking leaves a choice
    between two things that it does not want, and a call may win with a probability of one in a thousand. So all that is
    not a call's beginning counts as the wish for text: the probability of what is refused goes to the tokens that begin
    the text, in proportion to their own.
    """
    if allowed.dtype == mx.bool_:
        return mx.where(allowed, scores, -mx.inf)
    heirs, plain = allowed == INHERITS, allowed == 1
    estate = mx.logsumexp(mx.where(plain, -mx.inf, scores), axis=-1, keepdims=True)
    own = mx.logsumexp(mx.where(heirs, scores, -mx.inf), axis=-1, keepdims=True)
    inherited = scores - mx.maximum(own, LOWEST) + estate
    return mx.where(heirs, inherited, mx.where(plain, scores, -mx.inf))
