"""loss-args-swapped: the labels stand where the predictions belong."""

import ast
import re
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts, Loss, Place
from mlcheck.lint.nodes import is_name, walk
from mlcheck.lint.sites.origins import callers
from mlcheck.lint.sites.training.triplets import crossed_triplets
from mlcheck.lint.values import Symbol, Tensor, Value, live

LOOKS_AT = "loss"
_ASYMMETRIC = frozenset(
    f"torch.nn.{name}"
    for name in ("CrossEntropyLoss", "NLLLoss", "BCELoss", "BCEWithLogitsLoss", "MultiLabelSoftMarginLoss")
)
_SCORES = ("raw", "softmax", "log_softmax", "sigmoid")
_STUDENT = pattern(r"student|(?:^|_)s(?:tu)?(?:_|$)")
_TEACHER = pattern(r"teacher|(?:^|_)t(?:ea)?(?:_|$)")
_LABELS = frozenset(
    ["y", "yb", "label", "labels", "target", "targets", "gt", "y_true", "ground_truth", "true_labels", "mask", "masks"]
)
_PREDICTIONS = frozenset(
    ["output", "outputs", "out", "pred", "preds", "prediction", "predictions", "logits", "y_hat", "y_pred", "scores"]
)


def check(facts: Facts) -> Iterator[Finding]:
    yield from _taught_backwards(facts)
    for call, first, second in crossed_triplets(facts.sites):
        yield Finding(
            f"`{ast.unparse(first)}` stands where the positive belongs, and `{ast.unparse(second)}` where the negative "
            "does: what should lie apart is drawn together",
            call.place.location,
            help="anchor, positive, negative: that is the order",
        )
    for loss in facts.losses:
        given = _arguments(loss)
        if loss.name not in _ASYMMETRIC or given is None or loss.target is None:
            continue
        place, told = (loss.place, given) if loss.handed is None else (loss.handed, _arguments_of(loss.handed.node))
        swapped = _is_swapped(loss, given) if loss.handed is None else _brings_them_swapped(loss)
        if told is not None and (swapped or _come_beside_inputs(loss, told[0])):
            yield Finding(
                f"`{loss.name.rpartition('.')[2]}` gets the labels first: it takes predictions, then labels",
                place.location,
                help=f"swap them: `({ast.unparse(told[1])}, {ast.unparse(told[0])})`",
                related=() if loss.handed is None else (loss.place.location,),
            )


def _taught_backwards(facts: Facts) -> Iterator[Finding]:
    """`kl_div(log_softmax(y_s), softmax(y_t))`, where `y_s` was computed without gradients, and `y_t` learns."""
    walks: dict[tuple[str, int, int], list[Loss]] = {}
    for loss in facts.losses:
        if loss.name == "torch.nn.KLDivLoss":
            walks.setdefault(loss.place.spot, []).append(loss)
    for losses in walks.values():
        names = {(_behind(loss.input, _STUDENT), _behind(loss.target, _TEACHER)) for loss in losses}
        student, teacher = next(iter(names))
        if len(names) == 1 and student and teacher and all(map(_learns_by_target, losses)):
            yield Finding(
                f"What is given as `{student}` has no gradient, and what is given as `{teacher}` has: "
                "the student and the teacher are swapped",
                _asked_from(facts, losses[0].place).location,
                help=f"the scores of the student belong to `{student}`, and those of the teacher to `{teacher}`",
                related=(losses[0].place.location,),
            )


def _asked_from(facts: Facts, place: Place) -> Place:
    """The call of the function around it, where there is one that can be seen, and one only."""
    loss = facts.sites.call_at(place)
    calls = list(callers(facts.sites, loss.function)) if loss is not None and loss.function is not None else []
    return calls[0].place if len(calls) == 1 else place


def _behind(value: Value | None, named: re.Pattern[str]) -> str:
    """The variable of that role whose scores a softmax was taken of."""
    node = value.place.node if isinstance(value, Tensor) and value.place is not None else None
    names = [part.id for part in walk(node) if isinstance(part, ast.Name)] if node is not None else []
    return next((name for name in names if named.search(name.lower())), "")


def _learns_by_target(loss: Loss) -> bool:
    if not isinstance(loss.input, Tensor) or not isinstance(loss.target, Tensor):
        return False
    first = {call.grad.kind for call in live(loss.input.traces)}
    apart = not first or ("off" in first and "on" not in first)
    return apart and any(call.trained and call.grad.kind == "on" for call in live(loss.target.traces))


def _is_swapped(loss: Loss, given: tuple[ast.expr, ast.expr]) -> bool:
    """By the names at the call of the loss."""
    first, second = given
    assert loss.target is not None
    predicted = _word(second) in _PREDICTIONS or (isinstance(second, ast.Call) and _is_computed(loss.target))
    return (predicted and _word(first) in _LABELS and not _is_computed(loss.input)) or _are_crossed(loss, first)


def _are_crossed(loss: Loss, given: ast.expr) -> bool:
    """What a loop over data brings, or the model was fed, comes first under its own name; then what the model made."""
    first, second = loss.input, loss.target
    if not isinstance(first, Symbol) or not isinstance(second, Tensor) or first.traces:
        return False
    drawn = isinstance(first.key, tuple) and first.key[0] in ("item", "element", "batch")
    if first.name.lower() != _word(given) or not (drawn or _is_fed(first, second)):
        return False
    return second.kind in _SCORES and bool(live(second.traces))


def _is_fed(first: Symbol, made: Tensor) -> bool:
    """Whether the very name is what the model was called on that made the other: a reconstruction."""
    calls = [call.place.node for call in live(made.traces)]
    given = [arg for call in calls if isinstance(call, ast.Call) for arg in call.args]
    return any(is_name(arg, first.name) for arg in given)


def _brings_them_swapped(loss: Loss) -> bool:
    """By what a call of the function around brought: what its parameters are called is no proof of that."""
    first, second = loss.input, loss.target
    if not isinstance(first, Symbol) or not isinstance(second, Tensor | Symbol):
        return False
    differentiated = _is_computed(second) and (not second.traces or bool(live(second.traces)))
    return first.name.lower() in _LABELS and not _is_computed(first) and differentiated


def _come_beside_inputs(loss: Loss, given: ast.expr) -> bool:
    """`bce(batch["y"], torch.sigmoid(net(batch["x"])))`: first what comes in the batch that the model was fed from."""
    first, second = loss.input, loss.target
    if not isinstance(first, Symbol) or first.traces or not isinstance(second, Tensor):
        return False
    if second.kind not in _SCORES or not any(call.trained for call in live(second.traces)):
        return False
    label = _item_of_batch(given)
    items = [_item_of_batch(arg) for call in live(second.traces) for arg in getattr(call.place.node, "args", ())]
    fed = {item for item in items if item is not None}
    return label is not None and label not in fed and label[0] in {batch for batch, _ in fed}


def _item_of_batch(node: ast.expr) -> tuple[str, str] | None:
    """("batch", "y") of `batch["y"].float().view(-1)` and of `batch.y`."""
    while True:
        match node:
            case ast.Call(func=ast.Attribute(value=inner)):
                node = inner
            case ast.Subscript(value=ast.Name(id=batch), slice=ast.Constant(value=key)):
                return batch, str(key)
            case ast.Attribute(value=ast.Name(id=batch), attr=key) if batch != "self":
                return batch, key
            case _:
                return None


def _arguments(loss: Loss) -> tuple[ast.expr, ast.expr] | None:
    return _arguments_of(loss.place.node)


def _arguments_of(node: ast.AST) -> tuple[ast.expr, ast.expr] | None:
    if not isinstance(node, ast.Call) or len(node.args) < 2 or any(isinstance(a, ast.Starred) for a in node.args):
        return None
    return node.args[0], node.args[1]


def _word(node: ast.expr) -> str:
    """The name at the root of `labels.float().view(-1)`."""
    while True:
        match node:
            case ast.Call(func=ast.Attribute(value=inner)) | ast.Subscript(value=inner):
                node = inner
            case ast.Name(id=name) | ast.Attribute(attr=name):
                return name.lower()
            case _:
                return ""


def _is_computed(value: Value) -> bool:
    """Whether a model's call is among what this was computed from, or it is what an unknown function returned."""
    if isinstance(value, Symbol) and isinstance(value.key, tuple) and value.key[:1] == ("called",):
        return True
    return isinstance(value, Tensor | Symbol) and bool(value.traces)
