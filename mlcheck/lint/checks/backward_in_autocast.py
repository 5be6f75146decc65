"""backward-in-autocast: a backward pass inside of an autocast region."""

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts

LOOKS_AT = "autocast"
WORDS = ("autocast",)
_AUTOCASTS = ("torch.autocast", "torch.amp.autocast", "torch.cuda.amp.autocast", "torch.cpu.amp.autocast")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = sum(1 for _ in facts.sites.calls(*_AUTOCASTS))
    for backward in facts.backwards:
        if backward.autocast is not None and backward.autocast.kind == "on":
            yield Finding(
                "`backward()` runs inside of the autocast region, which PyTorch advises against",
                backward.place.location,
                help="leave the region after the loss: backward runs in the precisions that forward chose",
                related=(backward.autocast.place.location,),
            )
