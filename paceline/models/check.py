"""The start-up check: sequences in a batch give what mlx-lm gives for one, on this model and this machine.

It catches a model that uses its cache in a way that has no batched form, and a kernel that disagrees with its plain
form, before a client gets a wrong answer. It also serves as the warm-up.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import mlx.core as mx
import numpy as np
from mlx_lm.models.cache import make_prompt_cache

from paceline.cache.batch import Batch
from paceline.cache.slot_plan import PADDED, ROWS, Grouping
from paceline.cache.stacking import stack
from paceline.errors import LoadError
from paceline.models.adapter import Adapted
from paceline.models.positions import Positions, dynamic_reach

log = logging.getLogger("paceline")
# A way to run a step: tokens (rows, width), the batch, whether it is tentative -> logits of all tokens, and a close
Step = Callable[[mx.array, Batch, bool], tuple[mx.array, Callable[[], None]]]
PROMPTS = (9, 5)  # tokens of the two rows
PIECE = 3  # tokens of a prefill chunk
# The same where kernels of ours prefill, in one pass: one has more than two of a kernel's chunks, the other is in the
# widest form of a few rows' products.
WIDE = (70, 33)
PLACES = 4  # in a bucket of rows: two are padding
STEPS = 3
ROUNDS = ((2, 1), (1, 3), (3, 2))  # of a speculative step's three tokens, the two rows keep these
TOLERANCE = {mx.float32: 1e-3, mx.float16: 0.05, mx.bfloat16: 0.1}  # of the largest logit


def choose_layout(model: Adapted, choices: Sequence[Grouping]) -> Grouping:
    """The first layout with which the model is right. Also corrects the vocabulary size to that of the logits.

    If no layout is right with our kernels, they are switched off and the plain forms are tried.
    """
    complaints: dict[str, None] = {}  # an ordered set: two layouts often fail alike
    for grouping in choices:
        try:
            errors = [batched_error(model, form) for form in forms(grouping)]
            if model.uses_kernels:
                errors.append(batched_error(model, forms(grouping)[0], WIDE, max(WIDE)))
        except Exception as problem:  # noqa: BLE001  any failure rules the layout out
            complaints[f"{type(problem).__name__}: {problem}"] = None
            continue
        worst = max((error for error in errors if error is not None), default=None)
        if worst is None:
            return grouping
        complaints[f"logits differ by {worst:.2g} of the largest"] = None
    if model.use_kernels(False):
        log.warning("our kernels disagree with their plain forms here and are not used: %s", "; ".join(complaints))
        return choose_layout(model, choices)
    raise LoadError(
        "This model does not give the same answers in a batch as alone, so it is not served: " + "; ".join(complaints)
    )


def forms(grouping: Grouping) -> tuple[Grouping, ...]:
    """The shapes that a batch has in a layout: separate rows, padded rows, or both by turns.

    In a layout of groups the check's few tokens would always be padded, and hide a model that fails separately.
    """
    if grouping.skew in (ROWS.skew, PADDED.skew):
        return (grouping,)
    return replace(ROWS, buckets=grouping.buckets), replace(PADDED, buckets=grouping.buckets)


def batched_error(
    model: Adapted, grouping: Grouping, lengths: Sequence[int] = PROMPTS, piece: int = PIECE
) -> float | None:
    """Two rows, prefilled in chunks and decoded together, compared with mlx-lm's caches without our kernels. None: they
    agree."""
    prompts = _prompts(model, lengths)
    with model.plain():
        expected = [_alone(model, prompt) for prompt in prompts]
    batch = two_rows(model, grouping, lengths, piece)
    model.vocab_size = expected[0][0].shape[-1]  # after the rows: their prompts depend on it
    tokens = mx.array([prompt[-1] for prompt in prompts])
    worst = 0.0
    for step in range(STEPS):
        logits = decode(model, batch, tokens)
        for row, reference in enumerate(expected):
            worst = max(worst, difference(logits[row], reference[step]))
        tokens = mx.stack([mx.argmax(reference[step]) for reference in expected])
    return None if worst <= tolerance(expected[0][0]) else worst


def two_rows(model: Adapted, grouping: Grouping, lengths: Sequence[int] = PROMPTS, piece: int = PIECE) -> Batch:
    """A batch of two rows of different lengths, each prefilled in chunks up to its last token. Where rows come from
    buckets and lie together, there is padding behind them, and the second takes the place of some."""
    batch: Batch | None = None
    for prompt in _prompts(model, lengths):
        row = _row(model, grouping, prompt, piece)
        if batch is None:
            padded = grouping.buckets.rows and grouping.skew == PADDED.skew
            batch = stack([row], grouping.buckets.row_count(PLACES)) if padded else row
        elif batch.join(row).row != 1:
            raise LoadError("rows joined out of order")
    assert batch is not None
    mx.eval(batch.arrays())
    return batch


def _row(model: Adapted, grouping: Grouping, prompt: Sequence[int], piece: int) -> Batch:
    """A row that is prefilled in chunks up to its last token."""
    row = model.batch(grouping)
    body = list(prompt[:-1])
    for start in range(0, len(body), piece):
        part = body[start : start + piece]
        positions = None
        if model.dynamic_rope:
            reach = dynamic_reach(start, start + len(part), len(prompt))
            positions = Positions(mx.arange(start, start + len(part))[None], mx.array(reach)[None])
        width = grouping.buckets.width(len(part)) if positions is None else len(part)
        row.begin(width, positions, valid=[len(part)])
        model.module(mx.array([part + [0] * (width - len(part))]), cache=row.layers)
        row.commit()
    return row


def company_error(model: Adapted, grouping: Grouping) -> float:
    """Two rows in a batch, compared with each alone in the same form of keys and values."""
    prompts = _prompts(model)
    alone = [_row(model, ROWS, prompt, len(prompt)) for prompt in prompts]
    batch = two_rows(model, grouping)
    tokens = mx.array([prompt[-1] for prompt in prompts])
    worst = 0.0
    for _ in range(STEPS):
        logits = decode(model, batch, tokens)
        expected = mx.concatenate([decode(model, row, tokens[place : place + 1]) for place, row in enumerate(alone)])
        worst = max(worst, *(difference(logits[place], expected[place]) for place in range(len(alone))))
        tokens = mx.argmax(expected, axis=-1)
    return worst


def decode(model: Adapted, batch: Batch, tokens: mx.array) -> mx.array:
    """One plain decode step of the first rows, evaluated. Rows behind them are padding."""
    positions = None
    if model.dynamic_rope:
        lengths = mx.array(batch.lengths)[:, None]
        positions = Positions(lengths, lengths + 1)
    batch.begin(1, positions)
    logits = model.module(_padded(tokens, batch)[:, None], cache=batch.layers)[: len(tokens), -1]
    batch.commit()
    mx.eval(logits, batch.arrays())
    return logits


def _padded(tokens: mx.array, batch: Batch) -> mx.array:
    return mx.pad(tokens, [(0, batch.rows - len(tokens)), *[(0, 0)] * (tokens.ndim - 1)])


def plain_step(model: Adapted) -> Step:
    def step(tokens: mx.array, batch: Batch, tentative: bool) -> tuple[mx.array, Callable[[], None]]:
        batch.begin(tokens.shape[1], tentative=tentative)
        return model.module(tokens, cache=batch.layers), batch.close

    return step


def agrees(model: Adapted, grouping: Grouping, step: Step) -> bool:
    """Whether another way to run a decode step gives the plain step's logits."""
    return all(_agrees(model, form, step) for form in forms(grouping))


def _agrees(model: Adapted, grouping: Grouping, step: Step) -> bool:
    plain, other = two_rows(model, grouping), two_rows(model, grouping)
    tokens = mx.array([prompt[-1] for prompt in _prompts(model)])
    for _ in range(STEPS):
        expected = decode(model, plain, tokens)
        logits, close = step(_padded(tokens, other)[:, None], other, False)
        close()
        other.advance([1] * other.rows)
        mx.eval(logits, other.arrays())
        if difference(logits[: len(tokens), -1], expected) > tolerance(expected):
            return False
        tokens = mx.argmax(expected, axis=-1)
    return plain.lengths == other.lengths


@dataclass(frozen=True, slots=True)
class _Plain:
    """What two rows give in plain steps."""

    tokens: mx.array  # (rows, steps): what each step reads
    logits: mx.array  # (rows, steps, vocabulary)

    @classmethod
    def of(cls, model: Adapted, grouping: Grouping) -> _Plain:
        batch = two_rows(model, grouping, piece=max(PROMPTS))
        current = mx.array([prompt[-1] for prompt in _prompts(model)])
        inputs, logits = [], []
        for _ in range(max(map(sum, zip(*ROUNDS, strict=True))) + 1):
            inputs.append(current)
            logits.append(decode(model, batch, current))
            current = mx.argmax(logits[-1], axis=-1)
        return cls(mx.stack(inputs, axis=1), mx.stack(logits, axis=1))


def rolls_back(model: Adapted, grouping: Grouping, step: Step) -> bool:
    """Whether a step with rejected tokens gives what plain decoding of the accepted ones gives.

    Every start pays for this. So the forms of a layout share the plain steps of the first one; only a form that
    disagrees with those is compared with its own. Prompts are read in one pass: `batched_error` has checked chunks.
    """
    plain: _Plain | None = None
    for form in forms(grouping):
        if plain is None or not _rolls_back(model, form, step, plain):
            plain = _Plain.of(model, form)
            if not _rolls_back(model, form, step, plain):
                return False
    return True


def _rolls_back(model: Adapted, grouping: Grouping, step: Step, plain: _Plain) -> bool:
    """Both rows decode in speculative steps of three tokens and accept different numbers of them."""
    batch, done = two_rows(model, grouping, piece=max(PROMPTS)), [0, 0]
    for kept in [*ROUNDS, (1, 1)]:
        width = 1 if kept == (1, 1) else 3
        tokens = mx.stack([plain.tokens[row, done[row] : done[row] + width] for row in (0, 1)])
        if width > 1:  # tokens to be rejected are wrong ones
            wrong = mx.arange(width)[None] >= mx.array(kept)[:, None]
            tokens = mx.where(wrong, (tokens + 1) % model.vocab_size, tokens)
        logits, close = step(_padded(tokens, batch), batch, width > 1)
        close()
        counts = _padded(mx.array(kept, dtype=mx.int32), batch)
        if width > 1:
            batch.apply_accepted(counts)
        batch.advance([*kept, *[0] * (batch.rows - 2)])
        mx.eval(logits, batch.arrays())
        for row in (0, 1):
            want = plain.logits[row, done[row] : done[row] + kept[row]]
            if difference(logits[row, : kept[row]], want) > tolerance(want):
                return False
            done[row] += kept[row]
    return True


def accepts_position_ids(model: Adapted) -> bool:
    """Whether a prompt gives the same logits with explicit position ids."""
    prompt = mx.array([_prompts(model)[0]])
    found = []
    for positions in (None, Positions(mx.arange(prompt.shape[1])[None])):
        row = model.batch(ROWS)
        row.begin(prompt.shape[1], positions)
        found.append(model.module(prompt, cache=row.layers)[0, -1])
        row.commit()
    return difference(found[1], found[0]) <= tolerance(found[0])


def lora_agrees(model: Adapted, slot: int) -> bool:
    """Whether a row with an adapter and one without, side by side, give what each gives alone."""
    prompt = _prompts(model)[1]

    def logits(slots: list[int]) -> mx.array:
        with model.loras.reading(mx.array(slots, dtype=mx.int32) if any(slots) else None):
            return model.module(mx.array([prompt] * len(slots)), cache=make_prompt_cache(model.module))

    try:
        both = logits([slot, 0])
        alone = [logits([slot])[0], logits([0])[0]]
        return all(difference(row, want) <= tolerance(want) for row, want in zip(both, alone, strict=True))
    except ValueError as error:  # a family whose layers see rows in another order
        log.warning("a pass with an adapter failed: %s", error)
        return False


def tolerance(logits: mx.array) -> float:
    return TOLERANCE.get(logits.dtype, 0.1)


def _prompts(model: Adapted, lengths: Sequence[int] = PROMPTS) -> list[list[int]]:
    rng = np.random.default_rng(0)
    return [rng.integers(0, min(model.vocab_size, 1000), count).tolist() for count in lengths]


def difference(logits: mx.array, reference: mx.array) -> float:
    """The largest difference relative to the largest logit; NaN counts as infinite."""
    share: Any = (mx.abs(logits - reference).max() / mx.abs(reference).max()).item()
    return float(share) if share == share else float("inf")


def _alone(model: Adapted, prompt: list[int]) -> list[mx.array]:
    """Logits of STEPS greedy steps through mlx-lm's own caches."""
    cache = make_prompt_cache(model.module)
    model.module(mx.array([prompt[:-1]]), cache=cache)
    token = mx.array([[prompt[-1]]])
    logits = []
    for _ in range(STEPS):
        out = model.module(token, cache=cache)[0, -1]
        mx.eval(out)
        logits.append(out)
        token = mx.argmax(out)[None, None]
    return logits


HIDDEN_PROBE = (1, 2, 3, 1, 2)  # tokens of every vocabulary
HIDDEN_TIES = 1e-3  # of the largest logit: a cap on logits makes neighbours equal in half precision


def hidden_size(language: Adapted) -> int | None:
    """The width of the hidden states after the final norm, for embeddings; None if a family does not expose them.

    A family's text model need not end with the final norm (GPT-NeoX's ends with logits). So the states go through the
    output head and must give the tokens that the whole model gives.
    """
    try:
        tokens = mx.array([HIDDEN_PROBE]) % language.vocab_size
        hidden = language.hidden(tokens, make_prompt_cache(language.module))
        expected = language.module(tokens, cache=make_prompt_cache(language.module)).astype(mx.float32)
        chosen = mx.argmax(language.logits(hidden), axis=-1, keepdims=True)
        missed = expected.max(axis=-1) - mx.take_along_axis(expected, chosen, axis=-1)[..., 0]
        agrees = bool((missed <= HIDDEN_TIES * mx.abs(expected).max()).all().item())
    except Exception:  # noqa: BLE001  a family with another structure may raise anything
        return None
    return int(hidden.shape[-1]) if agrees else None
