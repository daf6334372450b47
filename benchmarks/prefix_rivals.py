"""The same agents' trace played to Paceline, mlx_lm.server and mlx-vlm's server, one after another, on one model.

python -m benchmarks.prefix_rivals [--model FOLDER] [--requests 16] [--skip mlx_lm]

All three read the same folder, in its own dtype (float32 for the synthetic default), with the same BLAS and the same
number of threads; mlx-vlm runs with its prefix cache on (APC_ENABLED=1). The default model is a small hybrid of random
weights, made on the spot: off Metal mlx_lm prefills hybrids token by token in Python, so it must be small. The answers
in the histories are scripted: every server is sent the same text.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform as machine
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from benchmarks.tables import trace_table
from paceline import platform
from paceline.bench.prompts import Lengths
from paceline.bench.trace import HttpServer, Plan, TraceReport, play
from paceline.bench.wire import Address
from tests import synthetic

HYBRID = dict(hidden=256, intermediate=768, heads=4, kv_heads=2, head_dim=64, state_head_dim=64, max_position=1 << 17)
START_SECONDS = 180.0


def commands(model: str, port: int, blas: Path | None) -> dict[str, tuple[list[str], dict[str, str], str | None]]:
    """For each server: its command, its own environment, the name it knows its model by (None: ask it).

    The rivals run twice: as they come, and "roomy": told to keep more and, mlx-vlm, to leave checkpoints more often.
    """
    python, where = sys.executable, ["--port", str(port)]
    preload = {} if blas is None else {"LD_PRELOAD": str(blas)}
    ours = [python, "-m", "paceline", "serve", model, "--log-level", "warning", *where]
    lm = [python, "-m", "mlx_lm", "server", "--model", model, *where]
    vlm = [python, "-m", "mlx_vlm.server", "--model", model, "--host", "127.0.0.1", *where]
    apc = {**preload, "APC_ENABLED": "1", "APC_DISK_ENABLED": "0"}
    often = {"APC_CHECKPOINT_ENTRIES": "64", "APC_CHECKPOINT_INTERVAL_TOKENS": "256", "APC_NUM_BLOCKS": "8192"}
    return {
        "paceline": (ours + ([] if blas is None else ["--blas", str(blas)]), {}, None),
        "mlx_lm": (lm, preload, "default_model"),
        "mlx_lm roomy": ([*lm, "--prompt-cache-size", "100"], preload, "default_model"),
        "mlx_vlm": (vlm, apc, model),
        "mlx_vlm roomy": (vlm, apc | often, model),
    }


@contextmanager
def running(command: list[str], environment: dict[str, str], port: int, log: Path) -> Iterator[None]:
    """A server that answers, and is gone afterwards."""
    with log.open("wb") as output:
        offline = {"HF_HUB_OFFLINE": "1", "HF_HUB_CACHE": str(log.parent)}
        process = subprocess.Popen(command, env=os.environ | offline | environment, stdout=output, stderr=output)
        try:
            end = time.monotonic() + START_SECONDS
            while not answers(port):
                if process.poll() is not None or time.monotonic() > end:
                    raise SystemExit(f"{' '.join(command)} did not come up:\n{log.read_text()[-2000:]}")
                time.sleep(0.2)
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def answers(port: int) -> bool:
    """Paceline has /ready; the others have /health once they are up, and the first request waits for the model."""
    for path in ("ready", "health"):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=5):
                return True
        except urllib.error.HTTPError as error:
            if error.code != 404:
                return False
        except OSError:
            return False
    return False


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def main() -> None:
    parser = argparse.ArgumentParser(description="One trace, three servers, one after another.")
    parser.add_argument("--model", help="a folder that all three can load; default: a small synthetic hybrid")
    parser.add_argument("--requests", type=int, default=16)
    parser.add_argument("--streams", type=int, default=4)
    parser.add_argument("--turns", type=int, default=4)
    parser.add_argument("--system-tokens", type=int, default=2048)
    parser.add_argument("--tools-tokens", type=int, default=256)
    parser.add_argument("--message-tokens", type=Lengths.parse, default=Lengths(30, 300))
    parser.add_argument("--output-tokens", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=1, help="all servers in turn, that many times; new texts each")
    parser.add_argument("--timeout", type=float, default=900.0, help="seconds a request may take")
    parser.add_argument("--skip", action="append", default=[], metavar="NAME", help="a row of the table, like mlx_lm")
    parser.add_argument("--blas", type=Path, help="default: the one that paceline finds")
    options = parser.parse_args()
    blas = options.blas
    if blas is None and sys.platform == "linux" and (found := platform.find_blas()):
        blas = found[0].path
        cpuinfo = Path("/proc/cpuinfo").read_text()
        platform.blas_environment(  # for all three alike
            found[0].name, os.environ, cpuinfo=cpuinfo, machine=machine.machine(), cpus=platform.usable_cpus()
        )
    plan = Plan(
        requests=options.requests,
        streams=options.streams,
        turns=options.turns,
        system=options.system_tokens,
        tools=options.tools_tokens,
        message=options.message_tokens,
        answer=options.output_tokens,
    )
    console = Console()
    with tempfile.TemporaryDirectory(prefix="paceline-rivals-") as temporary:
        folder = Path(temporary)
        model = options.model or str(synthetic.build("hybrid", folder / "hybrid", **HYBRID))
        calibrated, rounds = False, []
        for turn in range(options.rounds):
            plan, traces, ideal = replace(plan, seed=turn), [], None
            for name in commands(model, 0, blas):
                if name in options.skip:
                    continue
                port = free_port()
                command, environment, served = commands(model, port, blas)[name]
                console.print(f"[dim]{name}: starting[/dim]", highlight=False)
                with running(command, environment, port, folder / f"{name}.log"):
                    server = HttpServer(Address.parse(f"http://127.0.0.1:{port}"), served, name, options.timeout)

                    async def measure(
                        server: HttpServer = server,
                        plan: Plan = plan,
                        known: bool = calibrated,
                        ideal: int | None = ideal,
                    ) -> tuple[Plan, TraceReport]:
                        calibration = await server.calibrate()  # also warms it up
                        plan = plan if known else replace(plan, calibration=calibration)
                        return plan, await play(server, plan, ideal=ideal)

                    plan, trace = asyncio.run(measure())
                calibrated, ideal = True, trace.ideal
                traces.append(trace)
                for note in (*trace.run.notes, *(f"{k}: {m}" for k, m in trace.run.error_examples.items())):
                    console.print(f"{name}: {note}", markup=False)
            title = f"{plan.requests} requests, {plan.streams} at a time, round {turn + 1} of {options.rounds}"
            console.print(trace_table(title, traces))
            rounds.append(traces)
        if options.rounds > 1:
            medians(console, rounds)


def medians(console: Console, rounds: list[list[TraceReport]]) -> None:
    """Ratios to the first server, each of one round."""
    for column in zip(*rounds, strict=True):
        pairs = [(mine.run, traces[0].run) for mine, traces in zip(column, rounds, strict=True)]
        total = statistics.median(mine.wall_s / first.wall_s for mine, first in pairs)
        firsts = [(mine.ttft_s, first.ttft_s) for mine, first in pairs]
        token = statistics.median([mine.p50 / first.p50 for mine, first in firsts if mine and first] or [float("nan")])
        name, other = pairs[0][0].label, pairs[0][1].label
        console.print(
            f"{name} / {other}, medians of {len(rounds)} rounds: total {total:.2f}, first token p50 {token:.2f}",
            highlight=False,
        )


if __name__ == "__main__":
    main()
