"""The experiment YAML of a Determined-style trial: read as data, one value chosen for every hyperparameter."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from mlcheck.trial.ranges import MIDDLE, representative
from mlcheck.trial.trial import EntryError
from mlcheck.yaml12 import CoreLoader


class MissingHyperparameter(EntryError, KeyError, ValueError):
    """A name the trial asks for and the config lacks; Determined raises ValueError, a plain mapping KeyError."""


class Hyperparameters(dict[str, Any]):
    """The hyperparameters of one trial. `path` is the route to a nested group, `source` the file they come from."""

    path: str
    source: str

    def __missing__(self, name: str) -> Any:
        raise MissingHyperparameter(f"the trial asks for the hyperparameter `{self.path}{name}`{self.how_to_add(name)}")

    def how_to_add(self, name: str) -> str:
        """The rest of a sentence about a missing name: where it is missing, what to do, and what is there."""
        if not self.source:
            given = " or ".join(f"--config {path}" for path in _configs_here()) or "--config"
            return f", and there is no config: give the experiment's YAML ({given}), or a value (--hp {name}=...)"
        known = f"; it has {', '.join(f'`{key}`' for key in self)}" if self else ""
        group = self.path.rstrip(".") or "hyperparameters"
        return f", which is not in {self.source}: add `{name}` under `{group}`{known}"


yaml.SafeDumper.add_representer(Hyperparameters, yaml.representer.SafeRepresenter.represent_dict)


def read_config(path: Path) -> dict[str, Any]:
    """The experiment config. Raises EntryError for a file that is missing, not YAML, or not a mapping."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise EntryError(f"there is no config file {path}: give the experiment's YAML file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise EntryError(f"the config file {path} cannot be read: {error}") from error
    try:
        config, *others = [*yaml.load_all(text, CoreLoader)] or [None]  # a SafeLoader with other number rules
    except yaml.YAMLError as error:
        raise EntryError(f"the config file {path} is not valid YAML: {_one_line(error)}") from error
    if others:
        raise EntryError(f"the config file {path} holds several documents, as a grid does: a probe takes one config")
    if not isinstance(config, dict):
        raise EntryError(f"the config file {path} must hold a mapping of settings, not {_kind(config)}")
    return config


def is_grid(config: Mapping[str, Any]) -> bool:
    """Whether its search takes counted values of every range, and no others."""
    searcher = config.get("searcher")
    return isinstance(searcher, Mapping) and searcher.get("name") == "grid"


def _configs_here() -> list[str]:
    """The YAML files of the working folder that set hyperparameters."""
    found = []
    for path in sorted([*Path().glob("*.yaml"), *Path().glob("*.yml")]):
        with suppress(EntryError):
            found += [str(path)] if "hyperparameters" in read_config(path) else []
    return found


def hyperparameters(
    config: Mapping[str, Any], overrides: Mapping[str, Any], source: str, share: float = MIDDLE
) -> Hyperparameters:
    """One value per hyperparameter: a constant is itself, a range the value at `share` of its way, an override (by
    dotted name) wins over both. Raises EntryError for a group that is not a mapping or a range that cannot be read.
    """
    declared = config.get("hyperparameters")
    if declared is None:
        declared = {}
    if not isinstance(declared, Mapping):
        raise EntryError(f"`hyperparameters` in {source} must be a mapping of names to values, not {_kind(declared)}")
    chosen = _choose_group(declared, "", source, share, is_grid(config))
    for name, value in overrides.items():
        *groups, last = name.split(".")
        inner = chosen
        for group in groups:
            if not isinstance(inner.setdefault(group, _group({}, f"{inner.path}{group}.", source)), Hyperparameters):
                raise EntryError(f"the hyperparameter `{name}` cannot be set: `{group}` is a value, not a group")
            inner = inner[group]
        inner[last] = value
    return chosen


def chosen_hyperparameters(values: Mapping[str, Any], source: str, path: str = "") -> Hyperparameters:
    """Values that were chosen already, as a checkpoint holds them: a mapping is a group, whatever its keys."""
    inner = {
        name: chosen_hyperparameters(value, source, f"{path}{name}.") if isinstance(value, Mapping) else value
        for name, value in values.items()
    }
    return _group(inner, path, source)


def _group(items: Mapping[str, Any], path: str, source: str) -> Hyperparameters:
    group = Hyperparameters(items)
    group.path, group.source = path, source
    return group


def _choose_group(declared: Mapping[str, Any], path: str, source: str, share: float, is_grid: bool) -> Hyperparameters:
    chosen = {name: _choose(value, f"{path}{name}", source, share, is_grid) for name, value in declared.items()}
    return _group(chosen, path, source)


def _choose(value: Any, name: str, source: str, share: float, is_grid: bool) -> Any:
    """A value as it is, or one of a search range."""
    if not isinstance(value, Mapping):
        return value
    if "type" not in value:
        return _choose_group(value, f"{name}.", source, share, is_grid)
    try:
        return representative(value, share, is_grid)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise EntryError(
            f"the hyperparameter `{name}` in {source} cannot be read as a {value['type']!r} range: "
            "const needs val, categorical needs vals, int and double need minval and maxval, log also base"
        ) from error


def _one_line(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error).splitlines()[0]
    return f"line {mark.line + 1}: {problem}" if mark else str(problem)


def _kind(value: Any) -> str:
    if value is None:
        return "nothing"
    return {list: "a list", str: "a text", int: "a number", float: "a number"}.get(type(value), type(value).__name__)
