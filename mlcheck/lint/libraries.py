"""What functions and classes of libraries return, as far as a rule can tell the difference."""

from __future__ import annotations

import ast
from collections.abc import Callable

from mlcheck.lint import calls, containers, contexts, frameworks, gradients, losses, modes
from mlcheck.lint.facts import GradMode, Place
from mlcheck.lint.machine import DeadPath, Machine
from mlcheck.lint.values import (
    NONE,
    Class,
    Const,
    External,
    Function,
    Object,
    Params,
    Partial,
    Super,
    Symbol,
    Table,
    Tensor,
    Tuple,
    Value,
    split_of,
    traces_of,
)

Args = list[Value]
Kwargs = dict[str, Value]

_F = "torch.nn.functional."
_ACTIVATIONS = {
    "softmax": "softmax",
    "sigmoid": "sigmoid",
    "log_softmax": "log_softmax",
    "logsigmoid": "log_sigmoid",
    "expit": "sigmoid",
}
_WRAPPERS = frozenset(
    [
        "torch.nn.DataParallel",
        "torch.nn.parallel.DistributedDataParallel",
        "torch.compile",
        "torch.nn.SyncBatchNorm.convert_sync_batchnorm",
        "torch.distributed.fsdp.FullyShardedDataParallel",
        "torch.nn.parallel.DataParallel",
        "builtins.iter",
        "builtins.list",
        "builtins.tuple",
        "builtins.sorted",
        "builtins.reversed",
        "builtins.set",
        "tqdm.tqdm",
        "tqdm.auto.tqdm",
        "tqdm.notebook.tqdm",
        "tqdm.trange",
        "rich.progress.track",
        "itertools.cycle",
        "itertools.islice",
        "typing.cast",
        "copy.copy",
        "torch.autograd.Variable",
        "torch.utils.data.distributed.DistributedSampler",
    ]
)
_SAME = frozenset(
    [
        "squeeze",
        "unsqueeze",
        "flatten",
        "permute",
        "transpose",
        "reshape",
        "movedim",
        "swapaxes",
        "clamp",
        "clip",
        "clone",
        "t",
        "cat",
        "stack",
        "concat",
        "hstack",
        "vstack",
        "chunk",
        "split",
        "index_select",
        "masked_select",
        "mean",
        "nan_to_num",
        "dropout",
    ]
)
_SAFE = frozenset(
    [
        "builtins",
        "torch",
        "torchvision",
        "torchaudio",
        "torchtext",
        "torchmetrics",
        "numpy",
        "scipy",
        "sklearn",
        "pandas",
        "matplotlib",
        "PIL",
        "cv2",
        "os",
        "sys",
        "math",
        "time",
        "json",
        "logging",
        "tqdm",
        "wandb",
        "mlflow",
        "copy",
        "random",
        "torchinfo",
        "torchsummary",
        "tensorboard",
        "tensorboardX",
        "rich",
        "yaml",
        "pathlib",
        "collections",
        "itertools",
        "functools",
        "re",
        "argparse",
        "tempfile",
        "pickle",
        "timm",
        "einops",
        "datetime",
        "shutil",
        "typing",
        "warnings",
        "glob",
        "contextlib",
        "dataclasses",
        "abc",
        "string",
        "types",
        "enum",
        "io",
        "gc",
        "csv",
        "statistics",
        "hashlib",
        "platform",
        "psutil",
        "thop",
        "ptflops",
        "seaborn",
        "torch_geometric",
        "dgl",
        "transformers",
        "tokenizers",
        "datasets",
        "nltk",
        "spacy",
        "albumentations",
        "h5py",
        "librosa",
        "soundfile",
    ]
)
_EXITS = frozenset(["sys.exit", "os._exit", "builtins.exit", "builtins.quit", "os.abort"])


def call(m: Machine, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """A call of the library function or class of that canonical name."""
    if name in _EXITS:
        raise DeadPath
    values = [*args, *kwargs.values()]
    handled = frameworks.call(m, name, args, kwargs, node)
    if handled is not None:
        return handled
    if name in _HANDLERS:
        return _HANDLERS[name](m, args, kwargs, node)
    if name in _WRAPPERS or name.endswith((".tqdm", ".DataParallel", ".DistributedDataParallel")):
        return _passed_through(m, name, args, kwargs)
    if name.startswith("torch."):
        return _torch(m, name, args, kwargs, node)
    last = name.rpartition(".")[2]
    if (name.startswith("torchvision.models.") and not last[:1].isupper() and last[:4] != "get_") or last == "resnet":
        return _made(m, name, args, kwargs, node)
    if losses.is_loss(name):
        return losses.call(m, name, args, kwargs, node)
    if last[:1].isupper():
        if name.partition(".")[0] not in _SAFE:
            calls.havoc(m, values)
        return _made(m, name, args, kwargs, node)
    if last in _ACTIVATIONS and name.partition(".")[0] == "scipy":
        return Tensor(_ACTIVATIONS[last], m.place(node), split_of(*values), traces_of(*values))
    if name.partition(".")[0] not in _SAFE:
        calls.havoc(m, values)
    if name in ("builtins.len", "builtins.isinstance", "builtins.hasattr", "builtins.callable", "builtins.type"):
        return _asked(m, name, args)
    return Symbol(m.fresh(), "", split_of(*values), traces_of(*values))


def _made(m: Machine, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Object:
    made = Object(name, m.fresh(), None, tuple(args), kwargs, m.place(node))
    if modes.is_module(made):
        modes.born(m, made)
    if gradients.is_optimizer(m, made):
        gradients.register(m, made)
    return made


def _torch(m: Machine, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    last = name.rpartition(".")[2]
    values = [*args, *kwargs.values()]
    split, traces = split_of(*values), traces_of(*values)
    first = values[0] if values else NONE
    if name.startswith(("torch.nn.utils.clip_grad", "torch.nn.utils.clip_grads")):
        gradients.clip(m, node, name)
        return m.symbol()
    if losses.is_loss(name) and not last[:1].isupper():
        return losses.call(m, name, args, kwargs, node)
    if name in ("torch.autograd.grad", "torch.autograd.backward"):
        return _gradients(m, name, first, node)
    if name == "torch.set_grad_enabled":
        made = _made(m, name, args, kwargs, node)
        m.store.set(("grad",), contexts.grad_mode(m, made, node))
        return made
    if last[:1].isupper() or name in contexts.GRAD_MODES:
        made = _made(m, name, args, kwargs, node)
        if modes.is_module(made):
            _fill(m, made, args, kwargs)
        return made
    if last in _ACTIVATIONS:
        return Tensor(_ACTIVATIONS[last], m.place(node), split, traces)
    if last in ("log", "log_") and isinstance(first, Tensor) and first.kind in ("softmax", "sigmoid"):
        return Tensor("log_" + first.kind, m.place(node), split, traces)
    if last in ("add", "sub") and isinstance(first, Tensor) and first.kind == "loss":
        return Tensor("loss", first.place, split, traces)
    if last in _SAME and isinstance(first, Tensor | Tuple | Object):
        return _kept(m, first, split, traces)
    if name.startswith(_F + "conv") or name in (_F + "linear", "torch.addmm"):
        return Tensor("raw", m.place(node), split, traces)
    if name.startswith(_F):
        return Tensor("other", None, split, traces)
    return Symbol(m.fresh(), "", split, traces)


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


def _fill(m: Machine, made: Object, args: Args, kwargs: Kwargs) -> None:
    """The contents of Sequential, ModuleList and ModuleDict, and the parts of a wrapper."""
    last = made.type.rpartition(".")[2]
    if last in ("Sequential", "ModuleList", "ModuleDict"):
        only = containers.contents(m, args[0]) if args else None
        if last == "Sequential" and not isinstance(only, Table):
            contents: Tuple | Table = Tuple(tuple(args), "**" in kwargs)
        elif args and only is None:
            contents = Tuple((), True) if last == "ModuleList" else Table({}, True)
        else:
            contents = only if only is not None else Tuple(()) if last == "ModuleList" else Table({})
        m.store.set(("items", made.id), contents)
        modes.adopt(m, made, contents)


def _gradients(m: Machine, name: str, first: Value, node: ast.AST) -> Value:
    if name == "torch.autograd.backward":
        items = containers.items(m, first)
        gradients.backward(m, node, first, tuple(items or ()))
        return NONE
    items = containers.items(m, first) or [first]
    gradients.asked(m, traces_of(*items))
    return m.symbol()


def _passed_through(m: Machine, name: str, args: Args, kwargs: Kwargs) -> Value:
    first = args[0] if args else next(iter(kwargs.values()), m.symbol())
    if name == "typing.cast" and len(args) > 1:
        return args[1]
    if name == "torch.autograd.Variable" and "volatile" in kwargs:
        # PyTorch before 0.4 switched gradients off by it, later versions ignore it: which one runs this is not known.
        m.store.set(("grad",), GradMode("unknown"))
    if name == "builtins.list":
        contents = containers.contents(m, first) if args else Tuple(())
        if isinstance(contents, Tuple):
            return containers.new_list(m, contents)
        if isinstance(first, Params):
            return first
    return first


def _asked(m: Machine, name: str, args: Args) -> Value:
    """Pure questions have the same answer each time on one path."""
    from mlcheck.lint.conditions import key_of

    if name == "builtins.isinstance" and len(args) == 2:
        known = _is_instance(args[0], args[1])
        if known is not None:
            return Const(known)
    return Symbol((name, *(key_of(m, arg) for arg in args)))


def _is_instance(value: Value, of: Value) -> bool | None:
    if isinstance(of, Class) and isinstance(value, Object) and value.cls is not None:
        return of.info.node in {info.node for info in value.cls.mro}
    if isinstance(of, External) and isinstance(value, Object) and value.cls is None:
        return True if value.type == of.name else None
    if isinstance(of, External) and isinstance(value, Object) and of.name == "torch.nn.Module":
        return True if modes.is_module(value) else None
    return None


def _deepcopy(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    value = args[0] if args else NONE
    if not isinstance(value, Object):
        return Symbol(m.fresh()) if isinstance(value, Symbol) else value
    made = Object(value.type, m.fresh(), value.cls, value.args, value.kwargs, value.place)
    for tag in ("items", "mode", "attrs"):
        cell = m.store.get((tag, value.id))
        if cell is not None:
            m.store.set((tag, made.id), cell)
    for name in m.store.get(("attrs", value.id)) or ():
        m.store.set(("a", made.id, name), m.store.get(("a", value.id, name)))
    if modes.is_module(value):
        m.store.set(("mode", made.id), modes.modes_of(m, value))
    return made


def _partial(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return Partial(args[0], tuple(args[1:]), kwargs) if args else m.symbol()


def _getattr(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    from mlcheck.lint import attributes

    if len(args) >= 2 and isinstance(args[1], Const) and isinstance(args[1].value, str):
        return attributes.get(m, args[0], args[1].value, node)
    return m.symbol()


def _setattr(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    from mlcheck.lint import attributes

    if len(args) == 3 and isinstance(args[1], Const) and isinstance(args[1].value, str):
        attributes.put(m, args[0], args[1].value, args[2], node)
    return NONE


def _next(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return containers.element(m, args[0]) if args else m.symbol()


def _object(kind: str) -> Callable[[Machine, Args, Kwargs, ast.AST], Value]:
    def make(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        if kind == "builtins.enumerate" and args:
            known = containers.finite(m, args[0])
            if known is not None:
                return Tuple(tuple(Tuple((Const(index), item)) for index, item in enumerate(known)))
        if kind == "builtins.zip" and args:
            columns = [containers.finite(m, arg) for arg in args]
            if all(column is not None for column in columns):
                return Tuple(tuple(Tuple(row) for row in zip(*(column or [] for column in columns), strict=False)))
        return Object(kind, m.fresh(), None, tuple(args), kwargs, m.place(node))

    return make


def _dict(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    table = containers.table(m, args[0]) if args else Table({})
    if table is None:
        return containers.new_dict(m, Table(dict(kwargs), True))
    return containers.new_dict(m, Table({**table.items, **kwargs}, table.open or "**" in kwargs))


def _sum(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    items = containers.contents(m, args[0]) if args else None
    traces = traces_of(*items.items) if isinstance(items, Tuple) else traces_of(*args)
    kinds = {item.kind for item in items.items if isinstance(item, Tensor)} if isinstance(items, Tuple) else set()
    return Tensor("loss", None, "", traces) if kinds == {"loss"} else Symbol(m.fresh(), "", split_of(*args), traces)


def _map(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    if len(args) < 2:
        return m.symbol()
    known = containers.finite(m, args[1])
    found = [calls.call(m, args[0], [item], {}, node) for item in known or [containers.element(m, args[1])]]
    return Tuple(tuple(found), known is None)


def _filter(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return args[1] if len(args) > 1 else m.symbol()


def _chain(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    merged = containers.merged_params(m, args)
    if merged is not None and args:
        return merged
    parts = [containers.contents(m, arg) for arg in args]
    items = [item for part in parts if isinstance(part, Tuple) for item in part.items]
    return Tuple(tuple(items), any(not isinstance(part, Tuple) or part.open for part in parts))


def _super(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    frame = m.frame
    cls = args[0].info if args and isinstance(args[0], Class) else frame.info.cls if frame.info else None
    bound = args[1] if len(args) > 1 else frame.bound
    return Super(bound, cls) if cls is not None and bound is not None else m.symbol()


def _nothing(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return m.symbol()


def _round(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return Symbol(m.fresh(), "", split_of(*args))


def decorate(m: Machine, name: str, decorator: Value, function: Value, node: ast.expr, owner: Value | None) -> Value:
    """A function under a library's decorator."""
    place: Place = m.place(node)
    if name in contexts.IDLE:
        made = decorator if isinstance(decorator, Object) else Object(name, m.fresh(), place=place)
        mode = contexts.grad_mode(m, made, node).kind
        return _with_grad(function, mode, place)
    if name == "builtins.staticmethod" and isinstance(function, Function):
        return Function(function.info, function.scope, None, function.grad, function.place, True)
    if name == "builtins.classmethod" and isinstance(function, Function):
        bound = Class(owner.cls) if isinstance(owner, Object) and owner.cls else owner
        return Function(function.info, function.scope, bound, function.grad, function.place)
    if name in ("builtins.property", "functools.cached_property", "torch.jit.unused"):
        return Object("builtins.property", m.fresh(), None, (function,)) if "property" in name else function
    if name == "contextlib.contextmanager":
        return Object("contextlib.contextmanager", m.fresh(), None, (function,))
    return function


def _with_grad(function: Value, mode: str, place: Place) -> Value:
    if isinstance(function, Function):
        if function.grad:
            return function
        return Function(function.info, function.scope, function.bound, mode, place, function.static)
    if isinstance(function, Partial):
        return Partial(_with_grad(function.function, mode, place), function.args, function.kwargs)
    return function


_HANDLERS: dict[str, Callable[[Machine, Args, Kwargs, ast.AST], Value]] = {
    "copy.deepcopy": _deepcopy,
    "functools.partial": _partial,
    "functools.wraps": _object("functools.wraps"),
    "builtins.getattr": _getattr,
    "builtins.setattr": _setattr,
    "builtins.next": _next,
    "builtins.enumerate": _object("builtins.enumerate"),
    "builtins.zip": _object("builtins.zip"),
    "builtins.range": _object("builtins.range"),
    "builtins.dict": _dict,
    "collections.OrderedDict": _dict,
    "builtins.sum": _sum,
    "builtins.map": _map,
    "builtins.filter": _filter,
    "itertools.chain": _chain,
    "builtins.super": _super,
    "builtins.float": _round,
    "builtins.int": _round,
    "builtins.print": _nothing,
}
