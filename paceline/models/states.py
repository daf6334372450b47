"""Can a model's hidden states be had, and how wide are they? Asked once at start, for embeddings."""

from __future__ import annotations

import mlx.core as mx
from mlx_lm.models.cache import make_prompt_cache

from paceline.models.adapter import Adapted

PROBE = (1, 2, 3, 1, 2)  # tokens that every vocabulary has
TIES = 1e-3  # of the largest logit: a cap on logits makes neighbours equal in half precision


def hidden_size(language: Adapted) -> int | None:
    """The width of the states after the final norm; None where a family does not hand them out.

    What a family calls its text model need not end with the final norm (GPT-NeoX's ends with logits). So the states
    are put through the output head, and must choose the tokens that the whole model chooses.
    """
    try:
        tokens = mx.array([PROBE]) % language.vocab_size
        hidden = language.hidden(tokens, make_prompt_cache(language.module))
        expected = language.module(tokens, cache=make_prompt_cache(language.module)).astype(mx.float32)
        chosen = mx.argmax(language.logits(hidden), axis=-1, keepdims=True)
        missed = expected.max(axis=-1) - mx.take_along_axis(expected, chosen, axis=-1)[..., 0]
        agrees = bool((missed <= TIES * mx.abs(expected).max()).all().item())
    except Exception:  # noqa: BLE001  a family that is built otherwise fails here in any way
        return None
    return int(hidden.shape[-1]) if agrees else None
