"""What sums, products and other operations of two values are."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from mlcheck.lint.interpret import containers
from mlcheck.lint.interpret.conditions import key_of
from mlcheck.lint.interpret.machine import Machine
from mlcheck.lint.pytorch import graph, one_hot
from mlcheck.lint.values import Const, Object, Params, Symbol, Tensor, Value, split_of, traces_of


def combine(m: Machine, operator: str, left: Value, right: Value) -> Value:
    """Numbers fold; adding a constant keeps what a tensor is; a loss stays a loss; concatenation joins sequences."""
    if isinstance(left, Const) and isinstance(right, Const):
        return _fold(m, operator, left.value, right.value)
    if operator == "Add":
        joined = containers.concatenate(m, left, right)
        if joined is not None:
            return joined
    if operator in one_hot.PRODUCTS and (chances := one_hot.product(left, right)) is not None:
        return chances
    traces, split = graph.joined(m, traces_of(left, right), left, right), split_of(left, right)
    for tensor, factor in ((left, right), (right, left)):
        if not isinstance(tensor, Tensor):
            continue
        kept = tensor.kind == "loss" or tensor.kind == "scaled" or (tensor.kind == "raw" and operator == "MatMult")
        kept = kept or (isinstance(factor, Const | Symbol) and operator == "Add" and not traces_of(factor))
        kept = kept or (tensor.kind == "raw" and isinstance(factor, Const | Symbol) and operator in ("Mult", "Div"))
        kept = kept or (tensor.kind == "raw" and operator in ("Add", "Sub", "Mult") and _is_unbounded(factor))
        if kept:
            return Tensor(tensor.kind, tensor.place, split, traces, tensor.scaler)
    if isinstance(left, Tensor) or isinstance(right, Tensor):
        return Tensor("other", None, split, traces)
    if isinstance(left, Params) or isinstance(right, Params):
        return m.symbol()
    key: Hashable = ("bin", operator, key_of(m, left), key_of(m, right))
    return Symbol(key, "", split, traces) if not traces and _shallow(key) else Symbol(m.fresh(), "", split, traces)


def _is_unbounded(value: Value) -> bool:
    """Raw scores too, or a parameter: added or multiplied, they leave raw scores what they are."""
    return (isinstance(value, Tensor) and value.kind == "raw") or (
        isinstance(value, Object) and value.type == "torch.nn.Parameter"
    )


def _shallow(key: Hashable, depth: int = 6) -> bool:
    if not isinstance(key, tuple):
        return True
    return depth > 0 and all(_shallow(part, depth - 1) for part in key)


_FOLD: dict[str, Callable[[Any, Any], Any]] = {
    "Add": lambda a, b: a + b,
    "Sub": lambda a, b: a - b,
    "Mult": lambda a, b: a * b if not isinstance(a, str) and not isinstance(b, str) else a[:0],
    "Div": lambda a, b: a / b,
    "FloorDiv": lambda a, b: a // b,
    "Mod": lambda a, b: a % b if not isinstance(a, str | bytes) else a,
}


def _fold(m: Machine, operator: str, left: Any, right: Any) -> Value:
    try:
        return Const(_FOLD[operator](left, right))
    except (KeyError, TypeError, ArithmeticError, ValueError):
        return m.symbol()
