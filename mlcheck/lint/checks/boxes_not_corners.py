"""boxes-not-corners: boxes given by a corner or centre and their sides, to what takes them for two corners."""

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites.data.boxes import not_corners

LOOKS_AT = "boxes that are not corners"
WORDS = ("box_iou", "nms", "box_area", "boxes")
_SAID = {"xywh": "a corner, the width and the height", "cxcywh": "the centre, the width and the height"}


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    for misread in not_corners(facts.sites):
        facts.sites.seen[LOOKS_AT] += 1
        yield Finding(
            f"These boxes hold {_SAID[misread.format]}, and are taken for two corners",
            misread.file.place(misread.given, misread.context).location,
            help=f'`torchvision.ops.box_convert(boxes, "{misread.format}", "xyxy")`',
        )
