"""LoRA adapters by name: which are served, who uses them, and how they come and go while the engine runs.

Their weights change on the engine's thread, between two steps. An adapter that is unloaded takes no new requests at
once, and its memory is given back when its last request has ended.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mlx.core as mx

from paceline.errors import EngineUnavailable, InvalidRequest, LoadError, Refused, UnknownLora
from paceline.models import check, lora_files
from paceline.models.lora_files import LoraFiles
from paceline.types import Lora

if TYPE_CHECKING:
    from paceline.engine.core import EngineCore
    from paceline.engine.thread import EngineThread
    from paceline.models.adapter import Adapted

log = logging.getLogger("paceline")


def load_all(language: Adapted, folders: Mapping[str, Path]) -> tuple[Lora, ...]:
    """Load adapters at start-up. Raises LoadError, which names the adapter."""
    for name, folder in folders.items():
        try:
            _add(language, name, lora_files.read(folder))
        except LoadError as error:
            raise LoadError(f"The adapter {name!r} cannot be used. {error}") from error
    return tuple(language.loras.loaded)


def _add(language: Adapted, name: str, files: LoraFiles, digest: str | None = None) -> Lora:
    loras = language.loras
    before = loras.nbytes
    lora = loras.add(name, files, language.dtype, digest)
    try:
        agrees = check.lora_agrees(language, lora.slot)
    except BaseException:
        loras.remove(lora)
        raise
    if not agrees:
        loras.remove(lora)
        raise LoadError(
            f"{files.folder}: this model does not give the same answers with an adapter in a batch as alone."
        )
    taken = (loras.nbytes - before) / 1e6
    log.info("adapter %s: rank %d, %d layers, %.1f MB, from %s", name, lora.rank, lora.layers, taken, files.folder)
    return lora


def install(core: EngineCore, name: str, files: LoraFiles, digest: str | None = None) -> Lora:
    """Load an adapter between two steps. Raises LoadError; Refused where memory is short now."""
    language = core.runner.language
    held, need = language.loras.nbytes, language.loras.nbytes_with(files, language.dtype)
    room = _room(core)
    if room is not None and need > room:  # what is held now is copied, and freed afterwards
        raise Refused(
            f"The adapter needs {need / 1e9:.2f} GB of memory while it is loaded, and {room / 1e9:.2f} GB are free. "
            "Try again when less is running, unload another adapter, or raise --memory-limit-gb.",
        )
    _hold(core, need)
    try:
        if core.prefix is not None:
            core.prefix.enforce_budget()
        lora = _add(language, name, files, digest)
    except BaseException:
        _hold(core, -need)
        raise
    _hold(core, -held)
    core.runner.forget_loras()
    return lora


def uninstall(core: EngineCore, lora: Lora) -> None:
    """Free an adapter between two steps. Nothing may use it any more."""
    loras = core.runner.language.loras
    before = loras.nbytes
    loras.remove(lora)
    core.runner.forget_loras()
    _hold(core, loras.nbytes - before)
    mx.clear_cache()
    log.info("adapter %s is unloaded", lora.name)


def _room(core: EngineCore) -> int | None:
    admission = core.scheduler.admission
    return None if admission is None else admission.budget.room("prefixes")


def _hold(core: EngineCore, more: int) -> None:
    """Adapters are priced like weights."""
    admission = core.scheduler.admission
    if admission is not None:
        admission.budget.hold("weights", admission.budget.holding("weights") + more)


class LoraRegistry:
    """For any thread."""

    def __init__(self, engine: EngineThread, loaded: Iterable[Lora], reserved: Collection[str] = ()) -> None:
        """`reserved`: names that the model itself has."""
        self._engine = engine
        self._reserved = frozenset(reserved)
        self._lock = threading.Lock()
        self._by_name = {lora.name: lora for lora in loaded}
        self._loading: set[str] = set()
        self._users: Counter[Lora] = Counter()
        self._leaving: set[Lora] = set()

    @property
    def loaded(self) -> tuple[Lora, ...]:
        """Those that take requests."""
        with self._lock:
            return tuple(self._by_name.values())

    @contextmanager
    def using(self, name: str | None) -> Iterator[Lora | None]:
        """The adapter of this name, which stays until the end of the block. None: the model itself."""
        if name is None:
            yield None
            return
        with self._lock:
            lora = self._by_name.get(name)
            if lora is None:
                raise UnknownLora(name, self._by_name)
            self._users[lora] += 1
        try:
            yield lora
        finally:
            with self._lock:
                self._users[lora] -= 1
                idle = self._users[lora] == 0
                if idle:
                    del self._users[lora]
                free = idle and lora in self._leaving
                self._leaving -= {lora} if free else set()
            if free:
                self._free(lora)

    def load(self, name: str, folder: Path) -> Lora:
        """Blocks its thread. Raises InvalidRequest for what cannot be served, Refused where memory is short."""
        with self._lock:
            if name in self._by_name or name in self._loading:
                raise InvalidRequest.at("lora_name", f": an adapter {name!r} is loaded already; unload it first.")
            if name in self._reserved:
                raise InvalidRequest.at("lora_name", f": {name!r} is the name of the model itself.")
            self._loading.add(name)
        try:
            files = lora_files.read(folder)
            digest = files.digest()  # reads all of the file here, so that the engine finds it in memory
            lora: Lora = self._engine.call(lambda: install(self._engine.core, name, files, digest)).result()
            with self._lock:
                self._by_name[name] = lora
            return lora
        except LoadError as error:
            raise InvalidRequest(str(error), field="lora_path") from error
        finally:
            with self._lock:
                self._loading.discard(name)

    def unload(self, name: str) -> None:
        """It takes no new requests from here on; those that it has go on to their ends. Blocks its thread."""
        with self._lock:
            lora = self._by_name.pop(name, None)
            if lora is None:
                raise UnknownLora(name, self._by_name, field="lora_name")
            used = self._users[lora] > 0
            if used:
                self._leaving.add(lora)
        freed = None if used else self._free(lora)
        if freed is not None:
            freed.result()

    def _free(self, lora: Lora) -> Future[Any] | None:
        """Messages to the engine keep their order: what used the adapter was aborted before, if it had not ended."""
        with suppress(EngineUnavailable):
            return self._engine.call(lambda: uninstall(self._engine.core, lora))
        return None
