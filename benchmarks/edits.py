"""Prompts of `python -m benchmarks speculate --trace`: a file to write again with small changes, or prose.

The file is the beginning of a module of Python's own library, of 2,000 tokens. The answer has begun already, so that a
small model knows what to do: it goes on copying, which is what agents do most of the time. The words of `edit` are the
model's own, those of `rewrite` the changed file's. The prompts of one run share a file, and each has another part of
it to write. The other trace has nothing to copy.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from paceline.errors import LoadError

Trace = Literal["edit", "rewrite", "prose"]
Encode = Callable[[str], list[int]]
# Modules of Python's own library, and a name in each that the edit changes.
FILES = (
    ("textwrap", "chunks", "pieces"),
    ("queue", "unfinished_tasks", "open_tasks"),
    ("shlex", "punctuation_chars", "punctuation"),
    ("graphlib", "nodeinfo", "node_info"),
    ("csv", "fieldnames", "columns"),
    ("glob", "pathname", "path_name"),
    ("copy", "memo", "seen"),
)
FILE_TOKENS = 2000
STARTED = 200  # tokens of the answer that the prompt has already
APART = 40  # tokens more that each further prompt of a run has
LINE = 40  # tokens between two changes
SUBJECTS = (
    "how a lighthouse keeper spends a stormy night",
    "why the old bridge in our town was rebuilt",
    "a recipe for soup that my grandmother never wrote down",
    "what a beekeeper does in each month of the year",
    "how a watch is taken apart and put together again",
    "the first winter in a house on the island",
    "a train that is late, and the people who wait for it",
    "how a river changes its bed over a hundred years",
)


def edit(encode: Encode, seed: int) -> tuple[list[int], list[int]]:
    """A file with an order to write it again, and the same file with one name changed."""
    module, old, new = FILES[seed % len(FILES)]
    lines = inspect.getsource(importlib.import_module(module)).splitlines(keepends=True)
    while len(encode("".join(lines))) > FILE_TOKENS:
        lines.pop()
    text = "".join(lines)
    changed = encode(text.replace(old, new))
    asked = encode(f"{text}\n# The same file once more, with {old} renamed to {new}:\n\n")
    return asked, changed


def edit_prompts(encode: Encode, count: int, seed: int) -> list[tuple[int, ...]]:
    """A file, and the beginning of the same file with one name changed."""
    asked, changed = edit(encode, seed)
    return [(*asked, *changed[: STARTED + place * APART]) for place in range(count)]


def walked_prompts(order: NDArray[np.int64], count: int, seed: int) -> list[tuple[int, ...]]:
    """The same for weights that follow `order`, an order of the vocabulary: a file whose tokens follow each other so,
    but for one in each `LINE`, and the beginning of the same file without those changes."""
    begin = seed * FILE_TOKENS % (len(order) - 2 * FILE_TOKENS)
    file = order[begin : begin + FILE_TOKENS]
    changed = file.copy()
    changed[LINE - 1 :: LINE] = order[-1 - np.arange(len(changed[LINE - 1 :: LINE]))]
    return [(*changed.tolist(), *file[: STARTED + place * APART].tolist()) for place in range(count)]


def prose_prompt(encode: Encode, seed: int) -> tuple[int, ...]:
    return tuple(encode(f"Here is a short text about {SUBJECTS[seed % len(SUBJECTS)]}.\n\nIt"))


def prompts(trace: Trace, encode: Encode, count: int, seed: int) -> list[tuple[int, ...]]:
    if trace != "prose":
        return edit_prompts(encode, count, seed)
    return [prose_prompt(encode, 31 * seed + place) for place in range(count)]


def encoder(folder: Path) -> Encode:
    """The model's own tokenizer, without special tokens. Raises LoadError for a model that has none."""
    from tokenizers import Tokenizer

    file = folder / "tokenizer.json"
    if not file.is_file():
        raise LoadError(f"{folder.name} has no tokenizer.json: a trace of text needs a model with a tokenizer.")
    tokenizer = Tokenizer.from_file(str(file))

    def encode(text: str) -> list[int]:
        ids: Sequence[int] = tokenizer.encode(text, add_special_tokens=False).ids
        return list(ids)

    return encode
