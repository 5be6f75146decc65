"""One function a command: settings in, one report out, printed, saved and turned into an exit code."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mlcheck.cli.delivery import deliver, saved_report, tell
from mlcheck.cli.hints import config_hint
from mlcheck.cli.output import (
    CLEAN,
    FINDINGS,
    INTERRUPTED,
    MISUSE,
    exit_code,
    require_writable,
    say,
    wants_color,
    width,
)
from mlcheck.cli.progress import patient_progress, progress
from mlcheck.cli.settings import known_rules, lint_paths, lint_settings, probe_options, repeating, require_files
from mlcheck.config import Config, load_config
from mlcheck.core.dataclasses import replace
from mlcheck.core.mistake import Mistake

if TYPE_CHECKING:
    from mlcheck.checklist import Questions
    from mlcheck.core.report import Report
    from mlcheck.lint.run import Buffer, LintSettings

__all__ = [
    "CLEAN",
    "FINDINGS",
    "MISUSE",
    "check",
    "compare",
    "completion",
    "explain",
    "lint",
    "probe",
    "report",
    "rules",
]


def lint(arguments: argparse.Namespace) -> int:
    require_writable(arguments.output)
    config = load_config()
    settings = lint_settings(arguments, config)
    buffer = _buffer(arguments)
    paths = lint_paths(() if buffer else arguments.paths, config)
    if buffer:
        paths = tuple(path for path in arguments.paths if path != "-") or _around(buffer.path, config)
    if arguments.new_since:
        if arguments.baseline or arguments.write_baseline:
            raise Mistake("--new-since is a baseline of its own: leave out --baseline and --write-baseline")
        found = _since(arguments.new_since, paths, settings, buffer)
    else:
        found = _linted(paths, settings, buffer)
    if arguments.statistics and arguments.format == "text":
        from mlcheck.report import page

        say(page.statistics(found, width()))
    else:
        tell(found, arguments)
    return exit_code(found, arguments.strict, arguments.exit_zero)


def _linted(paths: Sequence[str], settings: LintSettings, buffer: Buffer | None) -> Report:
    from mlcheck.experiment.run import run_lint_and_configs
    from mlcheck.lint.run import run_lint

    with patient_progress("lint") as show:
        return run_lint(paths, settings, show, buffer) if buffer else run_lint_and_configs(paths, settings, show)


def _since(revision: str, paths: Sequence[str], settings: LintSettings, buffer: Buffer | None) -> Report:
    from mlcheck.cli.since import baseline_of, named

    with baseline_of(revision, paths, settings) as narrowed:
        return named(_linted(paths, narrowed, buffer), revision, narrowed.baseline)


def _buffer(arguments: argparse.Namespace) -> Buffer | None:
    """Standard input, when it stands for a file."""
    if not (arguments.stdin_filename or "-" in arguments.paths):
        return None
    from mlcheck.lint.run import Buffer

    if arguments.write_baseline:
        raise Mistake("a baseline is written from files, not from standard input")
    return Buffer(os.path.normpath(arguments.stdin_filename or "stdin.py"), sys.stdin.buffer.read())


def _around(path: str, config: Config) -> tuple[str, ...]:
    """The program that a buffer belongs to, where the project says which files that are."""
    known = lint_paths((), config) if config.paths else ()
    inside = any(os.path.abspath(path).startswith(os.path.join(os.path.abspath(folder), "")) for folder in known)
    return known if inside else ()


def probe(arguments: argparse.Namespace) -> int:
    from mlcheck.probe.engine import Interrupted, run_probes

    config = load_config()
    options = probe_options(arguments, config)
    if options is None:
        raise Mistake(
            "name an entry point, as in `mlcheck probe model_def:Trial`, or set `entry` in [tool.mlcheck]; "
            "an experiment's YAML with an `entrypoint` does as well (--config)"
        )
    require_files(options)
    require_writable(arguments.html, arguments.json, arguments.output)
    interrupted = False
    try:
        with progress() as show:
            found = run_probes(options, show)
    except Interrupted as cut:
        found, interrupted = cut.report, True
    hints = config_hint(options.config, config) if options.config else ()
    found = replace(found, arguments=repeating(arguments), notices=(*found.notices, *hints))
    code = deliver(found, arguments, arguments.html, arguments.json, config)
    return INTERRUPTED if interrupted else code


def check(arguments: argparse.Namespace) -> int:
    from mlcheck.checklist import run_checklist
    from mlcheck.probe.engine import Interrupted

    config = load_config()
    html = config.html if arguments.html is None else arguments.html
    json = config.json if arguments.json is None else arguments.json
    require_writable(html, json, arguments.output)
    options = probe_options(arguments, config)
    if options:
        require_files(options)
    interrupted = False
    try:
        with progress() as show:
            found = run_checklist(
                lint_paths(arguments.paths, config),
                lint_settings(arguments, config),
                options,
                _questions(arguments, config),
                show,
            )
    except Interrupted as cut:
        found, interrupted = cut.report, True
    found = replace(found, arguments=repeating(arguments))
    if interrupted:  # the files of a whole run stay
        deliver(found, arguments, "", "", config)
        return INTERRUPTED
    return deliver(_compared(found, json), arguments, html, json, config)


def _questions(arguments: argparse.Namespace, config: Config) -> Questions:
    from pathlib import Path

    from mlcheck.checklist import Questions
    from mlcheck.core.catalog import team_folders
    from mlcheck.core.outcome import Profile

    named = arguments.profile or config.profile
    known = [profile.value for profile in Profile]
    if named and named not in known:
        raise Mistake(f"`profile` {named}: there are {', '.join(known)}")
    team = team_folders(config.rules, config.root)
    return Questions(Path(config.root, config.signoff), team, Profile(named) if named else None)


def _compared(found: Report, path: str) -> Report:
    """With what changed since the report that this one is about to replace, if that is about the same."""
    from mlcheck.core.compare import compare, surroundings

    try:
        before = saved_report(path)
    except Mistake:
        return found
    if (before.command, before.subject) != (found.command, found.subject):
        return found
    other = tuple(f"since the last run, {told}" for told in surroundings(before, found))
    return replace(found, since=before.started, changes=compare(before, found), notices=(*found.notices, *other))


def compare(arguments: argparse.Namespace) -> int:
    """Findings, by the exit code, are what is new."""
    from mlcheck.core import compare as comparing
    from mlcheck.report import changes

    before, after = saved_report(arguments.before), saved_report(arguments.after)
    found = comparing.compare(before, after)
    say(changes.render(before, after, found))
    return FINDINGS if any(change.kind == "new" for change in found) else CLEAN


def report(arguments: argparse.Namespace) -> int:
    saved = saved_report(arguments.saved)
    return deliver(saved, arguments, arguments.html, arguments.json, Config())


def explain(arguments: argparse.Namespace) -> int:
    from mlcheck.report import page

    say(page.page(known_rules()[arguments.rule], width(), wants_color(sys.stdout), arguments.all))
    return CLEAN


def rules(arguments: argparse.Namespace) -> int:
    from mlcheck.core.outcome import Stage
    from mlcheck.report import page

    stages = list(Stage)
    listed = sorted(
        (
            rule
            for rule in known_rules()
            if (not arguments.stage or rule.stage.value in arguments.stage)
            and (not arguments.severity or rule.severity.value in arguments.severity)
            and (not arguments.by or {by.value for by in rule.by} & set(arguments.by))
        ),
        key=lambda rule: (stages.index(rule.stage), rule.name),
    )
    if arguments.format == "json":
        say(page.data(listed))
    elif arguments.format == "names":
        say("".join(f"{rule.name}\n" for rule in listed))
    else:
        say(page.table(listed, width(), wants_color(sys.stdout)))
    return CLEAN


def completion(arguments: argparse.Namespace) -> int:
    from mlcheck.cli.completion import script
    from mlcheck.cli.parser import build_parser

    say(script(arguments.shell, build_parser()))
    return CLEAN
