"""What the `[tool.mlcheck]` table of a project says, as the settings of lint and probe."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mlcheck.core.dataclasses import replace
from mlcheck.core.memory_size import byte_count
from mlcheck.core.mistake import Mistake, not_yaml
from mlcheck.core.named_tuples import NamedTuple

if TYPE_CHECKING:
    from mlcheck.config import Config
    from mlcheck.core.options import RuleOptions
    from mlcheck.lint.run import LintSettings
    from mlcheck.probe.engine import ProbeOptions

DEFAULT_BASELINE = "mlcheck-baseline.json"
_REQUIREMENTS = ("requirements", "environment", "constraints", "pyproject.toml", "setup.")


class Start(NamedTuple):
    """What is to be probed, with its arguments, and the folder that its code is in; `entry` is empty without one."""

    entry: str = ""
    arguments: tuple[str, ...] = ()
    folder: str = "."


def rooted(path: str, config: Config) -> str:
    """A path of the table, from where mlcheck runs."""
    return os.path.normpath(os.path.join(config.root, path))


def lint_paths(config: Config) -> tuple[str, ...]:
    return tuple(rooted(path, config) for path in config.paths)


def lint_settings(config: Config) -> LintSettings:
    """With the baseline that is set, or that lies where it usually does. Raises Mistake for no version of torch."""
    from mlcheck.lint.run import LintSettings

    usual = rooted(DEFAULT_BASELINE, config)
    return LintSettings(
        select=config.select,
        ignore=config.ignore,
        extend_select=config.extend_select,
        per_file_ignores=config.per_file_ignores,
        root=config.root,
        target_torch=version(config.target_torch),
        pinned_torch=pinned_torch(config.root),
        target_determined=determined(config.target_determined),
        baseline=rooted(config.baseline, config) if config.baseline else usual if os.path.exists(usual) else "",
        cache=rooted(config.cache_dir, config),
    )


def pinned_torch(root: str) -> str:
    """The version of torch that the project's requirements pin; empty where they leave it open."""
    names = [name for name in os.listdir(root) if name.startswith(_REQUIREMENTS)] if os.path.isdir(root) else []
    if not names:
        return ""
    from pathlib import Path

    from mlcheck.core.pins import written_pin

    release = re.match(r"\d+\.\d+(?:\.\d+)?", written_pin(Path(root), "torch", "pytorch"))
    return release[0] if release else ""


def determined(text: str) -> str:
    if text not in {"", "0.24", "0.38"}:
        raise Mistake(f"target-determined `{text}`: write 0.24 (until 0.37) or 0.38")
    return text


def version(text: str) -> str:
    if text and not re.fullmatch(r"\d+\.\d+(\.\d+)?", text):
        raise Mistake(f"target-torch `{text}`: write a version of torch, such as 2.12")
    return text


def probe_options(config: Config) -> ProbeOptions | None:
    """None where the table names no entry point, nor an experiment's YAML that does."""
    from mlcheck.probe.engine import ProbeOptions

    experiment = rooted(config.config, config) if config.config else ""
    start = Start(config.entry, config.arguments, config.root)
    if not start.entry and experiment:
        start = start_of(experiment)
    if not start.entry:
        return None
    options = ProbeOptions(
        entry=start.entry,
        config=experiment,
        hyperparameters=config.hyperparameters,
        prep=config.prep,
        arguments=config.arguments or start.arguments,
        cpu_shim=config.cpu_shim,
        only=config.only,
        skip=config.skip,
        seed=config.seed,
        epochs=config.epochs,
        rule_options=rule_options(config),
        time_limit=config.time_limit,
        budget=config.budget,
        memory_limit=byte_count(config.memory_limit) if config.memory_limit else 0,
        folder=start.folder,
    )
    return with_grid(options)


def with_grid(options: ProbeOptions) -> ProbeOptions:
    """With the grid of a runner, where the config is one. Raises Mistake where that starts another program."""
    from mlcheck.experiment.tasks import grid_of, tasks

    grid = grid_of(options.config) if options.config else None
    if grid is None:
        return options
    found = tasks(grid, os.path.normpath(options.entry))
    if found is None:
        raise Mistake(f"no command of the grid {options.config} starts {options.entry}")
    return replace(options, config="", grid=found)


def rule_options(config: Config, given: Mapping[str, Any] | None = None) -> RuleOptions:
    """What the table sets for single rules, and on top of it what was given by other means.

    Raises Mistake for a rule, an option or a value that there is not.
    """
    if not config.options and not given:
        return {}
    from mlcheck.core.catalog import Catalog
    from mlcheck.core.options import checked, joined

    catalog = Catalog()
    table = checked(config.options, catalog, rooted("pyproject.toml", config))
    return joined(table, checked(given, catalog)) if given else table


def start_of(experiment: str) -> Start:
    """What an experiment's YAML starts as its `entrypoint`, or a runner's grid; of a file with one trial class, that.

    Nothing where that is another command. The whole file is judged where it is used; here it must only be read.
    """
    import yaml

    from mlcheck.experiment.launch import launched
    from mlcheck.experiment.tasks import grid_of, tasks
    from mlcheck.experiment.trial_code import only_trial

    if (grid := grid_of(experiment)) is not None:
        script = (tasks(grid) or {"script": ""})["script"]
        return Start(script, (), _folder_of(script, experiment))
    try:
        with open(experiment, encoding="utf-8") as file:
            settings = yaml.safe_load(file)
    except OSError as error:
        raise Mistake(f"{experiment}: cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise not_yaml(experiment, error) from error
    entry, arguments = launched(settings.get("entrypoint") if isinstance(settings, dict) else None)
    if not entry or any("$" in word for word in (entry, *arguments)):  # what the shell of the container puts in
        return Start()
    folder = _folder_of(entry, experiment)
    if entry.endswith(".py") and (name := only_trial(folder, _module_of(entry))):
        return Start(f"{entry}:{name}", (), folder)
    return Start(entry, arguments, folder)


def _folder_of(entry: str, experiment: str) -> str:
    """That of the config where the code lies beside it; else the working folder."""
    beside = os.path.dirname(experiment) or "."
    first = _module_of(entry).split(".")[0]
    return beside if any(os.path.exists(os.path.join(beside, name)) for name in (first, f"{first}.py")) else "."


def _module_of(entry: str) -> str:
    return entry.partition(":")[0].removesuffix(".py").replace("/", ".")
