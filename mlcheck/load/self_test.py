"""What the harness itself does to a measurement, measured: its cost, and whether it lets a stall show."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mlcheck.load import records
from mlcheck.load.arrivals import arrivals
from mlcheck.load.loops import TICKET, open_loop, ticket_reader
from mlcheck.load.overhead import dispatch_us, overhead_us
from mlcheck.load.percentiles import percentile
from mlcheck.load.records import Samples
from mlcheck.load.wording import number

MOST_OVERHEAD_US, MOST_DISPATCH_US, MOST_OFF = 2.0, 5.0, 0.03
_S = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Trait:
    """One property of the harness, in words, and whether it keeps its bound."""

    told: str
    kept: bool


@dataclass(frozen=True, slots=True)
class Standstill:
    """p99 in milliseconds of a service that once stood still: measured, by theory, and timed from when it was sent.

    Theory is exact for the arrivals that were drawn: a query that falls due in a stall waits for its end. Even
    arrivals would give the stall less a hundredth of the run.
    """

    p99: float
    theory: float
    from_sending: float

    @property
    def off(self) -> float:
        return self.p99 / self.theory - 1


def self_test(show: Callable[[str], None], seconds: float = 10.0) -> tuple[Trait, ...]:
    """The harness's cost in CPU time, pair by pair, and a stall of a tenth of `seconds` at 100 queries a second."""
    show("the closed loop against a bare one")
    closed = overhead_us()
    show("the open loop against a bare one")
    dispatch = dispatch_us()
    show(f"a service that stands still for {seconds / 10:g} of {seconds:g} s")
    stall = standstill(*arrivals(100.0, seconds, 1, seed=0), round(0.4 * seconds * _S), round(0.1 * seconds * _S))
    return (
        _cost("the closed loop", closed, MOST_OVERHEAD_US),
        _cost("the open loop, with taking a ticket,", dispatch, MOST_DISPATCH_US),
        Trait(_stall_told(stall, seconds), abs(stall.off) <= MOST_OFF),
    )


def _stall_told(stall: Standstill, seconds: float) -> str:
    return (
        f"a service that stands still for {seconds / 10:g} s in {seconds:g} s at 100 queries a second: p99 is "
        f"{number(stall.p99)} ms; by theory {number(stall.theory)} ms for these random arrivals ({stall.off:+.1%}, "
        f"at most {MOST_OFF:.0%}), {90 * seconds:g} ms for even ones; timed from when each query was sent, "
        f"as a closed loop does, {number(stall.from_sending)} ms"
    )


def _cost(what: str, us: float, most: float) -> Trait:
    return Trait(f"{what} adds {us:.2f} µs of CPU to a query (at most {most:g})", us <= most)


def standstill(
    offsets: records.Integers,
    numbers: records.Integers,
    begins_ns: int,
    lasts_ns: int,
    clock: Callable[[], int] = time.perf_counter_ns,
    sleep: Callable[[float], None] = time.sleep,
) -> Standstill:
    """Run the very open loop of a worker on a service that answers at once, but for the first query from
    `begins_ns` on, which takes `lasts_ns`."""
    begin = clock()
    stood: list[int] = []

    def answer(_: Any) -> None:
        if not stood and clock() - begin >= begins_ns:
            stood.append(clock() - begin)
            sleep(lasts_ns / _S)

    samples = _asked(answer, offsets, numbers, begin, clock, sleep)
    ends = stood[0] + lasts_ns
    struck = np.searchsorted(offsets, stood[0], side="right") - 1  # the query that began the stall
    waited = np.where((offsets >= offsets[struck]) & (offsets < ends), ends - offsets, 0)
    return Standstill(
        p99=percentile(np.sort(samples.latency_ms), 0.99),
        theory=percentile(np.sort(waited / 1e6), 0.99),
        from_sending=percentile(np.sort(samples.service_ms), 0.99),
    )


def _asked(
    answer: Callable[[Any], None],
    offsets: records.Integers,
    numbers: records.Integers,
    begin: int,
    clock: Callable[[], int],
    sleep: Callable[[float], None],
) -> Samples:
    with tempfile.TemporaryDirectory(prefix="mlcheck-") as folder:
        path, tickets = Path(folder) / "record", Path(folder) / "tickets"
        tickets.write_bytes(b"".join(TICKET.pack(*pair) for pair in zip(offsets.tolist(), numbers.tolist())))
        records.create(path, len(offsets) + 1)
        record = records.Record(path)
        descriptor = os.open(tickets, os.O_RDONLY)
        reader, far = ticket_reader(descriptor), 1 << 62
        open_loop(answer, [None], reader, record, begin, far, _raised, False, clock, sleep)
        os.close(descriptor)
        record.close()
        return records.read([path])


def _raised(_: int, error: BaseException) -> None:
    raise error
