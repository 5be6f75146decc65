"""Asks every check about the evidence it needs, and makes results of the verdicts."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, get_type_hints

from mlcheck.core.catalog import Catalog
from mlcheck.core.check import Check, Verdict, find_checks
from mlcheck.core.mistake import Mistake
from mlcheck.core.outcome import By, Outcome
from mlcheck.core.report import Result
from mlcheck.core.result import result_of
from mlcheck.load import checks
from mlcheck.load.cases import GoldenRun
from mlcheck.load.ladder import Ladder
from mlcheck.load.quality import LabelledRun
from mlcheck.load.satisfaction import Ratings
from mlcheck.load.sbs import Judgements
from mlcheck.load.start import Start
from mlcheck.trial.traceback import error_line

_NOT_GIVEN = {
    GoldenRun: "no must-pass cases are given: --golden",
    LabelledRun: "no labelled queries are given: --labelled",
    Ratings: "no ratings are given: --ratings",
    Judgements: "no judgements are given: --sbs-key and --sbs-answers",
}


def judge(
    evidence: Mapping[type, Any],
    missing: Verdict,
    only: tuple[str, ...] = (),
    given: frozenset[type] = frozenset(),
) -> list[Result]:
    """One result a rule. A check needs the types of its parameters; `missing` is the verdict without one of them.

    `given` are those for which there is a file, whether or not it came to be used.
    """
    catalog = Catalog()
    absent = {needed: reason for needed, reason in _NOT_GIVEN.items() if needed not in given}
    verdicts = ((check.rule, _judged(check, evidence, missing, absent)) for check in _chosen(only))
    return [result_of(catalog[rule], verdict, By.LOAD) for rule, verdict in verdicts]


def evidence_of(only: tuple[str, ...]) -> frozenset[type]:
    """What the chosen rules need to be measured. Raises Mistake for a rule that load does not answer."""
    catalog, known = Catalog(), {check.rule for check in find_checks(checks)}
    for name in only:
        if catalog[name].name not in known:  # a name that no page has is told with its neighbours
            raise Mistake(f"`{name}` is no rule that load answers; see `mlcheck rules --by load`")
    return frozenset(needed for check in _chosen(only) for needed in _needs(check))


def _chosen(only: tuple[str, ...]) -> list[Check]:
    return [check for check in find_checks(checks) if not only or check.rule in only]


def _needs(check: Check) -> list[type]:
    hints = get_type_hints(check.run)
    hints.pop("return", None)
    return list(hints.values())


def _judged(check: Check, evidence: Mapping[type, Any], missing: Verdict, absent: Mapping[type, str]) -> Verdict:
    for needed in _needs(check):
        if needed not in evidence:
            broken = Start in evidence and evidence[Start].told
            return missing if broken or needed not in absent else Verdict(Outcome.SKIP, reason=absent[needed])
    try:
        verdict: Verdict = check.run(*(evidence[needed] for needed in _needs(check)))
        return _unfinished(verdict, evidence[Ladder]) if Ladder in _needs(check) else verdict
    except Exception as error:
        line = error_line(error)
        return Verdict(Outcome.ERROR, f"the check stopped at {line}", traceback=traceback.format_exc())


def _unfinished(verdict: Verdict, ladder: Ladder) -> Verdict:
    """Nothing passes at numbers of workers that were not measured."""
    if verdict.outcome is not Outcome.PASS or not ladder.stopped:
        return verdict
    return replace(verdict, outcome=Outcome.INCONCLUSIVE, reason=f"not at every number of workers: {ladder.stopped}")
