"""double-label-smoothing: targets that are smooth already are smoothed by the loss again."""

import ast
import re
from collections.abc import Iterator

from mlcheck.core.finding import Finding, Location
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites import Call, Class, Function, Sites
from mlcheck.lint.sites.guards import conditions

LOOKS_AT = "cross-entropy"
WORDS = ("CrossEntropyLoss", "cross_entropy")
_SMOOTHS = pattern(r"\*\s*\(\s*1(?:\.0*)?\s*-\s*([\w.]+)\s*\)\s*\+\s*\1\s*/")
_ONE_HOT = ("one_hot", "scatter", "eye(")


def check(facts: Facts) -> Iterator[Finding]:
    calls = list(facts.sites.calls("torch.nn.CrossEntropyLoss", "torch.nn.functional.cross_entropy"))
    facts.sites.seen[LOOKS_AT] = len(calls)
    smoothing = [call for call in calls if _is_positive(call.constant("label_smoothing", _position(call), default=0.0))]
    if not smoothing:
        return
    smoothers = _smoothers(facts.sites)
    for call in smoothing:
        found = _smooth_targets(call, smoothers) if not conditions(call.context) else None
        if found is not None:
            yield Finding(
                "The loss smooths labels, and its targets have been smoothed before: the classes end up closer "
                "than either setting says",
                call.place.location,
                help="smooth in one place: leave out `label_smoothing` here, or there",
                related=(found,),
            )


def _position(call: Call) -> int:
    return 5 if call.name.endswith("CrossEntropyLoss") else 7


def _is_positive(value: object) -> bool:
    return isinstance(value, int | float) and value > 0


def _smoothers(sites: Sites) -> set[str]:
    """Names of functions that turn labels into smooth distributions."""
    found = set()
    for file in sites.mentioning(_ONE_HOT):
        for function in file.functions:
            text = function.text
            if _SMOOTHS.search(text) and any(word in text for word in _ONE_HOT):
                found.add(function.name)
    return found


def _smooth_targets(call: Call, smoothers: set[str]) -> Location | None:
    """Where the batches that this file loads are smoothed: in the function that collates them, or by timm's Mixup."""
    for loader in call.file.calls("DataLoader"):
        collate = loader.argument("collate_fn")
        if collate is not None:
            made = collate.func if isinstance(collate, ast.Call) else collate
            named = call.file.resolve(made, loader.context)
            if isinstance(named, Class | Function) and _smooths(named, smoothers):
                return named.file.place(named.node, named.defined.context).location
    for mixup in call.file.calls("Mixup"):
        if call.file.resolve(mixup.node.func, mixup.context) in ("timm.data.Mixup", "timm.data.mixup.Mixup"):
            if _is_positive(mixup.constant("label_smoothing", 7, default=0.1)):
                return mixup.place.location
    return None


def _smooths(named: Class | Function, smoothers: set[str]) -> bool:
    text = named.text
    if isinstance(named, Function) and named.name in smoothers:
        return True
    called = {name for name in smoothers if re.search(rf"\b{name}\(", text)}
    return bool(called) or (_SMOOTHS.search(text) is not None and any(word in text for word in _ONE_HOT))
