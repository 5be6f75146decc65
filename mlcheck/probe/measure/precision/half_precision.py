"""A training step in half precision, beside the same step in float32: what overflows, what is lost.

Runs on the CPU where there is no GPU. Only what float16 does on either is looked at: the products that autocast
computes in it, and sums, differences, products and masks of half-precision values. Where the program makes its own
float16 values, without autocast, every operation on them is one that any device computes in float16.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from mlcheck.core.finding import Location
from mlcheck.probe.measure.drive import Clock, first_batches, inconclusive, repeated_batches
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.place import raised_at, user_location
from mlcheck.probe.measure.precision.lost_guards import LostGuards
from mlcheck.probe.measure.training.called import AUTOCAST, FLOAT16
from mlcheck.probe.measure.tree import copied, leaves, map_tensors
from mlcheck.trial.generators import seed_all
from mlcheck.trial.half_precision import Requests, recorded_autocast
from mlcheck.trial.sandbox import restored
from mlcheck.trial.trial import Trial

_SEED = 3
_LATER = 60
_SECONDS = 6.0
_NONE = "the program does not use mixed precision"
_SMALLEST = 2.0**-24
_PRODUCTS = ("mm", "addmm", "bmm", "baddbmm", "matmul", "linear", "mkldnn_linear")
_CONVOLUTIONS = ("convolution", "_convolution", "mkldnn_convolution")
_SUMS = ("add", "add_", "sub", "sub_", "mul", "mul_", "div", "div_", "masked_fill", "masked_fill_")
_WITHOUT_VALUES = ("empty", "new_empty")
_CAST = "_to_copy"
_SAME_ON_BOTH = frozenset((*_PRODUCTS, *_CONVOLUTIONS, *_SUMS))


@dataclass(frozen=True, slots=True)
class HalfPrecision:
    """`error` is what half precision raises and float32 does not. `overflow` is the first operation of finite
    values whose result is none, with its largest input; `lost` the share of gradients that float16 rounds to zero.
    `guard` is a constant that keeps an operation from zero, and is zero in float16. `trained` is after how many steps
    in float32 that was seen; values grow with training.
    """

    reach: ClassVar[Reach] = "loss"
    order: ClassVar[int] = 20

    dtype: str
    scales: bool
    error: str
    overflow: str
    place: Location
    lost: float
    gradients: int
    guard: str = ""
    guard_place: Location = field(default_factory=Location)
    trained: int = 0

    @classmethod
    def absent(cls, called: frozenset[str]) -> str:
        return "" if {AUTOCAST, FLOAT16} & called else _NONE

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:
        if not trial.repeats_batches:
            raise NotMeasured("the program draws its batches itself: none can be given to it twice")
        (batch,) = first_batches(trial, 1)
        with restored(trial):
            requests = _asked(trial, batch)
            if not requests.dtypes:
                return cls._by_hand(trial, batch)
            gradients = _gradients(trial)
        with restored(trial):
            watch, guards, error, place = _acted_out(trial, batch, 0, requests.scales)
        trained = 0
        if not (error or watch.told or guards.told) and (trained := _trained(trial, Clock(min(_SECONDS, seconds / 8)))):
            watch, guards, error, place = _acted_out(trial, batch, trained, requests.scales)
        if "not implemented for" in error or "expected m1 and m2 to have the same dtype" in error:
            raise inconclusive(f"half precision cannot be acted out on this device: {error}")
        small = [float(((grad != 0) & (grad.abs() < _SMALLEST / 2)).sum()) for grad in gradients]
        used = sum(int((grad != 0).sum()) for grad in gradients)
        return cls(
            dtype=str(requests.dtypes[0]).removeprefix("torch."),
            scales=requests.scales,
            error=error,
            overflow=watch.told,
            place=place if error else watch.place,
            lost=sum(small) / used if used else 0.0,
            gradients=used,
            guard=guards.told,
            guard_place=guards.place,
            trained=trained,
        )

    @classmethod
    def _by_hand(cls, trial: Trial, batch: Any) -> Self:
        """A step of a program that turns values to float16 itself: what it loses so, it would not in float32."""
        watch = _Overflow(by_hand=True)
        seed_all(_SEED)
        with watch:
            trial.train_step(copied(batch), 0)
        if not watch.met:
            raise NotMeasured(_NONE)
        return cls("float16", True, "", watch.told, watch.place, lost=0.0, gradients=0)


def _acted_out(trial: Trial, batch: Any, index: int, scales: bool) -> tuple[_Overflow, LostGuards, str, Location]:
    """One step in half precision, with the error that it raises and where."""
    watch, guards = _Overflow(scaled=scales), LostGuards()
    seed_all(_SEED)
    with recorded_autocast(act_out=True), watch, guards:
        try:
            trial.train_step(copied(batch), index)
        except RuntimeError as raised:
            return watch, guards, str(raised).splitlines()[0], raised_at(raised)
    return watch, guards, "", Location()


def _trained(trial: Trial, clock: Clock) -> int:
    """How many steps were taken in float32, all of them finite; 0 where one was not."""
    steps = 0
    with recorded_autocast(act_out=False):
        for batch in repeated_batches(trial):
            if not _finite(trial.train_step(copied(batch), steps)):
                return 0
            steps += 1
            if steps >= _LATER or not clock.left():
                return steps
    return steps


def _asked(trial: Trial, batch: Any) -> Requests:
    """What the program wants of autocast, nothing perhaps, from a step in float32, which must succeed."""
    seed_all(_SEED)
    with recorded_autocast(act_out=False) as requests:
        metrics = trial.train_step(copied(batch), 0)
    if requests.dtypes and torch.float16 not in requests.dtypes:
        raise NotMeasured("autocast computes in bfloat16, whose range is that of float32")
    if not _finite(metrics):
        raise inconclusive("the step is not finite in float32 either")
    return requests


def _finite(metrics: Mapping[str, Any]) -> bool:
    return all(bool(torch.isfinite(value).all()) for _, value in leaves(dict(metrics)) if value.is_floating_point())


def _gradients(trial: Trial) -> list[Tensor]:
    """The gradients that the step in float32 left behind; none where the program cleared them."""
    return [
        weight.grad.detach().clone()
        for model in trial.models.values()
        for weight in model.parameters()
        if weight.grad is not None and weight.grad.layout is torch.strided
    ]


class _Overflow(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes the first half-precision result that is not finite though all that went in was.

    Of values that were made `by_hand` any operation counts that gives finite numbers in float32. What a cast to float16
    made infinite counts once a product reads it: a mask that became one may well stay so. Gradients that are `scaled`
    may overflow: the scaler leaves such a step out and scales less.
    """

    def __init__(self, by_hand: bool = False, scaled: bool = False) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._by_hand, self._scaled = by_hand, scaled
        self.met = False
        self.told = ""
        self.place = Location()
        self._cast: dict[int, tuple[Tensor, float]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        expected = self._scaled and torch._C._current_graph_task_id() >= 0  # within a backward pass
        if not self.told and not expected and isinstance(result, Tensor) and result.dtype is torch.float16:
            self.met = True
            name = func.__name__.partition(".")[0]
            counts = name in _SAME_ON_BOTH or (self._by_hand and _fits_float32(func, args, kwargs or {}))
            if counts and not bool(torch.isfinite(result).all()):
                inputs = [tensor for _, tensor in leaves(list(args)) if tensor.is_floating_point()]
                numbers = [value for value in args if isinstance(value, float)]
                if name in (*_PRODUCTS, *_CONVOLUTIONS):
                    self._read(name, inputs)
                if all(bool(torch.isfinite(tensor).all()) for tensor in inputs) and all(map(_is_finite, numbers)):
                    largest = max((float(tensor.abs().max()) for tensor in inputs if tensor.numel()), default=0.0)
                    self.told = f"{name.strip('_')} of values up to {largest:.4g}"
                    self.place = user_location()
            elif name == _CAST and args[0].is_floating_point() and not bool(torch.isfinite(result).all()):
                if bool(torch.isfinite(args[0]).all()):
                    self._cast[result.untyped_storage().data_ptr()] = result, float(args[0].abs().max())
        return result

    def _read(self, name: str, inputs: list[Tensor]) -> None:
        """A product reads what a cast made infinite; it was kept so that no other tensor has its place in memory."""
        cast = [self._cast[at] for one in inputs if (at := one.untyped_storage().data_ptr()) in self._cast]
        if cast:
            self.told = f"{name.strip('_')} of values up to {cast[0][1]:.4g}"
            self.place = user_location()


def _fits_float32(func: Any, args: Any, kwargs: dict[str, Any]) -> bool:
    """Whether the same operation on the same values in float32 is one, and gives finite numbers."""
    if func.__name__.startswith(_WITHOUT_VALUES) or func.__name__.partition(".")[0].endswith("_"):
        return False
    wide = map_tensors(list(args), lambda tensor: tensor.float() if tensor.is_floating_point() else tensor)
    options = {**kwargs, "dtype": torch.float32} if kwargs.get("dtype") is torch.float16 else kwargs
    result = func(*wide, **options)
    return isinstance(result, Tensor) and bool(torch.isfinite(result).all())


def _is_finite(value: float) -> bool:
    return abs(value) != float("inf") and value == value
