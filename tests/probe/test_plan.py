"""The order of the probes: what tells much for little comes first, whatever the order of their names."""

from __future__ import annotations

import time
from typing import Any, ClassVar

import pytest
from data_programs import Changed, table
from probe_programs import classes, cross_entropy, mlp, trial_of, trial_on

from mlcheck.core.catalog import Catalog
from mlcheck.core.check import Check, Verdict, find_checks
from mlcheck.core.finding import Finding, Location
from mlcheck.core.outcome import Outcome
from mlcheck.probe import checks
from mlcheck.probe.examination import Examination
from mlcheck.probe.job import Job, budget_spent
from mlcheck.probe.measure.speed.step_time import StepTime
from mlcheck.probe.measure.training.rehearsal import Rehearsal
from mlcheck.probe.needs import measurements_of
from mlcheck.probe.plan import ordered, weight_of
from mlcheck.probe.result import from_message
from mlcheck.trial.trial import Trial


def costing(steps: int) -> Any:
    return type(f"Costing{steps}", (), {"order": steps, "reach": "data"})


CHEAP, MIDDLE, DEAR = costing(2), costing(20), costing(200)


def rules(needs: dict[str, list[Any]], weights: dict[str, int] | None = None) -> list[str]:
    wanted = [(Check(rule, lambda: None), types) for rule, types in needs.items()]
    return [check.rule for check, _ in ordered(wanted, lambda rule: (weights or {}).get(rule, 4))]


def test_the_cheap_come_first_and_the_rehearsal_before_all() -> None:
    assert rules({"a": [DEAR], "b": [CHEAP], "c": [MIDDLE], "z": [Rehearsal]}) == ["z", "b", "c", "a"]


def test_many_rules_make_up_for_a_cost() -> None:
    many = {f"m{place}": [MIDDLE] for place in range(9)}
    assert rules({"b": [CHEAP], **many}) == [*many, "b"]
    assert rules({"b": [CHEAP], "m0": [MIDDLE]}) == ["b", "m0"]


def test_where_a_step_takes_seconds_what_needs_none_comes_first() -> None:
    stepping = type("Stepping", (), {"order": 2, "reach": "step"})
    wanted: list[Any] = [(Check("steps", lambda: None), [stepping]), (Check("reads", lambda: None), [MIDDLE])]
    for seconds, first in ((0.01, "steps"), (5.0, "reads")):
        assert ordered(wanted, lambda _: 4, seconds)[0][0].rule == first


def test_where_a_batch_takes_seconds_what_times_them_comes_first() -> None:
    for seconds, first in ((0.01, "reads"), (5.0, "times")):
        wanted: list[Any] = [(Check("times", lambda: None), [StepTime]), (Check("reads", lambda: None), [MIDDLE])]
        assert ordered(wanted, lambda _: 4, batch_seconds=seconds)[0][0].rule == first


def test_a_grave_rule_comes_before_a_slight_one() -> None:
    assert rules({"a": [costing(9)], "b": [costing(9)]}, {"a": 1}) == ["b", "a"]
    catalog = Catalog()
    note, grave, cause = (catalog[rule] for rule in ("sync-in-loop", "random-evaluation", "missing-zero-grad"))
    assert weight_of(note) < weight_of(grave) < weight_of(cause), "what explains other failures tells more"


def test_what_is_measured_for_one_rule_costs_the_next_nothing() -> None:
    assert rules({"a": [CHEAP], "both": [CHEAP, MIDDLE], "c": [costing(25)]}) == ["a", "both", "c"]


def test_every_check_is_asked_once_and_what_it_needs_decides_nothing_else() -> None:
    catalog = Catalog()
    wanted = [(check, measurements_of(check.run)) for check in find_checks(checks)]
    found = [check.rule for check, _ in ordered(wanted, lambda rule: weight_of(catalog[rule]))]
    assert sorted(found) == sorted(check.rule for check, _ in wanted)
    assert found[0] == "entry-does-not-run"
    assert found.index("missing-zero-grad") < found.index("cannot-overfit-one-batch")
    assert [check.rule for check, _ in ordered(wanted[::-1], lambda rule: weight_of(catalog[rule]))] == found


@pytest.mark.parametrize("rule", ["batch-mixing", "dead-units"])
def test_one_rule_alone_is_asked_alone(rule: str) -> None:
    assert rules({rule: [DEAR]}) == [rule]


class Timed:
    """Keeps how long it was given."""

    reach, order = "nothing", 1
    given: ClassVar[list[float]] = []

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Timed:
        cls.given.append(seconds)
        return cls()


def timed(seen: Timed) -> Verdict:
    return Verdict(Outcome.PASS)


class Heard(list[dict[str, Any]]):
    def send(self, message: dict[str, Any]) -> None:
        self.append(message)


def examined(budget: float) -> Heard:
    """One check of one measurement, with `budget` left of 60 seconds."""
    heard, trial = Heard(), trial_of(mlp(), classes(8), cross_entropy)
    job = Job("", "", {}, "", 0, 30.0, budget, (), whole_budget=60.0)
    Examination(trial, job, heard).run([Check("dead-units", timed)])
    return heard


def test_a_probe_gets_no_more_than_is_left_of_the_budget() -> None:
    Timed.given.clear()
    examined(1000.0)
    heard = examined(7.0)
    assert Timed.given[0] == 30.0
    assert 6 < Timed.given[1] <= 7
    assert heard[0]["time_limit_s"] <= 17


class Faulty:
    reach, order = "nothing", 1

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Faulty:
        raise ValueError("a form that nobody thought of")


def does_without(seen: Faulty | None) -> Verdict:
    return Verdict(Outcome.PASS)


def needs_it(seen: Faulty) -> Verdict:
    return Verdict(Outcome.PASS)


def test_what_some_do_without_and_is_broken_is_told_by_the_first_that_needs_it() -> None:
    heard, trial = Heard(), trial_of(mlp(), classes(8), cross_entropy)
    job = Job("", "", {}, "", 0, 30.0, 60.0, ())
    asked = [Check("batch-mixing", does_without), Check("dead-units", needs_it), Check("views-identical", needs_it)]
    Examination(trial, job, heard).run(asked)
    results = [from_message(message["report"]) for message in heard if message["kind"] == "finished"]
    found = {result.rule: (result.outcome, result.headline) for result in results}
    assert found["batch-mixing"][0] is Outcome.PASS
    assert sorted(outcome.name for outcome, _ in found.values()) == ["ERROR", "PASS", "SKIP"]
    assert any("a form that nobody thought of" in line for _, line in found.values())


def test_what_a_budget_leaves_out_names_it() -> None:
    Timed.given.clear()
    (_, finished) = examined(0.0)
    result = from_message(finished["report"])
    assert result.outcome is Outcome.INCONCLUSIVE
    assert "the budget of 60 s was spent" in result.reason
    assert not Timed.given


def test_where_a_step_takes_seconds_a_spent_budget_asks_for_smaller_ones() -> None:
    assert budget_spent(600, 7.12).startswith(
        "the budget of 600 s was spent: a step takes 7.1 s, so give the program smaller batches or inputs, or raise"
    )
    assert budget_spent(600, 0.2) == budget_spent(600, 0.0)
    assert budget_spent(600, 0.2).startswith("the budget of 600 s was spent: raise --budget, or choose probes")


class ForOthers(Timed):
    @classmethod
    def unfit(cls, trial: Trial) -> str:
        return f"`{trial.name}` has one process"


def about_others(seen: ForOthers) -> Verdict:
    return Verdict(Outcome.PASS)


def test_what_a_program_is_unfit_for_is_no_open_question_when_the_budget_is_spent() -> None:
    Timed.given.clear()
    heard, trial = Heard(), trial_of(mlp(), classes(8), cross_entropy)
    Examination(trial, Job("", "", {}, "", 0, 30.0, 0.0, ()), heard).run([Check("dead-units", about_others)])
    result = from_message(heard[-1]["report"])
    assert (result.outcome, result.reason) == (Outcome.SKIP, f"`{trial.name}` has one process")
    assert not Timed.given


class Rare(Timed):
    """About a function of torch that few programs call."""

    reach = "step"

    @classmethod
    def absent(cls, called: frozenset[str]) -> str:
        return "" if {"linear", "cross_entropy"} <= called else "nothing of the kind is called"


class Rarer(Rare):
    @classmethod
    def absent(cls, called: frozenset[str]) -> str:
        return "" if "ctc_loss" in called else "no ctc_loss was computed"


def about_rare(seen: Rare) -> Verdict:
    return Verdict(Outcome.PASS)


def about_rarer(seen: Rarer) -> Verdict:
    return Verdict(Outcome.PASS)


def about_either(seen: Rare | None, other: Rarer | None) -> Verdict:
    return Verdict(Outcome.PASS, f"{seen is not None} {other is not None}")


def answers(asked: list[Check], budget: float = 60.0, step: Any = cross_entropy) -> tuple[dict[str, Any], Heard]:
    heard, trial = Heard(), trial_of(mlp(), classes(8), step)
    Examination(trial, Job("", "", {}, "", 0, 30.0, budget, ()), heard).run(asked)
    results = [from_message(message["report"]) for message in heard if message["kind"] == "finished"]
    return {result.rule: result for result in results}, heard


def test_one_look_at_a_step_spares_what_is_about_functions_that_it_does_not_call() -> None:
    asked = [Check("dead-units", about_rare), Check("batch-mixing", about_rarer), Check("label-noise", about_either)]
    found, heard = answers(asked)
    assert (found["batch-mixing"].outcome, found["batch-mixing"].reason) == (Outcome.SKIP, "no ctc_loss was computed")
    assert found["dead-units"].outcome is Outcome.PASS
    assert found["label-noise"].summary == "True False"
    measured = [message["measurement"] for message in heard if message["kind"] == "measuring"]
    assert sorted(measured) == ["Called", "Rare"], "one look for all"


def test_where_the_look_fails_everything_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(trial: Trial, seconds: float) -> Any:
        raise RuntimeError("no step under a function mode")

    monkeypatch.setattr("mlcheck.probe.measure.training.called.Called.measure", broken)
    found, heard = answers([Check("dead-units", about_rare), Check("batch-mixing", about_rarer)])
    assert {result.outcome for result in found.values()} == {Outcome.PASS}
    assert [message["measurement"] for message in heard if message["kind"] == "measuring"].count("Called") == 1


class Slow(Timed):
    """Outlasts the budget of the tests below."""

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Slow:
        time.sleep(0.3)
        return cls()


class Never(Timed):
    order = 1000

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Never:
        raise AssertionError("the budget was spent")


def spends(seen: Slow) -> Verdict:
    return Verdict(Outcome.PASS)


def fails_without(seen: Slow, more: Never | None) -> Verdict:
    finding = Finding("gradients are not cleared", Location("train.py", 3))
    return Verdict(Outcome.FAIL, "gradients are not cleared", findings=(finding,))


def warns_without(seen: Slow, more: Never | None) -> Verdict:
    finding = Finding("targets are large", Location("train.py", 3))
    return Verdict(Outcome.WARN, "targets are large", findings=(finding,))


def passes_without(seen: Slow, more: Never | None) -> Verdict:
    return Verdict(Outcome.PASS)


def never(seen: Slow, more: Never) -> Verdict:
    return Verdict(Outcome.FAIL)


def test_a_failure_that_is_seen_when_the_budget_is_spent_is_told_and_nothing_else_is_decided() -> None:
    checks_by_rule = {
        "dead-units": spends,
        "missing-zero-grad": fails_without,
        "targets-not-scaled": warns_without,
        "batch-mixing": passes_without,
        "label-noise": never,
    }
    found, _ = answers([Check(rule, run) for rule, run in checks_by_rule.items()], budget=0.2)
    assert {rule: result.outcome.name for rule, result in found.items()} == {
        "dead-units": "PASS",
        "missing-zero-grad": "FAIL",
        "targets-not-scaled": "INCONCLUSIVE",
        "batch-mixing": "INCONCLUSIVE",
        "label-noise": "INCONCLUSIVE",
    }
    assert "the budget of" in found["batch-mixing"].reason


def test_a_sample_that_cannot_be_read_is_told_once() -> None:
    """The checks that read all of the data come to an end at it as well."""
    ragged = Changed(table(), lambda index, sample: (sample[0][: 7 if index == 40 else 8], sample[1]))
    rules, heard = ("unreadable-sample", "training-data-not-shuffled"), Heard()
    wanted = [check for check in find_checks(checks) if check.rule in rules]
    job = Job("", "", {}, "", 0, 30.0, 100.0, (), whole_budget=100.0)
    Examination(trial_on(table(), ragged), job, heard).run(wanted)
    told = {one.rule: one for one in (from_message(m["report"]) for m in heard if m["kind"] == "finished")}
    assert told[rules[0]].outcome is Outcome.FAIL
    assert told[rules[1]].outcome is Outcome.SKIP
    assert "see unreadable-sample" in told[rules[1]].reason
