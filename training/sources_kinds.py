"""What things are kinds of, from WordNet's files: a vessel is a kayak or a barge."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

from training.sources import text_of

FILES = (
    "05",
    "06",
    "08",
    "13",
    "14",
    "17",
    "18",
    "19",
    "20",
    "27",
)  # WordNet's own: animals, artifacts, food, ...
DULL = re.compile(r"^(thing|object|entity|unit|being|matter|artifact|instrumentality|whole|part|someone|state)$")


def _lemmas(count: int, fields: list[str]) -> list[str]:
    return [fields[4 + 2 * at].replace("_", " ") for at in range(count)]


def pick_kinds(folder: Path, prose: str) -> dict[str, list[str]]:
    """Category: members by how often the prose uses them, both in their first sense, in plain lower-case words."""
    place = folder / "usr/share/wordnet"
    first: dict[str, str] = {}  # a word's first sense
    for line in text_of(place / "index.noun").splitlines():
        if not line.startswith(" "):
            fields = line.split()
            first[fields[0].replace("_", " ")] = fields[-int(fields[2])]
    counts: dict[str, int] = defaultdict(int)
    for word in re.findall(r"\b[a-z]{3,14}\b", prose):
        counts[word] += 1
    names: dict[str, list[str]] = {}
    above: dict[str, list[str]] = {}
    for line in text_of(place / "data.noun").splitlines():
        if line.startswith(" "):
            continue
        fields = line.split(" | ")[0].split()
        if fields[1] not in FILES:
            continue
        words = int(fields[3], 16)
        lemmas = [one for one in _lemmas(words, fields) if re.fullmatch(r"[a-z]{3,13}( [a-z]{3,10})?", one)]
        names[fields[0]] = [one for one in lemmas if first.get(one) == fields[0]]
        at = 4 + 2 * words
        pointers = [fields[at + 1 + 4 * one : at + 5 + 4 * one] for one in range(int(fields[at]))]
        above[fields[0]] = [pointer[1] for pointer in pointers if pointer[0] == "@" and pointer[2] == "n"]
    found: dict[str, dict[str, int]] = defaultdict(dict)
    for synset, lemmas in names.items():
        for parent in above[synset]:
            for category in (names.get(parent) or [])[:2]:
                if " " in category and len(category) > 14 or DULL.match(category):
                    continue
                for lemma in lemmas[:2]:
                    if lemma != category:
                        found[category][lemma] = counts[lemma] if " " not in lemma else 0
    kinds = {}
    for category, members in found.items():
        known = sorted(members, key=lambda one: -members[one])
        used = [one for one in known if members[one] > 0]
        if len(known) >= 4 and (len(used) >= 2 or counts[category] > 5):
            kinds[category] = known[:40]
    return kinds
