"""logits-thresholded: logits are compared with 0.5, a threshold of probabilities; or a sigmoid with 0."""

import ast
from collections.abc import Hashable, Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts, Forward
from mlcheck.lint.judging import losses_of
from mlcheck.lint.nodes import before_methods
from mlcheck.lint.sites import Context, File, Sites
from mlcheck.lint.sites.evaluation.gathered import gathered
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.origins import origins
from mlcheck.lint.values import Tensor, live, owner_key

LOOKS_AT = "loss of logits"
WORDS = ("BCEWithLogitsLoss", "with_logits", "igmoid(")
_LOSS = "torch.nn.BCEWithLogitsLoss"
_SHAPING = ("squeeze", "view", "reshape", "flatten", "cpu", "detach", "float", "unsqueeze", "to", "item", "tolist")
_HALF = 0.5
_SIGMOIDS = ("torch.sigmoid", "torch.nn.functional.sigmoid", "torch.special.expit")


def check(facts: Facts) -> Iterator[Finding]:
    yield from _never_below_zero(facts.sites)
    makers: set[Hashable] = set()
    for loss in losses_of(facts, LOOKS_AT, _LOSS):
        if isinstance(loss.input, Tensor) and loss.input.kind == "raw":
            makers |= {owner_key(call.module) for call in live(loss.input.traces)}
    if not makers:
        return
    calls = {call.place.node: call for call in facts.forwards if owner_key(call.module) in makers}
    for file in facts.sites.mentioning(["0.5", "round("]):
        if "Sigmoid(" in file.text:
            continue  # a layer that may have been put behind the model since
        for node, asked, context in _decisions(file):
            made = _computed(file, asked, context)
            call = calls.get(made) or calls.get(_gathered(file, asked, context) or made)
            call = call or calls.get(_handed_in(file, asked, context) or made)
            if call is not None and not _may_squash(call):
                yield Finding(
                    f"These are logits of `{call.name}`, and 0.5 is a threshold of probabilities",
                    file.place(node, context).location,
                    help="compare with 0, or apply a sigmoid first",
                    related=(call.place.location,),
                )


def _computed(file: File, asked: ast.expr, context: Context) -> ast.expr:
    """What is decided about, as it was computed; of one `item` in `for item in outputs`, all of them."""
    made, where = source(file, before_methods(asked, _SHAPING), context)
    bound = file.bindings(made.id, where) if isinstance(made, ast.Name) else []
    if len(bound) == 1 and bound[0].kind == "loop" and isinstance(bound[0].value, ast.expr):
        given = before_methods(bound[0].value, _SHAPING)
        made, _ = source(file, given, bound[0].context)
    return before_methods(made, _SHAPING)


def _handed_in(file: File, asked: ast.expr, context: Context) -> ast.expr | None:
    """What every call of the function hands over for the parameter that is decided about."""
    found = origins(file, before_methods(asked, _SHAPING), context)
    made = [before_methods(source(each.file, each.node, each.context)[0], _SHAPING) for each in found]
    return made[0] if made and all(each is made[0] for each in made) else None


def _gathered(file: File, asked: ast.expr, context: Context) -> ast.AST | None:
    """What one batch added to what is decided about, where that was gathered over all of them."""
    found = gathered(file, before_methods(asked, _SHAPING), context)
    if found is None:
        return None
    made, _ = source(found.file, before_methods(found.node, _SHAPING), found.context)
    return before_methods(made, (*_SHAPING, "numpy"))


def _never_below_zero(sites: Sites) -> Iterator[Finding]:
    """`torch.sigmoid(x) > 0`, which is true of all that is finite."""
    for file in sites.mentioning(["igmoid("]):
        for comparison, context in file.walk.comparisons:
            right = comparison.comparators[0]
            if len(comparison.ops) != 1 or not isinstance(comparison.ops[0], ast.Gt | ast.GtE | ast.Lt | ast.LtE):
                continue
            if not isinstance(right, ast.Constant) or isinstance(right.value, bool) or right.value != 0:
                continue
            asked = before_methods(comparison.left, _SHAPING)
            made, where = source(file, asked, context)
            if _is_sigmoid(file, before_methods(made, _SHAPING), where) and not file.is_test:
                yield Finding(
                    "A sigmoid is never below zero: this says the same of every sample",
                    file.place(comparison, context).location,
                    help="compare with 0.5, or leave the sigmoid out",
                )


def _is_sigmoid(file: File, node: ast.expr, context: Context) -> bool:
    """`torch.sigmoid(x)`, `F.sigmoid(x)`, `x.sigmoid()`, `nn.Sigmoid()(x)`."""
    if not isinstance(node, ast.Call):
        return False
    if file.called(node, context) in _SIGMOIDS:
        return True
    if isinstance(node.func, ast.Call):
        return file.called(node.func, context) == "torch.nn.Sigmoid"
    unnamed = isinstance(node.func, ast.Attribute) and node.func.attr == "sigmoid" and not node.args
    return unnamed and file.resolve(node.func, context) is None


def _decisions(file: File) -> Iterator[tuple[ast.expr, ast.expr, Context]]:
    """`x > 0.5`, `torch.round(x)`, `x.round()`: the expression, and what is decided about."""
    for comparison, context in file.walk.comparisons:
        right = comparison.comparators[0]
        if isinstance(comparison.ops[0], ast.Gt | ast.GtE) and _is_half(file, right, context):
            yield comparison, comparison.left, context
    for call in file.calls("gt", "ge"):
        asked, threshold = (call.owner, *call.node.args[:1]) if len(call.node.args) == 1 else (None, None)
        if asked is not None and threshold is not None and _is_half(file, threshold, call.context):
            yield call.node, asked, call.context
    for call in file.calls("round"):
        if call.node.keywords:
            continue  # so many decimals
        if call.file.called(call.node, call.context) in ("torch.round", "numpy.round") and call.node.args:
            yield call.node, call.node.args[0], call.context
        elif isinstance(call.node.func, ast.Attribute) and not call.node.args:
            yield call.node, call.node.func.value, call.context


def _is_half(file: File, node: ast.expr, context: Context) -> bool:
    """0.5, also as the value of a threshold that is set nowhere else."""
    if isinstance(node, ast.Name | ast.Attribute):
        found = origins(file, node, context)
        return bool(found) and all(isinstance(o.node, ast.Constant) and o.node.value == _HALF for o in found)
    return isinstance(node, ast.Constant) and node.value == _HALF


def _may_squash(call: Forward) -> bool:
    """Whether the model may give probabilities when it does not train."""
    cls = getattr(call.module, "cls", None)
    return cls is not None and any("sigmoid" in ast.unparse(base.node).lower() for base in cls.mro)
