"""Sampling defaults: what the model's generation_config.json says, and what the settings say over it. No MLX."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from paceline.errors import LoadError

FILE = "generation_config.json"
OVERRIDE = "override_generation_config"  # as /v1/status names it


@dataclass(frozen=True, slots=True)
class Rule:
    """What a key may be; the ranges are those of requests (engine/limits)."""

    low: float
    high: float = math.inf
    above: bool = False  # more than `low`
    whole: bool = False

    def check(self, value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError("must be a number")
        if self.whole and math.isfinite(value) and value != int(value):
            raise ValueError("must be a whole number")
        fits = self.low < value <= self.high if self.above else self.low <= value <= self.high
        if not math.isfinite(value) or not fits:
            most = "" if self.high == math.inf else f" and at most {self.high:g}"
            raise ValueError(f"must be {'above' if self.above else 'at least'} {self.low:g}{most}")
        return int(value) if self.whole else float(value)


# What a model's file may set. Its lengths are not taken: an answer ends where the model ends it.
IN_FILE: Mapping[str, Rule] = {
    "temperature": Rule(0, 100),
    "top_p": Rule(0, 1, above=True),
    "top_k": Rule(-1, whole=True),
    "min_p": Rule(0, 1),
    "repetition_penalty": Rule(0, 100, above=True),
}
# What an administrator may set.
IN_OVERRIDE: Mapping[str, Rule] = {
    **IN_FILE,
    "presence_penalty": Rule(-2, 2),
    "frequency_penalty": Rule(-2, 2),
    "max_new_tokens": Rule(1, whole=True),
}
DO_SAMPLE = "do_sample"
NAMES = {"max_new_tokens": "max_tokens"}  # what a request calls it
SHOWN = tuple(NAMES.get(key, key) for key in IN_OVERRIDE)


@dataclass(frozen=True, slots=True)
class SamplingDefaults:
    """What applies where a request is silent, by the names of requests; what is not here is off, as OpenAI has it."""

    values: Mapping[str, float] = field(default_factory=dict)
    origins: Mapping[str, str] = field(default_factory=dict)  # where each value is from
    notes: tuple[str, ...] = ()  # what was wrong in the model's own file, and is not used

    def __str__(self) -> str:
        pieces = [f"{name} {value:g} ({self.origins[name]})" for name, value in self.values.items()]
        return ", ".join(pieces) or "as in OpenAI's API"

    def within(self, context_length: int) -> SamplingDefaults:
        """No answer can be longer than the context."""
        if "max_tokens" not in self.values:
            return self
        values = {**self.values, "max_tokens": min(self.values["max_tokens"], context_length)}
        return SamplingDefaults(values, self.origins, self.notes)


def shown(sampling: Any) -> dict[str, float | None]:
    """What applies, of a `Sampling`, as the server shows it."""
    return {name: getattr(sampling, name) for name in SHOWN}


def check_key(key: str, value: object) -> float | bool:
    """The value of an override's key. Raises ValueError, which says what it must be."""
    if key == DO_SAMPLE:
        if not isinstance(value, bool):
            raise ValueError(f"{key} must be true or false")
        return value
    if key not in IN_OVERRIDE:
        raise ValueError(f"{key!r} is unknown; known are {', '.join((*IN_OVERRIDE, DO_SAMPLE))}")
    try:
        return IN_OVERRIDE[key].check(value)
    except ValueError as error:
        raise ValueError(f"{key} {error}") from None


def overrides(given: object) -> dict[str, float | bool]:
    """A JSON object, as text or already read. Raises ValueError."""
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except ValueError:
            raise ValueError('input should be a JSON object, such as {"temperature": 0.7}') from None
    if not isinstance(given, Mapping):
        raise ValueError('input should be an object, such as {"temperature": 0.7}')
    return {str(key): check_key(str(key), value) for key, value in given.items()}


def read(path: Path) -> dict[str, Any]:
    """The file, or the one of this name in a folder. Raises LoadError."""
    path = path / FILE if path.is_dir() else path
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise LoadError(f"The generation config {path} cannot be read: {error.strerror or error}.") from error
    except ValueError as error:
        raise LoadError(f"The generation config {path} is not valid JSON: {error}.") from error
    if not isinstance(values, dict):
        raise LoadError(f"The generation config {path} is not a JSON object.")
    return values


def picked(values: Mapping[str, Any]) -> tuple[dict[str, float | bool], list[str]]:
    """What a file sets, checked; and what is wrong with the rest of what it sets. null is as if it were not there."""
    found: dict[str, float | bool] = {}
    problems = []
    for key in (*IN_FILE, DO_SAMPLE):
        if values.get(key) is None:
            continue
        try:
            found[key] = check_key(key, values[key])
        except ValueError as error:
            problems.append(f"{error}, and is {values[key]!r}")
    return found, problems


def check_file(path: Path) -> dict[str, Any]:
    """A file that the settings name must be right. Raises LoadError."""
    values = read(path)
    _, problems = picked(values)
    if problems:
        raise LoadError(f"The generation config {path} cannot be used: {problems[0]}.")
    return values


def defaults(folder: Path, source: str | Path, override: Mapping[str, float | bool]) -> SamplingDefaults:
    """Of a model's folder, under the settings. The model's own file may be absent; one that the settings name not."""
    layers: list[tuple[str, Mapping[str, float | bool]]] = []
    problems: list[str] = []
    if isinstance(source, Path):
        layers.append((str(source), picked(check_file(source))[0]))
    elif source == "auto" and (folder / FILE).exists():
        try:
            found, problems = picked(read(folder / FILE))
            layers.append((FILE, found))
        except LoadError as error:
            problems.append(str(error))
    layers.append((OVERRIDE, override))
    notes = tuple(f"The model's {FILE} is not used in full: {problem}." for problem in problems)
    return merged(layers, notes)


def merged(layers: Sequence[tuple[str, Mapping[str, float | bool]]], notes: tuple[str, ...] = ()) -> SamplingDefaults:
    """The last layer that has a key wins. A layer's temperature answers what one below said of `do_sample`."""
    values: dict[str, float] = {}
    origins: dict[str, str] = {}
    sampled, greedy_by = True, ""
    for name, layer in layers:
        for key, value in layer.items():
            if key == DO_SAMPLE:
                continue
            key = NAMES.get(key, key)
            values[key], origins[key] = value, name
        if DO_SAMPLE in layer or "temperature" in layer:
            sampled, greedy_by = bool(layer.get(DO_SAMPLE, True)), name
    if not sampled:
        values["temperature"], origins["temperature"] = 0.0, greedy_by
    if values.get("top_k") == -1:
        values["top_k"] = 0
    return SamplingDefaults(values, origins, notes)


def end_tokens(source: str | Path) -> list[Any]:
    """What a file that the settings name says of end tokens: they are added to the model's own."""
    return [read(source).get("eos_token_id")] if isinstance(source, Path) else []
