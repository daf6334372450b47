"""Mutation testing: which changes to a module do its tests notice? `make mutate ARGS='paceline/engine/policy.py'`

A mutant is the module with one small change. It is written into a temporary copy of the repository, never into the
repository itself, and there the tests named after the module are run, and those given with `--also`. The libraries
that take long to import are imported once, and every run is a fork of that process.
"""

from __future__ import annotations

import argparse
import ast
import multiprocessing
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

Outcome = Literal["killed", "survived", "timeout"]
ROOT = Path(__file__).resolve().parents[1]
COPIED = ("paceline", "tests", "docs", "README.md", "Makefile", "pyproject.toml")
SLOW_IMPORTS = ("transformers", "hypothesis", "numpy")  # not MLX: it is imported after the BLAS is chosen
SLACK = (4, 30)  # a mutant may take this many times what the module as it is takes, and so many seconds
PAIRS: list[tuple[type[ast.AST], type[ast.AST]]] = [
    (ast.Lt, ast.LtE),
    (ast.Gt, ast.GtE),
    (ast.Eq, ast.NotEq),
    (ast.Is, ast.IsNot),
    (ast.In, ast.NotIn),
    (ast.Add, ast.Sub),
    (ast.And, ast.Or),
]
SWAPPED = {**dict(PAIRS), **{second: first for first, second in PAIRS}}


@dataclass(frozen=True, slots=True)
class Mutant:
    line: int
    change: str
    source: str


def mutants(source: str, count: int, seed: int) -> list[Mutant]:
    """So many of all the module's mutants, chosen at random, in the order of their lines."""
    tree = ast.parse(source)
    found = list(_changes(tree))
    chosen = random.Random(seed).sample(range(len(found)), min(count, len(found)))
    made = []
    for parent, field, index, old, new in (found[position] for position in sorted(chosen)):
        _put(parent, field, index, new)
        change = f"{_short(old)}  ->  {_short(new)}"
        made.append(Mutant(getattr(old, "lineno", 0), change, ast.unparse(tree) + "\n"))
        _put(parent, field, index, old)
    return sorted(made, key=lambda mutant: mutant.line)


Change = tuple[ast.AST, str, int | None, ast.AST, ast.AST]  # parent, its field, place in the list there, old, new


def _changes(tree: ast.AST) -> Iterator[Change]:
    for parent in ast.walk(tree):
        for field, value in ast.iter_fields(parent):
            for index, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
                if isinstance(child, ast.AST):
                    condition = field == "ifs" or (field == "test" and not isinstance(parent, ast.Assert))
                    for new in _replacements(child, condition):
                        yield parent, field, index, child, new


def _replacements(node: ast.AST, condition: bool) -> Iterator[ast.AST]:
    match node:
        case ast.Compare():
            for position, operator in enumerate(node.ops):
                new = deepcopy(node)
                new.ops[position] = _swapped(operator)
                yield new
        case ast.BinOp() | ast.AugAssign() | ast.BoolOp() if type(node.op) in SWAPPED:
            changed = deepcopy(node)
            changed.op = _swapped(node.op)
            yield changed
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield operand
        case ast.Constant(value=int(number)) if not isinstance(number, bool):
            yield ast.Constant(number + 1)
        case ast.Return(value=ast.expr() as value) if not (isinstance(value, ast.Constant) and value.value is None):
            yield ast.Return(ast.Constant(None))
        case ast.Expr(value=ast.Call(func=function)) if not ast.unparse(function).startswith("logger."):
            yield ast.Pass()
    if condition and isinstance(node, ast.expr) and not isinstance(node, ast.UnaryOp):
        yield ast.UnaryOp(ast.Not(), node)


def _swapped(operator: ast.AST) -> Any:
    """The other operator of its pair."""
    return SWAPPED.get(type(operator), type(operator))()


def _put(parent: ast.AST, field: str, index: int | None, node: ast.AST) -> None:
    if index is None:
        setattr(parent, field, node)
    else:
        getattr(parent, field)[index] = node


def _short(node: ast.AST) -> str:
    text = ast.unparse(node).splitlines()[0]
    return text if len(text) <= 60 else text[:57] + "..."


def own_tests(module: Path) -> list[str]:
    """`tests/engine/test_prefill_budget.py` for `paceline/engine/prefill_budget.py`; a few modules have none
    (tests/test_mirror.py)."""
    path = Path("tests", *module.parts[1:-1], f"test_{module.name}")
    return [str(path)] if (ROOT / path).exists() else []


def run(copy: Path, tests: Sequence[str], limit: float | None) -> Outcome:
    process = multiprocessing.get_context("fork").Process(target=_child, args=(copy, tests))
    process.start()
    process.join(limit)
    if process.exitcode is not None:
        return "survived" if process.exitcode == 0 else "killed"
    assert process.pid is not None
    os.killpg(process.pid, signal.SIGKILL)  # with the processes that tests have started
    process.join()
    return "timeout"


def _child(copy: Path, tests: Sequence[str]) -> None:
    os.setsid()
    output = os.open(copy / "output", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.chdir(copy)
    os.environ["PYTHONPATH"] = str(copy)
    os.environ.setdefault("PACELINE_TEST_MODELS", str(copy / "models"))
    sys.path[:] = [str(copy), *(entry for entry in sys.path if entry and Path(entry).resolve() != ROOT)]
    for name in [name for name in sys.modules if name.partition(".")[0] in ("paceline", "tests")]:
        del sys.modules[name]
    # Asserts are not rewritten: their messages are not read, and pytest's own plugins are imported already.
    options = ["-x", "-q", "-n0", "-m", "not slow", "--assert=plain", "-p", "no:cacheprovider"]
    os._exit(pytest.main([*options, *tests]))


def try_module(copy: Path, module: Path, tests: Sequence[str], count: int, seed: int) -> Counter[Outcome]:
    target = copy / module
    source = target.read_text()
    start = time.monotonic()
    if run(copy, tests, None) != "survived":
        sys.exit(f"{module}: the tests fail without any change\n{(copy / 'output').read_text()}")
    times, seconds = SLACK
    limit = times * (time.monotonic() - start) + seconds
    outcomes = Counter[Outcome]()
    for mutant in mutants(source, count, seed):
        for compiled in (target.parent / "__pycache__").glob(f"{target.stem}.*"):
            compiled.unlink()  # two mutants may have the same size and second, by which Python knows a file
        target.write_text(mutant.source)
        outcome = run(copy, tests, limit)
        outcomes[outcome] += 1
        print(f"{outcome:9} {module}:{mutant.line:<4} {mutant.change}", flush=True)
    target.write_text(source)
    return outcomes


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("modules", nargs="+", type=Path, help="for example paceline/engine/policy.py")
    parser.add_argument("--count", type=int, default=12, help="mutants of each module")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--also", nargs="+", default=[], help="test files besides those named after the module")
    options = parser.parse_args()
    for name in SLOW_IMPORTS:
        __import__(name)
    total = Counter[Outcome]()
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder).resolve()
        for name in COPIED:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(ROOT / name, copy / name)
        for module in options.modules:
            tests = [*own_tests(module), *options.also]
            if not tests:
                parser.error(f"{module} has no tests of its own: name some with --also")
            outcomes = try_module(copy, module, tests, options.count, options.seed)
            total += outcomes
            print(f"{module}: {_summary(outcomes)}\n", flush=True)
    print(_summary(total))


def _summary(outcomes: Counter[Outcome]) -> str:
    """A mutant that hangs is noticed: pytest ends such a test."""
    noticed = outcomes["killed"] + outcomes["timeout"]
    return f"killed {noticed} of {outcomes.total()}, {outcomes['timeout']} of them by the time limit"


if __name__ == "__main__":
    main()
