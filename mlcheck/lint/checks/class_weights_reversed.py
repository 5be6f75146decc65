"""class-weights-reversed: the more often a class occurs, the more it weighs in the loss."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import last_name, walk
from mlcheck.lint.sites import OPEN, Call
from mlcheck.lint.sites.data.class_counts import counted
from mlcheck.lint.sites.origins import Origin, origins

LOOKS_AT = "weighted loss"
WORDS = ("weight=", "pos_weight", "Loss(")
_BY_CLASS = {
    "torch.nn.CrossEntropyLoss": 0,
    "torch.nn.NLLLoss": 0,
    "torch.nn.functional.cross_entropy": 2,
    "torch.nn.functional.nll_loss": 2,
}
_BY_SIDE = {
    "torch.nn.BCEWithLogitsLoss": None,
    "torch.nn.functional.binary_cross_entropy_with_logits": None,
}
_NAMES = {
    "positive": pattern(r"(?:^|_)(?:n?_?)pos(?:itives?)?(?:_|$)|^ones$"),
    "negative": pattern(r"(?:^|_)(?:n?_?)neg(?:atives?)?(?:_|$)|^zeros$"),
}
_DEPTH = 6


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    for call in facts.sites.calls(*_BY_CLASS):
        weight = call.argument("weight", _BY_CLASS[call.name])
        if weight is None or weight is OPEN or call.file.is_test:
            continue
        facts.sites.seen[LOOKS_AT] += 1
        if (made := counted(call.file, weight, call.context, inverse=True)) is not None:
            yield _finding(call, made, "the more often a class occurs, the more it weighs, and the rare ones are lost")
    for call in facts.sites.calls(*_BY_SIDE):
        weight = call.argument("pos_weight", _BY_SIDE[call.name])
        if weight is None or weight is OPEN or call.file.is_test:
            continue
        facts.sites.seen[LOOKS_AT] += 1
        if (made := _positives_first(call, weight)) is not None:
            yield _finding(call, made, "the rarer the positives are, the less they weigh")


def _finding(call: Call, made: Origin, what: str) -> Finding:
    return Finding(
        f"The weights of this loss are turned round: {what}",
        call.place.location,
        help="weigh by the inverse: `total / (classes * counts)`, and `negatives / positives` for `pos_weight`",
        related=(made.file.place(made.node, made.context).location,),
    )


def _positives_first(call: Call, weight: ast.expr) -> Origin | None:
    """`positives / negatives`, moved or made a tensor."""
    here = Origin(call.file, weight, call.context)
    for _ in range(_DEPTH):
        found = origins(here.file, here.node, here.context)
        if len(found) != 1:
            return None
        here = found[0]
        match here.node:
            case ast.BinOp(left=left, op=ast.Div(), right=right):
                sides = _side(here, left), _side(here, right)
                return here if sides == ("positive", "negative") else None
            case ast.Call(func=func, args=[given, *_]) if last_name(func) in ("tensor", "as_tensor", "FloatTensor"):
                node = given.elts[0] if isinstance(given, ast.List) and len(given.elts) == 1 else given
            case ast.Call(func=ast.Attribute(value=owner, attr="to" | "float" | "cuda" | "clamp" | "unsqueeze")):
                node = owner
            case _:
                return None
        here = here._replace(node=node)
    return None


def _side(here: Origin, node: ast.expr) -> str:
    """`positive` for `(y == 1).sum()`, `negative` for `(y == 0).sum()`; where neither is written, by its name."""
    for each in (node, *(origin.node for origin in origins(here.file, node, here.context))):
        asked = [part for part in walk(each) if isinstance(part, ast.Compare) and isinstance(part.ops[0], ast.Eq)]
        numbers = [ast.unparse(part.comparators[0]) for part in asked]
        if numbers in (["0"], ["1"]):
            return "positive" if numbers == ["1"] else "negative"
    names = [last_name(part).lower() for part in walk(node) if isinstance(part, ast.Name | ast.Attribute)]
    told = [kind for name in names for kind, words in _NAMES.items() if words.search(name)]
    return told[0] if len(set(told)) == 1 else ""
