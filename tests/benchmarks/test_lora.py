from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks import lora, tiny
from benchmarks.models import Bench


@pytest.mark.slow
def test_base_idle_and_used_adapters_are_measured_in_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    seen: list[str] = []
    with Bench(tiny.NAME, "rows") as bench:
        cases = lora.compare(bench, tmp_path, 4, 2, 2, prompt_tokens=4, tokens=8, turns=1, watch=seen.append)
        assert not bench.model.language.loras.loaded
    assert [case.name for case in cases] == ["base", "adapters loaded, none used", "adapters used"]
    assert len(seen) == 6
    assert cases[0].ratio == 1.0 and all(case.rate > 0 for case in cases)
    text = io.StringIO()
    Console(file=text, width=100).print(lora.lora_table("tiny", cases))
    assert "ratio to base" in text.getvalue()
    assert cases[2].figures()["case"] == "adapters used"
