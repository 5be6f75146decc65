"""ignored-labels-counted: an accuracy counts the positions that the loss leaves out."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import last_name, walk
from mlcheck.lint.sites import Call, Function
from mlcheck.lint.sites.latest import origin
from mlcheck.lint.sites.origins import Origin, origins

LOOKS_AT = "accuracy"
WORDS = ("ignore_index",)
_LAYERS = ("torch.nn.CrossEntropyLoss", "torch.nn.NLLLoss")
_FUNCTIONS = ("torch.nn.functional.cross_entropy", "torch.nn.functional.nll_loss")
_SHAPED = ("view", "reshape", "flatten", "contiguous", "long", "to", "cuda", "squeeze")
_MASKED = pattern(r"mask|valid|!=|\bne\(|\.ne\b|nonzero|where\(|isin|active|keep")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    if not any(True for _ in facts.sites.mentioning(WORDS)):
        return
    for file in facts.sites.mentioning(["argmax", ".max("]):
        for function in file.functions:
            text = function.text
            if "==" not in text or _MASKED.search(text):
                continue
            for loss, labels in _left_out(function):
                facts.sites.seen[LOOKS_AT] += 1
                counted = _counted(function, labels)
                if counted is not None:
                    yield Finding(
                        f"The accuracy counts every position of `{labels}`, also those that the loss leaves out",
                        function.place(counted).location,
                        help=f"count where `{labels} != ignore_index` alone",
                        related=(loss.place.location,),
                    )


def _left_out(function: Function) -> Iterator[tuple[Call, str]]:
    """The calls of losses with an `ignore_index` of their own, and the names of their labels."""
    for call in function.file.walk.calls.values():
        for node, context in call:
            each = Call(function.file, node, context)
            if each.function is function and len(node.args) >= 2 and _leaves_out(each):
                labels = _bare(node.args[1])
                if isinstance(labels, ast.Name) and len(function.file.bindings(labels.id, context)) == 1:
                    yield each, labels.id


def _leaves_out(call: Call) -> bool:
    if call.file.called(call.node, call.context) in _FUNCTIONS:
        return call.argument("ignore_index") is not None
    if not isinstance(call.node.func, ast.Name | ast.Attribute) or last_name(call.node.func) in _SHAPED:
        return False
    made = origins(call.file, call.node.func, call.context)
    return bool(made) and all(map(_is_told, made))


def _is_told(made: Origin) -> bool:
    """`nn.CrossEntropyLoss(ignore_index=0)`."""
    if made.name not in _LAYERS or not isinstance(made.node, ast.Call):
        return False
    return Call(made.file, made.node, made.context).argument("ignore_index") is not None


def _bare(node: ast.expr) -> ast.expr:
    """`tags` of `tags.view(-1)`."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _SHAPED:
        node = node.func.value
    return node


def _counted(function: Function, labels: str) -> ast.expr | None:
    """`(logits.argmax(-1) == tags).sum()` beside `tags.numel()`, `(pred == tags).float().mean()`."""
    numbered = f"{labels}.numel()" in function.text
    for node in function.nodes:
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.args or node.keywords:
            continue
        if node.func.attr == "mean" or (node.func.attr == "sum" and numbered):
            inner = node.func.value
            while isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute):
                if inner.func.attr not in ("float", "double", "to", "type"):
                    break
                inner = inner.func.value
            if isinstance(inner, ast.Compare) and len(inner.ops) == 1 and isinstance(inner.ops[0], ast.Eq):
                sides = [inner.left, inner.comparators[0]]
                names = [ast.unparse(_bare(side)) for side in sides]
                if labels in names and _is_chosen(function, sides[1 - names.index(labels)]):
                    return node
    return None


def _is_chosen(function: Function, node: ast.expr) -> bool:
    """Whether it is the class with the highest score."""
    made, _ = origin(function.file, _bare(node), function.inner)
    chosen = (
        part.func.attr for part in walk(made) if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute)
    )
    return any(name in ("argmax", "max", "topk") for name in chosen)
