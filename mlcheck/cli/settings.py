"""What the command line and the `[tool.mlcheck]` table say together; the command line is the later word."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mlcheck.config import Config, load_config
from mlcheck.core.mistake import Mistake

if TYPE_CHECKING:
    from mlcheck.core.catalog import Catalog
    from mlcheck.lint.run import LintSettings
    from mlcheck.probe.engine import ProbeOptions

DEFAULT_BASELINE = "mlcheck-baseline.json"


def known_rules() -> Catalog:
    """mlcheck's pages and the team's own."""
    from mlcheck.core.catalog import Catalog, team_folders

    config = load_config()
    return Catalog(team=team_folders(config.rules, config.root))


def lint_paths(given: Sequence[str], config: Config) -> tuple[str, ...]:
    return tuple(given) or tuple(_rooted(path, config) for path in config.paths) or (".",)


def _rooted(path: str, config: Config) -> str:
    return os.path.normpath(os.path.join(config.root, path))


def lint_settings(arguments: argparse.Namespace, config: Config) -> LintSettings:
    from mlcheck.lint.run import LintSettings

    return LintSettings(
        select=names(arguments.select) or config.select,
        ignore=names(arguments.ignore) + config.ignore,
        extend_select=names(arguments.extend_select) + config.extend_select,
        per_file_ignores=config.per_file_ignores,
        root=config.root,
        target_torch=_version(arguments.target_torch or config.target_torch),
        baseline=_baseline(arguments, config),
        write_baseline=arguments.write_baseline,
        cache="" if arguments.no_cache else arguments.cache_dir or _rooted(config.cache_dir, config),
    )


def _baseline(arguments: argparse.Namespace, config: Config) -> str:
    """The one that is given, or set, or there; the usual one when it is about to be written."""
    if arguments.no_baseline:
        if arguments.write_baseline or arguments.baseline:
            raise Mistake("--no-baseline goes with neither --baseline nor --write-baseline")
        return ""
    if arguments.baseline or config.baseline:
        return str(arguments.baseline) or _rooted(config.baseline, config)
    usual = _rooted(DEFAULT_BASELINE, config)
    return usual if arguments.write_baseline or os.path.exists(usual) else ""


def _version(text: str) -> str:
    if text and not re.fullmatch(r"\d+\.\d+(\.\d+)?", text):
        raise Mistake(f"target-torch `{text}`: write a version of torch, such as 2.12")
    return text


def probe_options(arguments: argparse.Namespace, config: Config) -> ProbeOptions | None:
    """None where no entry point is known: not given, not in the table, not in the experiment's YAML."""
    from mlcheck.probe.engine import ProbeOptions

    experiment = arguments.config or (_rooted(config.config, config) if config.config else "")
    entry, folder = arguments.entry or "", "."
    if not entry and config.entry and not arguments.config:
        entry, folder = config.entry, config.root
    if not entry and experiment:
        entry, folder = _entry_of(experiment)
    if not entry and config.entry:
        entry, folder = config.entry, config.root
    if not entry:
        return None
    return ProbeOptions(
        entry=entry,
        config=experiment,
        hyperparameters={**config.hyperparameters, **_hyperparameters(arguments.hp)},
        prep=arguments.prep or config.prep,
        arguments=arguments.script_arguments or config.arguments,
        only=names(arguments.only) or config.only,
        skip=names(arguments.skip) + config.skip,
        seed=config.seed if arguments.seed is None else arguments.seed,
        time_limit=arguments.time_limit or config.time_limit,
        budget=arguments.budget or config.budget,
        folder=folder,
    )


def _entry_of(experiment: str) -> tuple[str, str]:
    """The trial class that an experiment's YAML names as its `entrypoint`, and the folder its module is in.

    Nothing where that is a launch command. The whole file is judged where it is used; here it must only be read.
    """
    import yaml

    try:
        with open(experiment, encoding="utf-8") as file:
            settings = yaml.safe_load(file)
    except OSError as error:
        raise Mistake(f"{experiment}: cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise Mistake(f"{experiment}: not valid YAML: {' '.join(str(error).split())}") from error
    named = settings.get("entrypoint") if isinstance(settings, dict) else None
    if not (isinstance(named, str) and re.fullmatch(r"[\w.]+:\w+", named)):
        return "", "."
    beside = os.path.dirname(experiment) or "."
    module = named.partition(":")[0].split(".")[0]
    here = any(os.path.exists(os.path.join(beside, name)) for name in (module, f"{module}.py"))
    return named, beside if here else "."


def repeating(arguments: argparse.Namespace) -> tuple[str, ...]:
    """What must follow `mlcheck probe` to drive the same program in the same way, as it was given."""
    given: list[str] = [arguments.entry] if arguments.entry else []
    given += ["--config", arguments.config] if arguments.config else []
    for pair in arguments.hp:
        given += ["--hp", pair]
    if arguments.prep:
        given += ["--prep", arguments.prep]
    given += ["--seed", str(arguments.seed)] if arguments.seed is not None else []
    return tuple(given + (["--", *arguments.script_arguments] if arguments.script_arguments else []))


def _hyperparameters(pairs: Sequence[str]) -> dict[str, object]:
    """`lr=1e-3` pairs; values are read as YAML reads them, plus floats such as 1e-3 that YAML leaves as text."""
    import yaml

    values: dict[str, object] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not (name and equals):
            raise Mistake(f"`--hp {pair}`: write it as NAME=VALUE")
        try:
            values[name] = float(text) if "e" in text.lower() and text[:1] in "-.0123456789" else yaml.safe_load(text)
        except (ValueError, yaml.YAMLError):
            values[name] = text
    return values


def names(options: Sequence[str]) -> tuple[str, ...]:
    """`--select a,b --select c` -> a, b, c."""
    return tuple(name.strip() for option in options for name in option.split(",") if name.strip())
