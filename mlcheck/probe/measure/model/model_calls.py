"""The model as the user's loop calls it, ready to be called again with other rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from mlcheck.probe.measure.drive import first_batches
from mlcheck.probe.measure.measurement import NotMeasured
from mlcheck.probe.measure.modules import Arguments, ModuleWatch, Names
from mlcheck.probe.measure.tree import copied, leaves
from mlcheck.trial.generators import seed_all
from mlcheck.trial.traceback import error_line
from mlcheck.trial.trial import Trial

_MOST_DEPTH = 4


@dataclass(slots=True)
class CapturedCall:
    """The first call of a model on data (not on what another module computed), with `rows` samples.

    `times` is how often the step calls this model.
    """

    name: str
    module: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    rows: int
    times: int = 1

    def replay(self, arguments: Arguments | None = None, module: nn.Module | None = None) -> list[Tensor]:
        """The output's tensors, in evaluation mode, without gradients, with fixed random numbers."""
        args, kwargs = arguments or (self.args, self.kwargs)
        seed_all(0)
        with torch.no_grad():
            output = (module or self.module)(*copied(args), **copied(kwargs))
        found = list(_held(output))
        if not found:
            raise NotMeasured(f"`{self.name}` returns no tensors, nor anything that holds some")
        return found

    def draws_noise(self) -> bool:
        """Whether a pass moves torch's random numbers on."""
        self.replay()
        after = torch.get_rng_state()
        seed_all(0)
        return not torch.equal(after, torch.get_rng_state())


def capture(trial: Trial, *, ragged: bool = False) -> CapturedCall:
    """Run a training step and keep its first call of one of the trial's models. Raises NotMeasured without one.

    `ragged` also takes one whose inputs share no batch dimension: it has 0 rows.
    """
    names = Names(trial.models)
    kept: list[Any] = []

    def keep(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
        if not kept and names.knows(module) and _is_data((args, kwargs)):
            derived = any(tensor.requires_grad for _, tensor in leaves((args, kwargs)))
            kept.append((module, copied(args), copied(kwargs), derived))
        return args, kwargs

    with ModuleWatch(keep) as watch:
        trial.train_step(first_batches(trial, 1)[0], 0)
    if not kept:
        raise NotMeasured("no model is called on inputs that need no gradient, so none can be called again")
    module, args, kwargs, derived = kept[0]
    if any(tensor.layout is not torch.strided for _, tensor in leaves((args, kwargs))):
        raise NotMeasured("an input of the model is sparse, as the edges of a graph are: rows cannot be exchanged")
    sizes = {tensor.shape[0] for _, tensor in leaves((args, kwargs)) if tensor.ndim}
    if sizes in (set(), {0}) or (len(sizes) > 1 and not ragged):
        raise NotMeasured("the model's inputs share no batch dimension (as in graphs), so rows cannot be exchanged")
    times, rows = sum(call.module is module for call in watch.calls), sizes.pop() if len(sizes) == 1 else 0
    found = CapturedCall(names.path(module) or next(iter(trial.models)), module, args, kwargs, rows, times)
    if derived:
        _answers_without_gradients(found)
    return found


def _answers_without_gradients(call: CapturedCall) -> None:
    """Raises NotMeasured for a model that takes derivatives by its inputs itself."""
    try:
        call.replay()
    except NotMeasured:
        raise
    except Exception as error:
        raise NotMeasured(f"the model does not run without gradients ({error_line(error)})") from error


def _held(output: Any, depth: int = 0) -> Iterator[Tensor]:
    """The tensors of an output, and of what is no container, as a distribution, those that it keeps."""
    found = [tensor for _, tensor in leaves(output)]
    yield from found
    if found or depth >= _MOST_DEPTH:
        return
    parts = output if isinstance(output, list | tuple) else getattr(output, "__dict__", {}).values()
    for part in parts:
        yield from _held(part, depth + 1)


def _is_data(tree: Any) -> bool:
    tensors = [tensor for _, tensor in leaves(tree)]
    return bool(tensors) and not any(tensor.requires_grad and not _is_asked_about(tensor) for tensor in tensors)


def _is_asked_about(tensor: Tensor) -> bool:
    """Data that the loss asks for derivatives by, as those of a differential equation, and nothing that is trained."""
    return tensor.is_leaf and not isinstance(tensor, nn.Parameter)
