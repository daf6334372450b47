"""Where the clients are, and how they get there: pip and npm, each client as its own users install it."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

FOLDER = Path(os.environ.get("CLIENTS_FOLDER", "~/.cache/paceline-clients")).expanduser()
HERE = Path(__file__).parent
NPM = FOLDER / "npm" / "node_modules"
SYSTEM = "darwin" if sys.platform == "darwin" else "linux"
MACHINE = f"{SYSTEM}-{'arm64' if platform.machine() in ('arm64', 'aarch64') else 'x64'}"
TIMEOUT = 420
INSTALL_TIMEOUT = 1800


class Skipped(Exception):
    """The client cannot be tried here."""


def run(command: list[str], **options: object) -> str:
    done = subprocess.run(  # type: ignore[call-overload]
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, **{"timeout": TIMEOUT, **options}
    )
    output = f"{done.stdout}\n{done.stderr}".strip()
    if done.returncode:
        raise RuntimeError(f"status {done.returncode}: {output[-800:]}")
    return output


def install_python(name: str, packages: list[str]) -> Path:
    """The interpreter of an environment of that name, which has the packages."""
    python = FOLDER / name / "bin" / "python"
    done = FOLDER / name / "installed.json"
    if not done.exists() or json.loads(done.read_text()) != packages:
        try:
            run([sys.executable, "-m", "venv", str(FOLDER / name)])
            run([str(python), "-m", "pip", "install", "-q", *packages], timeout=INSTALL_TIMEOUT)
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            raise Skipped(f"pip: {str(error).splitlines()[-1]}") from error
        done.write_text(json.dumps(packages))
    return python


def install_npm(packages: list[str]) -> None:
    if shutil.which("npm") is None:
        raise Skipped("there is no npm")
    (FOLDER / "npm").mkdir(parents=True, exist_ok=True)
    for package in packages:
        name, _, version = package.rpartition("@")
        manifest = NPM / name / "package.json"
        if manifest.exists() and json.loads(manifest.read_text())["version"].startswith(version):
            continue
        # Some install scripts look for packages of other machines; node's own fetches the binary.
        scripts = [] if name == "node" else ["--ignore-scripts"]
        try:
            run(["npm", "install", "--no-audit", "--no-fund", *scripts, package], cwd=FOLDER / "npm", timeout=600)
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            missing = f"npm has no {package}" if "404" in str(error) else f"npm: {str(error).splitlines()[-1]}"
            raise Skipped(missing) from error
