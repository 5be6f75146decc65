"""Whether a sample's output depends on how far its batch was padded: with its padding, and cut to its own length."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from mlcheck.core.finding import Location
from mlcheck.probe.measure.drive import exclusively_evaluating, first_batches, inconclusive
from mlcheck.probe.measure.loss.losses import LossCall, LossWatch
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.model.model_calls import CapturedCall, capture
from mlcheck.probe.measure.modules import by_parameter
from mlcheck.probe.measure.tree import copied, leaves, map_tensors
from mlcheck.trial.sandbox import restored
from mlcheck.trial.traceback import error_line
from mlcheck.trial.trial import Trial

FEW_LENGTHS = 3
ROWS = 3
SHORTEST = 2
SAME = 0.01
_PADDED = 0.1
_LENGTHS = re.compile(r"(^|_)(x_)?(len|lens|length|lengths|sizes?)($|_)")


@dataclass(frozen=True, slots=True)
class Padding:
    """`told_by` is how the model knows of padding: the name of its mask or lengths; empty where it is not told.

    `change` is the largest difference of an output between the padded and the cut sample, as a multiple of how much
    outputs differ from sample to sample; `row` and `length` say where; `undecided` is why that was not measured.
    `counted` is the share of the loss's targets that are padding and not ignored, at `loss_place`.
    """

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 7

    told_by: str
    places: int
    change: float
    row: int
    length: int
    counted: float
    loss_place: Location
    undecided: str = ""

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - a few passes, whatever the limit
        with restored(trial):
            losses = LossWatch(keep_dropout=False)
            with losses:
                trial.train_step(first_batches(trial, 1)[0], 0)
        with restored(trial):
            call = capture(trial)
        told_by, lengths, places, pad = _padding(call)
        words = {module.num_embeddings for module in call.module.modules() if isinstance(module, nn.Embedding)}
        counted, place = max(
            (_counted(losses.calls, words, *span) for span in [(lengths, places, pad), *_spans(call)]),
            key=lambda found: found[0],
        )
        change, row, undecided = 0.0, 0, ""
        try:
            with exclusively_evaluating(iter(trial.models.values())):
                if call.draws_noise():
                    raise inconclusive("the model draws random numbers in evaluation too: no two answers are alike")
                change, row = _largest_change(call, lengths, places)
        except NotMeasured as why:
            undecided = why.reason
        return cls(told_by, places, change, row, int(lengths[row]), counted, place, undecided)


def _padding(call: CapturedCall) -> tuple[str, Tensor, int, int | None]:
    """How the model is told, the length of each sample, the padded length, and the id that fills up."""
    named = dict(leaves(by_parameter(call.module, call.args, call.kwargs)))
    tokens = next((t for t in named.values() if t.ndim == 2 and t.dtype in (torch.int64, torch.int32)), None)
    found = _tails(tokens) if tokens is not None else None
    pad = found[1] if found else None
    for name, tensor in named.items():
        lengths = _mask_lengths(tensor) if tensor is not tokens else None
        if lengths is None and tensor.ndim == 1 and not tensor.is_floating_point() and _LENGTHS.search(name.lower()):
            lengths = tensor.long()
        if lengths is None or not _plausible(lengths):
            continue
        places = tensor.shape[1] if tensor.ndim == 2 else int(lengths.max())
        if any(t.ndim >= 2 and t.shape[1] == places for other, t in named.items() if other != name):
            return name, lengths.cpu(), places, pad
    if found and tokens is not None and _plausible(found[0]):
        return "", found[0].cpu(), tokens.shape[1], pad
    raise NotMeasured("no mask, lengths or padded ends were seen among what the model is given")


def _spans(call: CapturedCall) -> Iterator[tuple[Tensor, int, int]]:
    """Of all token ids that the model is given, as an encoder and a decoder: lengths, padded length, filling id."""
    for _, tensor in leaves((call.args, call.kwargs)):
        ids = tensor.ndim == 2 and tensor.dtype in (torch.int64, torch.int32)
        if ids and (found := _tails(tensor)) and _plausible(found[0]):
            yield found[0].cpu(), tensor.shape[1], found[1]


def _plausible(lengths: Tensor) -> bool:
    return int(lengths.min()) >= SHORTEST and len(set(lengths.tolist())) >= FEW_LENGTHS


def _mask_lengths(tensor: Tensor) -> Tensor | None:
    """Of a (samples, places) mask that is one value up to each sample's length and the other behind it."""
    if tensor.ndim != 2 or tensor.shape[1] < SHORTEST or not bool(((tensor == 0) | (tensor == 1)).all()):
        return None
    real = tensor == tensor[:, :1]
    starts_alike = bool((tensor[:, 0] == tensor[0, 0]).all())
    falls_once = bool((real.long().diff(dim=1) <= 0).all())
    return real.sum(1) if starts_alike and falls_once and not bool(real.all()) else None


def _tails(tokens: Tensor) -> tuple[Tensor, int] | None:
    """Lengths without the run of one id that ends most rows and occurs nowhere else."""
    ends = tokens[:, -1]
    pad = int(ends.mode().values)
    is_pad = tokens == pad
    lengths = tokens.shape[1] - is_pad.flip(1).long().cumprod(1).sum(1)
    elsewhere = int(is_pad.sum()) - int((tokens.shape[1] - lengths).sum())
    padded = float((lengths < tokens.shape[1] - 1).double().mean())
    return (lengths, pad) if elsewhere == 0 and padded >= _PADDED else None


def _largest_change(call: CapturedCall, lengths: Tensor, places: int) -> tuple[float, int]:
    whole = call.replay()
    worst, where = 0.0, int(lengths.argmin())
    for row in lengths.argsort().tolist()[:ROWS]:
        length = int(lengths[row])
        if length >= places:
            continue
        change = _between(whole, _alone(call, row, length, places), row, length, places)
        if change > worst:
            worst, where = change, row
    others = _in_other_company(call, where, lengths) if worst > SAME else ()
    if any(_between(whole, other, where, places, places) > SAME for other in others):
        raise inconclusive("a sample's answer changes with the other samples of its batch, whatever their padding")
    return worst, where


def _in_other_company(call: CapturedCall, row: int, lengths: Tensor) -> Iterator[list[Tensor]]:
    """The sample's own answer, padded as before: all others, but the longest, copies of it; it and the longest only."""
    longest = int(lengths.argmax())
    order = torch.full_like(lengths, row)
    order[longest] = longest
    yield _answer(call, order, row)
    with suppress(Exception):  # a model may be told how many samples there are
        yield _answer(call, torch.tensor([row, longest]), 0)


def _answer(call: CapturedCall, order: Tensor, place: int) -> list[Tensor]:
    """What the model says of the sample at `place` in a batch of these samples."""

    def exchange(tensor: Tensor) -> Tensor:
        fits = tensor.ndim and tensor.shape[0] == call.rows
        return tensor.index_select(0, order.to(tensor.device)) if fits else tensor

    return [
        tensor[place : place + 1] if tensor.ndim else tensor
        for tensor in call.replay(map_tensors((copied(call.args), copied(call.kwargs)), exchange))
    ]


def _between(whole: list[Tensor], alone: list[Tensor], row: int, length: int, places: int) -> float:
    return max((_change(padded, cut, row, length, places) for padded, cut in zip(whole, alone)), default=0.0)


def _alone(call: CapturedCall, row: int, length: int, places: int) -> list[Tensor]:
    """What one sample without its padding gives; what holds pairs of places (a graph, a mask) is cut both ways."""
    with suppress(Exception):
        return call.replay(_cut(call, row, length, places, both_ways=False))
    try:
        return call.replay(_cut(call, row, length, places, both_ways=True))
    except Exception as error:
        raise inconclusive(f"the model takes samples of one length only ({error_line(error)})") from error


def _cut(call: CapturedCall, row: int, length: int, places: int, both_ways: bool) -> Any:
    """One sample by itself, without its padding."""

    def cut(tensor: Tensor) -> Tensor:
        alone = tensor[row : row + 1] if tensor.ndim and tensor.shape[0] == call.rows else tensor
        if alone.ndim < 2 or alone.shape[1] != places:
            return alone
        square = both_ways and alone.ndim > 2 and alone.shape[2] == places
        return alone[:, :length, :length] if square else alone[:, :length]

    return map_tensors((copied(call.args), copied(call.kwargs)), cut)


def _change(padded: Tensor, cut: Tensor, row: int, length: int, places: int) -> float:
    """Against the deviation between samples, over the places that are real."""
    if not padded.is_floating_point() or not padded.ndim or row >= len(padded) or len(cut) != 1:
        return 0.0
    mine = padded[row : row + 1]
    if mine.ndim > 1 and mine.shape[1] == places != cut.shape[1]:
        mine = mine[:, :length]
    if mine.shape != cut.shape:
        return 0.0
    spread = float(padded.double().std(0).mean()) or 1.0
    return float((mine - cut).double().abs().max()) / spread


def _counted(
    calls: list[LossCall], words: set[int], lengths: Tensor, places: int, pad: int | None
) -> tuple[float, Location]:
    """The share of a loss's targets that hold the filling id and are averaged in.

    Where they are words of the model's own vocabulary, this id is none of them wherever it stands, but for one a row,
    which may be its end; other classes may have that number, and are padding at padded places only.
    """
    here = torch.arange(places)[None] >= lengths[:, None]
    for call in calls:
        target = call.target.detach().cpu()
        fitting = [each for each in (here, here[:, 1:]) if each.numel() == target.numel()]  # or each place's next token
        if pad is None or call.kind not in ("cross_entropy", "nll_loss") or not fitting:
            continue
        filled = target.reshape(fitting[0].shape) == pad
        share = float((filled & fitting[0]).double().mean())
        if call.input.shape[1] in words:
            share = max(share, float((filled.sum() - len(filled)) / filled.numel()))
        plain = call.options.get("reduction") == "mean" and call.options.get("weight") is None
        if plain and int(call.options.get("ignore_index", -100)) != pad:
            return share, call.place
    return 0.0, Location()
