"""What can be refused before a model is loaded: settings and files that are wrong. No MLX, and quick."""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path
from typing import Any

from paceline.conversation.parsing.formats import check_parsers
from paceline.conversation.template import check_template
from paceline.errors import LoadError, PacelineError, SettingsError
from paceline.generation_config import check_file
from paceline.models import lora_files
from paceline.models.files import DEFAULT_FOLDER, check_draft_files, check_weights, find, longest_context, read_config
from paceline.settings import Settings

SURELY_LOADED = 0.5  # of the weights: what no --dtype and no part that is left out can go below


def check(settings: Settings) -> None:
    """All but what must be downloaded first. Raises SettingsError or LoadError, in one line."""
    check_parsers(settings.tool_parser, settings.reasoning_parser)
    if settings.chat_template is not None:
        check_template(settings.chat_template)
    if isinstance(settings.generation_config, Path):
        check_file(settings.generation_config)
    if settings.media_dir is not None and not settings.media_dir.is_dir():
        raise SettingsError(f"--media-dir: there is no folder {settings.media_dir}.")
    if settings.cache_dir is not None and settings.prefix_cache:
        _check_writable(settings.cache_dir)
    if settings.files_dir is not None:
        _check_writable(settings.files_dir, "files")
    folder = find(settings.model or str(DEFAULT_FOLDER))
    if folder is not None:
        check_checkpoint(folder, settings)
    for name, adapter in settings.loras.items():
        try:
            lora_files.read(adapter)
        except LoadError as error:
            raise LoadError(f"The adapter {name!r} cannot be used. {error}") from error
    for draft in (settings.specprefill_draft_model, settings.draft_model):
        if draft is not None:
            check_draft_files(draft)


def check_checkpoint(folder: Path, settings: Settings) -> dict[str, Any]:
    """The configuration of a model whose files are there and whole, and that is as long as the settings want it."""
    config = read_config(folder)
    stored = sum(file.stat().st_size for file in check_weights(folder))
    limit = settings.memory_limit_gb
    if limit is not None and stored * SURELY_LOADED > limit * 1e9:
        raise SettingsError(
            f"--memory-limit-gb {limit:g} is too little for {folder.name}, whose weights have {stored / 1e9:.2f} GB. "
            "Use a smaller model, or raise the limit."
        )
    wanted, most = settings.context_length, longest_context(config)
    if wanted is not None and most is not None and wanted > most:
        raise SettingsError(
            f"--context-length {wanted} is more than the {most} tokens that {folder.name} was made for, by its "
            f"config.json: beyond them answers are wrong. Give at most {most}, or leave it out."
        )
    return config


def listen(settings: Settings) -> socket.socket:
    """The listening socket, taken before the model loads: a port in use is known at once."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        return socket.create_server((settings.host, settings.port), family=family, backlog=2048)
    except OSError as error:
        reason, _, _ = str(error.strerror or error).partition(" (while")  # Python names the address once more
        advice = ". Choose another with --port." if error.errno == errno.EADDRINUSE else ""
        raise PacelineError(f"cannot listen on {settings.host} port {settings.port}: {reason}{advice}") from error


def _check_writable(folder: Path, kind: str = "cache") -> None:
    """The folder, or where it would be made."""
    there = folder
    while not there.exists() and there != there.parent:
        there = there.parent
    problem = None
    if not there.is_dir():
        problem = f"{there} is a file"
    elif not os.access(there, os.W_OK | os.X_OK):
        problem = f"{there} cannot be written to"
    if problem is not None:
        raise SettingsError(
            f"The {kind} folder {folder} cannot be used: {problem}. Choose a folder that this user can write to."
        )
