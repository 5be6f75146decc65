"""Methods of library objects: modules, optimizers, scalers, tensors, parameters, containers."""

from __future__ import annotations

import ast

from mlcheck.core.patterns import pattern
from mlcheck.lint.interpret import containers
from mlcheck.lint.interpret.certainty import always
from mlcheck.lint.interpret.machine import Machine
from mlcheck.lint.python import container_methods, elements
from mlcheck.lint.pytorch import (
    bystanders,
    datasets,
    distributions,
    frameworks,
    freezing,
    grad_modes,
    gradients,
    graph,
    heads,
    holding,
    keeping,
    modes,
    modules,
    optimizers,
    precision,
    scalers,
    schedulers,
    snapshots,
    tensor_methods,
)
from mlcheck.lint.shapes import recording, tables
from mlcheck.lint.shapes import rules as shape_rules
from mlcheck.lint.values import (
    FALSE,
    NONE,
    TRUE,
    Args,
    Const,
    External,
    Function,
    Kwargs,
    Object,
    Params,
    Partial,
    Symbol,
    Table,
    Tensor,
    Tuple,
    Value,
    live,
    owner_key,
    split_of,
    traces_of,
)

_ITSELF = frozenset(
    ["to", "cuda", "cpu", "float", "half", "double", "bfloat16", "compile", "share_memory", "requires_grad_", "apply"]
)
_OF_MODULES = frozenset(["forward", "requires_grad_", "state_dict", "load_state_dict"])
_SAME_PARAMETERS = frozenset(["data", "detach", "to", "cuda", "__iter__", "copy", "values", "items"])
_PARAMETERS = frozenset(["parameters", "named_parameters", "buffers", "trainable_parameters"])
_EXCHANGES = ("reset_", "set_", "add_", "resize_", "replace_", "unfreeze")
"""Methods of libraries' models that bring new parts, or set old ones free: `reset_classifier`, `set_submodule`."""
_CLEARS = pattern(r"(?:clear|zero|reset)_?grad")
_PARTS = frozenset(["children", "modules", "named_modules", "named_children"])


def call(m: Machine, owner: Value, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """`owner.name(...)` for what is no method of the project's."""
    if name == "fit":
        frameworks.fit(m, kwargs.get("model", args[0] if args else NONE), node)
    match owner:
        case Object():
            handled = frameworks.method(m, owner, name, args, kwargs, node)
            if handled is not None:
                return handled
            if modes.is_module(owner):
                return _module(m, owner, name, args, kwargs, node)
            if gradients.is_optimizer(m, owner):
                return optimizers.call(m, owner, name, args, kwargs, node)
            if owner.type in grad_modes.MANAGERS and name in ("__enter__", "__exit__"):
                return grad_modes.by_hand(m, owner, name, node)
            if owner.type == snapshots.STATE and name in ("copy", "items", "values"):
                return snapshots.view(m, owner, name)
            if schedulers.is_scheduler(m, owner):
                return schedulers.call(m, owner, name, args, kwargs, node)
            if distributions.is_distribution(owner):
                return distributions.asked(m, owner, name, args)
            if owner.type.endswith("GradScaler"):
                return scalers.method(m, owner, name, args, kwargs, node)
            if containers.contents(m, owner) is not None:
                if name in ("append", "appendleft", "insert", "extend") and args:
                    keeping.put_in(m, owner, args[-1], node)
                return container_methods.call(m, owner, name, args)
            if _CLEARS.search(name):
                gradients.zero_anything(m, node)  # of what a library made: whose they are is not known
        case Tensor() | Symbol():
            judge = tensor_methods.call if isinstance(owner, Tensor) else _symbol
            result = judge(m, owner, name, args, kwargs, node)  # type: ignore[arg-type]
            if name in ("softmax", "log_softmax"):
                recording.softmax(m, owner, args[0] if args else kwargs.get("dim"), m.place(node))
            return shape_rules.with_shape(result, shape_rules.of_method(m, owner, name, args, kwargs))
        case Params():
            return _params(m, owner, name, args, node)
        case Tuple() | Table():
            if name == "backward":  # of something in it: a test that nobody could follow has told which
                gradients.backward(m, node, m.symbol())
            return container_methods.call(m, owner, name, args)
        case Function() | Partial() | External():
            return m.symbol()
        case Const(value=str() as text):
            return Const(getattr(text, name)()) if name in ("lower", "upper") and not args else m.symbol()
    values = [*args, *kwargs.values()]
    if isinstance(owner, Object) and not bystanders.leaves_alone(owner, name):
        m.havoc(values)
    traces = graph.joined(m, traces_of(*values), owner)
    result = Symbol(m.fresh(), "", split_of(*values) or containers.split_of_iterable(m, owner), traces)
    return datasets.answered(m, owner, name, args, kwargs, result) if isinstance(owner, Object) else result


def _module(m: Machine, owner: Object | Symbol, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    key = owner_key(owner)
    match name:
        case "train":
            modes.set_mode(m, owner, args[0] if args else kwargs.get("mode", TRUE), m.place(node))
            return owner
        case "eval":
            modes.set_mode(m, owner, Const(False), m.place(node))
            return owner
        case "zero_grad":
            gradients.zero_modules(m, node, modules.keys_of(owner))
            return NONE
        case "load_state_dict":
            m.store.set(("restored", key), True)
            snapshots.load(m, owner, args[0] if args else None, node)
        case "state_dict":
            return snapshots.state_dict(m, owner, node)
        case "requires_grad_":
            modes.freeze(m, modules.keys_of(owner), args[0] if args else TRUE)
            freezing.freeze(m, modules.keys_of(owner), args[0] if args else TRUE, node)
            return owner
        case "forward" | "__call__":
            if isinstance(owner, Object):
                return modules.call_module(m, owner, args, kwargs, node)
            return modules.call_unknown(m, owner, args, kwargs, node)
        case "append" | "add_module" | "register_module" | "extend" | "insert":
            if isinstance(owner, Object):
                return _add_module(m, owner, name, args, node)
    precision.converted(m, key, name, args, kwargs, node)
    if name.startswith(_EXCHANGES):
        freezing.freed_unseen(m)
    if name in _ITSELF:
        return owner
    if name in _PARAMETERS:
        return Params(frozenset([key]))
    if name in _PARTS:
        m.store.set(("handed out", key), True)  # whoever gets the parameters of each part has those of the whole
    if name in _PARTS or containers.contents(m, owner) is not None:
        return container_methods.call(m, owner, name, args) if name in ("items", "values", "keys") else m.symbol()
    values = [*args, *kwargs.values()]
    return Symbol(m.fresh(), "", split_of(*values), traces_of(*values))


def _add_module(m: Machine, owner: Object, name: str, args: Args, node: ast.AST) -> Value:
    if name in ("append", "extend", "insert") and args:
        container_methods.call(m, owner, name, args)
        holding.put_among(m, owner, args[-1], node)
        modes.adopt(m, owner, args[-1])
    elif name in ("add_module", "register_module") and len(args) == 2:
        label = args[0].value if isinstance(args[0], Const) else f"?{m.fresh()}"  # `add_module(f"block{i}", ...)`
        known = m.store.get(("attrs", owner.id)) or ()
        m.store.set(("attrs", owner.id), (*known, label))
        m.store.set(("a", owner.id, label), args[1])
        modes.adopt(m, owner, args[1])
        containers.append(m, owner, args[1])
    return owner


def _symbol(m: Machine, owner: Symbol, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """A method of an unknown value: judged by what only one kind of thing has."""
    heads.added(m, owner, name)
    if name == "requires_grad_" and not owner.split and args[:1] != [FALSE]:
        freezing.freed_unseen(m)
    if name.startswith(_EXCHANGES) and modes.known_as_module(m, owner):
        freezing.freed_unseen(m)
    if (made := tables.method(m, owner, name, args, kwargs)) is not None:
        return made
    if gradients.is_optimizer(m, owner) and name in ("step", "zero_grad", "add_param_group", "state_dict"):
        return optimizers.call(m, owner, name, args, kwargs, node)
    if name == "zero_grad":
        return _zero_unknown(m, owner, args, kwargs, node)
    if _CLEARS.search(name):
        gradients.zero_anything(m, node)  # `opt.clear_grad()` of another framework
    if name in ("zero_", "fill_", "copy_") and _is_gradient(owner):
        gradients.zero_anything(m, node)
        return owner
    if name in ("train", "eval") and not (name == "train" and len(args) + len(kwargs) > 1):
        if (name == "eval" and not args) or modes.known_as_module(m, owner) or _mode_argument(args):
            return _module(m, owner, name, args, kwargs, node)
    if name in _PARAMETERS:
        m.store.set(("owner", owner.key), True)
        return _module(m, owner, name, args, kwargs, node)
    if name == "backward" and args and not live(traces_of(owner)):  # `accelerator.backward(loss)`
        gradients.backward(m, node, args[0])
        gradients.zero_anything(m, node)
        return NONE
    if name == "scale" and args and "scaler" in owner.name.lower():
        return scalers.method(m, owner, name, args[:1], kwargs, node)
    if "scaler" in owner.name.lower() and name in ("unscale_", "step", "update"):
        return scalers.method(m, owner, name, args, kwargs, node)
    if modes.known_as_module(m, owner) and (name in _ITSELF or name in _OF_MODULES):
        return _module(m, owner, name, args, kwargs, node)
    if name in ("to", "cuda", "cpu"):
        return owner
    if tensor_methods.is_for_tensors(m, owner, name):
        return tensor_methods.call(m, owner, name, args, kwargs, node)
    if name == "get" and args and not kwargs and (known := elements.entry(m, owner, args)) is not None:
        return known
    values = [*args, *kwargs.values()]
    m.havoc(values)
    traces = traces_of(owner, *values)
    return Symbol(m.fresh(), "", split_of(owner, *values), graph.joined(m, traces, owner, *values))


def _mode_argument(args: Args) -> bool:
    return len(args) == 0 or (isinstance(args[0], Const) and isinstance(args[0].value, bool))


def _zero_unknown(m: Machine, owner: Symbol, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    if modes.known_as_module(m, owner):
        return _module(m, owner, "zero_grad", args, kwargs, node)
    gradients.zero(m, node, owner)
    return NONE


def _is_gradient(value: Symbol) -> bool:
    """`p.grad` or `p.grad.data` of an unknown `p`."""
    key = value.key
    while isinstance(key, tuple) and len(key) == 3 and key[0] == "attr":
        if key[2] == "grad":
            return True
        key = key[1] if key[2] == "data" else None
    return False


def _params(m: Machine, owner: Params, name: str, args: Args, node: ast.AST) -> Value:
    if owner.gradient and name in ("zero_", "fill_", "detach_"):
        if name != "detach_":
            gradients.zero_modules(m, node, owner.owners, some=not always(m))
        return owner
    if owner.gradient:
        if name.endswith("_"):
            return owner
        return Params(owner.owners, owner.one, True) if name in ("data", "detach") else m.symbol()
    if name == "requires_grad_":
        modes.freeze(m, owner.owners, args[0] if args else TRUE)
        freezing.freeze(m, owner.owners, args[0] if args else TRUE, node, owner.one)
    if name == "to" and any(isinstance(arg, External) and arg.name.startswith("torch.") for arg in args):
        return m.symbol()  # a copy in another precision
    if name in ("extend", "append"):  # a list of parameters: what it holds from here on
        return containers.merged_params(m, [owner, *args]) or m.symbol()
    return owner if name in _SAME_PARAMETERS else m.symbol()
