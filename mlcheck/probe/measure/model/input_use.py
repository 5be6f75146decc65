"""Whether the model's output depends on what it is given."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from mlcheck.probe.measure.drive import exclusively_evaluating, first_batches
from mlcheck.probe.measure.loss.loss_scene import LossScene
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.model.model_calls import CapturedCall, capture
from mlcheck.probe.measure.model.rearranged import uses
from mlcheck.probe.measure.modules import ModuleWatch, by_parameter
from mlcheck.probe.measure.tree import leaves, map_tensors
from mlcheck.trial.sandbox import cells_of
from mlcheck.trial.trial import Trial

WARM_UP_STEPS = 4
MOST_COLUMNS = 64


@dataclass(frozen=True, slots=True)
class InputUse:
    """Outputs in evaluation mode before and after each input's rows were exchanged, after a few steps of training.

    `ignored` are the inputs whose exchange left every output bitwise unchanged, `used` those that did not;
    an input whose rows are all equal tells nothing and is in neither, nor is what the loss asks for in a batch that the
    model is given as a whole. `outlined` are whole numbers (tokens) of which
    only the padding counts: all others exchanged, place by place, change nothing. `columns` are those of a table of
    codes, of which embeddings look up whole columns, whose exchange changes nothing either. `identical` says that all
    rows of the output are bitwise the same although those of the input differ; `trained` that the steps changed a
    parameter; `remembers` that it is called time after time in a step and keeps something from call to call, as spiking
    neurons do. `rows` is 0 where the inputs share no batch dimension: each was rearranged within itself.
    """

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 10

    model: str
    rows: int
    ignored: tuple[str, ...]
    used: tuple[str, ...]
    identical: bool
    trained: bool
    finite: bool
    outlined: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    remembers: bool = False

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - a few passes, whatever the limit
        trained = _warm_up(trial)
        call = capture(trial, ragged=True)
        if call.rows == 0:
            return cls._of_ragged(trial, call, trained)
        if call.rows == 1:
            raise NotMeasured("the batch has one row: there is nothing to exchange")
        with exclusively_evaluating(iter(trial.models.values())):
            before = call.replay()
            tried = _exchanges(call, before)
            used = [name for name, changed in tried.items() if changed]
            outlined = tuple(_outlined(call, before, used))
            columns = tuple(_ignored_columns(call, before, used))
            remembers = call.times > 1 and _remembers(trial, call)
        ignored = [name for name, changed in tried.items() if not changed]
        return cls(
            model=call.name,
            rows=call.rows,
            ignored=tuple(name for name in ignored if not _is_for_the_loss(trial, call, name)),
            used=tuple(name for name, changed in tried.items() if changed),
            identical=bool(tried) and _identical_rows(before, call.rows),
            trained=trained,
            outlined=outlined,
            columns=columns,
            remembers=remembers,
            finite=all(bool(tensor.isfinite().all()) for tensor in before if tensor.is_floating_point()),
        )

    @classmethod
    def _of_ragged(cls, trial: Trial, call: CapturedCall, trained: bool) -> Self:
        tried = uses(trial, call)
        ignored, used = (tuple(name for name, changed in tried.items() if changed == way) for way in (False, True))
        finite = all(bool(tensor.isfinite().all()) for tensor in call.replay() if tensor.is_floating_point())
        return cls(call.name, 0, ignored, used, identical=False, trained=trained, finite=finite)


def _is_for_the_loss(trial: Trial, call: CapturedCall, name: str) -> bool:
    """Whether a part of the batch, of which the model is given all, makes the loss of the step another: a target."""
    batch = first_batches(trial, 1)[0]
    parts, prefix = dict(leaves(batch)), name.partition(".")[0]
    given = {one for one, _ in leaves(by_parameter(call.module, call.args, call.kwargs))}
    leaf = parts.get(name.removeprefix(f"{prefix}."))
    if leaf is None or not all(f"{prefix}.{part}" in given for part in parts):
        return False
    exchanged = map_tensors(batch, lambda tensor: tensor.roll(1, 0) if tensor is leaf else tensor)
    return LossScene(trial, batch).value != LossScene(trial, exchanged).value


def _warm_up(trial: Trial) -> bool:
    """A few steps, so that heads initialised with zeros on purpose have moved. True if a parameter changed."""
    before = [(p, p.detach().clone()) for model in trial.models.values() for p in model.parameters()]
    for index, batch in enumerate(first_batches(trial, WARM_UP_STEPS)):
        trial.train_step(batch, index)
    return any(not torch.equal(now.detach(), then) for now, then in before)


def _remembers(trial: Trial, call: CapturedCall) -> bool:
    """Whether a call in evaluation mode leaves the model other than it was: a membrane's potential, a hidden state."""
    cells = cells_of(trial)
    call.replay()
    return any(cell.change() for cell in cells)


def _exchanges(call: CapturedCall, before: list[Tensor]) -> dict[str, bool]:
    """For every input whose rows differ: did the output change when its rows were moved round by one?

    What is made of all rows alike stays when they change places, and changes when one of them stands there twice.
    """
    tried: dict[str, bool] = {}
    round_by_one = torch.arange(call.rows).roll(1)
    first_twice = torch.arange(call.rows).clamp_min(1)
    names = [name for name, _ in leaves(by_parameter(call.module, call.args, call.kwargs))]
    for position, name in enumerate(names):
        for order in (round_by_one, first_twice):
            moved, differs = _moved(call, position, order)
            if differs and not tried.get(name):
                after = call.replay(moved)
                same = len(before) == len(after) and all(torch.equal(a, b) for a, b in zip(before, after))
                tried[name] = not same
    return tried


def _outlined(call: CapturedCall, before: list[Tensor], used: list[str]) -> Iterator[str]:
    """Tokens whose exchange leaves every output bitwise as it was, where the padding stays in place."""
    arguments = {"args": call.args, "kwargs": call.kwargs}
    for name, leaf in leaves(by_parameter(call.module, call.args, call.kwargs)):
        if name not in used or leaf.ndim != 2 or leaf.is_floating_point() or leaf.dtype is torch.bool:
            continue
        others = _among_tokens(leaf)
        if torch.equal(others, leaf):
            continue
        moved = _with(arguments, leaf, others)
        after = call.replay((moved["args"], moved["kwargs"]))
        if len(before) == len(after) and all(torch.equal(a, b) for a, b in zip(before, after)):
            yield name


def _ignored_columns(call: CapturedCall, before: list[Tensor], used: list[str]) -> Iterator[str]:
    """Columns of whole numbers whose exchange leaves every output as it was, though others are looked up one by one.

    That an embedding is asked for one number of each row tells a table of codes from a sequence of tokens.
    """
    if not _looks_up_columns(call):
        return
    arguments = {"args": call.args, "kwargs": call.kwargs}
    for name, leaf in leaves(by_parameter(call.module, call.args, call.kwargs)):
        if name not in used or leaf.ndim != 2 or leaf.dtype not in (torch.int64, torch.int32):
            continue
        for column in range(leaf.shape[1]) if 1 < leaf.shape[1] <= MOST_COLUMNS else ():
            moved = leaf.clone()
            moved[:, column] = leaf[:, column].roll(1)
            if torch.equal(moved, leaf):
                continue
            given = _with(arguments, leaf, moved)
            after = call.replay((given["args"], given["kwargs"]))
            if len(before) == len(after) and all(torch.equal(a, b) for a, b in zip(before, after)):
                yield f"{name}[:, {column}]"


def _looks_up_columns(call: CapturedCall) -> bool:
    found: list[bool] = []

    def look(module: nn.Module, output: Any) -> None:
        if isinstance(module, nn.Embedding):
            found.append(output.shape[:-1] == (call.rows,))

    with ModuleWatch(observe=look):
        call.replay()
    return bool(found) and all(found)


def _with(arguments: dict[str, Any], leaf: Tensor, other: Tensor) -> Any:
    return map_tensors(arguments, lambda tensor: other if tensor is leaf else tensor)


def _among_tokens(ids: Tensor) -> Tensor:
    """Each place's tokens moved round by one among the samples that have one there; padding is what ends most rows."""
    padding, moved = ids[:, -1].mode().values, ids.clone()
    for place in range(ids.shape[1]):
        filled = (ids[:, place] != padding).nonzero()[:, 0]
        moved[filled, place] = ids[filled.roll(1), place]
    return moved


def _moved(call: CapturedCall, position: int, order: Tensor) -> tuple[Any, bool]:
    counter, differs = -1, False

    def move(tensor: Tensor) -> Tensor:
        nonlocal counter, differs
        counter += 1
        if counter != position:
            return tensor
        moved = tensor.index_select(0, order.to(tensor.device)) if tensor.ndim else tensor
        differs = not torch.equal(moved, tensor)
        return moved

    arguments = map_tensors({"args": call.args, "kwargs": call.kwargs}, move)
    return (arguments["args"], arguments["kwargs"]), differs


def _identical_rows(outputs: list[Tensor], rows: int) -> bool:
    judged = [tensor for tensor in outputs if tensor.ndim and tensor.shape[0] == rows]
    return bool(judged) and all(bool((tensor == tensor[:1]).all()) for tensor in judged)
