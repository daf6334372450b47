"""README and docs as data: their links, headings, code blocks and commands."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
FENCE = re.compile(r"^(\s*)(```+|~~~+)\s*([\w+-]*)[^`]*$")
LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\[\]]*\])*\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
REFERENCE = re.compile(r"^\[[^\]]+\]:\s*(\S+)", re.MULTILINE)
ATTRIBUTE = re.compile(r"<[a-z][^<>]*?\b(?:href|src)=\"([^\"]+)\"")
ANCHOR = re.compile(r"<[a-z][^<>]*?\b(?:id|name)=\"([^\"]+)\"")
INLINE = re.compile(r"(?<!`)`([^`\n]+(?:\n[^`\n]+)?)`(?!`)")
ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*", re.DOTALL)
SHELL = ("", "sh", "bash", "shell", "console")


@dataclass(frozen=True)
class Block:
    """A fenced block; `line` is the number of its first line."""

    page: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


@dataclass(frozen=True)
class Command:
    """A command line as a shell would see it, without variables set in front of it; `where` is page:line."""

    where: str
    variables: dict[str, str]
    words: tuple[str, ...]
    output: str = ""  # what the page shows below it
    here_document: str = ""

    def __str__(self) -> str:
        return f"{self.where} {' '.join(self.words[:3])}"


def pages() -> list[str]:
    """Every page that readers are sent to, relative to the repository."""
    found = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob(".github/**/*.md"), *ROOT.glob("training/*.md")]
    return sorted(path.relative_to(ROOT).as_posix() for path in found)


def blocks(page: str, text: str | None = None) -> list[Block]:
    found, inside, started = [], None, 0
    lines: list[str] = []
    for number, line in enumerate(_read(page, text).splitlines(), 1):
        fence = FENCE.match(line)
        if inside is None and fence:
            inside, started, lines = fence, number + 1, []
        elif inside is not None and fence and fence[2].startswith(inside[2]) and not fence[3]:
            found.append(Block(page, started, inside[3], "\n".join(lines)))
            inside = None
        elif inside is not None:
            lines.append(line.removeprefix(inside[1]))
    assert inside is None, f"{page}:{started}: this block has no end"
    return found


def prose(page: str, text: str | None = None) -> str:
    """A page without its fenced blocks and comments; lines keep their numbers."""
    kept, inside = [], None
    for line in _read(page, text).splitlines():
        fence = FENCE.match(line)
        outside = inside is None and not fence
        if inside is None and fence:
            inside = fence
        elif inside is not None and fence and fence[2].startswith(inside[2]) and not fence[3]:
            inside = None
        kept.append(line if outside else "")
    return re.sub(r"<!--.*?-->", lambda comment: "\n" * comment[0].count("\n"), "\n".join(kept), flags=re.DOTALL)


def links(page: str, text: str | None = None) -> list[str]:
    plain = INLINE.sub("code", prose(page, text))
    return [match[1] for form in (LINK, REFERENCE, ATTRIBUTE) for match in form.finditer(plain)]


def anchors(page: str, text: str | None = None) -> set[str]:
    """The names that GitHub gives to a page's headings, and those that the page sets itself."""
    plain = prose(page, text)
    found, seen = set(ANCHOR.findall(plain)), Counter[str]()
    for line in plain.splitlines():
        if heading := re.match(r"#{1,6}\s+(.*?)\s*#*$", line):
            name = slug(heading[1])
            found.add(f"{name}-{seen[name]}" if seen[name] else name)
            seen[name] += 1
    return found


def slug(heading: str) -> str:
    shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", shown.lower()).replace(" ", "-")


def inline_code(page: str, text: str | None = None) -> Iterator[tuple[str, str]]:
    """Each piece of inline code with its page:line."""
    plain = prose(page, text)
    for match in INLINE.finditer(plain):
        yield f"{page}:{plain.count(chr(10), 0, match.start()) + 1}", match[1].replace("\n", " ").replace("\\|", "|")


def commands(block: Block) -> Iterator[Command]:
    """The command lines of a block. If any begins with `$`, the others are output."""
    if block.language not in SHELL:
        return
    lines = block.text.splitlines()
    prompted = any(line.startswith("$ ") for line in lines)
    at = 0
    while at < len(lines):
        started, line = at, lines[at]
        at += 1
        if prompted and not line.startswith("$ "):
            continue
        line = line.removeprefix("$ ")
        while line.endswith("\\") and at < len(lines):
            line, at = f"{line[:-1]} {lines[at].strip()}", at + 1
        here: list[str] = []
        if mark := re.search(r"<<\s*['\"]?(\w+)['\"]?", line):
            line = line[: mark.start()]
            while at < len(lines) and lines[at] != mark[1]:
                here.append(lines[at])
                at += 1
            at += 1
        shown = []
        while prompted and at < len(lines) and not lines[at].startswith("$ "):
            shown.append(lines[at])
            at += 1
        where = f"{block.page}:{block.line + started}"
        for part in split(line):
            variables, words = environment(part)
            if words:
                yield Command(where, variables, tuple(words), "\n".join(shown), "\n".join(here))


def split(line: str) -> Iterator[list[str]]:
    """The words of each command in a line, without comments; nothing for a line that is no shell."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;")
    lexer.whitespace_split = True
    try:
        words = list(lexer)
    except ValueError:  # a picture, or a sentence with an apostrophe
        return
    part: list[str] = []
    for word in [*words, ";"]:
        if word and set(word) <= set("|&;"):
            yield part
            part = []
        else:
            part.append(word)


def environment(words: list[str]) -> tuple[dict[str, str], list[str]]:
    """`A=1 paceline serve` is A with its value, and the rest."""
    rest = words[1:] if words[:1] == ["export"] else words
    count = next((index for index, word in enumerate(rest) if not ASSIGNMENT.fullmatch(word)), len(rest))
    return dict(word.split("=", 1) for word in rest[:count]), rest[count:]


def _read(page: str, text: str | None) -> str:
    return (ROOT / page).read_text(encoding="utf-8") if text is None else text
