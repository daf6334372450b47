from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.conversation.detokenize import ByteDetokenizer, Detokenizer, WindowDetokenizer
from paceline.conversation.tokenizer import Tokenizer
from tests.conversation import vocabularies

WIDE = "🙂👩‍👩‍👧‍👦 naïve 한국어 中文。 é"
TEXTS = st.text(max_size=40) | st.text(st.sampled_from(WIDE + "abcdehlorw. "), max_size=40)


@pytest.fixture(scope="module")
def metaspace(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return vocabularies.metaspace(tmp_path_factory.mktemp("metaspace"))


def pieces(detokenizer: Detokenizer, ids: Iterable[int]) -> list[str]:
    result = [detokenizer.push(token_id) for token_id in ids]
    result.append(detokenizer.finish())
    for piece in result:
        piece.encode()  # raises where it is no valid UTF-8
    return result


def bytewise(data: bytes) -> list[str]:
    return pieces(ByteDetokenizer(lambda byte: bytes([byte])), data)


# -- bytes


@settings(deadline=None)
@given(text=TEXTS)
def test_text_cut_into_bytes_comes_out_character_by_character(text: str) -> None:
    assert [piece for piece in bytewise(text.encode()) if piece] == list(text)


@settings(deadline=None)
@given(data=st.binary(max_size=40))
def test_bytes_that_are_no_text_come_out_as_replacements_and_lose_nothing_around_them(data: bytes) -> None:
    assert "".join(bytewise(data)) == data.decode("utf-8", errors="replace")


def test_half_a_character_waits_for_the_other_half() -> None:
    assert bytewise("é🙂".encode()) == ["", "é", "", "", "", "🙂", ""]


def test_half_a_character_at_the_end_is_shown_as_a_replacement() -> None:
    assert bytewise("a🙂".encode()[:-1]) == ["a", "", "", "", "\ufffd"]


# -- byte-level vocabularies


@settings(deadline=None)
@given(ids=st.lists(st.integers(0, 520), max_size=60), skip=st.booleans())
def test_any_byte_level_tokens_add_up_to_their_decoding(byte_level: Tokenizer, ids: list[int], skip: bool) -> None:
    assert "".join(pieces(byte_level.detokenizer(skip), ids)) == byte_level.decode(ids, skip)


@settings(deadline=None)
@given(text=TEXTS)
def test_byte_level_tokens_of_a_text_add_up_to_it(byte_level: Tokenizer, text: str) -> None:
    ids = byte_level.encode(text, add_special_tokens=False)
    assert "".join(pieces(byte_level.detokenizer(False), ids)) == text


def test_a_special_token_that_has_no_role_is_skipped_too(byte_level: Tokenizer) -> None:
    ids = byte_level.encode("a<|reserved|>b<|im_end|>")
    assert "".join(pieces(byte_level.detokenizer(), ids)) == byte_level.decode(ids) == "ab"
    assert "".join(pieces(byte_level.detokenizer(False), ids)) == "a<|reserved|>b<|im_end|>"


def test_an_emoji_in_a_byte_level_vocabulary_spans_tokens(byte_level: Tokenizer) -> None:
    ids = byte_level.encode("🙂")
    assert len(ids) == 4
    assert pieces(byte_level.detokenizer(), ids) == ["", "", "", "🙂", ""]


# -- other vocabularies


@pytest.mark.parametrize("kind", ["byte_fallback", "metaspace"])
def test_other_vocabularies_are_read_through_a_window(kind: str, request: pytest.FixtureRequest) -> None:
    tokenizer: Tokenizer = request.getfixturevalue(kind)
    assert isinstance(tokenizer.detokenizer(), WindowDetokenizer)


@settings(deadline=None)
@given(text=TEXTS)
def test_byte_fallback_tokens_of_a_text_add_up_to_it(byte_fallback: Tokenizer, text: str) -> None:
    ids = byte_fallback.encode(text, add_special_tokens=False)
    whole = byte_fallback.decode(ids)
    assert whole == text.replace("▁", " ")
    assert "".join(pieces(byte_fallback.detokenizer(), ids)) == whole


@settings(deadline=None)
@given(ids=st.lists(st.integers(0, 275) | st.integers(255, 275), max_size=60), skip=st.booleans())
def test_any_byte_fallback_tokens_that_are_text_add_up_to_their_decoding(
    byte_fallback: Tokenizer, ids: list[int], skip: bool
) -> None:
    streamed = "".join(pieces(byte_fallback.detokenizer(skip), ids))
    whole = byte_fallback.decode(ids, skip)
    if "\ufffd" not in whole:
        assert streamed == whole
    else:
        assert "\ufffd" in streamed


@settings(deadline=None)
@given(ids=st.lists(st.integers(0, 22), max_size=60), skip=st.booleans())
def test_any_metaspace_tokens_add_up_to_their_decoding(metaspace: Tokenizer, ids: list[int], skip: bool) -> None:
    assert "".join(pieces(metaspace.detokenizer(skip), ids)) == metaspace.decode(ids, skip)


def test_spaces_between_words_are_kept_and_the_first_one_is_not(byte_fallback: Tokenizer) -> None:
    ids = byte_fallback.encode("hello  world", add_special_tokens=False)
    found = pieces(byte_fallback.detokenizer(), ids)
    assert "".join(found) == "hello  world"
    assert len([piece for piece in found if piece]) > 5


def test_a_character_of_fallback_bytes_waits_until_it_is_whole(byte_fallback: Tokenizer) -> None:
    ids = [3 + byte for byte in "🙂한".encode()]
    assert pieces(byte_fallback.detokenizer(), ids) == ["", "", "", "🙂", "", "", "한", ""]


def test_a_text_cut_inside_a_character_keeps_the_characters_before_it(byte_fallback: Tokenizer) -> None:
    """The decoder itself would replace all bytes of the run, the whole characters too."""
    ids = [3 + byte for byte in "한한".encode()[:-1]]
    assert "".join(pieces(byte_fallback.detokenizer(), ids)) == "한\ufffd\ufffd"
    ids += byte_fallback.encode("lo", add_special_tokens=False)[1:]
    assert "".join(pieces(byte_fallback.detokenizer(), ids)) == "한\ufffd\ufffdlo"


def test_bytes_that_never_become_text_do_not_wait_for_ever(byte_fallback: Tokenizer) -> None:
    detokenizer = byte_fallback.detokenizer()
    found = [detokenizer.push(3 + 0xFF) for _ in range(50)]
    assert "".join(found) + detokenizer.finish() == "\ufffd" * 50
    assert any(found[: WindowDetokenizer.MAX_PENDING + 1])


def test_the_window_stays_short_however_long_the_text(byte_fallback: Tokenizer) -> None:
    longest = 0

    def decode(ids: Iterable[int]) -> str:
        nonlocal longest
        longest = max(longest, len(list(ids)))
        return byte_fallback.decode(list(ids))

    ids = byte_fallback.encode("hello world. " * 50 + WIDE, add_special_tokens=False)
    assert "".join(pieces(WindowDetokenizer(decode), ids)) == "hello world. " * 50 + WIDE
    assert longest <= 16
    many = [*ids, *[2] * 500, *byte_fallback.encode("a lo", add_special_tokens=False)]  # ends that are skipped
    assert "".join(pieces(WindowDetokenizer(decode), many)) == byte_fallback.decode(many)
    assert longest <= 16 + WindowDetokenizer.MAX_PENDING
