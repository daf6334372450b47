"""A video as clients write it."""

from __future__ import annotations

import pytest

from paceline.conversation.messages import checked
from paceline.conversation.video_part import REFUSED, VideoPart, video_part
from paceline.errors import InvalidRequest


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ({"type": "video_url", "video_url": {"url": "a"}}, VideoPart(("a",), "p.video_url")),
        ({"type": "video_url", "video_url": {"url": "a", "fps": 3}}, VideoPart(("a",), "p.video_url", fps=3)),
        ({"type": "input_video", "video_url": "a"}, VideoPart(("a",), "p.video_url")),
        ({"type": "video", "video": "a", "fps": 1.5}, VideoPart(("a",), "p.video", fps=1.5)),
        ({"type": "video", "video": ["a", "b"]}, VideoPart(("a", "b"), "p.video", frames=True)),
    ],
)
def test_every_way_to_write_a_video_is_read(part: dict[str, object], expected: VideoPart) -> None:
    assert video_part(part, "p") == expected


@pytest.mark.parametrize("given", [None, 3, [], ["a", 3], {"url": 3}, {}])
def test_what_is_no_address_is_refused(given: object) -> None:
    with pytest.raises(InvalidRequest, match=r"p\.video must be an address"):
        video_part({"type": "video", "video": given}, "p")


@pytest.mark.parametrize("fps", [0, -1, 1000, "2", True, float("nan")])
def test_a_rate_that_makes_no_sense_is_refused(fps: object) -> None:
    with pytest.raises(InvalidRequest, match=r"p\.fps"):
        video_part({"type": "video", "video": "a", "fps": fps}, "p")


@pytest.mark.parametrize("field", REFUSED)
def test_fields_that_are_not_honoured_are_refused_by_name(field: str) -> None:
    with pytest.raises(InvalidRequest, match=field):
        video_part({"type": "video", "video": "a", field: 1}, "p")


def test_a_model_without_video_names_the_part() -> None:
    message = {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "video", "video": "b"}]}
    with pytest.raises(InvalidRequest, match="takes no video") as caught:
        checked([message], takes_images=True)
    assert caught.value.field == "messages[0].content[1]"
