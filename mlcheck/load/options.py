"""What a run of load is given: an entry point, files and limits."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from mlcheck.load.golden import read_golden
from mlcheck.load.limits import Limits
from mlcheck.load.locust_engine import Fleet
from mlcheck.load.queries import Log, Query, read_log, read_queries
from mlcheck.load.query_files import QueryFiles
from mlcheck.load.satisfaction import Ratings, read_ratings
from mlcheck.load.sbs import Judgements, read_judgements

INTERRUPTED = "interrupted: this is what was measured until then"


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """What to load and with which files; an empty path is a file that was not given. With a `fleet`, Locust asks.

    `live` is the entry point of the version that serves now.
    """

    entry: str
    queries: str = ""
    complex: str = ""
    golden: str = ""
    labelled: str = ""
    live: str = ""
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
class Files:
    """All files, read and checked before anything is started."""

    random: list[Query]
    complex: list[Query]
    golden: list[Query]
    labelled: list[Query]
    judgements: Judgements | None
    ratings: Ratings | None
    logs: QueryFiles


def read_files(options: LoadOptions) -> Files:
    """Read all files that are named. Raises Mistake at the first that is wrong."""
    labelled = read_queries(Path(options.labelled), ("label",)) if options.labelled else []
    answers = tuple(Path(path) for path in options.sbs_answers)
    random, complex_ = (read_log(Path(path)) if path else Log([], ()) for path in (options.queries, options.complex))
    broken = random.broken + complex_.broken
    return Files(
        random=random.queries,
        complex=complex_.queries,
        golden=read_golden(Path(options.golden)) if options.golden else [],
        labelled=labelled,
        judgements=read_judgements(Path(options.sbs_key), answers) if options.sbs_key else None,
        ratings=read_ratings(Path(options.ratings)) if options.ratings else None,
        logs=QueryFiles(len(random.queries) + len(complex_.queries) + len(broken), broken),
    )
