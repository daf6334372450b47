"""The start-up check of a model's media: two pictures in a prompt, beside a text, give what mlx-vlm gives for one.

Tokens, positions, features and logits are compared, on this model and this machine. And two pictures must give two
results: a model that does not see is never served as one that does.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence as Many

import mlx.core as mx
import numpy as np
from PIL import Image

from paceline.cache.features import Features
from paceline.cache.slot_plan import Grouping
from paceline.conversation import expansion
from paceline.conversation.text import ByteDetokenizer, TextStream
from paceline.engine.prompt_runner import PromptRunner
from paceline.engine.sequence import EngineRequest, Sequence
from paceline.models import check
from paceline.models.files import one_line
from paceline.models.loader import TEXT_ONLY, LoadedModel
from paceline.models.vision import Reference, Vision
from paceline.types import Media, Prompt, RequestId, Sampling

log = logging.getLogger("paceline")
SIZES = ((96, 64), (64, 128))  # width and height of the two pictures
CHUNKS = 5  # of the prompt: some end inside a picture
BESIDE = 20  # tokens of the text in the same batch
SEEN = 1e-5  # of the largest logit: by how much another picture must change something
STEPS = 3


def check_media(model: LoadedModel, grouping: Grouping) -> None:
    """A model whose media disagree loses them, and says so."""
    if model.vision is None:
        return
    try:
        wrong = disagreement(model, model.vision, grouping)
    except Exception as error:  # noqa: BLE001  a family of another structure may raise anything
        wrong = one_line(error)
    if wrong is None:
        return
    note = f"Images do not work as in mlx-vlm: {wrong}. {TEXT_ONLY}"
    model.vision = None
    model.notes.append(note)
    log.warning(note)


def disagreement(model: LoadedModel, vision: Vision, grouping: Grouping) -> str | None:
    """What differs from mlx-vlm; None: nothing."""
    pictures = [picture(seed, size) for seed, size in enumerate(SIZES)]
    text = f"One: {vision.placeholder} two: {vision.placeholder}\nWhich?"
    reference = vision.reference(pictures, text, STEPS)
    media = [vision.preprocess(each) for each in pictures]
    prompt = _prompt(vision, text, media)
    if prompt.token_ids != reference.token_ids:
        return "a prompt has other tokens"
    wrong = _inputs(vision, prompt, reference)
    if wrong is not None:
        return wrong
    features = Features(1 << 40)
    for form in check.forms(grouping):
        found = _logits(PromptRunner(model, form, features=features), prompt, reference.forced)
        worst = max(check.difference(mine, theirs) for mine, theirs in zip(found, reference.logits, strict=True))
        if worst > check.tolerance(found[0]):
            return f"logits differ by {worst:.2g} of the largest"
    other = _prompt(vision, text, [media[0], vision.preprocess(picture(len(SIZES), SIZES[1]))])
    seen = _logits(PromptRunner(model, form, features=features), other, reference.forced)
    if check.difference(seen[0], found[0]) <= SEEN:
        return "another picture changes nothing"
    return None


def picture(seed: int, size: tuple[int, int]) -> Image.Image:
    blobs = np.random.default_rng(seed).integers(0, 256, (5, 5, 3), dtype=np.uint8)
    return Image.fromarray(blobs).resize(size, Image.Resampling.BICUBIC)


def _prompt(vision: Vision, text: str, media: Many[Media]) -> Prompt:
    if all(medium.text for medium in media):
        written, _ = expansion.of_text(text, vision.marker, media)
        ids = tuple(vision.token_ids(written))
    else:
        ids, _ = expansion.of_tokens(vision.token_ids(text), vision.marker_token, media)
    return Prompt(ids, tuple(media))


def _inputs(vision: Vision, prompt: Prompt, reference: Reference) -> str | None:
    """Features and positions."""
    ours = mx.concatenate([vision.encode(medium) for medium in prompt.media])
    places = mx.array(np.flatnonzero(prompt.media_mask))
    theirs = reference.embeddings[places]
    if check.difference(ours[:, : theirs.shape[-1]], theirs) > check.tolerance(theirs):
        return "features differ"
    found = vision.positions(prompt.token_ids, prompt.media)
    positions = reference.positions
    if found is not None and positions is not None and not np.array_equal(found[0], positions):
        return "positions differ"
    return None


def _logits(runner: PromptRunner, prompt: Prompt, forced: Many[int]) -> list[mx.array]:
    """Logits after the prompt and after each of `forced`, beside a text that decodes with it."""
    beside = Prompt(tuple(token % runner.language.vocab_size for token in range(BESIDE)), cached=False)
    rows = [_prefilled(runner, each) for each in (prompt, beside)]
    batch = runner.batch_of(rows[0])
    batch.join(runner.batch_of(rows[1]))
    found = []
    for token in (prompt.token_ids[-1], *forced):
        found.append(check.decode(runner.language, batch, mx.array([token, 0]))[0])
    return found


def _prefilled(runner: PromptRunner, prompt: Prompt) -> Sequence:
    text = TextStream(ByteDetokenizer(lambda token: b""))
    seq = Sequence(EngineRequest(RequestId("check"), prompt, Sampling(), 99), text, lambda delta: None)
    while seq.media_left:
        runner.encode(seq)
    chunk = seq.remaining // CHUNKS + 1
    while seq.remaining:
        mx.eval(runner.prefill(seq, min(chunk, seq.remaining)))
    return seq
