"""mask-misaligned: a picture and its mask are flipped or cropped by two draws."""

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites.data.mask_transforms import moved_apart

LOOKS_AT = "mask that is moved by a draw"
WORDS = ("__getitem__", "flip", "rot90", "VOCSegmentation", "Cityscapes", "SBDataset")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    for apart in moved_apart(facts.sites):
        facts.sites.seen[LOOKS_AT] += 1
        yield Finding(
            f"`{apart.step}` moves {apart.moved} by a draw of its own: picture and mask no longer lie on each other",
            apart.place.location,
            help="draw once for both: the transforms of `torchvision.transforms.v2` take picture and mask together",
        )
