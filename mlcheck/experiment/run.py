"""From paths to a report on code and configs: lint reads the Python files, the rules here the experiments' YAML."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from mlcheck.core.catalog import Catalog
from mlcheck.core.check import find_checks, rules_of
from mlcheck.core.dataclasses import replace
from mlcheck.core.finding import Finding, Location
from mlcheck.core.outcome import SEVERITY_OUTCOME, By, Outcome, Stage
from mlcheck.core.plural import plural
from mlcheck.core.report import Report, Result
from mlcheck.experiment import checks
from mlcheck.experiment.files import ENDINGS, configs, is_grid, is_template, may_be_grid, read
from mlcheck.lint.baseline import settle
from mlcheck.lint.files.discover import MissingPath
from mlcheck.lint.run import LintSettings, run_lint
from mlcheck.lint.select import Selection
from mlcheck.lint.suppress import Suppressions

if TYPE_CHECKING:
    from mlcheck.core.check import Check
    from mlcheck.experiment.grid import Grid
    from mlcheck.experiment.seen import Experiment

    Subject = Experiment | Grid

RULES = rules_of(checks)
UNREADABLE, UNREADABLE_GRID = "invalid-experiment-config", "invalid-grid"
EXPERIMENT, GRID = "experiment", "grid"  # what a check looks at: experiment configs, unless its LOOKS_AT says otherwise


def run_lint_and_configs(
    paths: Sequence[str], settings: LintSettings, progress: Callable[[int, int], None] | None = None
) -> Report:
    """Lint the Python files, the experiment configs and the runner's grids that `paths` mean, as one report.

    A YAML file is an experiment's when it has two of `entrypoint`, `searcher` and `hyperparameters`; one that is
    named on the command line always is, unless it is a grid. Raises what `run_lint` raises.
    """
    selection = _selection(settings)
    named = [path for path in paths if path.endswith(ENDINGS) and not os.path.isdir(path)]
    rest = [path for path in paths if path not in named]
    for path in named:
        if not os.path.exists(path):
            raise MissingPath(f"{path}: no such file or folder")
    code = replace(settings, select=_without_own(settings.select), extend_select=_without_own(settings.extend_select))
    report = run_lint(rest, code, progress) if rest or not named else Report("lint", ", ".join(paths), ())
    if settings.select and not code.select and not code.extend_select:
        report = replace(report, results=())
    found = list(dict.fromkeys(named + [path for given in rest for path in configs(given)]))
    results, notices = _judged(found, set(named), selection, settings) if found else ([], [])
    read_too = int(report.environment.get("files linted", "0")) + len(found)
    return replace(
        report,
        subject=", ".join(paths),
        environment=report.environment | ({"files linted": str(read_too)} if found else {}),
        results=tuple(sorted((*report.results, *results), key=lambda result: result.rule)),
        notices=(*report.notices, *notices),
    )


def _without_own(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for name in names if name not in RULES)


def _selection(settings: LintSettings) -> Selection:
    """The settings as far as they are about rules of configs."""
    stages = set(Stage)
    own = tuple(name for name in settings.select if name in RULES or name in stages)
    more = tuple(name for name in settings.extend_select if name in RULES)
    selection = Selection(replace(settings, select=own or more, extend_select=more), Catalog(), set(RULES))
    if settings.select and not own and not more:
        selection.rules.clear()
    return selection


def _judged(
    paths: list[str], named: set[str], selection: Selection, settings: LintSettings
) -> tuple[list[Result], list[str]]:
    subjects, broken, notices = _subjects(paths, named, settings.target_determined)
    grids = [one for one in broken if is_grid(read(one.location.path))]
    unreadable = {UNREADABLE: [one for one in broken if one not in grids], UNREADABLE_GRID: grids}
    suppressions = Suppressions()
    lines: dict[str, Sequence[str]] = {}
    for path in dict.fromkeys([*paths, *(path for one in subjects for path in one.beside())]):
        lines[path] = read(path).decode("utf-8-sig", "replace").splitlines()
        suppressions.read_lines(path, lines[path])
    results = []
    for check in find_checks(checks):
        looked_at = [one for one in subjects if one.kind == (check.looks_at or EXPERIMENT)]
        untold = unreadable.get(check.rule, [])
        if check.rule in selection.rules and (looked_at or untold or not (check.looks_at or subjects)):
            results.append(_result(check, looked_at, untold, selection, suppressions))
    notices += suppressions.notices(Catalog(), selection.rules, ran_all=not selection.narrowed)
    if results:
        results, settled = settle(results, settings, lines)
        notices += settled
    return results, notices


def _subjects(paths: list[str], named: set[str], version: str) -> tuple[list[Subject], list[Finding], list[str]]:
    """What the files hold, what keeps named ones from being read, and notices of others that look like configs."""
    import yaml

    from mlcheck.experiment.document import Document
    from mlcheck.experiment.grid import Grid
    from mlcheck.experiment.seen import see

    found: list[Subject] = []
    broken, notices = [], []
    for path in paths:
        data = read(path)
        try:
            text = data.decode("utf-8-sig")
            found.append(Grid(path, text) if may_be_grid(data) else see(Document(path, text), version))
        except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
            mark = getattr(error, "problem_mark", None)
            told = str(getattr(error, "problem", None) or error).splitlines()[0]
            place = Location(path, mark.line + 1 if mark else 1, mark.column + 1 if mark else 1)
            if path in named or is_grid(data) or not (may_be_grid(data) or is_template(data)):
                broken.append(Finding(f"not valid YAML, so nothing in it was checked: {told}", place))
            elif not may_be_grid(data):
                notices.append(f"{path}:{place.line}: not valid YAML, so it was not checked: {told}")
        except ValueError as error:
            if path in named or not may_be_grid(data):
                notices.append(f"{path}: {error}, so it was not checked")
    return found, broken, notices


def _result(
    check: Check,
    subjects: Sequence[Subject],
    unreadable: Sequence[Finding],
    selection: Selection,
    suppressions: Suppressions,
) -> Result:
    catalog = Catalog()
    heading = catalog.heading(check.rule)
    result = Result(
        rule=check.rule,
        title=heading.title,
        stage=heading.stage,
        severity=heading.severity,
        by=By.LINT,
        outcome=Outcome.PASS,
        looked_at=len(subjects),
    )
    if not subjects and not unreadable:
        return replace(result, outcome=Outcome.SKIP, reason="no experiment config that could be read")
    try:
        findings = [one for subject in subjects for one in check.run(subject)]
    except Exception as error:
        import traceback

        reason = f"mlcheck itself failed: {type(error).__name__}: {error}"
        return replace(result, outcome=Outcome.ERROR, reason=reason, traceback=traceback.format_exc())
    told = {(one.location, one.message): one for one in findings}  # what lies beside several configs is told once
    findings = [
        one
        for one in (*told.values(), *unreadable)
        if check.rule not in selection.ignored_in(one.location.path)
        and not suppressions.hides(check.rule, one.location.path, one.location.line)
    ]
    looked_at = plural(len(subjects) + len(unreadable), "grid" if check.looks_at == GRID else "experiment config")
    if not findings:
        return replace(result, summary=f"nothing found in {looked_at}")
    return replace(
        result,
        outcome=SEVERITY_OUTCOME[result.severity],
        findings=tuple(sorted(findings, key=lambda one: one.location)),
        summary=f"{plural(len(findings), 'finding')} in {looked_at}",
        explains=catalog[check.rule].explains,
    )
