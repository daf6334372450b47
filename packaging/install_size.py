"""What an environment's packages take on disk: `python packaging/install_size.py` with that environment's Python.

Sizes are of the files that each package lists, in MB of 2**20 bytes; bytecode that is compiled later is not counted.
"""

from __future__ import annotations

import platform
import sys
from importlib.metadata import Distribution, distributions
from pathlib import Path

SHOWN = 12
UNCOUNTED = ("pip", "setuptools")  # what the environment brought


def size(distribution: Distribution) -> int:
    """Bytes of the package's files, without bytecode."""
    paths = [Path(str(file.locate())) for file in distribution.files or () if file.suffix != ".pyc"]
    return sum(path.stat().st_size for path in paths if path.is_file())


def main() -> None:
    sizes = {found.name: size(found) for found in distributions() if found.name not in UNCOUNTED}
    print(f"{platform.system()} {platform.machine()}, Python {platform.python_version()}, {sys.prefix}")
    for name, taken in sorted(sizes.items(), key=lambda item: -item[1])[:SHOWN]:
        print(f"{taken / 2**20:6.0f} MB  {name}")
    print(f"{sum(sizes.values()) / 2**20:6.0f} MB  {len(sizes)} packages")


if __name__ == "__main__":
    main()
