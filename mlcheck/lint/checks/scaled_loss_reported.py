"""scaled-loss-reported: the number that is logged is the loss times the loss scale, or divided once too often."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import before_methods
from mlcheck.lint.sites import Call
from mlcheck.lint.sites.evaluation.divided_again import divided_again
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.origins import origins

LOOKS_AT = "gradient scaler"
_SCALER = ("torch.cuda.amp.GradScaler", "torch.amp.GradScaler", "torch.cuda.amp.grad_scaler.GradScaler")
_KEPT = ("detach", "cpu", "float", "mean", "clone")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = sum(1 for _ in facts.sites.calls(*_SCALER))
    for twice in divided_again(facts.sites):
        facts.sites.seen[LOOKS_AT] += 1
        yield Finding(
            f"What is summed here was divided by `{twice.number}` already: the mean is too small by that factor",
            twice.second.location,
            help=f"divide by `{twice.number}` once",
            related=(twice.first.location,),
        )
    for file in facts.sites.mentioning([".scale("]) if facts.sites.seen[LOOKS_AT] else ():
        for call in file.calls("item"):
            owner = call.owner
            inner = before_methods(owner, _KEPT) if owner is not None else None
            if not isinstance(inner, ast.Name) or call.function is None:
                continue
            made, context = source(file, inner, call.context)
            scaled = Call(file, made, context) if isinstance(made, ast.Call) else None
            if scaled is None or not _is_scaling(scaled):
                continue
            text = call.function.text
            if "get_scale" not in text and "enabled=False" not in file.text:
                yield Finding(
                    f"`{inner.id}` is the loss times the loss scale here, which changes as the run goes on",
                    call.place.location,
                    help="keep the two apart: `scaler.scale(loss).backward()`, and `loss.item()` of the loss itself",
                    related=(scaled.place.location,),
                )


def _is_scaling(call: Call) -> bool:
    """`scaler.scale(loss)` of a gradient scaler, whoever made it."""
    func = call.node.func
    if not isinstance(func, ast.Attribute) or func.attr != "scale" or len(call.node.args) != 1:
        return False
    found = origins(call.file, func.value, call.context)
    return bool(found) and all(origin.name in _SCALER for origin in found)
