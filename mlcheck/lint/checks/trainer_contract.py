"""trainer-contract: a Trainer of Transformers is overridden in a way that it cannot train or evaluate with."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import walk
from mlcheck.lint.sites import OPEN, Class, Function, Sites
from mlcheck.lint.sites.guards import own_attribute
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.layers.modules import MODULE
from mlcheck.lint.sites.origins import Origin, origins, returns

LOOKS_AT = "Transformers trainer"
WORDS = ("compute_loss", "training_step", "Trainer")
_TRAINERS = ("transformers.Trainer", "transformers.Seq2SeqTrainer", "transformers.trainer.Trainer")
_BACKWARD = (".backward(", "super()", ".training_step(", "manual_backward(")
_CUTS = ("item", "detach", "tolist", "numpy")


def check(facts: Facts) -> Iterator[Finding]:
    files = facts.sites.mentioning(["compute_loss", "training_step"])
    trainers = [cls for file in files for cls in file.classes if cls.libraries & set(_TRAINERS)]
    facts.sites.seen[LOOKS_AT] = len(trainers)
    yield from _without_loss(facts.sites)
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


def _without_loss(sites: Sites) -> Iterator[Finding]:
    """`Trainer(model=Net(), ...)` of a module that takes no labels and returns the scores alone."""
    for call in sites.calls(*_TRAINERS):
        model = call.argument("model", 0)
        trains = call.argument("train_dataset") not in (None, OPEN) and "label_smoothing" not in call.file.text
        if model is None or model is OPEN or not trains or call.argument("compute_loss_func") is not None:
            continue
        for origin in origins(call.file, model, call.context):
            cls = origin.file.resolve(origin.node.func, origin.context) if isinstance(origin.node, ast.Call) else None
            forward = cls.methods.get("forward") if isinstance(cls, Class) and cls.libraries == {MODULE} else None
            if forward is None or forward.node.args.kwarg is not None or "loss" in ast.unparse(forward.node).lower():
                continue
            given = list(returns(forward))
            scores = bool(given) and all(_is_of_layer(node, forward) for node in given)
            if scores and not any("label" in name or "target" in name for name in forward.parameters):
                yield Finding(
                    "The Trainer takes the loss from what the model returns, and this returns its scores alone",
                    forward.place(given[0]).location,
                    help='take `labels`, and return `{"loss": loss, "logits": logits}`',
                    related=(call.place.location,),
                )


def _is_of_layer(node: ast.expr, forward: Function) -> bool:
    """`self.head(x)` of a linear layer, here or under a name."""
    made = source(forward.file, node, forward.inner)[0]
    name = own_attribute(made.func, forward) if isinstance(made, ast.Call) else ""
    sets = forward.cls.attribute(name) if name and forward.cls is not None else []
    return len(sets) == 1 and sets[0][0].file.called(sets[0][1].value, sets[0][1].context) == "torch.nn.Linear"


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
    made = [origin for node in given for origin in origins(function.file, node, function.inner)]
    if made and not reads and not refuses and all(map(_is_one_value, made)):
        yield Finding(
            "`compute_loss` never looks at `return_outputs`: training runs, and the first evaluation fails",
            function.place().location,
            help="`return (loss, outputs) if return_outputs else loss`",
        )


def _is_one_value(origin: Origin) -> bool:
    """A loss and nothing else, for certain."""
    node = origin.node
    if isinstance(node, ast.Name):
        return "loss" in node.id.lower()
    if isinstance(node, ast.Call):
        averaged = isinstance(node.func, ast.Attribute) and node.func.attr in ("mean", "sum")
        return averaged or origin.name.startswith("torch.nn.functional.")
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
    text = function.text
    if any(word in text for word in _BACKWARD) or not list(returns(function)):
        return
    own = [node for node in function.nodes if isinstance(node, ast.Call) and _is_own_method(node, function)]
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
