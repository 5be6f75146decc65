"""The user's own loop on one small batch, over and over: can it memorise, and does it need the input to?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

from torch.optim import Adam, AdamW, Optimizer

from mlcheck.core.finding import Location
from mlcheck.probe.measure.loss.floors import Floors
from mlcheck.probe.measure.measurement import Reach
from mlcheck.probe.measure.model.interventions import permuter, zeroed
from mlcheck.probe.measure.simplified import decays
from mlcheck.probe.measure.training.gradients import named_parameters
from mlcheck.probe.measure.training.memorising import MAX_STEPS, Curve, Experiment
from mlcheck.trial.trial import Trial

_EPS, _BETAS = 1e-6, (0.95, 0.9999)


@dataclass(frozen=True, slots=True)
class Overfit:
    """Curves of one batch memorised: by the program as it is, by Adam in its place, and without the input.

    `control` is the one without it: zeroed, or permuted in every step where the program cannot do with zeros.
    `floors` are None where the loss has no known floor. `whole` says that the recognised loss is all that is
    minimised, so that it has to fall; `heads` counts the recognised losses: with several, values are
    shares of each one's floor and the worst counts. Regularisation is off, random numbers are the same in
    every step, schedules are held at their nominal learning rate. `lowest` is the least that the loss can be when its
    input comes from `made_by`, which has bounds. `weights` counts the numbers that are trained, `walked` the steps that
    a recurrent layer takes one after the other. `comparable` says that the optimizer is Adam's kind, so that its
    learning rate and that of `adam` mean the same.
    """

    reach: ClassVar[Reach] = "loss"
    order: ClassVar[int] = 200

    samples: int
    kind: str
    place: Location
    floors: Floors | None
    whole: bool
    heads: int
    mine: Curve
    adam: tuple[Curve, ...] = ()
    control: Curve | None = None
    scheduled: bool = False
    made_by: str = ""
    lowest: float | None = None
    weights: int = 0
    walked: int = 0
    comparable: bool = False

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:
        experiment = Experiment(trial, min(10.0, seconds / 6))
        mine = experiment.run("your optimizer")
        if mine.rises and decays(trial):  # there are optimizers that cannot do without their decay
            mine = experiment.run("your optimizer", decayed=True)
        found = experiment.floors
        reached = mine.reached(experiment.goal)
        adam: list[Curve] = []
        impossible = experiment.lowest is not None and experiment.lowest > experiment.goal
        for rate in () if reached or impossible else (1e-3, 1e-2):
            curve = experiment.with_adam(rate)
            if curve:
                adam.append(curve)
            if curve is None or curve.reached(experiment.goal):
                break
        best = mine if reached else min((*adam, mine), key=lambda curve: curve.best)
        substitute = None if best is mine else best.learning_rate
        steps = min(MAX_STEPS, max(best.steps, 20))
        return cls(
            samples=experiment.samples,
            kind=experiment.kind,
            place=experiment.place,
            floors=found,
            whole=experiment.whole,
            heads=experiment.heads,
            mine=mine,
            adam=tuple(adam),
            control=experiment.control("input zeroed", zeroed, substitute, steps)
            or experiment.control("input permuted", permuter(experiment.samples), substitute, steps),
            scheduled=bool(trial.schedulers),
            made_by=experiment.made_by,
            lowest=experiment.lowest,
            weights=sum(p.numel() for p in named_parameters(trial.models) if p.requires_grad),
            walked=experiment.walked,
            comparable=all(map(_is_adam, trial.optimizers.values())),
        )

    @property
    def goal(self) -> float:
        return self.floors.target if self.floors else 0.1 * self.mine.values[0]

    def manages(self, share: float) -> bool:
        """Whether the program's own optimizer leaves less than this share of what a constant prediction costs."""
        floors = self.floors or Floors(self.mine.values[0], 0.0)
        return self.mine.best - floors.irreducible <= share * (floors.constant - floors.irreducible)


def _is_adam(optimizer: Optimizer) -> bool:
    """Adam as it comes: what is added to the denominator is small, and the moments are short."""
    groups = optimizer.param_groups
    plain = all(group["eps"] <= _EPS and group["betas"] <= _BETAS for group in groups if "betas" in group)
    return isinstance(optimizer, Adam | AdamW) and plain
