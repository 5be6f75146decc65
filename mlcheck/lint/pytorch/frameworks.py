"""Frameworks that own the loop: what they do for the user, so that nobody is blamed for leaving it to them."""

from __future__ import annotations

import ast

from mlcheck.lint.facts import GradMode
from mlcheck.lint.interpret import containers
from mlcheck.lint.interpret.frames import DeadPath
from mlcheck.lint.interpret.joins import sides
from mlcheck.lint.interpret.machine import Machine
from mlcheck.lint.program import ClassInfo
from mlcheck.lint.python import decorators
from mlcheck.lint.pytorch import gradients, modes, pretrained, scaling, schedulers
from mlcheck.lint.values import FALSE, NONE, TRUE, Args, Const, Function, Kwargs, Object, Symbol, Tuple, Value

DETERMINED = "determined.pytorch.PyTorchTrial"
CONTEXT = "determined.pytorch.PyTorchTrialContext"

_ENGINES = ("ignite.engine.Engine", "ignite.engine.engine.Engine")
OWNERS = ("LightningModule", "PyTorchTrial")

# Methods a framework calls: (training mode, gradient mode).
HOOKS = {
    "training_step": (True, "on"),
    "train_batch": (True, "on"),
    "validation_step": (False, "off"),
    "test_step": (False, "off"),
    "predict_step": (False, "off"),
    "evaluate_batch": (False, "off"),
    "evaluate_full_dataset": (False, "off"),
}


_JOINS = {
    "ignite.engine.create_supervised_trainer": (("model", 0), ("loss_fn", 2)),
    "fastai.learner.Learner": (("model", 1), ("loss_func", 2)),
    "fastai.vision.all.Learner": (("model", 1), ("loss_func", 2)),
    "poutyne.Model": (("network", 0), ("loss_function", 2)),
}
"""Functions and classes that train a model with a loss, with the places where both are given."""

_LEAVE_ALONE = frozenset(
    [
        *("clip_grad_norm_", "clip_grad_value_", "clip_gradients", "accumulate", "no_sync", "no_backward_sync"),
        *("print", "log", "log_dict", "save", "save_state", "save_model", "register_for_checkpointing"),
    ]
)
"""Methods of Accelerate and Fabric that are given the model, and leave its mode and its weights as they are."""


def _join(m: Machine, places: tuple[tuple[str, int], ...], args: Args, kwargs: Kwargs, node: ast.AST) -> None:
    """The loss meets what the model returns, as it will in training."""
    model, loss = (kwargs.get(name, args[at] if at < len(args) else NONE) for name, at in places)
    if isinstance(model, Object) and modes.is_module(model) and isinstance(loss, Object | Function):
        m.inside_module += 1
        try:
            output = m.call(model, [m.symbol("input", "train")], {}, node)
            m.call(loss, [output, m.symbol("target", "train")], {}, node)
        finally:
            m.inside_module -= 1


def owner_of(info: ClassInfo) -> str:
    """Which framework drives this class: lightning, determined, other, or "" for none."""
    for name in info.libraries:
        if name.endswith("LightningModule"):
            return "lightning"
        if name.startswith(DETERMINED):
            return "determined"
        if name.startswith(("transformers.", "fastai.", "composer.", "ignite.", "keras.")) and name.endswith("Trainer"):
            return "other"
    return ""


def keeps_modes(info: ClassInfo) -> bool:
    """Lightning, which trains modules in the modes that it finds since 2.2; `pytorch_lightning` may be older."""
    if owner_of(info) != "lightning":
        return False
    return not any("pytorch_lightning" in base.module.source.text for base in info.mro)


def method(m: Machine, owner: Object, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value | None:
    """A method that a framework gives to the user's object; None when it is not one."""
    first = args[0] if args else next(iter(kwargs.values()), NONE)
    if owner.type == CONTEXT or owner.type.startswith("determined."):
        return _determined(m, name, first, node)
    if owner.cls is not None and owner_of(owner.cls) == "lightning":
        return _lightning(m, owner, name, first, node)
    if owner.type in _ENGINES and name == "run" and owner.args:
        _run_engine(m, owner.args[0], first, node)
    if owner.type in ("accelerate.Accelerator", "lightning.fabric.Fabric", "lightning.Fabric"):
        return _accelerator(m, name, args, kwargs, first, node)
    return None


def _run_engine(m: Machine, step: Value, loader: Value, node: ast.AST) -> None:
    """`Engine(step).run(loader)`: two turns, unless what the engine does in between may clear gradients."""
    if not isinstance(step, Function) or step.info.node in m.visited:
        return
    between = (module.source.text for module in m.program.modules.values() if "ITERATION_" in module.source.text)
    turns = 1 if any("grad" in text for text in between) else 2
    for _ in range(turns):
        m.call(
            step, [m.symbol("engine"), Symbol(m.fresh(), "batch", containers.split_of_iterable(m, loader))], {}, node
        )


def fit(m: Machine, model: Value, node: ast.AST) -> None:
    """`Trainer(...).fit(model)`: the steps of this very model, with what it was made of."""
    if isinstance(model, Object) and model.cls is not None and owner_of(model.cls) == "lightning":
        mode, visited = m.grad, set(m.visited)
        run_hooks(m, model, node)
        m.store.set(("grad",), mode)
        m.visited.intersection_update(visited)  # strangers may call them in other ways
        modes.forget(m, model)


def _determined(m: Machine, name: str, first: Value, node: ast.AST) -> Value | None:
    if name in ("wrap_model", "wrap_optimizer", "wrap_lr_scheduler", "wrap_reducer", "to_device", "wrap_scaler"):
        return first
    if name == "backward":
        gradients.backward(m, node, first)
        return NONE
    if name == "step_optimizer":
        if gradients.is_optimizer(m, first):
            gradients.step(m, node, first, clears=True)
        return NONE
    return m.symbol()


def _lightning(m: Machine, owner: Object, name: str, first: Value, node: ast.AST) -> Value | None:
    if name == "manual_backward":
        gradients.backward(m, node, first)
        return NONE
    if name == "optimizers":
        found: Value | None = m.store.get(("optimizers of", owner.id))
        return found or m.symbol("optimizer")
    if name in ("toggle_optimizer", "untoggle_optimizer"):
        m.store.set(("toggled",), gradients.register(m, first) if name == "toggle_optimizer" else None)
        return NONE
    if name in ("log", "log_dict", "save_hyperparameters"):
        return NONE
    return None


def _accelerator(m: Machine, name: str, args: Args, kwargs: Kwargs, first: Value, node: ast.AST) -> Value | None:
    """Accelerate and Fabric: what is prepared keeps its identity; their optimizers decide themselves when to step."""
    if name in ("prepare", "setup", "setup_dataloaders", "prepare_model", "prepare_optimizer", "unwrap_model"):
        return first if len(args) == 1 else Tuple(tuple(args), "**" in kwargs)
    if name == "backward":
        gradients.backward(m, node, first)
        return NONE
    if name in ("clip_grad_norm_", "clip_grad_value_") and args:
        scaling.clip(m, node, name, first)
    return m.symbol() if name in _LEAVE_ALONE else None


def call(m: Machine, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value | None:
    """A library function that belongs to a framework, or makes a scheduler."""
    if name == "apex.amp.initialize":
        return _initialized(args, kwargs)
    if name in _JOINS:
        _join(m, _JOINS[name], args, kwargs, node)
    return schedulers.make(m, name, args, kwargs, node)


def _initialized(args: Args, kwargs: Kwargs) -> Value | None:
    """`amp.initialize(model, optimizer)` gives back both, patched in place; None where it is not told what it got."""
    if len(args) > 2 or "**" in kwargs or not (args or "models" in kwargs):
        return None
    models = args[0] if args else kwargs["models"]
    optimizers = args[1] if len(args) > 1 else kwargs.get("optimizers", NONE)
    return models if optimizers == NONE else Tuple((models, optimizers))


def run_hooks(m: Machine, made: Object, node: ast.AST) -> None:
    """Call the object's hooks as its framework does: two training steps, then evaluation."""
    assert made.cls is not None
    kind = owner_of(made.cls)
    if kind == "lightning":
        _configure(m, made, node)
    for name, (training, grad) in HOOKS.items():
        info = made.cls.find(name)
        if info is None:
            continue
        times = 2 if training else 1
        for _ in range(times):
            _set(m, made, training, grad, node)
            hook = Function(info, made.cls.scope, made)
            try:
                result = m.call(decorators.decorated(m, hook, info, made), _batch(m, name, info), {}, node)
            except DeadPath:
                break
            if training and kind == "lightning":
                _mark(m, result)


def _mark(m: Machine, result: Value) -> None:
    """Lightning runs backward on what training_step returns."""
    from mlcheck.lint.values import traces_of

    table = containers.table(m, result)
    values = list(table.items.values()) if table is not None else [result]
    gradients.asked(m, traces_of(*values))


def _batch(m: Machine, name: str, info: object) -> Args:
    split = "train" if name in ("training_step", "train_batch") else "val"
    return [Symbol(m.fresh(), "batch", split)]


def _set(m: Machine, made: Object, training: bool, grad: str, node: ast.AST) -> None:
    place = m.place(node)
    m.store.set(("grad",), GradMode(grad, place))
    if training and made.cls is not None and keeps_modes(made.cls) and any(pretrained.parts(m, made)):
        return
    value = TRUE if training else FALSE
    if modes.is_module(made):
        modes.set_mode(m, made, value, place)
    m.ready(made)
    for name in m.store.get(("attrs", made.id)) or ():
        for held in sides(m.store.get(("a", made.id, name))):
            if modes.is_module(held) or (isinstance(held, Symbol) and modes.known_as_module(m, held)):
                modes.set_mode(m, held, value, place)


def _configure(m: Machine, made: Object, node: ast.AST) -> None:
    """What `self.optimizers()` will return: the optimizers of configure_optimizers."""
    assert made.cls is not None
    info = made.cls.find("configure_optimizers")
    if info is None:
        return
    try:
        result = m.call(Function(info, made.cls.scope, made), [], {}, node)
    except DeadPath:
        return
    found = list(_optimizers(m, result))
    if len(found) == 1:
        m.store.set(("optimizers of", made.id), found[0])
    elif found:
        m.store.set(("optimizers of", made.id), Tuple(tuple(found)))


def _optimizers(m: Machine, value: Value) -> list[Value]:
    if isinstance(value, Object) and gradients.is_optimizer(m, value):
        return [value]
    contents = containers.contents(m, value)
    if contents is None:
        return []
    items = list(contents.items) if isinstance(contents, Tuple) else list(contents.items.values())
    return [found for item in items if not isinstance(item, Const) for found in _optimizers(m, item)]
