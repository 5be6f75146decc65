"""initial-state-random: a recurrent layer begins each batch from numbers drawn at random."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import before_methods
from mlcheck.lint.sites import Call, Class, Context, File
from mlcheck.lint.sites.guards import asks_mode, own_attribute
from mlcheck.lint.sites.layers.modules import module_classes
from mlcheck.lint.sites.origins import origins

LOOKS_AT = "recurrent layer"
WORDS = ("LSTM", "GRU", "RNN")
_LAYERS = ("torch.nn.LSTM", "torch.nn.GRU", "torch.nn.RNN")
_DRAWS = ("torch.randn", "torch.rand", "torch.normal")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    for cls in facts.sites.once(module_classes):
        for call in _calls_of_layers(cls):
            facts.sites.seen[LOOKS_AT] += 1
            state = call.argument("hx", 1)
            if state is None or any(asks_mode(node) for node in (call.function.nodes if call.function else ())):
                continue
            found = [_drawn(each.file, each.node, each.context) for each in origins(call.file, state, call.context)]
            if found and all(found):
                yield Finding(
                    "The layer begins from numbers drawn at random: the same input gets another answer each time",
                    call.place.location,
                    help="begin from zeros, as the layer does when it is given no state, or from an `nn.Parameter`",
                    related=(call.file.place(state, call.context).location,),
                )


def _calls_of_layers(cls: Class) -> Iterator[Call]:
    """`self.rnn(x, state)` in the methods of a module."""
    for name, sets in cls.attributes.items():
        value, context = sets[0][1].value, sets[0][1].context
        if len(sets) == 1 and cls.file.called(value, context) in _LAYERS:
            calls = (call for call in cls.file.calls(name) if call.cls is cls)
            yield from (call for call in calls if own_attribute(call.node.func, call.function) == name)


def _drawn(file: File, node: ast.expr, context: Context) -> bool:
    """Whether it is, or all of a tuple are, drawn from a distribution."""
    if isinstance(node, ast.Tuple):
        parts = [origin for part in node.elts for origin in origins(file, part, context)]
        return bool(parts) and all(
            not isinstance(p.node, ast.Tuple) and _drawn(p.file, p.node, p.context) for p in parts
        )
    return file.called(before_methods(node, ("to", "cuda", "float", "mul")), context) in _DRAWS
