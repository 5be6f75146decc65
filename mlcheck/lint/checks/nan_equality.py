"""nan-equality: a comparison with NaN, which is equal to nothing."""

import ast
import re
from collections.abc import Iterator
from itertools import pairwise

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import before_methods, last_name
from mlcheck.lint.sites import Context, File
from mlcheck.lint.sites.origins import origins

LOOKS_AT = "comparison with NaN"
WORDS = ("nan", "NaN", "NAN", "isinf", "isfinite")
_BEFORE = r"(?:[=!]=|\b(?:is|not|in)\b)[\s(\[{]*(?:[\w.]+\()*[\w.]*['\"]?nan\b"
_IDENTITY = r"is(?:nan|inf|finite)\b.* is (?:not )?(?:True|False)"
_SUSPECT = pattern(
    rf"{_BEFORE}|{_IDENTITY}|nan['\"]?[\s)]*(?:[=!]=|(?:not )?in\b)|[,\[{{(]\s*[\w.(]*['\"]?nan\b", re.IGNORECASE
)
_QUESTIONS = frozenset(f"{library}.{name}" for library in ("torch", "numpy") for name in ("isnan", "isinf", "isfinite"))
_NAMES = frozenset(["math.nan", "numpy.nan", "numpy.NaN", "numpy.NAN", "torch.nan", "cmath.nan"])


def check(facts: Facts) -> Iterator[Finding]:
    seen = facts.sites.seen
    seen[LOOKS_AT] = 0
    for file in facts.sites.mentioning(WORDS, tests=True):
        if not any(_SUSPECT.search(line) for word in WORDS for line in _around(word, file.text)):
            continue
        for node, context in file.walk.comparisons:
            if _is_tensor_compared(file, node, context):
                seen[LOOKS_AT] += 1
                yield Finding(
                    "A tensor is never the same object as `True` or `False`: this test always has the same result",
                    file.place(node, context).location,
                    help="leave the comparison out: `if torch.isnan(x).any():`",
                )
            for operator, (left, right) in zip(node.ops, pairwise([node.left, *node.comparators]), strict=True):
                outcome = _outcome(file, operator, left, right, context)
                if not outcome:
                    continue
                seen[LOOKS_AT] += 1
                yield Finding(
                    f"NaN equals nothing, not even NaN: this comparison {outcome}",
                    file.place(node, context).location,
                    help="ask `math.isnan(x)`, `torch.isnan(x).any()` or `not math.isfinite(x)`",
                )


def _around(word: str, text: str) -> Iterator[str]:
    """The lines in which the word stands, each with the one above it."""
    place = text.find(word)
    while place >= 0:
        end = text.find("\n", place)
        end = len(text) if end < 0 else end
        above = text.rfind("\n", 0, place)
        yield text[text.rfind("\n", 0, max(above, 0)) + 1 : end]
        place = text.find(word, end)


def _is_tensor_compared(file: File, node: ast.Compare, context: Context) -> bool:
    """`torch.isnan(loss) is True`, `np.isfinite(x).all() is False`."""
    right = node.comparators[0]
    if not isinstance(node.ops[0], ast.Is | ast.IsNot) or not isinstance(right, ast.Constant):
        return False
    asked = before_methods(node.left, ("any", "all"))
    named = file.called(asked, context)
    reduced = asked is not node.left or named.startswith("torch.")
    return isinstance(right.value, bool) and reduced and named in _QUESTIONS


def _outcome(file: File, operator: ast.cmpop, left: ast.expr, right: ast.expr, context: Context) -> str:
    """What the comparison says whatever is compared; "" where it asks for no NaN.

    `is` and `in` find the very object, as `math.nan` where it marks a missing value: not what was computed.
    """
    outcome = "is always true" if isinstance(operator, ast.NotEq | ast.IsNot) else "is always false"
    if isinstance(operator, ast.Eq | ast.NotEq):
        return outcome if _is_nan(file, left) or _is_nan(file, right) else ""
    if isinstance(operator, ast.Is | ast.IsNot):
        other, nan = (left, right) if _is_nan(file, right) else (right, left)
        return outcome if _is_nan(file, nan) and (_is_new(nan) or _is_computed(file, other, context)) else ""
    if isinstance(operator, ast.In | ast.NotIn):
        held = _members(file, right, context)
        sought = _is_nan(file, left) and _is_new(left)
        if sought or (any(_is_nan(file, each) for each in held) and _is_computed(file, left, context)):
            return "never finds one"
    return ""


def _members(file: File, node: ast.expr, context: Context) -> list[ast.expr]:
    """The values written out in a tuple, list or set, also where a name or an attribute of the class holds it."""
    held, _ = file.value(node, context)
    cls = file.class_around(context)
    if isinstance(held, ast.Attribute) and isinstance(held.value, ast.Name) and cls is not None:
        bound = cls.defined.inner.scope.bindings.get(held.attr, [])
        own = held.value.id in ("self", "cls", cls.name) and not cls.attribute(held.attr)
        if own and len(bound) == 1 and isinstance(bound[0].value, ast.expr):
            held = bound[0].value
    return held.elts if isinstance(held, ast.Tuple | ast.List | ast.Set) else []


def _is_new(nan: ast.expr) -> bool:
    """`float("nan")` is another object whenever it is evaluated."""
    return isinstance(nan, ast.Call)


def _is_computed(file: File, node: ast.expr, context: Context) -> bool:
    """A loss, or what `item()` gave."""
    made = [each.node for each in origins(file, node, context)]
    if made and all(isinstance(each, ast.Call) and last_name(each.func) == "item" and not each.args for each in made):
        return True
    return last_name(node).lower().split("_")[-1] == "loss"


def _is_nan(file: File, node: ast.expr) -> bool:
    """`float("nan")`, `math.nan`, `np.nan`, `torch.tensor(float("nan"))`."""
    top: Context = file.walk.module
    if isinstance(node, ast.Call) and len(node.args) == 1 and not node.keywords:
        named = file.resolve(node.func, top)
        given = node.args[0]
        if named == "builtins.float":
            return isinstance(given, ast.Constant) and isinstance(given.value, str) and given.value.lower() == "nan"
        return named in ("torch.tensor", "numpy.array", "numpy.float32") and _is_nan(file, given)
    return isinstance(node, ast.Attribute | ast.Name) and file.resolve(node, top) in _NAMES
