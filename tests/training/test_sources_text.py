"""More text: only sentences, none twice, none of the examiner's, and read from the archives beside the first one."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from training import data as token_files
from training import sources_text
from training.sources import SEPARATOR, SOURCES
from training.sources_more import PARTS, RESTS
from training.sources_readers import quoted, valued
from training.sources_text import Once, cleaned, fingerprint, held_out, judged, packed, unwrapped

PROSE = "The old mill stood by the river, and the children went there in the summer to swim and to fish."


def test_code_and_tables_are_left_out_and_headings_stay_with_their_text() -> None:
    table = "| id | x_1 |\n|----|-----|\n| 12 | 0.5 |"
    code = "for (int i = 0; i < n; ++i) { a[i] += b[i]; }"
    assert cleaned(f"Contents\n\n{table}\n\nThe mill\n\n{PROSE}\n\n{code}\n\nIndex") == ["The mill", PROSE]
    assert cleaned("Der alte Mann ging am Morgen mit seinem Hund in den Wald und kam nicht mehr nach Hause.") == []


def test_broken_lines_are_joined_and_lists_are_not() -> None:
    broken = (
        "It was a long way to the sea, and nobody knew how they would\nget there before the night came down on them."
    )
    assert "\n" not in unwrapped(broken)
    listed = "- the first of the things that they had to take along with them\n- the second"
    assert unwrapped(listed) == listed


def test_a_paragraph_is_let_through_once() -> None:
    once = Once()
    once.note("It was noted before, in another source, that the mill had been there for ages.")
    first = once.document([(fingerprint(PROSE), PROSE)])
    again = once.document([(fingerprint(text), text) for text in (PROSE.upper(), "It is new, and it is kept.")])
    assert (first, again) == (PROSE, "It is new, and it is kept.")


def test_what_the_examiner_says_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(sources_text.examined()) > 1000  # it was found
    assert not held_out(PROSE)
    words = "nine words in a row that only the examiner has"
    monkeypatch.setattr(sources_text, "examined", lambda: frozenset(sources_text._windows(words)))
    text = f"{PROSE}\n\nHe said: {words}, and that was all there was to be said about it."
    paragraphs, dropped = judged(text)
    assert [paragraph for _, paragraph in paragraphs] == [PROSE] and dropped == 1


def test_sentences_are_found_in_games_files(tmp_path: Path) -> None:
    (tmp_path / "a.cfg").write_text('id="x"\nmessage= _ "Where did you leave the <b>boat</b>, my old friend?"\n')
    (tmp_path / "a.json").write_text(json.dumps([{"id": "one", "description": PROSE, "note": PROSE + " Not this."}]))
    assert list(quoted("*.cfg")(tmp_path)) == ["Where did you leave the boat, my old friend?"]
    assert list(valued("*.json", keys="description")(tmp_path)) == [PROSE]


def test_every_package_says_its_licence_and_is_there_once() -> None:
    sources = [source for part in PARTS.values() for source in part]
    assert all(source.licence and source.about and source.read for source in sources)
    assert len({source.name for source in sources}) == len(sources)
    known = {source.package: source for source in SOURCES if source.read}
    assert all(source.package in known for part in RESTS.values() for source in part)


def test_parts_beside_the_first_archive_are_read(data: Path, words: Tokenizer, tmp_path: Path) -> None:
    from training.data import corpus_tokens, unpack

    with tarfile.open(tmp_path / "raw.tar.xz", "w:xz") as bundle:
        bundle.add(data / "corpus", "corpus")
        bundle.add(data / "tokenizer", "tokenizer")
    unpack(tmp_path)
    alone, counts = corpus_tokens(tmp_path, "train", words)
    again, _ = corpus_tokens(data, "train", words)
    assert (alone == again).all() and list(counts) == ["small"]
    packed(tmp_path / "part1.tar.xz", {"mill": [f"{PROSE} {number}" for number in range(80)]})
    unpack(tmp_path)
    both, counts = corpus_tokens(tmp_path, "train", words, workers=2)
    assert sorted(counts) == ["mill", "small"] and len(both) > len(alone)
    assert SEPARATOR not in words.decode(both.tolist())


def test_the_manifest_names_what_is_added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = {
        "package": "a",
        "registry": "npm",
        "version": "1",
        "licence": "MIT",
        "about": "x",
        "documents": 1,
        "bytes": 5,
    }
    (tmp_path / "manifest.json").write_text(json.dumps({"sources": [entry]}))
    more = [entry | {"file": "a-more", "part": 1, "held_out": 0}, entry | {"package": "@b/c", "file": "b-c", "part": 1}]
    (tmp_path / "more.json").write_text(json.dumps(more))
    (tmp_path / "index.json").write_text(json.dumps({"corpus_train": {"a": 3, "a-more": 4, "b-c": 5}}))
    for module in (sources_text, token_files):
        monkeypatch.setattr(module, "MANIFEST", tmp_path / "manifest.json")
    for _ in range(2):  # twice is as good as once
        sources_text.enlist(tmp_path / "more.json")
    token_files.write_shares(tmp_path)
    found = json.loads((tmp_path / "manifest.json").read_text())["sources"]
    assert [(one["package"], one["tokens"], one["bytes_more"]) for one in found] == [("a", 7, 5), ("@b/c", 5, 5)]
