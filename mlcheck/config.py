"""The `[tool.mlcheck]` table of pyproject.toml, checked key by key."""

from __future__ import annotations

import os
from typing import Any

from mlcheck.core.dataclasses import dataclass, field, fields
from mlcheck.core.duration import seconds
from mlcheck.core.memory_size import byte_count
from mlcheck.core.mistake import Mistake

_TIMES = ("budget", "time-limit")


class BadConfig(Mistake):
    """A `[tool.mlcheck]` table with an unknown key or a value of the wrong kind."""


@dataclass(frozen=True, slots=True)
class Config:
    """Settings of a project. Field names are the table's keys with `-` for `_`; paths are relative to `root`."""

    root: str = "."
    paths: tuple[str, ...] = ()
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()
    per_file_ignores: dict[str, tuple[str, ...]] = field(default_factory=dict)
    entry: str = ""
    config: str = ""
    prep: str = ""
    arguments: tuple[str, ...] = ()
    cpu_shim: bool = False
    hyperparameters: dict[str, Any] = field(default_factory=dict)
    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    seed: int = 0
    epochs: int = 0
    time_limit: float = 60.0
    budget: float = 600.0
    memory_limit: str = ""
    strict: bool = False
    target_torch: str = ""
    target_determined: str = ""
    baseline: str = ""
    cache_dir: str = ".mlcheck_cache"
    signoff: str = "signoff.toml"
    rules: tuple[str, ...] = ()
    profile: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    html: str = "mlcheck-report.html"
    json: str = "mlcheck-report.json"


def load_config(start: str = ".") -> Config:
    """The table of the nearest pyproject.toml at or above `start` that has one; defaults without.

    Raises BadConfig when the file is not TOML, or a key or value of the table is wrong.
    """
    folder = os.path.abspath(start)
    while True:
        path = os.path.join(folder, "pyproject.toml")
        if os.path.isfile(path):
            try:
                with open(path, "rb") as file:
                    data = file.read()
            except OSError as error:
                raise BadConfig(f"{os.path.relpath(path)}: cannot be read: {error.strerror}") from error
            if b"tool.mlcheck" in data:
                return _parse(path, data, os.path.relpath(folder))
        parent = os.path.dirname(folder)
        if parent == folder:
            return Config()
        folder = parent


def _parse(path: str, data: bytes, root: str) -> Config:
    import tomllib

    where = os.path.relpath(path)
    try:
        tools = tomllib.loads(data.decode("utf-8")).get("tool", {})
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadConfig(f"{where}: not valid TOML: {error}") from error
    table = tools.get("mlcheck", {}) if isinstance(tools, dict) else {}
    if not isinstance(table, dict):
        raise BadConfig(f"{where}: `tool.mlcheck` must be one table, `[tool.mlcheck]`, not {table!r}")
    known = {entry.name.replace("_", "-"): entry for entry in fields(Config) if entry.name != "root"}
    values: dict[str, Any] = {}
    for key, value in table.items():
        if key not in known:
            raise BadConfig(f"{where}: `[tool.mlcheck]` has no key `{key}`{_near(key, known)}")
        values[known[key].name] = _checked(where, key, value, getattr(Config(), known[key].name))
    return Config(root=root, **values)


def _near(key: str, known: dict[str, Any]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(key, known, n=1)
    return f"; did you mean `{near[0]}`?" if near else f"; it knows {', '.join(sorted(known))}"


def _checked(where: str, key: str, value: Any, default: Any) -> Any:
    """`value` in the form of `default`, or BadConfig."""
    if isinstance(default, tuple):
        if isinstance(value, list) and all(isinstance(entry, str) for entry in value):
            return tuple(value)
        raise BadConfig(f"{where}: `{key}` must be a list of strings")
    if key == "per-file-ignores":
        if not isinstance(value, dict):
            raise BadConfig(f"{where}: `{key}` must be a table of file pattern = list of rule names")
        return {pattern: _checked(where, f"{key}.{pattern}", names, ()) for pattern, names in value.items()}
    if key in _TIMES and isinstance(value, str):
        try:
            value = seconds(value)
        except ValueError as error:
            raise BadConfig(f"{where}: `{key}`: {error}") from None
    if key == "memory-limit" and isinstance(value, str):
        try:
            byte_count(value)
        except ValueError as error:
            raise BadConfig(f"{where}: `{key}`: {error}") from None
    if isinstance(default, float) and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if type(value) is not type(default):
        kind = {"str": "a string", "bool": "true or false", "dict": "a table"}.get(type(default).__name__, "a number")
        raise BadConfig(f"{where}: `{key}` must be {kind}, not {value!r}")
    if key in _TIMES and not value > 0:
        raise BadConfig(f"{where}: `{key}` must be more than 0 seconds, not {value:g}")
    return value
