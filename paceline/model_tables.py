"""One model or several: what the command line, the file and folders of models ask for together. No MLX."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from paceline.errors import SettingsError
from paceline.models.files import DEFAULT_MODEL
from paceline.setting_sources import ModelTable, models_from_toml
from paceline.settings import Settings

# Settings that belong to the server as a whole: no model has them of its own.
SHARED_PANELS = ("Server", "Several models", "Several ranks", "Access", "Files and batches")
SHARED = frozenset(
    ("model", "max_body_mb", "body_timeout_seconds", "max_connections")
    + tuple(field for panel in SHARED_PANELS for field in Settings.panels()[panel])
)


def chosen(settings: Settings, models: Sequence[str], config: Path | None) -> tuple[Settings, list[ModelTable] | None]:
    """The models of a server with a front, or None for the one of a server without; and the server's settings."""
    in_file = [] if config is None else models_from_toml(Settings, config, SHARED)
    if not models and settings.model is not None:
        models = [settings.model]
    tables = tables_of(models, in_file)
    from_folders = settings.models_dir is not None or settings.hf_cache
    if settings.models_dir is not None and not settings.models_dir.is_dir():
        raise SettingsError(f"--models-dir: there is no folder {settings.models_dir}.")
    if len(tables) > 1 or from_folders or settings.idle_unload is not None:
        for name in ("served_model_name", "files_dir", "lora"):
            if getattr(settings, name):
                raise SettingsError(f"{name} is for a server with one model{HINTS[name]}")
        return settings, tables or ([] if from_folders else [ModelTable(DEFAULT_MODEL, DEFAULT_MODEL)])
    if in_file:
        settings = _alone(settings, tables[0])
    if settings.default_model is not None:
        names = (*settings.served_names, settings.model or DEFAULT_MODEL)
        if settings.default_model not in names:
            raise SettingsError(f"default_model {settings.default_model!r} is not the model that is served: {names[0]}")
        settings = settings.model_copy(update={"any_model_name": True})
    return settings, None


HINTS = {
    "served_model_name": "; write names of several into the file: [models.NAME], aliases = [...]",
    "lora": "; write adapters of one of several into the file: [models.NAME], lora = [...]",
    "files_dir": "; files and batches are not served with several",
}


def _alone(settings: Settings, table: ModelTable) -> Settings:
    """The only model is one of the file's: its own settings are the server's."""
    names = settings.served_names or (table.name, *table.aliases)
    return Settings.model_validate({**settings.given, **table.own, "model": table.path, "served_model_name": names})


def tables_of(models: Iterable[str], tables: Sequence[ModelTable]) -> list[ModelTable]:
    """Models from the command line, and those of the file. A MODEL that is a name of the file's means that one."""
    named: dict[str, ModelTable | None] = {table.name: table for table in tables}
    given = [named.pop(model, None) or ModelTable(_short(model), model) for model in dict.fromkeys(models)]
    return [*given, *(table for table in named.values() if table is not None)]


def _short(model: str) -> str:
    """The name of a folder is its last part; an id is one."""
    folder = Path(model).expanduser()
    return folder.resolve().name if folder.is_dir() else model
