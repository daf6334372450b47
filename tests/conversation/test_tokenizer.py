from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.conversation.tokenizer import Tokenizer
from paceline.errors import InvalidRequest, LoadError
from tests.conversation import vocabularies

Tiny = Callable[..., Path]
USER = [{"role": "user", "content": "hello"}]


def settings_of(folder: Path, **changes: Any) -> None:
    """Change the folder's tokenizer_config.json; a template given here is the only one."""
    file = folder / "tokenizer_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))
    if "chat_template" in changes:
        (folder / "chat_template.jinja").unlink(missing_ok=True)


# -- which tokens end an answer


def test_the_end_tokens_are_those_of_all_sources_together(tmp_path: Path) -> None:
    tokenizer = vocabularies.byte_level(tmp_path)
    assert tokenizer.eos_ids == set(tokenizer.encode("<|im_end|>"))
    (tmp_path / "config.json").write_text(json.dumps({"eos_token_id": 10, "text_config": {"eos_token_id": [11]}}))
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [12, 13]}))
    settings_of(tmp_path, eos_token="<|endoftext|>")
    found = Tokenizer.load(tmp_path, {"eos_token_id": [14, 15], "text_config": {"eos_token_id": 16}}).eos_ids
    assert found == {10, 11, 12, 13, 14, 15, 16, *tokenizer.encode("<|endoftext|><|im_end|>")}


def test_end_tokens_of_the_settings_are_added(tmp_path: Path) -> None:
    tokenizer = vocabularies.byte_level(tmp_path)
    found = Tokenizer.load(tmp_path, {}, ends=[[17, 18], 19, None, "text"]).eos_ids
    assert found == {17, 18, 19} | tokenizer.eos_ids


def test_a_checkpoint_that_lists_one_of_its_ends_in_each_file_has_both(tiny: Tiny) -> None:
    """As Qwen3.5's own files do."""
    folder = tiny("hybrid")
    tokenizer = Tokenizer.load(folder, json.loads((folder / "config.json").read_text()))
    assert tokenizer.eos_ids == set(tokenizer.encode("<|im_end|><|endoftext|>"))


@pytest.mark.parametrize(
    "sources",
    [
        {},
        {"config.json": "{}", "generation_config.json": "{}"},
        {"config.json": '{"eos_token_id": null, "text_config": null}', "generation_config.json": "not JSON"},
        {"config.json": '{"eos_token_id": ["text"]}'},
    ],
)
def test_a_source_that_is_missing_or_odd_leaves_the_others(tmp_path: Path, sources: dict[str, str]) -> None:
    vocabularies.byte_level(tmp_path)
    for name, text in sources.items():
        (tmp_path / name).write_text(text)
    tokenizer = Tokenizer.load(tmp_path, {"eos_token_id": None})
    assert tokenizer.eos_ids == set(tokenizer.encode("<|im_end|>"))


def test_the_turn_end_of_the_template_is_found_even_if_no_file_names_it(tmp_path: Path) -> None:
    tokenizer = vocabularies.byte_fallback(tmp_path)
    assert tokenizer.eos_ids == set(tokenizer.encode("</s><turn>", add_special_tokens=False)[-1:]) | {2}
    assert len(tokenizer.eos_ids) == 2


@pytest.mark.parametrize(
    "template",
    [
        "{% for message in messages %}{{ message.content }}\n{% endfor %}",  # only text behind the words
        "{% for message in messages %}{{ message.content }}{% endfor %}",  # nothing
        "{% for message in messages %}<|im_end|>{{ message.role }}{% endfor %}",  # the words are not there
        "{{ raise_exception('no') }}",
    ],
)
def test_a_template_without_a_turn_end_adds_none(tmp_path: Path, template: str) -> None:
    vocabularies.byte_level(tmp_path)
    settings_of(tmp_path, chat_template=template, eos_token="<|endoftext|>")
    tokenizer = Tokenizer.load(tmp_path, {})
    assert tokenizer.eos_ids == set(tokenizer.encode("<|endoftext|>"))


# -- loading


def test_a_tokenizer_without_a_template_takes_text_and_refuses_conversations(tmp_path: Path) -> None:
    vocabularies.byte_level(tmp_path)
    settings_of(tmp_path, chat_template=None, eos_token="<|endoftext|>")
    tokenizer = Tokenizer.load(tmp_path, {})
    assert tokenizer.templates is None and tokenizer.chat_template is None
    assert tokenizer.decode(tokenizer.encode("Hello")) == "Hello"
    assert tokenizer.eos_ids == set(tokenizer.encode("<|endoftext|>"))
    with pytest.raises(InvalidRequest, match="no chat template.*--chat-template") as caught:
        tokenizer.render(USER)
    assert (caught.value.field, caught.value.code) == ("messages", "no_chat_template")


@pytest.mark.parametrize("damage", ["missing", "broken"])
def test_a_folder_without_a_usable_tokenizer_is_refused_in_one_line(tmp_path: Path, damage: str) -> None:
    if damage == "broken":
        vocabularies.byte_level(tmp_path)
        (tmp_path / "tokenizer.json").write_text('{"version": "1.0", "model"')
    with pytest.raises(LoadError, match=str(tmp_path)) as caught:
        Tokenizer.load(tmp_path, {})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", ["PreTrainedTokenizerFast", "Qwen2Tokenizer", "LlamaTokenizer", None])
def test_a_checkpoint_without_tokenizer_json_is_refused_though_a_tokenizer_without_words_can_be_made(
    tmp_path: Path, kind: str | None
) -> None:
    vocabularies.byte_level(tmp_path)
    settings_of(tmp_path, tokenizer_class=kind)
    (tmp_path / "tokenizer.json").unlink()
    with pytest.raises(LoadError, match=f"^{tmp_path} has no tokenizer.json, [^\n]*copy tokenizer.json from"):
        Tokenizer.load(tmp_path, {})


def test_a_tokenizer_of_other_files_than_tokenizer_json_is_taken_if_it_works(tmp_path: Path) -> None:
    whole = vocabularies.byte_level(tmp_path)
    model = json.loads((tmp_path / "tokenizer.json").read_text())["model"]
    (tmp_path / "tokenizer.json").unlink()
    (tmp_path / "vocab.json").write_text(json.dumps(model["vocab"]))
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in model["merges"]]
    (tmp_path / "merges.txt").write_text("\n".join(["#version: 0.2", *merges]))
    settings_of(tmp_path, tokenizer_class="GPT2Tokenizer")
    tokenizer = Tokenizer.load(tmp_path, {})
    assert tokenizer.encode("Hello 1") == whole.encode("Hello 1")


# -- text and ids


@settings(deadline=None)
@given(text=st.text(max_size=40))
def test_a_byte_level_vocabulary_writes_and_reads_every_text(byte_level: Tokenizer, text: str) -> None:
    assert byte_level.decode(byte_level.encode(text, add_special_tokens=False), skip_special_tokens=False) == text


def test_special_tokens_are_read_in_text_and_left_out_when_asked(byte_level: Tokenizer) -> None:
    ids = byte_level.encode("<|im_start|>a<|im_end|>")
    assert len(ids) == 3
    assert byte_level.decode(ids) == "a"
    assert byte_level.decode(ids, skip_special_tokens=False) == "<|im_start|>a<|im_end|>"


def test_markup_that_parsers_look_for_is_never_left_out(byte_level: Tokenizer) -> None:
    ids = byte_level.encode("<think>a</think>")
    assert len(ids) == 3
    detokenizer = byte_level.detokenizer()
    assert "".join(map(detokenizer.push, ids)) == byte_level.decode(ids) == "<think>a</think>"


@settings(deadline=None)
@given(text=st.text(max_size=20))
def test_the_bytes_of_the_tokens_are_the_bytes_of_the_text(byte_level: Tokenizer, text: str) -> None:
    ids = byte_level.encode(text, add_special_tokens=False)
    assert b"".join(map(byte_level.token_bytes, ids)) == text.encode()


def test_a_token_that_is_no_character_by_itself_shows_as_a_replacement(byte_level: Tokenizer) -> None:
    half = byte_level.encode("é")[0]
    assert byte_level.token_bytes(half) == "é".encode()[:1]
    assert byte_level.token_text(half) == "\ufffd"


def test_an_id_without_a_token_has_no_text(byte_level: Tokenizer, byte_fallback: Tokenizer) -> None:
    for tokenizer in (byte_level, byte_fallback):
        assert tokenizer.token_bytes(99_999) == b""
        assert tokenizer.token_text(99_999) == tokenizer.decode([99_999]) == ""


def test_special_tokens_have_a_text_of_their_own(byte_level: Tokenizer, byte_fallback: Tokenizer) -> None:
    assert byte_level.token_text(byte_level.encode("<|im_end|>")[0]) == "<|im_end|>"
    assert byte_fallback.token_text(2) == "</s>"


# -- conversations


def test_a_conversation_is_rendered_ready_for_the_assistant(byte_level: Tokenizer) -> None:
    text = byte_level.render(USER)
    assert text.startswith("<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n")
    assert not byte_level.render(USER, add_generation_prompt=False).endswith("assistant\n")


def test_options_reach_the_template(byte_level: Tokenizer) -> None:
    assert byte_level.render(USER, enable_thinking=False) != byte_level.render(USER, enable_thinking=True)
    tool = {"type": "function", "function": {"name": "get_weather", "parameters": {}}}
    assert "get_weather" in byte_level.render(USER, tools=[tool])


def test_thinking_is_left_to_the_template_where_the_client_says_nothing(byte_level: Tokenizer) -> None:
    assert byte_level.render(USER).endswith("<|im_start|>assistant\n")
    assert byte_level.render(USER, enable_thinking=True).endswith("<think>\n")


def test_a_conversation_that_the_template_refuses_is_answered_in_its_words(byte_level: Tokenizer) -> None:
    with pytest.raises(InvalidRequest, match="Unexpected message role: bystander") as caught:
        byte_level.render([*USER, {"role": "bystander", "content": "late"}])
    assert caught.value.field == "messages"


def test_a_template_that_stumbles_is_the_requests_failure_and_not_a_crash(byte_level: Tokenizer) -> None:
    broken = [{"role": "assistant", "content": 5, "tool_calls": [{"function": {"name": 5, "arguments": {}}}]}]
    with pytest.raises(InvalidRequest, match="template") as caught:
        byte_level.render([*USER, *broken])
    assert caught.value.field == "messages"


# -- templates


def test_a_template_from_a_file_is_used_instead(tmp_path: Path) -> None:
    vocabularies.byte_level(tmp_path)
    file = tmp_path / "mine.jinja"
    file.write_text(
        "{{ bos_token }}{% for m in messages %}é {{ m.content }}<|endoftext|>{% endfor %}", encoding="utf-8"
    )
    tokenizer = Tokenizer.load(tmp_path, {}, file)
    assert tokenizer.render(USER) == "é hello<|endoftext|>"
    assert tokenizer.chat_template == file.read_text()
    assert set(tokenizer.encode("<|endoftext|>")) <= tokenizer.eos_ids  # its turn end
    settings_of(tmp_path, chat_template=None)
    assert Tokenizer.load(tmp_path, {}, file).render(USER) == "é hello<|endoftext|>"


@pytest.mark.parametrize("content", [None, b"\xff\xfe\xff", b"{% if %}"])
def test_a_template_file_that_cannot_be_used_is_refused_in_one_line(tmp_path: Path, content: bytes | None) -> None:
    vocabularies.byte_level(tmp_path)
    file = tmp_path / "mine.jinja"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(LoadError, match="cannot be read") as caught:
        Tokenizer.load(tmp_path, {}, file)
    assert "\n" not in str(caught.value)


def test_of_named_templates_the_one_for_tools_is_used_with_tools(tmp_path: Path) -> None:
    vocabularies.byte_level(tmp_path)
    named = [{"name": "default", "template": "plain"}, {"name": "tool_use", "template": "tools {{ tools | length }}"}]
    settings_of(tmp_path, chat_template=named)
    tokenizer = Tokenizer.load(tmp_path, {})
    assert tokenizer.render(USER) == "plain"
    assert tokenizer.render(USER, tools=[{"type": "function"}]) == "tools 1"
    assert tokenizer.chat_template == "tools {{ tools | length }}"


def test_code_that_mlx_lm_has_in_place_of_a_template_is_used(tmp_path: Path) -> None:
    vocabularies.byte_level(tmp_path)
    settings_of(tmp_path, chat_template_type="deepseek_v32")
    tokenizer = Tokenizer.load(tmp_path, {})
    assert "hello" in tokenizer.render(USER) and "<｜User｜>" in tokenizer.render(USER)
    assert tokenizer.chat_template is None
    settings_of(tmp_path, tool_parser_type="muse_spark")
    assert Tokenizer.load(tmp_path, {}).library_tool_parser == "muse_spark"
