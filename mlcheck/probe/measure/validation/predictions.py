"""The validation samples that a model is most wrong about, with what it says of them and what their label is."""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from mlcheck.probe.measure.data.vocabulary import Decode, decoder
from mlcheck.probe.measure.drive import Clock
from mlcheck.probe.measure.loss.losses import LossCall, LossWatch
from mlcheck.probe.measure.modules import ModelCall, ModuleWatch, by_parameter
from mlcheck.probe.measure.tree import beside, leaves, map_tensors
from mlcheck.trial.generators import seed_all
from mlcheck.trial.trial import NotReached, Trial

WORST = 12
BATCHES = 60
SECONDS = 2.0
_FEW = 8
_CLASSES = ("cross_entropy", "nll_loss")
_SINGLE: dict[str, Callable[..., Tensor]] = {
    "cross_entropy": F.cross_entropy,
    "nll_loss": F.nll_loss,
    "mse_loss": F.mse_loss,
    "l1_loss": F.l1_loss,
    "smooth_l1_loss": F.smooth_l1_loss,
    "huber_loss": F.huber_loss,
    "binary_cross_entropy": F.binary_cross_entropy,
    "binary_cross_entropy_with_logits": F.binary_cross_entropy_with_logits,
}


@dataclass(frozen=True, slots=True, order=True)
class Prediction:
    """One validation sample: its loss, its place in the pass, the label, what the model says and what it sees.

    `target` and `output` are pictures of the two, where they are as large as the picture that the model sees.
    """

    loss: float
    place: int
    label: str = field(compare=False)
    said: str = field(compare=False)
    input: Tensor = field(compare=False)
    target: Tensor | None = field(compare=False, default=None)
    output: Tensor | None = field(compare=False, default=None)


@dataclass(frozen=True, slots=True)
class Predictions:
    """The worst of `samples`, the worst first; `mean` is the loss of all. `confusion` counts (label, said) of classes.

    `field` names the input that is shown, `decode` writes its ids as text where the program has a vocabulary.
    """

    samples: int
    mean: float
    worst: tuple[Prediction, ...]
    confusion: dict[tuple[int, int], int]
    field: str
    decode: Decode | None


def predictions(trial: Trial) -> Predictions | None:
    """Of the model as it is, in the user's own evaluation; None where a sample has no loss and no input of its own."""
    if trial.evaluate_step is None or trial.validation_batches is None:
        return None
    worst: list[Prediction] = []
    confusion: Counter[tuple[int, int]] = Counter()
    losses: list[float] = []
    name, clock = "", Clock(SECONDS)
    seed_all(1)
    for evaluation in _evaluations(trial, clock):
        read = _read(*evaluation)
        if read is None:
            return None
        name, inputs, own, call = read
        places = range(len(losses), len(losses) + len(own))
        losses += own
        labels, said = _labels(call, len(own)), _said(call, len(own))
        targets, outputs = _dense(call, inputs)
        found = [Prediction(*one) for one in zip(own, places, labels, said, inputs, targets, outputs)]
        worst = heapq.nlargest(WORST, [*worst, *(p for p in found if p.loss == p.loss)])
        worst = [replace(p, input=p.input.clone(), target=_kept(p.target), output=_kept(p.output)) for p in worst]
        if call.kind in _CLASSES and call.target.ndim == 1 and not call.target.is_floating_point():
            confusion.update(zip(call.target.tolist(), call.input.argmax(1).tolist()))
    if not worst:  # nothing was evaluated, or every loss is NaN
        return None
    largest = max((int(p.input.max()) for p in worst if p.input.numel() and not p.input.is_floating_point()), default=0)
    return Predictions(
        len(losses), sum(losses) / len(losses), tuple(worst), dict(confusion), name, decoder(trial, largest)
    )


def _evaluations(trial: Trial, clock: Clock) -> Iterator[tuple[Any, LossWatch, ModuleWatch]]:
    """What each evaluated batch computed."""
    assert trial.evaluate_step is not None
    assert trial.validation_batches is not None
    for index, batch in enumerate(trial.validation_batches()):
        losses, modules = LossWatch(), ModuleWatch()
        try:
            with losses, modules:
                trial.evaluate_step(map_tensors(batch, Tensor.detach))
        except NotReached:
            return
        yield batch, losses, modules
        if index + 1 >= BATCHES or not clock.left():
            return


def _read(batch: Any, losses: LossWatch, modules: ModuleWatch) -> tuple[str, Tensor, list[float], LossCall] | None:
    """The input to show, and each sample's loss: of the one loss that was computed on the model's output."""
    if len(losses.calls) > 1 or not modules.calls:
        return None
    call = losses.calls[0] if losses.calls else _unspoken(batch, modules.calls)
    if call is None:
        return None
    shown = _input(modules.calls[0], call)
    if shown is None:
        return None
    name, inputs = shown
    own = each(call, len(inputs))
    return None if own is None else (name, inputs, own, call)


def _unspoken(batch: Any, calls: list[ModelCall]) -> LossCall | None:
    """Where the evaluation only counts hits, or errors: the loss of its one output and the batch's one label.

    That is the cross entropy of an output a class, and the squared error of a number a sample.
    """
    output = calls[0].output if len(calls) == 1 else None
    if not isinstance(output, Tensor) or not output.is_floating_point():
        return None
    if output.ndim == 1 or output.shape[1:] == (1,):
        return _counted_by_hand(batch, output.detach())
    if output.ndim != 2:
        return None
    samples, classes = output.shape
    whole = [leaf for _, leaf in leaves(batch) if leaf.dtype is torch.int64 and leaf.shape == (samples,)]
    if len(whole) != 1 or int(whole[0].min()) < 0 or int(whole[0].max()) >= classes:
        return None
    scores = output.detach().float()
    are_chances = bool((scores >= 0).all()) and bool(((scores.sum(1) - 1).abs() < 1e-3).all())
    logits = scores.clamp_min(1e-12).log() if are_chances else scores
    return LossCall("cross_entropy", logits, beside(whole[0], logits))


def _counted_by_hand(batch: Any, output: Tensor) -> LossCall | None:
    """Of numbers, that is, and not of the chances of a yes or no."""
    shapes = ((len(output),), (len(output), 1))
    alike = [leaf for _, leaf in leaves(batch) if leaf.shape in shapes and leaf.is_floating_point()]
    if len(alike) != 1 or len(set(alike[0].flatten().tolist())) <= 2:
        return None
    return LossCall("mse_loss", output.reshape(alike[0].shape), beside(alike[0], output))


def _input(first: ModelCall, call: LossCall) -> tuple[str, Tensor] | None:
    """The largest tensor that the model was given with a row a sample, the target aside."""
    given = [
        (name, tensor.detach().cpu())
        for name, tensor in leaves(by_parameter(first.module, first.args, first.kwargs))
        if tensor.ndim and tensor.layout is torch.strided and not tensor.is_complex()
    ]
    given = [(name, tensor) for name, tensor in given if len(tensor) and len(call.target) % len(tensor) == 0]
    return max(given, key=lambda pair: pair[1].numel(), default=None)


def each(call: LossCall, samples: int) -> list[float] | None:
    """The loss of every sample of a batch, the mean over its own positions; None where it cannot be told apart."""
    prediction, target = call.input.detach().float().cpu(), call.target.detach().cpu()
    options = {name: value.cpu() if isinstance(value, Tensor) else value for name, value in call.options.items()}
    for unused in ("reduce", "size_average", "reduction"):
        options.pop(unused, None)
    try:
        if call.kind not in _CLASSES:
            if prediction.shape != target.shape:
                return None
            target = target.float()
        single = _SINGLE[call.kind](prediction, target, reduction="none", **options)
    except (RuntimeError, ValueError, TypeError, IndexError):
        return None
    if not single.ndim or single.numel() % samples:
        return None
    found: list[float] = single.reshape(samples, -1).mean(1).tolist()
    return found


def _dense(call: LossCall, inputs: Tensor) -> tuple[Sequence[Tensor | None], Sequence[Tensor | None]]:
    """Of a segmentation or a reconstruction: what was to come out and what did, of the inputs' height and width."""
    nothing = [None] * len(inputs)
    if inputs.ndim != 4:
        return nothing, nothing
    prediction, target = call.input.detach().float().cpu(), call.target.detach().float().cpu()
    if call.kind in _CLASSES:
        prediction = prediction.argmax(1).float() if prediction.ndim == 4 else prediction
    elif call.kind == "binary_cross_entropy_with_logits":
        prediction = prediction.sigmoid()
    for shape in ((1, *inputs.shape[2:]), inputs.shape[1:]):
        size = len(inputs) * math.prod(shape)
        if prediction.numel() == target.numel() == size:
            return list(target.reshape(-1, *shape)), list(prediction.reshape(-1, *shape))
    return nothing, nothing


def _kept(picture: Tensor | None) -> Tensor | None:
    """Of its own, so that the batch can go."""
    return None if picture is None else picture.clone()


def _labels(call: LossCall, samples: int) -> list[str]:
    return _told(call.target.detach().cpu(), samples)


def _said(call: LossCall, samples: int) -> list[str]:
    """The class with its probability, or the number that was predicted."""
    prediction = call.input.detach().float().cpu()
    if call.kind in _CLASSES and prediction.ndim == 2 and len(prediction) == samples:
        chances = prediction.softmax(1) if call.kind == "cross_entropy" else prediction.exp()
        top = chances.max(1)
        return [f"{place} ({100 * chance:.0f}%)" for chance, place in zip(top.values.tolist(), top.indices.tolist())]
    if call.kind == "binary_cross_entropy_with_logits":
        prediction = prediction.sigmoid()
    return _told(prediction, samples) if prediction.shape == call.target.shape else [""] * samples


def _told(values: Tensor, samples: int) -> list[str]:
    """A number a sample; a few, where it has a few; nothing where it has many."""
    if values.numel() % samples or values.numel() > _FEW * samples:
        return [""] * samples
    rows: list[list[Any]] = values.reshape(samples, -1).tolist()
    return [" ".join(f"{v:.4g}" if isinstance(v, float) else str(v) for v in row) for row in rows]
