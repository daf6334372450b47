"""Sampling defaults: whose word counts, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from paceline.engine.limits import Limits, validate
from paceline.errors import InvalidRequest, LoadError
from paceline.generation_config import (
    FILE,
    IN_OVERRIDE,
    NAMES,
    OVERRIDE,
    Rule,
    SamplingDefaults,
    check_file,
    defaults,
    end_tokens,
    merged,
    overrides,
)
from paceline.types import Sampling

QWEN = {"do_sample": True, "temperature": 0.6, "top_k": 20, "top_p": 0.95, "eos_token_id": [1, 2], "max_length": 9}


def model(folder: Path, values: Any) -> Path:
    (folder / FILE).write_text(values if isinstance(values, str) else json.dumps(values))
    return folder


def test_a_models_own_file_counts_and_its_lengths_do_not(tmp_path: Path) -> None:
    found = defaults(model(tmp_path, QWEN), "auto", {})
    assert found.values == {"temperature": 0.6, "top_k": 20, "top_p": 0.95}
    assert set(found.origins.values()) == {FILE} and found.notes == ()
    assert type(found.values["top_k"]) is int


def test_without_a_file_and_with_none_nothing_is_set(tmp_path: Path) -> None:
    assert defaults(tmp_path, "auto", {}) == SamplingDefaults()
    assert defaults(model(tmp_path, QWEN), "none", {}) == SamplingDefaults()


def test_a_file_that_is_named_takes_the_place_of_the_models(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    model(other, {"top_p": 0.5, "eos_token_id": 7})
    for source in (other, other / FILE):
        found = defaults(model(tmp_path, QWEN), source, {})
        assert (found.values, found.origins) == ({"top_p": 0.5}, {"top_p": str(source)})
        assert end_tokens(source) == [7]
    assert end_tokens("auto") == end_tokens("none") == []


@pytest.mark.parametrize(
    ("layers", "temperature"),
    [
        ([{"do_sample": False}], 0.0),
        ([{"do_sample": False, "temperature": 0.7}], 0.0),
        ([{"temperature": 0.7}], 0.7),
        ([{"do_sample": True}], None),
        ([{"do_sample": False}, {"temperature": 0.7}], 0.7),
        ([{"do_sample": False, "temperature": 0.7}, {"do_sample": True}], 0.7),
        ([{"temperature": 0.7}, {"do_sample": False}], 0.0),
        ([{"do_sample": False}, {"top_p": 0.5}], 0.0),
    ],
)
def test_do_sample_false_is_greedy_until_a_stronger_word_is_said(
    layers: list[dict[str, float | bool]], temperature: float | None
) -> None:
    assert merged([("", layer) for layer in layers]).values.get("temperature") == temperature


def test_settings_come_over_the_file_key_by_key(tmp_path: Path) -> None:
    found = defaults(model(tmp_path, QWEN), "auto", {"top_p": 1.0, "max_new_tokens": 50})
    assert found.values == {"temperature": 0.6, "top_k": 20, "top_p": 1.0, "max_tokens": 50}
    assert {name for name, origin in found.origins.items() if origin == OVERRIDE} == {"top_p", "max_tokens"}
    assert found.within(20).values["max_tokens"] == 20 and found.within(90) == found
    assert (
        str(found) == f"temperature 0.6 ({FILE}), top_p 1 ({OVERRIDE}), top_k 20 ({FILE}), max_tokens 50 ({OVERRIDE})"
    )


@pytest.mark.parametrize("top_k", [0, -1])
def test_top_k_has_two_ways_to_be_off(top_k: int) -> None:
    assert merged([("", {"top_k": top_k})]).values == {"top_k": 0}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"temperature": "hot"}, "temperature must be a number, and is 'hot'"),
        ({"top_p": 1.5}, "top_p must be above 0 and at most 1, and is 1.5"),
        ({"top_k": 2.5}, "top_k must be a whole number"),
        ({"top_k": float("inf")}, "top_k must be at least"),
        ({"top_k": float("nan")}, "top_k must be at least"),
        ({"do_sample": "no"}, "do_sample must be true or false"),
        ("{", "is not valid JSON"),
        ("[1]", "is not a JSON object"),
    ],
)
def test_what_is_wrong_in_a_file_is_noted_in_the_models_own_and_refused_in_one_that_is_named(
    tmp_path: Path, content: Any, words: str
) -> None:
    folder = model(tmp_path, content if isinstance(content, str) else {**content, "min_p": 0.25, "typical_p": None})
    found = defaults(folder, "auto", {})
    assert words in found.notes[0]
    assert found.values == ({} if isinstance(content, str) else {"min_p": 0.25})
    with pytest.raises(LoadError) as error:
        check_file(folder / FILE)
    assert words in str(error.value)


def test_a_file_that_is_named_and_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="cannot be read: No such file"):
        check_file(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("{", "input should be a JSON object"),
        ("[]", "input should be an object"),
        ('{"temprature": 1}', "'temprature' is unknown; known are temperature, top_p"),
        ('{"temperature": true}', "temperature must be a number"),
        ('{"temperature": 1e999}', "temperature must be at least 0"),
        ('{"top_k": 1e999}', "top_k must be at least"),
        ('{"max_new_tokens": -1e999}', "max_new_tokens must be at least 1"),
        ('{"max_new_tokens": 0}', "max_new_tokens must be at least 1"),
    ],
)
def test_an_override_that_is_wrong_says_what_it_should_be(given: str, words: str) -> None:
    with pytest.raises(ValueError) as error:
        overrides(given)
    assert words in str(error.value)


@pytest.mark.parametrize("key", IN_OVERRIDE)
def test_the_ranges_are_those_of_requests(key: str) -> None:
    """No request may be refused for a default that nobody asked it for."""
    rule: Rule = IN_OVERRIDE[key]
    step = 1 if rule.whole else 0.001
    high = 1000 if rule.high == float("inf") else rule.high
    for value in (rule.low, rule.low - step, rule.low + step, high, rule.high + step):
        if value == float("inf"):
            continue
        try:
            fits = merged([("", overrides({key: value}))]).values
        except ValueError:
            if key == "max_new_tokens" and value < 1:
                continue  # 0 is for prompts that are only scored
            with pytest.raises(InvalidRequest):
                validate(Sampling(**{NAMES.get(key, key): value}), Limits(4096, 100))  # type: ignore[arg-type]
        else:
            validate(Sampling(**fits), Limits(4096, 100))  # type: ignore[arg-type]
