from __future__ import annotations

import pytest

from paceline.command_line import rewritten, size_text


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("m --specprefill", "m --specprefill auto"),
        ("m --specprefill --port 1", "m --specprefill auto --port 1"),
        ("--specprefill off m", "--specprefill off m"),
        ("m --specprefill auto", "m --specprefill auto"),
        ("m --served-model-name a b --port 1", "m --served-model-name a --served-model-name b --port 1"),
        ("m --served-model-name a --served-model-name b", "m --served-model-name a --served-model-name b"),
        ("--served-model-name a m", "--served-model-name a m"),
        ("m --served-model-name", "m --served-model-name"),
        ("m --served-model-name --port 1", "m --served-model-name --port 1"),
        ("m --port 1", "m --port 1"),
        ("-- --specprefill", "-- --specprefill"),
        ("", ""),
    ],
)
def test_command_lines_of_other_servers_are_written_as_ours(given: str, meant: str) -> None:
    assert rewritten(given.split()) == meant.split()


def test_sizes_are_written_in_their_unit() -> None:
    assert [size_text(size) for size in (5, 5_000, 5e6, 5.4e9)] == ["5 bytes", "5 kB", "5 MB", "5.4 GB"]
