"""padded-last-step: the last position of a padded batch is taken for the last step of each sequence."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites import Call, Function

LOOKS_AT = "padded sequence"
WORDS = ("pad_packed_sequence",)
_UNPACK = "torch.nn.utils.rnn.pad_packed_sequence"


def check(facts: Facts) -> Iterator[Finding]:
    calls = list(facts.sites.calls(_UNPACK))
    facts.sites.seen[LOOKS_AT] = len(calls)
    for call in calls:
        first = call.constant("batch_first", 1, default=False)
        name = _padded(call)
        if call.function is None or not name or not isinstance(first, bool):
            continue
        for node in _last_of(call, call.function, name, first):
            yield Finding(
                f"`{ast.unparse(node)}` is the last position of the padded batch: padding, for all but the longest",
                call.file.place(node, call.context).location,
                help="take the last state that the layer returns (`h_n[-1]`), or gather at `lengths - 1`",
                related=(call.place.location,),
            )


def _padded(call: Call) -> str:
    """The name that holds the padded tensor: `out` of `out, lengths = pad_packed_sequence(...)`."""
    for node in call.function.nodes if call.function is not None else ():
        if isinstance(node, ast.Assign) and node.value is call.node and isinstance(node.targets[0], ast.Tuple):
            held = node.targets[0].elts[0]
            return held.id if isinstance(held, ast.Name) else ""
    return ""


def _last_of(call: Call, function: Function, name: str, batch_first: bool) -> Iterator[ast.Subscript]:
    """Reads of the last position along time, before the name is bound anew."""
    bound = [
        node.lineno
        for node in function.nodes
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)
    ]
    end = min((line for line in bound if line > (call.node.end_lineno or 0)), default=10**9)
    for node in function.nodes:
        if not isinstance(node, ast.Subscript) or not isinstance(node.ctx, ast.Load):
            continue
        if not isinstance(node.value, ast.Name) or node.value.id != name or not call.node.lineno < node.lineno <= end:
            continue
        parts = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
        time = 1 if batch_first else 0
        if len(parts) > time and ast.unparse(parts[time]) == "-1" and all(ast.unparse(p) == ":" for p in parts[:time]):
            yield node
