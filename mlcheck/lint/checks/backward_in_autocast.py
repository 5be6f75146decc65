"""backward-in-autocast: a backward pass inside of an autocast region."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding, Location
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites import Call

LOOKS_AT = "autocast"
WORDS = ("autocast",)
_AUTOCASTS = ("torch.autocast", "torch.amp.autocast", "torch.cuda.amp.autocast", "torch.cpu.amp.autocast")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = sum(1 for _ in facts.sites.calls(*_AUTOCASTS))
    found = {
        backward.place.location: backward.autocast.place.location
        for backward in facts.backwards
        if backward.autocast is not None and backward.autocast.kind == "on"
    }
    for file in facts.sites.mentioning(["autocast"]):
        for call in file.calls("backward"):
            if (region := _region(call)) is not None:
                found.setdefault(call.place.location, region)
    for place, region in found.items():
        yield Finding(
            "`backward()` runs inside of the autocast region, which PyTorch advises against",
            place,
            help="leave the region after the loss: backward runs in the precisions that forward chose",
            related=(region,),
        )


def _region(call: Call) -> Location | None:
    """The autocast that a scaled loss is differentiated in; None where an inner one may switch it off."""
    scaled = call.node.func.value if isinstance(call.node.func, ast.Attribute) else None
    if not isinstance(scaled, ast.Call) or not isinstance(scaled.func, ast.Attribute) or scaled.func.attr != "scale":
        return None
    for outer in call.context.outwards():
        if outer.kind == "function":
            return None
        for item in outer.node.items if isinstance(outer.node, ast.With) else ():
            entered = item.context_expr
            if isinstance(entered, ast.Call) and call.file.called(entered, call.context) in _AUTOCASTS:
                region = Call(call.file, entered, outer)
                return region.place.location if region.constant("enabled", None, True) is not False else None
    return None
