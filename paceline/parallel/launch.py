"""Which rank this process is, and the other ranks of this machine. Imports MLX only where a model is loaded."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from paceline import __version__
from paceline.errors import SettingsError
from paceline.models.files import DEFAULT_FOLDER, fingerprint, resolve
from paceline.ranks.handshake import Identity
from paceline.ranks.leaving import HELD_UP, end_if_held_up
from paceline.ranks.links import Follower, Leader
from paceline.setting_sources import SECRET_VARIABLE
from paceline.settings import Settings

if TYPE_CHECKING:
    from paceline.parallel.roles import LeaderRole

LOCAL = "127.0.0.1"
END_SECONDS = 10.0  # for other ranks of this machine, after rank 0 has told them to end
PACKAGES = ("mlx", "mlx-lm", "mlx-vlm")
SHORTEST_SECRET = 16  # characters
# Settings that change what an engine computes, or when: all ranks have them in common.
COMMON = (
    "dtype",
    "dequantize",
    "kv_layout",
    "kv_bits",
    "kv_group_size",
    "quantized_kv_start",
    "prefill_chunk",
    "context_length",
    "max_num_seqs",
    "speculation",
    "speculation_methods",
    "max_draft",
    "prefix_cache",
    "vision_cache_mb",
    "max_queue",
    "queue_timeout",
    "first_token_timeout",
    "request_timeout",
)
NOT_SPLIT = {  # settings of what needs one process
    "cache_dir": "prefixes are kept in memory only",
    "draft_model": "no other model drafts",
    "specprefill_draft_model": "prompts are not prefilled sparsely",
    "lora": "adapters are not split",
}


@dataclass(frozen=True, slots=True)
class Place:
    """This process among the ranks, and where rank 0 listens."""

    rank: int
    world: int
    host: str
    secret: bytes


def check(settings: Settings, several_models: bool) -> None:
    """Raises SettingsError for what does not go together with ranks."""
    if several_models:
        raise SettingsError("--ranks and --parallel split one model; several models are served by one process each")
    for name, why in NOT_SPLIT.items():
        if getattr(settings, name):
            raise SettingsError(f"--{name.replace('_', '-')} does not work over several ranks yet: {why}")


def find_place(settings: Settings, env: Mapping[str, str]) -> Place | None:
    """This process's, by the variables that mlx.launch sets; None: it has to start the others. Raises SettingsError."""
    if "MLX_RANK" not in env:
        if settings.ranks > 1:
            return None
        raise SettingsError("--parallel tensor is for a process that mlx.launch started; here use --ranks 2")
    host, world = _meeting_point(env)
    if settings.ranks not in (1, world):
        raise SettingsError(f"--ranks {settings.ranks}, but MLX was started with {world} ranks")
    if world < 2:
        raise SettingsError("--parallel tensor needs at least two ranks, and MLX was started with one")
    try:
        rank = int(env["MLX_RANK"])
    except ValueError:
        raise SettingsError(f"MLX_RANK is {env['MLX_RANK']!r}, which is no number") from None
    return Place(rank, world, host, _secret(settings, env))


def _meeting_point(env: Mapping[str, str]) -> tuple[str, int]:
    """Rank 0's address, and how many ranks there are."""
    if "MLX_HOSTFILE" in env:
        try:
            hosts = json.loads(Path(env["MLX_HOSTFILE"]).read_text())
            return str(hosts[0][0]).rpartition(":")[0].strip("[]"), len(hosts)
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise SettingsError(f"MLX_HOSTFILE {env['MLX_HOSTFILE']} cannot be read: {error}") from error
    address = env.get("MLX_JACCL_COORDINATOR", "").rpartition(":")[0] or env.get("NCCL_HOST_IP", "")
    if not address:
        raise SettingsError("mlx.launch has set neither MLX_HOSTFILE, MLX_JACCL_COORDINATOR nor NCCL_HOST_IP")
    if "MLX_IBV_DEVICES" in env:
        return address, len(json.loads(Path(env["MLX_IBV_DEVICES"]).read_text()))
    return address, int(env.get("MLX_WORLD_SIZE", "1"))


def _secret(settings: Settings, env: Mapping[str, str]) -> bytes:
    found = env.get(SECRET_VARIABLE, "")
    if settings.rank_secret_file is not None:
        try:
            found = settings.rank_secret_file.read_text(encoding="utf-8").strip()
        except OSError as error:
            raise SettingsError(f"--rank-secret-file {settings.rank_secret_file}: {error.strerror}") from error
    if len(found) < SHORTEST_SECRET:
        raise SettingsError(
            f"ranks need a secret of at least {SHORTEST_SECRET} characters in common: "
            f"--rank-secret-file, or the variable {SECRET_VARIABLE}"
        )
    return found.encode()


def identity(settings: Settings, place: Place) -> Identity:
    return Identity(
        place.rank,
        place.world,
        __version__,
        ", ".join(f"{package} {version(package)}" for package in PACKAGES),
        fingerprint(resolve(settings.model or str(DEFAULT_FOLDER))),
        {name: str(getattr(settings, name)) for name in COMMON},
    )


def follow(settings: Settings, place: Place) -> NoReturn:
    """Take part as another rank than 0, until rank 0 ends. Raises what kept it from that."""
    from paceline.parallel import follower

    follower.outlive_signals(settings.drain_seconds)
    link = Follower(identity(settings, place), place.secret, settings.rank_timeout_seconds)
    link.pulse = end_if_held_up(HELD_UP * settings.rank_timeout_seconds)
    link.connect(place.host, settings.rank_port, settings.rank_start_seconds, follower.ended)
    follower.follow(settings, link)


class Ranks:
    """Rank 0's side of a start: the listening socket, and with --ranks the other processes."""

    def __init__(self, settings: Settings, place: Place | None) -> None:
        """`place` None: the other ranks run here, and are started. Raises PacelineError where it cannot listen."""
        self.settings = settings
        self._local = place is None
        self._children: list[subprocess.Popen[bytes]] = []
        self._files: tempfile.TemporaryDirectory[str] | None = None
        self.place = place or Place(0, settings.ranks, LOCAL, secrets.token_hex(32).encode())
        self.link = Leader(identity(settings, self.place), self.place.secret, settings.rank_timeout_seconds)
        self.link.pulse = end_if_held_up(HELD_UP * settings.rank_timeout_seconds)
        chosen = not self._local or "rank_port" in settings.model_fields_set
        self.port = self.link.listen(self.place.host, settings.rank_port if chosen else 0)

    def start(self, arguments: list[str]) -> None:
        """The other ranks of this machine, by the same command line; this process becomes rank 0."""
        if not self._local:
            return
        self._files = tempfile.TemporaryDirectory(prefix="paceline-ranks-")
        hosts = Path(self._files.name) / "hosts.json"
        hosts.write_text(json.dumps([[f"{LOCAL}:{port}"] for port in free_ports(self.place.world)]))
        os.environ.update(MLX_RANK="0", MLX_HOSTFILE=str(hosts))
        for rank in range(1, self.place.world):
            own = {
                "MLX_RANK": str(rank),
                "PACELINE_RANK_PORT": str(self.port),
                SECRET_VARIABLE: self.place.secret.decode(),
            }
            command = [sys.executable, "-m", "paceline", *arguments]
            child = subprocess.Popen(command, env={**os.environ, **own}, stdin=subprocess.DEVNULL)
            self._children.append(child)

    def role(self) -> LeaderRole:
        from paceline.parallel.roles import LeaderRole, Meeting

        return LeaderRole(self.link, Meeting(self.settings.rank_start_seconds, self._ended, self._clean, self.kill))

    def _ended(self) -> str | None:
        for rank, child in enumerate(self._children, 1):
            if child.poll() is not None:
                return f"Rank {rank} has ended with code {child.returncode} before it was here."
        return None

    def close(self) -> None:
        """The others end, or are ended."""
        self.link.close()
        for child in self._children:
            try:
                child.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        self._clean()

    def kill(self) -> None:
        """At once: one may be stopped, or wait in a collective for ever."""
        for child in self._children:
            child.kill()

    def _clean(self) -> None:
        files, self._files = self._files, None
        if files is not None:
            files.cleanup()


def free_ports(count: int) -> list[int]:
    listeners = [socket.create_server((LOCAL, 0)) for _ in range(count)]
    ports = [listener.getsockname()[1] for listener in listeners]
    for listener in listeners:
        listener.close()
    return ports
