"""The worker: a process of its own that loads the service once and answers the parent's commands."""

from __future__ import annotations

import json
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mlcheck.core.mistake import Mistake
from mlcheck.load.compare import label_of, not_finite, plain
from mlcheck.load.loops import closed_loop, open_loop, ticket_reader
from mlcheck.load.queries import Query, read_log
from mlcheck.load.records import Record
from mlcheck.load.service import NoService, Service, load_service
from mlcheck.trial.channel import Channel, connect
from mlcheck.trial.traceback import error_line, user_traceback

_ORDER = 1 << 16
_KEPT_ERRORS = 5


def main(text: str) -> None:
    """Load the service, then obey the commands on standard input until it closes."""
    channel, job = connect(), json.loads(text)
    try:
        worker = _Worker(job, channel)
    except Mistake as mistake:
        channel.send({"kind": "mistake", "text": str(mistake)})
        return
    except Exception as error:
        channel.send({"kind": "broken", "error": error_line(error), "traceback": user_traceback(error)})
        return
    for line in sys.stdin:
        command = json.loads(line)
        try:
            channel.send(worker.obey(command) | {"kind": "done", "phase": command["phase"]})
        except Exception as error:
            told = {"kind": "failed", "error": error_line(error), "traceback": traceback.format_exc()}
            channel.send(told | {"phase": command["phase"]})


class _Worker:
    def __init__(self, job: dict[str, Any], channel: Channel) -> None:
        begun = time.perf_counter()
        self._service: Service = load_service(job["entry"])
        loaded = time.perf_counter()
        self._sets = query_sets(job, self._service)
        self._tickets = ticket_reader(job["tickets"])
        self._seed = job["seed"]
        self._errors: dict[str, dict[str, Any]] = {}
        first = time.perf_counter_ns()
        try:
            self._service.predict(next(iter(self._sets.values()))[0])
        except Exception as error:
            self._failed(0, error)
        torch = sys.modules.get("torch")
        channel.send(
            {
                "kind": "loaded",
                "load_s": loaded - begun,
                "first_ms": (time.perf_counter_ns() - first) / 1e6,
                "threads": torch.get_num_threads() if torch else 0,
                "notices": self._service.notices,
                "errors": list(self._errors.values()),
            }
        )

    def obey(self, command: dict[str, Any]) -> dict[str, Any]:
        self._errors = {}
        queries = self._sets[command["set"]]
        if command["do"] == "answer":
            return {"answers": [self._answer(query) for query in queries]}
        record = Record(Path(command["record"]))
        bad: dict[int, str] = {}

        def look(number: int, answer: Any) -> None:
            if number not in bad and (place := not_finite(plain(answer))):
                bad[number] = place

        try:
            answer = self._loop(command, queries, record, look)
        finally:
            record.close()
        look(-1, answer)
        return {"errors": list(self._errors.values()), "not_finite": bad, "gpu_mb": _gpu_mb()}

    def _loop(
        self, command: dict[str, Any], queries: Sequence[Any], record: Record, look: Callable[[int, Any], None]
    ) -> Any:
        predict, begin, until = self._service.predict, command["begin"], command["until"]
        if command["do"] == "open":
            return open_loop(predict, queries, self._tickets, record, begin, until, self._failed, command["spin"])
        survey = command["do"] == "survey"
        order = order_of(len(queries), survey or command["each_once"], self._seed + command["phase"])
        time.sleep(max(0.0, (begin - time.perf_counter_ns()) / 1e9))
        return closed_loop(predict, queries, order, record, until, self._failed, look if survey else None)

    def _answer(self, query: Any) -> dict[str, Any]:
        try:
            answer = plain(self._service.predict(query))
        except Exception as error:
            return {"error": error_line(error)}
        score = answer.get("score") if isinstance(answer, dict) else None
        return {"label": label_of(answer), "score": score}

    def _failed(self, number: int, error: BaseException) -> None:
        """Count errors by type and keep the first of each, and not more: this runs inside the loop."""
        kind = type(error).__name__
        seen = self._errors.get(kind)
        if seen is not None:
            seen["count"] += 1
        elif len(self._errors) < _KEPT_ERRORS:
            self._errors[kind] = {
                "error": error_line(error),
                "query": number,
                "count": 1,
                "traceback": user_traceback(error),
            }


def query_sets(job: dict[str, Any], service: Service) -> dict[str, list[Any]]:
    """The prepared queries by the name of their set; without any, the example that came with the model.

    A subset is a set by the numbers of some queries of another.
    """
    sets = {
        name: [_prepared(service, query) for query in read_log(Path(path)).queries]
        for name, path in job["sets"].items()
    }
    if not sets and service.example is not None:
        sets["random"] = [service.example]
    if not sets:
        raise NoService("there is nothing to ask: give --queries, or set `example_input` on the module")
    for name, (source, numbers) in job["subsets"].items():
        sets[name] = [sets[source][number] for number in numbers]
    return sets


def _prepared(service: Service, query: Query) -> Any:
    try:
        return service.prepare(query.input)
    except NoService as mistake:
        raise NoService(f"{query.source}: {mistake}") from None


def order_of(queries: int, each_once: bool, seed: int) -> list[int]:
    """The order of a closed loop: drawn with replacement, or each as often as every other, shuffled anew each round."""
    random = np.random.default_rng(seed)
    if not each_once:
        return [int(number) for number in random.integers(queries, size=_ORDER)]
    rounds = max(1, min(64, _ORDER // queries))
    return [int(number) for _ in range(rounds) for number in random.permutation(queries)]


def _gpu_mb() -> float:
    """The most the worker held on its GPU; what CUDA itself takes beside that is not in it."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available() or not torch.cuda.is_initialized():
        return 0.0
    return float(torch.cuda.max_memory_reserved()) / 1e6
