"""best-never-updated: a model is kept when it beats the best score so far, and that score is never written down."""

import ast
import re
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import last_name, walk
from mlcheck.lint.sites import Context, File
from mlcheck.lint.sites.guards import own_attribute

LOOKS_AT = "best score"
WORDS = ("best", "Best")
_BEST = pattern(r"(?:^|_)best(?:_|$)|(?:^|_)best[A-Z]|Best")
_KEEPS = pattern(r"\bsave\w*\(|state_dict\(|deepcopy\(|\.save_\w+\(")
_HUGE = 1e5
_INFINITE = pattern(r"-?(?:float\(['\"][+-]?inf(?:inity)?['\"]\)|(?:np|numpy|math|torch)\.inf)")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    for file in facts.sites.mentioning(["best", "Best"]):
        for test, context in file.walk.comparisons:
            best = _best(test)
            choice = next((node for node in _ifs(file, context) if node.test is test), None)
            if best is None or choice is None or not _repeats(file, context):
                continue
            facts.sites.seen[LOOKS_AT] += 1
            body = "\n".join(map(ast.unparse, choice.body))
            if _KEEPS.search(body) and _never_changes(file, best, context):
                yield Finding(
                    f"`{ast.unparse(best)}` stays what it was at the start: every epoch that beats that is kept, "
                    "not the best one",
                    file.place(choice.test, context).location,
                    help=f"`{ast.unparse(best)} = {_other(test, best)}` where the model is kept",
                )


def _best(test: ast.Compare) -> ast.expr | None:
    """`best_loss` of `loss < best_loss`; the other side is no constant."""
    if len(test.ops) != 1 or not isinstance(test.ops[0], ast.Lt | ast.LtE | ast.Gt | ast.GtE):
        return None
    sides = [test.left, test.comparators[0]]
    named = [side for side in sides if _BEST.search(last_name(side))]
    others = [side for side in sides if side not in named and not isinstance(side, ast.Constant)]
    return named[0] if len(named) == len(others) == 1 else None


def _other(test: ast.Compare, best: ast.expr) -> str:
    return ast.unparse(test.comparators[0] if test.left is best else test.left)


def _ifs(file: File, context: Context) -> Iterator[ast.If]:
    function = file.function_around(context)
    nodes = function.nodes if function is not None else walk(file.module.source.tree)
    return (node for node in nodes if isinstance(node, ast.If))


def _repeats(file: File, context: Context) -> bool:
    """Whether it is asked again and again: in a loop, or in a method."""
    function = file.function_around(context)
    return any(outer.kind == "loop" for outer in context.outwards()) or (
        function is not None and function.cls is not None and function.name != "__init__"
    )


def _never_changes(file: File, best: ast.expr, context: Context) -> bool:
    """Whether it is assigned once, before it is first compared, a number that any score beats."""
    if isinstance(best, ast.Name):
        bound = file.bindings(best.id, context)
        value = bound[0].value if len(bound) == 1 and bound[0].kind == "value" else None
        inside = bound and any(outer.kind == "loop" for outer in bound[0].context.outwards())
        return isinstance(value, ast.expr) and not inside and _is_start(file, value, context)
    function = file.function_around(context)
    name = own_attribute(best, function)
    if function is None or function.cls is None or not name:
        return False
    sets = function.cls.attribute(name)
    written = re.compile(rf"\.{name}\b[^=\n]*(?<![=!<>])=(?!=)|\b{name}=|['\"]{name}['\"]")
    times = sum(len(written.findall(other.text)) for other in file.sites.mentioning([name], tests=True))
    start = sets[0][1].value if len(sets) == 1 and sets[0][0].name == "__init__" else None
    dynamic = any(word in file.text for word in ("__dict__", "setattr(", "load_state_dict(self, "))
    return start is not None and times <= 1 and not dynamic and _is_start(file, start, sets[0][1].context)


def _is_start(file: File, value: ast.expr, context: Context) -> bool:
    """Nothing, less than nothing, or more than any score: the start of a search, and no threshold."""
    number = file.constant(value, context)
    if isinstance(number, int | float) and not isinstance(number, bool):
        return number in (0, -1) or abs(number) >= _HUGE
    return _INFINITE.fullmatch(ast.unparse(value)) is not None
