"""One run of `mlcheck load`: everything measured in turn, then judged; what was measured so far outlives Ctrl-C."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from mlcheck.core.report import Report
from mlcheck.load.cases import Conduct, GoldenRun, run_conduct, run_golden
from mlcheck.load.climb import Climb
from mlcheck.load.crew import Crew, StartFailed
from mlcheck.load.golden import read_golden
from mlcheck.load.ladder import COMPLEX, RANDOM, Ladder
from mlcheck.load.limits import Limits
from mlcheck.load.locust_engine import Fleet, LocustFailed, climb_with_locust
from mlcheck.load.machine import cores
from mlcheck.load.overhead import dispatch_us, overhead_us
from mlcheck.load.quality import LabelledRun, join
from mlcheck.load.queries import Query, read_queries
from mlcheck.load.satisfaction import Ratings, read_ratings
from mlcheck.load.sbs import Judgements, read_judgements
from mlcheck.load.start import Start
from mlcheck.load.survey import Survey, survey_of
from mlcheck.load.validity import validity
from mlcheck.load.verdicts import evidence_of, judge
from mlcheck.load.worker_process import Job

_SURVEY_S = 20.0
_SURVEY_ROWS = 200_000

Show = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """What to load and with which files; an empty path is a file that was not given. With a `fleet`, Locust asks."""

    entry: str
    queries: str = ""
    complex: str = ""
    golden: str = ""
    labelled: str = ""
    sbs_key: str = ""
    sbs_answers: tuple[str, ...] = ()
    ratings: str = ""
    limits: Limits = field(default_factory=Limits)
    seed: int = 0
    folder: str = "."
    fleet: Fleet | None = None
    only: tuple[str, ...] = ()

    @property
    def remote(self) -> bool:
        return self.entry.startswith(("http://", "https://"))


@dataclass(slots=True)
class _Files:
    """All files, read and checked before anything is started."""

    random: list[Query]
    complex: list[Query]
    golden: list[Query]
    labelled: list[Query]
    judgements: Judgements | None
    ratings: Ratings | None


def run_load(options: LoadOptions, show: Show | None = None, keep: Callable[[Report], None] | None = None) -> Report:
    """Measure and judge. Raises Mistake for a file or entry point that is wrong, before or while it starts.

    `keep` is given the report so far after every number of workers, so that a crash loses one of them at most.
    """
    started, clock = datetime.now().astimezone().isoformat(timespec="seconds"), time.monotonic()

    def report(*more: str) -> Report:
        return Report(
            command="load",
            subject=options.entry,
            results=tuple(judge(run.evidence, run.missing, options.only)),
            environment=run.environment,
            started=started,
            seconds=time.monotonic() - clock,
            notices=tuple(dict.fromkeys((*run.notices, *more))),
        )

    def keep_so_far() -> None:
        if keep is not None:
            keep(report("not finished: this was measured so far"))

    needed = evidence_of(options.only)
    run = _Run(options, _read(options), needed, show or (lambda *_: None), keep_so_far)
    try:
        run.measure()
    except KeyboardInterrupt:
        return report("interrupted: this is what was measured until then")
    return report()


def _read(options: LoadOptions) -> _Files:
    labelled = read_queries(Path(options.labelled), ("label",)) if options.labelled else []
    answers = tuple(Path(path) for path in options.sbs_answers)
    return _Files(
        random=read_queries(Path(options.queries)) if options.queries else [],
        complex=read_queries(Path(options.complex)) if options.complex else [],
        golden=read_golden(Path(options.golden)) if options.golden else [],
        labelled=labelled,
        judgements=read_judgements(Path(options.sbs_key), answers) if options.sbs_key else None,
        ratings=read_ratings(Path(options.ratings)) if options.ratings else None,
    )


@dataclass(slots=True)
class _Run:
    options: LoadOptions
    files: _Files
    needed: frozenset[type]
    show: Show
    keep: Callable[[], None]
    evidence: dict[type, Any] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    notices: list[str] = field(default_factory=list)
    missing: str = "it was not measured"

    def measure(self) -> None:
        options, files = self.options, self.files
        self.evidence[Limits] = options.limits
        if files.judgements is not None:
            self.evidence[Judgements] = files.judgements
        if files.ratings is not None:
            self.evidence[Ratings] = files.ratings
        try:
            self._conduct()
            if files.golden and GoldenRun in self.needed:
                self.evidence[GoldenRun] = run_golden(
                    options.entry,
                    Path(options.golden),
                    files.golden,
                    options.limits.load.query_timeout_s,
                    options.folder,
                    self.show,
                )
            if self.needed & {Survey, Ladder, LabelledRun}:
                self._survey()
            if Ladder in self.needed:
                self._climb()
        except StartFailed as failure:
            self.evidence[Start] = Start(failure.told, failure.traceback)
            self.missing = f"the service does not start: {failure.told}"

    def _conduct(self) -> None:
        self.show("trying the service", 0, 0)
        limits = self.options.limits
        queries = Path(self.options.queries) if self.options.queries else None
        conduct = run_conduct(
            self.options.entry, queries, limits.cases, limits.load.query_timeout_s, self.options.folder
        )
        self.evidence |= {Conduct: conduct, Start: Start()}
        self.environment |= conduct.environment | {
            "cores": f"{cores():g}",
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
        self.show("each query by itself", 0, 0)
        names = self._names()
        job = self._job({RANDOM: self.options.queries, "labelled": self._labelled_to_answer()})
        with tempfile.TemporaryDirectory(prefix="mlcheck-") as folder, Crew(job, Path(folder)) as crew:
            crew.resize(1, max(1, int(cores())))
            worker = crew.workers[0]
            samples, deaths = crew.survey(RANDOM, min(7 * len(names), _SURVEY_ROWS), _SURVEY_S)
            self.evidence[Survey] = survey_of(samples, names, worker.answer, worker.loaded, tuple(deaths))
            if not self.files.labelled or LabelledRun not in self.needed:
                return
            if self._labelled_to_answer():
                crew.resize(1, crew.threads)
                self.show("answers to labelled queries", 0, 0)
                answers = crew.answers("labelled", len(self.files.labelled))
            else:
                answers = [{"label": query.given["prediction"]} for query in self.files.labelled]
            self.evidence[LabelledRun] = join(self.files.labelled, answers)

    def _labelled_to_answer(self) -> str:
        """The labelled file, unless every line holds the prediction already."""
        return "" if all("prediction" in query.given for query in self.files.labelled) else self.options.labelled

    def _climb(self) -> None:
        options, files = self.options, self.files
        survey: Survey = self.evidence[Survey]
        names = {RANDOM: self._names()}
        mined = not files.complex and len(files.random) > 1 and bool(survey.slowest)
        subsets: dict[str, tuple[str, list[int]]] = {}
        if mined:
            subsets = {COMPLEX: (RANDOM, survey.worst)}
            names[COMPLEX] = tuple(survey.names[number] for number in survey.worst)
        elif files.complex:
            names[COMPLEX] = tuple(query.name for query in files.complex)
        if options.fleet is not None:
            self._ask_with_locust(options.fleet, names, mined)
            return
        job = self._job({RANDOM: options.queries, COMPLEX: options.complex}, subsets)
        with tempfile.TemporaryDirectory(prefix="mlcheck-") as folder, Crew(job, Path(folder)) as crew:
            plan = options.limits.load
            climb = Climb(
                crew, plan, {name: len(queries) for name, queries in names.items()}, options.seed, options.remote
            )
            climb.show = lambda told: self.show(told, 0, 0)
            before = list(self.notices)

            def note() -> None:
                ladder = Ladder(tuple(climb.rungs), names, plan, cores(), mined, climb.stopped, options.remote)
                if any(rung.phases for rung in climb.rungs):
                    self.evidence[Ladder] = ladder
                    self.notices = before + climb.notices + validity(ladder, options.seed)

            try:
                for workers in plan.workers:
                    climb.rung(workers)
                    note()
                    self.keep()
                    if climb.stopped:
                        break
            except KeyboardInterrupt:
                climb.stopped = "interrupted"
                raise
            finally:
                note()

    def _ask_with_locust(self, fleet: Fleet, names: dict[str, tuple[str, ...]], mined: bool) -> None:
        survey: Survey = self.evidence[Survey]
        files, plan = self.files, self.options.limits.load
        worst = [files.random[number] for number in survey.worst] if mined else files.complex
        sets = {RANDOM: files.random} | ({COMPLEX: worst} if worst else {})
        try:
            rung, told = climb_with_locust(self.options.entry, sets, plan, self.options.seed, fleet, self.show)
        except LocustFailed as failure:
            self.missing = str(failure)
            self.notices.append(self.missing)
            return
        ladder = Ladder((rung,), names, plan, cores(), mined, remote=True)
        self.evidence[Ladder] = ladder
        self.notices += [told, *validity(ladder, self.options.seed)]
