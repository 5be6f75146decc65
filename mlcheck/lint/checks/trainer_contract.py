"""trainer-contract: a Trainer of Transformers is overridden in a way that it cannot train or evaluate with."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import walk
from mlcheck.lint.sites import Class, Function, Sites
from mlcheck.lint.sites.origins import returns

LOOKS_AT = "Transformers trainer"
WORDS = ("compute_loss", "training_step")
_TRAINERS = ("transformers.Trainer", "transformers.Seq2SeqTrainer", "transformers.trainer.Trainer")
_BACKWARD = (".backward(", "super()", ".training_step(", "manual_backward(")
_CUTS = ("item", "detach", "tolist", "numpy")


def check(facts: Facts) -> Iterator[Finding]:
    files = facts.sites.mentioning(["compute_loss", "training_step"])
    trainers = [cls for file in files for cls in file.classes if cls.libraries & set(_TRAINERS)]
    facts.sites.seen[LOOKS_AT] = len(trainers)
    for cls in trainers:
        if cls.libraries - set(_TRAINERS) - {"builtins.object", "typing.Generic"}:
            continue
        loss = cls.methods.get("compute_loss")
        if loss is not None and not loss.node.decorator_list:
            yield from _loss(loss)
            if _evaluates(facts.sites, cls):
                yield from _outputs(loss)
        step = cls.methods.get("training_step")
        if step is not None and not step.node.decorator_list:
            yield from _step(cls, step)


def _loss(function: Function) -> Iterator[Finding]:
    for node in returns(function):
        for answer in [node.body, node.orelse] if isinstance(node, ast.IfExp) else [node]:
            if _is_cut(answer):
                yield Finding(
                    "`compute_loss` returns a loss without its graph: there is nothing to run backward on",
                    function.place(answer).location,
                    help="return the loss itself",
                )


def _evaluates(sites: Sites, cls: Class) -> bool:
    """Whether the Trainer is made with data to evaluate on, and evaluates it in its own way."""
    if any(cls.find(name) for name in ("prediction_step", "evaluate", "evaluation_loop", "prediction_loop")):
        return False
    calls = [call for file in sites.mentioning([cls.name]) for call in file.calls(cls.name)]
    made = [call for call in calls if call.file.resolve(call.node.func, call.context) is cls]
    return any(call.constant("eval_dataset") is not None for call in made)


def _outputs(function: Function) -> Iterator[Finding]:
    """The evaluation unpacks a loss and the model's outputs."""
    body = [node for line in function.node.body for node in walk(line)]
    refuses = any(isinstance(node, ast.Raise) for node in function.node.body)
    reads = any(isinstance(node, ast.Name) and node.id in ("return_outputs", "kwargs") for node in body)
    given = list(returns(function))
    if given and not reads and not refuses and all(_is_one_value(node) for node in given):
        yield Finding(
            "`compute_loss` never looks at `return_outputs`: training runs, and the first evaluation fails",
            function.place().location,
            help="`return (loss, outputs) if return_outputs else loss`",
        )


def _is_one_value(node: ast.expr) -> bool:
    """A loss and nothing else, for certain."""
    if isinstance(node, ast.Name):
        return "loss" in node.id.lower()
    return isinstance(node, ast.BinOp) or (isinstance(node, ast.Attribute) and node.attr == "loss")


def _is_cut(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in _CUTS
        and not node.args
    )


def _step(cls: Class, function: Function) -> Iterator[Finding]:
    """A `training_step` has to run the backward pass itself; the Trainer only steps the optimizer."""
    text = cls.file.module.text_of(function.node)
    if any(word in text for word in _BACKWARD) or not list(returns(function)):
        return
    own = [node for node in walk(function.node) if isinstance(node, ast.Call) and _is_own_method(node, function)]
    if not own:
        yield Finding(
            "`training_step` runs no backward pass, and the Trainer leaves that to it: no weight changes",
            function.place().location,
            help="`self.accelerator.backward(loss)` before the loss is returned, or override `compute_loss` alone",
        )


def _is_own_method(node: ast.Call, function: Function) -> bool:
    """A call of another method, which may run it: those of the Trainer that do not are known."""
    func = node.func
    if (
        not isinstance(func, ast.Attribute)
        or not isinstance(func.value, ast.Name)
        or func.value.id != function.receiver
    ):
        return False
    return func.attr not in ("compute_loss", "_prepare_inputs", "log", "compute_loss_context_manager", "model")
