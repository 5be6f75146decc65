"""When a call of a module counts as evaluation, and what a loss is given."""

from __future__ import annotations

import ast
import re

from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts, Forward, Loss, Place
from mlcheck.lint.nodes import before_methods, is_length, last_name, walk
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.layers.last_activations import final_relu
from mlcheck.lint.values import Object, Select, Tensor, live, split_of_name

_LOSS = pattern(r"loss|crit|objective", re.IGNORECASE)
_WEIGHTS = pattern(r"Parameter\(|register_parameter|\bnn\.(?!Module\b)[A-Z]|Linear|Conv\d?d?\(|Embedding|add_module")
_COMPARES = pattern(r"\b(?:pytest|unittest|testing\.assert_\w+\()")
_VERBS = (
    "eval",
    "evaluate",
    "evaluation",
    "validate",
    "validation",
    "valid",
    "val",
    "test",
    "predict",
    "infer",
    "inference",
)


def evaluates(forward: Forward) -> bool:
    """On held-out data, in a function named for it, or without gradients where nothing trains.

    One call without gradients may be anything; a loop of them, or one on restored weights, is inference.
    """
    if forward.split == "train" or _is_training_step(forward):
        return False
    held_out = any(loop.split in ("val", "test") for loop in forward.loops) and not _tries(forward)
    if forward.split in ("val", "test") or held_out:
        return not _trains(forward) or _is_whole_set(forward)
    if _stands_in_evaluation(forward) and not _just_made(forward) and not _tries(forward):
        return not _trains(forward) and not _is_part_of_step(forward)
    if forward.grad.kind != "off" or any(loop.trains or loop.split == "train" for loop in forward.loops):
        return False  # over training data it is for what is kept of them, such as the means of classes
    if forward.functions and re.search("loss|train", forward.functions[-1].lower()):
        return False  # a part of the training step that needs no gradient, such as samples to learn from
    if any("training_step" in name for name in forward.functions):
        return False  # a teacher, asked in the step of its student
    return forward.restored or forward.loop is not None


def tests_of_code(facts: Facts) -> set[str]:
    """The paths of the files that test code, as against scripts that test a model: `batch_test.py`."""
    return {file.path for file in facts.sites.files.values() if file.is_test and _COMPARES.search(file.text)}


def _is_training_step(forward: Forward) -> bool:
    """`model.training_step(batch)`, asked for by its name wherever it is."""
    call = forward.place.node
    return isinstance(call, ast.Call) and re.search(r"train\w*_step$", last_name(call.func)) is not None


def _stands_in_evaluation(forward: Forward) -> bool:
    """Whether a function is named for it: the one around the call, or the one whose loop calls a step by itself."""
    if not forward.functions:
        return False
    around = forward.loop.place.symbol.rpartition(".")[2] if forward.loop is not None else ""
    if names_evaluation(forward.functions[-1]):
        return True
    if around not in forward.functions or not names_evaluation(around):
        return False
    inside = forward.functions[forward.functions.index(around) + 1 :]
    return all(split_of_name(name) != "train" for name in inside)  # `test_consistency` of `training_step`


def _is_part_of_step(forward: Forward) -> bool:
    """`predict_poses(batch)`, called where training data is gone over: a part of the model, named for what it gives."""
    words = {word for name in forward.functions for word in name.lower().split("_") if word in _VERBS}
    return words <= {"predict", "infer"} and any(loop.split == "train" for loop in forward.loops)


def _tries(forward: Forward) -> bool:
    """`def test_export(model): model(x)`: a function that tests the code, not the model, calls it on one batch."""
    named = bool(forward.functions) and forward.functions[-1].startswith("test_")
    return named and (forward.loop is None or draws_again(forward))


def _just_made(forward: Forward) -> bool:
    """Built by the very call that tries it out: `def test(): net = Net(); print(net(torch.randn(1, 3)).shape)`."""
    made = [mode for mode in forward.modes if mode.place is None and mode.when is not None]
    here = forward.when.calls
    return (
        bool(made) and not forward.restored and all(mode.when.calls[: len(here)] == here for mode in made if mode.when)
    )


def _trains(forward: Forward) -> bool:
    """Whether the loop trains that goes over data: `for layer in self.layers: x = layer(x)` goes over modules."""
    call = forward.place.node
    callee = call.func.id if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) else ""
    over_data = (loop for loop in reversed(forward.loops) if not (callee and _brings(loop.node, callee)))
    loop = next(over_data, None)
    return loop is not None and loop.trains


def _brings(loop: ast.AST, name: str) -> bool:
    return isinstance(loop, ast.For) and any(isinstance(n, ast.Name) and n.id == name for n in walk(loop.target))


def _is_whole_set(forward: Forward) -> bool:
    """`for epoch in range(n):`, which trains on all samples at once, and then judges by all that are held out.

    `for step in range(len(loader)):` counts batches: what is drawn between two of them shows how the training goes.
    """
    loop = forward.loop.node if forward.loop is not None else None
    counts = isinstance(loop, ast.For) and "range(" in ast.unparse(loop.iter)
    if isinstance(loop, ast.For) and any(map(is_length, walk(loop.iter))):
        return False
    return counts and forward.split in ("val", "test") and not forward.trained


def names_evaluation(name: str) -> bool:
    """`evaluate`, `run_validation`; not `evaluate_train`."""
    words = [word for word in name.lower().split("_") if word]
    return any(word in _VERBS for word in words) and split_of_name(name) != "train"


def is_named_for_evaluation(forward: Forward) -> bool:
    """Whether the function it stands in is called `validate`, `test_epoch` or the like."""
    return bool(forward.functions) and names_evaluation(forward.functions[-1])


def is_turned_to_held_out(forward: Forward) -> bool:
    """Whether `def test(self): self.run(self.test_loader, train=False)` led here: for once the loop trains nothing."""
    loop = forward.loop
    if loop is None or loop.trains or loop.split not in ("val", "test"):
        return False
    return any(names_evaluation(name) for name in forward.functions[:-1])


def helps_evaluation(forward: Forward) -> bool:
    """A loop in a helper of an evaluation, which itself put the model in eval mode: `self.features(loader)`."""
    if forward.loop is None or forward.loop.trains:
        return False
    for mode in forward.modes:
        depth = len(mode.when.calls) if mode.when is not None else 0
        if depth < 2 or mode.when is None or forward.when.calls[:depth] != mode.when.calls:
            return False
        if not names_evaluation(forward.functions[depth - 2]):
            return False
    return True


_VARYING = ("mc", "dropout", "uncertainty", "bayes", "sample", "adapt", "tent", "tta", "calibrat", "swa", "bn", "stat")


def is_meant_to_vary(forward: Forward) -> bool:
    """Whether a function around it says that train mode is what it wants: Monte-Carlo dropout, adapting BatchNorm."""
    names = "_".join(forward.functions).lower()
    return any(word in names for word in _VARYING)


def draws_again(forward: Forward) -> bool:
    """Whether a loop around it, which trains nothing, asks the same of the model in every turn: only draws can differ.

    `[model(x) for _ in range(100)]` is Monte-Carlo dropout, or takes the time.
    """
    call, loop = forward.place.node, forward.loop
    if loop is None or loop.trains or not isinstance(call, ast.Call) or not (call.args or call.keywords):
        return False
    copied = [before_methods(argument, ("clone", "copy")) for argument in call.args]
    given = [node for argument in (*copied, *call.keywords) for node in walk(argument)]
    if any(isinstance(node, ast.Call | ast.Attribute | ast.NamedExpr) for node in given):
        return False
    changed = {node.id for node in walk(loop.node) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    asked = {node.id for node in (*given, *walk(call.func)) if isinstance(node, ast.Name)}
    return call in walk(loop.node) and changed.isdisjoint(asked)


_ATTACK = pattern(r"attack|adversar|perturb|poison|fgsm|deepfool|pgd(?![a-z])", re.IGNORECASE)


def is_named_for_attack(*names: str) -> bool:
    """Whether a name, or the end of a path, says that somebody works against a model: a bad score is a success."""
    return any(_ATTACK.search("/".join(name.replace("\\", "/").split("/")[-3:])) for name in names)


def belongs_to_attack(forward: Forward) -> bool:
    """Whether gradients of the model's input are computed, and the model is not trained."""
    return is_named_for_attack(*forward.functions)


def losses_of(facts: Facts, kind: str, *names: str) -> list[Loss]:
    """The losses of these names, counted as what the rule looked at.

    Not those from a table that offers others as well: who picks an entry by hand may know which one fits.
    """
    found = [loss for loss in facts.losses if loss.name in names]
    facts.sites.seen[kind] = len({loss.place.spot for loss in found})
    offered = {loss.choice for loss in facts.losses if loss.name not in names} | {""}
    return [loss for loss in found if loss.choice is None or loss.choice not in offered]


def scores_of(facts: Facts, loss: Loss) -> Tensor | None:
    """The tensor that the loss is given; of two ways through its own function, the one that an activation lies on.

    Elsewhere, and where it asks which loss there is, the test that parts the ways may choose the loss as well. None
    for a sigmoid where the call may be one of `BCELoss`: with two classes the model ends so.
    """
    either = any(other.place.spot == loss.place.spot and other.name == "torch.nn.BCELoss" for other in facts.losses)
    todo = [loss.input]
    while todo:
        value = todo.pop()
        if isinstance(value, Select):
            todo += [value.other, value.then]
        elif isinstance(value, Tensor) and (value is loss.input or _is_made_beside(facts, value, loss)):
            return None if either and value.kind == "sigmoid" else value
    return None


def _is_made_beside(facts: Facts, scores: Tensor, loss: Loss) -> bool:
    place = scores.place
    if not scores.kind or place is None or (place.path, place.symbol) != (loss.place.path, loss.place.symbol):
        return False
    return not asks_for_loss(facts, place, loss)


def asks_for_loss(facts: Facts, place: Place, loss: Loss) -> bool:
    """Whether an `if` around the place asks which loss it is, as `type(criterion) == nn.BCEWithLogitsLoss` does."""
    file = facts.sites.at(place.path)
    branches = walk(file.module.source.tree) if file is not None else []
    asked = [ast.unparse(node.test) for node in branches if isinstance(node, ast.If) and place.node in walk(node)]
    called = loss.place.node.func if isinstance(loss.place.node, ast.Call) else None
    return any(last_name(called) in test or _LOSS.search(test) for test in asked)


def has_no_weights(forward: Forward) -> bool:
    """Whether the module is a transform of its inputs, of a class whose bases are all known: it makes no graph."""
    cls = forward.module.cls if isinstance(forward.module, Object) else None
    if cls is None or "?" in cls.libraries or len(forward.touched) > 1:
        return False
    return not any(_WEIGHTS.search(info.module.text_of(info.node)) for info in cls.mro)


def relu_before(facts: Facts, loss: Loss) -> Place | None:
    """The ReLU that the module ends with whose result the loss is given as it is."""
    file, call = facts.sites.at(loss.place.path), facts.sites.call_at(loss.place)
    made_by = list(live(loss.input.traces)) if isinstance(loss.input, Tensor) and loss.input.kind == "other" else []
    forward = made_by[0] if len(made_by) == 1 else None
    if file is None or call is None or forward is None or not call.node.args or not isinstance(forward.module, Object):
        return None
    made, _ = source(file, call.node.args[0], call.context)
    cls = facts.sites.class_of(forward.module.cls) if made is forward.place.node else None
    return final_relu(cls) if cls is not None else None
