"""The worker's loops, on clocks that only move when told to: what is recorded, and against which moment."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlcheck.load import records
from mlcheck.load.arrivals import arrivals
from mlcheck.load.loops import TICKET, closed_loop, open_loop, ticket_reader
from mlcheck.load.percentiles import percentile
from mlcheck.load.records import Record, Samples
from mlcheck.load.worker import order_of

S = 1_000_000_000
FAR = 1 << 60


class Clock:
    """Time in nanoseconds that passes while a query is served or a worker sleeps, and not otherwise."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += max(1, round(seconds * S))


def record_of(folder: Path, rows: int) -> tuple[Path, Record]:
    path = folder / f"{len(list(folder.iterdir()))}.rec"
    records.create(path, rows)
    return path, Record(path)


def no_error(number: int, error: BaseException) -> None:
    raise AssertionError(number) from error


def run_open(folder: Path, due: list[int], serve: Callable[[int], int], until: int = FAR) -> Samples:
    """One worker serves queries due at these times; `serve` says how long each takes, by the time it begins."""
    clock = Clock()
    tickets = iter(TICKET.pack(offset, number) for number, offset in enumerate(due))
    path, record = record_of(folder, len(due) + 1)

    def predict(_: Any) -> None:
        clock.now += serve(clock.now)

    open_loop(
        predict,
        list(range(len(due))),
        lambda: next(tickets, b""),
        record,
        0,
        until,
        no_error,
        clock=clock,
        sleep=clock.sleep,
    )
    record.close()
    return records.read([path])


def stalled(now: int) -> int:
    """A tenth of a millisecond; the service stands still from second 4 to second 5."""
    return 100_000 if not 4 * S <= now < 5 * S else 5 * S - now


def test_a_stall_is_charged_to_every_query_that_was_due(tmp_path: Path) -> None:
    """1 s of 10 s at 100/s: p99 in theory is the stall less a hundredth of the run, 900 ms."""
    samples = run_open(tmp_path, [i * S // 100 for i in range(1000)], stalled)
    assert percentile(np.sort(samples.latency_ms), 0.99) == pytest.approx(900, rel=0.03)
    assert percentile(np.sort(samples.service_ms), 0.99) == pytest.approx(0.1, rel=0.03)


def test_random_arrivals_see_the_stall_alike(tmp_path: Path) -> None:
    offsets, _ = arrivals(1000, 10, 5, seed=1)
    samples = run_open(tmp_path, offsets.tolist(), stalled)
    assert percentile(np.sort(samples.latency_ms), 0.99) == pytest.approx(900, rel=0.03)


def test_a_closed_loop_hides_the_same_stall(tmp_path: Path) -> None:
    clock, (path, record) = Clock(), record_of(tmp_path, 100_000)

    def predict(_: Any) -> None:
        clock.now += stalled(clock.now)
        clock.now += 9_900_000  # a client that paces itself at 100 queries a second

    closed_loop(predict, [0], [0], record, 10 * S, no_error, clock=clock)
    record.close()
    samples = records.read([path])
    assert len(samples) < 1000
    assert percentile(np.sort(samples.latency_ms), 0.99) < 15


class TurnTaking:
    """Lets the worker whose clock is furthest behind go on, so that N threads share one simulated time."""

    def __init__(self, workers: int, tickets: Iterator[bytes]) -> None:
        self._times: dict[int, int] = dict.fromkeys(range(workers), 0)
        self._tickets = tickets
        self._turn = threading.Condition()

    def next_ticket(self, worker: int, clock: Clock) -> bytes:
        with self._turn:
            self._times[worker] = clock.now
            self._turn.notify_all()
            self._turn.wait_for(lambda: (clock.now, worker) == min((t, w) for w, t in self._times.items()))
            ticket = next(self._tickets, b"")
            if not ticket:
                del self._times[worker]
            else:  # it waits for the query to be due: the others may go on until then
                self._times[worker] = max(clock.now, TICKET.unpack(ticket)[0]) + 1
            self._turn.notify_all()
            return ticket


def erlang_c(workers: int, load: float) -> float:
    """The chance to wait in M/M/N; `load` in erlangs."""
    last = load**workers / math.factorial(workers) * workers / (workers - load)
    return last / (sum(load**k / math.factorial(k) for k in range(workers)) + last)


@pytest.mark.parametrize(("workers", "utilisation"), [(1, 0.6), (3, 0.75)])
def test_workers_share_one_queue_as_theory_has_it(tmp_path: Path, workers: int, utilisation: float) -> None:
    """The mean wait of M/M/N by Erlang's formula, from the very loop that measures."""
    service_s, seconds = 0.001, 60.0
    rate = utilisation * workers / service_s
    offsets, _ = arrivals(rate, seconds * 3 / workers, 1, seed=5)
    random = np.random.default_rng(6)
    length = (random.exponential(service_s, size=len(offsets)) * S).astype(int).tolist()
    turns = TurnTaking(workers, iter(TICKET.pack(offset, number) for number, offset in enumerate(offsets.tolist())))
    places = [record_of(tmp_path, len(offsets) + 1) for _ in range(workers)]

    def work(worker: int) -> None:
        clock, record = Clock(), places[worker][1]

        def predict(number: int) -> None:
            clock.now += length[number]

        open_loop(
            predict, range(len(offsets)), lambda: turns.next_ticket(worker, clock), record, 0, FAR, no_error,
            clock=clock, sleep=clock.sleep,
        )  # fmt: skip
        record.close()

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    samples = records.read([path for path, _ in places])
    assert len(samples) == len(offsets)
    wait = float(np.mean(samples.start - samples.due)) / S
    theory = erlang_c(workers, utilisation * workers) * service_s / (workers * (1 - utilisation))
    assert wait == pytest.approx(theory, rel=0.05)


def test_an_idle_worker_waits_until_a_query_is_due(tmp_path: Path) -> None:
    samples = run_open(tmp_path, [0, S, 2 * S], lambda _: S // 10)
    assert samples.due.tolist() == samples.start.tolist() == [0, S, 2 * S]
    assert samples.free.tolist() == [0, S // 10, S + S // 10]


def test_the_open_loop_ends_at_its_deadline_with_the_last_query_not_begun(tmp_path: Path) -> None:
    samples = run_open(tmp_path, [0, 0, 0, 0], lambda _: S, until=2 * S)
    assert sorted(samples.status.tolist()) == [records.OPEN, records.ANSWERED, records.ANSWERED]


def test_errors_are_recorded_and_the_loop_goes_on(tmp_path: Path) -> None:
    clock, (path, record) = Clock(), record_of(tmp_path, 6)
    seen: list[tuple[int, str]] = []
    looked: list[tuple[int, Any]] = []

    def predict(query: int) -> int:
        clock.now += 5
        if query == 1:
            raise ValueError("one")
        return query * 10

    closed_loop(
        predict, [0, 1, 2], [2, 1, 0], record, FAR, lambda number, error: seen.append((number, str(error))),
        lambda number, answer: looked.append((number, answer)), clock=clock,
    )  # fmt: skip
    record.close()
    samples = records.read([path])
    assert samples.query.tolist() == [2, 1, 0, 2, 1, 0]
    assert samples.status.tolist() == [1, 2, 1, 1, 2, 1]
    assert samples.service_ms.tolist() == [5e-6] * 6
    assert seen == [(1, "one"), (1, "one")]
    assert looked == [(2, 20), (0, 0), (2, 20), (0, 0)]


def test_a_query_in_flight_can_be_named_from_outside(tmp_path: Path) -> None:
    path, record = record_of(tmp_path, 5)
    seen = []

    def predict(query: str) -> None:
        seen.append(records.progress(path))

    closed_loop(predict, ["a", "b"], [1, 0], record, 10, no_error, clock=iter([3, 4, 7, 8, 99]).__next__)
    assert seen == [(1, 1, 3), (2, 0, 7)]
    assert records.progress(path) == (2, -1, 0)
    record.close()


def test_records_of_all_workers_are_merged_in_the_order_they_began(tmp_path: Path) -> None:
    paths = []
    for times in ([10, 30], [20]):
        path, record = record_of(tmp_path, len(times))
        closed_loop(
            lambda _: None, [0], [0], record, FAR, no_error, clock=iter([t for t in times for _ in "ab"]).__next__
        )
        record.close()
        paths.append(path)
    merged = records.read(paths)
    assert merged.start.tolist() == [10, 20, 30]
    assert merged.worker.tolist() == [0, 1, 0]
    assert len(records.read([])) == 0


def test_every_ticket_goes_to_one_reader_only(tmp_path: Path) -> None:
    path = tmp_path / "tickets"
    path.write_bytes(b"".join(TICKET.pack(number, number) for number in range(5000)))
    descriptor = os.open(path, os.O_RDONLY)
    taken: list[list[int]] = [[], []]

    def take(mine: list[int]) -> None:
        read = ticket_reader(descriptor)
        while ticket := read():
            mine.append(TICKET.unpack(ticket)[0])

    threads = [threading.Thread(target=take, args=(mine,)) for mine in taken]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    os.close(descriptor)
    assert sorted(taken[0] + taken[1]) == list(range(5000))


def test_arrivals_are_a_poisson_process() -> None:
    offsets, numbers = arrivals(200, 50, 7, seed=3)
    gaps = np.diff(offsets) / S
    assert len(offsets) == pytest.approx(10_000, rel=0.04)
    assert gaps.mean() == pytest.approx(1 / 200, rel=0.03)
    assert gaps.std() == pytest.approx(1 / 200, rel=0.05)
    assert set(numbers.tolist()) == set(range(7))
    again, _ = arrivals(200, 50, 7, seed=3)
    assert again.tolist() == offsets.tolist()


def test_each_complex_query_comes_as_often_as_every_other() -> None:
    _, numbers = arrivals(100, 10, 9, seed=0, each_once=True)
    counts = np.bincount(numbers)
    assert counts.max() - counts.min() <= 1
    assert sorted(order_of(5, True, 1)[:5]) == [0, 1, 2, 3, 4]
    assert len(set(order_of(5, False, 1))) == 5
