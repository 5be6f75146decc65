"""mask-interpolated: a mask of class numbers is resized as a picture is, by means of its pixels."""

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites.data.mask_resizing import mixed_masks

LOOKS_AT = "mask that is resized"
WORDS = ("esize", "interpolate(")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    told = set()
    for mixed in mixed_masks(facts.sites):
        facts.sites.seen[LOOKS_AT] += 1
        if mixed.call.place.spot not in told:
            told.add(mixed.call.place.spot)
            yield Finding(
                f"Resizing averages the class numbers of `{mixed.mask}`: between classes 1 and 5 it puts 3",
                mixed.call.place.location,
                help="resize masks to the nearest pixel: `interpolation=NEAREST`",
                related=(mixed.call.file.place(mixed.numbers, mixed.call.context).location,),
            )
