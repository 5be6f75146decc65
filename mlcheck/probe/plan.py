"""In which order the probes are asked: what tells most for its cost comes first, and a short budget is well spent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from mlcheck.core.check import Check
from mlcheck.core.outcome import Severity
from mlcheck.core.rule import Rule
from mlcheck.probe.measure.measurement import Measurement
from mlcheck.probe.measure.speed.step_time import StepTime
from mlcheck.probe.measure.training.rehearsal import Rehearsal

Needs = list[type[Measurement]]
Open = dict[str, frozenset[type[Measurement]]]
_WEIGHT = {Severity.ERROR: 4, Severity.WARNING: 2, Severity.NOTE: 1}
SMALL_STEP_S = 0.05


def weight_of(rule: Rule) -> int:
    """How much its answer tells: how grave it is, and how many symptoms it would explain."""
    return _WEIGHT[rule.severity] + len(rule.explains)


def ordered(
    wanted: Iterable[tuple[Check, Needs]],
    weigh: Callable[[str], int],
    step_seconds: float = 0.0,
    batch_seconds: float = 0.0,
) -> list[tuple[Check, Needs]]:
    """Greedily by the weight of all rules that the next measurements would answer, over what these cost.

    The rehearsal comes first: it says what can be asked at all. What is measured already costs nothing. Where a step is
    seen to take long, or reading a batch for it, what needs them costs as much more; but not what tells of the reading.
    """
    reading, stepping = (max(1.0, seconds / SMALL_STEP_S) for seconds in (batch_seconds, step_seconds))
    both = max(reading, stepping)
    pace = {"nothing": 1.0, "data": reading, "step": both, "loss": both, "reading": stepping}
    pairs = {check.rule: (check, needs) for check, needs in wanted}
    weight = {rule: weigh(rule) for rule in pairs}
    needed: Open = {rule: frozenset(needs) - {Rehearsal} for rule, (_, needs) in sorted(pairs.items())}
    found: list[str] = []
    while needed:
        answered = [rule for rule, needs in needed.items() if not needs]
        found += sorted(answered, key=lambda rule: (Rehearsal not in pairs[rule][1], -weight[rule], rule))
        needed = {rule: needs for rule, needs in needed.items() if needs}
        if needed:
            next_ones = max(dict.fromkeys(needed.values()), key=lambda group: _worth(group, needed, weight, pace))
            needed = {rule: needs - next_ones for rule, needs in needed.items()}
    return [pairs[rule] for rule in found]


def _worth(
    group: frozenset[type[Measurement]], needed: Open, weight: dict[str, int], pace: Mapping[str, float]
) -> float:
    told = sum(weight[rule] for rule, needs in needed.items() if needs <= group)
    return told / (1 + sum(one.order * pace["reading" if one is StepTime else one.reach] for one in group))
