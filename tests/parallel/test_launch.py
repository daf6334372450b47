from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from paceline.errors import PacelineError, SettingsError
from paceline.parallel import launch
from paceline.parallel.launch import Place, Ranks, find_place, identity
from paceline.setting_sources import SECRET_VARIABLE
from paceline.settings import Settings

SECRET = "sixteen letters or more"
TENSOR = Settings(parallel="tensor")


@pytest.fixture
def ring(tmp_path: Path) -> dict[str, str]:
    """What mlx.launch sets for rank 1 of two."""
    hosts = tmp_path / "hosts.json"
    hosts.write_text(json.dumps([["10.0.0.1:5000", "10.0.1.1:5000"], ["10.0.0.2:5000"]]))
    return {"MLX_RANK": "1", "MLX_HOSTFILE": str(hosts), SECRET_VARIABLE: SECRET}


def test_a_rank_of_mlx_launch_knows_its_place(ring: dict[str, str]) -> None:
    assert find_place(TENSOR, ring) == Place(1, 2, "10.0.0.1", SECRET.encode())


def test_the_address_is_the_one_of_the_backend(tmp_path: Path) -> None:
    devices = tmp_path / "devices.json"
    devices.write_text(json.dumps([[None, "rdma_en5"], ["rdma_en5", None]]))
    jaccl = {"MLX_RANK": "0", "MLX_JACCL_COORDINATOR": "10.0.0.1:5000", "MLX_IBV_DEVICES": str(devices)}
    nccl = {"MLX_RANK": "2", "NCCL_HOST_IP": "10.0.0.1", "NCCL_PORT": "5000", "MLX_WORLD_SIZE": "4"}
    found = [find_place(TENSOR, {**env, SECRET_VARIABLE: SECRET}) for env in (jaccl, nccl)]
    assert [(place.rank, place.world, place.host) for place in found if place is not None] == [
        (0, 2, "10.0.0.1"),
        (2, 4, "10.0.0.1"),
    ]


def test_a_file_may_have_the_secret(ring: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("another secret of the ranks\n")
    del ring[SECRET_VARIABLE]
    place = find_place(Settings(parallel="tensor", rank_secret_file=file), ring)
    assert place is not None and place.secret == b"another secret of the ranks"


def test_without_mlx_launch_the_others_are_started_here() -> None:
    assert find_place(Settings(ranks=2), {}) is None
    with pytest.raises(SettingsError, match="use --ranks 2"):
        find_place(TENSOR, {})


@pytest.mark.parametrize(
    ("settings", "changed", "said"),
    [
        ({}, {SECRET_VARIABLE: ""}, "need a secret of at least 16"),
        ({}, {SECRET_VARIABLE: "short"}, "need a secret of at least 16"),
        ({"rank_secret_file": Path("/nowhere/secret")}, {}, "No such file"),
        ({"ranks": 3}, {}, "--ranks 3, but MLX was started with 2 ranks"),
        ({}, {"MLX_RANK": "one"}, "which is no number"),
        ({}, {"MLX_HOSTFILE": "/nowhere/hosts.json"}, "cannot be read"),
    ],
)
def test_what_is_wrong_is_said(
    ring: dict[str, str], settings: dict[str, Any], changed: dict[str, str], said: str
) -> None:
    with pytest.raises(SettingsError, match=said):
        find_place(Settings(parallel="tensor", **settings), {**ring, **changed})


def test_one_rank_is_none(ring: dict[str, str], tmp_path: Path) -> None:
    Path(ring["MLX_HOSTFILE"]).write_text('[["10.0.0.1:5000"]]')
    with pytest.raises(SettingsError, match="at least two"):
        find_place(TENSOR, ring)
    del ring["MLX_HOSTFILE"]
    with pytest.raises(SettingsError, match="neither"):
        find_place(TENSOR, ring)


@pytest.mark.parametrize(
    "settings",
    [{"cache_dir": Path("/tmp/x")}, {"draft_model": "m"}, {"specprefill_draft_model": "m"}, {"lora": ("a=/tmp/a",)}],
)
def test_what_does_not_work_over_ranks_is_refused(settings: dict[str, Any]) -> None:
    name = next(iter(settings)).replace("_", "-")
    with pytest.raises(SettingsError, match=f"--{name} does not work over several ranks"):
        launch.check(Settings(ranks=2, **settings), several_models=False)


def test_several_models_are_not_split() -> None:
    with pytest.raises(SettingsError, match="split one model"):
        launch.check(Settings(ranks=2), several_models=True)
    launch.check(Settings(ranks=2), several_models=False)


def test_settings_of_ranks_need_ranks() -> None:
    with pytest.raises(SettingsError, match="rank_port is for several ranks"):
        Settings(rank_port=5)
    assert not Settings().several_ranks
    assert Settings(ranks=2).several_ranks and TENSOR.several_ranks


def test_an_identity_names_what_must_be_the_same(llama: Path) -> None:
    place = Place(1, 2, "127.0.0.1", b"")
    one, two = (identity(Settings(model=str(llama), max_draft=most), place) for most in (3, 4))
    assert one.weights == two.weights
    assert {name for name in one.settings if one.settings[name] != two.settings[name]} == {"max_draft"}


def test_a_port_in_use_is_known_before_anything_is_started(llama: Path) -> None:
    first = Ranks(Settings(model=str(llama), ranks=2), None)
    with pytest.raises(PacelineError, match="cannot listen for other ranks"):
        Ranks(Settings(model=str(llama), ranks=2, rank_port=first.port), None)
    first.close()
