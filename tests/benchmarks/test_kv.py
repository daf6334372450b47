from __future__ import annotations

import io

import pytest
from rich.console import Console

from benchmarks import shapes
from benchmarks.kv import Case, KVBench, Speed, kv_table
from benchmarks.models import Bench
from paceline.bench.offline import Trace
from paceline.bench.wire import BenchError
from paceline.conversation.tokenizer import Tokenizer
from paceline.models.files import DEFAULT_FOLDER, read_config


@pytest.mark.slow
def test_perplexity_needles_and_speed_are_measured_with_each_number_of_bits() -> None:
    tokenizer = Tokenizer.load(DEFAULT_FOLDER, read_config(DEFAULT_FOLDER))
    seen: list[str] = []
    with Bench(str(DEFAULT_FOLDER)) as bench:
        kv = KVBench(bench, tokenizer)
        kv.measure_size()
        kv.measure_text(1, 64, seen.append)
        kv.measure_needles([160], 1, seen.append)
        kv.measure_speed(2, [16], 8, 1, seen.append)
        assert bench.model.language.kv is None
    plain, eight, four = kv.cases
    assert plain.token_bytes / eight.token_bytes == 32 / 9 and plain.token_bytes / four.token_bytes == 32 / 5
    assert abs(eight.perplexity / plain.perplexity - 1) < 0.02 and len(seen) == 3 + 3 + 2 * 6
    assert plain.speeds[16].decode_ratios == plain.speeds[16].prefill_ratios == [1.0]
    assert all(case.figures()["speed"][16]["prefill"] for case in kv.cases)


def test_an_unchecked_start_of_a_few_layers_tells_its_stages_and_its_figures_so_far(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes = dict(hidden_size=64, intermediate_size=128, num_attention_heads=2, num_key_value_heads=1, vocab_size=512)
    monkeypatch.setitem(shapes.SHAPES, "small", {**shapes.SHAPES["llama-120m"], **sizes})
    seen: list[str] = []
    with Bench("small", layers=2, checks=False, prefill_chunk=32, watch=seen.append) as bench:
        assert len(bench.model.language.module.layers) == 2
        kv = KVBench(bench, None, 32, bits=(16, 4))
        kv.measure_size()
        assert [case.form for case in kv.cases] == ["not quantized", "4 bits in groups of 32"]
        kv.measure_speed(1, [16], 4, 2, seen.append, lambda: seen.append(str(len(kv.cases[1].speeds[16].decode))))
        assert bench.model.language.kv is None
    assert seen[:2] == ["the weights are there", "layout and steps are taken unchecked"]
    assert [case.bits for case in kv.cases] == [None, 4]
    assert [one for one in seen if one.isdigit()] == ["1", "2"]
    assert seen[2].endswith("turn 0 of 2, not quantized") and "decode" in seen[3]


def test_the_table_has_what_was_measured() -> None:
    cases = [Case(None, 100, losses=[1.0]), Case(8, 50, losses=[1.01])]
    for case, said in zip(cases, ("4", "5"), strict=True):
        case.right[512], case.answers[512] = (said == "4",), [said]
    text = io.StringIO()
    Console(file=text, width=120).print(kv_table("kv", cases))
    assert "2.718" in text.getvalue() and "0 of 1" in text.getvalue() and "tokens/s" not in text.getvalue()
    for case in cases:
        case.speeds[64] = Speed([9000.0], [1.0], [40.0], [1.0], [1.0])
    Console(file=text, width=120).print(kv_table("kv", cases))
    assert "prefill of 64 tokens" in text.getvalue() and "9,000" in text.getvalue() and "40.0" in text.getvalue()


def test_a_shape_without_a_tokenizer_has_no_perplexity() -> None:
    with pytest.raises(BenchError, match="no tokenizer"):
        KVBench(Bench("llama-120m"), None).measure_text(1, 64, print)


def test_the_rate_does_not_count_tokens_while_a_shape_is_traced() -> None:
    trace = Trace(times={0: [0.0, 5.0, 6.0, 7.0], 1: [1.0, 5.0, 6.0, 7.0]})
    assert trace.rate() == pytest.approx(6 / 6) and trace.rate(skip=1) == pytest.approx(4 / 2)
