"""Raw timestamps of every query, in a file that outlives the worker that writes it."""

from __future__ import annotations

import mmap
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]

FIELDS = 6
HEADER = FIELDS
OPEN, ANSWERED, FAILED = 0, 1, 2


def create(path: Path, rows: int) -> None:
    """An empty record for `rows` queries. Pages that are never written take no space."""
    with open(path, "wb") as file:
        file.truncate(8 * (HEADER + FIELDS * rows))


class Record:
    """The writing end. Six 64-bit integers a query, in nanoseconds of the monotonic clock that all processes share:

    query number, when it was due, when the worker was free for it, start, end, status. The first row is a
    header whose first number counts the queries begun: after a crash the last row names the query in flight.
    """

    def __init__(self, path: Path) -> None:
        with open(path, "r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)
        self.view = memoryview(self._map).cast("q")
        self.rows = len(self.view) // FIELDS - 1

    def close(self) -> None:
        self.view.release()
        self._map.close()


@dataclass(frozen=True, slots=True)
class Samples:
    """Queries of one phase, by all its workers, in the order in which they were begun. Nanoseconds."""

    worker: Integers
    query: Integers
    due: Integers
    free: Integers
    start: Integers
    end: Integers
    status: Integers

    def __len__(self) -> int:
        return len(self.query)

    def take(self, chosen: npt.NDArray[np.bool_] | npt.NDArray[np.intp] | slice) -> Samples:
        return Samples(*(getattr(self, name)[chosen] for name in Samples.__slots__))

    @property
    def answered(self) -> Samples:
        return self.take(self.status == ANSWERED)

    @property
    def latency_ms(self) -> npt.NDArray[np.float64]:
        """From the moment a query was due, whoever was to blame that it began late."""
        return (self.end - self.due) / 1e6

    @property
    def service_ms(self) -> npt.NDArray[np.float64]:
        """From the moment the worker began."""
        return (self.end - self.start) / 1e6


def read(paths: list[Path]) -> Samples:
    """Merge the records of all workers; `worker` counts `paths`."""
    parts = []
    for number, path in enumerate(paths):
        with open(path, "rb") as file:  # a record has room for far more than was written
            begun = int(np.fromfile(file, dtype=np.int64, count=1)[0])
            file.seek(8 * HEADER)
            rows = np.fromfile(file, dtype=np.int64, count=begun * FIELDS).reshape(-1, FIELDS)
        parts.append(np.column_stack((np.full(len(rows), number), rows)))
    merged = np.concatenate(parts) if parts else np.empty((0, FIELDS + 1), dtype=np.int64)
    merged = merged[np.argsort(merged[:, 4], kind="stable")]
    return Samples(*(np.ascontiguousarray(merged[:, column]) for column in range(FIELDS + 1)))


def progress(path: Path) -> tuple[int, int, int]:
    """Of a record that is being written: queries begun, and query number and start of one in flight, else -1 and 0."""
    with open(path, "rb") as file:
        begun = int(np.fromfile(file, dtype=np.int64, count=1)[0])
        if not begun:
            return 0, -1, 0
        file.seek(8 * (HEADER + FIELDS * (begun - 1)))
        row = np.fromfile(file, dtype=np.int64, count=FIELDS)
    flying = row[3] > 0 and row[5] == OPEN
    return begun, int(row[0]) if flying else -1, int(row[3]) if flying else 0
