"""Judges whether two runs with one seed are the same run."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.repeated import Repeated

_HELP = "something draws from a generator that nobody seeds: seed each of your own, from the seed of the experiment"


def check(seen: Repeated) -> Verdict:
    runs = "two starts with one seed" if seen.constructed else "two runs from one state with one seed"
    if not seen.parting:
        summary = f"{runs} agree bit for bit over {seen.steps} steps"
        return Verdict(Outcome.PASS, summary, looked_at=seen.steps)
    told = f"{runs} diverge at {seen.parting}" + (f" (`{seen.what}`)" if seen.what else "")
    if seen.parting.startswith("the metrics") and seen.device != "cpu":
        reason = f"{told}: on a {seen.device} device that may be rounding; try torch.use_deterministic_algorithms(True)"
        return Verdict(Outcome.INCONCLUSIVE, told, reason=reason, looked_at=seen.steps)
    return Verdict(Outcome.WARN, told, findings=(Finding(told, seen.place, help=_HELP),), looked_at=seen.steps)
