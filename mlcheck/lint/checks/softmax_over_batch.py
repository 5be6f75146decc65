"""softmax-over-batch: log-probabilities normalised over the samples of a batch reach a loss."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.judging import losses_of
from mlcheck.lint.sites import Context, File
from mlcheck.lint.sites.latest import latest, source
from mlcheck.lint.values import Tensor

LOOKS_AT = "class loss"
_BATCHES = ("b", "B", "batch", "batch_size", "bs", "bsz", "n", "N")
_TURNS = ("transpose", "permute", "squeeze(0)", "[0]", ".t()", ".T", "rearrange", "movedim", "swapaxes", ".view(")
_LOSSES = ("torch.nn.NLLLoss", "torch.nn.KLDivLoss", "torch.nn.CrossEntropyLoss")


def check(facts: Facts) -> Iterator[Finding]:
    yield from _winners(facts)
    yield from _in_forward(facts)
    for loss in losses_of(facts, LOOKS_AT, *_LOSSES):
        scores = loss.input
        if not isinstance(scores, Tensor) or scores.place is None:
            continue
        if scores.kind not in ("softmax", "log_softmax") or not _is_over_first(scores.place.node):
            continue
        if scores.shape is not None and not scores.shape.open and len(scores.shape.dims) < 2:
            continue
        if loss.name == "torch.nn.NLLLoss" or (scores.shape is not None and len(scores.shape.dims) > 1):
            yield Finding(
                f"`{scores.kind}` over dimension 0 normalises over the samples of the batch, not over the classes",
                scores.place.location,
                help="use `dim=1`, or `dim=-1` where the classes come last",
                related=(loss.place.location,),
            )


def _in_forward(facts: Facts) -> Iterator[Finding]:
    """`b, t, d = x.shape`, and `self.score(x).softmax(dim=0)`: of what still has the batch first."""
    for cls in facts.sites.classes:
        forward = cls.methods.get("forward")
        text = forward.file.module.text_of(forward.node) if forward is not None else ""
        if forward is None or "softmax(" not in text or any(word in text for word in _TURNS):
            continue
        batched = {
            name
            for node in forward.nodes
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple) and len(node.targets[0].elts) > 2
            for name in [ast.unparse(node.value).removesuffix(".shape").removesuffix(".size()")]
            if ast.unparse(node.targets[0].elts[0]) in _BATCHES and name.isidentifier()
        }
        for node in forward.nodes:
            if isinstance(node, ast.Call) and _called(node) in ("softmax", "log_softmax") and _is_over_first(node):
                given = node.func.value if isinstance(node.func, ast.Attribute) else None
                given = node.args[0] if given is None or ast.unparse(given) in ("F", "torch") else given
                if isinstance(given, ast.Call) and ast.unparse(given.func).startswith("self.") and len(given.args) == 1:
                    given = given.args[0]
                if isinstance(given, ast.Name) and given.id in batched:
                    yield Finding(
                        "This normalises over the samples of the batch: dimension 0 is the batch",
                        forward.place(node).location,
                        help="give the dimension that is to add up to one",
                    )


def _called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _winners(facts: Facts) -> Iterator[Finding]:
    """`scores.argmax(0) == labels`: the best sample for each class, and not the other way round."""
    for file in facts.sites.mentioning(["argmax(", "max("]):
        for comparison, context in file.walk.comparisons:
            if len(comparison.ops) != 1 or not isinstance(comparison.ops[0], ast.Eq):
                continue
            left, right = comparison.left, comparison.comparators[0]
            for side, other in ((left, right), (right, left)):
                winner, where = source(file, side, context)
                if not isinstance(other, ast.Name) or not _is_label(other.id):
                    continue
                if _is_metric_of_trainer(file, winner, other, where) or (
                    _is_over_first_dimension(winner) and _is_batch_output(file, winner, where)
                ):
                    yield Finding(
                        "`argmax` over dimension 0 names a sample for each class, not a class for each sample",
                        file.place(winner, where).location,
                        help="`argmax(dim=1)`, or `dim=-1` where the classes come last",
                        related=(file.place(comparison, context).location,),
                    )


def _is_over_first_dimension(node: ast.expr) -> bool:
    """`x.argmax(0)`, `x.argmax(dim=0)`."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr != "argmax":
        return False
    dims = [*node.args[:1], *(keyword.value for keyword in node.keywords if keyword.arg == "dim")]
    return len(dims) == 1 and isinstance(dims[0], ast.Constant) and dims[0].value == 0


def _is_metric_of_trainer(file: File, winner: ast.expr, labels: ast.Name, context: Context) -> bool:
    """`logits, labels = eval_pred`, and `np.argmax(logits, axis=0)`: a Trainer hands over all samples at once."""
    if not isinstance(winner, ast.Call) or file.resolve(winner.func, context) != "numpy.argmax" or not winner.args:
        return False
    axis = [*winner.args[1:2], *(keyword.value for keyword in winner.keywords if keyword.arg == "axis")]
    function = file.function_around(context)
    if function is None or function.name != "compute_metrics" or not isinstance(winner.args[0], ast.Name):
        return False
    found = [latest(file, ast.Name(name, lineno=winner.lineno), context) for name in (winner.args[0].id, labels.id)]
    unpacked = [each.value for each in found if each is not None and each.kind == "item" and each.value is not None]
    return len(unpacked) == 2 and unpacked[0] is unpacked[1] and [ast.unparse(each) for each in axis] == ["0"]


def _is_batch_output(file: File, winner: ast.expr, context: Context) -> bool:
    """Whether it is asked of what a model makes of a batch that a loop over a loader brings."""
    func = winner.func if isinstance(winner, ast.Call) else None
    scores = func.value if isinstance(func, ast.Attribute) else None
    found, where = source(file, scores, context) if scores is not None else (None, context)
    if not isinstance(found, ast.Call) or not isinstance(found.func, ast.Name | ast.Attribute) or len(found.args) != 1:
        return False
    model = ast.unparse(found.func).rpartition(".")[2].lower()
    if not any(word in model for word in ("model", "net", "classifier")):
        return False
    loop = next((outer.node for outer in where.outwards() if outer.kind == "loop"), None)
    return isinstance(loop, ast.For) and "loader" in ast.unparse(loop.iter).lower()


def _is_label(name: str) -> bool:
    return name.lower() in ("y", "labels", "label", "target", "targets", "classes")


def _is_over_first(node: ast.AST) -> bool:
    """`F.softmax(x, 0)`, `x.softmax(dim=0)`, `nn.Softmax(0)`."""
    if not isinstance(node, ast.Call):
        return False
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    given = [keyword.value for keyword in node.keywords if keyword.arg == "dim"]
    of_function = isinstance(node.func, ast.Name) or ast.unparse(node.func).startswith(
        ("F.", "torch.", "nn.functional.")
    )
    place = 1 if of_function and not name[:1].isupper() else 0
    given += node.args[place : place + 1]
    return bool(given) and isinstance(given[0], ast.Constant) and given[0].value == 0 and given[0].value is not False
