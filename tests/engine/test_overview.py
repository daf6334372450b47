"""What an onlooker sees of sequences. No MLX."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

from paceline.engine import overview
from paceline.engine.scheduler import Scheduler
from tests.engine.planned import planned
from tests.engine.test_scheduler import seq


def test_an_overview_needs_no_mlx() -> None:
    code = "import sys, paceline.engine.overview; sys.exit(any(n.split('.')[0] == 'mlx' for n in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_row_shows_how_far_it_is_and_nothing_of_what_it_says() -> None:
    one = seq(10, name="chatcmpl-1/2")
    one.request = replace(one.request, tenant="key-1", priority=3)
    one.queue.arrived, one.preemptions, one.prefix.cached_tokens = 5.0, 1, 4
    one.generated = [7, 8]
    [seen] = overview.running([one], 7.5)
    assert seen == {
        "id": "chatcmpl-1",
        "choice": 2,
        "prompt_tokens": 10,
        "cached_tokens": 4,
        "generated_tokens": 2,
        "age_seconds": 2.5,
        "tenant": "key-1",
        "priority": 3,
        "setbacks": 1,
        "state": "prefill",
    }


def test_an_id_without_a_choice_is_shown_whole() -> None:
    assert overview.running([seq(1, name="mine")], 0.0)[0]["id"] == "mine"
    assert overview.running([seq(1, name="a/b/0")], 0.0)[0]["id"] == "a/b"


def test_a_row_is_held_or_reads_or_speaks() -> None:
    assert overview.state(seq(10)) == "prefill"
    waiting, scoring, decoding, encoding = seq(10), seq(10), seq(10), seq(10, images=1)
    waiting.prefix.waiting, scoring.sparse.decided = True, False
    decoding.computed.tokens = encoding.computed.tokens = 9
    assert [overview.state(each) for each in (waiting, scoring, decoding, encoding)] == [
        "held",
        "scoring",
        "decode",
        "prefill",
    ]


def test_the_queue_is_told_in_its_order_with_places_and_reasons() -> None:
    one = Scheduler(1, 16)
    for place, prompt in enumerate((10, 20, 30)):
        one.add(seq(prompt, name=f"r{place}/0"), now=float(place))
    planned(one, 3.0)
    seen = overview.waiting(one.queue(4.0), 4.0)
    assert [(each["id"], each["position"], each["reason"], each["age_seconds"]) for each in seen] == [
        ("r1", 1, "rows", 3.0),
        ("r2", 2, "rows", 2.0),
    ]
