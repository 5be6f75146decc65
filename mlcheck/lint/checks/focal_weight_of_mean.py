"""focal-weight-of-mean: the focal weight is taken of the batch's mean loss, not of each sample's."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import is_name, loads, stores, walk
from mlcheck.lint.sites import Call, Context, File
from mlcheck.lint.sites.guards import own_attribute
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.origins import callers

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
            loss, power = _negated(call), _focal_weight(call)
            if loss is None or power is None:
                continue
            for made, where, of in _mean_losses(file, loss, call):
                if _is_of_one_sample(of, made, where):
                    continue
                facts.sites.seen[LOOKS_AT] += 1
                yield Finding(
                    "The focal weight is taken of the mean loss of the batch: one weight for all samples, "
                    "easy and hard alike",
                    of.place(made, where).location,
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


def _mean_losses(file: File, loss: ast.expr, call: Call) -> Iterator[tuple[ast.Call, Context, File]]:
    """What is weighted here, where it is a mean: made here, or what others hand to this function."""
    found = _mean_loss(file, loss, call.context)
    if found is not None:
        yield *found, file
    function = call.function
    if found is not None or function is None or not isinstance(loss, ast.Name) or loss.id not in function.parameters:
        return
    if any(stores(node, loss.id) for node in function.node.body):
        return
    position = list(function.parameters).index(loss.id) - (function.cls is not None)
    for use in callers(file.sites, function):
        given = use.argument(loss.id, position)
        made = _mean_loss(use.file, given, use.context) if isinstance(given, ast.expr) else None
        if made is not None:
            yield *made, use.file


def _mean_loss(file: File, node: ast.expr, context: Context) -> tuple[ast.Call, Context] | None:
    """The call of a cross-entropy that averages over the batch, which this is."""
    made, where = source(file, node, context)
    if not isinstance(made, ast.Call):
        return None
    named = file.resolve(made.func, where)
    if isinstance(named, str):
        return (made, where) if _is_mean(file, named, made, where) else None
    held, inner = file.value(made.func, where) if isinstance(made.func, ast.Attribute | ast.Name) else (None, where)
    kind = file.resolve(held.func, inner) if isinstance(held, ast.Call) else None
    return (
        (made, where)
        if isinstance(kind, str) and isinstance(held, ast.Call) and _is_mean(file, kind, held, inner)
        else None
    )


def _is_of_one_sample(file: File, loss: ast.Call, context: Context, depth: int = 3) -> bool:
    """Whether the mean is of a single sample: in a loop over them, perhaps around the function, or under `vmap`."""
    if "vmap" in file.text:
        return True
    loop = next((outer.node for outer in context.outwards() if outer.kind == "loop"), None)
    function = file.function_around(context)
    if loop is None and function is not None and depth:
        above = list(callers(file.sites, function))
        batches = any(outer.kind == "loop" and _goes_over_batches(outer.node) for use in above for outer in use.loops)
        alone = all(_is_of_one_sample(use.file, use.node, use.context, depth - 1) for use in above)
        return bool(above) and not batches and alone
    if not isinstance(loop, ast.For) or not any(word in ast.unparse(loop.iter) for word in ("zip(", "range(")):
        return False
    return any(isinstance(part, ast.Name) and loads(loss, part.id) for part in walk(loop.target))


def _goes_over_batches(loop: ast.AST) -> bool:
    return isinstance(loop, ast.For) and "loader" in ast.unparse(loop.iter).lower()


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


def _is_mean(file: File, name: str, made: ast.Call, context: Context) -> bool:
    """Whether this call of a classification loss, or of its class, averages over the batch."""
    given = {keyword.arg: keyword.value for keyword in made.keywords}
    if name not in _MEANS or not given.keys().isdisjoint([None, "reduce", "size_average"]):
        return False
    if any(isinstance(argument, ast.Starred) for argument in made.args):
        return False
    reduction = given.get("reduction")
    return reduction is None or _is_word_mean(reduction) or _is_mean_by_default(file, reduction, context)


def _is_word_mean(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value == "mean"


def _is_mean_by_default(file: File, reduction: ast.expr, context: Context) -> bool:
    """`self.reduction`, which is the parameter of that name: its default is the mean, and nobody gives another."""
    method = file.function_around(context)
    init = method.cls.methods.get("__init__") if method is not None and method.cls is not None else None
    name = own_attribute(reduction, method)
    if init is None or init.cls is None or not name or not _is_word_mean(init.parameters.get(name)):
        return False
    sets, files = init.cls.attribute(name), init.cls.file.sites.mentioning([init.cls.name])
    if any(file.uses[init.cls.name] > len(file.calls(init.cls.name)) for file in files):
        return False  # `partial(Focal, reduction="none")`: what others give it is out of sight
    if any(function is not init or not is_name(assigned.value, name) for function, assigned in sets):
        return False
    position = list(init.parameters).index(name) - 1
    return all(use.argument(name, position) is None for use in callers(file.sites, init))
