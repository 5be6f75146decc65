"""One training step that changes no parameter, in which every call of torch on a tensor is shown with its result."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from torch import Tensor
from torch.overrides import TorchFunctionMode

from mlcheck.probe.measure.drive import first_batches
from mlcheck.probe.measure.simplified import stilled
from mlcheck.trial.trial import Trial

Look = Callable[[Any, tuple[Any, ...], dict[str, Any], Tensor], None]


def watch_step(trial: Trial, look: Look, tuples: bool = False) -> None:
    """Train on the first batch; `look` gets each function whose first argument is a tensor, its arguments, its result.

    With `tuples` it gets the first of several results, too, as recurrent layers give them.
    What `look` raises is passed over: tensors that stand for others, as within vmap, refuse to be looked at.
    """
    with stilled(trial), _Shown(look, tuples):
        trial.train_step(first_batches(trial, 1)[0], 0)


class _Shown(TorchFunctionMode):
    def __init__(self, look: Look, tuples: bool) -> None:
        super().__init__()
        self._look, self._tuples = look, tuples

    def __torch_function__(
        self, func: Any, types: Iterable[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        shown = result[0] if self._tuples and isinstance(result, tuple) and result else result
        if isinstance(shown, Tensor) and args and isinstance(args[0], Tensor):
            with suppress(Exception):
                self._look(func, args, kwargs or {}, shown)
        return result
