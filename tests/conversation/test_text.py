from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.conversation.text import ByteDetokenizer, Detokenizer, TextChunk, TextStream, WindowDetokenizer
from paceline.conversation.tokenizer import Tokenizer
from paceline.types import TokenLogprob
from tests.conversation import vocabularies
from tests.lengths import examples

ALPHABET = "abé🙂"  # few characters, so that stop strings overlap; half of them span several bytes
STOPS = st.lists(st.text(ALPHABET, min_size=1, max_size=5), max_size=4)
TOKENS = st.lists(st.text(ALPHABET, max_size=4).map(str.encode), max_size=25)


@st.composite
def byte_tokens(draw: st.DrawFn) -> list[bytes]:
    """A text whose tokens begin and end anywhere, inside characters too; some have no text at all."""
    data = draw(st.text(ALPHABET, max_size=25)).encode()
    borders = sorted(draw(st.lists(st.integers(0, len(data)), max_size=25)))
    return [data[low:high] for low, high in zip([0, *borders], [*borders, len(data)], strict=True)]


def score(place: int) -> TokenLogprob:
    return TokenLogprob(place, -float(place))


class Reader:
    """Pushes tokens (their numbers are their places) until the text stops, and adds up the pieces."""

    def __init__(
        self, tokens: Sequence[bytes], stops: Sequence[str], free: int = 0, *, include_stop: bool = False
    ) -> None:
        self.stream = TextStream(ByteDetokenizer(lambda place: tokens[place]), stops, include_stop=include_stop)
        self.pieces: list[TextChunk] = []
        for place in range(len(tokens)):
            self.pieces.append(self.stream.push(place, score(place), may_stop=place >= free))
            if self.pieces[-1].stop is not None:
                return
        self.pieces.append(self.stream.finish(may_stop=len(tokens) > free))

    @property
    def text(self) -> str:
        return "".join(piece.text for piece in self.pieces)

    @property
    def ids(self) -> list[int]:
        return [token_id for piece in self.pieces for token_id in piece.token_ids]

    @property
    def stop(self) -> str | None:
        return self.pieces[-1].stop


@given(tokens=byte_tokens(), stops=STOPS)
def test_a_stop_string_stays_where_it_is_asked_for(tokens: list[bytes], stops: list[str]) -> None:
    without, included = Reader(tokens, stops), Reader(tokens, stops, include_stop=True)
    assert included.stop == without.stop
    assert included.text == without.text + (without.stop or "")


def complete(tokens: Sequence[bytes]) -> str:
    """The text of these tokens, without a character whose other half is to come."""
    return b"".join(tokens).decode(errors="ignore")


def cut(text: str, stops: Sequence[str]) -> tuple[str, str | None]:
    """Before the first stop string to be complete, and of those that are, the longest."""
    for end in range(len(text) + 1):
        found = [stop for stop in stops if text[:end].endswith(stop)]
        if found:
            longest = max(found, key=len)
            return text[: end - len(longest)], longest
    return text, None


@settings(max_examples=examples(150), deadline=None)
@given(tokens=TOKENS | byte_tokens(), stops=STOPS, free=st.integers(0, 6))
def test_the_streamed_text_is_the_whole_text_up_to_its_first_stop_string(
    tokens: list[bytes], stops: list[str], free: int
) -> None:
    reader = Reader(tokens, stops, free)
    open_to_all = complete(tokens[:free])  # before min_tokens nothing stops, and nothing may begin to
    rest, stop = cut(complete(tokens)[len(open_to_all) :], stops)
    assert (reader.text, reader.stop) == (open_to_all + rest, stop)


@settings(max_examples=examples(150), deadline=None)
@given(tokens=TOKENS | byte_tokens(), stops=STOPS, free=st.integers(0, 6))
def test_tokens_come_out_in_order_with_their_text_and_none_from_past_the_stop(
    tokens: list[bytes], stops: list[str], free: int
) -> None:
    reader = Reader(tokens, stops, free)
    expected = list(range(len(tokens)))
    if reader.stop is not None:
        begins = [len(complete(tokens[:place])) for place in expected]
        expected = [place for place in expected if place < free or begins[place] < len(reader.text)]
    assert reader.ids == expected
    for piece in reader.pieces:
        assert piece.logprobs == tuple(score(place) for place in piece.token_ids)
    shown, out = "", 0
    for piece in reader.pieces[:-1]:
        shown, out = shown + piece.text, out + len(piece.token_ids)
        assert len(complete(tokens[:out])) <= len(shown)  # no token before its text


@settings(deadline=None)
@given(tokens=TOKENS, stops=STOPS)
def test_no_more_is_held_back_than_may_begin_a_stop_string(tokens: list[bytes], stops: list[str]) -> None:
    stream = TextStream(ByteDetokenizer(lambda place: tokens[place]), stops)
    shown = ""
    for place in range(len(tokens)):
        piece = stream.push(place)
        if piece.stop is not None:
            return
        shown += piece.text
        text = complete(tokens[: place + 1])
        beginnings = [stop[:size] for stop in stops for size in range(1, len(stop)) if text.endswith(stop[:size])]
        assert len(text) - len(shown) == max(map(len, beginnings), default=0)


def test_without_stop_strings_every_token_comes_out_at_once() -> None:
    reader = Reader([b"a", b"", "é".encode()[:1], "é".encode()[1:]], [])
    assert [(piece.text, piece.token_ids) for piece in reader.pieces] == [
        ("a", (0,)),
        ("", (1,)),
        ("", (2,)),
        ("é", (3,)),
        ("", ()),
    ]


def test_a_stop_string_across_three_tokens_never_leaks() -> None:
    reader = Reader([b"one ##", b"# E", b"ND ### two"], ["### END ###"])
    assert [piece.text for piece in reader.pieces] == ["one ", "", ""]
    assert (reader.stop, reader.ids) == ("### END ###", [0])


def test_what_only_looked_like_a_stop_string_comes_out_as_soon_as_it_is_clear() -> None:
    reader = Reader([b"a<", b"e", b"n", b"t", b"er"], ["<end>"])
    assert [piece.text for piece in reader.pieces] == ["a", "", "", "<ent", "er", ""]
    assert [piece.token_ids for piece in reader.pieces] == [(), (), (), (0, 1, 2, 3), (4,), ()]


def test_a_stop_string_that_begins_inside_a_failed_one_is_found() -> None:
    assert Reader([b"aab"], ["aaab", "ab"]).text == "a"
    assert Reader([b"a", b"a", b"b"], ["aaab", "ab"]).text == "a"
    assert Reader([bytes([c]) for c in b"ababac"], ["abac"]).text == "ab"


def test_of_overlapping_stop_strings_the_first_to_be_complete_ends_the_text_wherever_tokens_end() -> None:
    for tokens in ([b"abcd"], [b"a", b"b", b"c", b"d"], [b"ab", b"cd"]):
        for stops in (["abcd", "c"], ["c", "abcd"]):
            assert (Reader(tokens, stops).text, Reader(tokens, stops).stop) == ("ab", "c")
        for stops in (["bc", "abc"], ["abc", "bc"]):
            assert (Reader(tokens, stops).text, Reader(tokens, stops).stop) == ("", "abc")


def test_text_behind_a_stop_string_in_the_same_token_is_dropped() -> None:
    reader = Reader([b"x", b"yes. No"], ["."])
    assert (reader.text, reader.ids) == ("xyes", [0, 1])


def test_the_tokens_of_a_stop_string_are_dropped_even_where_it_begins_inside_a_character() -> None:
    reader = Reader([b"a", *(bytes([byte]) for byte in "。b".encode())], ["。"])
    assert (reader.text, reader.ids, reader.stop) == ("a", [0], "。")


def test_an_end_token_has_no_text_but_is_counted_among_the_tokens() -> None:
    stream = TextStream(ByteDetokenizer(lambda place: b"<"), ["<end>"])
    assert stream.push(0) == TextChunk()
    stream.silent(1, score(1))
    piece = stream.finish()
    assert (piece.text, piece.token_ids, piece.logprobs, piece.stop) == ("<", (0, 1), (score(1),), None)


def test_half_a_character_at_the_end_comes_out_as_a_replacement_unless_that_stops_it() -> None:
    half = ["é".encode()[:1]]
    assert Reader([b"a", *half], ["zz"]).text == "a\ufffd"
    assert Reader([b"a", *half], ["zz"]).ids == [0, 1]
    reader = Reader([b"a", *half], ["\ufffd"])
    assert (reader.text, reader.stop, reader.ids) == ("a", "\ufffd", [0])


def test_below_min_tokens_a_stop_string_is_plain_text_and_none_begins_there() -> None:
    assert Reader([b"a.", b"b.", b"c."], ["."], free=2).text == "a.b.c"
    assert Reader([b"x##", b"#y", b"###"], ["###"], free=1).text == "x###y"
    assert Reader([b"a.", b"b."], ["."], free=9).text == "a.b."


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
