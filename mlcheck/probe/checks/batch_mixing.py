"""Judges whether a sample's output depends on its neighbours in the batch."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding, Location
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.loss.pairing import Pairing, Strayed
from mlcheck.probe.measure.loss.self_pairs import SelfPairs
from mlcheck.probe.measure.loss.view_pairs import ViewPairs
from mlcheck.probe.measure.model.exchanges import SINGLE_PRECISION_ROUNDING
from mlcheck.probe.measure.model.independence import ROUNDING, BatchIndependence
from mlcheck.probe.measure.model.remembered import Remembered
from mlcheck.probe.measure.names import part_of

_MANY = 1e3
_FEW_ROWS = 4


def check(
    seen: BatchIndependence, pairing: Pairing | None, views: ViewPairs | None, selves: SelfPairs | None
) -> Verdict:
    if seen.remembered:
        return _remembered(seen, seen.remembered)
    if seen.displaced:
        return _displaced(seen)
    if seen.swallowed:
        return _swallowed(seen)
    if not seen.deviation and pairing and pairing.strayed:
        return _strayed(pairing)
    if views and len(views.mistaken) == views.asked >= _FEW_ROWS:
        return _mistaken(views)
    if selves and selves.kept_in:
        return _with_itself(selves)
    if seen.refused:
        reason = f"changed for this probe, the program raised {seen.refused}; as it is, it does not"
        return Verdict(Outcome.INCONCLUSIVE, reason=reason, looked_at=seen.rows)
    if not seen.deviation:
        summary = f"a row of {seen.rows} is bitwise the same whichever rows surround it"
        return Verdict(Outcome.PASS, summary, numbers={"deviation": 0.0}, looked_at=seen.rows)
    exact = seen.exact_deviation
    if exact is not None and exact <= ROUNDING:
        summary = f"rows affect each other by rounding only: {seen.deviation:.1g} in float32, {exact:.1g} in float64"
        return Verdict(Outcome.PASS, summary, numbers={"deviation": exact}, looked_at=seen.rows)
    if exact is None and seen.deviation < SINGLE_PRECISION_ROUNDING:
        return Verdict(
            Outcome.INCONCLUSIVE,
            reason=f"rows affect each other by {seen.deviation:.1g}, which float32 rounding may explain, and the "
            "model does not run in float64",
        )
    where = f" in {seen.first_module}" if seen.first_module else ""
    spread = (
        f"; NaN in row 0 reaches {seen.reached} of {plural(seen.rows - 1, 'other row')}"
        if seen.reached is not None
        else ""
    )
    message = (
        f"the output for a sample changes by {_size(exact or seen.deviation)} with the other samples of its "
        f"batch{where}, in evaluation mode{spread}"
    )
    return _failed(seen, message, _how(seen), {"deviation": exact or seen.deviation})


def _strayed(pairing: Pairing) -> Verdict:
    one = pairing.strayed[0]
    if one.together > 1:
        return _reshaped(pairing, one)
    if one.places > 1:
        own, reached = (f"place {at % one.places} of sample {at // one.places}" for at in (one.own, one.reached))
        message = (
            f"the loss compares predictions with other places' targets: with another `{part_of('batch', one.name)}` at "
            f"{own} the gradient of its own prediction stays, bit for bit, and that at {reached} changes; under other "
            "random numbers that of another one"
        )
        finding = Finding(
            message, pairing.place, help="look for what is drawn at random before the loss: a permutation"
        )
        return Verdict(Outcome.FAIL, message, findings=(finding,), looked_at=pairing.looked_at)
    if one.read:
        return _shifted(pairing, one)
    own = "" if one.predicted == one.own else f", in row {one.predicted},"
    message = (
        f"the loss compares predictions with other samples' targets{', not in every step' if one.sometimes else ''}: "
        f"with another `{part_of('batch', one.name)}` for sample {one.own} the gradient of its own prediction{own} "
        f"stays, bit for bit, and that {'in row' if own else 'of sample'} {one.reached} changes ({one.astray} of "
        f"{one.asked} samples asked about)"
    )
    how = "look at what reorders one side before the loss: sort, roll, flip, a shuffle, repeat for repeat_interleave"
    finding = Finding(message, pairing.place, help=how)
    return Verdict(Outcome.FAIL, message, findings=(finding,), looked_at=pairing.looked_at)


def _shifted(pairing: Pairing, one: Strayed) -> Verdict:
    message = (
        f"the loss compares predictions with other samples' targets: the target of what is predicted for sample "
        f"{one.own} is `{part_of('batch', one.name)}` of sample {one.reached} (so it is of {one.astray} samples, all "
        "that were asked about)"
    )
    how = "look at what reorders one side before the loss: roll, flip, sort, a permutation"
    finding = Finding(message, pairing.place, help=how)
    return Verdict(Outcome.FAIL, message, findings=(finding,), looked_at=pairing.looked_at)


def _mistaken(views: ViewPairs) -> Verdict:
    one = views.mistaken[0]
    message = (
        f"the loss takes views of other samples for the right ones: the target of row {one.row}, a view of sample "
        f"{one.sample}, is column {one.target}, and the other view of that sample is column {one.mate} (so it is of "
        f"all {views.asked} rows asked about)"
    )
    how = "look at how the views are put together: after cat, the other view of row i is i + n; after stack, i ^ 1"
    return Verdict(Outcome.WARN, message, findings=(Finding(message, views.place, help=how),), looked_at=views.asked)


def _with_itself(selves: SelfPairs) -> Verdict:
    why = (
        f"the sum that each of {selves.rows} rows is divided by includes the view's similarity to itself"
        if selves.written
        else f"the largest score of a row is in its own column, which is never its target, in all {selves.rows} rows"
    )
    message = f"the contrastive loss compares each view with itself: {why}"
    how = "fill the diagonal of the scores with -inf before the softmax (or before exp and the sum)"
    return Verdict(Outcome.WARN, message, findings=(Finding(message, selves.place, help=how),), looked_at=selves.rows)


def _reshaped(pairing: Pairing, one: Strayed) -> Verdict:
    message = (
        f"the loss compares predictions with other samples' targets: with another `{part_of('batch', one.name)}` at "
        f"place {one.own % one.places} of sample {one.own // one.places} the gradients of its own predictions stay, "
        f"bit for bit, and those at {one.together} places of other samples change ({one.astray} of {one.asked} places "
        "asked about)"
    )
    how = (
        "look at the view or reshape before the loss: what moves a dimension is permute or transpose, or flatten(0, 1)"
    )
    finding = Finding(message, pairing.place, help=how)
    return Verdict(Outcome.FAIL, message, findings=(finding,), looked_at=pairing.looked_at)


def _displaced(seen: BatchIndependence) -> Verdict:
    where = f", first in {seen.first_module}" if seen.first_module else ""
    message = (
        f"the output for a sample changes by {_size(seen.displaced)} with its place in the batch{where}: with the same "
        f"{seen.rows} samples in the opposite order each gets another answer, in evaluation mode"
    )
    how = "look at what is added or indexed along dimension 0: positions of a sequence belong to its own dimension"
    return _failed(seen, message, how, {"displaced": seen.displaced})


def _remembered(seen: BatchIndependence, remembered: Remembered) -> Verdict:
    told = f"called again with the same {seen.rows} samples, in evaluation mode, `{seen.model}` gives other outputs"
    if not (remembered.kept and remembered.shuffled and remembered.carried):
        why = (
            f"`{remembered.kept}` keeps a value for each row" if remembered.kept else "it keeps something between calls"
        )
        reason = f"{told}: {why}, so rows cannot be compared; it may be meant for batches that continue one another"
        return Verdict(Outcome.INCONCLUSIVE, reason=reason, looked_at=seen.rows)
    message = (
        f"the output for a batch depends on the batch before it: {told}, because `{remembered.kept}` keeps a value for "
        "each row, although shuffled batches do not continue one another"
    )
    how = "start every batch from a fresh state, or keep batches in order and pass the state on in the loop"
    finding = Finding(message, Location(symbol=remembered.kept), help=how)
    return Verdict(Outcome.FAIL, message, findings=(finding,), looked_at=seen.rows)


def _swallowed(seen: BatchIndependence) -> Verdict:
    message = (
        f"the samples of a batch meet in {seen.first_module}, in evaluation mode, and the output is one and the same "
        f"for all {seen.rows}: nothing of a sample is left in its own"
    )
    return _failed(seen, message, _how(seen), {})


def _how(seen: BatchIndependence) -> str:
    if any(f"({kind}" in seen.first_module for kind in ("MultiheadAttention", "Transformer")):
        return "attention takes (places, samples, width) unless it is made with batch_first=True"
    return "look for a mean, softmax, norm, view or attention over dimension 0"


def _size(relative: float) -> str:
    """What was nothing before changes by any factor."""
    return f"{relative:.2g} (relative)" if relative < _MANY else "many times its size"


def _failed(seen: BatchIndependence, message: str, how: str, numbers: dict[str, float]) -> Verdict:
    finding = Finding(message, Location(symbol=seen.first_module.partition(" ")[0]), help=how, numbers=numbers)
    return Verdict(Outcome.FAIL, message, findings=(finding,), looked_at=seen.rows)
