"""sampler-weighs-classes: a weighted sampler gets a weight for each class, where it wants one for each sample."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import last_name
from mlcheck.lint.sites import Context, File
from mlcheck.lint.sites.latest import origin

LOOKS_AT = "weighted sampler"
_SAMPLER = "torch.utils.data.WeightedRandomSampler"
_WRAPPERS = ("tensor", "as_tensor", "from_numpy", "FloatTensor", "DoubleTensor", "Tensor", "array", "asarray", "list")
_METHODS = ("float", "double", "tolist", "to", "astype", "numpy", "sqrt", "clamp", "cpu", "values", "log1p")
_COUNTS = ("bincount", "value_counts", "compute_class_weight", "Counter")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    for call in facts.sites.calls(_SAMPLER):
        facts.sites.seen[LOOKS_AT] += 1
        weights = call.argument("weights", 0)
        made = _counted(call.file, weights, call.context) if weights is not None else None
        if made is not None and not call.file.is_test:
            yield Finding(
                "These are the weights of the classes, and the sampler takes one for each sample: "
                "it draws the first few samples of the data set, over and over",
                call.place.location,
                help="look up the weight of each sample's class: `class_weights[targets]`",
                related=(call.file.place(made, call.context).location,),
            )


def _counted(file: File, node: ast.expr, context: Context) -> ast.AST | None:
    """The counting of classes that the weights are, inverted or scaled as may be; None of anything longer."""
    for _ in range(12):
        node, context = origin(file, node, context)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div | ast.Mult | ast.Add | ast.Pow):
            sides = [_counted(file, node.left, context), _counted(file, node.right, context)]
            return next((side for side in sides if side is not None), None)
        if isinstance(node, ast.ListComp):
            return _of_counts(file, node, context)
        if not isinstance(node, ast.Call):
            return None
        last = last_name(node.func)
        if last in _COUNTS:
            return node
        if last == "unique" and any(keyword.arg == "return_counts" for keyword in node.keywords):
            return node
        if last in _METHODS and isinstance(node.func, ast.Attribute):
            node = node.func.value
        elif last in _WRAPPERS and node.args:
            node = node.args[0]
        else:
            return None
    return None


def _of_counts(file: File, made: ast.ListComp, context: Context) -> ast.AST | None:
    """`[1 / c for c in counts]`, `[(y == c).sum() for c in range(10)]`: one item for each class."""
    over = made.generators[0].iter
    if isinstance(over, ast.Call) and last_name(over.func) == "range" and "len(" not in ast.unparse(over):
        counted = "==" in ast.unparse(made.elt) and ("sum" in ast.unparse(made.elt) or "count" in ast.unparse(made.elt))
        return made if counted else None
    return _counted(file, over, context)
