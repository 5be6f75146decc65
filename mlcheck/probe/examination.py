"""Measures once, judges every rule that asks, undoes each measurement and looks whether it is undone."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any, Protocol

from mlcheck.core.catalog import Catalog
from mlcheck.core.check import Check, Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.probe.control import Control
from mlcheck.probe.job import Job, budget_spent
from mlcheck.probe.measure.data.samples import HeldOutSamples, Samples
from mlcheck.probe.measure.measurement import Measurement, NotMeasured, Particular, Seldom, Unexplained
from mlcheck.probe.measure.place import raised_at
from mlcheck.probe.measure.training.called import Called
from mlcheck.probe.measure.training.rehearsal import Rehearsal
from mlcheck.probe.measure.training.short_run import ShortRun
from mlcheck.probe.needs import measurements_of, optional_measurements
from mlcheck.probe.plan import ordered, weight_of
from mlcheck.probe.result import result_of, to_message
from mlcheck.trial.generators import global_cells, seed_all
from mlcheck.trial.lost_gpu import look_at_gpu, stopped
from mlcheck.trial.sandbox import restored
from mlcheck.trial.traceback import error_line, user_traceback
from mlcheck.trial.trial import NotReached, RejectedConfig, Trial

_GRACE_S = 10.0
Asked = tuple[Check, list[type[Measurement]]]


class Listener(Protocol):
    """Who is informed of an examination's progress: the channel to a parent process, or the caller."""

    def send(self, message: dict[str, Any]) -> None: ...


class Broken(Exception):
    """A measurement raised: its first asker reports the error, the others refer to it."""


class Examination:
    """One trial, examined. Measurements are kept by type: those of a check are its parameters' annotations."""

    def __init__(self, trial: Trial, job: Job, listener: Listener) -> None:
        self._trial, self._job, self._listener = trial, job, listener
        self._catalog = Catalog()
        self._kept: dict[type[Measurement], Measurement | NotMeasured] = {}
        self._broken: dict[type[Measurement], str] = {}
        self._untold: dict[type[Measurement], Exception] = {}
        self._blocked = dict(job.blocked)
        if "loss" in trial.supplied:
            self._blocked["loss"] = "your program gives no loss, and the model computes none"
        self._end = time.monotonic() + job.budget

    def run(self, checks: list[Check]) -> None:
        """Run every check, first those that are most informative for their cost. Raises GpuLost where a GPU stops."""
        wanted = [(check, measurements_of(check.run)) for check in checks]
        drawn_next = list(global_cells())
        try:
            self._ask(wanted)
        finally:
            for cell in drawn_next if not stopped() else ():
                cell.restore()

    def _ask(self, wanted: list[Asked]) -> None:
        waiting: list[tuple[Check, Verdict, float, str]] = []
        queue = self._ordered(wanted)
        while queue:
            check, types = queue.pop(0)
            self._listener.send({"kind": "begun", "rule": check.rule, "time_limit_s": self._limit(_GRACE_S)})
            begun = time.monotonic()
            verdict, trace = self._answer(check, types)
            look_at_gpu()
            if verdict.outcome is Outcome.ERROR:
                waiting.append((check, verdict, time.monotonic() - begun, trace))
                continue
            result = result_of(self._catalog[check.rule], verdict, time.monotonic() - begun, trace)
            self._listener.send({"kind": "finished", "report": to_message(result)})
            if Rehearsal in types:
                self._block(self._kept.get(Rehearsal))
                queue = self._ordered(queue)
        for check, verdict, seconds, trace in waiting:
            verdict, trace = self._told_elsewhere(verdict, trace)
            result = result_of(self._catalog[check.rule], verdict, seconds, trace)
            self._listener.send({"kind": "finished", "report": to_message(result)})

    def _ordered(self, wanted: list[Asked]) -> list[Asked]:
        """By what they tell for their cost, as far as it is known by now."""
        return ordered(wanted, lambda rule: weight_of(self._catalog[rule]), *self._pace)

    @property
    def _pace(self) -> tuple[float, float]:
        """What a training step was seen to take, and reading a batch; 0 before one was."""
        rehearsal = self._kept.get(Rehearsal)
        return (rehearsal.step_seconds, rehearsal.batch_seconds) if isinstance(rehearsal, Rehearsal) else (0.0, 0.0)

    def _told_elsewhere(self, verdict: Verdict, trace: str) -> tuple[Verdict, str]:
        """A step that raises in a longer run, too, or a sample that cannot be read, is the program's own, told once."""
        run = self._kept.get(ShortRun)
        if isinstance(run, ShortRun) and run.error and run.error == verdict.summary:
            reason = f"training step {run.steps + 1} raises {run.error}: see later-step-breaks"
            return Verdict(Outcome.SKIP, reason=reason), ""
        read = (self._kept.get(Samples), self._kept.get(HeldOutSamples))
        splits = [split for one in read if isinstance(one, Samples | HeldOutSamples) for split in one.splits]
        if any(split.raises(verdict.summary) for split in splits):
            reason = f"reading the data raises {verdict.summary}: see unreadable-sample"
            return Verdict(Outcome.SKIP, reason=reason), ""
        return verdict, trace

    def _answer(self, check: Check, types: list[type[Measurement]]) -> tuple[Verdict, str]:
        optional = optional_measurements(check.run)
        late = time.monotonic() > self._end
        if not late and any(issubclass(needed, Seldom) for needed in types):
            self._see_what_is_called(check)
        for needed in types:
            if (why := self._out_of_reach(needed)) and needed not in optional:
                return Verdict(Outcome.SKIP, reason=why), ""
        if late and any(needed not in self._kept for needed in types if needed not in optional):
            return self._open(), ""
        try:
            given = [self._given(needed, check, late) for needed in types]
            verdict: Verdict = check.run(*given, **self._job.rule_options.get(check.rule, {}))
            if late and verdict.outcome is not Outcome.FAIL and any(map(self._is_open, types)):
                return self._open(), ""  # a failure holds whatever else would have been measured
            return verdict, verdict.traceback
        except NotMeasured as reason:
            return Verdict(reason.outcome, reason=reason.reason), reason.traceback
        except Broken as earlier:
            return Verdict(Outcome.SKIP, reason=str(earlier)), ""
        except Exception as error:
            line = error_line(error)
            if self._is_known(line):
                return Verdict(Outcome.SKIP, reason=f"it stops as the entry point does: {line}"), ""
            finding = Finding(f"the probe stopped at {line}", raised_at(error))
            return Verdict(Outcome.ERROR, summary=line, findings=(finding,)), user_traceback(error)

    def _see_what_is_called(self, check: Check) -> None:
        """One step that spares those at what this program does not have; where it fails, all are tried."""
        if Called not in self._kept and not self._out_of_reach(Called):
            with suppress(Exception):
                self._measured(Called, check.rule)

    def _open(self) -> Verdict:
        budget = self._job.whole_budget or self._job.budget
        return Verdict(Outcome.INCONCLUSIVE, reason=budget_spent(budget, self._pace[0]))

    def _is_open(self, needed: type[Measurement]) -> bool:
        """Whether it could be measured and was not."""
        return needed not in self._kept and needed not in self._untold and not self._out_of_reach(needed)

    def _is_known(self, line: str) -> bool:
        """Whether the rehearsal broke on the same error, so that `entry-does-not-run` tells of it."""
        rehearsal = self._kept.get(Rehearsal)
        return isinstance(rehearsal, Rehearsal) and any(one.error == line for one in rehearsal.breakages)

    def _limit(self, grace: float = 0.0) -> float:
        """What one probe may take: its own limit, or what is left of the budget."""
        return min(self._job.time_limit, max(1.0, self._end - time.monotonic()) + grace)

    def _out_of_reach(self, needed: type[Measurement]) -> str:
        """Why this cannot be measured, empty where it can."""
        if needed.reach in self._blocked and needed is not Rehearsal:
            return self._blocked[needed.reach]
        if why := self._job.dead.get(needed.__name__, ""):
            return why
        called = self._kept.get(Called)
        if isinstance(called, Called) and issubclass(needed, Seldom) and (why := needed.absent(called.names)):
            return why
        return needed.unfit(self._trial) if issubclass(needed, Particular) else ""

    def _given(self, needed: type[Measurement], check: Check, late: bool) -> Measurement | None:
        """What a check asks for; None in place of what it can do without. `late`: nothing more is measured."""
        if late and needed not in self._kept:
            return None
        if needed not in optional_measurements(check.run):
            return self._measured(needed, check.rule)
        if self._out_of_reach(needed) or needed in self._untold:
            return None
        try:
            return self._measured(needed, check.rule)
        except (NotMeasured, Broken):  # its own check tells why
            return None
        except Exception as error:  # whoever cannot do without it is to tell
            self._untold[needed] = error
            return None

    def _measured(self, needed: type[Measurement], rule: str) -> Measurement:
        if needed in self._untold:
            self._broken[needed] = rule
            raise self._untold.pop(needed)
        if needed in self._broken:
            raise Broken(f"the measurement raised an error; see {self._broken[needed]}")
        if needed not in self._kept:
            self._listener.send({"kind": "measuring", "measurement": needed.__name__})
            try:
                self._kept[needed] = self._measure(needed)
            except Exception:
                self._broken[needed] = rule
                raise
        kept = self._kept[needed]
        if isinstance(kept, NotMeasured):
            raise kept
        return kept

    def _measure(self, needed: type[Measurement], again: bool = True) -> Measurement | NotMeasured:
        seed_all(self._job.seed)
        control = Control(self._trial, self._job.seed)
        try:
            with restored(self._trial) as state, control.counting():
                try:
                    found: Measurement | NotMeasured = needed.measure(self._trial, self._limit())
                except NotMeasured as reason:
                    found = reason
        except NotReached as why:
            if why.used_up and again:
                return self._measure(needed, again=False)
            return NotMeasured(str(why), Outcome.INCONCLUSIVE)
        except RejectedConfig as why:
            told = f"the trial rejects its hyperparameters: {why}; choose others with --hp NAME=VALUE"
            return NotMeasured(told, Outcome.ERROR if needed is Rehearsal else Outcome.SKIP)
        except Exception as error:
            other = control.explained(error, self._job.time_limit / 4) if needed.reach in ("step", "loss") else None
            if other is None:
                raise
            return other
        self._tell_unrestored(needed, state)
        if isinstance(found, Unexplained) and found.is_unexplained():
            self._explain(found)
        return found

    def _explain(self, found: Unexplained) -> None:
        """The second look is for the report only: what happens to it changes no verdict."""
        seed_all(self._job.seed)
        with suppress(Exception, NotReached), restored(self._trial):
            found.explain(self._trial)

    def _tell_unrestored(self, needed: type[Measurement], state: Any) -> None:
        left = getattr(state, "unrestored", ())
        if left:
            text = f"after {needed.__name__} this could not be restored: {', '.join(map(str, left))}"
            self._listener.send({"kind": "notices", "notices": [text]})

    def _block(self, rehearsal: object) -> None:
        """What the rehearsal could not reach, no other probe needs to try."""
        if not isinstance(rehearsal, Rehearsal):
            return
        self._listener.send({"kind": "step", "seconds": rehearsal.step_seconds})
        told = rehearsal.breakages[0].error if rehearsal.breakages else ""
        if not rehearsal.can_read:
            unread = f"the training data cannot be read: {told or 'the loader is empty'}"
            self._blocked |= dict.fromkeys(("data", "step", "loss"), unread)
        elif not rehearsal.can_step:
            self._blocked |= dict.fromkeys(("step", "loss"), f"the training step does not run: {told}")
        self._listener.send({"kind": "blocked", "blocked": self._blocked})
