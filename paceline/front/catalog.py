"""Which models there are: those that were given, and those in folders that may grow while the server runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from paceline.errors import LoadError, SettingsError
from paceline.model_tables import SHARED
from paceline.models import library
from paceline.models.files import DEFAULT_FOLDER, DEFAULT_MODEL, find
from paceline.setting_sources import ModelTable
from paceline.settings import Settings

RESCAN_SECONDS = 5.0  # between two looks into the folders

# Of these, what processes need too.
KEPT = frozenset(
    (
        "stream_keepalive_seconds",
        "log_level",
        "log_format",
        "log_prompts",
        "max_log_len",
        "otlp",
        "metrics_alias",
        "max_body_mb",
        "max_connections",
    )
)


@dataclass(frozen=True, slots=True)
class Entry:
    """A model that can be asked for."""

    name: str
    source: str  # a folder or a Hugging Face id
    aliases: tuple[str, ...]
    pinned: bool
    settings: Settings  # of its process
    given: bool = True  # not found in a folder

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name, *self.aliases)

    def folder(self) -> Path | None:
        """Where its files are; None: they must be downloaded first."""
        if self.source == DEFAULT_MODEL and not Path(self.source).is_dir():
            return DEFAULT_FOLDER
        try:
            return find(self.source) or library.in_cache_as(self.source)
        except LoadError:
            return None


class Catalog:
    """Names are looked up here only: what a client writes never becomes a path."""

    def __init__(
        self,
        settings: Settings,
        tables: Sequence[ModelTable],
        found: Callable[[], Iterable[library.LocalModel]] | None = None,
    ) -> None:
        self.settings = settings
        self._found = found or (lambda: _in_folders(settings))
        self._given = [_entry(settings, table) for table in tables]
        self._entries: dict[str, Entry] = {}
        self._names: dict[str, Entry] = {}
        self._scanned_at = float("-inf")
        self._lock = threading.Lock()  # of those that change entries
        given: set[str] = set()
        for entry in self._given:
            if twice := given & set(entry.names):
                raise SettingsError(f"two models have the name {min(twice)!r}: give one of them another in [models]")
            given |= set(entry.names)
        self.scan()
        if settings.default_model is not None and self.named(settings.default_model) is None:
            known = ", ".join(self._entries) or "none"
            raise SettingsError(f"default_model {settings.default_model!r} is none of the models: {known}")
        if not self._entries:
            raise SettingsError("there is no model to serve: the folders hold none")

    def entries(self) -> list[Entry]:
        """All of them, the given ones first."""
        return list(self._entries.values())

    @property
    def default(self) -> Entry:
        """For requests that name no model."""
        name = self.settings.default_model
        return next(iter(self._entries.values())) if name is None else self._names[name]

    def find(self, name: str | None) -> Entry | None:
        """The model that a request is for; None: there is none of that name."""
        if name is None:
            return self.default
        found = self.named(name)
        if found is None and (self.settings.default_model is not None or self.settings.any_model_name):
            return self.default
        return found

    def named(self, name: str) -> Entry | None:
        """By one of its names; Ollama's clients add a tag."""
        return self._names.get(name) or self._names.get(name.removesuffix(":latest"))

    def scan(self) -> None:
        """Look into the folders again, if that was not done a moment ago. It may take a while, so it runs in a thread;
        what it found takes effect at once."""
        with self._lock:
            if time.monotonic() - self._scanned_at >= RESCAN_SECONDS:
                self._scanned_at = time.monotonic()
                self._scan()

    def set_loras(self, entry: Entry, loras: Mapping[str, Path]) -> Entry:
        """The model has these adapters from now on, also when it is loaded again. Waits for a scan."""
        own = entry.settings.model_copy(update={"lora": tuple(f"{name}={folder}" for name, folder in loras.items())})
        aliases = (*(name for name in entry.aliases if name not in entry.settings.loras), *loras)
        fresh = replace(entry, aliases=aliases, settings=own)
        with self._lock:
            self._given = [fresh if given.name == fresh.name else given for given in self._given]
            self._take({**self._entries, fresh.name: fresh})
        return fresh

    def _scan(self) -> None:
        entries = {entry.name: entry for entry in self._given}
        own = {name for entry in self._given for name in entry.names}
        for model in self._found():
            if model.name not in own and model.name not in entries:
                known = self._entries.get(model.name)
                table = ModelTable(model.name, str(model.folder))
                fresh = known is None or known.source != table.path
                entries[model.name] = _entry(self.settings, table, given=False) if fresh or known is None else known
        self._take(entries)

    def _take(self, entries: dict[str, Entry]) -> None:
        names: dict[str, Entry] = {}
        for entry in entries.values():
            names |= dict.fromkeys(entry.names, entry)
        for entry in entries.values():  # names that nobody has of his own
            for name in (Path(entry.name).name, entry.source):
                names.setdefault(name, entry)
        self._entries, self._names = entries, names


def _in_folders(settings: Settings) -> list[library.LocalModel]:
    found = [] if settings.models_dir is None else library.in_folder(settings.models_dir)
    return [*found, *library.in_cache()] if settings.hf_cache else found


def _entry(settings: Settings, table: ModelTable, *, given: bool = True) -> Entry:
    shared = {name: value for name, value in settings.given.items() if name not in SHARED or name in KEPT}
    shared.pop("memory_limit_gb", None)  # of all models together; in a model's table it is that model's
    names = (table.name, *table.aliases)
    fixed = {
        "model": table.path,
        "served_model_name": names,
        "any_model_name": True,  # the front has chosen
        "drain_seconds": 0.0,  # the front waits for requests in flight
    }
    own = Settings.model_validate({**shared, **table.own, **fixed})
    aliases = (*table.aliases, *own.loras)  # an adapter is a name of its model, which knows what it means
    return Entry(table.name, table.path, aliases, table.pinned, own, given)
