from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL.Image import Image as Picture
from PIL.Image import new as new_picture

from paceline.conversation.media import Loader
from paceline.conversation.prompt import PromptBuilder
from paceline.conversation.template import Templates
from paceline.conversation.tokenizer import Tokenizer
from paceline.errors import InvalidRequest, PromptTooLong
from paceline.host_memory import HostMemory, RequestMemory
from paceline.types import Media, MediaInputs
from tests.conversation import vocabularies

PLACEHOLDER = "<|image_pad|>"
CLOCK = {"type": "function", "function": {"name": "clock", "description": "the time", "parameters": {}}}


class ImageProcessor:
    """A vision tower's front: a picture has as many tokens as it has pixels."""

    marker = PLACEHOLDER
    marker_token: int | None

    def __init__(self, image_token: int) -> None:
        self.image_token = self.marker_token = image_token

    def preprocess(self, picture: Picture) -> Media:
        width, height = picture.size
        count, inputs = width * height, MediaInputs(pixels=np.zeros((width * height, 3), dtype=np.float32))
        ids = (self.image_token,) * count
        return Media(f"{width}x{height}", count, self.image_token, ids, cost=inputs["pixels"].nbytes, inputs=inputs)

    def numbered(self, media: Sequence[Media]) -> list[Media]:
        return list(media)

    def input_bytes(self, pixels: int) -> int:
        return 12 * pixels


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return vocabularies.byte_level(tmp_path_factory.mktemp("tokenizer"))


@pytest.fixture(scope="module")
def seeing(tokenizer: Tokenizer) -> PromptBuilder:
    image_processor = ImageProcessor(tokenizer.encode(PLACEHOLDER)[0])
    return PromptBuilder(tokenizer, image_processor, max_images=3, loader=Loader(max_pixels=100, max_bytes=10_000))


@pytest.fixture(scope="module")
def blind(tokenizer: Tokenizer) -> PromptBuilder:
    return PromptBuilder(tokenizer, None, max_images=3, loader=Loader(max_pixels=100, max_bytes=10_000))


def picture(width: int, height: int) -> dict[str, Any]:
    file = io.BytesIO()
    new_picture("RGB", (width, height), "red").save(file, "PNG")
    address = f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
    return {"type": "image_url", "image_url": {"url": address}}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def user(*parts: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(parts)}


def runs(ids: Sequence[int], token: int) -> list[int]:
    """The lengths of the runs of `token`."""
    found: list[int] = []
    for before, now in zip([None, *ids], ids, strict=False):
        if now == token:
            found = [*found[:-1], found[-1] + 1] if before == token else [*found, 1]
    return found


def test_a_conversation_becomes_the_tokens_of_its_rendering(blind: PromptBuilder, tokenizer: Tokenizer) -> None:
    messages = [{"role": "user", "content": "hello"}]
    prompt = blind.chat(messages, {"enable_thinking": False})
    rendered = tokenizer.render(messages, enable_thinking=False)
    assert tokenizer.decode(prompt.token_ids, skip_special_tokens=False) == rendered
    assert prompt.media == ()


@settings(deadline=None)
@given(words=st.text(max_size=30))
def test_a_text_becomes_its_tokens_and_tokens_stay_themselves(
    blind: PromptBuilder, tokenizer: Tokenizer, words: str
) -> None:
    prompt = blind.text(words)
    assert list(prompt.token_ids) == tokenizer.encode(words)
    assert blind.text(prompt.token_ids) == blind.text(list(prompt.token_ids)) == prompt


def test_each_image_takes_the_place_of_its_placeholder_and_as_many_tokens_as_it_has(seeing: PromptBuilder) -> None:
    prompt = seeing.chat([user(picture(2, 3), text("and"), picture(1, 4)), user(picture(5, 2))], {})
    assert seeing.image_processor is not None
    assert runs(prompt.token_ids, seeing.image_processor.image_token) == [6, 4, 10]
    assert [image.digest for image in prompt.media] == ["2x3", "1x4", "5x2"]


def test_what_stands_around_an_image_stays(seeing: PromptBuilder, tokenizer: Tokenizer) -> None:
    prompt = seeing.chat([user(text("before"), picture(1, 2), text("after"))], {})
    written = tokenizer.decode(prompt.token_ids, skip_special_tokens=False)
    assert f"before<|vision_start|>{PLACEHOLDER * 2}<|vision_end|>after" in written


def test_marks_count_the_tokens_of_the_images_before_them(seeing: PromptBuilder, tokenizer: Tokenizer) -> None:
    said = {"role": "assistant", "content": [text("two"), picture(1, 4)]}
    prompt = seeing.chat([user(picture(2, 3), text("one")), said, user(text("three"))], {})
    turns = [
        f"<|im_start|>user\n<|vision_start|>{PLACEHOLDER * 6}<|vision_end|>one<|im_end|>\n",
        f"<|im_start|>assistant\ntwo<|vision_start|>{PLACEHOLDER * 4}<|vision_end|><|im_end|>\n",
        "<|im_start|>user\nthree<|im_end|>\n",
    ]
    marked = [
        tokenizer.decode(prompt.token_ids[:boundary], skip_special_tokens=False) for boundary in prompt.boundaries
    ]
    assert marked == ["<|im_start|>user", turns[0], turns[0] + turns[1], "".join(turns)]


def test_an_image_in_the_system_prompt_lies_before_its_mark(seeing: PromptBuilder, tokenizer: Tokenizer) -> None:
    opening = {"role": "system", "content": [text("logo"), picture(2, 5)]}
    for question in (user(text("one")), user(picture(1, 2))):
        prompt = seeing.chat([opening, question], {})
        marked = [
            tokenizer.decode(prompt.token_ids[:boundary], skip_special_tokens=False) for boundary in prompt.boundaries
        ]
        first = f"<|im_start|>system\nlogo<|vision_start|>{PLACEHOLDER * 10}<|vision_end|><|im_end|>\n"
        assert marked[:2] == [first, first + "<|im_start|>user"]


@pytest.mark.parametrize(
    "messages",
    [
        [{"role": "user", "content": f"look: {PLACEHOLDER}"}],
        [user(text(f"look: {PLACEHOLDER}"), picture(1, 1))],
        [{"role": "system", "content": PLACEHOLDER}, user(picture(1, 1))],
        [user(picture(1, 1)), {"role": "assistant", "content": PLACEHOLDER * 3}],
    ],
)
def test_text_that_contains_the_placeholder_is_refused(seeing: PromptBuilder, messages: list[Any]) -> None:
    """It would be taken for a picture, or move the pictures of others."""
    with pytest.raises(InvalidRequest, match="placeholder") as caught:
        seeing.chat(messages, {})
    assert caught.value.field == "messages"


def test_a_completion_prompt_may_not_contain_the_placeholder_either(
    seeing: PromptBuilder, tokenizer: Tokenizer
) -> None:
    for prompt in (f"a{PLACEHOLDER}b", tokenizer.encode(f"a{PLACEHOLDER}b")):
        with pytest.raises(InvalidRequest, match="placeholder") as caught:
            seeing.text(prompt)
        assert caught.value.field == "prompt"


def test_to_a_model_without_eyes_the_placeholder_is_a_token_like_any_other(
    blind: PromptBuilder, tokenizer: Tokenizer
) -> None:
    assert list(blind.text(PLACEHOLDER).token_ids) == tokenizer.encode(PLACEHOLDER)


def test_an_image_that_the_template_leaves_out_is_refused_and_not_forgotten(
    seeing: PromptBuilder, tokenizer: Tokenizer
) -> None:
    forgetful = Tokenizer(tokenizer._wrapped, tokenizer.eos_ids, Templates.of("{{ messages[0].role }}"))
    builder = PromptBuilder(
        forgetful, seeing.image_processor, max_images=3, loader=Loader(max_pixels=100, max_bytes=10_000)
    )
    with pytest.raises(InvalidRequest, match="0 image placeholders for 1 images"):
        builder.chat([user(picture(1, 1))], {})


def test_images_of_a_late_system_message_come_first(seeing: PromptBuilder) -> None:
    late = {"role": "developer", "content": [text("logo"), picture(5, 2)]}
    prompt = seeing.chat([user(picture(2, 3)), late, user(picture(1, 4))], {})
    assert [image.digest for image in prompt.media] == ["5x2", "2x3", "1x4"]
    assert seeing.image_processor is not None
    assert runs(prompt.token_ids, seeing.image_processor.image_token) == [10, 6, 4]


# -- tools


def test_tools_are_in_the_prompt_and_their_calls(blind: PromptBuilder, tokenizer: Tokenizer) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "clock", "arguments": '{"zone":"x"}'}}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": "noon"},
    ]
    written = tokenizer.decode(blind.chat(messages, {}, [CLOCK]).token_ids, skip_special_tokens=False)
    for words in ('"description": "the time"', '{"name": "clock", "arguments": {"zone": "x"}}', "noon"):
        assert words in written
    assert blind.chat(messages, {}, []) == blind.chat(messages, {}) == blind.chat(messages, {}, None)


def test_the_boundary_behind_the_system_prompt_lies_behind_the_tools(
    blind: PromptBuilder, tokenizer: Tokenizer
) -> None:
    one, other = (blind.chat([{"role": "user", "content": words}], {}, [CLOCK]) for words in ("a", "b c"))
    front = tokenizer.decode(one.token_ids[: one.boundaries[1]], skip_special_tokens=False)
    assert "the time" in front and front.endswith("<|im_start|>user")
    assert other.boundaries[:2] == one.boundaries[:2]
    assert other.system == one.system == one.boundaries[0]


def test_instructions_are_known_where_there_are_some(blind: PromptBuilder, tokenizer: Tokenizer) -> None:
    spoken = {"role": "user", "content": "hello"}
    found = blind.chat([{"role": "system", "content": "Be brief."}, spoken], {})
    front = tokenizer.decode(found.token_ids[: found.system], skip_special_tokens=False)
    assert "Be brief." in front and "hello" not in front
    assert blind.chat([spoken], {}).system == 0
    assert blind.text("<|im_start|>user\nhello<|im_end|>\n").system == 0


@pytest.mark.parametrize(
    "tools, field", [("clock", "tools"), (5, "tools"), ({"a": 1}, "tools"), ([CLOCK, 5], "tools[1]")]
)
def test_what_is_no_list_of_tools_is_refused(blind: PromptBuilder, tools: Any, field: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        blind.chat([{"role": "user", "content": "x"}], {}, tools)
    assert caught.value.field == field


def test_a_call_that_cannot_be_read_is_named_by_its_place(blind: PromptBuilder) -> None:
    system = {"role": "system", "content": ""}
    with pytest.raises(InvalidRequest) as caught:
        blind.chat([system, {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]}], {})
    assert caught.value.field == "messages[1].tool_calls[0].function"


def test_too_many_images_are_refused_before_any_is_decoded(seeing: PromptBuilder) -> None:
    broken = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    with pytest.raises(InvalidRequest, match="4 images; at most 3"):
        seeing.chat([user(*[broken] * 4)], {})


def test_an_image_that_is_too_large_or_broken_is_named_by_its_place(seeing: PromptBuilder) -> None:
    for bad in (picture(50, 50), {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}):
        with pytest.raises(InvalidRequest) as caught:
            seeing.chat([user(picture(1, 1)), user(text("x"), bad)], {})
        assert caught.value.field == "messages[1].content[1].image_url"


def test_a_model_without_eyes_refuses_an_image(blind: PromptBuilder) -> None:
    with pytest.raises(InvalidRequest, match="no images"):
        blind.chat([user(picture(1, 1))], {})


# -- what a request may take


class Counted:
    """A tokenizer that tells how many characters it was given."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self.characters = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tokenizer, name)

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        self.characters += len(text)
        return self._tokenizer.encode(text, add_special_tokens)

    def count_over(self, text: str, most: int) -> int | None:
        self.characters += len(text)
        return self._tokenizer.count_over(text, most)


def bounded(tokenizer: Any, context_length: int, memory: RequestMemory | None = None) -> PromptBuilder:
    loader = Loader(max_pixels=100, max_bytes=10_000)
    return PromptBuilder(tokenizer, None, max_images=3, loader=loader, context_length=context_length, memory=memory)


def test_a_text_that_no_context_can_hold_is_refused_before_it_is_tokenized(tokenizer: Tokenizer) -> None:
    counted = Counted(tokenizer)
    builder = bounded(counted, 100)
    counted.characters = 0
    long = "x" * 3201
    with pytest.raises(PromptTooLong, match="100 tokens, and the prompt has at least 100") as caught:
        builder.text(long)
    assert caught.value.code == "context_length_exceeded"
    with pytest.raises(PromptTooLong):
        builder.chat([{"role": "user", "content": long}], {})
    assert counted.characters == 0
    builder.text("x" * 90)


def test_of_a_text_too_long_only_as_much_is_tokenized_as_shows_it(tokenizer: Tokenizer) -> None:
    text = "".join(chr(97 + place % 26) for place in range(200_000))
    count = tokenizer.count_over(text, 1000)
    assert count is not None and 1000 < count <= len(tokenizer.encode(text[: 1 << 16]))
    assert tokenizer.count_over(text, len(tokenizer.encode(text))) is None
    with pytest.raises(PromptTooLong, match="at least"):
        bounded(tokenizer, 10_000).text(text)


def test_a_long_text_means_the_same_tokens_as_a_short_one(tokenizer: Tokenizer) -> None:
    words = "riders share one line, é 🙂 and draft; "
    long = words * 400
    ids = tokenizer.encode(long)
    assert ids == tokenizer._backend.encode(long).ids
    assert tokenizer.decode(ids) == tokenizer._backend.decode(ids) == long


def test_a_long_text_waits_for_memory_and_gives_it_back(tokenizer: Tokenizer) -> None:
    text = "word " * 60_000
    with pytest.raises(InvalidRequest, match="The text needs 96 MB of memory") as caught:
        bounded(tokenizer, 1 << 20, RequestMemory(HostMemory(1), HostMemory(90_000_000))).text(text)
    assert caught.value.field == "prompt"
    memory = RequestMemory(HostMemory(1), HostMemory(200_000_000))
    bounded(tokenizer, 1 << 20, memory).text(text)
    assert memory.work.held == 0


def test_images_have_no_more_pixels_together_than_ten_of_the_largest(tokenizer: Tokenizer) -> None:
    image_processor = ImageProcessor(tokenizer.encode(PLACEHOLDER)[0])
    builder = PromptBuilder(tokenizer, image_processor, max_images=99, loader=Loader(max_pixels=100, max_bytes=10_000))
    assert len(builder.chat([user(*[picture(10, 10)] * 10)], {}).media) == 10
    with pytest.raises(InvalidRequest, match="1101 pixels together, and at most 1000") as raised:
        builder.chat([user(*[picture(10, 10)] * 11, picture(1, 1))], {})
    assert raised.value.field == "messages"


def test_images_hold_memory_for_as_long_as_anybody_holds_their_patches(tokenizer: Tokenizer) -> None:
    memory = RequestMemory(HostMemory(10_000), HostMemory(100_000))
    image_processor = ImageProcessor(tokenizer.encode(PLACEHOLDER)[0])
    loader = Loader(max_pixels=100, max_bytes=10_000)
    builder = PromptBuilder(tokenizer, image_processor, max_images=3, loader=loader, memory=memory)
    prompt = builder.chat([{"role": "user", "content": [picture(4, 3), picture(2, 2)]}], {})
    assert memory.media.held == sum(image.cost for image in prompt.media) > 0
    assert memory.work.held == 0
    del prompt
    assert memory.media.held == 0
    broken = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    with pytest.raises(InvalidRequest):
        builder.chat([{"role": "user", "content": [picture(4, 3), broken]}], {})
    assert (memory.media.held, memory.work.held) == (0, 0)


def test_a_template_that_drops_images_gets_markers_as_text(seeing: PromptBuilder) -> None:
    content = "{{ message.content if message.content is string else 'dropped' }}"
    template = "{% for message in messages %}" + content + "{% endfor %}"
    asked = [user({"type": "text", "text": "a"}, picture(2, 3), {"type": "text", "text": "b"})]
    prompt = seeing.chat(asked, {"chat_template": template})
    assert runs(prompt.token_ids, seeing.image_processor.image_token) == [6]  # type: ignore[union-attr]
    assert len(prompt.token_ids) == 8
