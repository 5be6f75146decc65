"""What runs where a value is called: a function, a method of an object or module, what `functools.partial` wraps."""

from __future__ import annotations

import ast

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.nodes import before_methods
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.model import Class, Function
from mlcheck.lint.sites.origins import Origin, origins
from mlcheck.lint.sites.scopes import Context

_SAME_MODULE = ("to", "cuda", "cpu", "eval", "train", "float", "double", "half", "requires_grad_")
_DEPTH = 3


class Run(NamedTuple):
    """The function, and what stands beforehand for some of its parameters."""

    function: Function
    given: dict[str, Origin]


def run_by(file: File, node: ast.expr, context: Context, depth: int = _DEPTH) -> Run | None:
    """The one function of the project that a call of this value certainly runs."""
    named = file.resolve(node, context)
    if isinstance(named, Function):
        return Run(named, {})
    found = origins(file, node, context)
    if len(found) != 1 or depth == 0:
        return None
    made = found[0]._replace(node=before_methods(found[0].node, _SAME_MODULE))
    if not isinstance(made.node, ast.Call):
        named = made.file.resolve(made.node, made.context)
        return Run(named, {}) if isinstance(named, Function) else None
    if made.name == "functools.partial":
        return _wrapped(made, made.node, depth - 1)
    cls = made.file.resolve(made.node.func, made.context)
    called = cls.find("__call__") or cls.find("forward") if isinstance(cls, Class) else None
    return Run(called, {}) if called is not None else None


def _wrapped(made: Origin, partial: ast.Call, depth: int) -> Run | None:
    """`partial(step, 7, base=rate)`: `step`, with two of its parameters given."""
    starred = any(isinstance(arg, ast.Starred) for arg in partial.args)
    if not partial.args or starred or any(word.arg is None for word in partial.keywords):
        return None
    inner = run_by(made.file, partial.args[0], made.context, depth)
    if inner is None:
        return None
    names = [name for name in inner.function.parameters if name != inner.function.receiver and name not in inner.given]
    given = dict(zip(names, partial.args[1:], strict=False))
    given |= {word.arg: word.value for word in partial.keywords if word.arg is not None}
    return Run(inner.function, {**inner.given, **{name: made._replace(node=value) for name, value in given.items()}})
