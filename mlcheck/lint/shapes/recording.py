"""What happens to tensors whose shapes are known goes on record, for the rules to judge."""

from __future__ import annotations

import ast

from mlcheck.lint.facts import Place
from mlcheck.lint.interpret.machine import Machine
from mlcheck.lint.shapes.facts import ReadAcross, Softmax
from mlcheck.lint.shapes.rules import number, of
from mlcheck.lint.values import Const, Object, Select, Symbol, Tensor, Value, live, traces_of


def softmax(m: Machine, given: Value, dim: Value | None, place: Place) -> None:
    """A softmax of what has a known shape goes on record; without `dim`, of three dimensions it is over the first."""
    shape, over = of(given), number(dim)
    if dim in (None, Const(None)) and shape is not None and not shape.open and len(shape.dims) == 3:
        over = 0
    if shape is not None and over is not None and isinstance(given, Tensor | Symbol | Select):
        raw = isinstance(given, Tensor) and given.kind == "raw"
        m.facts.softmaxes.append(Softmax(place, shape, over, live(traces_of(given)), raw))


def sequence(m: Machine, module: Object, given: Value, node: ast.AST) -> None:
    """A layer that has the sequence first, called on a loader's (batch, steps, features), goes on record."""
    shape = of(given)
    if module.place is None or shape is None or shape.open or len(shape.dims) != 3:
        return
    first, steps, _ = shape.dims
    told = module.kwargs.get("batch_first", Const(False)) == Const(False) and "**" not in module.kwargs
    if isinstance(first, tuple) and first[0] == "batch" and steps not in (None, 1) and told and len(module.args) < 4:
        m.facts.read_across.append(ReadAcross(module.place, m.place(node)))
