"""What recurrent layers and attention return: the output of all steps, and states or weights beside it."""

from __future__ import annotations

import ast

from mlcheck.lint.interpret.machine import Machine
from mlcheck.lint.shapes import recording, sequences
from mlcheck.lint.shapes import rules as shape_rules
from mlcheck.lint.values import Object, Symbol, Tensor, Traces, Tuple, Value

LAYERS = ("LSTM", "GRU", "RNN", "MultiheadAttention")
_PACKS = ("pack_padded_sequence", "pack_sequence", "PackedSequence")


def returned(m: Machine, module: Object, given: Value, split: str, traces: Traces, node: ast.AST) -> Tuple:
    """What may be a `PackedSequence` is unknown: its `data` is no cut, and has a dimension less."""
    name = module.type.rpartition(".")[2]
    recording.sequence(m, module, given, node)
    states = Symbol(m.fresh(), "", split, traces)
    if shape_rules.of(given) is None and any(True for _ in m.facts.sites.mentioning(_PACKS)):
        return Tuple((Symbol(m.fresh(), "", split, traces), states))
    return Tuple((Tensor("other", None, split, traces, shape=sequences.steps(module, name, given)), states))
