"""Mutants are small changes to a module, each one alone, and the same for the same seed."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.mutation import mutants, own_tests


@pytest.mark.parametrize(
    ("source", "changed"),
    [
        ("a <= b", {"a < b"}),
        ("a == b != c", {"a != b != c", "a == b == c"}),
        ("x = a + b", {"x = a - b"}),
        ("x -= 1", {"x += 1", "x -= 2"}),
        ("a and b", {"a or b"}),
        ("x = not a", {"x = a"}),
        ("call(True)", {"pass"}),
        ("assert a", set()),
        ("logger.info(a)", set()),
        ("return a", {"return None"}),
        ("return None", set()),
        ("x = [a for a in b if c]", {"x = [a for a in b if not c]"}),
        ("if not a:\n    x()", {"if a:\n    x()", "if not a:\n    pass"}),
        ("while a:\n    x()", {"while not a:\n    x()", "while a:\n    pass"}),
    ],
)
def test_a_module_has_these_mutants(source: str, changed: set[str]) -> None:
    assert {mutant.source.strip() for mutant in mutants(source, 100, 1)} == changed


def test_each_mutant_is_one_change_to_the_module_as_it_is() -> None:
    source = "def f(a, b):\n    if a < b and a:\n        return a + 1\n    return b\n"
    made = mutants(source, 100, 1)
    assert [mutant.line for mutant in made] == sorted(mutant.line for mutant in made)
    for mutant in made:
        pairs = zip(source.splitlines(), mutant.source.splitlines(), strict=True)
        assert sum(before != after for before, after in pairs) == 1
        ast.parse(mutant.source)


def test_the_same_seed_chooses_the_same_mutants() -> None:
    source = "".join(f"x = a + {number}\n" for number in range(50))
    assert mutants(source, 10, 3) == mutants(source, 10, 3) != mutants(source, 10, 4)
    assert len(mutants(source, 10, 3)) == 10


def test_tests_are_found_by_the_name_of_the_module() -> None:
    assert own_tests(Path("paceline/cache/disk.py")) == ["tests/cache/test_disk.py"]
    assert own_tests(Path("paceline/settings.py")) == ["tests/test_settings.py"]
    assert own_tests(Path("paceline/engine/prefix_store.py")) == []
