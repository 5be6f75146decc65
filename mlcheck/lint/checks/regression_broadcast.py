"""regression-broadcast: an elementwise loss compares every prediction with every target."""

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.shapes import outgrows, written
from mlcheck.lint.values import Symbol, Tensor

LOOKS_AT = "loss"
_ELEMENTWISE = {f"torch.nn.{name}" for name in ("MSELoss", "L1Loss", "SmoothL1Loss", "HuberLoss")}


def check(facts: Facts) -> Iterator[Finding]:
    for loss in facts.losses:
        given, target = loss.input, loss.target
        if loss.name not in _ELEMENTWISE or not isinstance(given, Tensor | Symbol):
            continue
        if not isinstance(target, Tensor | Symbol) or given.shape is None or target.shape is None:
            continue
        if outgrows(given.shape, target.shape):
            yield Finding(
                f"`{loss.name.rpartition('.')[2]}` gets shapes {written(given.shape)} and {written(target.shape)}: "
                "they broadcast, and every prediction is compared with every target",
                loss.place.location,
                help="give both one shape: `prediction.squeeze(-1)`, or `target.unsqueeze(-1)`",
            )
