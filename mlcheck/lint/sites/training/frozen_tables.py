"""Tables of random numbers that an embedding is made of, and that are frozen with it: `from_pretrained` freezes."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.nodes import is_name
from mlcheck.lint.sites.layers.modules import text_of
from mlcheck.lint.sites.model import OPEN, Call
from mlcheck.lint.sites.origins import Origin, sole
from mlcheck.lint.sites.project import Sites

_MADE = "torch.nn.Embedding.from_pretrained"
_RANDOM = frozenset(f"torch.{name}" for name in ("rand", "randn", "normal", "empty"))
_RANDOM |= {f"numpy.random.{name}" for name in ("rand", "randn", "normal", "uniform", "standard_normal", "random")}
_WRAPS = frozenset(f"torch.{name}" for name in ("from_numpy", "tensor", "as_tensor", "FloatTensor", "Tensor"))
_KEEPS = frozenset(["float", "astype", "to", "mul", "div", "type", "detach", "clone", "contiguous", "double"])
_ASKS = frozenset(["shape", "size", "dtype", "ndim", "numel", "uniform_", "normal_"])
_FILLS = ("xavier_uniform_", "xavier_normal_", "kaiming_uniform_", "kaiming_normal_", "normal_", "uniform_")
_SET_FREE = ("requires_grad", "freeze(", "weight.data", "copy_(", "load_state_dict(", "_pretrained_")
_DEPTH = 8


class RandomTable(NamedTuple):
    """The call that makes the embedding, and where its numbers are drawn."""

    made: Call
    drawn: Origin


def random_tables(sites: Sites) -> Iterator[RandomTable]:
    """`nn.Embedding.from_pretrained(torch.randn(n, 64))`, which nothing fills and nothing sets free."""
    for made in sites.calls(_MADE):
        table = made.argument("embeddings", 0)
        around = text_of(made.cls) if made.cls is not None else made.file.text
        if table is None or table is OPEN or made.constant("freeze", 1, True) is not True:
            continue
        if any(word in around.replace("from_pretrained(", "") for word in _SET_FREE):
            continue
        drawn = _drawn(Origin(made.file, table, made.context))
        if drawn is not None:
            yield RandomTable(made, drawn)


def _drawn(table: Origin) -> Origin | None:
    """The call that draws the numbers; None where they may come from anywhere else."""
    for _ in range(_DEPTH):
        if isinstance(table.node, ast.Name) and not _is_left_alone(table, table.node.id):
            return None
        if table.name in _RANDOM:
            return table if table.name != "torch.empty" or _is_initialised(table) else None
        inner = _inner(table)
        if inner is not None:
            table = table._replace(node=inner)
            continue
        made = sole(*table[:3])
        if made is None or made.node is table.node or made.item >= 0 or not _kept_alone(made):
            return None
        table = made
    return None


def _inner(table: Origin) -> ast.expr | None:
    """What is only moved, scaled or wrapped."""
    match table.node:
        case ast.Call(args=[inner, *_]) if table.name in _WRAPS:
            return inner
        case ast.Call(func=ast.Attribute(value=inner, attr=attr)) if attr in _KEEPS:
            return inner
        case ast.BinOp(left=inner, right=ast.Constant() | ast.Name() | ast.Attribute()):
            return inner
    return None


def _kept_alone(made: Origin) -> bool:
    """Whether nothing writes into the variables that hold it where it is made."""
    return all(_is_left_alone(made, name) for name in made.file.names_given(made.node))


def _is_left_alone(table: Origin, name: str) -> bool:
    """Whether the variable is read to be handed on, asked for its size or initialised, and no more."""
    function = table.file.function_around(table.context)
    nodes = function.nodes if function is not None else table.file.nodes_in(table.file.module.source.tree)
    for node in nodes:
        match node:
            case ast.Subscript(value=ast.Name(id=held), ctx=ast.Store()) if held == name:
                return False
            case ast.Attribute(value=ast.Name(id=held), attr=attr) if held == name and attr not in _KEEPS | _ASKS:
                return False
            case ast.Call(args=given) if any(is_name(part, name) for part in given):
                called = table.file.called(node, table.context)
                if called not in _WRAPS | {_MADE} and not called.startswith("torch.nn.init."):
                    return False
    return True


def _is_initialised(table: Origin) -> bool:
    """Whether the memory that `torch.empty` gives is filled with random numbers."""
    names = table.file.names_given(table.node)
    calls = (call for call in table.file.calls(*_FILLS) if call.node.args)
    return any(is_name(call.node.args[0], name) for call in calls for name in names)
