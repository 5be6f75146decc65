"""Torch's own entry points, changed so that the script in hand asks before it goes on."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils.data import DataLoader

from mlcheck.trial.script.coroutine import Run
from mlcheck.trial.script.frameworks import evaluate_after, left_early, loaders_of_their_own
from mlcheck.trial.script.loaders import Loaders
from mlcheck.trial.script.plan import ENOUGH_BATCHES
from mlcheck.trial.script.requests import Answer, Did, Given, Pass, WantsBatch


class Instruments:
    """While installed, every loop of `run` over a DataLoader asks for its batches, and `on_*` hear what happens.

    It also waits for each of the deeds in `waits_for`, see `Did`: with `forward` after `turn` calls of backward, and
    not at the `lead` calls of a model that come before it trains. While it is `in_step`, between a call that trains
    and its backward, a call without gradients (of a target network, a teacher) is part of the step. `gives_closures`
    says that a step was seen to be given one.
    Compilation is left out: a compiled module shows nothing of what happens inside.
    """

    def __init__(self) -> None:
        self.run: Run | None = None
        self.waits_for: frozenset[str] = frozenset()
        self.turn = self.lead = 0
        self.loaders = Loaders()
        self.on_step: Callable[[Optimizer], None] = lambda _: None
        self.on_backward: Callable[[], None] = lambda: None
        self.on_call: Callable[[nn.Module], None] = lambda _: None
        self.left_out: dict[str, None] = {}
        self._stack = ExitStack()
        self._inside = self.backwards = 0
        self.in_step = self._in_closure = self._has_waited = self.gives_closures = False

    def install(self) -> None:
        self._replace(DataLoader, "__init__", self._counted(DataLoader.__init__))
        self._replace(DataLoader, "__iter__", self._asking(DataLoader.__iter__))
        self._replace(torch.autograd, "backward", self._heard(torch.autograd.backward))
        self._replace(nn.Module, "__call__", self._calling(nn.Module.__call__))
        self._replace(torch, "set_num_interop_threads", lambda _: None)  # it may be called once a process only
        self._replace(torch, "compile", self._not_compiling())
        self._replace(nn.Module, "compile", self._not_compiling())
        self._replace(Optimizer, "_patch_step_function", self._begun_by_closures(Optimizer._patch_step_function))
        self._stack.callback(register_optimizer_step_post_hook(self._after_step).remove)

    def remove(self) -> None:
        self._stack.close()

    def begin(self, run: Run) -> None:
        """From here on it is another run whose loaders are counted."""
        self.run = run
        self.loaders = Loaders()
        self.backwards = 0
        self.in_step = False

    @property
    def has_trained(self) -> bool:
        return self.loaders.training_began or self.backwards > 0

    def batches(self, loader: DataLoader[Any]) -> Iterator[Any]:
        """The batches of a loader as they are, whoever asks."""
        with self._unasked():
            batches = iter(loader)
        while True:
            with self._unasked():
                try:
                    batch = next(batches)
                except StopIteration:
                    return
            yield batch

    @contextmanager
    def _unasked(self) -> Iterator[None]:
        self._inside += 1
        try:
            yield
        finally:
            self._inside -= 1

    def _replace(self, owner: Any, name: str, value: Any) -> None:
        before = owner.__dict__[name]
        setattr(owner, name, value)
        self._stack.callback(setattr, owner, name, before)

    def _counted(self, original: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(original)
        def __init__(loader: DataLoader[Any], *args: Any, **kwargs: Any) -> None:  # noqa: N807
            original(loader, *args, **kwargs)
            self.loaders.note_birth(loader)
            for kind in (type(loader), *loaders_of_their_own()):
                self._let_subclasses_ask(kind)

        return __init__

    def _let_subclasses_ask(self, kind: type) -> None:
        """A subclass may iterate in its own way, reading ahead: the request is made where the script asks it."""
        for base in kind.__mro__:
            if base is DataLoader:
                return
            own = base.__dict__.get("__iter__")
            if own is not None and not hasattr(own, "asks"):
                self._replace(base, "__iter__", self._asking(own))

    def _asking(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def __iter__(loader: DataLoader[Any]) -> Iterator[Any]:  # noqa: N807
            if self._inside or self.run is None or not self.run.is_here:
                return original(loader)  # type: ignore[no-any-return]
            return _AskingIterator(self, self.loaders.begin_pass(loader))

        __iter__.asks = True  # type: ignore[attr-defined]
        return __iter__

    def _heard(self, original: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(original)
        def backward(*args: Any, **kwargs: Any) -> None:
            original(*args, **kwargs)
            if self.run and self.run.is_here:
                self.backwards += 1
                self.in_step = False
                self.on_backward()

        return backward

    def _begun_by_closures(self, original: Callable[[Optimizer], None]) -> Callable[[Optimizer], None]:
        def patch(optimizer: Optimizer) -> None:
            original(optimizer)
            owner = next(kind for kind in type(optimizer).__mro__ if "step" in kind.__dict__)
            if not hasattr(owner.__dict__["step"], "begins"):
                self._replace(owner, "step", self._beginning(owner.__dict__["step"]))

        return patch

    def _beginning(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """A step that computes its loss itself, as often as it likes, is a training step from its first line on."""

        @functools.wraps(original)
        def step(optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:
            here = self.run is not None and self.run.is_here and not self._in_closure
            if not here or not any(map(callable, (*args, *kwargs.values()))):
                return original(optimizer, *args, **kwargs)
            self._in_closure = self.gives_closures = True
            try:
                if "forward" in self.waits_for and self.backwards >= self.turn:
                    self.backwards = 0
                    self._wait("forward")
                    return optimizer.step(*args, **kwargs)  # whoever replaced it meanwhile is asked
                return original(optimizer, *args, **kwargs)
            finally:
                self._in_closure = False

        step.begins = True  # type: ignore[attr-defined]
        return step

    def _after_step(self, optimizer: Optimizer, *_: Any) -> None:
        if self.run and self.run.is_here:
            self.loaders.training_began = True
            self.on_step(optimizer)

    def _calling(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Calls of whole models, those that no other module makes."""
        outermost = True

        def call(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            nonlocal outermost
            if not outermost or self.run is None or not self.run.is_here:
                return original(module, *args, **kwargs)
            begins = self._begins_a_turn() and _has_parameters(module)
            if begins and self.lead:
                self.lead -= 1
            elif begins:
                self.backwards = 0
                self._wait("forward")
                return nn.Module.__call__(module, *args, **kwargs)  # whoever watches calls by now sees it whole
            if self._is_evaluating() and _has_parameters(module) and not self._has_waited:
                self._has_waited = True
                self._wait("call")
                return nn.Module.__call__(module, *args, **kwargs)
            self._has_waited = False
            outermost = False
            try:
                output = original(module, *args, **kwargs)
            finally:
                outermost = True
            if _has_parameters(module):
                self.in_step |= module.training and torch.is_grad_enabled()
                self.on_call(module)
            return output

        return call

    def _begins_a_turn(self) -> bool:
        waits = "forward" in self.waits_for and not self._in_closure
        return waits and self.backwards >= self.turn and torch.is_grad_enabled()

    def _is_evaluating(self) -> bool:
        return "call" in self.waits_for and not torch.is_grad_enabled() and not self.in_step

    def _wait(self, deed: str) -> None:
        if deed in self.waits_for and self.run:
            self.run.ask(Did(deed))

    def _not_compiling(self) -> Callable[..., Any]:
        def plain(model: Any = None, *_: Any, **__: Any) -> Any:
            self.left_out["torch.compile"] = None
            return model if model is not None else lambda function: function

        return plain


def _has_parameters(module: nn.Module) -> bool:
    return next(module.parameters(), None) is not None


class _AskingIterator(Iterator[Any]):
    """A pass over a loader whose every batch is asked for."""

    def __init__(self, instruments: Instruments, of: Pass) -> None:
        self._instruments, self._pass = instruments, of
        self._real: Iterator[Any] | None = None

    def __next__(self) -> Any:
        run = self._instruments.run
        if run is None or not run.is_here:
            return self._next_real()
        if not self._pass.given:  # Lightning decides when to evaluate after it has begun the pass
            evaluate_after(ENOUGH_BATCHES)
        answer = run.ask(WantsBatch(self._pass))
        if answer is Answer.STOP:
            if self._real is not None:
                left_early(self._pass.loader)
            raise StopIteration
        batch = answer.batch if isinstance(answer, Given) else self._next_real()
        self._pass.given += 1
        return batch

    def _next_real(self) -> Any:
        if self._real is None:
            self._real = self._instruments.batches(self._pass.loader)
        try:
            return next(self._real)
        except StopIteration:
            self._pass.over = True
            raise

    def __len__(self) -> int:
        return len(self._pass.loader)
