"""What one training step asks of the device: how many operations, from which lines, and which of them wait for it.

On a machine without a device the calls are counted that would wait on one: those that turn a tensor of the step's
own into a Python number, an array, a CPU tensor, text, or a size that depends on its values. A tensor is of the
step's own when it comes from the model's parameters or from the batch; what an optimizer counts on the CPU is not. What
a framework reads in its own loop, or torch in its optimizers, averages and packed sequences and for what it validates
of distributions, is not the user's to mend and does not count.
"""

from __future__ import annotations

import linecache
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, ClassVar, Self

import torch
from torch import Tensor
from torch.nn.functional import one_hot
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakIdKeyDictionary

from mlcheck.core.finding import Location
from mlcheck.core.source_text import read_source
from mlcheck.probe.measure.drive import first_batches
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.place import is_users, user_location
from mlcheck.probe.measure.tree import copied, leaves
from mlcheck.trial.trial import Trial

_STEPS = 3
_T = Tensor
_READS: dict[Any, str] = {
    _T.item: ".item()", _T.tolist: ".tolist()", _T.cpu: ".cpu()", _T.numpy: ".numpy()", _T.__array__: "as an array",
    _T.__bool__: "bool()", _T.__float__: "float()", _T.__int__: "int()", _T.__index__: "as an index",
    _T.__repr__: "printed", _T.__format__: "printed", _T.nonzero: "nonzero", torch.nonzero: "nonzero",
    torch.argwhere: "argwhere", _T.argwhere: "argwhere", torch.masked_select: "masked_select",
    _T.masked_select: "masked_select", torch.unique: "unique", _T.unique: "unique", torch.equal: "equal",
    _T.equal: "equal", torch.allclose: "allclose", _T.allclose: "allclose", _T.__complex__: "complex()",
    _T.is_nonzero: "bool()", torch.is_nonzero: "bool()", _T.__contains__: "in", torch.bincount: "bincount",
    _T.bincount: "bincount", torch.unique_consecutive: "unique", _T.unique_consecutive: "unique",
}  # fmt: skip
_TO_CPU = re.compile(r"""\.to\((device=)?(torch\.device\()?["']cpu["']""")
_TORCH = str(Path(torch.__file__).parent)
_PACKED = (torch.nn.utils.rnn.__file__, torch.nn.modules.rnn.__file__)  # their lengths are on the CPU by contract
_FOLDERS = tuple(str(Path(_TORCH) / name) for name in ("optim", "distributions"))
_BY_THEMSELVES = (*_FOLDERS, *_PACKED)
_REPEATS = (torch.repeat_interleave, _T.repeat_interleave)


@dataclass(frozen=True, slots=True)
class Call:
    """A line of the user's, what it asks there, and how many times in a step."""

    place: Location
    what: str
    times: float


@dataclass(frozen=True, slots=True)
class StepCalls:
    """A step's `waits` for the device and its `copies` to it, most frequent first; `operations` by line of the user's.

    `device` is where it ran. `meant` says that the program is written for a device, whatever it ran on here; `placed`
    that a framework puts models and batches on whatever device there is.
    """

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 60

    device: str
    meant: bool
    waits: tuple[Call, ...]
    copies: tuple[Call, ...]
    operations: tuple[Call, ...]
    placed: bool = False

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - three steps
        if not trial.repeats_batches:
            raise NotMeasured("the program draws its batches itself, between its own steps")
        batch = first_batches(trial, 1)[0]
        owned = [p for model in trial.models.values() for p in (*model.parameters(), *model.buffers())]
        first = _Calls(owned)
        with first:  # what happens once is not every step's
            trial.train_step(copied(batch), 0)
        counted = _Calls(owned)
        for index in range(1, _STEPS + 1):
            again = copied(batch)
            if not first.moves:  # else only what is moved is on the device
                counted.know(tensor for _, tensor in leaves(again))
            with counted:
                trial.train_step(again, index)
        return cls(
            device=trial.device.type,
            meant=trial.device.type != "cpu" or counted.moves or _mentions_device(trial.entry[0]),
            waits=counted.by_line(counted.waits),
            copies=counted.by_line(counted.copies),
            operations=counted.by_line(counted.operations),
            placed=trial.saved is not None,
        )


def _mentions_device(path: str) -> bool:
    try:
        text = read_source(path)
    except (OSError, SyntaxError, ValueError):
        return False
    return re.search(r"cuda|device(?!s\b)", text) is not None  # a framework's trainer is told of `devices`


class _Calls(TorchFunctionMode):
    """Counts calls by line; knows the tensors that would be on the device."""

    def __init__(self, known: Iterable[Tensor]) -> None:
        super().__init__()
        self.waits: Counter[tuple[Location, str]] = Counter()
        self.copies: Counter[tuple[Location, str]] = Counter()
        self.operations: Counter[tuple[Location, str]] = Counter()
        self.moves = False
        self._known: Any = WeakIdKeyDictionary()
        self.know(known)

    def know(self, tensors: Iterable[Tensor]) -> None:
        for tensor in tensors:
            self._known[tensor] = True

    def by_line(self, counted: Counter[tuple[Location, str]]) -> tuple[Call, ...]:
        return tuple(Call(place, what, times / _STEPS) for (place, what), times in counted.most_common())

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        given = kwargs or {}
        made = func(*args, **given)
        tensors = [tensor for _, tensor in leaves([*args, *given.values()])]
        moved = _is_move(func, args, given) and _asked_by_the_program()
        if not moved and not any(tensor in self._known for tensor in tensors):
            return made
        outcome = [tensor for _, tensor in leaves(made)]
        place = user_location()
        what = _waits(func, args, given) if not moved or tensors[0] in self._known or _on_device(tensors[0]) else ""
        if func is not _T.cpu and what != '.to("cpu")':
            self.know(outcome)
        elif made is args[0]:  # a device would have given a copy, which may be read at no cost
            made = made.view_as(made)
        if what and place.path and _asked_by_the_user():
            self.waits[place, what] += 1
        if moved and not what and place.path:
            self.moves = True
            if outcome[0].device != tensors[0].device:
                self.copies[place, _copy(tensors[0], given)] += 1
        elif outcome and getattr(func, "__name__", "") != "__get__":
            self.operations[place, ""] += 1
        return made


def _waits(func: Callable[..., Any], args: tuple[Any, ...], given: Mapping[str, Any]) -> str:
    """How a call makes Python wait for the device; empty where it does not."""
    what = _READS.get(func, "")
    if what or not args:
        return what
    if what := _by_arguments(func, args, given):
        return what
    if not _is_move(func, args, given) or given.get("non_blocking"):
        return ""
    leaves_device = _on_device(args[0]) or _says_cpu(user_location())
    return '.to("cpu")' if leaves_device and torch.device(_target(args, given) or "cuda").type == "cpu" else ""


def _asked_by_the_user() -> bool:
    """Whether the call under way was made by the user's code, directly or through torch's own functions."""
    caller = _caller()
    return caller is not None and is_users(caller.f_code.co_filename)


def _asked_by_the_program() -> bool:
    """Whether whoever called is not torch itself, whose clipping brings its own numbers to the gradients' device."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    return frame is not None and not frame.f_code.co_filename.startswith(_TORCH)


def _caller() -> FrameType | None:
    """Who asked torch for the call under way; None where torch did, of itself."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith((_TORCH, __file__)):
        if frame.f_code.co_filename.startswith(_BY_THEMSELVES):
            return None
        frame = frame.f_back
    return frame


def _by_arguments(func: Callable[..., Any], args: tuple[Any, ...], given: Mapping[str, Any]) -> str:
    """How a call waits whose arguments decide whether it does."""
    if func in (_T.__getitem__, _T.__setitem__):
        bounds = [bound for index in _indices(args[1]) for bound in (index.start, index.stop)]
        if any(isinstance(bound, Tensor) for bound in bounds):
            return "as an index"
        by_mask = any(tensor.dtype == torch.bool for _, tensor in leaves([args[1]]))
        filled = func is _T.__setitem__ and not (isinstance(args[2], Tensor) and args[2].dim())
        return "indexed by a mask" if by_mask and not filled else ""
    if func is torch.where and len(args) == 1 and not given:
        return "where"
    if func is torch.arange or (func is torch.tensor and not isinstance(args[0], Tensor)):
        return f"{func.__name__}()"  # of tensors, or it would not be asked for
    if func is one_hot and len(args) == 1 and given.get("num_classes", -1) == -1:
        return "one_hot without num_classes"
    if func in _REPEATS and len(args) > 1 and isinstance(args[1], Tensor) and "output_size" not in given:
        return "repeat_interleave without output_size"
    return ""


def _indices(index: Any) -> list[slice]:
    return [part for part in (index if isinstance(index, tuple) else (index,)) if isinstance(part, slice)]


def _on_device(tensor: Tensor) -> bool:
    return tensor.device.type != "cpu"


def _says_cpu(place: Location) -> bool:
    """Whether the CPU is meant by name: a device in a variable is another one on another machine."""
    return bool(_TO_CPU.search(linecache.getline(place.path, place.line)))


def _is_move(func: Callable[..., Any], args: tuple[Any, ...], given: Mapping[str, Any]) -> bool:
    return func is _T.cuda or (func is _T.to and _target(args, given) is not None)


def _target(args: tuple[Any, ...], given: Mapping[str, Any]) -> str | torch.device | None:
    return next((value for value in (*args[1:], *given.values()) if isinstance(value, str | torch.device)), None)


def _copy(tensor: Tensor, given: Mapping[str, Any]) -> str:
    pinned = "pinned" if tensor.is_pinned() else "not pinned"
    return f"{tensor.nbytes / 1e6:.3g} MB, {pinned}{'' if given.get('non_blocking') else ', blocking'}"
