"""A prompt's media: the marker that a template writes for each becomes the medium's own tokens. No MLX."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from paceline.types import Media


def is_closed(marker: int | None, media: Sequence[Media], special: Collection[int]) -> bool:
    """Whether markers and media begin and end with special tokens, which never join with the text around."""
    if marker is None:
        return False
    return all(
        not medium.text or (medium.token_ids[0] in special and medium.token_ids[-1] in special) for medium in media
    )


def in_order(ids: Sequence[int], marker: int | None, sound: int | None, media: Sequence[Media]) -> list[Media]:
    """Media in the order of their markers: a template may write pictures first. `sound` is the marker of audio."""
    if sound is None or len({medium.kind == "audio" for medium in media}) < 2:
        return list(media)
    heard = [medium for medium in media if medium.kind == "audio"]
    seen = [medium for medium in media if medium.kind != "audio"]
    found = []
    for id in ids:
        queue = heard if id == sound else seen if id == marker else []
        if queue:
            found.append(queue.pop(0))
    return found + seen + heard


def of_tokens(
    ids: Sequence[int], marker: int | None, media: Sequence[Media], sound: int | None = None
) -> tuple[tuple[int, ...], int]:
    """The expanded ids, and how many markers there were."""
    expanded: list[int] = []
    found = 0
    for id in ids:
        if id not in (marker, sound):
            expanded.append(id)
            continue
        expanded.extend(media[found].token_ids if found < len(media) else [id])
        found += 1
    return tuple(expanded), found


def of_text(text: str, marker: str, media: Sequence[Media]) -> tuple[str, int]:
    """The expanded text, and how many markers there were."""
    first, *rest = text.split(marker)
    if len(rest) != len(media):
        return text, len(rest)
    return first + "".join(medium.text + piece for medium, piece in zip(media, rest, strict=True)), len(rest)


def moved(
    boundaries: Sequence[int],
    ids: Sequence[int],
    expanded: Sequence[int],
    marker: int | None,
    media: Sequence[Media],
    sound: int | None = None,
) -> tuple[int, ...]:
    """The boundaries in the expanded ids: one after a medium is after all its tokens. `marker` None: tokens may have
    joined around media, and boundaries between the first medium and the last are dropped."""
    if marker is not None:
        places = [place for place, id in enumerate(ids) if id in (marker, sound)]
        gains = [len(medium.token_ids) - 1 for medium in media]
        return tuple(
            length + sum(gain for place, gain in zip(places, gains, strict=True) if place < length)
            for length in boundaries
        )
    before, after = common_length(ids, expanded), common_length(ids[::-1], expanded[::-1])
    gain = len(expanded) - len(ids)
    kept = [
        length if length <= before else length + gain for length in boundaries if _outside(length, ids, before, after)
    ]
    return tuple(kept)


def _outside(length: int, ids: Sequence[int], before: int, after: int) -> bool:
    return length <= before or len(ids) - length <= after


def common_length(one: Sequence[int], other: Sequence[int]) -> int:
    """How many tokens both begin with."""
    shorter = min(len(one), len(other))
    if list(one[:shorter]) == list(other[:shorter]):  # the usual case, much faster than the loop
        return shorter
    return next(place for place in range(shorter) if one[place] != other[place])


def as_text(conversation: Sequence[Mapping[str, Any]], marker: str) -> list[dict[str, Any]]:
    """A conversation with markers as text, for a template that does not know images."""
    written = []
    for message in conversation:
        content = message["content"]
        if isinstance(content, list):
            content = [{"type": "text", "text": marker} if part["type"] == "image" else part for part in content]
            if all(part["type"] == "text" for part in content):  # such templates take nothing but strings
                content = "".join(part["text"] for part in content)
        written.append({**message, "content": content})
    return written
