"""regression-broadcast: an elementwise loss compares every prediction with every target."""

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts, Place
from mlcheck.lint.judging import losses_of
from mlcheck.lint.shapes import outgrows, written
from mlcheck.lint.values import Shape, Symbol, Tensor

LOOKS_AT = "regression loss"
_ELEMENTWISE = {f"torch.nn.{name}" for name in ("MSELoss", "L1Loss", "SmoothL1Loss", "HuberLoss")}


def check(facts: Facts) -> Iterator[Finding]:
    for broadcast in facts.broadcasts:
        yield _finding("This", broadcast.shapes, broadcast.place)
    for loss in losses_of(facts, LOOKS_AT, *sorted(_ELEMENTWISE)):
        given, target = loss.input, loss.target
        if not isinstance(given, Tensor | Symbol):
            continue
        if not isinstance(target, Tensor | Symbol) or given.shape is None or target.shape is None:
            continue
        if outgrows(given.shape, target.shape):
            yield _finding(f"`{loss.name.rpartition('.')[2]}`", (given.shape, target.shape), loss.place)


def _finding(who: str, shapes: tuple[Shape, Shape], place: Place) -> Finding:
    return Finding(
        f"{who} gets shapes {written(shapes[0])} and {written(shapes[1])}: they broadcast, "
        "and every prediction is compared with every target",
        place.location,
        help="give both one shape: `prediction.squeeze(-1)`, or `target.unsqueeze(-1)`",
    )
