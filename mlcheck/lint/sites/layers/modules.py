"""Modules of the program: which classes are `nn.Module`s, and which expressions make one that holds parameters."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.lint.names import canonical
from mlcheck.lint.nodes import last_name
from mlcheck.lint.pytorch.graph_layers import has_weights, is_graph_layer, wraps_layers
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.model import Call, Class, Function
from mlcheck.lint.sites.origins import returns
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.scopes import Context

MODULE = "torch.nn.Module"
_NOT_MODULES = ("torch.nn.Parameter", "torch.nn.Buffer", "torch.nn.UninitializedParameter")
_LEARNING = (
    *("Linear", "Bilinear", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"),
    *("BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "SyncBatchNorm", "LayerNorm", "GroupNorm", "RMSNorm", "PReLU"),
    *("Embedding", "EmbeddingBag", "RNN", "LSTM", "GRU", "RNNCell", "LSTMCell", "GRUCell", "MultiheadAttention"),
    *("Transformer", "TransformerEncoder", "TransformerDecoder", "TransformerEncoderLayer", "TransformerDecoderLayer"),
)
LEARNING = frozenset(f"torch.nn.{prefix}{name}" for name in _LEARNING for prefix in ("", "Lazy"))
CONTAINERS = frozenset(
    f"torch.nn.{name}" for name in ("ModuleList", "ModuleDict", "Sequential", "ParameterList", "ParameterDict")
)
PARAMETER = "torch.nn.Parameter"
DROPOUTS = frozenset(f"torch.nn.{name}" for name in ("Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout"))
_AFFINE = ("affine", "elementwise_affine")
_KEEPS = frozenset(["to", "cuda", "cpu", "float", "double", "half", "train", "apply", "requires_grad_"])
_DEPTH = 4


def is_module_name(name: str) -> bool:
    """Whether a library class is certainly an `nn.Module`."""
    name = canonical(name)
    parent, _, last = name.rpartition(".")
    if name.startswith("torch.nn.") and parent in ("torch.nn", "torch.nn.parallel"):
        return last[:1].isupper() and name not in _NOT_MODULES
    if last == "LightningModule" or is_graph_layer(name):
        return True
    if last.endswith("PreTrainedModel"):
        return last == "PreTrainedModel" or (name.startswith("transformers.") and last[:2] not in ("TF", "Fl"))
    return f"{parent}.".startswith("torchvision.models.") and last[:1].isupper() and not last.endswith("_Weights")


def is_module(cls: Class) -> bool:
    """Whether a class of the project is certainly an `nn.Module`."""
    return any(is_module_name(name) for name in cls.libraries)


def module_classes(sites: Sites) -> tuple[Class, ...]:
    """The modules of the program; `sites.once(module_classes)`."""
    found = tuple(cls for cls in sites.classes if is_module(cls))
    sites.seen["module class"] = len(found)
    return found


def is_plain(cls: Class) -> bool:
    """A module whose bases are all known, and none of which registers or moves things in ways of its own."""
    return registers_as_usual(cls) and not moves_by_hand(cls)


def registers_as_usual(cls: Class) -> bool:
    """Whether the bases are all known, and none has ways of its own to register things or to tell of them."""
    own = {"__setattr__", "__getattr__", "_apply", "parameters", "named_parameters", "register_module"}
    return all(is_module_name(name) or name in _HARMLESS for name in cls.libraries) and not any(
        name in base.methods for base in cls.line for name in own
    )


def moves_by_hand(cls: Class) -> bool:
    return any(name in base.methods for base in cls.line for name in ("to", "cuda"))


def with_mixins(cls: Class) -> Iterator[Class]:
    """A module, and the classes it derives from that are none themselves: their `self` is the module."""
    if registers_as_usual(cls):
        yield cls
        yield from (base for base in cls.line[1:] if base.libraries <= {"builtins.object"})


_HARMLESS = frozenset(["builtins.object", "abc.ABC", "typing.Generic", "torch.nn.Module", "abc.ABCMeta"])


def holds_parameters(file: File, node: ast.expr, context: Context, depth: int = _DEPTH) -> bool:
    """Whether an expression certainly makes a module with parameters, or a parameter."""
    node, context = file.value(node, context)
    if isinstance(node, ast.Name) and depth > 0:
        bound = file.bindings(node.id, context)  # `if first: layer = Linear(3, 8)`, `else: layer = Linear(8, 8)`
        made = [(each.value, each.context) for each in bound if isinstance(each.value, ast.Call)]
        alike = len(made) == len(bound) > 1 and all(each.kind == "value" for each in bound)
        return alike and all(holds_parameters(file, value, where, depth - 1) for value, where in made)
    if not isinstance(node, ast.Call) or depth <= 0:
        return False
    func = node.func
    if isinstance(func, ast.Attribute) and func.attr in _KEEPS and isinstance(func.value, ast.Call):
        return holds_parameters(file, func.value, context, depth)
    named = file.resolve(func, context)
    if isinstance(named, Class):
        return is_module(named) and (learns(named, depth - 1) or _is_filled(named, file, node, context, depth - 1))
    if isinstance(named, Function):
        given = list(returns(named))
        return bool(given) and all(holds_parameters(named.file, each, named.inner, depth - 1) for each in given)
    if not isinstance(named, str):
        return False
    name = canonical(named)
    if name == PARAMETER:
        return all(keyword.arg != "requires_grad" or ast.unparse(keyword.value) != "False" for keyword in node.keywords)
    if name in LEARNING or has_weights(name):
        return not any(word.arg in _AFFINE and ast.unparse(word.value) == "False" for word in node.keywords)
    if name == "copy.deepcopy" and node.args:
        return holds_parameters(file, node.args[0], context, depth - 1)
    if name not in CONTAINERS and not wraps_layers(name):
        return False
    parts = [*node.args, *(keyword.value for keyword in node.keywords)]
    parts += [layer for part in node.args if isinstance(part, ast.Starred) for layer in collected(file, part, context)]
    return any(holds_parameters(file, part, context, depth - 1) for part in flat(parts))


def collected(file: File, starred: ast.Starred, context: Context) -> Iterator[ast.expr]:
    """What is put into the list of `nn.Sequential(*layers)` in the same function: `layers += [nn.Linear(3, 4)]`.

    Of a part, `*layers[:-1]`, as well.
    """
    name, function = starred.value, file.function_around(context)
    if isinstance(name, ast.Subscript) and isinstance(name.slice, ast.Slice):
        name = name.value
    if not isinstance(name, ast.Name) or function is None or name.id in function.parameters:
        return
    for node in function.nodes:
        match node:
            case ast.AugAssign(target=ast.Name(id=found), op=ast.Add(), value=ast.List(elts=layers)) if (
                found == name.id
            ):
                yield from layers
            case ast.Call(func=ast.Attribute(value=ast.Name(id=found), attr="append"), args=[layer]) if (
                found == name.id
            ):
                yield layer


def _is_filled(cls: Class, file: File, made: ast.Call, context: Context, depth: int) -> bool:
    """`class Steps(nn.Sequential)`, a container that takes what it is given, made with layers."""
    if cls.libraries.isdisjoint(CONTAINERS) or cls.find("__init__") is not None:
        return False
    return any(holds_parameters(file, part, context, depth) for part in flat(made.args))


def makes_dropout(file: File, node: ast.expr, context: Context) -> bool:
    """Whether an expression makes a layer of dropout, and not one that is certain to drop nothing."""
    if isinstance(node, ast.IfExp):
        return makes_dropout(file, node.body, context)
    if not isinstance(node, ast.Call):
        return False
    named = file.resolve(node.func, context)
    if isinstance(named, Function):
        given = list(returns(named))
        return len(given) == 1 and makes_dropout(named.file, given[0], named.inner)
    if not isinstance(named, str) or canonical(named) not in DROPOUTS:
        return False
    return Call(file, node, context).constant("p", 0, 0.5) not in (0, 0.0)


def makes_module(file: File, node: ast.expr, context: Context) -> bool:
    """Whether an expression certainly makes a module or a parameter: `nn.Dropout(0.1)`, `Block(3)`."""
    if not isinstance(node, ast.Call):
        return False
    named = file.resolve(node.func, context)
    if isinstance(named, Class):
        return is_module(named)
    return isinstance(named, str) and (is_module_name(named) or canonical(named) == PARAMETER)


def flat(nodes: list[ast.expr]) -> list[ast.expr]:
    """The elements of displays and comprehensions among the nodes, and the other nodes themselves."""
    found: list[ast.expr] = []
    for node in nodes:
        if isinstance(node, ast.Starred):
            node = node.value
        if isinstance(node, ast.List | ast.Tuple | ast.Set):
            found += flat(node.elts)
        elif isinstance(node, ast.Dict):
            found += flat(node.values)
        elif isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp):
            found += flat([node.elt])
        elif isinstance(node, ast.DictComp):
            found += flat([node.value])
        elif isinstance(node, ast.Call) and last_name(node.func) == "OrderedDict":
            found += flat(node.args)
        else:
            found.append(node)
    return found


def learns(cls: Class, depth: int = _DEPTH) -> bool:
    """Whether a class of the project certainly holds parameters of its own."""
    return any(
        assigned.value is not None and holds_parameters(base.file, assigned.value, assigned.context, depth)
        for base in cls.line
        for values in base.attributes.values()
        for _, assigned in values
    )


def text_of(cls: Class) -> str:
    """The text of the class and of the project classes above it."""
    return "\n".join(base.text for base in cls.line)
