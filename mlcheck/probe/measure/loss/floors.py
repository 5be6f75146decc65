"""How low a loss can go: for a predictor that ignores its input, and for any predictor at all."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from mlcheck.probe.measure.loss.losses import LossCall

_REGRESSION: dict[str, Callable[..., Tensor]] = {
    "mse_loss": F.mse_loss,
    "l1_loss": F.l1_loss,
    "smooth_l1_loss": F.smooth_l1_loss,
    "huber_loss": F.huber_loss,
}


@dataclass(frozen=True, slots=True)
class Floors:
    """In the loss's own unit (nats, squared target units), as a mean over what is predicted.

    `constant` is the best a predictor can do that knows how often each target occurs at each place, but
    not the input: the entropy of the labels, the variance of the targets. `irreducible` is what remains for
    a perfect one: soft or smoothed targets, identical inputs with different labels.
    """

    constant: float
    irreducible: float

    @property
    def room(self) -> float:
        """What there is to learn: nothing where all targets are the same."""
        return self.constant - self.irreducible

    @property
    def target(self) -> float:
        """A tenth of the way up from the irreducible floor to the constant predictor's."""
        return self.irreducible + 0.1 * self.room


def mean_loss(call: LossCall) -> float:
    """The loss as a mean over its elements, whatever reduction the program uses; over those that count, where known."""
    options = dict(call.options)
    for obsolete in ("size_average", "reduce"):
        options.pop(obsolete, None)
    total = float(call.weights.sum()) if call.weights is not None else 0.0
    options["reduction"] = "none" if total else "mean"
    function = getattr(F, call.kind)
    prediction = call.input.float() if call.input.dtype in (torch.float16, torch.bfloat16) else call.input
    value = function(prediction, call.target, **options)
    return float((value * call.weights).sum() / total) if call.weights is not None and total else float(value)


def floors(call: LossCall, samples: int) -> Floors | None:
    """The floors of one loss call on a batch of `samples`; None where they are not defined."""
    if call.kind in ("cross_entropy", "nll_loss"):
        return _classification(call)
    if call.kind.startswith("binary"):
        return _binary(call, samples)
    if call.kind in _REGRESSION:
        return _regression(call)
    return None


def _classification(call: LossCall) -> Floors | None:
    classes = call.input.shape[1] if call.input.ndim > 1 else call.input.shape[0]
    smoothing = float(call.options.get("label_smoothing") or 0.0)
    target = call.target.cpu()
    if target.is_floating_point():
        shares = target.double().movedim(1, -1).reshape(-1, classes) if target.ndim > 1 else target.double()[None]
    else:
        flat = target.reshape(-1)
        kept = flat != call.options.get("ignore_index", -100)
        if not kept.any() or bool(((flat[kept] < 0) | (flat[kept] >= classes)).any()):
            return None
        shares = F.one_hot(flat[kept], classes).double()
    shares = (1 - smoothing) * shares + smoothing / classes
    weight = call.options.get("weight")
    if weight is not None:
        shares = shares * weight.detach().double().cpu()
    scale = shares.sum()
    if not scale > 0:
        return None
    constant = -(shares.sum(0) * _log(shares.sum(0) / scale)).sum() / scale
    irreducible = -(shares * _log(shares / shares.sum(1, keepdim=True).clamp_min(1e-300))).sum() / scale
    return Floors(float(constant), float(irreducible))


def _binary(call: LossCall, samples: int) -> Floors | None:
    if call.options.get("weight") is not None or call.input.shape != call.target.shape:
        return None
    target = call.target.double().cpu()
    target = target.reshape(samples, -1) if target.numel() % samples == 0 else target.reshape(-1, 1)
    positive = call.options.get("pos_weight")
    gain = torch.ones(target.shape[1], dtype=torch.float64)
    if positive is not None:
        try:
            gain = positive.detach().double().cpu().expand(call.target.shape).reshape(target.shape)[0]
        except RuntimeError:
            return None
    return Floors(float(_best(target.mean(0), gain).mean()), float(_best(target, gain).mean()))


def _best(share: Tensor, gain: Tensor) -> Tensor:
    """The least binary cross-entropy for targets with this mean and weight on the positive class."""
    up, down = gain * share, 1 - share
    total = (up + down).clamp_min(1e-300)
    return -(up * _log(up / total) + down * _log(down / total))


def _regression(call: LossCall) -> Floors | None:
    """The better of the mean and the median of each target element over the samples, as a constant prediction."""
    target = call.target.double().cpu()
    if target.ndim == 0 or target.shape[0] < 2:
        return None
    options = {name: call.options[name] for name in ("beta", "delta") if name in call.options}
    function = _REGRESSION[call.kind]
    guesses = (target.mean(0, keepdim=True), target.median(0, keepdim=True).values)
    return Floors(min(float(function(g.expand_as(target), target, **options)) for g in guesses), 0.0)


def _log(shares: Tensor) -> Tensor:
    return shares.clamp_min(1e-300).log()


def confusion_floor(inputs: list[Tensor], call: LossCall, samples: int) -> float:
    """What identical inputs with different labels cost even a perfect predictor, in nats, averaged over samples.

    For classification with one label a sample. For sequences, where every position has a label, positions with
    the same history count as identical: a causal model sees no more.
    """
    target = call.target.cpu()
    if call.kind not in ("cross_entropy", "nll_loss") or target.is_floating_point() or target.numel() % samples:
        return 0.0
    labels = target.reshape(samples, -1)
    kept = labels != call.options.get("ignore_index", -100)
    flat = torch.cat([tensor.detach().cpu().reshape(samples, -1).double() for tensor in inputs], dim=1)
    places = labels.shape[1]
    if places == 1:
        histories = [flat]
    elif flat.shape[1] == places:
        histories = [flat[:, : place + 1] for place in range(places)]
    else:
        return 0.0
    costs = (_confusion(seen[kept[:, at]], labels[kept[:, at], at]) for at, seen in enumerate(histories))
    return sum(costs) / max(int(kept.sum()), 1)


def _confusion(given: Tensor, labels: Tensor) -> float:
    """The entropy of labels whose inputs are identical, in nats, summed over samples."""
    if not len(labels):
        return 0.0
    group = torch.unique(given, dim=0, return_inverse=True)[1]
    total = 0.0
    for value in group.unique():
        counts = torch.unique(labels[group == value], return_counts=True)[1].double()
        total -= float((counts * (counts / counts.sum()).log()).sum())
    return total


def lowest(call: LossCall) -> float | None:
    """The least this loss can be when its input stays within what the operation that made it gives.

    None where that operation is not known or has no bound: a softmax before cross_entropy leaves
    ln(1 + (C - 1) / e), a sigmoid before a regression what lies beyond 0 and 1.
    """
    bounds = REACHED.get(call.bounded_by)
    if bounds is None:
        return None
    low, high = bounds
    if call.kind in _REGRESSION or call.kind == "binary_cross_entropy":
        best = call.target.to(call.input.dtype).clamp(low, high)
    elif math.isinf(high) or call.target.is_floating_point() != call.kind.startswith("binary"):
        return None
    elif call.kind == "binary_cross_entropy_with_logits":
        best = low + (high - low) * call.target.to(call.input.dtype)
    else:
        best = _certain(call, low, high)
    if best.shape != call.input.shape:
        return None
    return mean_loss(LossCall(call.kind, best, call.target, call.options))


REACHED = {
    "sigmoid": (0.0, 1.0),
    "softmax": (0.0, 1.0),
    "tanh": (-1.0, 1.0),
    "relu": (0.0, math.inf),
    "softplus": (0.0, math.inf),
    "exp": (0.0, math.inf),
}


def _certain(call: LossCall, low: float, high: float) -> Tensor:
    """The highest value at each label, the lowest elsewhere."""
    best = torch.full_like(call.input, low)
    classes = 1 if call.input.ndim > 1 else 0
    inside = call.target.clamp(0, call.input.shape[classes] - 1)
    return best.scatter_(classes, inside.unsqueeze(classes), high)
