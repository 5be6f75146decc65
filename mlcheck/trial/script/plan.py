"""What a script was seen to do, and what each of its requests means in the light of it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from torch.utils.data import DataLoader

from mlcheck.trial.script.requests import Did, LoopKey, Request, WantsBatch

ENOUGH_BATCHES = 4
FEW_BATCHES = 2


@dataclass(frozen=True)
class Plan:
    """What the script does, by the first run.

    `training` is the loop whose batches it trains on, `companions` give theirs to the same steps, `others` train
    as well, at another time, `watching` ones see how well the training data is learnt; `evaluating` loops call the
    trained models and never train. Without `training` it draws its batches in its own way, and every `turn` calls of
    backward are taken for a training step; `lead` calls of a model come before the first.
    Such a script `evaluates_by_calls` when it calls a trained model without gradients, time after time.
    `error` is what the script raised after its loops had been cut short. `validation` is a loader that was seen to be
    evaluated, for programs that make it only then. `evaluates_last` says that it does so when it has trained for good,
    `evaluates_first` that it does before it trains, and was not seen to again (every thousand steps, and at step 0),
    `renews_data` that its second epoch goes over other samples than its first.
    """

    training: LoopKey | None
    companions: frozenset[LoopKey]
    others: frozenset[LoopKey]
    watching: frozenset[LoopKey]
    evaluating: frozenset[LoopKey]
    evaluates_by_calls: bool
    turn: int
    lead: int
    error: str
    validation: DataLoader[Any] | None = None
    evaluates_last: bool = False
    evaluates_first: bool = False
    renews_data: bool = False

    @property
    def waits_for(self) -> frozenset[str]:
        """Where a script without a training loader is to wait."""
        if self.training:
            return frozenset()
        return frozenset({"forward", "call"} if self.evaluates_by_calls else {"forward"})

    def enough(self, request: WantsBatch) -> int:
        """After how many batches a loop is left that is not wanted now.

        0 for one that gives what others need, or that goes on over its loader without end.
        """
        if request.of.goes_on:
            return 0
        if self._matches(request.of.key, self.evaluating):
            return 1
        if self._matches(request.of.key, self.others | self.watching):
            return FEW_BATCHES
        return ENOUGH_BATCHES if self.is_training(request) else 0

    def is_training(self, request: Request) -> bool:
        if self.training is None:
            return isinstance(request, Did) and request.what == "forward"
        return isinstance(request, WantsBatch) and self._matches(request.of.key, {self.training})

    def is_evaluation(self, request: Request) -> bool:
        if isinstance(request, Did):
            return request.what == "call"
        return isinstance(request, WantsBatch) and self._matches(request.of.key, self.evaluating)

    def _matches(self, key: LoopKey, known: Collection[LoopKey]) -> bool:
        """The same loop as in the first run; a loader made anew in every epoch is known by all but its number."""
        return key in known or any(map(key.is_later, known))
