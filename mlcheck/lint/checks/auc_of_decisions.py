"""auc-of-decisions: a curve over all thresholds is computed from predictions that a threshold has decided already."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import is_name, last_name
from mlcheck.lint.sites import Call, Context, File
from mlcheck.lint.sites.latest import source

LOOKS_AT = "curve over thresholds"
WORDS = ("sklearn",)
_CURVES = ("roc_auc_score", "average_precision_score", "roc_curve", "precision_recall_curve")
_SAME = frozenset(["numpy", "cpu", "detach", "tolist", "flatten", "ravel", "astype", "int", "long", "float", "reshape"])
_SAME |= {"squeeze", "to", "item", "view", "bool", "type"}
_JOINS = ("concatenate", "cat", "hstack", "array", "asarray", "stack", "tensor", "list")
_ADDS = ("append", "extend")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    for call in facts.sites.calls(*(f"sklearn.metrics.{name}" for name in _CURVES)):
        facts.sites.seen[LOOKS_AT] += 1
        given = call.argument("y_score", 1)
        decided = _decided(call.file, given, call.context) if given is not None else None
        if decided is not None and "torch" in call.file.text and not call.file.is_test:
            yield Finding(
                f"`{last_name(call.node.func)}` gets decisions, not scores: the curve has a single point, "
                "and the area depends on that threshold",
                call.place.location,
                help="give it the probabilities or logits",
                related=(call.file.place(decided, call.context).location,),
            )


def _decided(file: File, node: ast.expr, context: Context, depth: int = 6) -> ast.AST | None:
    """Where the scores became 0 or 1; None where that is not certain of all of them."""
    if isinstance(node, ast.Name) and (gathered := _gathered(file, node, context, depth)) is not None:
        return gathered
    node, context = source(file, node, context)
    if isinstance(node, ast.Compare):
        is_threshold = len(node.ops) == 1 and isinstance(node.ops[0], ast.Gt | ast.GtE)
        return node if is_threshold and isinstance(node.comparators[0], ast.Constant) else None
    if isinstance(node, ast.List) and not node.elts:
        return None
    if not isinstance(node, ast.Call) or depth <= 0:
        return None
    last = last_name(node.func)
    if last == "argmax" or (last == "round" and _is_to_whole(file, node, context)):
        return node
    if last == "where" and len(node.args) == 3 and [ast.unparse(part) for part in node.args[1:]] == ["1", "0"]:
        return node
    if last in _SAME and isinstance(node.func, ast.Attribute):
        return _decided(file, node.func.value, context, depth - 1)
    return _decided(file, node.args[0], context, depth - 1) if last in _JOINS and node.args else None


def _is_to_whole(file: File, node: ast.Call, context: Context) -> bool:
    """`torch.round(p)` and `p.round()`, and not `p.round(3)`."""
    is_function = isinstance(file.resolve(node.func, context), str)
    return len(node.args) == is_function and not node.keywords


def _gathered(file: File, name: ast.Name, context: Context, depth: int) -> ast.AST | None:
    """What a list was filled with: `preds.extend((p > 0.5).tolist())`, `preds += ...`."""
    function = file.function_around(context)
    if function is None or depth <= 0 or not file.bindings(name.id, context):
        return None
    starts = [b for b in file.bindings(name.id, context) if b.kind == "value" and isinstance(b.value, ast.List)]
    others = [b for b in file.bindings(name.id, context) if b not in starts and not isinstance(b.node, ast.AugAssign)]
    if not starts or any(isinstance(b.value, ast.List) and b.value.elts for b in starts):
        return None
    if any(not _is_joined(b.value, name.id) for b in others):
        return None
    filled: list[tuple[ast.expr, Context]] = []
    for call in file.calls(*_ADDS):
        owner = call.owner
        if call.function is function and is_name(owner, name.id) and call.node.args:
            filled.append((call.node.args[0], call.context))
    filled += [
        (node.value, _context_of(file, node, context))
        for node in function.nodes
        if isinstance(node, ast.AugAssign) and is_name(node.target, name.id)
    ]
    found = [_decided(file, value, where, depth - 1) for value, where in filled]
    return found[0] if found and None not in found else None


def _is_joined(value: ast.AST | None, name: str) -> bool:
    """`preds = np.concatenate(preds)`."""
    return isinstance(value, ast.Call) and last_name(value.func) in _JOINS and ast.unparse(value.args[0]) == name


def _context_of(file: File, node: ast.AST, default: Context) -> Context:
    """The context of some call near a statement: the one its own names are looked up in."""
    near = [Call(file, call, where) for calls in file.walk.calls.values() for call, where in calls]
    inside = [call for call in near if node.lineno <= call.node.lineno <= (node.end_lineno or 0)]  # type: ignore[attr-defined]
    return inside[0].context if inside else default
