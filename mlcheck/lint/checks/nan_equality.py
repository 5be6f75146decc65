"""nan-equality: a comparison with NaN, which is equal to nothing."""

import ast
import re
from collections.abc import Iterator
from itertools import pairwise

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import walk
from mlcheck.lint.sites import Context, File

LOOKS_AT = "comparison with NaN"
_SUSPECT = re.compile(r"[=!]=[\s(]*(?:[\w.]+\()*[\w.]*['\"]?nan\b|nan['\"]?[\s)]*[=!]=", re.IGNORECASE)
_NAMES = frozenset(["math.nan", "numpy.nan", "numpy.NaN", "numpy.NAN", "torch.nan", "cmath.nan"])


def check(facts: Facts) -> Iterator[Finding]:
    seen = facts.sites.seen
    seen[LOOKS_AT] = 0
    for file in facts.sites.mentioning(["nan", "NaN", "NAN"], tests=True):
        if not _SUSPECT.search(file.text):
            continue
        for node in walk(file.module.source.tree):
            if not isinstance(node, ast.Compare):
                continue
            for operator, operand in zip(node.ops, pairwise([node.left, *node.comparators]), strict=True):
                if not isinstance(operator, ast.Eq | ast.NotEq) or not any(_is_nan(file, side) for side in operand):
                    continue
                seen[LOOKS_AT] += 1
                never = isinstance(operator, ast.Eq)
                yield Finding(
                    f"NaN equals nothing, not even NaN: this comparison is always {'false' if never else 'true'}",
                    file.place(node, file.walk.module).location,
                    help="ask `math.isnan(x)`, `torch.isnan(x).any()` or `not math.isfinite(x)`",
                )


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
