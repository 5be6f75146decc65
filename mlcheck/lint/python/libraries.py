"""Calls of library functions and classes: each handed to whoever knows it."""

from __future__ import annotations

import ast
from functools import partial

from mlcheck.lint.facts import GradMode
from mlcheck.lint.interpret import containers
from mlcheck.lint.interpret.frames import DeadPath
from mlcheck.lint.interpret.machine import Machine
from mlcheck.lint.python import namespaces
from mlcheck.lint.python.builtin_functions import HANDLERS, asked
from mlcheck.lint.pytorch import cuts, datasets, frameworks, graph, heads, losses, modes, pretrained, torch_functions
from mlcheck.lint.pytorch.library_names import ACTIVATIONS, EXITS, SAFE, WRAPPERS
from mlcheck.lint.pytorch.torch_functions import made_object
from mlcheck.lint.shapes import recording
from mlcheck.lint.shapes import rules as shape_rules
from mlcheck.lint.values import Args, Const, Kwargs, Params, Symbol, Tensor, Tuple, Value, split_of, traces_of

_BY_NAME = {
    "timm.create_model": "timm.models",
    "timm.models.create_model": "timm.models",
    "torchvision.models.get_model": "torchvision.models",
}
"""Functions that make the model whose name they are given, and the home of that model."""


def call(m: Machine, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """A call of the library function or class of that canonical name."""
    result = _called(m, name, args, kwargs, node)
    if name.endswith("softmax") and name.startswith("torch.") and args:
        recording.softmax(m, args[0], args[1] if len(args) > 1 else kwargs.get("dim"), m.place(node))
    if isinstance(result, Tensor | Symbol) and name.startswith(("torch.", "numpy.", "math.")):
        return shape_rules.with_shape(result, shape_rules.of_function(m, name, args, kwargs))
    return result


def _called(m: Machine, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    if name in EXITS:
        raise DeadPath
    values = [*args, *kwargs.values()]
    handled = frameworks.call(m, name, args, kwargs, node)
    if handled is not None:
        return handled
    handler = HANDLERS.get(name) or namespaces.HANDLERS.get(name) or datasets.HANDLERS.get(name)
    if handler is not None:
        return handler(m, args, kwargs, node)
    if name in WRAPPERS or name.endswith((".tqdm", ".DataParallel", ".DistributedDataParallel")):
        return _passed_through(m, name, args, kwargs, node)
    if name.startswith("torch."):
        return torch_functions.call(m, name, args, kwargs, node)
    if name in _BY_NAME and args and isinstance(args[0], Const) and isinstance(args[0].value, str):
        return heads.begun(m, made_object(m, f"{_BY_NAME[name]}.{args[0].value}", args[1:], kwargs, node))
    if name == "segmentation_models_pytorch.create_model":
        return made_object(m, "segmentation_models_pytorch.Unet", args, kwargs, node)
    last = name.rpartition(".")[2]
    if last == "from_pretrained" and (network := pretrained.loaded(m, name, args, kwargs, node)) is not None:
        return network
    if (name.startswith("torchvision.models.") and not last[:1].isupper() and last[:4] != "get_") or last == "resnet":
        return heads.begun(m, made_object(m, name, args, kwargs, node))
    if losses.is_loss(name):
        return losses.call(m, name, args, kwargs, node)
    if last[:1].isupper():
        if name.partition(".")[0] not in SAFE:
            m.havoc(values)
            if not any(map(partial(_is_network, m), values)) and _is_asked_for_parameters(m, name, node):
                return _network(m)
        return made_object(m, name, args, kwargs, node)
    if last in ACTIVATIONS and name.partition(".")[0] == "scipy":
        return Tensor(ACTIVATIONS[last], m.place(node), split_of(*values), traces_of(*values))
    outside = name.partition(".")[0] not in SAFE
    if outside:
        m.havoc(values)
    if name in ("builtins.len", "builtins.isinstance", "builtins.hasattr", "builtins.callable", "builtins.type"):
        return asked(m, name, args)
    runs = outside and any(_is_network(m, value) for value in values)
    traces = graph.opaque(m, traces_of(*values)) if runs else traces_of(*values)
    return Symbol(m.fresh(), "", split_of(*values), traces)


def _is_network(m: Machine, value: Value) -> bool:
    return modes.is_module(value) or modes.known_as_module(m, value)


def _is_asked_for_parameters(m: Machine, name: str, node: ast.AST) -> bool:
    """`model = Roost(...)` of a library nobody here knows, whose file goes on to `Adam(model.parameters())`."""
    if modes.is_module_class(name) or not isinstance(node, ast.Call):
        return False
    file = m.facts.sites.files[m.program.name_of(m.frame.module)]
    asked = (".parameters()", ".named_parameters()")
    return any(f"{held}{ending}" in file.text for held in file.names_given(node) for ending in asked)


def _network(m: Machine) -> Symbol:
    """A network of which nothing else is known, as if a function had made it."""
    made = m.symbol()
    m.store.set(("owner", made.key), True)
    return made


def _passed_through(m: Machine, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    first = args[0] if args else next(iter(kwargs.values()), m.symbol())
    if name == "typing.cast" and len(args) > 1:
        return args[1]
    if name == "torch.autograd.Variable" and "volatile" in kwargs:
        # PyTorch before 0.4 switched gradients off by it, later versions ignore it: which one runs this is not known.
        m.store.set(("grad",), GradMode("unknown"))
    if name == "torch.autograd.Variable" and kwargs.get("requires_grad") == Const(True):
        return cuts.copied(m, name, first, node) or first
    if name == "builtins.list":
        contents = containers.contents(m, first) if args else Tuple(())
        if isinstance(contents, Tuple):
            return containers.new_list(m, contents)
        if isinstance(first, Params):
            return first
    return first
