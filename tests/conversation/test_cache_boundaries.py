from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.conversation import cache_boundaries as module
from paceline.conversation.cache_boundaries import BoundaryFinder
from paceline.conversation.media import Loader
from paceline.conversation.messages import checked
from paceline.conversation.prompt import PromptBuilder
from paceline.conversation.tokenizer import Tokenizer
from tests.conversation import vocabularies

ROWS = "{% for message in messages %}"
CALL = "{% if add_generation_prompt %}"


@dataclass(frozen=True)
class Style:
    """A template as a family of models writes it, with the special tokens that it needs."""

    template: str
    special: tuple[str, ...]
    ends: str | None = None
    pieces: str = vocabularies.QWEN_PIECES

    def tokenizer(self, factory: pytest.TempPathFactory) -> Tokenizer:
        folder = factory.mktemp("style")
        return vocabularies.joining(folder, self.template, self.special, pieces=self.pieces, eos_token=self.ends)


STYLES = {
    "chatml": Style(
        ROWS + "<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
        + CALL + "<|im_start|>assistant\n{{ '<think>\n' if thinking else '<think>\n\n</think>\n\n' }}{% endif %}",
        ("<|im_start|>", "<|im_end|>"),
        "<|im_end|>",
    ),
    "chatml with a system prompt of its own": Style(
        "{% if messages[0].role != 'system' %}<|im_start|>system\nYou are helpful.<|im_end|>\n{% endif %}"
        + ROWS + "<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
        + CALL + "<|im_start|>assistant\n{% endif %}",
        ("<|im_start|>", "<|im_end|>"),
        "<|im_end|>",
    ),
    "llama3": Style(
        "<|begin|>" + ROWS + "<|head|>{{ message.role }}<|/head|>\n\n{{ message.content }}<|eot_id|>{% endfor %}"
        + CALL + "<|head|>assistant<|/head|>\n\n{% endif %}",
        ("<|begin|>", "<|head|>", "<|/head|>", "<|eot_id|>", "<|end_of_text|>"),
        "<|end_of_text|>",
    ),
    "gemma": Style(
        "<bos>" + ROWS + "{% if message.role == 'system' %}{{ raise_exception('No system role') }}{% endif %}"
        "<start_of_turn>{{ message.role }}\n{{ message.content | trim }}<end_of_turn>\n{% endfor %}"
        + CALL + "<start_of_turn>model\n{% endif %}",
        ("<bos>", "<start_of_turn>", "<end_of_turn>"),
        "<end_of_turn>",
    ),
    "mistral": Style(
        "{% if messages[0].role == 'system' %}{% set opening = messages[0].content + '\n\n' %}"
        "{% set messages = messages[1:] %}{% else %}{% set opening = '' %}{% endif %}<s>"
        + ROWS + "{% if message.role == 'user' %}[INST] {{ (opening if loop.first else '') + message.content }} [/INST]"
        "{% else %} {{ message.content }}</s>{% endif %}{% endfor %}",
        ("<s>", "</s>"),
        "</s>",
    ),
    "harmony": Style(
        ROWS + "<|start|>{{ message.role }}<|message|>{{ message.content }}"
        "{{ '<|return|>' if loop.last and message.role == 'assistant' else '<|end|>' }}{% endfor %}"
        + CALL + "<|start|>assistant{% endif %}",
        ("<|start|>", "<|message|>", "<|end|>", "<|return|>"),
        "<|return|>",
    ),
    "plain": Style(
        ROWS + "{{ message.role }}: {{ message.content }}\n\n{% endfor %}" + CALL + "assistant:{% endif %}", ()
    ),
}  # fmt: skip
STYLES["mistral cut as GPT-2"] = replace(STYLES["mistral"], pieces=vocabularies.GPT2_PIECES)
WITH_SYSTEM = [name for name in STYLES if name != "gemma"]
WITH_ENDS = [name for name in STYLES if name != "plain"]

TEXTS = st.builds(
    "{}{}".format,
    st.sampled_from(["", "\n", "\n\n\n", " ", "   ", "\t", "7", "42", "a", "hello", ".", ":\n", "é", "🙂", "\r\n "]),
    st.text(max_size=10) | st.text(st.sampled_from("\n .7ahelo:"), max_size=10),
)
SYSTEM_TEXTS = st.builds("You are {}{}".format, TEXTS, st.sampled_from(["brief", "brief.", "brief.\n", "brief:\n\n  "]))


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Tokenizer]:
    return {name: style.tokenizer(tmp_path_factory) for name, style in STYLES.items()}


@pytest.fixture(scope="module")
def builders(tokenizers: Mapping[str, Tokenizer]) -> Mapping[str, PromptBuilder]:
    return {name: builder(tokenizer) for name, tokenizer in tokenizers.items()}


def builder(tokenizer: Tokenizer) -> PromptBuilder:
    return PromptBuilder(tokenizer, None, max_images=3, loader=Loader(max_pixels=100, max_bytes=10_000))


def system(words: str) -> dict[str, Any]:
    return {"role": "system", "content": words}


def user(words: str) -> dict[str, Any]:
    return {"role": "user", "content": words}


def assistant(words: str) -> dict[str, Any]:
    return {"role": "assistant", "content": words}


def prefixes(builder: PromptBuilder, messages: Sequence[Mapping[str, Any]], **options: Any) -> list[str]:
    """The text before each of the prompt's boundaries."""
    prompt = builder.chat(messages, options)
    return [
        builder.tokenizer.decode(prompt.token_ids[:boundary], skip_special_tokens=False)
        for boundary in prompt.boundaries
    ]


def system_mark(tokenizer: Tokenizer, messages: Sequence[Mapping[str, Any]]) -> tuple[int, ...]:
    """The tokens in front of the boundary that the probes find."""
    conversation, _ = checked(messages, takes_images=False)
    ids = tokenizer.encode(tokenizer.render(conversation), add_special_tokens=False)
    return tuple(ids[: BoundaryFinder(tokenizer)._system(conversation, {}, ids)])


@contextmanager
def counted(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The texts that are tokenized meanwhile."""
    texts: list[str] = []
    encode = tokenizer.encode

    def counting(text: str, add_special_tokens: bool = True) -> list[int]:
        texts.append(text)
        return encode(text, add_special_tokens)

    with monkeypatch.context() as patch:
        patch.setattr(tokenizer, "encode", counting)
        yield texts


# -- what holds of every prompt


@pytest.mark.parametrize("style", STYLES)
@given(data=st.data())
def test_marks_rise_and_lie_inside(builders: Mapping[str, PromptBuilder], style: str, data: st.DataObject) -> None:
    leading = data.draw(st.lists(SYSTEM_TEXTS.map(system), max_size=1)) if style != "gemma" else []
    turns = data.draw(st.lists(st.tuples(TEXTS, TEXTS), max_size=3))
    talk = [message for asked, said in turns for message in (user(asked), assistant(said))]
    prompt = builders[style].chat([*leading, *talk, user(data.draw(TEXTS))], {})
    assert all(one < other for one, other in pairwise((0, *prompt.boundaries, len(prompt.token_ids))))


@pytest.mark.parametrize("style", STYLES)
@given(words=SYSTEM_TEXTS, asked=st.lists(TEXTS, min_size=2, max_size=4))
def test_the_system_mark_begins_every_prompt_of_that_system(
    builders: Mapping[str, PromptBuilder], style: str, words: str, asked: list[str]
) -> None:
    leading = [system(words)] if style in WITH_SYSTEM else []
    tokenizer = builders[style].tokenizer
    boundary = system_mark(tokenizer, [*leading, user(asked[0])])
    for question in asked:
        prompt = builders[style].chat([*leading, user(question)], {})
        assert prompt.token_ids[: len(boundary)] == boundary
        assert len(boundary) in prompt.boundaries
    if leading:  # nearly all of it: not more is left out than what may join with the user's words
        found = tokenizer.decode(boundary, skip_special_tokens=False)
        start = found.index("You are")
        assert found[start:].startswith("You are") and len(words.rstrip()) - len(found[start:].rstrip()) <= 4


@pytest.mark.parametrize("style", WITH_ENDS)
@given(talk=st.lists(TEXTS.filter(str.strip), min_size=3, max_size=5), more=TEXTS)
def test_the_marks_of_a_conversations_turns_are_marks_when_it_goes_on(
    builders: Mapping[str, PromptBuilder], style: str, talk: list[str], more: str
) -> None:
    talk = talk if len(talk) % 2 else talk[:-1]
    messages = [(assistant if place % 2 else user)(words) for place, words in enumerate(talk)]
    now = builders[style].chat(messages, {})
    later = builders[style].chat([*messages, assistant(more), user("and?")], {})
    assert set(now.boundaries) <= set(later.boundaries)
    assert later.token_ids[: now.boundaries[-1]] == now.token_ids[: now.boundaries[-1]]
    assert len(later.boundaries) > len(now.boundaries)


# -- template by template

TALK = [system("Be brief."), user("one"), assistant("two"), user("three")]


def test_chatml_is_marked_behind_the_line_break_of_each_turn(builders: Mapping[str, PromptBuilder]) -> None:
    for thinking in (True, False):
        first, boundary, second, third, last = prefixes(builders["chatml"], TALK, thinking=thinking)
        assert first == "<|im_start|>system\nBe brief.<|im_end|>\n"
        assert boundary == first + "<|im_start|>user"
        assert second == boundary + "\none<|im_end|>\n"
        assert third.endswith("two<|im_end|>\n")
        assert last.endswith("three<|im_end|>\n")  # in front of the call for an answer, thinking or not


def test_a_system_prompt_that_the_template_brings_is_marked(builders: Mapping[str, PromptBuilder]) -> None:
    found = prefixes(builders["chatml with a system prompt of its own"], [user("one")])
    assert found[0] == "<|im_start|>system\nYou are helpful.<|im_end|>\n"
    assert found[1] == found[0] + "<|im_start|>user"


def test_llama_is_marked_behind_its_end_of_turn_though_no_file_names_it(builders: Mapping[str, PromptBuilder]) -> None:
    found = prefixes(builders["llama3"], TALK)
    assert found[0] == "<|begin|><|head|>system<|/head|>\n\nBe brief.<|eot_id|>"
    assert found[1] == found[0] + "<|head|>user<|/head|>"  # the line breaks may join with those of the user
    assert [text.endswith("<|eot_id|>") for text in found] == [True, False, True, True, True]


def test_gemma_is_marked_behind_each_turn(builders: Mapping[str, PromptBuilder]) -> None:
    found = prefixes(builders["gemma"], TALK[1:])
    assert found[0] == "<bos><start_of_turn>user"
    assert found[1] == "<bos><start_of_turn>user\none<end_of_turn>\n"
    assert len(found) == 4 and all(text.endswith("<end_of_turn>\n") for text in found[1:])


def test_mistral_is_marked_behind_the_system_prompt_inside_the_users_turn(
    builders: Mapping[str, PromptBuilder],
) -> None:
    boundary, turn = prefixes(builders["mistral"], TALK)
    assert boundary == "<s>[INST] Be brief"  # its full stop and the line breaks are one token
    assert turn == "<s>[INST] Be brief.\n\none [/INST] two</s>"


def test_a_turn_end_that_ends_no_answer_is_found_by_a_probe(builders: Mapping[str, PromptBuilder]) -> None:
    tokenizer = builders["harmony"].tokenizer
    assert tokenizer.encode("<|end|>")[0] not in tokenizer.eos_ids
    found = prefixes(builders["harmony"], TALK)
    assert [text.endswith("<|end|>") for text in found] == [True, False, True, True, True]


def test_without_special_tokens_the_end_of_the_last_message_is_marked(builders: Mapping[str, PromptBuilder]) -> None:
    boundary, last = prefixes(builders["plain"], TALK)
    assert boundary == "system: Be brief.\n\nuser"
    assert last == "system: Be brief.\n\nuser: one\n\nassistant: two\n\nuser: three"


def test_only_a_template_without_turn_ends_is_rendered_again(
    builders: Mapping[str, PromptBuilder], monkeypatch: pytest.MonkeyPatch
) -> None:
    for style, expected in (("plain", 2), ("mistral", 1), ("chatml", 1)):
        messages = [user("one")]  # Mistral's has no turn end in it
        builders[style].chat(messages, {})
        with counted(builders[style].tokenizer, monkeypatch) as texts:
            builders[style].chat(messages, {})
        assert len(texts) == expected


def test_a_prompt_that_calls_for_no_answer_is_not_rendered_again(
    builders: Mapping[str, PromptBuilder], monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"add_generation_prompt": False}
    builders["plain"].chat(TALK, options)
    with counted(builders["plain"].tokenizer, monkeypatch) as texts:
        assert prefixes(builders["plain"], TALK, **options) == ["system: Be brief.\n\nuser"]
    assert len(texts) == 1


# -- turns


@pytest.mark.parametrize(
    "text, expected",
    [
        ("<|im_end|>\n<|im_start|>x", ["<|im_end|>\n"]),
        ("<|im_end|><|im_start|>x", ["<|im_end|>"]),
        ("<|im_end|>\nx<|im_start|>", ["<|im_end|>"]),  # text, not a gap
        ("<|im_end|>x<|im_start|>", ["<|im_end|>"]),
        ("<|im_end|>\n", ["<|im_end|>"]),  # more line breaks could follow
        ("a<|im_end|>", []),  # the whole of it
        ("<|im_end|><|im_end|>a", ["<|im_end|>", "<|im_end|><|im_end|>"]),
        ("no turns", []),
        ("", []),
    ],
)
def test_a_templated_text_is_marked_behind_its_turns(
    builders: Mapping[str, PromptBuilder], text: str, expected: list[str]
) -> None:
    tokenizer = builders["chatml"].tokenizer
    prompt = builders["chatml"].text(text)
    assert [
        tokenizer.decode(prompt.token_ids[:boundary], skip_special_tokens=False) for boundary in prompt.boundaries
    ] == expected


def test_a_long_gap_is_no_part_of_the_turns_end(tokenizers: Mapping[str, Tokenizer]) -> None:
    tokenizer = tokenizers["chatml"]
    end, start, space = (tokenizer.encode(text)[0] for text in ("<|im_end|>", "<|im_start|>", "\t"))
    finder = BoundaryFinder(tokenizer)
    assert finder.text([end, *[space] * 2, start, 0]) == (3,)
    assert finder.text([end, *[space] * 3, start, 0]) == (1,)


def test_a_client_that_templates_itself_gets_the_marks_of_the_turns(builders: Mapping[str, PromptBuilder]) -> None:
    chat = builders["chatml"].chat(TALK, {"thinking": True})
    for prompt in (builders["chatml"].tokenizer.render(TALK, thinking=True), list(chat.token_ids)):
        own = builders["chatml"].text(prompt)
        assert own.token_ids == chat.token_ids
        assert set(chat.boundaries) - set(own.boundaries) == {chat.boundaries[1]}  # all but the probes' boundary


def test_ids_that_no_vocabulary_has_are_left_to_others_to_refuse(builders: Mapping[str, PromptBuilder]) -> None:
    assert builders["chatml"].text([-1, 2**70, 5]).boundaries == ()


def test_an_end_that_is_plain_text_is_no_turn_end(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A configuration may name any id: a mark at every such word would cost more than it saves."""
    style = STYLES["chatml"]
    tokenizer = style.tokenizer(tmp_path_factory)
    odd = Tokenizer(tokenizer._wrapped, tokenizer.eos_ids | {tokenizer.encode("\n")[0]})
    assert BoundaryFinder(odd).text(odd.encode("a\nb\nc<|im_end|>d")) == (6,)


# -- the system prompt


def test_the_volatile_front_of_a_system_prompt_moves_no_mark(builders: Mapping[str, PromptBuilder]) -> None:
    plain = builders["chatml"].chat(TALK, {})
    headed = [system("x-anthropic-billing-header: 1\n" + TALK[0]["content"]), *TALK[1:]]
    assert builders["chatml"].chat(headed, {}) == plain


def test_a_long_system_prompt_is_probed_once(
    tokenizers: Mapping[str, Tokenizer], monkeypatch: pytest.MonkeyPatch
) -> None:
    built = builder(tokenizers["chatml"])
    with counted(built.tokenizer, monkeypatch) as texts:
        for question in ("one", "two", "three"):
            built.chat([system("Be very brief."), user(question)], {})
        assert len(texts) == 2 + 3
        built.chat([{"role": "developer", "content": "Be very brief."}, user("four")], {})
        assert len(texts) == 2 + 4
        built.chat([system("Be very brief."), user("one")], {"thinking": True})  # may be told to the system
        assert len(texts) == 4 + 5


def test_a_refusal_is_remembered_too_and_leaves_the_turns(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    picky = STYLES["chatml"].template + "{% if messages | length < 3 %}{{ raise_exception('too short') }}{% endif %}"
    built = builder(Style(picky, STYLES["chatml"].special, "<|im_end|>").tokenizer(tmp_path_factory))
    rendered: list[Any] = []
    render = built.tokenizer.render

    def counting(messages: Sequence[Mapping[str, Any]], **options: Any) -> str:
        rendered.append(messages)
        return render(messages, **options)

    monkeypatch.setattr(built.tokenizer, "render", counting)
    for _ in range(2):
        found = prefixes(built, TALK)
    assert found[0] == "<|im_start|>system\nBe brief.<|im_end|>\n"
    assert len(found) == 4
    assert len(rendered) == 2  # to find boundaries, the first time


@pytest.mark.parametrize("error", [ZeroDivisionError, RecursionError, IndexError])
def test_a_template_that_fails_in_any_way_costs_marks_only(
    tokenizers: Mapping[str, Tokenizer], monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    tokenizer = tokenizers["plain"]
    ids = tokenizer.encode(tokenizer.render(TALK))

    def fails(*_: Any, **__: Any) -> str:
        raise error("no")

    with monkeypatch.context() as patch:
        patch.setattr(tokenizer, "render", fails)
        assert BoundaryFinder(tokenizer).chat(TALK, {}, ids) == ()


def test_options_that_are_nested_without_end_cost_a_mark_only(tokenizers: Mapping[str, Tokenizer]) -> None:
    nested: list[Any] = []
    for _ in range(sys.getrecursionlimit() * 2):
        nested = [nested]
    ids = tokenizers["chatml"].encode(tokenizers["chatml"].render(TALK))
    assert len(BoundaryFinder(tokenizers["chatml"]).chat(TALK, {"nested": nested}, ids)) == 4


def test_only_so_many_system_prompts_are_remembered(
    tokenizers: Mapping[str, Tokenizer], monkeypatch: pytest.MonkeyPatch
) -> None:
    built = builder(tokenizers["chatml"])
    with counted(built.tokenizer, monkeypatch) as texts:
        for number in range(module.MAX_SYSTEM_PROMPTS + 5):
            built.chat([system(f"number {number}"), user("x")], {})
            built.chat([system("number 0"), user("x")], {})  # in use all the time
        assert len(built._boundary_finder._systems) == module.MAX_SYSTEM_PROMPTS
        assert len([text for text in texts if "number 0<" in text]) == 2 + module.MAX_SYSTEM_PROMPTS + 6
        del texts[:]
        built.chat([system("number 1"), user("x")], {})
        assert len(texts) == 2 + 1


def test_a_prompt_that_leaves_the_probes_early_is_marked_where_it_does(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """As where a template writes the number of messages, or the time, into the system prompt."""
    style = Style("Rules. Length {{ messages | length }}. " + STYLES["plain"].template, ())
    built = builder(style.tokenizer(tmp_path_factory))
    assert prefixes(built, TALK)[0].rstrip() == "Rules. Length"


def test_what_was_learned_on_another_day_is_not_used(
    tokenizers: Mapping[str, Tokenizer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some templates write the day into the system prompt."""

    class Tomorrow(date):
        @classmethod
        def today(cls) -> Tomorrow:
            return cls(2999, 1, 1)

    built = builder(tokenizers["chatml"])
    built.chat(TALK, {})
    with counted(built.tokenizer, monkeypatch) as texts:
        monkeypatch.setattr(module, "date", Tomorrow)
        built.chat(TALK, {})
    assert len(texts) == 3


def test_many_threads_find_the_same_marks(tokenizers: Mapping[str, Tokenizer]) -> None:
    built = builder(tokenizers["chatml"])
    talks = [[system(f"number {number % 70}"), user("x")] for number in range(280)]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda talk: built.chat(talk, {}).boundaries, talks))
    assert together == [built.chat(talk, {}).boundaries for talk in talks]


def test_marking_thirty_thousand_tokens_tokenizes_none_of_them_again(
    tokenizers: Mapping[str, Tokenizer], monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenizer = tokenizers["chatml"]
    talk = [system("a b. " * 10_000), user("x")]
    ids = tokenizer.encode(tokenizer.render(talk))
    assert len(ids) >= 30_000
    finder = BoundaryFinder(tokenizer)
    finder.chat(talk, {}, ids)  # the probes are tokenized here
    with counted(tokenizer, monkeypatch) as texts:
        finder.chat(talk, {}, ids)
    assert sum(map(len, texts)) < 1000
