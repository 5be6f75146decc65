"""One function a command: settings in, one report out, printed, saved and turned into an exit code."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

from mlcheck.cli.progress import progress
from mlcheck.config import Config, load_config
from mlcheck.core.mistake import Mistake

if TYPE_CHECKING:
    from mlcheck.core.report import Report
    from mlcheck.lint.run import LintSettings
    from mlcheck.probe.engine import ProbeOptions

CLEAN, FINDINGS, MISUSE = 0, 1, 2


def lint(arguments: argparse.Namespace) -> int:
    from mlcheck.lint.run import run_lint
    from mlcheck.report import lint_text

    config = load_config()
    report = run_lint(_lint_paths(arguments.paths, config), _lint_settings(arguments, config))
    if arguments.format == "json":
        from mlcheck.report import json

        print(json.render(report), end="")
    else:
        color = _wants_color(sys.stdout)
        text = lint_text.concise(report) if arguments.format == "concise" else lint_text.render(report, color, _width())
        print(text, end="")
    return _exit_code(report, warnings_count=True)


def _lint_paths(given: Sequence[str], config: Config) -> tuple[str, ...]:
    return tuple(given) or tuple(os.path.normpath(os.path.join(config.root, path)) for path in config.paths) or (".",)


def _lint_settings(arguments: argparse.Namespace, config: Config) -> LintSettings:
    from mlcheck.lint.run import LintSettings

    return LintSettings(
        select=_names(arguments.select) or config.select,
        ignore=_names(arguments.ignore) + config.ignore,
        extend_select=config.extend_select,
        per_file_ignores=config.per_file_ignores,
        root=config.root,
    )


def probe(arguments: argparse.Namespace) -> int:
    from mlcheck.probe.engine import run_probes

    config = load_config()
    options = _probe_options(arguments, config)
    if options is None:
        raise Mistake("name an entry point, as in `mlcheck probe model_def:Trial`, or set `entry` in [tool.mlcheck]")
    with progress() as show:
        report = run_probes(options, show)
    return _deliver(report, arguments, arguments.html, arguments.json, config)


def _probe_options(arguments: argparse.Namespace, config: Config) -> ProbeOptions | None:
    from mlcheck.probe.engine import ProbeOptions

    entry = arguments.entry or config.entry
    if not entry:
        return None
    rooted = not arguments.entry and bool(config.entry)
    return ProbeOptions(
        entry=entry,
        config=arguments.config or (os.path.join(config.root, config.config) if config.config else ""),
        hyperparameters={**config.hyperparameters, **_hyperparameters(arguments.hp)},
        prep=arguments.prep or config.prep,
        only=_names(arguments.only) or config.only,
        skip=_names(arguments.skip) + config.skip,
        seed=config.seed if arguments.seed is None else arguments.seed,
        time_limit=arguments.time_limit or config.time_limit,
        budget=arguments.budget or config.budget,
        folder=config.root if rooted else ".",
    )


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


def check(arguments: argparse.Namespace) -> int:
    from pathlib import Path

    from mlcheck.checklist import run_checklist

    config = load_config()
    paths = _lint_paths(arguments.paths, config)
    with progress() as show:
        report = run_checklist(
            paths,
            _lint_settings(arguments, config),
            _probe_options(arguments, config),
            Path(config.root, config.signoff),
            show,
        )
    html = config.html if arguments.html is None else arguments.html
    json = config.json if arguments.json is None else arguments.json
    return _deliver(report, arguments, html, json, config)


def report(arguments: argparse.Namespace) -> int:
    from pathlib import Path

    from mlcheck.report import json

    try:
        saved = json.read(Path(arguments.saved).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise Mistake(f"{arguments.saved}: cannot be read: {error}") from error
    return _deliver(saved, arguments, arguments.html, arguments.json, Config())


def _deliver(report: Report, arguments: argparse.Namespace, html_path: str, json_path: str, config: Config) -> int:
    """Write the files first, so that nothing is lost when the terminal is; then print."""
    from dataclasses import replace

    from mlcheck.report import html, json, markdown, terminal

    if json_path:
        _write(json_path, json.render(report))
    if html_path:
        _write(html_path, html.render(report))
    if arguments.format == "json":
        print(json.render(report), end="")
    elif arguments.format == "markdown":
        print(markdown.render(report))
    else:
        written = (f"the whole report: {html_path}",) if html_path else ()
        shown = replace(report, notices=(*report.notices, *written))
        print(terminal.render(shown, width=_width(), color=_wants_color(sys.stdout)), end="")
    strict = arguments.strict or config.strict
    return _exit_code(report, warnings_count=strict, open_questions_count=strict)


def _write(path: str, text: str) -> None:
    """Replace a file whole or not at all: an interrupted run leaves the earlier report intact."""
    partial = f"{path}.{os.getpid()}.partial"
    try:
        with open(partial, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(partial, path)
    except OSError as error:
        if os.path.exists(partial):
            os.remove(partial)
        raise Mistake(f"{path}: cannot be written: {error.strerror}") from error


def _exit_code(report: Report, warnings_count: bool, open_questions_count: bool = False) -> int:
    if any(result.outcome.value == "error" for result in report.results):
        return MISUSE  # even where another way decided the item: what broke was not looked at
    outcomes = {item.outcome.value for item in report.items()}
    counted = {"fail"} | ({"warn"} if warnings_count else set())
    counted |= {"pending", "inconclusive"} if open_questions_count else set()
    return FINDINGS if outcomes & counted else CLEAN


def explain(arguments: argparse.Namespace) -> int:
    from mlcheck.core.catalog import Catalog

    rule = Catalog()[arguments.rule]
    answered = ", ".join(by.value for by in rule.by)
    print(f"{rule.title}\n\n{rule.name} · {rule.stage.value} · {rule.severity.value} · answered by {answered}\n")
    print(rule.body)
    return CLEAN


def rules(arguments: argparse.Namespace) -> int:
    from mlcheck.core.catalog import Catalog
    from mlcheck.core.outcome import Stage

    stages = list(Stage)
    for rule in sorted(Catalog(), key=lambda rule: (stages.index(rule.stage), rule.name)):
        answered = "+".join(by.value for by in rule.by)
        print(f"{rule.stage.value:<11}{rule.name:<32}{rule.severity.value:<9}{answered:<14}{rule.title}")
    return CLEAN


def _names(options: Sequence[str]) -> tuple[str, ...]:
    return tuple(name.strip() for option in options for name in option.split(",") if name.strip())


def _wants_color(stream: TextIO) -> bool:
    """https://no-color.org and FORCE_COLOR, else whether a person is looking."""
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or stream.isatty()


def _width() -> int:
    return shutil.get_terminal_size((100, 24)).columns
