"""sampler-weighs-classes: a weighted sampler gets a weight for each class, where it wants one for each sample."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import is_name, last_name, loads
from mlcheck.lint.sites import Call, Context, File
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.origins import Origin, origins

LOOKS_AT = "weighted sampler"
WORDS = ("WeightedRandomSampler",)
_SAMPLER = "torch.utils.data.WeightedRandomSampler"
_WRAPPERS = ("tensor", "as_tensor", "from_numpy", "FloatTensor", "DoubleTensor", "Tensor", "array", "asarray", "list")
_METHODS = ("float", "double", "tolist", "to", "astype", "numpy", "sqrt", "clamp", "cpu", "values", "log1p")
_COUNTS = ("bincount", "value_counts", "Counter")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    for call in facts.sites.calls(_SAMPLER):
        facts.sites.seen[LOOKS_AT] += 1
        weights = call.argument("weights", 0)
        made = _inverted_counts(call.file, weights, call.context) if weights is not None else None
        if made is not None and not call.file.is_test and _draws_samples(call):
            yield Finding(
                "These are the weights of the classes, and the sampler takes one for each sample: "
                "it draws the first few samples of the data set, over and over",
                call.place.location,
                help="look up the weight of each sample's class: `class_weights[targets]`",
                related=(made.file.place(made.node, made.context).location,),
            )


def _draws_samples(call: Call) -> bool:
    """Whether it draws from a data set: as many as there are, or for a loader. Classes may be drawn on purpose."""
    wanted = call.argument("num_samples", 1)
    if wanted is not None and "len(" in ast.unparse(source(call.file, wanted, call.context)[0]):
        return True
    names = call.file.names_given(call.node)
    return any(
        keyword.arg == "sampler" and (keyword.value is call.node or last_name(keyword.value) in names)
        for loader in call.file.calls("DataLoader")
        for keyword in loader.node.keywords
    )


def _inverted_counts(file: File, node: ast.expr, context: Context, inverse: bool = False) -> Origin | None:
    """The counting of classes that the weights are the inverse of; None of anything longer, and of the counts."""
    for _ in range(12):
        found = origins(file, node, context)
        if len(found) != 1:
            return None
        file, node, context = found[0][:3]
        if isinstance(node, ast.BinOp):
            return _in_sides(file, node, context, inverse)
        if isinstance(node, ast.ListComp):
            return _in_list(file, node, context, inverse)
        if not isinstance(node, ast.Call):
            return None
        last = last_name(node.func)
        if last == "compute_class_weight":
            return Origin(file, node, context)
        if last in _COUNTS or (last == "unique" and any(keyword.arg == "return_counts" for keyword in node.keywords)):
            return Origin(file, node, context) if inverse else None
        if last in _METHODS and isinstance(node.func, ast.Attribute):
            node = node.func.value
        elif last in _WRAPPERS and node.args:
            node = node.args[0]
        else:
            return None
    return None


def _in_sides(file: File, node: ast.BinOp, context: Context, inverse: bool) -> Origin | None:
    """`1 / counts`, `counts ** -0.5`, `2 * (1 / counts)`."""
    turned = isinstance(node.op, ast.Pow) and ast.unparse(node.right).startswith("-")
    if not isinstance(node.op, ast.Div | ast.Mult | ast.Add | ast.Pow):
        return None
    left = _inverted_counts(file, node.left, context, inverse != turned)
    return left or _inverted_counts(file, node.right, context, inverse != isinstance(node.op, ast.Div))


def _in_list(file: File, made: ast.ListComp, context: Context, inverse: bool) -> Origin | None:
    """`[1 / c for c in counts]`, `[(y == c).sum() for c in range(10)]`: one item for each class."""
    item, over = made.elt, made.generators[0].iter
    inner = Context("comprehension", made, context, context.scope)
    one = last_name(made.generators[0].target)
    match over, item:
        case ast.Call(func=ast.Name(id="range")), ast.BinOp(op=ast.Div(), right=ast.Subscript(value=held, slice=index)):
            return _inverted_counts(file, held, inner, not inverse) if is_name(index, one) else None
    if isinstance(over, ast.Call) and last_name(over.func) == "range" and "len(" not in ast.unparse(over):
        counted = "==" in ast.unparse(item) and ("sum" in ast.unparse(item) or "count" in ast.unparse(item))
        return Origin(file, made, context) if counted and inverse else None
    turned = isinstance(item, ast.BinOp) and isinstance(item.op, ast.Div) and loads(item.right, one)
    return _inverted_counts(file, over, context, inverse != turned)
