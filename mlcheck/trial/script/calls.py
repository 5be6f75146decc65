"""Calls of modules, led through another function for a while."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Self

import torch
from torch import nn


@contextmanager
def calls_through(call: Callable[..., Any]) -> Iterator[None]:
    """While entered, `call(module, *args, **kwargs)` is what calling a module does."""
    before = nn.Module.__call__
    nn.Module.__call__ = call  # type: ignore[method-assign]
    try:
        yield
    finally:
        nn.Module.__call__ = before  # type: ignore[method-assign]


class Aside:
    """Calls as they were when this was made, past whoever watches them, over stretches that are nobody's step.

    To switch takes as long as a small step: Python looks at every class derived from `nn.Module`.
    """

    def __init__(self) -> None:
        self._plain = nn.Module.__call__
        self._stack = ExitStack()
        self._is_led = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.lead(past=False)

    def lead(self, past: bool) -> None:
        if past and not self._is_led:
            self._stack.enter_context(calls_through(self._plain))
        elif not past:
            self._stack.close()
        self._is_led = past


@contextmanager
def watched_calls(see: Callable[[list[torch.Tensor]], None]) -> Iterator[None]:
    """While entered, `see` gets copies of the tensors that any module is given by position or by name, to train on.

    What it sees without gradients, a look at validation data after a step, goes by what the step has learnt.
    """
    original = nn.Module.__call__

    def call(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        given = [value for value in (*args, *kwargs.values()) if isinstance(value, torch.Tensor)]
        if torch.is_grad_enabled():
            see([value.detach().clone() for value in given if not value.requires_grad])
        return original(module, *args, **kwargs)

    with calls_through(call):
        yield
