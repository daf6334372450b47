"""JSON bodies: long ones mean what Python's parser says they mean, and no single call to it is long."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline import bounded_json
from tests.lengths import examples

TEXT = st.text(st.sampled_from('ab"\\/\n\t[]{},:é\u2028😀'), max_size=60)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(TEXT, inner, max_size=6) | st.lists(st.integers()),
    max_leaves=40,
)


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Everything is long: parts are cut out from a few bytes on."""
    for name, size in (("DIRECT", 0), ("LONG", 20), ("PIECE", 17)):
        monkeypatch.setattr(bounded_json, name, size)
    yield


def outcome(parse: Any, body: bytes) -> Any:
    try:
        return parse(body)
    except (ValueError, RecursionError):
        return "refused"


@pytest.mark.usefixtures("small_pieces")
@settings(max_examples=examples(300), deadline=None)
@given(value=VALUES, escaped=st.booleans(), indent=st.sampled_from((None, 1)))
def test_a_long_body_means_what_pythons_parser_says(value: Any, escaped: bool, indent: int | None) -> None:
    body = json.dumps(value, ensure_ascii=escaped, indent=indent).encode()
    try:
        assert bounded_json.loads(body) == value
    except ValueError as error:  # the one thing that is refused more: names of more than LONG characters
        assert "a name in it" in str(error)


@pytest.mark.usefixtures("small_pieces")
@settings(max_examples=examples(300), deadline=None)
@given(value=VALUES, place=st.floats(0, 1), put=st.sampled_from((b"", b",", b'"', b"\\", b"x", b"\x01", b"\xff", b"]")))
def test_a_damaged_body_is_refused_where_pythons_parser_refuses_it(value: Any, place: float, put: bytes) -> None:
    body = json.dumps(value).encode()
    cut = int(place * len(body))
    damaged = body[:cut] + put + body[cut + 1 :]
    expected = outcome(json.loads, damaged)
    found = outcome(bounded_json.loads, damaged)
    if b"\\u" not in damaged and b"NaN" not in damaged and b"Infinity" not in damaged:
        assert found == expected or found == "refused"
    if expected == "refused":
        assert found == "refused"


@pytest.mark.parametrize(
    "body",
    [
        b'{"p":"' + b"\\n" * 2_000_000 + b'"}',
        b'{"p":"' + b'\\"' * 2_000_000 + b'"}',
        b'{"p":"' + b"\\ud83d\\ude00" * 300_000 + b'"}',
        ('{"p":"' + "é😀" * 600_000 + '"}').encode(),
        b'{"p":[' + b",".join([b"12345"] * 700_000) + b"]}",
        b'{"p":[' + b",".join([b'"%b"' % (b"x" * 4000)] * 1000) + b"]}",
    ],
    ids=["escapes", "quotes", "pairs", "characters", "numbers", "strings"],
)
def test_no_call_to_the_parser_is_long(body: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = json.loads(body)
    parse, longest = json.loads, 0

    def measured(piece: bytes, **more: Any) -> Any:
        nonlocal longest
        longest = max(longest, len(piece))
        return parse(piece, **more)

    monkeypatch.setattr(json, "loads", measured)
    assert bounded_json.loads(body) == expected
    assert 0 < longest <= bounded_json.PIECE + 16


@pytest.mark.parametrize(
    ("body", "what"),
    [
        (b'{"messages":[' + b",".join([b'{"a":1}'] * 200_000) + b"]}", "strings"),
        (b'{"p":[' + b",".join([b"[]"] * 200_000) + b"]}", "objects and arrays"),
        (b'{"p":[' + b",".join([b"1"] * 1_100_000) + b"]}", "values"),
        (b'{"p":[' + b",".join([b'""'] * 200_000) + b"]}", "strings"),
        (b'{"p":' + b"1" * 5_000_000 + b"}", "MiB"),
        (b"[" * 500_000, "objects and arrays"),
    ],
    ids=["objects", "arrays", "numbers", "strings", "digits", "depth"],
)
def test_more_values_than_any_request_has_are_refused_before_they_are_made(body: bytes, what: str) -> None:
    with pytest.raises(bounded_json.TooMuchStructure, match=what):
        bounded_json.loads(body)


@pytest.mark.parametrize("body", [b'"\\ud83d"', b'"\\ude00 and ' + b"x" * 400_000 + b'"', b'["\\ud83d"]'])
def test_half_of_an_escaped_pair_is_no_text(body: bytes) -> None:
    with pytest.raises(ValueError, match="unpaired"):
        bounded_json.loads(body)


@pytest.mark.parametrize("long", [False, True])
@pytest.mark.parametrize("body", [b'{"a": "\xed\xa0\x80"}', b'{"\xed\xbf\xbf": 1}', b'["\xff"]'])
def test_bytes_that_are_no_text_are_refused(body: bytes, long: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if long:
        monkeypatch.setattr(bounded_json, "DIRECT", 0)
    with pytest.raises(ValueError, match="utf-8"):
        bounded_json.loads(body)
