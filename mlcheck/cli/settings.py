"""What the command line and the `[tool.mlcheck]` table say together; the command line is the later word."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mlcheck import project
from mlcheck.cli.words import near
from mlcheck.config import Config, load_config
from mlcheck.core.cores import idle_cores
from mlcheck.core.dataclasses import replace
from mlcheck.core.extras import PROBE_NEEDS, require
from mlcheck.core.mistake import Mistake
from mlcheck.core.source_text import is_code

if TYPE_CHECKING:
    from mlcheck.core.catalog import Catalog
    from mlcheck.lint.run import LintSettings
    from mlcheck.probe.engine import ProbeOptions

_MOST_JOBS = 8


def known_rules() -> Catalog:
    """mlcheck's pages and the team's own."""
    from mlcheck.core.catalog import Catalog, team_folders

    config = load_config()
    return Catalog(team=team_folders(config.rules, config.root))


def require_pages(config: Config) -> None:
    """Raises Mistake for a folder of the team's pages that is not there, by whatever command it is met first."""
    if config.rules:
        from mlcheck.core.catalog import team_folders

        team_folders(config.rules, config.root)


def lint_paths(given: Sequence[str], config: Config) -> tuple[str, ...]:
    return tuple(given) or project.lint_paths(config) or (".",)


def lint_settings(arguments: argparse.Namespace, config: Config) -> LintSettings:
    require_pages(config)
    table = project.lint_settings(config)
    return replace(
        table,
        select=names(arguments.select) or table.select,
        ignore=names(arguments.ignore) + table.ignore,
        extend_select=names(arguments.extend_select) + table.extend_select,
        target_torch=project.version(arguments.target_torch) or table.target_torch,
        pinned_torch=table.pinned_torch or _pinned_torch(arguments.paths),
        target_determined=project.determined(arguments.target_determined) or table.target_determined,
        baseline=_baseline(arguments, table.baseline, config),
        write_baseline=arguments.write_baseline,
        cache="" if arguments.no_cache else arguments.cache_dir or table.cache,
        jobs=arguments.jobs or min(_MOST_JOBS, idle_cores()),
    )


def _pinned_torch(paths: Sequence[str]) -> str:
    """What the folders given pin, where mlcheck runs outside of the project and they agree."""
    pinned = {project.pinned_torch(path if os.path.isdir(path) else os.path.dirname(path) or ".") for path in paths}
    return pinned.pop() if len(pinned) == 1 else ""


def _baseline(arguments: argparse.Namespace, table: str, config: Config) -> str:
    """The one that is given, or the project's; the usual one when it is about to be written."""
    if arguments.no_baseline:
        if arguments.write_baseline or arguments.baseline:
            raise Mistake("--no-baseline goes with neither --baseline nor --write-baseline")
        return ""
    usual = project.rooted(project.DEFAULT_BASELINE, config) if arguments.write_baseline else ""
    return str(arguments.baseline) or table or usual


def probe_options(arguments: argparse.Namespace, config: Config) -> ProbeOptions | None:
    """None where no entry point is known: not given, not in the table, not in the experiment's YAML."""
    require_pages(config)
    start = project.Start(arguments.entry or "")
    if not start.entry and arguments.config:
        start = project.start_of(arguments.config)
    table = project.probe_options(replace(config, entry=start.entry) if start.entry else config)
    if table is None:
        return None
    require("probe", PROBE_NEEDS)
    folder = start.folder if start.entry else table.folder
    options = replace(
        table,
        config=arguments.config or table.config,
        grid=None if arguments.config else table.grid,
        hyperparameters={**config.hyperparameters, **_hyperparameters(arguments.hp)},
        prep=arguments.prep or config.prep,
        arguments=arguments.script_arguments or start.arguments or table.arguments,
        cpu_shim=arguments.cpu_shim or config.cpu_shim,
        only=names(arguments.only) or config.only,
        skip=names(arguments.skip) + config.skip,
        ranks=_ranks(arguments.ranks),
        seed=config.seed if arguments.seed is None else arguments.seed,
        epochs=arguments.epochs or config.epochs,
        time_limit=arguments.time_limit or config.time_limit,
        budget=arguments.budget or config.budget,
        memory_limit=arguments.memory_limit or table.memory_limit,
        folder=folder,
    )
    return project.with_grid(options)


def require_files(options: ProbeOptions) -> None:
    """Raises Mistake for a folder as the entry point and for a file that is not there, before a process is started."""
    if options.entry and _is_plain_folder(os.path.join(options.folder, options.entry)):
        raise Mistake(
            f"`{options.entry}` is a folder, and an entry point is a program or a class in it: "
            "`mlcheck init` tells which there are"
        )
    for named in (options.entry.rpartition(":")[0] or options.entry, options.config):
        path = os.path.join(options.folder, named)
        is_file = is_code(named) or named.endswith((".yaml", ".yml"))
        if is_file and not os.path.exists(path) and not os.path.exists(named):
            parent = os.path.dirname(path)
            beside = os.listdir(parent or ".") if os.path.isdir(parent or ".") else []
            raise Mistake(f"there is no file {named}{near(os.path.basename(named), beside)}")


def _is_plain_folder(path: str) -> bool:
    """Whether it is a folder, and none that `python -m` runs."""
    return os.path.isdir(path) and (
        path.endswith((".", os.sep)) or not os.path.exists(os.path.join(path, "__main__.py"))
    )


def _ranks(given: int) -> int:
    if given != 0 and not 2 <= given <= 16:
        raise Mistake(f"`--ranks {given}`: between 2 and 16 processes can stand for several devices")
    return given


def repeating(arguments: argparse.Namespace) -> tuple[str, ...]:
    """What must follow `mlcheck probe` to drive the same program in the same way, as it was given."""
    given: list[str] = [arguments.entry] if arguments.entry else []
    given += ["--config", arguments.config] if arguments.config else []
    for pair in arguments.hp:
        given += ["--hp", pair]
    if arguments.prep:
        given += ["--prep", arguments.prep]
    given += ["--cpu-shim"] if arguments.cpu_shim else []
    given += ["--ranks", str(arguments.ranks)] if arguments.ranks else []
    given += ["--seed", str(arguments.seed)] if arguments.seed is not None else []
    given += ["--epochs", str(arguments.epochs)] if arguments.epochs else []
    return tuple(given + (["--", *arguments.script_arguments] if arguments.script_arguments else []))


def _hyperparameters(pairs: Sequence[str]) -> dict[str, object]:
    """`lr=1e-3` pairs; values are read as those of a config are."""
    import yaml

    from mlcheck.yaml12 import CoreLoader

    values: dict[str, object] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not (name and equals):
            raise Mistake(f"`--hp {pair}`: write it as NAME=VALUE")
        try:
            values[name] = yaml.load(text, CoreLoader)  # noqa: S506 - a SafeLoader with other number rules
        except (ValueError, yaml.YAMLError):
            values[name] = text
    return values


def names(options: Sequence[str]) -> tuple[str, ...]:
    """`--select a,b --select c` -> a, b, c."""
    return tuple(name.strip() for option in options for name in option.split(",") if name.strip())
