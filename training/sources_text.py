"""More plain English than `sources` has: cleaned, freed of what is there twice, and packed.

`python -m training.sources_text` fetches the packages of `sources_more` by name, as `training.sources` does, and writes
`part1.tar.xz` (the most useful), `part2.tar.xz`, `part3.tar.xz` and `more.json` (what is in them) to `--parts`;
`training.data` reads those that lie beside its `raw.tar.xz`.
"""

# ruff: noqa: SIM905  (a row of words is easier to read)

from __future__ import annotations

import argparse
import ast
import hashlib
import io
import json
import lzma
import re
import tarfile
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from functools import cache
from pathlib import Path

from training.held_words import held_phrase
from training.sources import (
    MANIFEST,
    SEPARATOR,
    SHORTEST,
    SOURCES,
    Source,
    corpus,
    fetch,
    thinned,
)

COMMON = frozenset(
    "the of and to a in is that it for was on are as with his they at be this from i have or by one had not but what "
    "all were when we there can an your which their said if do will each how them then she many some so these would "
    "other into has more her two him see could no my than been who its now did get you he me about up out".split()
)
PLAIN = re.compile(r"[A-Za-zÀ-ɏ ,.:;'\"!?‘’“”()\n-]+")
MORE, REST = (
    "-more",
    "-rest",
)  # ends of files' names: other texts of a source of `sources`; what `raw.tar.xz` leaves of it
WINDOW = 8  # words in a row that a text must not have in common with the examiner's


# -- cleaning


def unwrapped(paragraph: str) -> str:
    """Lines that were broken to fit a page, joined."""
    lines = paragraph.split("\n")
    full = [line for line in lines[:-1] if 35 <= len(line) <= 100 and not re.match(r"\s{2,}|[-*+•|>#]|\d+[.)]", line)]
    if len(lines) > 1 and len(full) == len(lines) - 1 and not re.match(r"\s{2,}|[-*+•|>#]", lines[-1]):
        return " ".join(lines)
    return paragraph


def english(paragraph: str) -> bool:
    words = re.findall(r"[A-Za-z']+", paragraph)
    if sum(len(word) > 2 for word in words) < 4:
        return False
    common = sum(word.lower() in COMMON for word in words)
    other = len(PLAIN.sub("", paragraph))
    return common >= (0.2 if len(words) >= 12 else 0.12) * len(words) and other <= 0.18 * len(paragraph)


def cleaned(text: str) -> list[str]:
    """The paragraphs that are English sentences, and headings before them."""
    kept: list[str] = []
    heading = ""
    for paragraph in re.split(r"\n\s*\n", text):
        paragraph = unwrapped(re.sub(r"(?m)^ +(?=\w)", "", paragraph.strip("\n")))
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
        lzma.open(path, "wb", preset=6) as file,
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
    packs: dict[int, Future[int]] = {}
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
                print(
                    f"{part} {name:34} {version:20} {len(found):6} documents {size / 1e6:6.2f} MB, {held} held",
                    flush=True,
                )
            packs[part] = pool.submit(packed, arguments.parts / f"part{part}.tar.xz", texts)
        for part, size in packs.items():
            print(f"part{part}.tar.xz: {size.result() / 1e6:.1f} MB", flush=True)
    print(f"{once.again / 1e6:.1f} MB were there before", flush=True)
    (arguments.parts / "more.json").write_text(json.dumps(entries, indent=1) + "\n")


def enlist(more: Path) -> None:
    """Puts the packages of `more.json` into the manifest: new ones, and what there is more of those that it has."""
    known = json.loads(MANIFEST.read_text())
    sources = {entry["package"]: entry for entry in known["sources"]}
    sizes: dict[str, int] = {}
    for entry in json.loads(more.read_text()):
        sizes[entry["package"]] = sizes.get(entry["package"], 0) + entry["bytes"]
        given = {
            key: entry[key] for key in ("package", "registry", "version", "licence", "about", "documents", "bytes")
        }
        sources.setdefault(entry["package"], given)["bytes_more"] = sizes[entry["package"]]
    MANIFEST.write_text(json.dumps(known | {"sources": [*sources.values()]}, indent=1) + "\n")


if __name__ == "__main__":
    main()
