"""Runs the probes in child processes and returns a whole report, whatever the user's program does. No torch here."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from mlcheck.core.catalog import Catalog
from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.options import RuleOptions
from mlcheck.core.outcome import Outcome
from mlcheck.core.report import Report, Result
from mlcheck.probe.chosen import ENTRY_RULE, asks_for_ranks, probe_rules, rules_of
from mlcheck.probe.dump import last_user_line
from mlcheck.probe.job import Job, budget_spent
from mlcheck.probe.result import from_message, relocated, result_of
from mlcheck.trial.child import child_command
from mlcheck.trial.isolate import ChildEnd, End, run_child
from mlcheck.trial.memory import MemoryGuard

_START_UP_S = 60.0
_BUSY = 0.2
_SPENT = "raise --budget if it only needs longer, or give it less data or a smaller model"
_GPU_LOST = "the GPU stopped ({}), and answers no more: what was open was examined on the CPU, which names the line"
_STOPPED = {
    End.TIMEOUT: "raise --time-limit if it only needs longer, or give it less data",
    End.STOPPED_FOR_MEMORY: "raise --memory-limit if one is set; else smaller batches or a smaller model, for probing",
}


@dataclass(frozen=True, slots=True)
class ProbeOptions:
    """`time_limit` in seconds holds for each probe, `budget` for all; `folder` is where the program runs.
    `memory_limit` in bytes is for the program and what it starts, 0 for what the machine has.

    `arguments` are those of a script, as on its own command line. `only` and `skip` name rules or stages. `ranks` is
    how many processes stand for several devices; 0 for two where the program is meant for several, or is asked about.
    `cpu_shim` leads what the program asks of CUDA to the CPU. `epochs` is how long the run is planned to be, 0 for as
    its config says. `grid` is what a runner starts the script with. `rule_options` are the numbers that were set for
    single rules, checked.
    """

    entry: str
    config: str = ""
    hyperparameters: dict[str, Any] = field(default_factory=dict)
    prep: str = ""
    arguments: tuple[str, ...] = ()
    cpu_shim: bool = False
    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    seed: int = 0
    time_limit: float = 60.0
    budget: float = 600.0
    memory_limit: int = 0
    folder: str = "."
    ranks: int = 0
    epochs: int = 0
    grid: dict[str, Any] | None = None
    rule_options: RuleOptions = field(default_factory=dict)


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, with the report of what had been answered by then."""

    def __init__(self, report: Report) -> None:
        super().__init__()
        self.report = report


def run_probes(options: ProbeOptions, progress: Callable[[str, int, int], None] | None = None) -> Report:
    """Examine the entry point. Raises UnknownRule for a rule that no page or probe has, Interrupted for Ctrl-C."""
    started, clock = datetime.now().astimezone().isoformat(timespec="seconds"), time.monotonic()
    run = _Run(options, probe_rules(options.only, options.skip), progress)
    run.leave_out_costly()
    interrupted = False
    try:
        while run.open and time.monotonic() - clock < options.budget:
            run.child(options.budget - (time.monotonic() - clock))
    except KeyboardInterrupt:
        if ENTRY_RULE in run.open:
            raise
        interrupted = True
        run.notices.append(f"interrupted with {len(run.open)} of {len(run.rules)} probes open")
        run.give_up("interrupted before it was answered", Outcome.INCONCLUSIVE)
    run.give_up(budget_spent(options.budget, run.step_seconds), Outcome.INCONCLUSIVE)
    report = Report(
        command="probe",
        subject=options.entry,
        results=tuple(
            replace(relocated(run.results[rule], options.folder), options=options.rule_options.get(rule, {}))
            for rule in run.rules
        ),
        environment=run.environment,
        started=started,
        seconds=time.monotonic() - clock,
        notices=tuple(dict.fromkeys(run.notices)),
        step_seconds=run.step_seconds,
        ran=tuple(sorted(map(os.path.relpath, run.ran))),
    )
    if interrupted:
        raise Interrupted(report) from None
    return report


class _Run:
    """The state of one examination: what is answered, what is open, what killed a child."""

    def __init__(
        self, options: ProbeOptions, rules: tuple[str, ...], progress: Callable[[str, int, int], None] | None
    ) -> None:
        self._options = options
        self._progress = progress
        self._catalog = Catalog()
        self._began = time.monotonic()
        self._on_cpu = False
        self._dead: dict[str, str] = {}
        self._blocked: dict[str, str] = {}
        self._current, self._measuring, self._asked_at = ENTRY_RULE, "", self._began
        self.rules = rules
        self.results: dict[str, Result] = {}
        self.environment, self.notices = dict[str, str](), list[str]()
        self.step_seconds, self.ran = 0.0, set[str]()

    @property
    def open(self) -> tuple[str, ...]:
        return tuple(rule for rule in self.rules if rule not in self.results)

    def leave_out_costly(self) -> None:
        """What takes long is measured for those who chose it, by its name or its stage."""
        chosen = rules_of(self._catalog, self._options.only)
        for rule in self.rules:
            if rule not in chosen and (needs := self._catalog[rule].needs):
                reason = f"needs {needs}: choose it with --only {rule}"
                self.results[rule] = result_of(self._catalog[rule], Verdict(Outcome.SKIP, reason=reason))

    def child(self, budget: float) -> None:
        """Answer the open rules in one child, as far as it lives."""
        self._current, self._measuring = (ENTRY_RULE if ENTRY_RULE in self.open else ""), ""
        self._asked_at, options = time.monotonic(), self._options
        on_cpu = self._on_cpu
        job = Job(
            entry=options.entry,
            config=os.path.relpath(options.config, options.folder) if options.config else "",
            hyperparameters=options.hyperparameters,
            prep=options.prep,
            arguments=options.arguments,
            ranks=options.ranks or (2 if asks_for_ranks(self._catalog, options.only) else 0),
            cpu_shim=options.cpu_shim or on_cpu,
            without_gpu=on_cpu,
            epochs=options.epochs,
            grid=options.grid,
            memory_limit=options.memory_limit,
            seed=options.seed,
            time_limit=options.time_limit,
            budget=budget,
            whole_budget=options.budget,
            rules=self.open,
            rule_options=options.rule_options,
            dead=self._dead,
            blocked=self._blocked,
        )
        end = run_child(
            child_command("mlcheck.probe.worker", job.dumps()),
            time_limit_s=options.time_limit + _START_UP_S,
            cwd=options.folder,
            on_message=self._hear,
            memory=MemoryGuard(options.memory_limit),
        )
        if end.how is not End.FINISHED:
            self._bury(end)
        elif self.open and self._on_cpu is on_cpu:
            self.give_up("the probing process left without an answer")

    def _hear(self, message: dict[str, Any]) -> None:
        kind = message.get("kind")
        if kind == "environment":
            self.environment |= message["environment"]
        elif kind == "notices":
            self.notices += message["notices"]
        elif kind == "begun":
            self._current, self._measuring, self._asked_at = message["rule"], "", time.monotonic()
            if self._progress:
                self._progress(message["rule"], len(self.results), len(self.rules))
        elif kind == "measuring":
            self._measuring = message["measurement"]
        elif kind == "ran":
            self.ran.update(message["files"])
        elif kind == "step":
            self.step_seconds = message["seconds"]
        elif kind == "gpu lost":
            self._on_cpu = True
            self.notices.append(_GPU_LOST.format(message["error"]))
        elif kind == "failed":
            self._failed(message["error"], message["traceback"])
        elif kind == "blocked":
            self._blocked = message["blocked"]
        elif kind == "finished":
            result = from_message(message["report"])
            self.results[result.rule] = result
            self._measuring = ""
            if self._progress:
                self._progress(result.rule, len(self.results), len(self.rules))

    def _failed(self, error: str, trace: str) -> None:
        """mlcheck's own fault, not the program's: an error, with the traceback to send in."""
        rule = self._current if self._current in self.open else ENTRY_RULE
        told = f"mlcheck itself failed: {error}"
        self.results[rule] = result_of(self._catalog[rule], Verdict(Outcome.ERROR, told), traceback=trace)
        self.give_up(told)

    def _bury(self, end: ChildEnd) -> None:
        """The child died: say so where it died, and keep the others away from what killed it."""
        spent = end.how is End.TIMEOUT and time.monotonic() - self._began >= self._options.budget
        told = f"the budget of {self._options.budget:g} s was spent on it" if spent else str(end)
        help_ = _SPENT if spent else _STOPPED.get(end.how, "")
        if self._current and self._current != ENTRY_RULE and self._current not in self.results:
            outcome = Outcome.INCONCLUSIVE if end.how in _STOPPED else Outcome.ERROR
            self.results[self._current] = self._crash(self._current, outcome, told, end, help_)
            if self._measuring:
                self._dead[self._measuring] = f"measuring it ended the process; see {self._current}"
            return
        if ENTRY_RULE not in self.results:
            cut_short = end.busy > _BUSY or end.how is End.STOPPED_FOR_MEMORY
            outcome = Outcome.INCONCLUSIVE if cut_short else Outcome.FAIL
            told += "; it was computing all the while" if end.busy > _BUSY else ""
            self.results[ENTRY_RULE] = self._crash(ENTRY_RULE, outcome, told, end, help_)
        self.give_up(f"the entry point {'was not seen to' if end.busy > _BUSY else 'does not'} run: {told}")

    def _crash(self, rule: str, outcome: Outcome, told: str, end: ChildEnd, help_: str) -> Result:
        place = last_user_line(end.stack, self._options.folder)
        finding = Finding(told, place, help=help_)
        verdict = Verdict(outcome, summary=told, reason=told, findings=(finding,))
        took = time.monotonic() - self._asked_at
        return result_of(self._catalog[rule], verdict, took, end.stack or end.stderr[-4000:])

    def give_up(self, reason: str, outcome: Outcome = Outcome.SKIP) -> None:
        for rule in self.open:
            self.results[rule] = result_of(self._catalog[rule], Verdict(outcome, reason=reason))
