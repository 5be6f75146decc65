"""What functions and classes of torch return, as far as a rule can tell the difference."""

from __future__ import annotations

import ast

from mlcheck.lint.facts import GradMode
from mlcheck.lint.interpret import containers
from mlcheck.lint.interpret.machine import Machine
from mlcheck.lint.pytorch import (
    bounds,
    cuts,
    distributions,
    endings,
    grad_modes,
    gradients,
    graph,
    losses,
    modes,
    one_hot,
)
from mlcheck.lint.pytorch.library_names import ACTIVATIONS, ELEMENTWISE, SAME
from mlcheck.lint.pytorch.scaling import clip
from mlcheck.lint.values import (
    NONE,
    Args,
    Kwargs,
    Object,
    Symbol,
    Table,
    Tensor,
    Traces,
    Tuple,
    Value,
    split_of,
    traces_of,
)

_F = "torch.nn.functional."
_FACTORIES = frozenset(["zeros", "ones", "empty", "full", "rand", "randn", "randint"])
_SHAPED_ALIKE = frozenset(["torch.ones_like", "torch.zeros_like"])
"""What they are given tells the shape; no graph leads back to it."""


def made_object(m: Machine, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Object:
    made = Object(name, m.fresh(), None, tuple(args), kwargs, m.place(node))
    if modes.is_module(made):
        modes.born(m, made)
    if gradients.is_optimizer(m, made):
        gradients.register(m, made)
    if distributions.is_distribution(made):
        distributions.made(m, made)
    return made


def call(m: Machine, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    last = name.rpartition(".")[2]
    values = [*args, *kwargs.values()]
    split, traces = split_of(*values), graph.joined(m, traces_of(*values), *values)
    first = values[0] if values else NONE
    if name.startswith(("torch.nn.utils.clip_grad", "torch.nn.utils.clip_grads")):
        clip(m, node, name, first)
        return m.symbol()
    if losses.is_loss(name) and not last[:1].isupper():
        return losses.call(m, name, args, kwargs, node)
    if name == "torch._foreach_zero_":  # of gradients, nearly always
        gradients.zero_anything(m, node)
        return NONE
    if last == "kl_divergence":
        return distributions.divergence(m, args)
    if name == "torch.jit.trace" and isinstance(first, Object) and modes.is_module(first):
        return _traced(m, first, values[1:2], node)
    if name in ("torch.autograd.grad", "torch.autograd.backward"):
        return _gradients(m, name, first, node)
    if name == "torch.set_grad_enabled":
        made = made_object(m, name, args, kwargs, node)
        m.store.set(("grad",), grad_modes.of(m, made, node))
        return made
    if last.endswith("Tensor"):
        return _of_type(m, first, split, traces, node)
    if last[:1].isupper() or name in grad_modes.SWITCHES or last == "autocast":
        made = made_object(m, name, args, kwargs, node)
        if modes.is_module(made):
            _fill(m, made, args, kwargs, node)
            if last == "Sequential" and isinstance(node, ast.Call) and node.args:
                m.store.set(("tail", made.id), _last_layer(m, args, node.args[-1]))
        return made
    if name in _SHAPED_ALIKE:
        return Symbol(m.fresh(), "", split)
    if name == "torch.detach" and isinstance(first, Tensor | Symbol):
        return cuts.cut(m, first, split, node)
    known = cuts.copied(m, name, first, node) or one_hot.product_of(last, values)
    if known is not None:
        return known
    if name in ("torch.argmax", "torch.argmin"):
        return Symbol(m.fresh(), "", split, cuts.ended(m, traces, node))
    if last in ACTIVATIONS:
        return losses.activated(m, ACTIVATIONS[last], first, node, split, traces)
    kind = ELEMENTWISE.get((last.rstrip("_"), first.kind)) if isinstance(first, Tensor) else None
    if kind is not None:
        return Tensor(kind, m.place(node), split, traces)
    if last in ("add", "sub") and isinstance(first, Tensor) and first.kind == "loss":
        return Tensor("loss", first.place, split, traces)
    if last in SAME and isinstance(first, Tensor | Tuple | Object):
        kept = _kept(m, first, split, traces)
        if last in ("clamp", "clip") and isinstance(kept, Tensor) and kept.kind == "raw":
            return bounds.bounded(kept, args[1:], kwargs, m.place(node))
        return kept
    if name in (_F + "linear", "torch.addmm"):
        return Tensor("raw", m.place(node), split, traces)
    if name.startswith(_F):
        of = first if isinstance(first, Tensor) and endings.averages(last, first.kind) else None
        return Tensor(of.kind if of else "other", of.place if of else None, split, traces)
    made_up = name.removeprefix("torch.") in _FACTORIES
    return Symbol(("made up", m.fresh()) if made_up else m.fresh(), "", split, traces)


def _of_type(m: Machine, first: Value, split: str, traces: Traces, node: ast.AST) -> Value:
    """`torch.FloatTensor(x)`: a tensor stays in its graph, anything else is copied; of sizes, a tensor is made up."""
    if isinstance(first, Tensor) or (isinstance(first, Symbol) and first.traces):
        return first
    copied = cuts.copied(m, "torch.tensor", first, node)
    if copied is not None:
        return copied
    return Symbol(m.fresh() if isinstance(first, Symbol | Object) else ("made up", m.fresh()), "", split, traces)


def _kept(m: Machine, first: Value, split: str, traces: frozenset[object]) -> Value:
    """A function that rearranges its input, or joins several of one kind."""
    parts = containers.items(m, first) if not isinstance(first, Tensor) else [first]
    kinds = {part.kind if isinstance(part, Tensor) else "" for part in parts or ()}
    tensor = next((part for part in parts or () if isinstance(part, Tensor)), None)
    if isinstance(first, Object) and tensor is None:
        known = containers.contents(m, first)
        inner = [item for item in known.items if isinstance(item, Tensor)] if isinstance(known, Tuple) else []
        if inner and len({item.kind for item in inner}) == 1 and len(inner) == len(known.items if known else ()):
            return Tensor(inner[0].kind, inner[0].place, split, traces_of(*inner))
    found = traces_of(*(parts or ()))
    if tensor is not None and len(kinds) == 1:
        return Tensor(tensor.kind, tensor.place, split_of(*(parts or ())), found)
    return Symbol(m.fresh(), "", split, found)


def _fill(m: Machine, made: Object, args: Args, kwargs: Kwargs, node: ast.AST) -> None:
    """The contents of Sequential, ModuleList and ModuleDict, and the parts of a wrapper."""
    last = made.type.rpartition(".")[2]
    if last in ("Sequential", "ModuleList", "ModuleDict"):
        only = containers.contents(m, args[0]) if args else None
        if last == "Sequential" and not isinstance(only, Table):
            open_ = "**" in kwargs
            contents: Tuple | Table = Tuple((*args, *(_unpacked(m, args, node) if open_ else ())), open_)
        elif args and only is None:
            contents = Tuple((), True) if last == "ModuleList" else Table({}, True)
        else:
            contents = only if only is not None else Tuple(()) if last == "ModuleList" else Table({})
        m.store.set(("items", made.id), contents)
        m.store.set(("tail", made.id), containers.tail(m, args[0]) if args else None)
        modes.adopt(m, made, contents)
        _enlist(m, made, contents)


def _enlist(m: Machine, made: Object, contents: Tuple | Table) -> None:
    """What a list or dict of modules is given is a module, be it known or not, and goes by the mode of the whole."""
    for item in contents.items if isinstance(contents, Tuple) else contents.items.values():
        if isinstance(item, Symbol):
            m.store.set(("owner", item.key), True)
            m.store.set(("parents", item.key), (*(m.store.get(("parents", item.key)) or ()), made.id))


def _unpacked(m: Machine, args: Args, node: ast.AST) -> list[Value]:
    """What is known of the lists that `Sequential(*layers)` unpacks, beside the arguments, where there may be more."""
    starred = [arg.value for arg in node.args if isinstance(arg, ast.Starred)] if isinstance(node, ast.Call) else []
    named = [m.lookup(each.id) for each in starred if isinstance(each, ast.Name)]
    held = [containers.contents(m, each) for each in named if each is not None]
    return [item for each in held if isinstance(each, Tuple) for item in each.items if item not in args]


def _last_layer(m: Machine, args: Args, given: ast.expr) -> Value | None:
    """The last layer of `Sequential(*layers)`, where how many there are is not known."""
    if not isinstance(given, ast.Starred):
        return args[-1] if args else None
    return containers.tail(m, m.lookup(given.value.id)) if isinstance(given.value, ast.Name) else None


def _traced(m: Machine, module: Object, examples: Args, node: ast.AST) -> Value:
    """What one call computes is written down for good, in whatever mode it runs; nobody learns by it."""
    before = m.grad
    m.store.set(("grad",), GradMode("off"))
    m.call(module, examples, {}, node)
    m.store.set(("grad",), before)
    return module


def _gradients(m: Machine, name: str, first: Value, node: ast.AST) -> Value:
    if name == "torch.autograd.backward":
        items = containers.items(m, first)
        gradients.backward(m, node, first, tuple(items or ()))
        return NONE
    items = containers.items(m, first) or [first]
    gradients.asked(m, traces_of(*items))
    return m.symbol()
