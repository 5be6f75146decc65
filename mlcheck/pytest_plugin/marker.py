"""`@pytest.mark.mlcheck("model_def:Trial", only=[...])`: one test for each rule that the probes answer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from mlcheck.config import load_config
from mlcheck.core.mistake import Mistake
from mlcheck.core.report import Result
from mlcheck.probe.chosen import ENTRY_RULE, probe_rules
from mlcheck.probe.engine import ProbeOptions
from mlcheck.project import rule_options
from mlcheck.pytest_plugin.evidence import answered, judge
from mlcheck.pytest_plugin.runs import Runs

_KEYS = ("only", "skip", "config", "hyperparameters", "prep", "seed", "time_limit", "budget", "folder", "options")


def parameters(marker: pytest.Mark, where: str, root: Path) -> tuple[list[tuple[ProbeOptions, str]], list[str]]:
    """What each test of a marked function is to look at, and the names to tell them apart by."""
    try:
        options = _options(marker, root)
        asked = [rule for rule in probe_rules(options.only, options.skip) if rule != ENTRY_RULE or not options.only]
    except (Mistake, TypeError) as error:
        raise pytest.Collector.CollectError(f"{where}: {error}") from None
    return [(options, rule) for rule in asked], asked


def _options(marker: pytest.Mark, root: Path) -> ProbeOptions:
    if len(marker.args) != 1 or not isinstance(marker.args[0], str):
        raise TypeError('write the entry point alone before the options: mlcheck("model_def:Trial", only=[...])')
    given: dict[str, Any] = dict(marker.kwargs)
    for key in given:
        if key not in _KEYS:
            raise TypeError(f"the mlcheck mark has no option `{key}`; it knows {', '.join(_KEYS)}")
    folder = root / given.pop("folder", "")
    config = given.pop("config", "")
    return ProbeOptions(
        entry=marker.args[0],
        config=str(folder / config) if config else "",
        hyperparameters=dict(given.get("hyperparameters", {})),
        prep=given.get("prep", ""),
        only=_names(given.get("only", ())),
        skip=_names(given.get("skip", ())),
        seed=given.get("seed", 0),
        time_limit=float(given.get("time_limit", 60.0)),
        budget=float(given.get("budget", 600.0)),
        folder=str(folder),
        rule_options=rule_options(load_config(str(root)), given.get("options")),
    )


def _names(given: str | Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def decided(runs: Runs, options: ProbeOptions, rule: str) -> Result:
    """The result of one rule; what is no pass fails or skips the test that asks."""
    try:
        results = list(runs.probe(options).results)
    except Mistake as mistake:
        pytest.fail(str(mistake), pytrace=False)
    item = answered(results, rule)
    entry = answered(results, ENTRY_RULE)
    judge(entry if entry.outcome.value in ("fail", "error") else item)
    return item.decided
