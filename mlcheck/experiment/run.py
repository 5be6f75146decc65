"""From paths to a report on code and configs: lint reads the Python files, the rules here the experiments' YAML."""

from __future__ import annotations

import os
import re
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from mlcheck.core.catalog import Catalog
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import SEVERITY_OUTCOME, By, Outcome, Severity, Stage
from mlcheck.core.report import Report, Result
from mlcheck.lint.baseline import settle
from mlcheck.lint.discover import MissingPath
from mlcheck.lint.gitignore import Pattern, is_ignored, patterns_above, read_patterns
from mlcheck.lint.run import LintSettings, run_lint
from mlcheck.lint.select import Selection

if TYPE_CHECKING:
    from mlcheck.core.check import Check
    from mlcheck.experiment.seen import Experiment

RULES = (
    "duplicate-config-key",
    "entrypoint-missing",
    "metric-direction-reversed",
    "searcher-metric-missing",
    "undeclared-hyperparameter",
    "unused-hyperparameter",
)
_ENDINGS = (".yaml", ".yml")
_ENTRYPOINT = re.compile(rb"^entrypoint\s*:", re.MULTILINE)
_SECTION = re.compile(rb"^(searcher|hyperparameters)\s*:", re.MULTILINE)
_SUPPRESSED = re.compile(r"#\s*mlcheck:\s*ignore(?:\[(?P<rules>[^\]]*)\])?")


def run_lint_and_configs(
    paths: Sequence[str], settings: LintSettings, progress: Callable[[int, int], None] | None = None
) -> Report:
    """Lint the Python files and the experiment configs that `paths` mean, as one report.

    A YAML file is an experiment's when it names an `entrypoint` beside a `searcher` or `hyperparameters`; one
    that is named on the command line always is. Raises what `run_lint` raises.
    """
    selection = _selection(settings)
    named = [path for path in paths if path.endswith(_ENDINGS) and not os.path.isdir(path)]
    rest = [path for path in paths if path not in named]
    for path in named:
        if not os.path.exists(path):
            raise MissingPath(f"{path}: no such file or folder")
    code = replace(settings, select=_without_own(settings.select), extend_select=_without_own(settings.extend_select))
    read = run_lint(rest, code, progress) if rest or not named else Report("lint", ", ".join(paths), ())
    if settings.select and not code.select:
        read = replace(read, results=())
    configs = named + [path for given in rest for path in _configs(given)]
    results, notices = _judged(list(dict.fromkeys(configs)), selection) if configs else ([], [])
    if results:
        lines = {path: _bytes(path).decode("utf-8-sig", "replace").splitlines() for path in configs}
        results, settled = settle(results, settings, lines)
        notices += settled
    return replace(
        read,
        subject=", ".join(paths),
        results=tuple(sorted((*read.results, *results), key=lambda result: result.rule)),
        notices=(*read.notices, *notices),
    )


def _without_own(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for name in names if name not in RULES)


def _selection(settings: LintSettings) -> Selection:
    """The settings as far as they are about rules of configs."""
    stages = set(Stage)
    own = tuple(name for name in settings.select if name in RULES or name in stages)
    chosen = replace(settings, select=own, extend_select=(), ignore=settings.ignore)
    selection = Selection(chosen, Catalog(), set(RULES))
    if settings.select and not own:
        selection.rules.clear()
    return selection


def _configs(given: str, patterns: tuple[Pattern, ...] | None = None) -> Iterator[str]:
    """The experiment configs at or below a folder, hidden and ignored folders left out."""
    if not os.path.isdir(given):
        return
    patterns = (patterns_above(given) if patterns is None else patterns) + read_patterns(given)
    for entry in sorted(os.scandir(given), key=lambda entry: entry.name):
        is_folder = entry.is_dir(follow_symlinks=False)
        if entry.name.startswith(".") or is_ignored(os.path.abspath(entry.path), is_folder, patterns):
            continue
        if is_folder:
            if entry.name not in {"node_modules", "site-packages"} and not _is_environment(entry.path):
                yield from _configs(entry.path, patterns)
        elif entry.name.endswith(_ENDINGS) and _is_experiment(entry.path):
            yield os.path.normpath(entry.path)


def _is_environment(folder: str) -> bool:
    return os.path.exists(os.path.join(folder, "pyvenv.cfg")) or os.path.exists(os.path.join(folder, "conda-meta"))


def _is_experiment(path: str) -> bool:
    data = _bytes(path)
    return bool(_ENTRYPOINT.search(data) and _SECTION.search(data))


def _bytes(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def _judged(configs: list[str], selection: Selection) -> tuple[list[Result], list[str]]:
    from mlcheck.core.check import find_checks
    from mlcheck.experiment import checks

    experiments, notices = _experiments(configs)
    found = [check for check in find_checks(checks) if check.rule in selection.rules]
    return [_result(check, experiments, selection) for check in found], notices


def _experiments(configs: list[str]) -> tuple[list[Experiment], list[str]]:
    import yaml

    from mlcheck.experiment.document import Document
    from mlcheck.experiment.seen import see

    found, notices = [], []
    for path in configs:
        try:
            found.append(see(Document(path, _bytes(path).decode("utf-8-sig"))))
        except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
            mark = getattr(error, "problem_mark", None)
            line = f":{mark.line + 1}" if mark else ""
            notices.append(f"{path}{line}: not valid YAML, so it was not checked: {str(error).splitlines()[0]}")
        except ValueError:
            notices.append(f"{path}: an experiment config is a mapping, so it was not checked")
    return found, notices


def _result(check: Check, experiments: list[Experiment], selection: Selection) -> Result:
    catalog = Catalog()
    heading = catalog.heading(check.rule)
    result = Result(
        rule=check.rule,
        title=heading.title,
        stage=Stage(heading.stage),
        severity=Severity(heading.severity),
        by=By.LINT,
        outcome=Outcome.PASS,
        looked_at=len(experiments),
    )
    findings: list[Finding] = []
    try:
        for experiment in experiments:
            if check.rule not in selection.ignored_in(experiment.document.path):
                findings += [one for one in check.run(experiment) if not _suppressed(check.rule, one, experiment)]
    except Exception as error:
        reason = f"mlcheck itself failed: {type(error).__name__}: {error}"
        return replace(result, outcome=Outcome.ERROR, reason=reason, traceback=traceback.format_exc())
    if not findings:
        return replace(result, summary=f"nothing found in {len(experiments)} experiment configs")
    return replace(
        result,
        outcome=SEVERITY_OUTCOME[result.severity],
        findings=tuple(sorted(findings, key=lambda one: one.location)),
        summary=f"{len(findings)} findings in {len(experiments)} experiment configs",
        explains=catalog[check.rule].explains,
    )


def _suppressed(rule: str, finding: Finding, experiment: Experiment) -> bool:
    """`# mlcheck: ignore[rule]` on the line of the finding."""
    lines, number = experiment.document.lines, finding.location.line
    match = _SUPPRESSED.search(lines[number - 1]) if 0 < number <= len(lines) else None
    if not match:
        return False
    return match["rules"] is None or rule in [name.strip() for name in match["rules"].split(",")]
