"""parameter-without-gradient: a module of the optimizer whose results reach the loss only past a cut."""

import ast
import re
from collections.abc import Collection, Hashable, Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts, Forward
from mlcheck.lint.nodes import is_attribute, walk
from mlcheck.lint.sites import Class, Function
from mlcheck.lint.sites.estimators import cut_whole
from mlcheck.lint.sites.under_no_grad import kept_from_gradients
from mlcheck.lint.values import Object

LOOKS_AT = "optimizer step"
_CUTS = ("detach", "item", "numpy", "tolist")
_LAYERS = ("Linear", "Conv", "Sequential", "LSTM", "GRU", "RNN", "Embedding", "ModuleList")
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
        if forward.touched.isdisjoint(trained) and not _is_meant(forward) and not _calls_itself(forward):
            off = forward.grad.kind == "off"
            why = "`{}` runs without gradients" if off else "The graph is cut behind `{}`"
            yield Finding(
                f"{why.format(forward.name)}: the optimizer holds it, and it never gets one",
                lost.place.location,
                help=f"take out the {'`no_grad`' if off else 'cut'}, or leave `{forward.name}` out of the optimizer",
                related=(forward.place.location, lost.backward.location),
            )


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
        text = cls.file.module.text_of(cls.node) if forward is not None and "torch.nn.Module" in cls.libraries else ""
        if forward is None or not any(f".{name}" in text for name in (*_CUTS, "data")) or _is_frozen(text):
            continue
        for name, sets in cls.attributes.items():
            if len(sets) != 1 or any(word in name for word in _NOT_TRAINED) or not _is_layer(sets[0][1].value):
                continue
            found = [method for method in cls.methods.values() if f".{name}(" in cls.file.module.text_of(method.node)]
            if len(found) != 1:
                continue
            helpers = {f"self.{m.name}": (m, c) for m in cls.methods.values() if (c := _cuts_argument(m)) is not None}
            cutting = frozenset(helpers)
            made = _assignments(found[0].node, name)
            cuts = {statement: _is_cut(found[0].node, statement, cutting) for statement in made}
            if cuts and all(cuts.values()) and _mentions(facts, name) == len(cuts) + 1:
                statement = next(iter(cuts))
                at = cuts[statement]
                method, cut = helpers.get(ast.unparse(at.func) if isinstance(at, ast.Call) else "", (found[0], at))
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
        forward = cls.methods.get("forward")
        text = cls.file.module.text_of(cls.node) if forward is not None and cls.node in trained else ""
        if forward is None or "no_grad()" not in text or any(word in text.lower() for word in _KEPT_STILL):
            continue
        yield from _under_decorator(facts, cls, forward)
        for block in forward.nodes:
            if not isinstance(block, ast.With) or ast.unparse(block.items[0].context_expr) != "torch.no_grad()":
                continue
            for name, sets in cls.attributes.items():
                found = [node for line in block.body for node in walk(line) if is_attribute(node, "self", name)]
                if len(sets) != 1 or not _is_layer(sets[0][1].value) or len(found) != 1 or _mentions(facts, name) != 2:
                    continue
                if not any(word in name for word in _NOT_TRAINED):
                    yield Finding(
                        f"`self.{name}` runs without gradients: the optimizer holds it, and it never gets one",
                        forward.place(found[0]).location,
                        help=f"take out the `no_grad`; or freeze `{name}` openly with `requires_grad_(False)`",
                        related=(forward.place(block).location,),
                    )


def _under_decorator(facts: Facts, cls: Class, forward: Function) -> Iterator[Finding]:
    """`@torch.no_grad()` above a method that `forward` calls, and that alone calls new layers of the module."""
    text = forward.file.module.text_of(forward.node)
    for method in cls.methods.values():
        off = [one for one in method.node.decorator_list if ast.unparse(one) in ("torch.no_grad()", "torch.no_grad")]
        if not off or f"self.{method.name}(" not in text or method is forward:
            continue
        for name, sets in cls.attributes.items():
            found = [node for node in method.nodes if is_attribute(node, "self", name)]
            if len(sets) == 1 and _is_layer(sets[0][1].value) and len(found) == 1 and _mentions(facts, name) == 2:
                yield Finding(
                    f"`self.{name}` runs without gradients: the optimizer holds it, and it never gets one",
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


def _is_frozen(text: str) -> bool:
    return any(word in text for word in ("requires_grad", "no_grad", "load", "pretrained"))


def _is_layer(value: ast.expr | None) -> bool:
    if not isinstance(value, ast.Call):
        return False
    name = ast.unparse(value.func)
    return name.rpartition(".")[2].startswith(_LAYERS) and name.startswith(("nn.", "torch.nn."))


def _assignments(function: ast.AST, name: str) -> Iterator[ast.Assign | ast.Return]:
    """Statements of the function that call `self.name`."""
    for node in walk(function):
        if isinstance(node, ast.Assign | ast.Return) and f"self.{name}(" in ast.unparse(node):
            yield node


def _cuts_argument(method: Function) -> ast.AST | None:
    """The cut in `def compress(self, h): return torch.from_numpy(np.log1p(h.detach().numpy()))`, and nothing else."""
    names = list(method.parameters)
    if len(names) != 2 or method.name in ("forward", "__init__") or method.node.decorator_list:
        return None
    around = {child: node for node in method.nodes for child in ast.iter_child_nodes(node)}
    reads = [node for node in around if isinstance(node, ast.Name) and node.id == names[1]]
    cuts = [_cut_around(node, around, frozenset()) if isinstance(node.ctx, ast.Load) else None for node in reads]
    return next((cut for cut in cuts if isinstance(cut, ast.AST)), None) if None not in cuts else None


def _is_cut(
    function: ast.FunctionDef | ast.AsyncFunctionDef, statement: ast.Assign | ast.Return, cutting: frozenset[str]
) -> ast.AST | None:
    """Where what the statement computes is cut off: at its end, or wherever its name is read."""
    if statement.value is not None and _ends_in_a_cut(statement.value):
        return statement.value
    if not isinstance(statement, ast.Assign) or statement not in function.body or len(statement.targets) != 1:
        return None
    target = statement.targets[0]
    names = target.elts if isinstance(target, ast.Tuple) else [target]
    first = None
    for name in names:
        reads = _reads_after(function, statement, name.id, cutting) if isinstance(name, ast.Name) else None
        if reads is None:
            return None
        first = first or next(iter(reads), None)
    return first


def _reads_after(
    function: ast.FunctionDef | ast.AsyncFunctionDef, after: ast.stmt, name: str, cutting: frozenset[str]
) -> list[ast.AST] | None:
    """The cuts that all further uses of a variable lie in; None where one of them lies in none."""
    found: list[ast.AST] = []
    for statement in function.body[function.body.index(after) + 1 :]:
        around = {child: node for node in walk(statement) for child in ast.iter_child_nodes(node)}
        mentions = [node for node in around if isinstance(node, ast.Name) and node.id == name]
        for node in mentions:
            cut = _cut_around(node, around, cutting) if isinstance(node.ctx, ast.Load) else "asked"
            if cut is None:
                return None
            if isinstance(cut, ast.AST):
                found.append(cut)
        if any(isinstance(node.ctx, ast.Store) for node in mentions):
            return found if isinstance(statement, ast.Assign) else None
    return found


def _cut_around(node: ast.AST, around: dict[ast.AST, ast.AST], cutting: frozenset[str]) -> ast.AST | str | None:
    """The expression that cuts off what `node` is part of; "asked" where only its shape or device is asked for."""
    while isinstance(parent := around.get(node), ast.expr):
        if isinstance(parent, ast.Attribute) and parent.attr in (*_CUTS, "data"):
            return parent
        if isinstance(parent, ast.Attribute) and parent.attr in ("shape", "device", "dtype", "ndim", "size"):
            return "asked"
        if isinstance(parent, ast.Call) and node in parent.args and ast.unparse(parent.func) in cutting:
            return parent
        node = parent
    return None


def _ends_in_a_cut(value: ast.expr | None) -> bool:
    """`....detach()` around the whole expression."""
    if isinstance(value, ast.Attribute) and value.attr == "data":
        return True
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        if value.func.attr in _CUTS:
            return True
        value = value.func.value
    return False


def _mentions(facts: Facts, name: str) -> int:
    """How often any file speaks of an attribute of that name."""
    word = re.compile(rf"\.{re.escape(name)}\b")
    return sum(len(word.findall(file.text)) for file in facts.sites.files.values())


def _is_meant(forward: Forward) -> bool:
    """A module that was trained before, or that its name or mode says is not to be trained."""
    if forward.restored or "eval" in {mode.kind for mode in forward.modes}:
        return True
    return any(word in forward.name.lower() for word in _NOT_TRAINED)
