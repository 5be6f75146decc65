"""Judges whether two runs with one seed are the same run."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.training.other_process import OtherProcess
from mlcheck.probe.measure.training.repeated import Repeated

_HELP = "something draws from a generator that nobody seeds: seed each of your own, from the seed of the experiment"


_KEYED_HELP = (
    "sort what comes out of a set, and take hashlib in place of hash(); PYTHONHASHSEED=0 hides it for one machine"
)


def check(seen: Repeated, other: OtherProcess | None) -> Verdict:
    runs = "two starts with one seed" if seen.constructed else "two runs from one state with one seed"
    if not seen.parting and other and other.parting:
        return _elsewhere(other)
    if not seen.parting:
        summary = f"{runs} agree bit for bit over {plural(seen.steps, 'step')}"
        summary += "; another process begins alike" if other else ""
        return Verdict(Outcome.PASS, summary, looked_at=seen.steps)
    told = f"{runs} diverge at {seen.parting}" + (f" (`{seen.what}`)" if seen.what else "")
    if seen.parting.startswith("the metrics") and seen.device != "cpu":
        reason = f"{told}: on a {seen.device} device that may be rounding; try torch.use_deterministic_algorithms(True)"
        return Verdict(Outcome.INCONCLUSIVE, told, reason=reason, looked_at=seen.steps)
    return Verdict(Outcome.WARN, told, findings=(Finding(told, seen.place, help=_HELP),), looked_at=seen.steps)


def _elsewhere(other: OtherProcess) -> Verdict:
    why = (
        "hash() of text, or the order of a set: Python draws a key for both anew"
        if other.keyed
        else ("the time, the process or an unseeded generator when a module is imported")
    )
    told = f"two processes with one seed begin differently, first in {other.parting}: {why}"
    finding = Finding(told, other.place, help=_KEYED_HELP if other.keyed else _HELP)
    return Verdict(Outcome.WARN, told, findings=(finding,), looked_at=1)
