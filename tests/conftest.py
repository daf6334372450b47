"""Synthetic models for every test, built once a session or kept in $PACELINE_TEST_MODELS across sessions."""

from __future__ import annotations

import contextlib
import gc
import hashlib
import io
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

# Before anything imports MLX: a BLAS that is loaded later is not used.
with contextlib.suppress(ImportError):
    from paceline.platform import prepare

    prepare(exact=True)

from hypothesis import settings  # noqa: E402

from paceline.models import verdicts  # noqa: E402
from tests import synthetic  # noqa: E402
from tests.lengths import ALL, examples  # noqa: E402

# A busy machine is no failure, and every run tries the same examples: CI must not find what nobody changed.
settings.register_profile("paceline", deadline=None, derandomize=True, max_examples=examples(100))
settings.load_profile("paceline")

# The fewest layers that have one of each kind. MLX on a CPU takes its time by the operation, whatever the size.
FEWEST = {"hybrid": 4, "hybrid_moe": 4, "llama": 2, "qwen3": 2, "qwen3_moe": 2, "window": 3, "window_llama": 3}

Tiny = Callable[..., Path]
CHILD = "PACELINE_TEST_CHILD"


@pytest.hookimpl(tryfirst=True)  # before those are taken out that `-m` does not ask for
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    seen = Counter[str]()
    for item in items:
        if (thin := item.get_closest_marker("thin")) is not None:
            name = item.nodeid.partition("[")[0]
            if seen[name] % thin.args[0] != thin.kwargs.get("first", 0):
                item.add_marker(pytest.mark.slow)
            seen[name] += 1


def pytest_collection_finish() -> None:
    """Modules and collected tests stay to the end: no garbage collection need look at them again."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """A test marked `own_process` is run by a pytest of its own."""
    if pyfuncitem.get_closest_marker("own_process") is None or CHILD in os.environ:
        return None
    command = [sys.executable, "-m", "pytest", "-n0", "-p", "no:cacheprovider", "--timeout=0", pyfuncitem.nodeid]
    child = subprocess.run(
        command, cwd=pyfuncitem.config.rootpath, env={**os.environ, CHILD: "1"}, capture_output=True, text=True
    )
    assert child.returncode == 0, child.stdout + child.stderr
    return True


@pytest.fixture(scope="session", autouse=True)
def _every_check_runs() -> Iterator[None]:
    """Whatever earlier starts have found: here and in the processes that tests start."""

    def nowhere() -> Path:
        raise OSError("no test reads what another has kept")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verdicts, "cache_folder", nowhere)
        patch.setenv("PACELINE_STARTUP_CHECKS", "always")
        yield


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    """`tiny("llama", layers=2)` is the folder of such a checkpoint."""
    kept = os.environ.get("PACELINE_TEST_MODELS")
    home = Path(kept) if kept else tmp_path_factory.mktemp("models")

    def folder(family: str, **overrides: Any) -> Path:
        if not ALL and family in FEWEST:
            overrides = {"layers": FEWEST[family], **overrides}
        path = home / f"{family}-{_fingerprint(overrides)}"
        if not path.exists():
            try:
                synthetic.build(family, path, **overrides)
            except OSError:
                # Another test process may have built it first.
                if not (path / "config.json").exists():
                    raise
        return path

    return folder


@pytest.fixture(scope="session")
def hybrid(tiny: Tiny) -> Path:
    return tiny("hybrid")


@pytest.fixture(scope="session")
def hybrid_moe(tiny: Tiny) -> Path:
    return tiny("hybrid_moe")


@pytest.fixture(scope="session")
def llama(tiny: Tiny) -> Path:
    return tiny("llama")


@pytest.fixture(scope="session")
def qwen3(tiny: Tiny) -> Path:
    return tiny("qwen3")


@pytest.fixture(scope="session")
def window(tiny: Tiny) -> Path:
    return tiny("window")


@pytest.fixture(scope="session")
def seeing(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """`seeing("gemma3")` is the folder of a small checkpoint of that vision-language family."""
    kept = os.environ.get("PACELINE_TEST_MODELS")
    home = Path(kept) if kept else tmp_path_factory.mktemp("seeing")

    def folder(family: str) -> Path:
        from tests.synthetic import vision

        assert vision.__file__ is not None
        path = home / f"{family}-{hashlib.sha256(Path(vision.__file__).read_bytes()).hexdigest()[:12]}"
        return path if path.exists() else vision.build(family, path)

    return folder


@pytest.fixture(scope="session")
def four_bit(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    """`four_bit("llama")` is the folder of such a checkpoint, quantized by mlx-lm."""

    def folder(family: str, **overrides: Any) -> Path:
        import mlx_lm

        source = tiny(family, dtype="bfloat16", **overrides)
        path = tmp_path_factory.getbasetemp() / "four-bit" / source.name
        if not path.exists():
            with contextlib.redirect_stdout(io.StringIO()):
                mlx_lm.convert(str(source), str(path), quantize=True, q_bits=4)
        return path

    return folder


def _fingerprint(overrides: dict[str, Any]) -> str:
    """Changes with the overrides and with the builder, so that a kept folder is never a stale one."""
    digest = hashlib.sha256(json.dumps(overrides, sort_keys=True).encode())
    for module in (synthetic.models, synthetic.tokenizer, synthetic.weights):
        assert module.__file__ is not None
        digest.update(Path(module.__file__).read_bytes())
    return digest.hexdigest()[:12]
