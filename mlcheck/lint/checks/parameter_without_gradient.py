"""parameter-without-gradient: a module of the optimizer whose results reach the loss only past a cut."""

import ast
from collections.abc import Collection, Hashable, Iterator

from mlcheck.core.finding import Finding, first_of_each_line
from mlcheck.lint.facts import Facts, Forward
from mlcheck.lint.nodes import is_attribute, is_name, loads, walk
from mlcheck.lint.sites import Class, Function
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.layers.estimators import cut_whole
from mlcheck.lint.sites.layers.fresh_layers import is_layer, is_new_module, says_frozen
from mlcheck.lint.sites.layers.modules import is_module
from mlcheck.lint.sites.training.cut_layers import cut_behind, is_named
from mlcheck.lint.sites.training.detaching import CUTS
from mlcheck.lint.sites.training.quiet_methods import feeds_training
from mlcheck.lint.sites.training.under_no_grad import kept_from_gradients
from mlcheck.lint.values import Object

LOOKS_AT = "optimizer step"
_KEPT_STILL = (
    "requires_grad",
    "load",
    "pretrained",
    "frozen",
    "freeze",
    "teacher",
    "momentum",
    "copy",
    "random",
    "self.training",
)
_NOT_TRAINED = ("target", "teacher", "ema", "momentum", "frozen", "fixed", "old")


def check(facts: Facts) -> Iterator[Finding]:
    yield from first_of_each_line(_found(facts))


def _found(facts: Facts) -> Iterator[Finding]:
    yield from _inside_modules(facts)
    yield from _under_no_grad(facts)
    for name, given, call in kept_from_gradients(facts.sites):
        yield Finding(
            f"`self.{name}` runs without gradients, and the optimizer is given its parameters by name",
            call.location,
            help=f"take out the `no_grad`, or leave `{name}` out of the optimizer",
            related=(given.location,),
        )
    yield from _frozen(facts)
    for place, kept in cut_whole(facts.sites):
        yield Finding(
            f"The whole sum is detached, and without its gradient `{kept}` cancels out: nothing behind it learns",
            place.location,
            help=f"detach the difference alone: `{kept} + (... - {kept}).detach()`",
        )
    trained: set[Hashable] = set()
    for forward in facts.forwards:
        trained |= forward.touched if forward.trained and forward.grad.kind != "off" else set()
    for lost in facts.training.lost:
        forward = lost.forward
        if not forward.touched.isdisjoint(trained) or _is_meant(forward) or _calls_itself(forward):
            continue
        if not _runs_elsewhere(facts, forward) and not _is_asked_beside(facts, forward):
            off = forward.grad.kind == "off"
            why = "`{}` runs without gradients" if off else "No gradient passes the cut behind `{}`"
            yield Finding(
                f"{why.format(forward.name)}: the optimizer holds weights that never get one",
                lost.place.location,
                help=f"take out the {'`no_grad`' if off else 'cut'}, or leave `{forward.name}` out of the optimizer",
                related=(forward.place.location, lost.backward.location),
            )


def _runs_elsewhere(facts: Facts, forward: Forward) -> bool:
    """`steps = env.run(agent)`, `env.run(lambda x: act(x, policy))`: what comes back may hang on its weights, too."""
    file, node = facts.sites.at(forward.place.path), forward.place.node
    func: ast.AST | None = node.func if isinstance(node, ast.Call) else None
    while isinstance(func, ast.Attribute):
        func = func.value
    if file is None or not isinstance(func, ast.Name):
        return False
    for name in file.walk.calls:
        for call in file.calls(name):
            if not isinstance(call.node.func, ast.Attribute) or call.node in file.statements:
                continue
            given = [source(file, arg, call.context)[0] for arg in call.node.args]
            handed = any(is_name(arg, func.id) for arg in call.node.args)
            handed = handed or any(isinstance(each, ast.Lambda) and loads(each, func.id) for each in given)
            if handed and file.resolve(call.node.func, call.context) is None:
                return True
    return False


def _is_asked_beside(facts: Facts, forward: Forward) -> bool:
    """Whether another call of it in the same loop, which nothing cuts off, may reach the loss by ways that are unknown.

    `transition.record(value=critic(x))` and `history.build().value`: what was kept comes back, and nobody saw how.
    """
    cut = {lost.forward.place.spot for lost in facts.training.lost}
    return forward.grad.kind == "on" and any(
        other.place.spot not in cut
        and other.grad.kind == "on"
        and not other.unread
        and other.split not in ("val", "test")
        and not other.touched.isdisjoint(forward.touched)
        and not set(other.loops).isdisjoint(forward.loops)
        and not _is_detached(facts, other)
        for other in facts.forwards
    )


def _is_detached(facts: Facts, forward: Forward) -> bool:
    """`fake = generator(z).detach()`, or a name that is detached further on in the function."""
    file, node = facts.sites.at(forward.place.path), forward.place.node
    around = (
        [f for f in file.functions if f.node.lineno <= forward.place.location.line <= (f.node.end_lineno or 0)]
        if file
        else []
    )
    nodes = around[-1].nodes if around else walk(file.module.source.tree) if file is not None else []
    names = {
        t.id
        for n in nodes
        if isinstance(n, ast.Assign) and n.value is node
        for t in n.targets
        if isinstance(t, ast.Name)
    }
    cuts = [n.value for n in nodes if isinstance(n, ast.Attribute) and n.attr in ("detach", "detach_", "data")]
    return any(each is node or (isinstance(each, ast.Name) and each.id in names) for each in cuts)


def _calls_itself(forward: Forward) -> bool:
    """Whether a method of the module trains it by way of `self.forward(x)`, which is no call of the module."""
    cls = forward.module.cls if isinstance(forward.module, Object) else None
    return cls is not None and any("self.forward(" in ast.unparse(base.node) for base in cls.mro)


def _frozen(facts: Facts) -> Iterator[Finding]:
    """Optimizers that step, and hold nothing but frozen parameters."""
    stepped = {step.key for step in facts.steps}
    for held in facts.training.frozen_held:
        if held.optimizer.key in stepped and not held.optimizer.handed_on:
            yield Finding(
                "All parameters that this optimizer is given are frozen: its steps change nothing",
                held.optimizer.place.location,
                help="give it the parameters that are to be trained",
                related=(held.place.location,),
            )


def _inside_modules(facts: Facts) -> Iterator[Finding]:
    """Layers whose every call, all in one forward, ends in a cut."""
    for cls in facts.sites.classes:
        forward = cls.methods.get("forward")
        text = cls.text if forward is not None and "torch.nn.Module" in cls.libraries else ""
        if forward is None or not any(f".{name}" in text for name in (*CUTS, "data")) or says_frozen(text):
            continue
        for name, sets in cls.attributes.items():
            if len(sets) != 1 or any(word in name for word in _NOT_TRAINED):
                continue
            if not is_layer(sets[0][1].value) and not is_new_module(cls, sets[0][1]):
                continue
            if (lost := cut_behind(facts.sites, cls, name, sets=1)) is not None:
                method, cut = lost
                yield Finding(
                    f"The graph is cut behind `self.{name}`: its parameters never get a gradient",
                    method.place(cut).location,
                    help=f"take out the cut; or freeze `{name}` openly with `requires_grad_(False)`",
                    related=(forward.place(sets[0][1].target).location,),
                )


def _under_no_grad(facts: Facts) -> Iterator[Finding]:
    """New layers whose only call stands under `torch.no_grad()`, in a module whose parameters an optimizer holds."""
    trained = {cls for made in facts.training.optimizers.values() for cls in _classes(made.owners, facts)}
    for cls in facts.sites.classes:
        forward, text = cls.methods.get("forward"), cls.text
        if "no_grad" not in text or not is_module(cls) or any(word in text.lower() for word in _KEPT_STILL):
            continue
        yield from _under_decorator(facts, cls, forward if cls.node in trained else None)
        if forward is None or cls.node not in trained:
            continue
        called = [method for method in cls.methods.values() if f"self.{method.name}(" in forward.text]
        for method, block in ((each, node) for each in (forward, *called) for node in each.all(ast.With)):
            if ast.unparse(block.items[0].context_expr) != "torch.no_grad()":
                continue
            for name, sets in cls.attributes.items():
                found = [node for line in block.body for node in walk(line) if is_attribute(node, "self", name)]
                if (
                    len(sets) != 1
                    or not is_layer(sets[0][1].value)
                    or len(found) != 1
                    or not is_named(facts.sites, cls, name, 2)
                ):
                    continue
                if not any(word in name for word in _NOT_TRAINED):
                    yield Finding(
                        f"`self.{name}` runs without gradients: the optimizer holds weights that never get one",
                        method.place(found[0]).location,
                        help=f"take out the `no_grad`; or freeze `{name}` openly with `requires_grad_(False)`",
                        related=(method.place(block).location,),
                    )


def _under_decorator(facts: Facts, cls: Class, forward: Function | None) -> Iterator[Finding]:
    """`@torch.no_grad()` above a method that `forward` calls, or the training, and that alone calls new layers."""
    text = forward.text if forward is not None else ""
    for method in cls.methods.values():
        off = [one for one in method.node.decorator_list if ast.unparse(one) in ("torch.no_grad()", "torch.no_grad")]
        called = off and method is not forward and (f"self.{method.name}(" in text or feeds_training(method))
        if not called or any(word in method.name for word in _NOT_TRAINED):
            continue
        for name, sets in cls.attributes.items():
            found = [node for node in method.nodes if is_attribute(node, "self", name)]
            if (
                len(sets) == 1
                and is_layer(sets[0][1].value)
                and len(found) == 1
                and is_named(facts.sites, cls, name, 2)
            ):
                yield Finding(
                    f"`self.{name}` runs without gradients: the optimizer holds weights that never get one",
                    method.place(off[0]).location,
                    help=f"take off the `no_grad`; or freeze `{name}` openly with `requires_grad_(False)`",
                    related=(method.place(found[0]).location,),
                )
                break


def _classes(owners: Collection[Hashable], facts: Facts) -> Iterator[ast.AST]:
    """The classes of the modules with these identities."""
    for forward in facts.forwards:
        module = forward.module
        if isinstance(module, Object) and module.cls is not None and module.id in owners:
            yield from (base.node for base in module.cls.mro)


def _is_meant(forward: Forward) -> bool:
    """A module that was trained before, or that its name or mode says is not to be trained."""
    if forward.restored or "eval" in {mode.kind for mode in forward.modes}:
        return True
    return any(word in forward.name.lower() for word in _NOT_TRAINED)
