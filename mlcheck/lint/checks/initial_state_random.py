"""initial-state-random: a recurrent layer begins each batch from numbers drawn at random."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import before_methods, last_name
from mlcheck.lint.sites import Call, Class, Context, File
from mlcheck.lint.sites.guards import asks_mode, own_attribute
from mlcheck.lint.sites.layers.modules import module_classes
from mlcheck.lint.sites.layers.stateful_modules import carried_over_shuffled
from mlcheck.lint.sites.origins import origins

LOOKS_AT = "recurrent layer"
WORDS = ("LSTM", "GRU", "RNN")
_LAYERS = ("torch.nn.LSTM", "torch.nn.GRU", "torch.nn.RNN", "torch.nn.LSTMCell", "torch.nn.GRUCell", "torch.nn.RNNCell")
_FILLS = (
    "normal_",
    "uniform_",
    "xavier_normal_",
    "xavier_uniform_",
    "kaiming_normal_",
    "kaiming_uniform_",
    "orthogonal_",
)
_DRAWS = ("torch.randn", "torch.rand", "torch.normal")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    for carried in carried_over_shuffled(facts.sites):
        yield Finding(
            f"`{carried.name}` is what the samples of the batch before left, and this batch is drawn at random: "
            "its samples go on from others",
            carried.place.location,
            help=f"begin each batch anew, without `{carried.name}`; or read long sequences in order, unshuffled",
            related=(carried.loader.location,),
        )
    for cls in facts.sites.once(module_classes):
        for call in _calls_of_layers(cls):
            facts.sites.seen[LOOKS_AT] += 1
            state = call.argument("hx", 1)
            if state is None or any(asks_mode(node) for node in (call.function.nodes if call.function else ())):
                continue
            if _is_drawn(call.file, state, call.context, call.node.func):
                yield Finding(
                    "The layer starts from random numbers: the same input gives a different output each time",
                    call.place.location,
                    help="start from zeros, as the layer does without an initial state, or from an `nn.Parameter`",
                    related=(call.file.place(state, call.context).location,),
                )


def _calls_of_layers(cls: Class) -> Iterator[Call]:
    """`self.rnn(x, state)` in the methods of a module."""
    for name, sets in cls.attributes.items():
        value, context = sets[0][1].value, sets[0][1].context
        if len(sets) == 1 and cls.file.called(value, context) in _LAYERS:
            calls = (call for call in cls.file.calls(name) if call.cls is cls)
            yield from (call for call in calls if own_attribute(call.node.func, call.function) == name)


def _is_drawn(file: File, node: ast.expr, context: Context, layer: ast.expr) -> bool:
    """Whether it, or all of a tuple, comes from a distribution alone, but for what the layer itself said before."""
    if isinstance(node, ast.Tuple):
        return bool(node.elts) and all(_is_drawn(file, part, context, layer) for part in node.elts)
    own = ast.unparse(layer)
    found = [
        _is_drawn(each.file, each.node, each.context, layer)
        if isinstance(each.node, ast.Tuple)
        else _is_random(each.file, each.node, each.context)
        for each in origins(file, node, context)
        if not (isinstance(each.node, ast.Call) and ast.unparse(each.node.func) == own)
    ]
    return bool(found) and all(found)


def _is_random(file: File, node: ast.expr, context: Context) -> bool:
    """`torch.randn(...)`, or a new tensor that is filled at random before anything else is done with it."""
    made = before_methods(node, ("to", "cuda", "float", "mul"))
    return file.called(made, context) in _DRAWS or _is_filled(file, node, context)


def _is_filled(file: File, node: ast.expr, context: Context) -> bool:
    """`h = torch.zeros(...)` and later `nn.init.kaiming_normal_(h)` or `h.normal_()`."""
    names = file.names_given(node) if isinstance(node, ast.Call) else ()
    for call in file.calls(*_FILLS) if names else ():
        func, args = call.node.func, call.node.args
        by_init = (file.resolve(func, call.context) or "") == f"torch.nn.init.{last_name(func)}"
        filled = args[0] if by_init and args else func.value if isinstance(func, ast.Attribute) else None
        if call.context.scope is context.scope and call.node.lineno > node.lineno:
            if isinstance(filled, ast.Name) and filled.id in names:
                return True
    return False
