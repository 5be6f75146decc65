"""ignored-labels-counted: an accuracy counts the positions that the loss leaves out."""

import ast
import re
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import before_methods, last_name, walk
from mlcheck.lint.sites import Call, Function
from mlcheck.lint.sites.latest import origin
from mlcheck.lint.sites.origins import Origin, origins

LOOKS_AT = "accuracy"
WORDS = ("ignore_index", "-100")
_LAYERS = ("torch.nn.CrossEntropyLoss", "torch.nn.NLLLoss")
_FUNCTIONS = ("torch.nn.functional.cross_entropy", "torch.nn.functional.nll_loss")
_SHAPED = ("view", "reshape", "flatten", "contiguous", "long", "to", "cuda", "squeeze")
_LOSSES = pattern(r"loss|crit|cross_entropy|ignore_index|objective|ce\b")
_MASKED = pattern(r"mask|valid|!=|\bne\(|\.ne\b|nonzero|where\(|isin|active|keep")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    yield from _by_transformers(facts)
    if not any(True for _ in facts.sites.mentioning(["ignore_index"])):
        return
    for file in facts.sites.mentioning(["argmax", ".max("]):
        counting = [each for each in file.functions if "==" in each.text and not _is_masked(each)]
        elsewhere = [each for each in file.functions if each not in counting and _LOSSES.search(each.text)]
        apart = [found for function in elsewhere for found in _left_out(function)] if counting else []
        for function in counting:
            here = list(_left_out(function))
            brought = [found for found in apart if found[1] in _brought(function)] if not here else []
            brought = [found for found in brought if f"{found[1]}.numel()" in function.text or _is_of_positions(*found)]
            for loss, labels in here or brought[:1]:
                facts.sites.seen[LOOKS_AT] += 1
                counted = _counted(function, labels) if not _is_masked(function, labels) else None
                if counted is not None:
                    yield Finding(
                        f"The accuracy counts every position of `{labels}`, also those that the loss leaves out",
                        function.place(counted).location,
                        help=f"count where `{labels} != ignore_index` alone",
                        related=(loss.place.location,),
                    )


def _by_transformers(facts: Facts) -> Iterator[Finding]:
    """`model(**batch).logits.argmax(-1) == batch["labels"]`, where labels are set to -100, which the model ignores."""
    marked = next((file for file in facts.sites.mentioning(["-100"])), None)
    for file in facts.sites.mentioning([".logits"]) if marked is not None else ():
        of_positions = any(word in file.text for word in ("TokenClassification", "CausalLM", "MaskedLM"))
        for function in file.functions if of_positions else ():
            names = {ast.unparse(line.targets[0]) for line in function.all(ast.Assign) if _is_labels(line.value)}
            for labels in sorted(names | {"batch['labels']", "labels"}) if not _is_masked(function) else ():
                facts.sites.seen[LOOKS_AT] += 1
                counted = _counted(function, labels) if "-100" not in function.text else None
                if counted is not None:
                    yield Finding(
                        f"The accuracy counts every position of `{labels}`, also those with the label -100, which the "
                        "model's loss leaves out",
                        function.place(counted).location,
                        help=f"count where `{labels} != -100` alone",
                    )


def _is_labels(node: ast.expr) -> bool:
    """`batch["labels"]`."""
    return isinstance(_bare(node), ast.Subscript) and "'labels'" in ast.unparse(_bare(node))


def _is_masked(function: Function, labels: str = r"masks?") -> bool:
    """Whether it picks out some of the positions; by a `mask` alone that may be the labels, it does not."""
    return _MASKED.search(re.sub(rf"\b{labels}\b|attention_mask", "", function.text)) is not None


def _is_of_positions(loss: Call, labels: str) -> bool:
    """Whether each sample has labels of its own for many places: they are laid in a row, or the scores are turned."""
    text = ast.unparse(loss.node)
    return "mask" in labels or any(word in text for word in ("view(", "reshape(", "flatten(", "transpose(", "permute("))


def _brought(function: Function) -> set[str]:
    """What the loops over batches of an evaluation bring."""
    loops = [loop for loop in function.all(ast.For) if isinstance(loop.target, ast.Tuple)]
    return {part.id for loop in loops for part in walk(loop.target) if isinstance(part, ast.Name)}


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
    for call in function.file.calls("mean", "sum"):
        func = call.node.func
        by_name = function.file.called(call.node, call.context) in ("torch.sum", "torch.mean")
        if call.function is not function or not isinstance(func, ast.Attribute) or call.node.keywords:
            continue
        if len(call.node.args) != by_name:
            continue
        inner = before_methods(call.node.args[0] if by_name else func.value, ("float", "double", "to", "type"))
        if isinstance(inner, ast.Compare) and isinstance(inner.ops[0], ast.Eq) and (func.attr == "mean" or numbered):
            sides = [inner.left, inner.comparators[0]]
            names = [ast.unparse(_bare(side)) for side in sides]
            if labels in names and _is_chosen(call, sides[1 - names.index(labels)]):
                return call.node
    return None


def _is_chosen(call: Call, node: ast.expr) -> bool:
    """Whether it is the class with the highest score."""
    made, _ = origin(call.file, _bare(node), call.context)
    chosen = (
        part.func.attr for part in walk(made) if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute)
    )
    return any(name in ("argmax", "max", "topk") for name in chosen)
