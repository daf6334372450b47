"""Tests are where the name of their module says, and a module without tests of its own is one that is listed here."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[1]
# Several modules together; attacks; real clients (`make clients`); the page in a browser (`make web`).
ELSEWHERE = ("integration", "hostile", "clients", "browser")
WITHOUT = {
    "bench/fabric_cli": "bench/test_fabric.py",
    "bench/options": "bench/test_cli.py",
    "bench/offline": "bench/test_cli.py; times whole models",
    "bench/memory_cli": "bench/test_memory.py",
    "benchmarks/kv_cli": "benchmarks/test_kv.py",
    "benchmarks/layout": "times whole models",
    "benchmarks/prefill": "benchmarks/test_traffic_cli.py",
    "benchmarks/prefix_rivals": "times other servers",
    "benchmarks/process": "starts servers for benches; bench/test_process.py",
    "benchmarks/rewrite": "benchmarks/test_speculate.py",
    "benchmarks/speculate_cli": "benchmarks/test_speculate.py",
    "benchmarks/steps": "benchmarks/test_traffic_cli.py",
    "benchmarks/traffic": "benchmarks/test_traffic_cli.py",
    "conversation/parsing/source": "every test in conversation/parsing reads through it",
    "setting_values": "test_settings.py",
    "stats": "types; engine/test_stats.py, server/test_status.py",
    "types": "types",
    "engine/in_flight": "types",
    "engine/rank_role": "types; parallel/test_roles.py",
    "engine/prompt_results": "integration/test_service_embed.py and all who prefill",
    "engine/prefix_store": "integration/test_prefix_*.py",
    "engine/runner": "integration/test_exactness.py and all who compare with mlx-lm",
    "engine/drafter": "integration/test_speculation*.py",
    "engine/proposer": "types; every proposer's own tests, and integration/test_speculation_methods.py",
    "errors": "types; server/http/test_errors.py has every one",
    "requests": "types; test_service.py",
    "server/common/tools": "server/openai/test_sampling.py, on a real engine",
    "server/openai/objects": "types; server/http/test_openapi.py compares answers with them",
    "synthetic/llava_families": "models/test_families.py, models/test_llava_vision.py",
    "synthetic/mtp_families": "models/test_mtp_recipes.py",
    "synthetic/recurrent_families": "models/test_recurrent.py, integration/test_recurrent_speculation.py",
    "synthetic/vision": "models/test_families.py",
    "synthetic/vision_families": "models/test_families.py",
    "synthetic/vision_parts": "models/test_families.py",
    "synthetic/gemma_families": "models/test_families.py",
}


def modules(package: str, *, within: str = "") -> set[str]:
    """As their tests are named: `cache/disk` of paceline, `benchmarks/crowd` of the benchmarks (`within` those)."""
    folder = ROOT / package
    paths = [path.relative_to(folder).with_suffix("") for path in folder.rglob("*.py")]
    return {(Path(within) / path).as_posix() for path in paths if not path.name.startswith("test_")}


def mirrored() -> set[str]:
    return (
        modules("paceline")
        | modules("benchmarks", within="benchmarks")
        | modules("tests/synthetic", within="synthetic")
    )


def named() -> set[str]:
    """The modules that test files are named after: `cache/disk` for `tests/cache/test_disk.py`."""
    folder = ROOT / "tests"
    paths = [path.relative_to(folder) for path in folder.rglob("test_*.py")]
    ours = [path for path in paths if path.parts[0] not in ELSEWHERE]
    return {path.with_name(path.stem.removeprefix("test_")).as_posix() for path in ours}


def test_every_test_file_is_named_after_a_module_or_is_an_integration_test() -> None:
    known = mirrored() | modules("training", within="training") | {"mirror", "mutation"}
    assert named() - known == set()


def test_every_module_has_a_test_file_or_a_reason_to_have_none() -> None:
    expected = {module for module in mirrored() if Path(module).name not in ("__init__", "__main__")}
    assert expected - named() == set(WITHOUT)
