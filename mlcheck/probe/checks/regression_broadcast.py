"""Judges whether predictions and targets of a regression loss have the same shape."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.loss.comparisons import AllPairs, Comparisons
from mlcheck.probe.measure.loss.first_loss import FirstLoss, LossFact

_ELEMENTWISE = {"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"}


def check(seen: FirstLoss, compared: Comparisons | None) -> Verdict:
    judged = [loss for loss in seen.losses if loss.kind in _ELEMENTWISE]
    faults = tuple(_fault(loss) for loss in judged if loss.input_shape != loss.target_shape)
    if faults:
        return Verdict(Outcome.FAIL, faults[0].message, findings=faults, looked_at=len(judged))
    if pairs := _written(compared):
        return Verdict(Outcome.WARN, pairs[0].message, findings=pairs, looked_at=len(judged) + len(pairs))
    if judged:
        shapes = ", ".join(str(loss.input_shape) for loss in judged)
        return Verdict(Outcome.PASS, f"predictions and targets have the same shape: {shapes}", looked_at=len(judged))
    if compared and compared.seen:
        told = f"{compared.seen} operations on predictions and targets compare each with its own"
        return Verdict(Outcome.PASS, told, looked_at=compared.seen)
    return Verdict(Outcome.SKIP, reason="no mse_loss, l1_loss, smooth_l1_loss or huber_loss was computed")


def _fault(loss: LossFact) -> Finding:
    given, wanted = loss.input_shape, loss.target_shape
    rank = max(len(given), len(wanted))
    pairs = zip((1,) * (rank - len(given)) + given, (1,) * (rank - len(wanted)) + wanted)
    compared = " × ".join(str(max(one, other)) for one, other in pairs)
    return Finding(
        f"{loss.kind} gets predictions {given} and targets {wanted}: it compares every one with every other "
        f"({compared} differences), and the best it can learn is the mean",
        loss.place,
        help="give both the same shape: squeeze the predictions' last dimension, or unsqueeze the targets",
    )


def _written(compared: Comparisons | None) -> tuple[Finding, ...]:
    """What the program's own arithmetic makes pairs of, each place once."""
    if compared is None:
        return ()
    found = [(pair, "loss") for pair in compared.training] + [(pair, "evaluation") for pair in compared.evaluation]
    return tuple({pair.place: _pairs(pair, where) for pair, where in reversed(found)}.values())


def _pairs(pair: AllPairs, where: str) -> Finding:
    values = " × ".join(str(length) for length in pair.result)
    if pair.by_models:
        return Finding(
            f"the {where} makes all pairs of what goes together: `{pair.operation}` of {pair.said} and {pair.given}, "
            f"both of which come of the models, makes {values} values",
            pair.place,
            help="give both the same shape: squeeze the last dimension of what is a column",
        )
    return Finding(
        f"the {where} compares every prediction with every target: `{pair.operation}` of the model's {pair.said} and "
        f"the batch's {pair.given} makes {values} values",
        pair.place,
        help="give both the same shape: squeeze the predictions' last dimension, or unsqueeze the targets",
    )
