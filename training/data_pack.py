"""Documents of tokens, packed into rows of one length, and written in the form that training reads.

A stage is one `.npz`: uint16 `tokens` [rows, L], `loss` [rows, L/8] (numpy's packbits; 1: the token at this place is
to be predicted), uint8 `kind` [rows] (names in `index.json`), and with pictures uint8 `pictures` [N, S, S, 3] and
int32 `places` [M, 3] (row, column of the first image token, picture).
"""

from __future__ import annotations

import json
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

OPEN_ROWS = 96  # that wait for a document that fits


@dataclass
class Document:
    tokens: NDArray[np.uint16]  # ends with the end-of-text token
    loss: NDArray[np.bool_]
    places: list[tuple[int, int]] = field(default_factory=list)  # column of a picture's first token, picture


def pack(documents: Iterable[Document], length: int, filler: Iterator[NDArray[np.uint16]]) -> Stage:
    """Whole documents into rows by best fit; the rest of a row is plain text. Longer documents are dropped."""
    stage = Stage(length)
    rooms: list[tuple[int, int]] = []  # (room left, row), sorted
    for document in documents:
        size = len(document.tokens)
        if size > length:
            stage.dropped += 1
            continue
        at = bisect_left(rooms, (size, -1))
        if at < len(rooms):
            room, row = rooms.pop(at)
        else:
            if len(rooms) >= OPEN_ROWS:
                room, row = rooms.pop(0)
                stage.fill(row, room, filler)
            room, row = length, stage.open()
        stage.put(row, length - room, document)
        if room - size:
            insort(rooms, (room - size, row))
    for room, row in rooms:
        stage.fill(row, room, filler)
    return stage


def cut(tokens: NDArray[np.uint16], length: int) -> Stage:
    """One long run of plain text, cut into rows; what is left over is dropped."""
    rows = len(tokens) // length
    stage = Stage(length)
    stage.tokens = list(tokens[: rows * length].reshape(rows, length))
    stage.loss = [np.ones(length, bool)] * rows
    return stage


class Stage:
    def __init__(self, length: int) -> None:
        self.length = length
        self.tokens: list[NDArray[np.uint16]] = []
        self.loss: list[NDArray[np.bool_]] = []
        self.places: list[tuple[int, int, int]] = []
        self.dropped = 0
        self.filled = 0

    def open(self) -> int:
        self.tokens.append(np.zeros(self.length, np.uint16))
        self.loss.append(np.zeros(self.length, bool))
        return len(self.tokens) - 1

    def put(self, row: int, column: int, document: Document) -> None:
        end = column + len(document.tokens)
        self.tokens[row][column:end] = document.tokens
        self.loss[row][column:end] = document.loss
        self.places += [(row, column + first, picture) for first, picture in document.places]

    def fill(self, row: int, room: int, filler: Iterator[NDArray[np.uint16]]) -> None:
        """The end of a row, with the beginnings of texts. They count for nothing: they would outweigh the answers."""
        while room:
            text = next(filler)[:room]
            start = self.length - room
            self.tokens[row][start : start + len(text)] = text
            room -= len(text)
            self.filled += len(text)

    def extend(self, other: Stage) -> None:
        first = len(self.tokens)
        self.tokens += other.tokens
        self.loss += other.loss
        self.places += [(row + first, column, picture) for row, column, picture in other.places]
        self.dropped += other.dropped
        self.filled += other.filled

    def write(
        self,
        path: Path,
        kinds: NDArray[np.uint8],
        pictures: NDArray[np.uint8] | None,
        rng: np.random.Generator,
        compress: bool = False,
    ) -> dict[str, Any]:
        """Rows shuffled, into `path`; returns what the index says of it."""
        order = rng.permutation(len(self.tokens))
        tokens = np.stack(self.tokens)[order]
        loss = np.stack(self.loss)[order]
        arrays = {"tokens": tokens, "loss": np.packbits(loss, axis=1), "kind": kinds[order]}
        if pictures is not None:
            moved = np.argsort(order)
            places = np.array(self.places, np.int32).reshape(-1, 3)
            places[:, 0] = moved[places[:, 0]]
            arrays |= {"pictures": pictures, "places": places[np.lexsort((places[:, 1], places[:, 0]))]}
        (np.savez_compressed if compress else np.savez)(path, **arrays)
        return {
            "file": path.name,
            "bytes": path.stat().st_size,
            "rows": len(tokens),
            "length": self.length,
            "tokens": int(tokens.size),
            "predicted": int(loss.sum()),
            "filled_with_text": self.filled,
            "dropped_documents": self.dropped,
            "shapes": {name: [str(array.dtype), *array.shape] for name, array in arrays.items()},
        }


def read(path: Path) -> dict[str, NDArray[Any]]:
    """A stage as arrays, the mask unpacked to [rows, L]."""
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    arrays["loss"] = np.unpackbits(arrays["loss"], axis=1).astype(bool)
    return arrays


def write_index(folder: Path, stages: dict[str, dict[str, Any]]) -> None:
    path = folder / "index.json"
    known = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(known | stages, indent=1) + "\n")
