"""focal-weight-of-mean: the focal weight is taken of the batch's mean loss, not of each sample's."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import loads, walk
from mlcheck.lint.sites import Call, Context, File
from mlcheck.lint.sites.latest import source

LOOKS_AT = "focal loss"
WORDS = ("exp(",)
_LOSSES = ("CrossEntropyLoss", "NLLLoss", "BCELoss", "BCEWithLogitsLoss", "MultiLabelSoftMarginLoss")
_FUNCTIONS = ("cross_entropy", "nll_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits")
_MEANS = frozenset([f"torch.nn.{name}" for name in _LOSSES] + [f"torch.nn.functional.{name}" for name in _FUNCTIONS])


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    for file in facts.sites.mentioning(["exp("]):
        if "torch" not in file.text or ("**" not in file.text and "pow(" not in file.text):
            continue
        for call in file.calls("exp"):
            loss = _negated(call)
            found = _mean_loss(file, loss, call.context) if loss is not None else None
            power = _focal_weight(call) if found is not None else None
            if found is None or power is None or _is_of_one_sample(file, *found):
                continue
            facts.sites.seen[LOOKS_AT] += 1
            yield Finding(
                "The focal weight is taken of the mean loss of the batch: one weight for all samples, "
                "easy and hard alike",
                file.place(found[0], found[1]).location,
                help='compute the loss with `reduction="none"`, and take the mean at the end',
                related=(file.place(power, call.context).location,),
            )


def _negated(call: Call) -> ast.expr | None:
    """`x` of `torch.exp(-x)` and of `(-x).exp()`."""
    named = call.file.resolve(call.node.func, call.context)
    given = call.argument("input", 0) if named == "torch.exp" else None
    if named is None and isinstance(call.node.func, ast.Attribute) and not call.node.args:
        given = call.node.func.value
    return given.operand if isinstance(given, ast.UnaryOp) and isinstance(given.op, ast.USub) else None


def _mean_loss(file: File, node: ast.expr, context: Context) -> tuple[ast.Call, Context] | None:
    """The call of a cross-entropy that averages over the batch, which this is."""
    made, where = source(file, node, context)
    if not isinstance(made, ast.Call):
        return None
    named = file.resolve(made.func, where)
    if isinstance(named, str):
        return (made, where) if _is_mean(named, made) else None
    held, inner = file.value(made.func, where) if isinstance(made.func, ast.Attribute | ast.Name) else (None, where)
    kind = file.resolve(held.func, inner) if isinstance(held, ast.Call) else None
    return (made, where) if isinstance(kind, str) and isinstance(held, ast.Call) and _is_mean(kind, held) else None


def _is_of_one_sample(file: File, loss: ast.Call, context: Context) -> bool:
    """Whether the mean is of a single sample: in a loop over them, or under `vmap`."""
    if "vmap" in file.text:
        return True
    loop = next((outer.node for outer in context.outwards() if outer.kind == "loop"), None)
    if not isinstance(loop, ast.For) or not any(word in ast.unparse(loop.iter) for word in ("zip(", "range(")):
        return False
    return any(isinstance(part, ast.Name) and loads(loss, part.id) for part in walk(loop.target))


def _focal_weight(call: Call) -> ast.AST | None:
    """`(1 - p) ** gamma`, where `p` is what the call gives."""
    names = call.file.names_given(call.node)
    for node in call.function.nodes if call.function is not None else ():
        base = node.left if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow) else None
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "pow":
            base = node.args[0] if ast.unparse(node.func.value) == "torch" and node.args else node.func.value
        if not isinstance(base, ast.BinOp) or not isinstance(base.op, ast.Sub):
            continue
        is_one = isinstance(base.left, ast.Constant) and base.left.value == 1
        if is_one and (base.right is call.node or (isinstance(base.right, ast.Name) and base.right.id in names)):
            return node
    return None


def _is_mean(name: str, made: ast.Call) -> bool:
    """Whether this call of a classification loss, or of its class, averages over the batch."""
    given = {keyword.arg: keyword.value for keyword in made.keywords}
    if name not in _MEANS or not given.keys().isdisjoint([None, "reduce", "size_average"]):
        return False
    if any(isinstance(argument, ast.Starred) for argument in made.args):
        return False
    reduction = given.get("reduction")
    return reduction is None or (isinstance(reduction, ast.Constant) and reduction.value == "mean")
