"""Sees the losses a program computes: their real inputs and targets, and where in the user's code."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import nn, overrides
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.overrides import TorchFunctionMode

from mlcheck.core.finding import Location
from mlcheck.probe.measure.autograd_graph import BOUNDED, CHANGING, SQUASHING, last_operation
from mlcheck.probe.measure.drawing import DRAWING
from mlcheck.probe.measure.place import user_location

LOSSES: dict[Callable[..., Any], str] = {
    F.cross_entropy: "cross_entropy",
    F.nll_loss: "nll_loss",
    F.binary_cross_entropy: "binary_cross_entropy",
    F.binary_cross_entropy_with_logits: "binary_cross_entropy_with_logits",
    F.mse_loss: "mse_loss",
    F.l1_loss: "l1_loss",
    F.smooth_l1_loss: "smooth_l1_loss",
    F.huber_loss: "huber_loss",
}
_EITHER_WAY = (F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss)
"""Of these the result is the same with its two tensors exchanged: the prediction is the one that is trained."""
DROPOUTS = {
    F.dropout,
    F.dropout1d,
    F.dropout2d,
    F.dropout3d,
    F.alpha_dropout,
    F.feature_alpha_dropout,
    torch.dropout,
}

_push_mode: Callable[[TorchFunctionMode], None] = overrides._push_mode
_pop_mode: Callable[[], TorchFunctionMode] = overrides._pop_mode
_get_current_function_mode: Callable[[], TorchFunctionMode | None] = overrides._get_current_function_mode


@dataclass(slots=True)
class LossCall:
    """One call of a loss function. `input` and `target` are detached copies; `options` the other arguments.

    `made_by` is the squashing operation that made the input (`softmax`, `sigmoid`, `log_softmax`), read off
    its autograd graph through views and reshapes, or empty; `bounded_by` knows `tanh`, `relu` and `softplus` too.
    `scores_by` is what made the scores of the log_softmax that made the input: softmax, sigmoid or relu.
    `node` is the autograd node of the result, `result` the tensor itself where the watch keeps it. `weights` are what
    each element of an unreduced loss counts for in the end, where that is known: 0 for what a mask leaves out.
    `swapped` says that the program gave the two the other way round, `learns_target` that both are learnt.
    """

    kind: str
    input: torch.Tensor
    target: torch.Tensor
    options: dict[str, Any] = field(default_factory=dict)
    place: Location = field(default_factory=Location)
    made_by: str = ""
    bounded_by: str = ""
    scores_by: str = ""
    node: Any = None
    result: torch.Tensor | None = None
    weights: torch.Tensor | None = None
    swapped: bool = False
    learns_target: bool = False


@dataclass(slots=True)
class FunctionalDropout:
    """Dropout that the user's own code calls (not an `nn.Dropout`) and that is active; `why` whatever the mode."""

    name: str
    place: Location
    why: str = "its `training` defaults to True"


class LossWatch(TorchFunctionMode):
    """While entered, records loss calls, functional dropout and the drawing of random numbers.

    `keep_dropout=False` makes every functional dropout the identity, those inside `nn.Dropout` too.
    `keep_results=True` keeps the losses with their graphs. `refused` are calls of a loss that raised, `divergences`
    those of `kl_div`, `alignments` those of `ctc_loss`, `counts` those of `poisson_nll_loss`: what they get is no pair
    of a prediction and its target.
    """

    def __init__(self, keep_dropout: bool = True, keep_results: bool = False) -> None:
        super().__init__()
        self.calls: list[LossCall] = []
        self.dropouts: list[FunctionalDropout] = []
        self.draws: list[tuple[str, Location]] = []
        self.refused: list[LossCall] = []
        self.divergences: list[LossCall] = []
        self.alignments: list[LossCall] = []
        self.counts: list[LossCall] = []
        self._keep_dropout = keep_dropout
        self._keep_results = keep_results
        self._away = False
        self._undo: list[Callable[[], None]] = []

    def __enter__(self) -> Self:
        self._undo = [
            register_optimizer_step_pre_hook(self._leave_step).remove,
            register_optimizer_step_post_hook(self._return).remove,
            self._stay_out_of_clearing(),
        ]
        _push_mode(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._return()
        _pop_mode()
        for undo in self._undo:
            undo()

    def _leave_step(self, _: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """An optimizer's own arithmetic is most of a small model's calls, and no loss is among them without closure."""
        if not any(callable(given) for given in (*args[1:], *kwargs.values())):
            self._leave()

    def _leave(self) -> None:
        if not self._away and _get_current_function_mode() is self:
            _pop_mode()
            self._away = True

    def _stay_out_of_clearing(self) -> Callable[[], None]:
        """Clearing gradients asks two things of every parameter, and each would be a call more."""
        original = Optimizer.zero_grad

        def zero_grad(optimizer: Optimizer, *args: Any, **kwargs: Any) -> None:
            inside = self._away
            self._leave()
            try:
                original(optimizer, *args, **kwargs)
            finally:
                if not inside:
                    self._return()

        Optimizer.zero_grad = zero_grad  # type: ignore[assignment, method-assign]
        return lambda: setattr(Optimizer, "zero_grad", original)

    def _return(self, *_: Any) -> None:
        if self._away:
            self._away = False
            _push_mode(self)

    def __torch_function__(
        self, func: Any, types: Iterable[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func not in _WATCHED:  # nearly all of them: what is not watched must cost next to nothing
            return func(*args, **kwargs) if kwargs else func(*args)
        kwargs = kwargs or {}
        if func in DROPOUTS:
            if not self._keep_dropout:
                return args[0] if args else kwargs["input"]
            self._see_dropout(func, args, kwargs)
        elif func is F.scaled_dot_product_attention:
            if not self._keep_dropout:
                kwargs = {**kwargs, "dropout_p": 0.0} if len(args) < 5 else kwargs
            elif (args[4] if len(args) > 4 else kwargs.get("dropout_p", 0.0)) > 0:
                self.dropouts.append(FunctionalDropout(func.__name__, user_location(), "its `dropout_p` knows no mode"))
        elif func in DRAWING:
            self.draws.append((func.__name__, user_location()))
        if func is F.kl_div:
            return self._kept(self.divergences, func, args, kwargs)
        if func is F.ctc_loss:
            return self._kept(self.alignments, func, args, kwargs)
        if func is F.poisson_nll_loss:
            return self._kept(self.counts, func, args, kwargs)
        if func not in LOSSES:
            return func(*args, **kwargs)
        call = _loss_call(func, args, kwargs)
        try:
            result = func(*args, **kwargs)
        except Exception:
            self.refused += [call] if call else []
            raise
        self._keep(self.calls, call, result)
        return result

    def _kept(self, calls: list[LossCall], func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        result = func(*args, **kwargs)
        self._keep(calls, _loss_call(func, args, kwargs), result)
        return result

    def _keep(self, calls: list[LossCall], call: LossCall | None, result: Any) -> None:
        if call and isinstance(result, torch.Tensor):
            call.node = result.grad_fn
            call.result = result if self._keep_results else None
            calls.append(call)

    def _see_dropout(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if func is torch.dropout or _called_by_module():
            return
        bound = inspect.signature(func).bind(*args, **kwargs)
        bound.apply_defaults()
        if bound.arguments["training"] and bound.arguments["p"] > 0:
            self.dropouts.append(FunctionalDropout(f"F.{func.__name__}", user_location()))


_MODULES_CODE = {kind.forward.__code__ for kind in (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d)}
_NAMES: dict[Any, tuple[str, str]] = {F.ctc_loss: ("log_probs", "targets")}
_WATCHED = {*LOSSES, F.kl_div, F.ctc_loss, F.poisson_nll_loss, *DROPOUTS, *DRAWING, F.scaled_dot_product_attention}


def _called_by_module() -> bool:
    """Whether the nearest frame outside this file is one of torch's own modules (nn.Dropout.forward)."""
    frame = inspect.currentframe()
    while frame is not None and (frame.f_code.co_filename == __file__ or "overrides" in frame.f_code.co_filename):
        frame = frame.f_back
    while frame is not None and frame.f_code.co_filename == F.__file__:
        frame = frame.f_back
    if frame is not None and frame.f_code in _MODULES_CODE:
        return True
    return frame is not None and isinstance(frame.f_locals.get("self"), nn.modules.dropout._DropoutNd)


_signature = cache(inspect.signature)


def _loss_call(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> LossCall | None:
    try:
        bound = _signature(func).bind(*args, **kwargs)
    except TypeError:
        return None
    bound.apply_defaults()
    given = dict(bound.arguments)
    prediction, target = (given.pop(name) for name in _NAMES.get(func, ("input", "target")))
    if not (isinstance(prediction, torch.Tensor) and isinstance(target, torch.Tensor)):
        return None
    swapped = func in _EITHER_WAY and target.requires_grad and not prediction.requires_grad
    if swapped:
        prediction, target = target, prediction
    return LossCall(
        kind=LOSSES.get(func, func.__name__),
        input=prediction.detach().clone(),
        target=target.detach().clone(),
        options=given,
        place=user_location(),
        made_by=last_operation(prediction, SQUASHING),
        bounded_by=last_operation(prediction, BOUNDED),
        scores_by=last_operation(prediction, CHANGING, "LogSoftmax"),
        swapped=swapped,
        learns_target=target.requires_grad,
    )
