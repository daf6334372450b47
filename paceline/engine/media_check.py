"""The start-up check of a model's media: in a batch they give what mlx-vlm gives for one prompt alone.

Tokens, positions, features and logits are compared, on this model and this machine. And two pictures must give two
results: a model that does not see is never served as one that does. The same goes for recordings.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Many

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from paceline.cache.batch import Batch
from paceline.cache.features import Features
from paceline.cache.kv_snapshot import Checkpoint, cut_checkpoint, cut_segment, fill
from paceline.cache.slot_plan import Grouping
from paceline.conversation import expansion
from paceline.engine.prompt_runner import PromptRunner
from paceline.engine.sequence import EngineRequest, Sequence
from paceline.models import check
from paceline.models.adapter import Adapted
from paceline.models.files import one_line
from paceline.models.loader import TEXT_ONLY, LoadedModel
from paceline.models.vision import Reference, Vision
from paceline.types import Media, Prompt, RequestId, Sampling

Comparison = Callable[[LoadedModel, Vision, Grouping], str | None]
SIZES = ((96, 64), (64, 128))  # width and height of the two pictures
SECONDS = 0.2  # of a recording
TEXT = 3  # tokens of a text in the same batch
SEEN = 1e-5  # of the largest logit: by how much another picture must change something
STEPS = 1  # after the prompt
PARTS = "Over several ranks, features and positions of pictures are compared with mlx-vlm at start, and logits are not."


def check_media(model: LoadedModel, grouping: Grouping) -> None:
    """A model whose media disagree loses them, and says so."""
    if model.vision is None:
        return
    wrong = _failure(model, model.vision, grouping, disagreement)
    if wrong is not None:
        model.note(f"Images do not work as in mlx-vlm: {wrong}. {TEXT_ONLY}")
        model.vision = None
    elif model.vision.audio_processor is not None:
        wrong = _failure(model, model.vision, grouping, audio_disagreement)
        if wrong is not None:
            model.note(f"Audio does not work as in mlx-vlm: {wrong}. It is not taken.")
            model.vision.audio_processor = None
    if model.vision is not None and not model.vision.tower.whole:
        model.notes.append(PARTS)


def _failure(model: LoadedModel, vision: Vision, grouping: Grouping, compare: Comparison) -> str | None:
    try:
        return compare(model, vision, grouping)
    except Exception as error:  # noqa: BLE001  a family of another structure may raise anything
        return one_line(error)


def disagreement(model: LoadedModel, vision: Vision, grouping: Grouping) -> str | None:
    """What differs from mlx-vlm; None: nothing. Every start pays for this: tokens and passes are as few as prove it."""
    pictures = [picture(seed, size) for seed, size in enumerate(SIZES)]
    text = f"{vision.placeholder}\n{vision.placeholder}?"
    reference = vision.reference(pictures, text, STEPS)
    media = [vision.preprocess(each) for each in pictures]
    others = [media[0], vision.preprocess(picture(len(SIZES), SIZES[1]))]
    prompt, other = (_prompt(vision, text, vision.marker, each) for each in (media, others))
    return _difference(model, vision, grouping, reference, prompt, other, "another picture changes nothing")


def audio_disagreement(model: LoadedModel, vision: Vision, grouping: Grouping) -> str | None:
    audio = vision.audio_processor
    assert audio is not None
    samples = [noise(seed, int(audio.rate * SECONDS)) for seed in (0, 1)]
    text = f"{audio.marker}\n?"
    reference = audio.reference(samples[:1], text, STEPS)
    prompt, other = (_prompt(vision, text, audio.marker, [audio.preprocess(each)]) for each in samples)
    return _difference(model, vision, grouping, reference, prompt, other, "another recording changes nothing")


def _difference(
    model: LoadedModel,
    vision: Vision,
    grouping: Grouping,
    reference: Reference,
    prompt: Prompt,
    other: Prompt,
    blind: str,
) -> str | None:
    """`other` is the prompt with another medium."""
    if prompt.token_ids != reference.token_ids:
        return "a prompt has other tokens"
    wrong = _inputs(vision, prompt, reference)
    if wrong is not None:
        return wrong
    first, *forms = check.forms(grouping)
    rows = _prefilled(PromptRunner(model, first, features=Features(1 << 40)), prompt, other)
    batches = [_joined([_copied(row, model.language, form) for row in rows]) for form in forms]
    logits = _decoded(model.language, _joined(rows), (prompt.token_ids[-1], *reference.forced))
    # In the other forms only batches differ: their prompts need no second prefill.
    found = [logits, *(_decoded(model.language, batch, prompt.token_ids[-1:]) for batch in batches)]
    expected = reference.logits or [step[0] for step in logits]  # over several ranks mlx-vlm gives none
    worst = max(
        check.difference(step[0], theirs) for steps in found for step, theirs in zip(steps, expected, strict=False)
    )
    if worst > check.tolerance(logits[0]):
        return f"logits differ by {worst:.2g} of the largest"
    if check.difference(logits[0][1], logits[0][0]) <= SEEN:
        return blind
    return None


def picture(seed: int, size: tuple[int, int]) -> Image.Image:
    blobs = np.random.default_rng(seed).integers(0, 256, (5, 5, 3), dtype=np.uint8)
    return Image.fromarray(blobs).resize(size, Image.Resampling.BICUBIC)


def noise(seed: int, samples: int) -> NDArray[np.float32]:
    return np.random.default_rng(seed).uniform(-0.3, 0.3, samples).astype(np.float32)


def _prompt(vision: Vision, text: str, marker: str, media: Many[Media]) -> Prompt:
    media = vision.numbered(media)
    if all(medium.text for medium in media):
        written, _ = expansion.of_text(text, marker, media)
        ids = tuple(vision.token_ids(written))
    else:
        ids, _ = expansion.of_tokens(vision.token_ids(text), vision.marker_token, media)
    return Prompt(ids, tuple(media))


def _inputs(vision: Vision, prompt: Prompt, reference: Reference) -> str | None:
    """Features and positions."""
    theirs = reference.embeddings[mx.array(np.flatnonzero(prompt.media_mask))]
    ours = mx.concatenate([vision.encode(medium) for medium in prompt.media])[:, : theirs.shape[-1]]
    # Where deeper layers get all of it (Granite 4), both are zero.
    if not mx.array_equal(ours, theirs) and check.difference(ours, theirs) > check.tolerance(theirs):
        return "features differ"
    found = vision.positions(prompt.token_ids, prompt.media)
    positions = reference.positions
    if found is not None and positions is not None and not np.array_equal(found[0], positions):
        return "positions differ"
    return None


def _prefilled(runner: PromptRunner, prompt: Prompt, other: Prompt) -> list[Batch]:
    """The prompt, in chunks of which one ends inside a picture; the other one, in one piece; and a text."""
    inside = int(np.argmax(prompt.media_mask)) + 1
    text = Prompt(tuple(token % runner.language.vocab_size for token in range(TEXT)), cached=False)
    return [_prefill(runner, prompt, inside), _prefill(runner, other), _prefill(runner, text)]


def _prefill(runner: PromptRunner, prompt: Prompt, first: int = 0) -> Batch:
    """A prompt whose first chunk has `first` tokens, or more where a picture must be read in one piece."""
    seq = Sequence.silent(EngineRequest(RequestId("check"), prompt, Sampling(), 99))
    while seq.media_left:
        runner.encode(seq)
    for tokens in (first, seq.remaining - first):
        if tokens and seq.remaining:
            mx.eval(runner.prefill(seq, min(tokens, seq.remaining)))
    return runner.batch_of(seq)


def _copied(row: Batch, language: Adapted, form: Grouping) -> Batch:
    """The same row in another layout."""
    made, length = language.batch(form), row.lengths[0]
    checkpoint = Checkpoint(cut_checkpoint(row, 0, length))
    fill(made, length, [cut_segment(row, 0, 0, length)], checkpoint, room=STEPS + 1)
    made.deltas = list(row.deltas)
    return made


def _joined(rows: list[Batch]) -> Batch:
    batch, *others = rows
    for other in others:
        batch.join(other)
    return batch


def _decoded(language: Adapted, batch: Batch, tokens: Many[int]) -> list[mx.array]:
    """Logits of all rows after each of these tokens of the prompt's; the text's token does not matter."""
    return [check.decode(language, batch, mx.array([token, token, 0])) for token in tokens]
