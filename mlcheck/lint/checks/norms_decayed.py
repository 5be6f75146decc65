"""norms-decayed: weight decay is asked for, and reaches the scales of norms too."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import walk
from mlcheck.lint.sites import OPEN, UNKNOWN, Call, Class, Context, File
from mlcheck.lint.sites.layers.modules import is_module
from mlcheck.lint.sites.origins import origins
from mlcheck.lint.sites.training.optimizers import optimizers

LOOKS_AT = "optimizer with weight decay"
WORDS = ("AdamW",)
_NORMS = frozenset(f"torch.nn.{name}" for name in ("LayerNorm", "RMSNorm", "GroupNorm"))
_NORMS |= {f"torch.nn.BatchNorm{n}d" for n in (1, 2, 3)}
_DEPTH = 4


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    for call in facts.sites.once(optimizers):
        decay, params = _decay(call), call.argument("params", 0)
        if not call.name.endswith(".AdamW") or not isinstance(decay, int | float) or not decay or params is OPEN:
            continue
        if not isinstance(params, ast.Call) or not isinstance(params.func, ast.Attribute):
            continue
        facts.sites.seen[LOOKS_AT] += 1
        if params.func.attr == "parameters" and not params.args:
            norms = [_norm(*made) for made in _made(call.file, params.func.value, call.context)]
            if norms and all(norms):
                yield Finding(
                    f"The weight decay of {decay} pulls the scales of `{norms[0]}` to zero, and all biases",
                    call.place.location,
                    help='two groups: `p.ndim > 1` with the decay, the others with `"weight_decay": 0.0`',
                )


def _decay(call: Call) -> object:
    """The number that is given; that of a parameter of the function around where all calls of it agree."""
    given = call.argument("weight_decay")
    if given is None or given is OPEN:
        return None
    values = {origin.file.constant(origin.node, origin.context) for origin in origins(call.file, given, call.context)}
    return values.pop() if len(values) == 1 else UNKNOWN


def _made(
    file: File, model: ast.expr, context: Context, depth: int = _DEPTH
) -> Iterator[tuple[File, ast.expr, Context]]:
    """Where the model is made; itself where `model = model.to(device)` leads in circles."""
    for origin in origins(file, model, context):
        node = origin.node
        while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("to", "cuda"):
            node = node.func.value
        if node is origin.node or not depth:
            yield origin.file, node, origin.context
        else:
            yield from _made(origin.file, node, origin.context, depth - 1)


def _norm(file: File, node: ast.expr, context: Context, depth: int = _DEPTH) -> str:
    """The kind of norm with a scale that this makes, itself or inside; "" where none is seen."""
    for part in walk(node) if depth else ():
        if not isinstance(part, ast.Call) or any(
            word.arg in ("elementwise_affine", "affine") for word in part.keywords
        ):
            continue
        named = file.resolve(part.func, context)
        if isinstance(named, str) and file.called(part, context) in _NORMS:
            return named.rpartition(".")[2]
        if isinstance(named, Class) and is_module(named):
            found = next(filter(None, (_norm(*value, depth - 1) for value in _layers(named))), "")
            if found:
                return found
    return ""


def _layers(cls: Class) -> Iterator[tuple[File, ast.expr, Context]]:
    """What the module and those above it assign to their attributes."""
    for base in cls.line:
        for assignments in base.attributes.values():
            yield from ((base.file, each.value, each.context) for _, each in assignments if each.value is not None)
