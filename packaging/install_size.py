"""What Paceline and its dependencies take on disk: `python packaging/install_size.py`, with the environment's Python.

Sizes are of the files that each package lists, in MB of 2**20 bytes, without bytecode.
"""

from __future__ import annotations

import argparse
import platform
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution, distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

SHOWN = 12
Package = tuple[str, frozenset[str]]  # a name, and the extras that are asked for


def size(found: Distribution) -> int:
    paths = [Path(str(file.locate())) for file in found.files or () if file.suffix != ".pyc"]
    return sum(path.stat().st_size for path in paths if path.is_file())


def requirements(name: str, extras: frozenset[str]) -> Iterator[Package]:
    """The installed packages that `name` with these extras asks for here, each with its own extras."""
    for line in distribution(name).requires or ():
        wanted = Requirement(line)
        marker = wanted.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in extras | {""}):
            yield canonicalize_name(wanted.name), frozenset(wanted.extras)


def reachable(root: str, extras: frozenset[str], installed: set[str], without: str = "") -> set[Package]:
    """All that installing `root` brings, if it did not ask for `without`."""
    seen: set[Package] = set()
    waiting = [(root, extras)]
    while waiting:
        entry = waiting.pop()
        if entry in seen or entry[0] not in installed or entry[0] == without:
            continue
        seen.add(entry)
        waiting.extend(requirements(*entry))
    return seen


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split(":")[0])
    parser.add_argument("--extra", default="cpu", help="the extra that was installed: cpu, cuda, or none")
    extras = frozenset({parser.parse_args().extra})

    sizes: dict[str, int] = {canonicalize_name(found.name): size(found) for found in distributions()}
    asked = reachable("paceline", extras, set(sizes))
    packages = {name for name, _ in asked}
    lean = {name for name, _ in reachable("paceline", extras, set(sizes), without="mlx-vlm")}
    total, least = (sum(sizes[name] for name in names) / 2**20 for names in (packages, lean))

    print(f"{platform.system()} {platform.machine()}, Python {platform.python_version()}")
    for name in sorted(packages, key=lambda name: -sizes[name])[:SHOWN]:
        users = sorted({user[0] for user in asked if name in {wanted for wanted, _ in requirements(*user)}})
        print(f"{sizes[name] / 2**20:6.0f} MB  {name:16} {', '.join(users)}")
    print(f"{total:6.0f} MB  {len(packages)} packages")
    print(f"{total - least:6.0f} MB  of these, {len(packages - lean)} packages, because of mlx-vlm alone")


if __name__ == "__main__":
    main()
