"""Whether the ranks hold the same weights and step along the same gradients, and what parted them."""

from __future__ import annotations

from dataclasses import dataclass

from mlcheck.core.finding import Location
from mlcheck.probe.measure.drive import inconclusive
from mlcheck.probe.measure.measurement import NotMeasured
from mlcheck.probe.measure.ranks.run import RankRun, location
from mlcheck.trial.ranks.story import Calls, Collective, Step, Wrapped

__all__ = ["Drift", "Step", "Wrapped", "drift"]

BYPASSED, UNAVERAGED, CHANGED, OUTSIDE, AFTERWARDS, UNWRAPPED, START, UNUSED, RATES = (
    *("bypassed", "unaveraged", "changed", "outside", "afterwards", "unwrapped", "start", "unused", "rates"),
)


@dataclass(frozen=True, slots=True)
class Drift:
    """The first thing that differs between ranks: `what` is a weight or a gradient, `step` when, 0 for the start.

    `cause` is one of the words above, `told` its evidence, `place` where it stands. `differing` of `compared` differ.
    """

    step: int
    what: str
    gradient: bool
    differing: int
    compared: int
    cause: str
    told: str
    place: Location


def drift(run: RankRun) -> Drift | None:
    """Raises NotMeasured where nothing can be compared."""
    steps = run.steps
    if not run.updates:
        raise inconclusive("no step was taken on all ranks")
    first = steps[0]
    if len({frozenset(step.weights) for step in first}) > 1:
        raise NotMeasured("each rank holds weights of its own: they are parts of one model, or different models")
    wrapped = bool(run.ranks[0].of(Wrapped))
    trained = {name for step in steps for name in step[0].gradients}
    if not trained:
        raise NotMeasured("no rank holds a whole model: its weights are spread over the ranks")
    for number, together in enumerate(steps):
        differing = _differing([step.weights for step in together], trained)
        if differing:
            return _drifted(run, steps, number, differing, len(trained), wrapped)
        held = set.intersection(*(set(step.gradients) for step in together))
        own = [name for name, value in together[0].gradients.items() if value is not None and name in held]
        differing = _differing([step.gradients for step in together], set(own))
        if differing and (wrapped or not _exchanges_later(run, number)):
            cause, told, place = _cause(run, together, differing[0], wrapped)
            return Drift(number + 1, differing[0], True, len(differing), len(own), cause, told, place)
    return None


def _drifted(
    run: RankRun, steps: list[tuple[Step, ...]], number: int, differing: list[str], trained: int, wrapped: bool
) -> Drift:
    """Weights that differ: from the start, or since the step before."""
    before = steps[max(number - 1, 0)]
    if number == 0 and not wrapped:
        told = "the ranks start from different weights, and nothing broadcasts those of rank 0"
        return Drift(0, differing[0], False, len(differing), trained, START, told, location(before[0].place, run.place))
    cause, told, place = _of_rates(before, run.place) or _cause(run, before, differing[0], wrapped)
    return Drift(number, differing[0], False, len(differing), trained, cause, told, place)


def _of_rates(together: tuple[Step, ...], otherwise: Location) -> tuple[str, str, Location] | None:
    """Ranks that step along the same gradients, each with a learning rate of its own."""
    steps = {tuple(step.rates) for step in together}
    if len(steps) == 1 or _differing([step.gradients for step in together], set(together[0].gradients)):
        return None
    rates = ", ".join(f"{rate:g}" for rate in dict.fromkeys(rate for step in together for rate in step.rates))
    told = f"the gradients are the same, and the learning rates are not ({rates})"
    return RATES, told, location(together[0].place, otherwise)


def _exchanges_later(run: RankRun, number: int) -> bool:
    """Without a wrapper, ranks may average weights after the step instead of gradients before it."""
    later = run.steps[number + 1 :]
    return bool(later) and not _differing([step.weights for step in later[0]], set(later[0][0].weights))


def _differing(by_rank: list[dict[str, int]] | list[dict[str, int | None]], names: set[str]) -> list[str]:
    return [name for name in by_rank[0] if name in names and len({rank.get(name) for rank in by_rank}) > 1]


def _cause(run: RankRun, together: tuple[Step, ...], name: str, wrapped: bool) -> tuple[str, str, Location]:
    step = together[0]
    here = location(step.place, run.place)
    if not wrapped:
        exchanged = any(rank.of(Collective) for rank in run.ranks)
        told = "no model is wrapped in DistributedDataParallel" + (
            "" if exchanged else ", and the ranks exchange nothing by themselves"
        )
        return UNWRAPPED, told, here
    model, calls = _owner(step, name)
    if model is None:
        return OUTSIDE, f"`{name}` belongs to no model that DistributedDataParallel wraps", here
    if model in step.changed:
        return CHANGED, step.changed[model], _wrapped_at(run, model)
    if calls.raw and not calls.averaged:
        told = f"`{model}` was called past its DistributedDataParallel, which then averages nothing"
        return BYPASSED, told, location(calls.raw_place, here)
    if calls.unaveraged and not calls.averaged:
        return UNAVERAGED, "the last backward pass before the step ran under no_sync(), so nothing was averaged", here
    without = [other for other, gradient in step.gradients.items() if gradient is None]
    if calls.averaged and without and not any(wrapped.finds_unused for wrapped in run.ranks[0].of(Wrapped)):
        return UNUSED, f"`{without[0]}` gets no gradient, and the exchange waits for it", here
    if calls.averaged:
        return AFTERWARDS, "they were averaged, and differ when the optimizer steps", here
    return BYPASSED, f"`{model}` was not called through its DistributedDataParallel before this step", here


def _owner(step: Step, name: str) -> tuple[str | None, Calls]:
    """The wrapped model that a weight is named after."""
    if " of optimizer " in name:
        return None, Calls()
    if len(step.calls) == 1:
        return next(iter(step.calls.items()))
    found = next((model for model in step.calls if name.startswith(f"{model}.")), None)
    return found, step.calls.get(found or "", Calls())


def _wrapped_at(run: RankRun, model: str) -> Location:
    places = [wrapped.place for wrapped in run.ranks[0].of(Wrapped) if wrapped.model == model]
    return location(places[0], run.place) if places else run.place
