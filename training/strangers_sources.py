"""Text that the judge needs: English words, and prose that nobody on this project wrote.

    python -m training.strangers_sources

| what | from | licence |
|---|---|---|
| English words | Debian's `wamerican` (SCOWL) | SCOWL's: free to use with its notice |
| Alice in Wonderland, Paradise Lost, As You Like It, proceedings | `brotli`'s sdist on PyPI | public domain |
| prose about Python, and its code | the running Python: `pydoc_data.topics`, the standard library | PSF |

The first two are fetched once (`pip download`, `apt-get download`) into a folder of the user's cache. None of them
is committed. Without a network, /usr/share/dict/words and the running Python are all there is; the run says so.
"""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path

from training.strangers_voices import terms

BOOKS = ("alice29.txt", "lcet10.txt", "plrabn12.txt", "asyoulik.txt")
CODE_MODULES = ("argparse", "textwrap", "csv", "shutil", "heapq", "calendar", "configparser", "difflib", "tarfile")
PINNED = "brotli==1.2.0"
# Words that are fine in an answer and that a dictionary of common words lacks.
ALSO_WORDS = terms(
    """paceline, mlx, json, api, llm, ok, okay, hi, hey, yay, ai, emoji, wifi, app, apps, online, chatbot"""
)


@dataclass(frozen=True)
class Material:
    words: frozenset[str]  # in lower case
    books: tuple[tuple[str, ...], ...]  # each one its sentences
    code: str
    missing: tuple[str, ...] = ()  # what could not be had


def folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("PACELINE_STRANGERS") or Path(base) / "paceline" / "strangers")


def fetch() -> None:
    """Both archives, into `folder()`. Does nothing for what is there."""
    home = folder()
    home.mkdir(parents=True, exist_ok=True)
    if not all((home / name).exists() for name in BOOKS):
        pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", "brotli", PINNED, "-d", "."]
        subprocess.run(pip, cwd=home, check=True)
        archive = next(home.glob("[bB]rotli-*.tar.gz"))
        with tarfile.open(archive) as files:
            for member in files.getmembers():
                name = Path(member.name).name
                content = files.extractfile(member) if name in BOOKS and "testdata" in member.name else None
                if content is not None:
                    (home / name).write_bytes(content.read())
        archive.unlink()
    if not (home / "words").exists():
        subprocess.run(["apt-get", "-q", "download", "wamerican"], cwd=home, check=True, capture_output=True)
        archive = next(home.glob("wamerican_*.deb"))
        subprocess.run(["dpkg-deb", "-x", archive.name, "wamerican"], cwd=home, check=True)
        (home / "words").write_bytes((home / "wamerican/usr/share/dict/american-english").read_bytes())
        archive.unlink()


@cache
def material() -> Material:
    """What is at hand, after an attempt to fetch what is not."""
    missing = []
    try:
        fetch()
    except (OSError, subprocess.CalledProcessError, StopIteration) as error:
        missing.append(f"not fetched: {error}")
    home = folder()
    lists = [path for path in (home / "words", Path("/usr/share/dict/words")) if path.exists()]
    words = set(ALSO_WORDS)
    if lists:
        words |= {word.lower() for word in lists[0].read_text().split()}
    else:
        missing.append("no list of English words: broken words in answers are not seen")
    books = [sentences((home / name).read_text("latin-1")) for name in BOOKS if (home / name).exists()]
    if not books:
        missing.append("no books: prose is that of Python's documentation")
    return Material(frozenset(words), (*books, sentences(python_prose())), python_code(), tuple(missing))


def python_prose() -> str:
    topics: dict[str, str] = import_module("pydoc_data.topics").topics
    return "\n\n".join(topics[name] for name in sorted(topics))


def python_code() -> str:
    return "\n\n".join(inspect.getsource(import_module(name)) for name in CODE_MODULES)


def sentences(text: str) -> tuple[str, ...]:
    """Of a book: those of 4 to 60 words, in order, each on one line."""
    flat = re.sub(r"\s+", " ", re.sub(r"[*_=]{2,}", " ", text))
    parts = re.split(r"(?<=[.!?])[\"')]*\s+(?=[\"'`(]?[A-Z])", flat)
    return tuple(part.strip() for part in parts if 4 <= len(part.split()) <= 60)


def main(arguments: Sequence[str] = ()) -> None:
    known = material()
    print(f"{len(known.words)} words, {[len(book) for book in known.books]} sentences, {len(known.code)} of code")
    for reason in known.missing:
        print(reason, file=sys.stderr)


if __name__ == "__main__":
    main()
