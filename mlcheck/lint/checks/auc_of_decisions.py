"""auc-of-decisions: a curve over all thresholds is computed from predictions that a threshold has decided already."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import is_name, last_name
from mlcheck.lint.sites import Call, Class, Context, File, Function
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.origins import Origin, origins

LOOKS_AT = "curve over thresholds"
WORDS = ("sklearn",)
_CURVES = ("roc_auc_score", "average_precision_score", "roc_curve", "precision_recall_curve")
_SAME = frozenset(["numpy", "cpu", "detach", "tolist", "flatten", "ravel", "astype", "int", "long", "float", "reshape"])
_SAME |= {"squeeze", "to", "item", "view", "bool", "type"}
_JOINS = ("concatenate", "cat", "hstack", "array", "asarray", "stack", "tensor", "list")
_DEPTH = 12
_ADDS = ("append", "extend")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    for call in facts.sites.calls(*(f"sklearn.metrics.{name}" for name in _CURVES)):
        facts.sites.seen[LOOKS_AT] += 1
        given = call.argument("y_score", 1)
        decided = _decided(call.file, given, call.context) if given is not None else None
        if decided is not None and facts.sites.uses_torch and not call.file.is_test:
            yield Finding(
                f"`{last_name(call.node.func)}` gets decisions, not scores: the curve has a single point, "
                "and the area depends on that threshold",
                call.place.location,
                help="give it the probabilities or logits",
                related=(decided.file.place(decided.node, decided.context).location,),
            )


def _decided(file: File, node: ast.expr, context: Context, depth: int = _DEPTH) -> Origin | None:
    """Where the scores became 0 or 1; None where that is not certain of all of them."""
    if isinstance(node, ast.Name) and (gathered := _gathered(file, node, context, depth)) is not None:
        return gathered
    if isinstance(node, ast.Attribute) and (kept := _kept(file, node, context, depth)) is not None:
        return kept
    own = isinstance(node, ast.Call) and isinstance(file.resolve(node.func, context), Function)
    further = own or isinstance(node, ast.Name | ast.Attribute)
    found = origins(file, node, context) if further and depth > 0 else []
    if len(found) == 1 and found[0].node is not node:
        return _decided(found[0].file, found[0].node, found[0].context, depth - 1)
    node, context = source(file, node, context)
    if isinstance(node, ast.Compare):
        is_threshold = len(node.ops) == 1 and isinstance(node.ops[0], ast.Gt | ast.GtE)
        return Origin(file, node, context) if is_threshold and _is_fixed(file, node.comparators[0], context) else None
    if isinstance(node, ast.List) and not node.elts:
        return None
    if not isinstance(node, ast.Call) or depth <= 0:
        return None
    last = last_name(node.func)
    if last == "argmax" or (last == "round" and _is_to_whole(file, node, context)):
        return Origin(file, node, context)
    if last == "where" and len(node.args) == 3 and [ast.unparse(part) for part in node.args[1:]] == ["1", "0"]:
        return Origin(file, node, context)
    if last in _SAME and isinstance(node.func, ast.Attribute):
        return _decided(file, node.func.value, context, depth - 1)
    return _decided(file, node.args[0], context, depth - 1) if last in _JOINS and node.args else None


def _is_to_whole(file: File, node: ast.Call, context: Context) -> bool:
    """`torch.round(p)` and `p.round()`, and not `p.round(3)`."""
    is_function = isinstance(file.resolve(node.func, context), str)
    return len(node.args) == is_function and not node.keywords


def _gathered(file: File, name: ast.Name, context: Context, depth: int) -> Origin | None:
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


def _is_fixed(file: File, threshold: ast.expr, context: Context) -> bool:
    """A number, maybe of a parameter, that the calls that can be seen, or its default, tell."""
    function = file.function_around(context)
    told = [each.node for each in origins(file, threshold, context)]
    if function is not None and told == [threshold] and isinstance(threshold, ast.Name):
        told = [function.parameters.get(threshold.id) or threshold]
    return bool(told) and all(isinstance(each, ast.Constant) for each in told)


def _kept(file: File, node: ast.Attribute, context: Context, depth: int) -> Origin | None:
    """What all methods of an object put into the list that it keeps: `self.outputs.append(outputs)`."""
    method = file.method_around(context)
    if method is None or method.cls is None or not is_name(node.value, method.receiver) or depth <= 0:
        return None
    begun = list(_begun(method.cls, node.attr))
    if not begun or not all(isinstance(value, ast.List) and not value.elts for value in begun):
        return None
    filled = [
        _decided(call.file, call.node.args[0], call.context, depth - 1)
        for call in file.calls(*_ADDS)
        if call.cls is method.cls and call.node.args and call.owner is not None
        if ast.unparse(call.owner) == ast.unparse(node)
    ]
    return filled[0] if filled and None not in filled else None


def _begun(cls: Class, name: str) -> Iterator[ast.expr | None]:
    """What `self.outputs` is assigned: `[]`, also in `self.labels, self.outputs = [], []`."""
    for _, assigned in cls.attribute(name):
        yield assigned.value


def _is_joined(value: ast.AST | None, name: str) -> bool:
    """`preds = np.concatenate(preds)`."""
    return isinstance(value, ast.Call) and last_name(value.func) in _JOINS and ast.unparse(value.args[0]) == name


def _context_of(file: File, node: ast.AST, default: Context) -> Context:
    """The context of some call near a statement: the one its own names are looked up in."""
    near = [Call(file, call, where) for calls in file.walk.calls.values() for call, where in calls]
    inside = [call for call in near if node.lineno <= call.node.lineno <= (node.end_lineno or 0)]  # type: ignore[attr-defined]
    return inside[0].context if inside else default
