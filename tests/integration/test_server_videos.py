"""Videos through the real server: OpenAI's client sends them, and what is wrong with one is said by name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from paceline.service import Service
from paceline.settings import Settings
from tests import videos
from tests.server.harness import Address, post_chat, refused, serve

PLACE = "messages[0].content[1].video_url"


@pytest.fixture(scope="module")
def live(hybrid: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    settings = Settings(
        model=str(hybrid), served_model_name="tiny", video_max_frames=6, max_video_seconds=20, max_image_pixels=10**6
    )
    with serve(Service(settings), settings) as address:
        yield address


@pytest.fixture(scope="module")
def web(live: Address) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=live, timeout=120) as client:
        yield client


def parts(data: bytes, **more: Any) -> list[dict[str, Any]]:
    return [
        {"type": "text", "text": "What happens?"},
        {"type": "video_url", "video_url": {"url": videos.url(data)}, **more},
    ]


def test_a_video_is_answered_and_the_second_time_from_the_cache(live: Address, web: httpx.Client) -> None:
    client = openai.OpenAI(base_url=f"{live}/v1", api_key="none", max_retries=0, timeout=120)
    messages: Any = [{"role": "user", "content": parts(videos.video(30))}]
    asked: Any = {"model": "tiny", "messages": messages, "max_tokens": 8, "temperature": 0}
    first, again = (client.chat.completions.create(**asked) for _ in range(2))
    assert first.choices[0].message.content == again.choices[0].message.content
    assert first.usage is not None and again.usage is not None and again.usage.prompt_tokens_details is not None
    assert again.usage.prompt_tokens_details.cached_tokens == first.usage.prompt_tokens - 1
    plain = post_chat(web, "What happens?", max_tokens=8).json()["usage"]["prompt_tokens"]
    assert first.usage.prompt_tokens > plain + 3  # three pairs of frames
    assert web.get("/v1/status").json()["model"]["videos"] is True


def test_what_is_wrong_with_a_video_is_said_by_name(web: httpx.Client) -> None:
    long, large = videos.video(60, 2.0), videos.video(2, 10.0, "mkv", 2000, 1000)
    refused(post_chat(web, parts(b"no video")), 400, PLACE, "format")
    refused(post_chat(web, parts(videos.video(30, 10.0, "mp4")[:2000])), 400, PLACE, "damaged")
    refused(post_chat(web, parts(long)), 400, PLACE, "30 seconds long")
    refused(post_chat(web, parts(large)), 400, PLACE, "2000 x 1000")
    refused(post_chat(web, parts(videos.video(30), fps=-1)), 400, "messages[0].content[1].fps")
    refused(post_chat(web, parts(videos.video(30), max_pixels=5)), 400, "messages[0].content[1].max_pixels")
    remote = [{"type": "video_url", "video_url": {"url": "http://127.0.0.1/a.mp4"}}]
    refused(post_chat(web, remote), 400, "messages[0].content[0].video_url", "remote videos are not allowed")
    assert web.get("/v1/status").json()["num_requests_running"] == 0
