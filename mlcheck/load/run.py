"""One run of `mlcheck load`: everything measured in turn, then judged; what was measured so far outlives Ctrl-C."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from mlcheck.core.check import Verdict
from mlcheck.core.cores import usable_cores
from mlcheck.core.outcome import Outcome
from mlcheck.core.report import Report
from mlcheck.load.cases import Conduct, GoldenRun, run_conduct, run_golden
from mlcheck.load.climb import Climb
from mlcheck.load.crew import Crew, StartFailed
from mlcheck.load.ladder import COMPLEX, RANDOM, Ladder
from mlcheck.load.limits import Limits
from mlcheck.load.locust_engine import Fleet, LocustFailed, climb_with_locust
from mlcheck.load.options import INTERRUPTED, Files, LoadOptions, read_files
from mlcheck.load.overhead import dispatch_us, overhead_us
from mlcheck.load.quality import LabelledRun, join
from mlcheck.load.query_files import QueryFiles
from mlcheck.load.satisfaction import Ratings
from mlcheck.load.sbs import Judgements
from mlcheck.load.start import Start
from mlcheck.load.survey import Survey, survey_of
from mlcheck.load.validity import validity
from mlcheck.load.verdicts import evidence_of, judge
from mlcheck.load.worker_process import Job
from mlcheck.trial.processes import termination_raises

_LEAST_SURVEY_S, _MOST_SURVEY_S = 5.0, 20.0
_SURVEY_ROWS = 200_000

Show = Callable[[str, int, int], None]


def run_load(options: LoadOptions, show: Show | None = None, keep: Callable[[Report], None] | None = None) -> Report:
    """Measure and judge. Raises Mistake for a file or entry point that is wrong, before or while it starts.

    `keep` is given the report so far after every phase, so that a crash loses one of them at most.
    """
    started, clock = datetime.now().astimezone().isoformat(timespec="seconds"), time.monotonic()

    def report(*more: str) -> Report:
        return Report(
            command="load",
            subject=options.entry,
            results=tuple(judge(run.evidence, run.missing, options.only, run.given)),
            environment=run.environment,
            started=started,
            seconds=time.monotonic() - clock,
            notices=tuple(dict.fromkeys((*run.notices, *more))),
        )

    def keep_so_far() -> None:
        if keep is not None:
            keep(report("not finished: this was measured so far"))

    needed = evidence_of(options.only)
    run = _Run(options, read_files(options), needed, show or (lambda *_: None), keep_so_far)
    try:
        with termination_raises():
            run.measure()
    except KeyboardInterrupt:
        run.missing = Verdict(Outcome.INCONCLUSIVE, reason="interrupted before it was measured")
        return report(INTERRUPTED)
    return report()


@dataclass(slots=True)
class _Run:
    options: LoadOptions
    files: Files
    needed: frozenset[type]
    show: Show
    keep: Callable[[], None]
    evidence: dict[type, Any] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    notices: list[str] = field(default_factory=list)
    missing: Verdict = field(default_factory=lambda: Verdict(Outcome.SKIP, reason="it was not measured"))
    steps: int = 0

    @property
    def given(self) -> frozenset[type]:
        files = {GoldenRun: self.files.golden, LabelledRun: self.files.labelled}
        return frozenset(kind for kind, queries in files.items() if queries)

    def step(self, told: str) -> None:
        """Show what comes next: three steps before the ladder, then a start and up to four phases a rung."""
        self.steps += 1
        self.show(told, self.steps, max(self.steps, 3 + 5 * len(self.options.limits.load.workers)))

    def measure(self) -> None:
        options, files = self.options, self.files
        self.evidence |= {Limits: options.limits, QueryFiles: files.logs}
        if files.judgements is not None:
            self.evidence[Judgements] = files.judgements
        if files.ratings is not None:
            self.evidence[Ratings] = files.ratings
        try:
            self._conduct()
            self.keep()
            if files.golden and GoldenRun in self.needed:
                self.evidence[GoldenRun] = run_golden(
                    options.entry,
                    Path(options.golden),
                    files.golden,
                    options.limits.load.query_timeout_s,
                    options.folder,
                    self.show,
                )
                self.keep()
            if self.needed & {Survey, Ladder, LabelledRun}:
                self._survey()
                self.keep()
            if Ladder in self.needed:
                self._climb()
        except StartFailed as failure:
            self.evidence[Start] = Start(failure.told, failure.traceback, options.entry if options.remote else "")
            self.missing = Verdict(Outcome.SKIP, reason=f"the service does not start: {failure.told}")

    def _conduct(self) -> None:
        self.step("trying the service")
        limits = self.options.limits
        queries = Path(self.options.queries) if self.options.queries else None
        conduct = run_conduct(
            self.options.entry, queries, limits.cases, limits.load.query_timeout_s, self.options.folder
        )
        self.evidence |= {Conduct: conduct, Start: Start()}
        self.environment |= conduct.environment | {
            "cores": f"{usable_cores():g}",
            "seed": str(self.options.seed),
            "harness overhead": f"{overhead_us():.2g} µs of CPU a query, {dispatch_us():.2g} µs at a rate",
        }
        self.notices += conduct.notices

    def _job(self, sets: dict[str, str], subsets: dict[str, tuple[str, list[int]]] | None = None) -> Job:
        paths = {name: str(Path(path).resolve()) for name, path in sets.items() if path}
        timeout = self.options.limits.load.query_timeout_s
        return Job(
            self.options.entry, paths, self.options.seed, subsets or {}, self.options.folder, query_timeout_s=timeout
        )

    def _names(self) -> tuple[str, ...]:
        return tuple(query.name for query in self.files.random) or ("the model's example input",)

    def _survey(self) -> None:
        """Each query by itself in one worker, and the answers to the labelled ones."""
        self.step("each query by itself")
        names = self._names()
        labelled = self.files.labelled if LabelledRun in self.needed else []
        job = self._job({RANDOM: self.options.queries, "labelled": self._labelled_to_answer()})
        with tempfile.TemporaryDirectory(prefix="mlcheck-") as folder, Crew(job, Path(folder)) as crew:
            crew.resize(1, max(1, int(usable_cores())))
            worker = crew.workers[0]
            seconds = max(_LEAST_SURVEY_S, min(_MOST_SURVEY_S, 2 * self.options.limits.load.duration_s))
            samples, deaths = crew.survey(RANDOM, min(7 * len(names), _SURVEY_ROWS), seconds)
            self.evidence[Survey] = survey_of(samples, names, worker.answer, worker.loaded, tuple(deaths))
            answers = [{"label": query.given.get("prediction")} for query in labelled]
            if labelled and self._labelled_to_answer():
                crew.resize(1, crew.threads)
                self.step("answers to labelled queries")
                answers = crew.answers("labelled", len(labelled))
        if labelled:
            live, silent = self._live_answers()
            self.evidence[LabelledRun] = join(labelled, answers, live, silent)

    def _live_answers(self) -> tuple[list[dict[str, Any]] | None, str]:
        """What the live version answers to the labelled queries, or why it does not."""
        entry = self.options.live
        if not entry:
            return None, ""
        self.step("answers of the live version")
        job = replace(self._job({"labelled": self.options.labelled}), entry=entry)
        with tempfile.TemporaryDirectory(prefix="mlcheck-") as folder, Crew(job, Path(folder)) as crew:
            try:
                crew.resize(1, max(1, int(usable_cores())))
                return crew.answers("labelled", len(self.files.labelled)), ""
            except StartFailed as failure:
                silent = f"the live version does not answer: {failure.told}"
                self.notices.append(f"{entry}: {silent}")
                return None, silent

    def _labelled_to_answer(self) -> str:
        """The labelled file, unless every line holds the prediction already."""
        return "" if all("prediction" in query.given for query in self.files.labelled) else self.options.labelled

    def _names_of_ladder(self, mined: bool) -> dict[str, tuple[str, ...]]:
        """The queries by name; without a file of the worst, those that were `mined` from the random ones."""
        survey: Survey = self.evidence[Survey]
        worst: tuple[str, ...] = tuple(survey.names[number] for number in survey.worst) if mined else ()
        worst = worst or tuple(query.name for query in self.files.complex)
        return {RANDOM: self._names(), **({COMPLEX: worst} if worst else {})}

    def _climb(self) -> None:
        options, files = self.options, self.files
        survey: Survey = self.evidence[Survey]
        mined = not files.complex and len(files.random) > 1 and bool(survey.slowest)
        names = self._names_of_ladder(mined)
        subsets = {COMPLEX: (RANDOM, survey.worst)} if mined else {}
        if options.fleet is not None:
            self._ask_with_locust(options.fleet, names, mined)
            return
        job = self._job({RANDOM: options.queries, COMPLEX: options.complex}, subsets)
        with tempfile.TemporaryDirectory(prefix="mlcheck-") as folder, Crew(job, Path(folder)) as crew:
            plan = options.limits.load
            climb = Climb(
                crew, plan, {name: len(queries) for name, queries in names.items()}, options.seed, options.remote
            )
            climb.show = self.step
            before = list(self.notices)

            def note(left: int) -> None:
                stopped = climb.stopped or (f"{left} more were to come" if left else "")
                ladder = Ladder(tuple(climb.rungs), names, plan, usable_cores(), mined, stopped, options.remote)
                if any(rung.phases for rung in climb.rungs):
                    self.evidence[Ladder] = ladder
                    self.notices = before + climb.notices + validity(ladder, options.seed)

            def kept_so_far(left: int) -> None:
                note(left)
                self.keep()

            try:
                for place, workers in enumerate(plan.workers):
                    climb.phase_done = partial(kept_so_far, len(plan.workers) - place)
                    climb.rung(workers)
                    kept_so_far(len(plan.workers) - place - 1)
                    if climb.stopped:
                        break
            except KeyboardInterrupt:
                climb.stopped = "interrupted"
                raise
            finally:
                note(0)

    def _ask_with_locust(self, fleet: Fleet, names: dict[str, tuple[str, ...]], mined: bool) -> None:
        survey: Survey = self.evidence[Survey]
        files, plan = self.files, self.options.limits.load
        worst = [files.random[number] for number in survey.worst] if mined else files.complex
        sets = {RANDOM: files.random} | ({COMPLEX: worst} if worst else {})
        try:
            rung, told = climb_with_locust(self.options.entry, sets, plan, self.options.seed, fleet, self.step)
        except LocustFailed as failure:
            self.missing = Verdict(Outcome.SKIP, reason=str(failure))
            self.notices.append(self.missing.reason)
            return
        ladder = Ladder((rung,), names, plan, usable_cores(), mined, remote=True, users=True)
        self.evidence[Ladder] = ladder
        self.notices += [told, *validity(ladder, self.options.seed)]
