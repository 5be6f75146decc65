"""Judges whether the targets of the loss differ from sample to sample."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.data.passes import Field, Passes
from mlcheck.probe.measure.loss.first_loss import FirstLoss

FEW = 50
MANY_COLUMNS = 16
_CLASSIFYING = {"cross_entropy", "nll_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits"}
_MEASURING = {"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"}


def check(passes: Passes, first: FirstLoss) -> Verdict:
    seen = [passes.training.fields[name] for name in first.targets or first.picked if name in passes.training.fields]
    judged = [field for field in seen if field.name not in first.inputs and field.count and field.high >= field.low]
    if not judged and (field := _behind(passes, first)):
        finding = _same(field, passes.training.samples, f", and so is what {first.losses[0].kind} is given for it")
        return Verdict(Outcome.WARN, finding.message, findings=(finding,), looked_at=passes.training.samples)
    if not judged:
        return Verdict(Outcome.SKIP, reason="no tensor of the batch is the target of a known loss")
    samples = passes.training.samples
    constant = [field for field in judged if field.low == field.high and not _has_adversary(first)]
    others = [field for field in judged if field not in constant]
    columns = [(field, found) for field in others if (found := _constant_columns(field, _is_measured(field, first)))]
    if not constant and not columns:
        told = ", ".join(f"`{field.place}` {field.low:.4g} to {field.high:.4g}" for field in judged[:3])
        return Verdict(Outcome.PASS, f"targets vary: {told}", looked_at=samples)
    if samples < FEW or not passes.training.whole:
        return Verdict(
            Outcome.INCONCLUSIVE,
            reason=f"all targets in the first {samples} samples are equal, and there was no time for the rest",
        )
    findings = (*(_same(field, samples) for field in constant), *(_same_column(*pair, samples) for pair in columns))
    return Verdict(
        Outcome.FAIL if len(constant) == len(judged) else Outcome.WARN,
        findings[0].message,
        findings=findings,
        looked_at=samples,
    )


def _has_adversary(first: FirstLoss) -> bool:
    """Whether some losses are given nothing but ones and others nothing but zeros: real samples, and made ones."""
    return len({loss.low for loss in first.losses if loss.kind in _CLASSIFYING and loss.low == loss.high}) > 1


def _behind(passes: Passes, first: FirstLoss) -> Field | None:
    """The one label of a sample, where the loss is given classes that are made of it on the way and never vary.

    An adversary's loss is given such classes too: those of real samples, and in another call those of others.
    """
    fields = [field for field in passes.training.fields.values() if field.name not in first.inputs]
    still = [loss.low == loss.high for loss in first.losses if loss.kind in _CLASSIFYING]
    if len(fields) != 1 or len(first.losses) != 1 or not all(still) or not still or first.backwards != 1:
        return None
    (field,) = fields
    known = field.integral and bool(field.labels) and field.low == field.high
    return field if known and passes.training.whole and passes.training.samples >= FEW else None


def _is_measured(field: Field, first: FirstLoss) -> bool:
    """Whether the only losses that are given numbers of this shape are those of a regression, whole as they may be."""
    kinds = {loss.kind for loss in first.losses if loss.target_shape[1:] == tuple(field.shape[1:])}
    return "float" in field.dtype and bool(kinds) and kinds <= _MEASURING


def _constant_columns(field: Field, measured: bool) -> list[int]:
    """Outputs of a regression that never vary; classes and tags that do not occur are no such thing.

    Of many columns some may be still: the corners of a picture, the silence before a sound.
    """
    if field.total is None or (field.integral and not measured) or len(field.shape) != 2:
        return []
    scale = float(field.spread.max())
    still = [index for index, spread in enumerate(field.spread.tolist()) if spread <= 1e-7 * scale]
    return still if field.shape[1] < MANY_COLUMNS or 2 * len(still) > field.shape[1] else []


def _same(field: Field, samples: int, also: str = "") -> Finding:
    return Finding(
        f"`{field.place}` is {field.low:.6g} in all of {samples:,} samples{also}: there is nothing to learn",
        help="look at how the target is read: the column, the file name, a filter that leaves one class",
        numbers={"value": field.low},
    )


def _same_column(field: Field, columns: list[int], samples: int) -> Finding:
    shown = ", ".join(map(str, columns[:5]))
    return Finding(
        f"column {shown} of the targets `{field.place}` never varies in {samples:,} samples",
        help="look at how these targets are read, or leave them out",
        numbers={"columns": float(len(columns))},
    )
