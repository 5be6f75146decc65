"""The child that runs golden cases and the cases every service must stand, in a process of its own."""

from __future__ import annotations

import json
import platform
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mlcheck.core.mistake import Mistake
from mlcheck.core.plural import plural
from mlcheck.load.broken_queries import broken_queries
from mlcheck.load.compare import difference, judge, not_finite, plain, shown, without
from mlcheck.load.golden import read_golden
from mlcheck.load.queries import Query, read_log
from mlcheck.load.service import Service, load_service
from mlcheck.trial.channel import Channel, connect
from mlcheck.trial.traceback import error_line, user_traceback

_REPEATED = 20
_BATCHED = 8
_REPEATING_S = 5.0


def main(text: str) -> None:
    channel, job = connect(), json.loads(text)
    try:
        service = load_service(job["entry"])
        if job["do"] == "golden":
            channel.send({"kind": "loaded"}, time_limit_s=job["timeout_s"])
            channel.send({"kind": "golden"} | _golden(service, read_golden(Path(job["path"]))[job["number"]]))
        else:
            _conduct(service, job, channel)
    except Mistake as mistake:
        channel.send({"kind": "mistake", "text": str(mistake)})
    except Exception as error:
        channel.send({"kind": "broken", "error": error_line(error), "traceback": user_traceback(error)})
    channel.finish()


def _golden(service: Service, case: Query) -> dict[str, Any]:
    """What is wrong with the answer, and the traceback of an error that was not asked for."""
    wanted = case.given.get("raises", "")
    begun = time.perf_counter()
    try:
        answer = plain(service.predict(service.prepare(case.input)))
    except Exception as error:
        status = str(getattr(error, "status", ""))
        names = {kind.__name__ for kind in type(error).__mro__} | {status}
        told = "" if wanted in names else f"raised {error_line(error)}" + (f", expected {wanted}" if wanted else "")
        if told and wanted and status:
            told += f'; over HTTP a case names the status: "raises": "{status}"'
        return {
            "told": told,
            "traceback": user_traceback(error) if told else "",
            "seconds": time.perf_counter() - begun,
        }
    told = f"answered {shown(answer)}, expected {wanted} to be raised" if wanted else judge(answer, case.given)
    return {"told": told, "traceback": "", "seconds": time.perf_counter() - begun}


def _conduct(service: Service, job: dict[str, Any], channel: Channel) -> None:
    queries = read_log(Path(job["path"])).queries if job["path"] else []
    inputs = [service.prepare(query.input) for query in queries[:_REPEATED]]
    names = [query.name for query in queries[:_REPEATED]]
    if not inputs and service.example is not None:
        inputs, names = [service.example], ["the model's example input"]
    if not inputs:
        raise Mistake("there is nothing to ask: give --queries, or set `example_input` on the module")
    loaded = {"kind": "loaded", "environment": _environment(), "notices": service.notices}
    channel.send(loaded, time_limit_s=job["timeout_s"])
    from mlcheck.load.modes import watched

    with watched() as seen:
        first = plain(service.predict(inputs[0]))
    channel.send({"kind": "modes"} | seen.told())
    good = [number for number, name in enumerate(names) if name not in job["deadly"]]
    inputs, names = [inputs[number] for number in good], [names[number] for number in good]
    repeated = list(_repeated(service, inputs, names, job, channel))
    channel.send({"kind": "repeated", "cases": repeated})
    steady = job["repeatable"] and not any(told for _, told in repeated)
    channel.send({"kind": "batch"} | _batch(service, inputs, names, job))
    broken = broken_queries(queries[0].input) if queries else ()
    for name, value in broken:
        if name not in job["done"]:
            channel.send({"kind": "began", "case": name})
            told = _asked(service, value)
            after = _after(service, inputs[0], first, job if steady else None)
            channel.send({"kind": "ended", "case": name, "told": told, "after": after})


def _repeated(
    service: Service, inputs: list[Any], names: list[str], job: dict[str, Any], channel: Channel
) -> Iterator[tuple[str, str]]:
    """Each query asked twice: its name and the first difference."""
    until = time.perf_counter() + _REPEATING_S
    for name, query in zip(names, inputs, strict=True):
        channel.send({"kind": "asking", "query": name})
        try:
            once, again = plain(service.predict(query)), plain(service.predict(query))
            yield name, _changed(again, once, job)
        except Exception as error:
            yield name, f"raised {error_line(error)}"
        if time.perf_counter() > until:
            return


def _batch(service: Service, inputs: list[Any], names: list[str], job: dict[str, Any]) -> dict[str, Any]:
    """Queries alone and together. `skipped` says why there was nothing to compare."""
    batch = inputs[:_BATCHED]
    if service.predict_batch is None:
        return {"skipped": "the service has no predict_batch", "cases": []}
    if len(batch) < 2:
        return {"skipped": "there are fewer than two queries", "cases": []}
    try:
        alone = [plain(service.predict(query)) for query in batch]
    except Exception as error:
        return {"skipped": f"a query by itself raised {error_line(error)}", "cases": []}
    try:
        together = [plain(answer) for answer in service.predict_batch(list(batch))]
    except Exception as error:
        if service.notices:  # a bare model, whose batches are ours: queries of different shapes cannot be joined
            return {"skipped": f"these queries cannot be joined to a batch: {error_line(error)}", "cases": []}
        return {"skipped": "", "cases": [(f"a batch of {len(batch)}", f"raised {error_line(error)}")]}
    if len(together) != len(batch):
        told = f"{plural(len(batch), 'query')} got {plural(len(together), 'answer')}"
        return {"skipped": "", "cases": [(f"a batch of {len(batch)}", told)]}
    pairs = zip(names, together, alone, strict=False)
    return {
        "skipped": "",
        "cases": [(name, _changed(one, other, job)) for name, one, other in pairs],
    }


def _asked(service: Service, value: Any) -> str:
    try:
        answer = plain(service.predict(service.prepare(value)))
    except Exception as error:
        return f"refused: {error_line(error)}"
    place = not_finite(answer)
    return f"answered {shown(answer)}" + (f" ({place} is not finite)" if place else "")


def _after(service: Service, query: Any, first: Any, job: dict[str, Any] | None) -> str:
    """What became of a good query that was asked next; empty when it got its answer.

    Without a `job` any answer will do: it changes of itself.
    """
    try:
        again = plain(service.predict(query))
    except Exception as error:
        return f"the next query raised {error_line(error)}"
    told = _changed(again, first, job) if job else ""
    return f"the next query got another answer: {told}" if told else ""


def _changed(answer: Any, before: Any, job: dict[str, Any]) -> str:
    """Where an answer differs from the one before, fields aside that may."""
    return difference(without(answer, job["ignore"]), without(before, job["ignore"]), job["rtol"], job["atol"])


def _environment() -> dict[str, str]:
    torch = sys.modules.get("torch")
    found = {"python": platform.python_version(), "platform": platform.platform()}
    if torch is None:
        return found
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    return found | {"torch": torch.__version__, "device": device}
