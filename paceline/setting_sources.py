"""Where the values of settings come from: flags, a TOML file, variables.

They are read by hand, not by pydantic-settings: an error names the source as the user wrote it (`--port`,
`PACELINE_PORT`, `port in FILE`), an unknown name suggests the nearest one, and every source is checked in full.
pydantic-settings validates the merged values only, so all of that would be written on top of it.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from paceline.errors import SettingsError
from paceline.setting_aliases import ALIASES, UNNEEDED, resolve

PREFIX = "PACELINE_"
TEST_PREFIX = "PACELINE_TEST_"  # the test suite's own switches; never settings

SECRET_VARIABLE = PREFIX + "RANK_SECRET"  # of the ranks that have a model together; in the environment only

SECRETS = ("api_key", "admin_key")  # never quoted in an error

MODELS = "models"  # the table of models in a file, which is no setting

ONE_SOURCE = {"sources": "one"}  # validation's context while the values of other sources are not known


def flag_name(field: str) -> str:
    return "--" + field.replace("_", "-")


def variable_name(field: str) -> str:
    return PREFIX + field.upper()


def from_flags(cls: type[BaseModel], flags: Mapping[str, Any]) -> dict[str, Any]:
    for name in flags:
        if not _is_known(name, cls):
            raise SettingsError(f"unknown flag {flag_name(name)}{_suggestion(name, cls, flag_name)}")
    values = {name: value for name, value in flags.items() if value is not None}
    return _checked(cls, values, flag_name)


def from_env(cls: type[BaseModel], env: Mapping[str, str]) -> dict[str, Any]:
    known = {variable_name(name): name for name in (*cls.model_fields, *ALIASES, *UNNEEDED)}
    values = {}
    for variable, text in env.items():
        if not variable.startswith(PREFIX) or variable.startswith(TEST_PREFIX) or variable == SECRET_VARIABLE:
            continue
        if variable not in known:
            near = _suggestion(variable.removeprefix(PREFIX), cls, variable_name)
            raise SettingsError(f"unknown variable {variable}{near}")
        if text:
            values[known[variable]] = text
    return _checked(cls, values, variable_name)


def from_toml(cls: type[BaseModel], path: Path) -> dict[str, Any]:
    values = _read_toml(path)
    values.pop(MODELS, None)
    for key in values:
        if not _is_known(key, cls):
            raise SettingsError(f"unknown key {key!r} in {path}{_suggestion(key, cls, str)}")
    # TOML has types: the string "8000" or `true` for a number is a slip, not a spelling.
    return _checked(cls, values, lambda key: f"{key} in {path}", strict=True)


@dataclass(frozen=True, slots=True)
class ModelTable:
    """One table of `[models]`: the model's name, where it is, its other names, and settings of its own."""

    name: str
    path: str
    aliases: tuple[str, ...] = ()
    pinned: bool = False
    own: Mapping[str, Any] = field(default_factory=dict)


def models_from_toml(cls: type[BaseModel], path: Path, shared: Collection[str]) -> list[ModelTable]:
    """The tables of `[models]` in a file. `shared`: settings that all models have in common."""
    tables = _read_toml(path).get(MODELS, {})
    if not isinstance(tables, dict):
        raise SettingsError(f"{MODELS} in {path} is no table; write [{MODELS}.NAME]")
    return [_model_table(cls, name, table, path, shared) for name, table in tables.items()]


def _model_table(cls: type[BaseModel], name: str, table: Any, path: Path, shared: Collection[str]) -> ModelTable:
    where = f"[{MODELS}.{name}] of {path}"
    if not isinstance(table, dict):
        raise SettingsError(f"{MODELS}.{name} in {path} is no table; write [{MODELS}.{name}]")
    own = dict(table)
    source, aliases, pinned = own.pop("path", name), own.pop("aliases", []), own.pop("pinned", False)
    if not isinstance(source, str) or not source.strip():
        raise SettingsError(f"path in {where}: it should be a folder or a Hugging Face id, got {source!r}")
    if not isinstance(aliases, list) or not all(isinstance(alias, str) and alias.strip() for alias in aliases):
        raise SettingsError(f"aliases in {where}: they should be a list of names, got {aliases!r}")
    if not isinstance(pinned, bool):
        raise SettingsError(f"pinned in {where}: it should be true or false, got {pinned!r}")
    for key in own:
        if not _is_known(key, cls):
            raise SettingsError(f"unknown key {key!r} in {where}{_suggestion(key, cls, str)}")
        if key in shared:
            raise SettingsError(f"{key} in {where}: all models have it in common; write it above the tables")
    checked = _checked(cls, own, lambda key: f"{key} in {where}", strict=True)
    for key in checked:  # an alias of a setting has another name
        if key in shared:
            raise SettingsError(f"{key} in {where}: all models have it in common; write it above the tables")
    return ModelTable(name, source, tuple(aliases), pinned, checked)


def unneeded(flags: Mapping[str, Any], config: Path | None, env: Mapping[str, str]) -> list[str]:
    """What was given that has no effect, because it is always so here; each as its source spells it."""
    found = [flag_name(name) for name in UNNEEDED if flags.get(name)]
    keys = {} if config is None else _read_toml(config)
    found += [f"{name} in {config}" for name in UNNEEDED if name in keys]
    return found + [variable_name(name) for name in UNNEEDED if env.get(variable_name(name))]


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} is not valid TOML: {error}") from error


def _checked(
    cls: type[BaseModel], given: Mapping[str, Any], spell: Callable[[str], str], *, strict: bool = False
) -> dict[str, Any]:
    """The values of one source, converted; `spell` writes a name as that source does."""
    values, names = resolve(given, spell, strict=strict)
    try:
        settings = cls.model_validate(values, strict=strict, context=ONE_SOURCE)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = str(first["loc"][0])
        said = first["msg"].removeprefix("Value error, ")
        message = f"{spell(names.get(field, field))}: {said[0].lower()}{said[1:]}"
        if field in SECRETS:
            raise SettingsError(message) from None
        one_of_several = any(isinstance(step, int) for step in first["loc"][1:])
        got = first["input"] if one_of_several else given.get(names.get(field, field))
        raise SettingsError(f"{message}, got {got!r}") from error
    return {field: getattr(settings, field) for field in values}


def _is_known(name: str, cls: type[BaseModel]) -> bool:
    return name in cls.model_fields or name in ALIASES or name in UNNEEDED


def _suggestion(name: str, cls: type[BaseModel], spell: Callable[[str], str]) -> str:
    """The known name nearest to `name`, as its source spells it; all of them when none is near."""
    near = difflib.get_close_matches(name.lower().replace("-", "_"), cls.model_fields, n=1)
    if near:
        return f"; did you mean {spell(near[0])}?"
    return f"; known are: {', '.join(spell(field) for field in cls.model_fields)}"
