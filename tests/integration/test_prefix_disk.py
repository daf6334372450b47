"""What is restored from disk after a restart changes no token, whatever happened to the files."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.types import Prompt, Speculation
from tests.engine.conversations import SCRIPTS, SYSTEM, Conversations, Move, check_rest, quiet, words
from tests.engine.stepper import Stepper
from tests.engine.watched import SMALL
from tests.integration.test_prefix_exactness import (
    BUDGETS,
    FAMILIES,
    MODES,
    PLAIN,
    PLENTY,
    TINY,
    Tiny,
    ask,
    expected,
    scripts,
    single,
    stepped,
)


def entries(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.prefix"))


def spoil(folder: Path, damage: Sequence[tuple[str, int]], seed: int = 0) -> None:
    random = np.random.default_rng(seed)
    for kind, which in damage:
        files = entries(folder)
        if not files:
            return
        file = files[which % len(files)]
        content = bytearray(file.read_bytes())
        if kind == "delete":
            file.unlink()
            continue
        if kind == "truncate":
            del content[int(random.integers(0, len(content))) :]
        elif content:
            content[int(random.integers(0, len(content)))] ^= 1 << int(random.integers(0, 8))
        file.write_bytes(content)


def restarted(folder: Path, mode: tuple[Speculation, ...], kept: Path, **more: Any) -> Stepper:
    return stepped(folder, mode, disk=kept, **{"cache": PLENTY, **more})


@pytest.mark.thin(6, first=1)
@pytest.mark.parametrize(("family", "mode"), [MODES[0], MODES[1], *MODES[3:6], MODES[-1]])
@scripts(2)
@given(
    script=SCRIPTS,
    budgets=st.tuples(BUDGETS, BUDGETS),
    disk_limit=st.sampled_from([PLENTY, PLENTY, 400_000, 60_000]),
    damage=st.lists(st.tuples(st.sampled_from(["truncate", "flip", "delete"]), st.integers(0, 20)), max_size=3),
    seed=st.integers(0, 99),
)
def test_no_script_that_goes_on_after_a_restart_changes_a_token(
    tiny: Tiny,
    family: str,
    mode: tuple[Speculation, ...],
    script: list[Move],
    budgets: tuple[int, int],
    disk_limit: int,
    damage: list[tuple[str, int]],
    seed: int,
) -> None:
    folder = tiny(family, **FAMILIES[family])
    with tempfile.TemporaryDirectory() as kept:
        for run, budget in enumerate(budgets):
            stepper = stepped(folder, mode, cache=budget, disk=Path(kept), disk_limit=disk_limit)
            conversations = Conversations(stepper, folder, single(mode))
            conversations.play(script)
            conversations.check()
            stepper.close()
            assert sum(file.stat().st_size for file in Path(kept).rglob("*") if file.is_file()) <= disk_limit
            if run == 0:
                spoil(Path(kept), damage, seed)


@pytest.mark.thin(14, first=8)
@pytest.mark.parametrize(("family", "mode"), [*MODES[:6], MODES[-1]])
@pytest.mark.parametrize("memory", [PLENTY, TINY])
def test_what_was_known_is_known_after_a_restart(
    tiny: Tiny, tmp_path: Path, family: str, mode: tuple[Speculation, ...], memory: int
) -> None:
    folder = tiny(family, **FAMILIES[family])
    prompts = [SYSTEM + words(seed, 30) for seed in range(4)]
    stepper = restarted(folder, mode, tmp_path, cache=memory)
    first = [ask(stepper, str(place), prompt) for place, prompt in enumerate(prompts)]
    turns = [(*prompt, *each.tokens, *words(3, 7)) for prompt, each in zip(prompts, first, strict=True)]
    stepper.close()
    stepper = restarted(folder, mode, tmp_path, cache=memory)
    for place, turn in enumerate(turns):
        heard = ask(stepper, str(place), turn)
        assert heard.tokens == expected(folder, turn)
        # With little memory, what is evicted before it is written is lost; the system prompt is not.
        assert heard.cached == len(prompts[place]) + 7 or (memory == TINY and heard.cached >= 40)
    together = [stepper.greedy(f"{place} again", prompt, 8) for place, prompt in enumerate(prompts)]
    with quiet():
        stepper.finish()
    assert [each.tokens for each in together] == [each.tokens for each in first]
    assert memory == TINY or [each.cached for each in together] == [69] * 4
    stepper.close()
    check_rest(stepper.reuse)


@pytest.mark.thin(3)
@pytest.mark.parametrize(("family", "mode"), [MODES[0], MODES[1], MODES[6]])
def test_damaged_files_cost_time_and_change_no_token(
    tiny: Tiny, tmp_path: Path, family: str, mode: tuple[Speculation, ...]
) -> None:
    folder = tiny(family, **FAMILIES[family])
    prompts = [SYSTEM + words(seed, 30) for seed in range(4)]
    stepper = restarted(folder, mode, tmp_path)
    for place, prompt in enumerate(prompts):
        ask(stepper, str(place), prompt, boundaries=(40,))
    stepper.close()
    for damage in (["flip"], ["truncate"], ["delete"], ["flip", "truncate", "flip", "delete", "flip"]):
        spoil(tmp_path, [(kind, 2 + 3 * place) for place, kind in enumerate(damage)], seed=len(damage))
        stepper = restarted(folder, mode, tmp_path)
        heard = [stepper.greedy(str(place), prompt, 8) for place, prompt in enumerate(prompts)]
        stepper.finish()
        assert [each.tokens for each in heard] == [expected(folder, prompt) for prompt in prompts]
        stepper.close()
        check_rest(stepper.reuse)


def test_a_sequence_that_is_cancelled_while_the_disk_is_read_leaves_nothing(tiny: Tiny, tmp_path: Path) -> None:
    folder = tiny("hybrid", **SMALL)
    prompt = SYSTEM + words(1, 30)
    stepper = restarted(folder, PLAIN, tmp_path)
    ask(stepper, "first", prompt)
    stepper.close()
    stepper = restarted(folder, PLAIN, tmp_path)
    cancelled = stepper.greedy("cancelled", prompt, 8)
    stepper.step()
    stepper.abort("cancelled")
    stepper.finish()
    assert cancelled.finish_reason == "abort"
    heard = ask(stepper, "heard", prompt)
    assert (heard.tokens, heard.cached) == (expected(folder, prompt), 69)
    stepper.close()
    check_rest(stepper.reuse)


@pytest.mark.timeout(60)
def test_what_was_read_from_disk_is_not_evicted_before_it_is_used(tiny: Tiny, tmp_path: Path) -> None:
    """The files of a long conversation come one by one, while another row's prefill asks for room."""
    folder = tiny("hybrid", **SMALL)
    stepper = restarted(folder, PLAIN, tmp_path)
    text = SYSTEM
    for turn in range(8):
        text = (*text, *words(turn, 8))
        ask(stepper, str(turn), text, 2)
    stepper.close()
    stepper = restarted(folder, PLAIN, tmp_path, cache=0, chunk=1)
    other = words(99, 60)
    stepper.greedy("other", Prompt(other, boundaries=tuple(range(1, 60))), 4)
    stepper.step(3)
    heard = stepper.greedy("row", text, 4)
    with quiet():
        stepper.finish()
    assert heard.tokens == expected(folder, text, 4)
    stepper.close()
    stepper = restarted(folder, PLAIN, tmp_path)  # nothing was thrown away on the way
    assert ask(stepper, "again", text, 4).cached == len(text) - 1
    stepper.close()
