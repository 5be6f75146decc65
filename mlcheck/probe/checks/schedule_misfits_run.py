"""Judges the learning rate's course over the whole planned run: whether the schedule and the run are of one length."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Figure, Finding
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.training.planned_rates import Course, PlannedRates

DEAD = 1e-4
DEAD_SHARE = 0.25
FALLEN = 0.1
HIGH = 0.5
LARGE = 0.2
CLOSE = 0.02
FEW = 8
DRAWN = 300
_ENDING = {"CosineAnnealingLR", "OneCycleLR", "PolynomialLR"}
_LENGTH = (
    "give the schedule the length of the run (T_max, total_steps, milestones), counted as it is stepped: in epochs "
    "if once an epoch, in batches if after every batch"
)
_STEPPED = {"StepLR", "MultiStepLR"}


def check(seen: PlannedRates) -> Verdict:
    length = f"{seen.planned.count:g} {seen.planned.unit} ({seen.planned.source})"
    judged = [(course, told) for course in seen.courses if (told := _fault(course, seen))]
    figures = (_figure(seen),)
    looked = sum(len(course.rates) for course in seen.courses)
    if not judged:
        course = max(seen.courses, key=lambda course: len(course.rates))
        told = f"over {length} the learning rate goes {_summary(course.rates)}{_rhythm(course)}"
        return Verdict(Outcome.PASS, told, figures=figures, looked_at=looked)
    supposed = any(course.rhythm.supposed for course, _ in judged)
    said = [f"planned are {length}: {fault}{'' if supposed else _rhythm(course)}" for course, fault in judged]
    if supposed:
        reason = f"{said[0]}, if the schedule is stepped once an epoch: no step of it was seen in the batches tried"
        return Verdict(Outcome.INCONCLUSIVE, reason=reason, figures=figures, looked_at=looked)
    help_ = "return a factor: 1.0 at the peak" if _is_squared(judged[0][0]) else _LENGTH
    findings = tuple(Finding(one, seen.place, help=help_) for one in said)
    outcome = Outcome.FAIL if any(course.error for course, _ in judged) else Outcome.WARN
    return Verdict(outcome, said[0], findings=findings, figures=figures, looked_at=looked)


def _fault(course: Course, seen: PlannedRates) -> str:
    """What is wrong with the course, as the rest of a sentence; empty where nothing is."""
    rates, kind = course.rates, course.kind
    if course.error:
        return f"step {len(rates):,} of {kind} raises {course.error}"
    top = max(rates)
    if _is_squared(course):
        return (
            f"the learning rate never exceeds {top:.3g}, the square of the optimizer's {course.base:g}: {kind} "
            "multiplies the rate by what its function returns, which is the rate itself"
        )
    if len(rates) < FEW or top <= 0:
        return ""
    peak = next(place for place, rate in enumerate(rates) if rate > top * (1 - 1e-6))
    if (dead := _dead_from(rates, DEAD * top)) is not None and len(rates) - dead >= DEAD_SHARE * len(rates):
        share = 100 * (1 - dead / len(rates))
        when = f"from {_when(dead, course, seen)} on, for {share:.0f} % of the run"
        return f"{when}, the learning rate is below {DEAD:g} of its peak"
    if course.last_kind == "CosineAnnealingLR" and (turn := _turn(rates, peak)) is not None:
        low, high = rates[turn], max(rates[turn:])
        return (
            f"CosineAnnealingLR is at its end ({low:.3g}) at {_when(turn, course, seen)} and rises again, to {high:.3g}"
        )
    if peak == len(rates) - 1 and rates[0] < HIGH * top and _rises(rates):
        return f"the learning rate is still on its way up at the end of the run (from {rates[0]:.3g} to {top:.3g})"
    if course.last_kind in _ENDING and rates[-1] - course.target > HIGH * (top - course.target):
        return f"{course.last_kind} has come down only to {100 * rates[-1] / top:.0f} % of its peak when the run ends"
    if course.last_kind in _STEPPED and min(rates) == top:
        return f"{course.last_kind} never lowers the learning rate within the run"
    return ""


def _is_squared(course: Course) -> bool:
    """Whether the function that gives a factor gives the rate; of a base rate near 1 both are the same."""
    return 0 < course.base < LARGE and abs(max(course.rates) / course.base**2 - 1) < CLOSE


def _dead_from(rates: Sequence[float], least: float) -> int | None:
    """From which step on the rate stays below `least`; None where the last one is not."""
    living = next((place for place in reversed(range(len(rates))) if rates[place] > least), -1)
    return living + 1 if living + 1 < len(rates) else None


def _turn(rates: Sequence[float], peak: int) -> int | None:
    """Where the rate is lowest before it rises again by more than a tenth of the peak."""
    top = rates[peak]
    for place in range(peak + 1, len(rates) - 1):
        falls, rises = rates[place] <= rates[place - 1], rates[place + 1] > rates[place]
        if falls and rises and rates[place] < FALLEN * top and max(rates[place:]) > rates[place] + FALLEN * top:
            return place
    return None


def _rises(rates: Sequence[float]) -> bool:
    return all(before <= after for before, after in pairwise(rates)) and rates[-2] < rates[-1]


def _when(step: int, course: Course, seen: PlannedRates) -> str:
    """A step of the schedule in the run's own measure."""
    share = step / max(1, len(course.rates) - 1)
    if seen.epochs:
        return f"epoch {share * seen.epochs:.1f} of {seen.epochs:g}"
    return f"batch {share * seen.batches:,.0f} of {seen.batches:,}"


def _summary(rates: Sequence[float]) -> str:
    """`from 0.001 to 0.1 and down to 1e-05`."""
    first, last, top = rates[0], rates[-1], max(rates)
    if min(rates) == top:
        return f"nowhere: it is {top:.3g} throughout"
    up = f" up to {top:.3g}" if top > first and top > last else ""
    return f"from {first:.3g}{up} to {last:.3g}"


def _rhythm(course: Course) -> str:
    rhythm = course.rhythm
    if rhythm.supposed:
        return ", if it is stepped once an epoch: no step of it was seen in the batches tried"
    if rhythm.calls:
        return ", stepped after every batch" if rhythm.every == 1 else f", stepped every {rhythm.every} batches"
    return ", stepped once an epoch"


def _figure(seen: PlannedRates) -> Figure:
    series = []
    for course in seen.courses:
        whole = len(course.rates)
        places = sorted({round(k * (whole - 1) / max(1, min(DRAWN, whole) - 1)) for k in range(min(DRAWN, whole))})
        length = seen.epochs or float(seen.batches)
        x = [length * place / max(1, whole - 1) for place in places]
        series.append({"name": course.name, "x": x, "y": [course.rates[place] for place in places]})
    label = "epoch" if seen.epochs else "batch"
    data = {"series": series, "x_label": label, "y_label": "learning rate"}
    return Figure("curves", "the learning rate over the planned run", data)
