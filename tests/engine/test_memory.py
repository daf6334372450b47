"""What sequences are said to hold is what MLX says they hold, at random moments of random loads."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from paceline.cache.budget import Budget
from paceline.cache.kv_quantization import KVQuantization
from paceline.cache.memory_model import MemoryModel
from paceline.cache.slot_plan import LAYOUTS, ROWS
from paceline.engine.admission import Admission
from paceline.engine.memory import (
    BUFFERS,
    DENSE_SHARE,
    HEADROOM,
    _disk,
    dequantize_within,
    most_prefixes,
    profile_memory,
)
from paceline.engine.runner import Runner
from paceline.engine.sequence import EngineRequest, Sequence
from paceline.models.loader import load
from paceline.settings import Settings
from paceline.types import Prompt, RequestId, Sampling, Speculation
from tests.engine import simulator
from tests.engine.stepper import Stepper, loaded
from tests.memory import held

Tiny = Callable[..., Path]
CHUNK = 256
ENOUGH = 2_000_000  # bytes of sequences: below that, single arrays of a step weigh too much
FAMILIES: dict[str, tuple[dict[str, Any], Speculation]] = {
    "llama": ({"layers": 2}, "off"),
    "window": ({"layers": 3, "sliding_window": 512}, "off"),
    "hybrid": ({"layers": 4}, 2),
}


class Watched:
    """A stepper with prices, and what MLX held before it had any sequence."""

    def __init__(self, folder: Path, layout: str, speculation: Speculation) -> None:
        mx.eval(loaded(folder).language.module.parameters())
        self.stepper = Stepper(folder, layout, chunk=CHUNK, speculation=speculation)
        self.memory_model = profile_memory(self.stepper.runner, head=speculation != "off")
        self.admission = Admission(Budget(1 << 40), self.memory_model, width=1 if speculation == "off" else 3)
        self.stepper.engine.scheduler.admission = self.admission
        self.before = held()

    def look(self) -> tuple[int, int]:
        """Bytes by the prices, and by MLX, with nothing under way."""
        stepper, memory_model = self.stepper, self.memory_model
        stepper.settle()
        active = held()
        together = stepper.runner.seqs  # one that has ended leaves with the next step
        groups = memory_model.groups([(seq.computed.group, seq.length) for seq in together])
        reading = [seq for seq in stepper.engine.scheduler.running if seq.computed.batch is not None]
        said = memory_model.batch([seq.length for seq in together], groups)
        said += sum(memory_model.row(seq.length) + memory_model.stretch(seq.length, CHUNK) for seq in reading)
        return said, active - self.before


def errors(watched: Watched, seed: int, steps: int) -> list[float]:
    """Sequences of 10 to 3,000 tokens come and go; the errors of all looks with enough in memory."""
    dice = random.Random(seed)
    stepper, found, number = watched.stepper, [], 0
    for _ in range(steps):
        if len(stepper.engine.scheduler.running) < 8 and dice.random() < 0.5:
            number += 1
            length = int(10 * 300 ** dice.random())
            stepper.greedy(str(number), [dice.randrange(400) for _ in range(length)], dice.choice((5, 40, 400)))
        if stepper.heard and dice.random() < 0.05:
            stepper.abort(dice.choice(list(stepper.heard)))
        stepper.step()
        if dice.random() < 0.3:
            said, held = watched.look()
            if held > ENOUGH:
                found.append((said - held) / held)
    return found


@pytest.mark.thin(12)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("family", FAMILIES)
def test_what_sequences_hold_is_known_within_a_tenth(tiny: Tiny, family: str, layout: str) -> None:
    overrides, speculation = FAMILIES[family]
    found = errors(Watched(tiny(family, **overrides), layout, speculation), 1, 50)
    print(f"{family} in {layout}: {len(found)} looks, errors from {min(found):+.1%} to {max(found):+.1%}")
    assert len(found) >= 4
    assert max(map(abs, found)) < 0.1


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_a_chunk_takes_no_more_than_its_price_and_a_copy_of_its_sequence(tiny: Tiny, family: str) -> None:
    """The copy: buffers that grow are there twice for a moment."""
    overrides, speculation = FAMILIES[family]
    watched = Watched(tiny(family, **overrides), "rows", speculation)
    runner = watched.stepper.runner
    text = simulator.seq(1).text
    for size in (32, 128, 512):
        prompt = Prompt(tuple(place % 400 for place in range(2000)), cached=False)
        peaks: dict[int, int] = {}
        for _ in range(6):  # on a busy machine MLX's thread frees later than it could: the least is what is needed
            new = Sequence(EngineRequest(RequestId("row"), prompt, Sampling(), 1), text, lambda delta: None)
            new.draft.mtp_prefill = speculation != "off"
            while new.remaining:
                tokens = min(size, new.remaining)
                mx.clear_cache()
                active = mx.get_active_memory()
                mx.reset_peak_memory()
                mx.eval(runner.prefill(new, tokens))
                peak = mx.get_peak_memory() - active
                peaks[new.computed.tokens] = min(peak, peaks.get(new.computed.tokens, peak))
        for after, peak in peaks.items():
            copy = watched.memory_model.row(after) + watched.memory_model.stretch(after, size)
            assert peak <= watched.memory_model.chunk(min(size, after), after) + copy, (size, after)


def test_without_its_head_a_model_is_cheaper(tiny: Tiny) -> None:
    stepper = Stepper(tiny("hybrid", layers=4))
    with_head, without = profile_memory(stepper.runner), profile_memory(stepper.runner, head=False)
    assert token(without) < token(with_head)
    assert without.state == with_head.state


def token(memory_model: MemoryModel) -> int:
    return sum(layer.token for layer in memory_model.attention)


# -- dequantized weights


def test_dense_weights_leave_a_third_of_the_memory_to_sequences(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paceline.platform.device_kind", lambda: "cpu")
    settings = Settings(memory_limit_gb=10.0)
    most = int(10e9 * (1 - HEADROOM) * DENSE_SHARE)
    assert dequantize_within(settings) == pytest.approx(most)
    assert dequantize_within(settings, held=1_000_000_000) == pytest.approx(most - 1_000_000_000)
    assert dequantize_within(settings, held=9_000_000_000) == 0


def test_weights_stay_quantized_on_a_gpu_and_where_the_settings_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paceline.platform.device_kind", lambda: "cpu")
    assert dequantize_within(Settings(dequantize="off")) is None
    for kind in ("metal", "cuda"):
        monkeypatch.setattr("paceline.platform.device_kind", lambda kind=kind: kind)
        assert dequantize_within(Settings()) is None


def test_dense_and_quantized_weights_share_no_prefixes_on_disk(four_bit: Tiny, tmp_path: Path) -> None:
    for within in (None, 1 << 40):
        runner = Runner(load(str(four_bit("llama")), "float32", dequantize_within=within), ROWS)
        disk = _disk(tmp_path, 1.0, runner, "model", lambda: None)
        disk.open()
        disk.close()
    assert len([folder for folder in tmp_path.iterdir() if folder.is_dir()]) == 2


@pytest.mark.parametrize(("kv", "share"), [(KVQuantization(8, 32), 10 / 32), (KVQuantization(4, 32), 6 / 32)], ids=str)
def test_quantized_keys_and_values_are_priced_as_they_are(tiny: Tiny, kv: KVQuantization, share: float) -> None:
    """A scale and a bias in float32 are two bits more for each of 32 numbers."""
    model = loaded(tiny("llama"))
    [before] = profile_memory(Runner(model, ROWS)).attention
    model.language.kv = kv
    try:
        [after] = profile_memory(Runner(model, ROWS)).attention
    finally:
        model.language.kv = None
    assert after.token == share * before.token
    assert after.dense == before.token // before.layers  # of one layer, while it is read


def test_prefixes_of_other_bits_lie_in_another_folder(tiny: Tiny, tmp_path: Path) -> None:
    model = loaded(tiny("llama"))
    folders = []
    try:
        for kv in (None, KVQuantization(8, 32), KVQuantization(4, 32), KVQuantization(4, 32, 10)):
            model.language.kv = kv
            folders.append(_disk(tmp_path, 1.0, Runner(model, ROWS), "model", lambda: None).folder)
    finally:
        model.language.kv = None
    assert len(set(folders)) == 4


def test_metals_limit_of_buffers_limits_how_many_prefixes_are_held(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    language = loaded(tiny("hybrid", layers=8)).language
    assert most_prefixes(language) is None
    monkeypatch.setattr("paceline.platform.device_kind", lambda: "metal")
    monkeypatch.setattr("paceline.platform.device_info", lambda: {"resource_limit": 499_000})
    assert most_prefixes(language) == int(499_000 * BUFFERS) // 16
    monkeypatch.setattr("paceline.platform.device_info", dict)
    assert most_prefixes(language) is None
