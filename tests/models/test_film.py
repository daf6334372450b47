"""Videos as Qwen's processors cut them."""

from __future__ import annotations

from pathlib import Path

import pytest

from paceline.errors import InvalidRequest
from tests import videos
from tests.engine.stepper import loaded
from tests.integration.test_videos import builder, expected, prompt_of, show
from tests.models.test_vision import OPTIONS, vision_of


@pytest.mark.thin(3)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_the_prompt_is_mlx_vlms_but_for_the_name_of_the_placeholder(hybrid: Path, place: int) -> None:
    config = loaded(hybrid).config
    theirs, _ = expected(hybrid, place)
    renamed = [config["image_token_id"] if token == config["video_token_id"] else token for token in theirs]
    assert list(prompt_of(hybrid, place).token_ids) == renamed


def test_a_text_may_not_hold_the_models_own_placeholder(hybrid: Path) -> None:
    text = {"type": "text", "text": vision_of(hybrid).video_processor.video_placeholder}
    with pytest.raises(InvalidRequest, match="2 video placeholders for 1 videos"):
        builder(hybrid).chat([{"role": "user", "content": [text, *show(0)["content"]]}], OPTIONS)


def test_too_many_videos_and_shapes_that_cannot_be_cut_are_refused(hybrid: Path) -> None:
    with pytest.raises(InvalidRequest, match="has 5 videos; at most 4"):
        builder(hybrid).chat([show(0, 0, 0, 0, 0)], OPTIONS)
    thin = {"type": "video", "video": videos.url(videos.video(4, 2.0, "mkv", 1600, 6))}
    with pytest.raises(InvalidRequest, match="cannot be used") as caught:
        builder(hybrid).chat([{"role": "user", "content": [thin]}], OPTIONS)
    assert caught.value.field == "messages[0].content[0].video"
