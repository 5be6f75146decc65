"""Judges whether boxes that a program reads as two corners are two corners."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.loss.comparisons import Comparisons
from mlcheck.probe.measure.loss.corners import Sides
from mlcheck.probe.measure.names import part_of

MANY = 0.05


def check(seen: Comparisons) -> Verdict:
    if not seen.corners:
        return Verdict(Outcome.SKIP, reason="no boxes of the batch are read as two corners")
    wrong = {sides.place: sides for sides in reversed(seen.corners) if sides.negative}
    looked_at = sum(sides.boxes for sides in seen.corners)
    if not wrong:
        name = part_of("batch", seen.corners[0].name)
        return Verdict(Outcome.PASS, f"read as two corners, all `{name}` have sides of 0 and more", looked_at=looked_at)
    findings = tuple(_fault(sides) for sides in reversed(wrong.values()))
    many = any(sides.negative > MANY * sides.boxes for sides in wrong.values())
    return Verdict(Outcome.FAIL if many else Outcome.WARN, findings[0].message, findings=findings, looked_at=looked_at)


def _fault(sides: Sides) -> Finding:
    name = part_of("batch", sides.name)
    return Finding(
        f"`{name}` are read as two corners (x1, y1, x2, y2), but {sides.negative} sides of {sides.boxes} boxes are "
        "negative that way: they are given in another form, such as x, y, width, height",
        sides.place,
        help="convert them where they are read; torchvision.ops.box_convert names both forms",
        numbers={"negative": float(sides.negative), "boxes": float(sides.boxes)},
    )
