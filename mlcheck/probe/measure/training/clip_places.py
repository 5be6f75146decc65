"""Where a few steps of the user's loop clip gradients, and whether these are still to be applied then."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from torch import Tensor
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook

from mlcheck.core.finding import Location
from mlcheck.probe.measure.drive import repeated_batches
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.place import user_location
from mlcheck.probe.measure.training.clip_functions import clipping_by
from mlcheck.trial.trial import Trial

STEPS, MOST_STEPS = 8, 32
FEW = 3


@dataclass(slots=True)
class Clips:
    """Calls at one place: `useful` those on a gradient that no step has applied since it came, `spent` those on

    gradients that had all been applied, `empty` those on none at all, or on zeros. `added` counts the updates for which
    more was added to gradients that a call here had made smaller.
    """

    useful: int = 0
    spent: int = 0
    empty: int = 0
    added: int = 0


@dataclass(frozen=True, slots=True)
class ClipPlaces:
    """By place, with how many optimizer steps were seen."""

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 10

    places: dict[Location, Clips]
    updates: int

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - a few steps, whatever the limit
        watch = _Watch()
        with watch.installed():
            for index, batch in enumerate(repeated_batches(trial)):
                trial.train_step(batch, index)
                if index + 1 >= STEPS and (watch.is_settled or not watch.places or index + 1 >= MOST_STEPS):
                    break
        if not watch.places:
            raise NotMeasured("no gradient is clipped by a function of torch")
        return cls(watch.places, watch.updates)


class _Watch:
    """Which gradients have come since their last step."""

    def __init__(self) -> None:
        self.places: dict[Location, Clips] = {}
        self.updates = 0
        self._applied: dict[int, tuple[Tensor, int]] = {}
        self._shortened: dict[Location, dict[int, tuple[Tensor, int]]] = {}
        self._added: set[Location] = set()

    @property
    def is_settled(self) -> bool:
        """Whether enough updates were seen, and no place is known to add to what was clipped in too few of them."""
        return self.updates >= FEW and all(not 0 < clips.added < FEW for clips in self.places.values())

    @contextmanager
    def installed(self) -> Iterator[None]:
        hook = register_optimizer_step_post_hook(self._stepped)
        try:
            with clipping_by(self._clipping):
                yield
        finally:
            hook.remove()

    def _stepped(self, optimizer: Optimizer, *_: Any) -> None:
        self.updates += 1
        for place in self._added:
            self.places[place].added += 1
        self._shortened, self._added = {}, set()
        for group in optimizer.param_groups:
            self._spend(group["params"])

    def _spend(self, parameters: list[Tensor]) -> None:
        for parameter in parameters:
            if parameter.grad is not None:
                self._applied[id(parameter)] = parameter.grad, parameter.grad._version

    def _clipping(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def clip(parameters: Any, *args: Any, **kwargs: Any) -> Any:
            given = [parameters] if isinstance(parameters, Tensor) else list(parameters)
            most = args[0] if args else kwargs.get("max_norm", kwargs.get("clip_value", 0.0))
            limits, place = not (isinstance(most, float) and math.isinf(most)), user_location()
            if limits:  # else only the norm is wanted
                self._take_down(self.places.setdefault(place, Clips()), given)
                self._look_for_more(place, given)
            spent = [p for p in given if self._is_spent(p)]
            result = original(given, *args, **kwargs)
            norm = args[1] if len(args) > 1 else kwargs.get("total_norm")
            if limits and isinstance(norm, Tensor) and isinstance(most, int | float) and float(norm) > most:
                self._shortened[place] = {id(p): (p.grad, p.grad._version) for p in given if p.grad is not None}
            self._spend(spent)
            return result

        return clip

    def _look_for_more(self, place: Location, given: list[Tensor]) -> None:
        """Whether backward added to what the last call here had shortened, with no step in between."""
        before = self._shortened.pop(place, {})
        if any(id(p) in before and p.grad is before[id(p)][0] and p.grad._version > before[id(p)][1] for p in given):
            self._added.add(place)

    def _take_down(self, clips: Clips, given: list[Tensor]) -> None:
        held = [p for p in given if p.grad is not None and bool(p.grad.any())]
        if not held:
            clips.empty += 1
        elif all(map(self._is_spent, held)):
            clips.spent += 1
        else:
            clips.useful += 1

    def _is_spent(self, parameter: Tensor) -> bool:
        gradient, version = self._applied.get(id(parameter), (None, 0))
        return gradient is not None and parameter.grad is gradient and gradient._version == version
