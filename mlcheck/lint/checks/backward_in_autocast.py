"""backward-in-autocast: a backward pass inside of an autocast region."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding, Location
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites import Call, Context, File, Function
from mlcheck.lint.sites.origins import returns

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
            "`backward()` runs inside the autocast region, which PyTorch advises against",
            place,
            help="end the region after the loss: backward uses the precisions that forward chose",
            related=(region,),
        )


def _region(call: Call) -> Location | None:
    """The autocast that a scaled loss is differentiated in; None where an inner one may switch it off."""
    scaled = call.owner
    if not isinstance(scaled, ast.Call) or not isinstance(scaled.func, ast.Attribute) or scaled.func.attr != "scale":
        return None
    for outer in call.context.outwards():
        if outer.kind == "function":
            return None
        for item in outer.node.items if isinstance(outer.node, ast.With) else ():
            entered = item.context_expr
            if isinstance(entered, ast.Call) and _is_autocast(call.file, entered, call.context):
                region = Call(call.file, entered, outer)
                first = entered.args[0] if entered.args else None
                off = isinstance(first, ast.Constant) and first.value is False
                return None if off or region.constant("enabled", None, True) is False else region.place.location
    return None


def _is_autocast(file: File, entered: ast.Call, context: Context) -> bool:
    """PyTorch's own, a library's of that name, or what a function of the project makes of it."""
    named = file.resolve(entered.func, context)
    if isinstance(named, str):
        return named.rpartition(".")[2] == "autocast"
    if not isinstance(named, Function):
        return False
    made = list(returns(named))
    return bool(made) and all(named.file.called(each, named.inner) in _AUTOCASTS for each in made)
