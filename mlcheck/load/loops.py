"""The two loops of a worker. Nothing else runs between two timestamps, so each has its own timed call.

Closed: the next query begins when the last has ended, which measures capacity. Open: queries are due at
times set beforehand, whatever the service does, and their latency counts from then: a stall delays all that
became due meanwhile, as it does in production (a closed loop would send, and count, fewer).
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Callable, Sequence
from typing import Any

from mlcheck.load.records import ANSWERED, FAILED, FIELDS, OPEN, Record

TICKET = struct.Struct("<qq")
_SPIN_NS = 200_000

Failed = Callable[[int, BaseException], None]


def closed_loop(
    predict: Callable[[Any], Any],
    queries: Sequence[Any],
    order: Sequence[int],
    record: Record,
    until_ns: int,
    failed: Failed,
    look: Callable[[int, Any], None] | None = None,
    clock: Callable[[], int] = time.perf_counter_ns,
) -> Any:
    """Ask the queries in `order`, again and again, until `until_ns` or the record is full. Returns the last answer.

    `look` is shown each answer after its time was taken.
    """
    view, places, count = record.view, len(order), 0
    answer, most = None, record.rows
    row = FIELDS
    while count < most:
        number = order[count % places]
        query = queries[number]
        start = clock()
        if start >= until_ns:
            break
        count += 1
        view[row] = number
        view[row + 1] = view[row + 2] = view[row + 3] = start
        view[0] = count
        try:
            answer = predict(query)
            view[row + 4] = clock()
            view[row + 5] = ANSWERED
        except Exception as error:
            view[row + 4] = clock()
            view[row + 5] = FAILED
            failed(number, error)
        else:
            if look:
                look(number, answer)
        row += FIELDS
    return answer


def open_loop(
    predict: Callable[[Any], Any],
    queries: Sequence[Any],
    next_ticket: Callable[[], bytes],
    record: Record,
    begin_ns: int,
    until_ns: int,
    failed: Failed,
    spin: bool = False,
    clock: Callable[[], int] = time.perf_counter_ns,
    sleep: Callable[[float], None] = time.sleep,
) -> Any:
    """Take tickets (when a query is due, and which) until there are none or `until_ns`. Returns the last answer.

    Whichever worker is free takes the next ticket, so that N workers serve one queue, first come first served.
    """
    view, unpack = record.view, TICKET.unpack
    answer, count = None, 0
    row = FIELDS
    while count < record.rows and (ticket := next_ticket()):
        offset, number = unpack(ticket)
        due = begin_ns + offset
        free = now = clock()
        count += 1
        view[row] = number
        view[row + 1], view[row + 2] = due, free
        view[row + 5] = OPEN
        view[0] = count
        while now < due:
            rest = due - now - (_SPIN_NS if spin else 0)
            if rest > 0:
                sleep(rest / 1e9)
            now = clock()
        if now >= until_ns:
            break
        query = queries[number]
        start = clock()
        view[row + 3] = start
        try:
            answer = predict(query)
            view[row + 4] = clock()
            view[row + 5] = ANSWERED
        except Exception as error:
            view[row + 4] = clock()
            view[row + 5] = FAILED
            failed(number, error)
        row += FIELDS
    return answer


def ticket_reader(descriptor: int) -> Callable[[], bytes]:
    """Tickets from a file whose offset all workers share: each read is atomic, and no dead worker holds a lock."""

    def read() -> bytes:
        ticket = os.read(descriptor, TICKET.size)
        return ticket if len(ticket) == TICKET.size else b""

    return read
