from __future__ import annotations

import pytest
from typer.testing import CliRunner

from benchmarks import shapes
from benchmarks.cli import app
from benchmarks.rewrite import RewriteBench
from benchmarks.speculate import Measured, Mode, TextBench, compare, in_turns
from paceline.bench.wire import BenchError

SMALL = dict(hidden_size=64, intermediate_size=128, num_attention_heads=2, num_key_value_heads=1, head_dim=64)
SMALL |= dict(linear_num_key_heads=1, linear_num_value_heads=1, num_hidden_layers=4, vocab_size=6144)


def test_modes_run_in_turns_that_rotate_and_the_first_turn_does_not_count() -> None:
    modes, ran = [Mode(1, "off"), Mode(1, 2), Mode(1, "auto")], []

    def run(mode: Mode, turn: int) -> Measured:
        ran.append((turn, mode.name))
        return Measured(2.0 if mode.speculation == "auto" else 1.0, 8)

    in_turns(modes, 2, run, prepare=lambda turn: ran.append((turn, "prepared")))
    assert [name for turn, name in ran if turn == 0] == ["prepared", "off", "2", "auto"]
    assert [name for turn, name in ran if turn == 1] == ["prepared", "2", "auto", "off"]
    assert modes[2].ratios == [2.0, 2.0] and modes[1].ratio == 1.0
    assert len(modes[0].cpu_ratios) == 2 and modes[0].cpu_ratio == 1.0


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--draft-model", "paceline-mini-draft"], "--trace prose, edit or rewrite"),
        (["--depths", "1,2"], "--depths has no meaning"),
        (["--rows", "1,64"], "fewer than"),
    ],
)
def test_options_that_do_not_go_together_are_refused(flags: list[str], said: str) -> None:
    result = CliRunner().invoke(app, ["speculate", "--trace", "json", *flags])
    assert isinstance(result.exception, BenchError) and said in str(result.exception)


@pytest.mark.slow
def test_weights_that_copy_accept_what_prompt_lookup_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(shapes.SHAPES, "small", shapes._hybrid(**SMALL, tie_word_embeddings=False))
    with TextBench("small", "edit", "rows") as bench:
        off, four = compare(bench, [1], [4], 0, tokens=48, turns=1)[:2]
    assert off.drafted == 0 < four.drafted
    assert four.acceptance is not None and four.acceptance > 0.8


@pytest.mark.slow
def test_a_draft_model_drafts_prose() -> None:
    with TextBench("paceline-mini", "prose", "rows", draft_model="paceline-mini-draft") as bench:
        two = compare(bench, [1], [2], 0, tokens=16, turns=1)[1]
        assert set(bench.scheduler.draft_lengths.by_method) == {"draft_model"}
    assert two.drafted > 0


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1, 2])
def test_what_is_rewritten_is_the_changed_file(rows: int) -> None:
    with RewriteBench("paceline-mini", "rewrite", "rows") as bench:
        off, four = compare(bench, [rows], [4], 0, tokens=40, turns=1)[:2]
        prompts = bench.prompts(rows, 1)
        traces = [bench.engine_run(prompts, 40, speculation)[0] for speculation in ("off", "auto")]
        with pytest.raises(BenchError, match="only"):
            bench.engine_run(prompts, 2000)
    for place, prompt in enumerate(prompts):
        begun = len(prompt)
        assert bench.runner.text[:begun] == prompt
        assert [trace.tokens[place] for trace in traces] == [list(bench.runner.text[begun : begun + 40])] * 2
    assert off.drafted == 0 < four.drafted
