"""Rows of tokens on the device, and which of them a step takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from training.data_pack import read


class Pool:
    """All rows of one length, of several stages' files, on the device. Row numbers count through the files.

    `names` are the kinds of rows, from the data's index; rows of files that do not say are of their stage's name.
    """

    def __init__(self, files: dict[str, list[Path]], device: torch.device, names: Sequence[str] = ()) -> None:
        tokens, loss, pictures = [], [], []
        self.rows: dict[str, NDArray[np.int64]] = {}  # of every file
        kinds: list[NDArray[np.int64]] = []
        self.names = [*names, *files]
        first = first_picture = 0
        table: list[NDArray[np.int64]] = []  # row, column, picture
        self.size = (0, 0)  # height and width of its pictures, in pixels
        for stage, (name, paths) in enumerate(files.items()):
            start = first
            for path in paths:
                arrays = read(path)
                count = len(arrays["tokens"])
                tokens.append(torch.from_numpy(arrays["tokens"].astype(np.int16)).to(device))
                loss.append(torch.from_numpy(arrays["loss"].astype(np.uint8)).to(device))
                if len(arrays.get("places", ())):
                    places = arrays["places"].astype(np.int64)
                    table.append(places + np.array([first, 0, first_picture]))
                    pictures.append(torch.from_numpy(arrays["pictures"]).to(device))
                    first_picture += len(arrays["pictures"])
                    self.size = arrays["pictures"].shape[1:3]
                kinds.append(arrays.get("kind", np.full(count, len(names) + stage)).astype(np.int64))
                first += count
            self.rows[name] = np.arange(start, first)
        self.tokens, self.loss = torch.cat(tokens), torch.cat(loss)
        self.length = self.tokens.shape[1]
        self.kinds = torch.from_numpy(np.concatenate(kinds)).to(device)
        self.pictures = torch.cat(pictures) if pictures else torch.zeros(0, 32, 32, 3, dtype=torch.uint8, device=device)
        self._table = np.concatenate(table) if table else np.zeros((0, 3), np.int64)
        self._table = self._table[np.argsort(self._table[:, 0], kind="stable")]
        self._starts = np.searchsorted(self._table[:, 0], np.arange(first + 1))

    def places(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Flat place in the batch, and number, of every picture in these rows."""
        parts = [self._table[self._starts[row] : self._starts[row + 1]] for row in rows]
        flat = [part[:, 1] + at * self.length for at, part in enumerate(parts)]
        return np.concatenate(flat), np.concatenate([part[:, 2] for part in parts])

    def held(self, row: int) -> int:
        """How many pictures a row has."""
        return int(self._starts[row + 1] - self._starts[row])


def shuffled(rows: NDArray[np.int64], seed: int) -> Iterator[int]:
    """Every row once, then every row once again, in another order each time."""
    rng = np.random.default_rng(seed)
    while True:
        yield from rng.permutation(rows).tolist()


@dataclass
class Inputs:
    """What a recorded step reads: filled before every replay."""

    rows: Tensor
    picture: Tensor
    place: Tensor

    @classmethod
    def empty(cls, count: int, pictures: int, device: torch.device) -> Inputs:
        rows, picture, place = (torch.zeros(n, dtype=torch.int64, device=device) for n in (count, pictures, pictures))
        return cls(rows, picture, place)

    def fill(self, pool: Pool, rows: NDArray[np.int64]) -> None:
        self.rows.copy_(torch.from_numpy(rows), non_blocking=True)
        if len(self.picture):
            nowhere = len(rows) * pool.length
            place, picture = pool.places(rows)
            spare = len(self.picture) - len(place)
            self.place.copy_(torch.from_numpy(np.pad(place, (0, spare), constant_values=nowhere)), non_blocking=True)
            self.picture.copy_(torch.from_numpy(np.pad(picture, (0, spare))), non_blocking=True)


class Sampler:
    """Rows of a pool by the shares of its files, never more than `pictures` pictures together."""

    def __init__(self, pool: Pool, count: int, pictures: int, seed: int) -> None:
        self.pool, self.count, self.pictures = pool, count, pictures
        self.rng = np.random.default_rng(seed)
        self.streams = {name: shuffled(rows, seed + at) for at, (name, rows) in enumerate(pool.rows.items())}
        self.waiting: list[int] = []
        self.means = {name: sum(map(pool.held, rows.tolist())) / len(rows) for name, rows in pool.rows.items()}

    def take(self, shares: dict[str, float]) -> NDArray[np.int64]:
        names = list(shares)
        weights = np.array([shares[name] for name in names])
        needed = self.count * np.average([self.means[name] for name in names], weights=weights)
        if needed > self.pictures:
            raise ValueError(f"{self.count} rows have {needed:.0f} pictures, more than the plan's {self.pictures}")
        chosen: list[int] = []
        room = self.pictures
        put_back: list[int] = []
        while len(chosen) < self.count:
            if self.waiting:
                row = self.waiting.pop(0)
            else:
                row = next(self.streams[names[self.rng.choice(len(names), p=weights / weights.sum())]])
            held = self.pool.held(row)
            if held > room:
                put_back.append(row)
                if chosen and len(put_back) % self.count == 0:  # perhaps no row has so few: one with many waits instead
                    full = max(chosen, key=self.pool.held)
                    chosen.remove(full)
                    put_back.append(full)
                    room += self.pool.held(full)
                continue
            room -= held
            chosen.append(row)
        self.waiting = put_back
        return np.array(chosen, np.int64)


def describe(pool: Pool) -> dict[str, Any]:
    return {name: len(rows) for name, rows in pool.rows.items()} | {"pictures": len(pool.pictures)}
