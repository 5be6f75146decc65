"""Judges the scale of what enters the first layer."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding, Location
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.data.normalised_twice import NormalisedTwice
from mlcheck.probe.measure.model.first_inputs import FirstInput, FirstInputs

LARGE = 10.0
SMALL = 0.01
APART = 1000.0
ALIKE = 0.2


def check(seen: FirstInputs, twice: NormalisedTwice | None, *, rms: float = LARGE) -> Verdict:
    if twice is not None and twice.channel >= 0:
        again = _twice(twice)
        return Verdict(Outcome.WARN, again.message, findings=(again,), looked_at=twice.channels)
    findings = tuple(finding for one in (*seen.inputs, *seen.own) if (finding := _fault(one, rms)))
    if findings:
        return Verdict(Outcome.WARN, findings[0].message, findings=findings, looked_at=len(seen.inputs))
    told = ", ".join(f"`{one.layer}` {one.low:.3g} to {one.high:.3g} (rms {one.rms:.3g})" for one in seen.inputs[:3])
    return Verdict(Outcome.PASS, f"the data enters {told}", looked_at=len(seen.inputs))


def _twice(seen: NormalisedTwice) -> Finding:
    which = f"channel {seen.channel} of " if seen.channels > 1 else ""
    mean, deviation = seen.after
    return Finding(
        f"{which}what enters `{seen.layer}` is normalised twice: the loader's numbers have the mean {seen.mean:.4g} "
        f"and the deviation {seen.deviation:.4g} taken off already, and they are taken off again, which leaves a mean "
        f"of {mean:.3g} and a deviation of {deviation:.3g}",
        Location(symbol=seen.layer.partition(" ")[0]),
        help="normalise in one place: in the data set's transforms or before the model",
        numbers={"mean": mean, "deviation": deviation},
    )


def _fault(one: FirstInput, most: float) -> Finding | None:
    place = Location(symbol=one.layer.partition(" ")[0])
    numbers = {"rms": one.rms, "low": one.low, "high": one.high}
    if one.rms > most:
        return Finding(
            f"inputs from {one.low:.4g} to {one.high:.4g} (rms {one.rms:.3g}) go straight into `{one.layer}`, which is "
            "initialised for about 1",
            place,
            help="scale them to mean 0 and deviation 1 with the training data's numbers, or begin with a norm",
            numbers=numbers,
        )
    if 0 < max(abs(one.low), abs(one.high)) < SMALL:
        return Finding(
            f"inputs go straight into `{one.layer}` and are no larger than {max(abs(one.low), abs(one.high)):.2g}: "
            "the biases outweigh them",
            place,
            help="scale them to mean 0 and deviation 1 with the training data's numbers",
            numbers=numbers,
        )
    if _all_alike(one):
        return Finding(
            f"inputs go into `{one.layer}` between {one.low:.4g} and {one.high:.4g}, all nearly the same number: what "
            "tells them apart is a small part of it",
            place,
            help="take off the mean of these very data: one of another scale (0 to 255 for 0 to 1) leaves an offset",
            numbers=numbers,
        )
    varying = sorted(scale for scale in one.scales if scale > 0)
    if len(varying) > 1 and varying[-1] > APART * varying[0] and varying[-1] > 1:
        return Finding(
            f"the features that enter `{one.layer}` differ in scale by {varying[-1] / varying[0]:.3g}: deviations from "
            f"{varying[0]:.2g} to {varying[-1]:.3g}",
            place,
            help="scale each feature separately, with the training data's mean and deviation",
            numbers=numbers,
        )
    return None


def _all_alike(one: FirstInput) -> bool:
    """Whether no number is near zero, and the largest is hardly larger than the smallest."""
    least, most = sorted((abs(one.low), abs(one.high)))
    return one.low * one.high > 0 and 0 < most - least < ALIKE * most
