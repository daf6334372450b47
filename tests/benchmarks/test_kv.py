from __future__ import annotations

import io

import pytest
from rich.console import Console

from benchmarks.kv import Case, KVBench, Speed, kv_table
from benchmarks.models import Bench
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
    assert abs(eight.perplexity / plain.perplexity - 1) < 0.02 and len(seen) == 3 + 3 + 6
    assert plain.speeds[16].decode_ratios == plain.speeds[16].prefill_ratios == [1.0]
    assert all(case.figures()["speed"][16]["prefill"] for case in kv.cases)


def test_the_table_has_what_was_measured() -> None:
    cases = [Case(None, 100, [1.0]), Case(8, 50, [1.01])]
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
