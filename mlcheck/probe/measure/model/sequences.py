"""Models that predict the next token: whether an output depends on tokens behind it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from mlcheck.core.finding import Location
from mlcheck.probe.measure.data.looked_up import LookedUp
from mlcheck.probe.measure.data.picked_places import PickedPlaces
from mlcheck.probe.measure.drive import exclusively_evaluating, first_batches
from mlcheck.probe.measure.loss.losses import LossWatch
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.model.model_calls import CapturedCall, capture
from mlcheck.probe.measure.modules import Arguments, ModuleWatch, Names
from mlcheck.probe.measure.tree import leaves, map_tensors
from mlcheck.trial.sandbox import restored
from mlcheck.trial.trial import Trial

_FEW_ASKED = 20
_ROUNDING = 1e-3
_ANSWERS = frozenset(["labels", "label", "targets", "target"])


@dataclass(frozen=True, slots=True)
class NextToken:
    """A model whose targets are its inputs, one place later (`shift` 1), or at the same place (`shift` 0).

    `leaks` are positions whose output changed when only later tokens were exchanged, of `tried`; `module` is the
    first whose output did. Where the loss asks for few places of a sequence, `asked` counts those of the batch.
    """

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 7

    shift: int
    length: int
    tried: int
    leaks: int
    module: str
    place: Location
    asked: int = 0

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - a few passes, whatever the limit
        with restored(trial):
            ids, targets, place, looked_up = _observed(trial)
        shifts = [_shift(tokens, targets) for tokens in ids]
        asked = [_unhidden(tokens, targets) if looked_up.holds(tokens) else 0 for tokens in ids]
        which = next((index for index, shift in enumerate(shifts) if shift is not None or asked[index]), None)
        if which is None:
            raise NotMeasured("the targets are not the inputs, shifted by one place")
        tokens, shift = ids[which], shifts[which]
        call = capture(trial, ragged=True)  # beside a state that is carried on, which counts its layers first
        length = tokens.shape[1]
        cuts = sorted({1, length // 4, length // 2, length - 2} & set(range(1, length)))
        only = which if len(ids) > 1 else None
        with exclusively_evaluating(iter(trial.models.values())):
            if shift != 1:
                _sees_its_own_place(call, cuts, length, only, encodes=not asked[which])
                return cls(0, length, 0, 0, "", place, asked[which])
            exchanges = {cut: _exchanged(call, cut, length, only) for cut in cuts}
            leaking = [cut for cut in cuts if _leaks(call, exchanges[cut], cut, length)]
            where = _where(call, exchanges[leaking[0]], leaking[0], length, trial) if leaking else ""
        return cls(1, length, len(cuts), len(leaking), where, place)


def _observed(trial: Trial) -> tuple[list[Tensor], Tensor, Location, LookedUp]:
    """The token ids that enter the first model (several of a decoder), and the targets of the first loss.

    With what is looked up in embeddings: a model may hide some of its tokens before it reads them. Targets that a mask
    picked are in their places again, with -1 in all others.
    """
    losses, modules, looked_up = LossWatch(keep_dropout=False), ModuleWatch(), LookedUp(trial.models.values())
    with losses, modules, looked_up, PickedPlaces() as picked:
        trial.train_step(first_batches(trial, 1)[0], 0)
    names = Names(trial.models)
    for call in modules.calls:
        ids = [tensor.detach().clone() for tensor in _ids((call.args, call.kwargs))]
        if ids and names.knows(call.module):
            for loss in losses.calls:
                if loss.kind in ("cross_entropy", "nll_loss") and not loss.target.is_floating_point():
                    return ids, picked.put_back(loss.target), loss.place, looked_up
    raise NotMeasured("no model takes token ids of shape (samples, places) and is trained with cross_entropy")


def _ids(arguments: Arguments) -> list[Tensor]:
    """The token ids among a model's arguments. Labels that it computes its own loss from are nothing it reads."""
    return [t for name, t in leaves(arguments) if _are_ids(t) and name.rpartition(".")[2] not in _ANSWERS]


def _unhidden(tokens: Tensor, targets: Tensor) -> int:
    """How many places the loss asks for, where they are few and each has its own target as the token that is read."""
    if targets.numel() != tokens.numel():
        return 0
    wanted = targets.reshape(tokens.shape)
    asked = wanted >= 0
    count = int(asked.sum())
    few = _FEW_ASKED <= count < tokens.numel() / 2 and len(set(wanted[asked].tolist())) > 2
    return count if few and not _at_one_end(asked) and bool((wanted == tokens)[asked].all()) else 0


def _at_one_end(asked: Tensor) -> bool:
    """Whether the others are padding: behind the last place of every sequence, or before its first."""
    steps = asked.int().diff()
    return bool((steps <= 0).all() or (steps >= 0).all())


def _are_ids(tensor: Tensor) -> bool:
    return tensor.dtype in (torch.int64, torch.int32) and tensor.ndim == 2 and tensor.shape[1] >= 4


def _shift(tokens: Tensor, targets: Tensor) -> int | None:
    rows, length = tokens.shape
    if targets.numel() == rows * length:
        same = targets.reshape(rows, length)
        shifted = same[:, :-1] == tokens[:, 1:]
        known = same[:, :-1] >= 0
        if bool(known.any()) and bool(shifted[known].all()):
            return 1
        return 0 if bool((same == tokens).all()) else None
    if targets.numel() == rows * (length - 1):
        same = targets.reshape(rows, length - 1)
        known = same >= 0
        return 1 if bool(known.any()) and bool((same == tokens[:, 1:])[known].all()) else None
    return None


def _sees_its_own_place(call: CapturedCall, cuts: list[int], length: int, which: int | None, encodes: bool) -> None:
    """Raises NotMeasured where a model whose targets are its inputs has something to predict nevertheless."""
    if encodes and any(_leaks(call, _exchanged(call, cut, length, which), cut, length) for cut in cuts):
        raise NotMeasured("every place reads the whole sequence that is the target, as in an autoencoder")
    if not any(_leaks(call, _exchanged(call, cut - 1, length, which), cut, length) for cut in cuts):
        raise NotMeasured("no output depends on the input at its own place: the model itself feeds back earlier tokens")


def _exchanged(call: CapturedCall, cut: int, length: int, which: int | None) -> Arguments:
    """The same tokens up to `cut`, those of another sample behind it: of one input where a decoder has several."""
    ids = _ids((call.args, call.kwargs))
    only = ids[which] if which is not None and which < len(ids) else None

    def exchange(tensor: Tensor) -> Tensor:
        if tensor.is_floating_point() or tensor.ndim != 2 or tensor.shape[1] not in (length, length - 1):
            return tensor
        if only is not None and tensor is not only:
            return tensor
        return torch.cat([tensor[:, : cut + 1], tensor.roll(1, 0)[:, cut + 1 :]], dim=1)

    return map_tensors((call.args, call.kwargs), exchange)  # type: ignore[no-any-return]


def _leaks(call: CapturedCall, exchanged: Arguments, cut: int, length: int) -> bool:
    """Whether an output at or before `cut` changes by more than rounding."""
    before = call.replay()
    after = call.replay(exchanged)
    samples = {len(ids) for ids in _ids((call.args, call.kwargs))}
    compared = [
        (_up_to(cut, one, length), _up_to(cut, other, length))
        for one, other in zip(before, after)
        if one.shape == other.shape and one.ndim and len(one) in samples
    ]
    if not any(here for here, _ in compared):
        raise NotMeasured("no output of the model has a value for every place")
    return any(bool(here) and all(map(_differ, here, there)) for here, there in compared)


def _up_to(cut: int, output: Tensor, length: int) -> list[Tensor]:
    """What the output says of the places up to `cut`: (samples, places, classes) or, as of a convolution, places last.

    Both, where there are as many classes as places: an output that leaks differs in either reading.
    """
    if output.ndim < 3:
        return []
    dims = [dim for dim in (1, output.ndim - 1) if output.shape[dim] in (length, length - 1)]
    return [output.narrow(dim, 0, cut + 1).clone() for dim in dims]


def _differ(here: Tensor, there: Tensor) -> bool:
    gap = (here.double() - there.double()).abs().max()
    return float(gap) > _ROUNDING * (float(here.abs().max()) or 1.0)


def _where(call: CapturedCall, exchanged: Arguments, cut: int, length: int, trial: Trial) -> str:
    """The first module whose output before `cut` changes with the tokens behind it."""
    kept: list[list[tuple[torch.nn.Module, list[Tensor]]]] = []
    for arguments in ((call.args, call.kwargs), exchanged):
        seen: list[tuple[torch.nn.Module, list[Tensor]]] = []

        def observe(module: torch.nn.Module, output: object, seen: list[Any] = seen) -> None:
            if isinstance(output, Tensor) and (places := _up_to(cut, output, length)):
                seen.append((module, places))

        with ModuleWatch(observe=observe):
            call.replay(arguments)
        kept.append(seen)
    for (module, here), (_, there) in zip(*kept):
        if all(map(_differ, here, there)):
            return Names(trial.models).module(module)
    return ""
