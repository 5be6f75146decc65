"""Methods of library objects: modules, optimizers, scalers, tensors, parameters, containers."""

from __future__ import annotations

import ast

from mlcheck.lint import (
    calls,
    containers,
    cuts,
    datasets,
    frameworks,
    gradients,
    graph,
    holding,
    keeping,
    modes,
    modules,
    precision,
    schedulers,
    shape_rules,
    snapshots,
)
from mlcheck.lint.machine import Machine
from mlcheck.lint.scaling import scale, unscale
from mlcheck.lint.values import (
    NONE,
    TRUE,
    Const,
    External,
    Function,
    Object,
    Params,
    Partial,
    Select,
    Symbol,
    Table,
    Tensor,
    Tuple,
    Value,
    owner_key,
    split_of,
    traces_of,
)

Args = list[Value]
Kwargs = dict[str, Value]

_SAME = frozenset(
    [
        "view",
        "reshape",
        "resize",
        "resize_",
        "ravel",
        "squeeze",
        "unsqueeze",
        "flatten",
        "permute",
        "transpose",
        "contiguous",
        "float",
        "double",
        "half",
        "bfloat16",
        "to",
        "cuda",
        "cpu",
        "type",
        "type_as",
        "t",
        "clone",
        "requires_grad_",
        "expand",
        "expand_as",
        "repeat",
        "view_as",
        "reshape_as",
        "unflatten",
        "movedim",
        "swapaxes",
        "index_select",
        "narrow",
        "masked_select",
        "retain_grad",
        "chunk",
        "split",
        "pin_memory",
        "clamp",
        "clamp_min",
        "clamp_",
        "clip",
        "mean",
    ]
)
_ACTIVATIONS = {
    "softmax": "softmax",
    "sigmoid": "sigmoid",
    "log_softmax": "log_softmax",
    "logsigmoid": "log_sigmoid",
    "sigmoid_": "sigmoid",
}
_DATA = frozenset(["item", "numpy", "tolist", "argmax", "argsort", "eq", "ne", "size", "dim", "numel"])
_LOG_OF = {"softmax": "log_softmax", "sigmoid": "log_sigmoid"}
_ITSELF = frozenset(
    ["to", "cuda", "cpu", "float", "half", "double", "bfloat16", "compile", "share_memory", "requires_grad_", "apply"]
)
_OF_MODULES = frozenset(["forward", "requires_grad_", "state_dict", "load_state_dict"])
_PARAMETERS = frozenset(["parameters", "named_parameters", "buffers", "trainable_parameters"])


def call(m: Machine, owner: Value, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """`owner.name(...)` for what is no method of the project's."""
    match owner:
        case Object():
            handled = frameworks.method(m, owner, name, args, kwargs, node)
            if handled is not None:
                return handled
            if modes.is_module(owner):
                return _module(m, owner, name, args, kwargs, node)
            if gradients.is_optimizer(m, owner):
                return _optimizer(m, owner, name, args, kwargs, node)
            if owner.type == snapshots.STATE and name in ("copy", "items", "values"):
                return snapshots.view(m, owner, name)
            if schedulers.is_scheduler(m, owner):
                return schedulers.call(m, owner, name, args, kwargs, node)
            if owner.type.endswith("GradScaler"):
                return _scaler(m, owner, name, args, kwargs, node)
            if containers.contents(m, owner) is not None:
                if name == "append" and args:
                    keeping.appended(m, owner, args[0], node)
                return _container(m, owner, name, args, kwargs)
        case Tensor() | Symbol():
            judge = tensor if isinstance(owner, Tensor) else _symbol
            result = judge(m, owner, name, args, kwargs, node)  # type: ignore[arg-type]
            return shape_rules.with_shape(result, shape_rules.of_method(m, owner, name, args, kwargs))
        case Params():
            return _params(m, owner, name, args, node)
        case Tuple() | Table():
            return _container(m, owner, name, args, kwargs)
        case Function() | Partial() | External():
            return m.symbol()
        case Const(value=str()):
            return m.symbol()
    values = [*args, *kwargs.values()]
    if isinstance(owner, Object) and not owner.type.startswith(("builtins.", "torch.", "torchvision.", "numpy.")):
        calls.havoc(m, values)
    traces = graph.joined(m, traces_of(*values), owner)
    result = Symbol(m.fresh(), "", split_of(*values) or _split(m, owner), traces)
    return datasets.scaled(owner, name, args, result) if isinstance(owner, Object) else result


def _split(m: Machine, owner: Value) -> str:
    return containers.split_of_iterable(m, owner)


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
            holding.freeze(m, modules.keys_of(owner), args[0] if args else TRUE, node)
            return owner
        case "forward" | "__call__":
            if isinstance(owner, Object):
                return modules.call_module(m, owner, args, kwargs, node)
            return modules.call_unknown(m, owner, args, kwargs, node)
        case "append" | "add_module" | "register_module" | "extend" | "insert":
            if isinstance(owner, Object):
                return _add_module(m, owner, name, args)
    precision.converted(m, key, name, args, kwargs, node)
    if name in _ITSELF:
        return owner
    if name in _PARAMETERS:
        return Params(frozenset([key]))
    if name in ("children", "modules", "named_modules", "named_children") or containers.contents(m, owner) is not None:
        return _container(m, owner, name, args, kwargs) if name in ("items", "values", "keys") else m.symbol()
    values = [*args, *kwargs.values()]
    return Symbol(m.fresh(), "", split_of(*values), traces_of(*values))


def _add_module(m: Machine, owner: Object, name: str, args: Args) -> Value:
    if name == "append" and args:
        containers.append(m, owner, args[0])
        modes.adopt(m, owner, args[0])
    elif name in ("add_module", "register_module") and len(args) == 2 and isinstance(args[0], Const):
        known = m.store.get(("attrs", owner.id)) or ()
        m.store.set(("attrs", owner.id), (*known, args[0].value))
        m.store.set(("a", owner.id, args[0].value), args[1])
        modes.adopt(m, owner, args[1])
        items = containers.contents(m, owner)
        if isinstance(items, Tuple):
            m.store.set(("items", owner.id), Tuple((*items.items, args[1]), items.open))
    return owner


def _optimizer(m: Machine, owner: Object | Symbol, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    if name == "zero_grad":
        gradients.zero(m, node, owner)
    elif name == "step":
        closure = args[0] if args else kwargs.get("closure")
        if closure is not None and not isinstance(closure, Const):
            calls.call(m, closure, [], {}, node)
        gradients.step(m, node, owner)
    elif name == "add_param_group":
        gradients.extended(m, owner)
        m.store.set(("owns", gradients.register(m, owner)), frozenset())
    return m.symbol()


def _scaler(m: Machine, owner: Value, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    first = args[0] if args else next(iter(kwargs.values()), NONE)
    if name == "scale":
        return scale(m, owner, first)
    if name == "unscale_":
        unscale(m)
    elif name == "step" and gradients.is_optimizer(m, first):
        gradients.step(m, node, first, scaler=True)
    elif name == "step" and isinstance(first, Select):
        calls.call_method(m, first, "step", [], {}, node)
    return m.symbol()


def tensor(m: Machine, owner: Tensor | Symbol, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """A method of a tensor, or of a value that may be one."""
    traces, split = traces_of(owner, *args), split_of(owner, *args)
    if name == "backward":
        gradients.backward(m, node, owner)
        return NONE
    if name in _DATA - {"item", "numpy", "tolist", "argmax", "argsort"}:
        return Symbol(m.fresh(), "", split)
    if name in ("argmax", "argmin"):
        return Symbol(m.fresh(), "", split, cuts.ended(m, owner.traces, node))
    if name in cuts.CUTTING:
        return cuts.cut(m, owner, split, node)
    if cuts.stays(m, owner, name):
        return owner
    if name in _ACTIVATIONS:
        return Tensor(_ACTIVATIONS[name], m.place(node), split, traces)
    if name in ("log", "log_") and isinstance(owner, Tensor) and owner.kind in _LOG_OF:
        return Tensor(_LOG_OF[owner.kind], m.place(node), split, traces)
    if name in ("add", "add_") and isinstance(owner, Tensor):
        return Tensor(owner.kind, owner.place, split, traces)
    if name in _SAME:
        if isinstance(owner, Tensor):
            keeps = name != "mean" or owner.kind in ("softmax", "sigmoid", "loss")
            keeps = keeps and not (owner.kind == "raw" and name.startswith(("clamp", "clip")))
            return Tensor(owner.kind if keeps else "other", owner.place, split, traces, owner.scaler)
        return Symbol(m.fresh(), owner.name, split, traces)
    if isinstance(owner, Tensor):
        kind = owner.kind if owner.kind in ("loss", "scaled") and name in ("sum", "div", "mul") else "other"
        return Tensor(kind, owner.place, split, traces)
    return Symbol(m.fresh(), "", split, traces)


def _symbol(m: Machine, owner: Symbol, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """A method of an unknown value: judged by what only one kind of thing has."""
    if gradients.is_optimizer(m, owner) and name in ("step", "zero_grad", "add_param_group", "state_dict"):
        return _optimizer(m, owner, name, args, kwargs, node)
    if name == "zero_grad":
        return _zero_unknown(m, owner, args, kwargs, node)
    if name in ("train", "eval") and not (name == "train" and len(args) + len(kwargs) > 1):
        if (name == "eval" and not args) or modes.known_as_module(m, owner) or _mode_argument(args):
            return _module(m, owner, name, args, kwargs, node)
    if name in _PARAMETERS:
        m.store.set(("owner", owner.key), True)
        return _module(m, owner, name, args, kwargs, node)
    if name == "backward" and args:
        gradients.backward(m, node, args[0])
        gradients.zero_anything(m, node)
        return NONE
    if name == "scale" and args and "scaler" in owner.name.lower():
        return scale(m, owner, args[0])
    if "scaler" in owner.name.lower() and name in ("unscale_", "step", "update"):
        return _scaler(m, owner, name, args, kwargs, node)
    if modes.known_as_module(m, owner) and (name in _ITSELF or name in _OF_MODULES):
        return _module(m, owner, name, args, kwargs, node)
    if name in ("to", "cuda", "cpu"):
        return owner
    if name in _SAME or name in _ACTIVATIONS or name in _DATA or name in ("backward", "detach", "log", "add"):
        return tensor(m, owner, name, args, kwargs, node)
    values = [*args, *kwargs.values()]
    calls.havoc(m, values)
    traces = traces_of(owner, *values)
    return Symbol(m.fresh(), "", split_of(owner, *values), graph.joined(m, traces, owner, *values))


def _mode_argument(args: Args) -> bool:
    return len(args) == 0 or (isinstance(args[0], Const) and isinstance(args[0].value, bool))


def _zero_unknown(m: Machine, owner: Symbol, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    if modes.known_as_module(m, owner):
        return _module(m, owner, "zero_grad", args, kwargs, node)
    gradients.zero(m, node, owner)
    return NONE


def _params(m: Machine, owner: Params, name: str, args: Args, node: ast.AST) -> Value:
    if owner.gradient and name in ("zero_", "fill_", "detach_"):
        if name != "detach_":
            gradients.zero_modules(m, node, owner.owners)
        return owner
    if owner.gradient:
        if name.endswith("_"):
            return owner
        return Params(owner.owners, owner.one, True) if name in ("data", "detach") else m.symbol()
    if name == "requires_grad_":
        modes.freeze(m, owner.owners, args[0] if args else TRUE)
        holding.freeze(m, owner.owners, args[0] if args else TRUE, node, owner.one)
    return owner if name in ("data", "detach", "to", "cuda", "__iter__", "copy") else m.symbol()


def _container(m: Machine, owner: Value, name: str, args: Args, kwargs: Kwargs) -> Value:
    found = containers.contents(m, owner)
    if isinstance(found, Table):
        return _table(m, owner, found, name, args)
    if isinstance(found, Tuple) and isinstance(owner, Object):
        if name == "append" and args:
            containers.append(m, owner, args[0])
            return NONE
        if name in ("extend", "insert", "add", "update") and args:
            extra = containers.contents(m, args[-1])
            more = extra.items if isinstance(extra, Tuple) else (args[-1],) if name in ("insert", "add") else ()
            open_ = found.open or not isinstance(extra, Tuple) or extra.open or m.repeats
            m.store.set(("items", owner.id), Tuple((*found.items, *more)[:16], open_ and name != "insert"))
            return NONE
        if name == "pop" and found.items:
            return containers.element(m, owner)
        if name == "copy":
            return containers.new_list(m, found)
    return m.symbol()


def _table(m: Machine, owner: Value, found: Table, name: str, args: Args) -> Value:
    if name in ("values", "items", "keys"):
        if found.open and not found.items:
            return m.symbol()
        pairs: list[Value] = []
        for key, value in found.items.items():
            label: Value = Const(key) if not isinstance(key, tuple) else m.symbol()
            pairs.append(value if name == "values" else label if name == "keys" else Tuple((label, value)))
        return Tuple(tuple(pairs), found.open)
    if name in ("get", "pop", "setdefault") and args:
        if isinstance(args[0], Const):
            if args[0].value in found.items:
                return found.items[args[0].value]
            if name == "setdefault" and len(args) > 1 and not found.open:
                containers.store_item(m, owner, args[0], args[1])
            return args[1] if len(args) > 1 and not found.open else m.symbol()
        return containers.item(m, owner, args[0], ast.Subscript(ast.Constant(None), ast.Constant(None), ast.Load()))
    if name == "update" and args and isinstance(owner, Object):
        extra = containers.table(m, args[0])
        merged = {**found.items, **(extra.items if extra else {})}
        m.store.set(("items", owner.id), Table(merged, found.open or extra is None or extra.open))
        return NONE
    return containers.new_dict(m, found) if name == "copy" else m.symbol()
