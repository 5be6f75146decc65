"""Judges whether the program can memorise a batch, and whose fault it is when it cannot."""

from __future__ import annotations

import math

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Figure, Finding
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.training.memorising import MAX_STEPS, Curve
from mlcheck.probe.measure.training.overfit import Overfit

PLATEAU = 0.02
FAR = 0.5
LITTLE = 0.05
NOTHING = 0.001
BLIND = 0.95
LONG_WALK = 20


def check(seen: Overfit) -> Verdict:
    if seen.floors is None:
        return _without_floor(seen)
    if seen.mine.reached(seen.goal):
        return _learnt(seen)
    fast = next((curve for curve in seen.adam if curve.reached(seen.goal)), None)
    if fast:
        return _optimizer(seen, fast)
    return _program(seen)


def _learnt(seen: Overfit) -> Verdict:
    control = _control_sentence(seen)
    return Verdict(
        Outcome.PASS,
        f"{_learnt_sentence(seen, seen.mine)}{control}",
        figures=(_figure(seen),),
        numbers=_numbers(seen),
        looked_at=seen.samples,
    )


def _optimizer(seen: Overfit, fast: Curve) -> Verdict:
    """Adam can do it from the same start: model, loss and data are sound."""
    mine, rate = seen.mine, f"{seen.mine.learning_rate:g}"
    sound = f"{fast.name} learns the same batch in {plural(fast.steps, 'step')}, so model, loss and data are sound"
    if mine.rises:
        message = f"the loss rises from {mine.values[0]:.3g} to {mine.values[-1]:.3g} with your optimizer; {sound}"
        return _verdict(Outcome.FAIL, seen, message, f"lower the learning rate ({rate}) by a factor of ten")
    way = (mine.values[0] - mine.best) / max(mine.values[0] - seen.goal, 1e-12)
    if seen.heads == 1 and seen.whole and _share(seen, mine) < FAR and mine.values[-1] <= 1.5 * mine.best:
        return _learning(seen, sound)
    if way >= LITTLE or mine.steps < MAX_STEPS:
        reason = (
            f"the loss was still on its way, {mine.values[0]:.3g} to {mine.values[-1]:.3g} in "
            f"{plural(mine.steps, 'step')} at "
            f"learning rate {rate}; {sound}"
        )
        return Verdict(Outcome.INCONCLUSIVE, reason=reason, figures=(_figure(seen),), looked_at=seen.samples)
    message = (
        f"your optimizer does not learn one batch: the loss goes from {mine.values[0]:.3g} to {mine.best:.3g} in "
        f"{plural(mine.steps, 'step')} at learning rate {rate}; {sound}"
    )
    slow = way > NOTHING or seen.scheduled or mine.learning_rate_moved
    advice = f"raise the learning rate ({rate}), and look at gradient clipping"
    return _verdict(Outcome.WARN if slow else Outcome.FAIL, seen, message, advice)


def _learning(seen: Overfit, sound: str) -> Verdict:
    """Far below what any constant prediction reaches, with the user's own optimizer: only slower than Adam."""
    assert seen.floors is not None
    mine = seen.mine
    told = (
        f"the loss falls from {mine.values[0]:.3g} to {mine.values[-1]:.3g} in {mine.steps} steps at learning rate "
        f"{mine.learning_rate:g}, where a constant prediction costs {seen.floors.constant:.3g}; {sound}"
    )
    return Verdict(Outcome.PASS, told, figures=(_figure(seen),), numbers=_numbers(seen), looked_at=seen.samples)


def _share(seen: Overfit, curve: Curve) -> float:
    """What is left of a constant prediction's loss at the curve's lowest."""
    assert seen.floors is not None
    return (curve.best - seen.floors.irreducible) / (seen.floors.constant - seen.floors.irreducible)


def _program(seen: Overfit) -> Verdict:
    """Neither optimizer can: model, loss or data. Only a flat curve far from its goal proves it."""
    floor = seen.floors
    assert floor is not None
    best = min((seen.mine, *seen.adam), key=lambda curve: curve.best)
    share = _share(seen, best)
    others = " and Adam at 1e-3 and 1e-2 stay" if seen.adam else " stays"
    tried = f"{seen.mine.name}{others} at or above {best.best:.3g}"
    where = f"{100 * share:.0f} % of what a constant prediction costs ({floor.constant:.3g})"
    if seen.lowest is not None and seen.lowest > seen.goal and seen.whole:
        message = (
            f"{plural(seen.samples, 'sample')} cannot be overfitted: what enters {seen.kind} comes from "
            f"{seen.made_by}, and "
            f"with that the loss cannot fall below {seen.lowest:.3g} ({tried})"
        )
        return _verdict(Outcome.FAIL, seen, message, "look at the last activation and at what the loss expects")
    if not math.isfinite(best.best):
        return Verdict(
            Outcome.INCONCLUSIVE, reason="the loss is not finite from the first step on", looked_at=seen.samples
        )
    if open_question := _open_question(seen, best, share):
        reason = f"{tried}, {where}, but {open_question}"
        return Verdict(Outcome.INCONCLUSIVE, reason=reason, figures=(_figure(seen),), looked_at=seen.samples)
    cause = (
        "it learns no more than it does without its input"
        if _is_blind(seen, best, share)
        else "the fault is in the model, the loss or the data"
    )
    message = f"{plural(seen.samples, 'sample')} cannot be overfitted: {tried}, {where}; {cause}"
    return _verdict(Outcome.FAIL, seen, message, "look at what enters the loss, and at which parameters change")


def _open_question(seen: Overfit, best: Curve, share: float) -> str:
    """Why it is not proven that the program cannot learn the batch; empty where it is."""
    if seen.weights < seen.samples:
        return f"{plural(seen.weights, 'trained number')} cannot hold {plural(seen.samples, 'target')} in any case"
    if not seen.adam:
        return "Adam cannot take your optimizer's place to tell whose fault it is"
    if best.steps < MAX_STEPS // 4:
        return f"there was time for {plural(best.steps, 'step')} only"
    if not seen.whole:
        if seen.heads == 1:
            return "the loss has other terms besides, or leaves elements out, which need not vanish"
        return f"{seen.heads} losses are summed with weights that are not known"
    if not all(_flat(curve) or curve.diverged for curve in (seen.mine, *seen.adam)):
        return _still_falling(best, seen.goal)
    if seen.walked >= LONG_WALK and _is_blind(seen, best, share):
        return (
            f"what a recurrent layer is to keep over {seen.walked} steps it may learn only after thousands of batches"
        )
    if share < FAR:
        return "it learnt the larger part: a narrow model may do no better"
    return ""


def _is_blind(seen: Overfit, best: Curve, share: float) -> bool:
    """Whether it learnt no more than it does without its input."""
    return seen.control is not None and best.best >= BLIND * seen.control.best and share > BLIND


def _without_floor(seen: Overfit) -> Verdict:
    """An unknown loss has no known floor: a fall that needs the input shows that it learns; no more can be said."""
    mine = seen.mine
    needed = seen.control is None or seen.control.best > 0.5 * mine.values[0]
    if mine.values[0] > 0 and mine.reached(seen.goal) and needed:
        fall = f"from {mine.values[0]:.3g} to {mine.best:.3g} in {plural(mine.steps, 'step')}"
        text = f"the loss falls {fall} on {plural(seen.samples, 'sample')}"
        return Verdict(Outcome.PASS, text + _control_sentence(seen), figures=(_figure(seen),), looked_at=seen.samples)
    reason = (
        f"the loss is not one whose floor is known; on one batch it went from {mine.values[0]:.3g} to {mine.best:.3g}"
    )
    return Verdict(Outcome.INCONCLUSIVE, reason=reason, figures=(_figure(seen),), looked_at=seen.samples)


def _verdict(outcome: Outcome, seen: Overfit, message: str, help_: str) -> Verdict:
    finding = Finding(message, seen.place, help=help_, numbers=_numbers(seen))
    return Verdict(
        outcome, message, findings=(finding,), figures=(_figure(seen),), numbers=_numbers(seen), looked_at=seen.samples
    )


def _learnt_sentence(seen: Overfit, curve: Curve) -> str:
    assert seen.floors is not None
    if seen.heads > 1:
        return f"all {seen.heads} losses fall below a tenth of a constant prediction's in {plural(curve.steps, 'step')}"
    return (
        f"{plural(seen.samples, 'sample')} overfitted in {plural(curve.steps, 'step')}: "
        f"loss {curve.values[0]:.3g} to {curve.best:.2g}, where a constant prediction costs {seen.floors.constant:.3g}"
    )


def _control_sentence(seen: Overfit) -> str:
    if seen.control is None:
        return ""
    if seen.control.best <= seen.goal:
        return "; it manages without its input as well, so something else tells the targets apart"
    return f"; without its input it stays at {seen.control.best:.3g}"


def _still_falling(curve: Curve, goal: float) -> str:
    """How fast the loss fell in the end, and how far it had still to go."""
    third = max(2, curve.steps // 3)
    before, after = curve.values[-2 * third : -third], curve.values[-third:]
    earlier, later = sum(before) / len(before), sum(after) / len(after)
    pace = 100 * (1 - later / earlier) if earlier else 0.0
    return (
        f"the loss was still falling after {plural(curve.steps, 'step')} ({curve.name}: {earlier:.3g} to "
        f"{later:.3g} on average "
        f"over the last {third}, {pace:.2g} %), with {goal:.3g} to reach: a slow start, or too little width"
    )


def _flat(curve: Curve) -> bool:
    """Whether the last third brought less than 2 % on average."""
    third = max(2, curve.steps // 3)
    before, after = curve.values[-2 * third : -third], curve.values[-third:]
    if not before:
        return False
    earlier, later = sum(before) / len(before), sum(after) / len(after)
    return later > (1 - PLATEAU) * earlier


def _figure(seen: Overfit) -> Figure:
    curves = [seen.mine, *seen.adam, *([seen.control] if seen.control else [])]
    lines = []
    if seen.floors:
        lines = [
            {"name": "constant prediction", "y": seen.floors.constant},
            {"name": "overfitted", "y": seen.floors.target},
        ]
    data = {
        "series": [{"name": curve.name, "y": list(curve.values)} for curve in curves],
        "lines": lines,
        "x_label": "step",
        "y_label": "loss" if seen.heads == 1 else "share of the constant prediction's loss",
        "log_y": all(value > 0 for curve in curves for value in curve.values),
    }
    return Figure("curves", f"one batch of {plural(seen.samples, 'sample')}, over and over", data)


def _numbers(seen: Overfit) -> dict[str, float]:
    found = {"steps": float(seen.mine.steps), "loss at start": seen.mine.values[0], "lowest loss": seen.mine.best}
    if seen.floors:
        found |= {"constant prediction": seen.floors.constant, "goal": seen.floors.target}
    if seen.control:
        found[f"lowest loss, {seen.control.name}"] = seen.control.best
    return found
