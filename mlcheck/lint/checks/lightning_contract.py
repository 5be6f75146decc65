"""lightning-contract: a training_step that Lightning cannot train with."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts, Place
from mlcheck.lint.nodes import is_attribute, is_name, loads, walk
from mlcheck.lint.sites import Class, Function, Sites
from mlcheck.lint.sites.layers.modules import text_of
from mlcheck.lint.sites.origins import origins, returns
from mlcheck.lint.sites.training.lightning import answers, is_of_early_lightning
from mlcheck.lint.sites.training.lightning_schedules import is_lightning, is_plain_lightning, switched_off
from mlcheck.lint.sites.training.refusals import refused

LOOKS_AT = "Lightning module"
WORDS = ("LightningModule", "Fabric", "EarlyStopping", "ModelCheckpoint")
_LOG_MANY = ("log_dict", "callback_metrics", "logged_metrics", "import_module(", "setattr(")
_WATCHERS = tuple(
    f"{package}.callbacks.{name}"
    for package in ("lightning.pytorch", "pytorch_lightning")
    for name in ("ModelCheckpoint", "EarlyStopping")
)
_TOLD = pattern(r"(?<!\.)\bautomatic_optimization['\"]?\s*[=:]\s*False")
_STEPS = (".step(", ".optimizers(", "toggle_optimizer", "super().tr")
_CUTS = ("item", "detach", "cpu_item", "tolist", "numpy")


def check(facts: Facts) -> Iterator[Finding]:
    yield from _past_fabric(facts)
    modules = [cls for cls in facts.sites.classes if is_lightning(cls)]
    facts.sites.seen[LOOKS_AT] = len(modules)
    yield from _monitored(facts.sites, modules)
    yield from refused(facts.sites, modules)
    # The Trainers of Lightning before 1.2 were told so themselves: `Trainer(automatic_optimization=False)`.
    told = any(_TOLD.search(file.text) for file in facts.sites.mentioning(["automatic_optimization"]))
    for cls in modules:
        yield from _no_optimizer(cls)
        yield from _closure_left_out(cls)
        step = cls.methods.get("training_step")
        if step is None or "?" in cls.libraries:
            continue
        if "automatic_optimization" in text_of(cls):
            yield from _unstepped(cls, step)
            continue
        if not told:
            yield from _by_hand(cls, step)
            yield from _returned(cls, step)


def _monitored(sites: Sites, modules: list[Class]) -> Iterator[Finding]:
    """A scheduler or callback that watches a metric which nobody logs."""
    logged = _logged(sites, modules)
    for place, metric in _watched(sites, modules) if logged else ():
        if isinstance(metric, str) and metric.partition("/dataloader_idx_")[0] not in logged:
            yield Finding(
                f"`{metric}` is watched, and nothing logs it: Lightning stops at the end of the first epoch",
                place.location,
                help=f'`self.log("{metric}", ...)`, or watch what is logged',
            )


def _watched(sites: Sites, modules: list[Class]) -> Iterator[tuple[Place, object]]:
    for call in sites.calls(*_WATCHERS):
        if call.constant("strict", None, True) is True:
            yield call.place, call.constant("monitor", 0 if call.name.endswith("EarlyStopping") else 2)
    for cls in modules:
        configure = cls.methods.get("configure_optimizers")
        for node in configure.nodes if configure is not None else ():
            if configure is None or not isinstance(node, ast.Dict):
                continue
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and key.value == "monitor":
                    yield configure.place(value), cls.file.constant(value, configure.inner)


def _logged(sites: Sites, modules: list[Class]) -> frozenset[str]:
    """The names of all metrics that are logged; none where one is not written out, or others may log."""
    found = {"epoch", "step"}
    trained = [cls for cls in sites.classes if "training_step" in cls.methods]
    if not all(map(is_plain_lightning, (*modules, *trained))) or any(sites.mentioning([*_LOG_MANY])):
        return frozenset()
    for file in sites.mentioning([".log("]):
        for call in file.calls("log"):
            if not isinstance(call.node.func, ast.Attribute) or len(call.node.args) + len(call.node.keywords) < 2:
                continue
            name = call.constant("name", 0)
            if not isinstance(name, str):
                return frozenset()
            found |= {name, f"{name}_step", f"{name}_epoch"}
    return frozenset(found) if len(found) > 2 else frozenset()


def _past_fabric(facts: Facts) -> Iterator[Finding]:
    """`loss.backward()` in a program whose model and optimizer a Fabric has set up, and that never asks the Fabric."""
    made = list(facts.sites.calls("lightning.fabric.Fabric", "lightning.Fabric", "lightning_fabric.Fabric"))
    set_up = [call for call in made for other in call.file.calls("setup") if len(other.node.args) > 1]
    if not set_up:
        return
    backward = [call for file in facts.sites.mentioning(["backward("]) for call in file.calls("backward")]
    if any(call.node.args and "autograd" not in ast.unparse(call.node.func) for call in backward):
        return
    for call in backward:
        if isinstance(call.node.func, ast.Attribute) and call.loops and not call.node.keywords:
            yield Finding(
                "`backward` bypasses Fabric: the loss is not scaled, and the strategy is not applied",
                call.place.location,
                help=f"`fabric.backward({ast.unparse(call.node.func.value)})`",
                related=(set_up[0].place.location,),
            )


def _unstepped(cls: Class, step: Function) -> Iterator[Finding]:
    """Automatic optimization is off for certain, and no method of the class, nor what it calls, steps anything."""
    text = text_of(cls)
    switched = switched_off(cls) if is_plain_lightning(cls) else None
    if switched is not None and not any(word in text for word in _STEPS):
        if not any(isinstance(node, ast.Call) and _is_of_project(cls, node, step) for node in walk(step.node)):
            yield Finding(
                "Automatic optimization is off, and nothing here steps an optimizer: no weight changes",
                step.place().location,
                help="`optimizer = self.optimizers()`, `optimizer.zero_grad()`, `self.manual_backward(loss)`, "
                "`optimizer.step()`; or leave `automatic_optimization` on",
                related=(cls.file.place(switched.node, switched.context).location,),
            )


def _is_of_project(cls: Class, node: ast.Call, step: Function) -> bool:
    """A call of a project function outside of the class, which may do the step."""
    named = cls.file.resolve(node.func, step.inner)
    return isinstance(named, Function) and named.cls not in cls.line


def _closure_left_out(cls: Class) -> Iterator[Finding]:
    """`optimizer_step` that steps without the closure, in which Lightning runs `training_step` and backward.

    Before it did so, it handed over a `second_order_closure`, which most optimizers do not need.
    """
    hook = cls.methods.get("optimizer_step")
    names = list(hook.parameters) if hook is not None else []
    if hook is None or len(names) < 5 or "automatic_optimization" in text_of(cls) or is_of_early_lightning(cls):
        return
    closure = next((name for name in names[4:] if "closure" in name), names[4])
    if hook.node.args.vararg or hook.node.args.kwarg or any(loads(line, closure) for line in hook.node.body):
        return
    for node in hook.nodes:
        if isinstance(node, ast.Call) and is_attribute(node.func, names[3], "step") and not node.args:
            if not node.keywords:
                yield Finding(
                    "The optimizer is stepped without its closure, which is what runs `training_step` and backward: "
                    "nothing is trained",
                    hook.place(node).location,
                    help=f"`{names[3]}.step(closure={closure})`",
                )


def _by_hand(cls: Class, step: Function) -> Iterator[Finding]:
    for call in cls.file.calls("backward", "manual_backward"):
        func = call.node.func
        own = isinstance(func, ast.Attribute) and (func.attr == "manual_backward" or not call.node.args)
        if call.function is step and own:
            yield Finding(
                "`training_step` runs backward itself, and Lightning does so again with what it returns",
                call.place.location,
                help="return the loss and leave the rest to Lightning, or set `self.automatic_optimization = False`",
            )


def _returned(cls: Class, step: Function) -> Iterator[Finding]:
    """A loss cut off from its graph, or none at all."""
    given = list(returns(step))
    for where, node in (each for answer in given for each in answers(step, answer)):
        loss = _loss_of(node)
        made = origins(where.file, loss, where.inner) if loss is not None else []
        if made and all(_is_cut(origin.node) for origin in made):
            yield Finding(
                "`training_step` returns a loss without its graph: there is nothing to run backward on",
                made[0].file.place(made[0].node, made[0].context).location,
                help="return the loss itself; log a detached one with `self.log`",
            )
        elif isinstance(node, ast.Dict) and node.keys and _lacks_loss(cls, node):
            yield Finding(
                '`training_step` returns a dictionary without the key "loss", which is what Lightning trains on',
                where.place(node).location,
                help='return the loss, or `{"loss": loss, ...}`',
            )
    if not given and _has_work(step):
        yield Finding(
            "`training_step` returns nothing: Lightning silently skips every step",
            step.place().location,
            help="return the loss",
        )


def _no_optimizer(cls: Class) -> Iterator[Finding]:
    """`configure_optimizers` that makes an optimizer and returns nothing."""
    configure = cls.methods.get("configure_optimizers")
    if configure is None or list(returns(configure)):
        return
    made = [node for node in configure.nodes if isinstance(node, ast.Call)]
    names = [configure.file.resolve(node.func, configure.inner) for node in made]
    last = configure.node.body[-1]
    yields = any(isinstance(node, ast.Raise | ast.Yield | ast.YieldFrom) for node in configure.nodes)
    if not yields and any(isinstance(name, str) and name.startswith("torch.optim.") for name in names):
        yield Finding(
            "`configure_optimizers` returns nothing: Lightning trains without an optimizer, and no weight changes",
            configure.place(last if isinstance(last, ast.Expr) else None).location,
            help="return the optimizer",
        )


def _loss_of(node: ast.expr) -> ast.expr | None:
    """The loss in `loss` and in `{"loss": loss, ...}`."""
    if isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant) and key.value == "loss":
                return value
        return None
    return node


def _lacks_loss(cls: Class, node: ast.Dict) -> bool:
    if any(cls.find(hook) for hook in ("training_step_end", "backward", "optimizer_step")):
        return False
    return all(isinstance(key, ast.Constant) and key.value != "loss" for key in node.keys)


def _is_cut(node: ast.expr) -> bool:
    if not isinstance(node, ast.Call):
        return False
    if isinstance(node.func, ast.Attribute):
        return node.func.attr in _CUTS and not node.args
    return is_name(node.func, "float")


def _has_work(step: Function) -> bool:
    """Whether the body computes a loss: it is neither empty nor a refusal nor a generator."""
    body = step.node.body
    names = {node.id for line in body for node in walk(line) if isinstance(node, ast.Name)}
    names |= {"loss" for line in body if _drops_loss(line, step)}
    ends = any(isinstance(node, ast.Raise | ast.Yield | ast.YieldFrom) for line in body for node in walk(line))
    return not ends and any("loss" in name for name in names) and not step.node.decorator_list


def _drops_loss(line: ast.stmt, step: Function) -> bool:
    """`self._shared_step(batch, "train")` as a statement, where that method returns a loss."""
    call = line.value if isinstance(line, ast.Expr) else None
    method = step.file.resolve(call.func, step.inner) if isinstance(call, ast.Call) else None
    return isinstance(method, Function) and any("loss" in ast.unparse(each) for each in returns(method))
