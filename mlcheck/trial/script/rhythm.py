"""What lies between two steps of a script's first optimizer: calls of backward, and of models with gradients."""

from __future__ import annotations

from torch.optim import Optimizer


class Rhythm:
    def __init__(self) -> None:
        self._optimizer = 0
        self._backwards: list[int] = []
        self._forwards: list[int] = []
        self._began = self._called = 0

    def call(self) -> None:
        """A model was called with gradients."""
        self._called += 1

    def step(self, optimizer: Optimizer, backwards: int) -> None:
        """An optimizer stepped, after that many calls of backward in all."""
        if self._optimizer in (0, id(optimizer)):
            self._optimizer = id(optimizer)
            self._backwards.append(backwards - self._began)
            self._forwards.append(self._called)
            self._began, self._called = backwards, 0

    @property
    def turn(self) -> int:
        """How often backward is called from one step to the next, mostly."""
        later = self._backwards[1:] or self._backwards or [1]
        return max(1, max(later, key=later.count))

    @property
    def lead(self) -> int:
        """How often a model is called before the calls of the first step: a prediction printed before training."""
        if len(self._backwards) < 2 or self._backwards[0] != self._backwards[1]:
            return 0
        return max(0, self._forwards[0] - self._forwards[1])
