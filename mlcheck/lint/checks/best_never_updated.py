"""best-never-updated: a model is kept when it beats the best score so far, and that score is never written down."""

import ast
import re
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import last_name, walk
from mlcheck.lint.sites import Context, File, Function
from mlcheck.lint.sites.branches import branches
from mlcheck.lint.sites.evaluation.kept_bests import begun_with, name_of_score
from mlcheck.lint.sites.evaluation.raised_already import raised_already
from mlcheck.lint.sites.evaluation.unbeatable import INFINITE, unbeatable, without_margin
from mlcheck.lint.sites.guards import own_attribute
from mlcheck.lint.sites.origins import callers, given

LOOKS_AT = "best score"
WORDS = ("best", "Best")
_BEST = pattern(r"(?:^|_)best(?:_|$)|(?:^|_)best[A-Z]|Best")
_KEEPS = pattern(
    r"\bsave\w*\(|\bcopyfile\(|\bshutil\.copy|state_dict\(|deepcopy\(|\.save_\w+\(|best\w* = [^\n]*\.clone\(\)"
)
_HUGE = 1e5


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    for file in facts.sites.mentioning(["best", "Best"]):
        for test, context in file.walk.comparisons:
            best = _best(test)
            if best is None or not _repeats(file, best, context):
                continue
            facts.sites.seen[LOOKS_AT] += 1
            raised = raised_already(file, test, best, context)
            if raised is not None:
                yield Finding(
                    f"`{ast.unparse(best)}` has taken `{_other(test, best)}` before the two are compared: "
                    "this is never true",
                    file.place(test, context).location,
                    help=f"compare first, and set `{ast.unparse(best)}` below",
                    related=(file.place(raised, context).location,),
                )
            start = unbeatable(file, test, best, context)
            if start is not None and _is_kept(file, test, context, either=True):
                yield Finding(
                    f"`{ast.unparse(best)}` starts at a value that no score beats: nothing is ever kept",
                    start.location,
                    help='start a search for the lowest at `float("inf")`, and one for the highest at `-float("inf")`',
                    related=(file.place(test, context).location,),
                )
            if _never_changes(file, test, best, context) and _is_kept(file, test, context):
                yield Finding(
                    f"`{ast.unparse(best)}` stays what it was at the start: every epoch that beats that is kept, "
                    "not the best one",
                    file.place(test, context).location,
                    help=f"`{ast.unparse(best)} = {_other(test, best)}` where the model is kept",
                )


def _best(test: ast.Compare) -> ast.expr | None:
    """`best_loss` of `loss < best_loss`; the other side is no constant."""
    if len(test.ops) != 1 or not isinstance(test.ops[0], ast.Lt | ast.LtE | ast.Gt | ast.GtE):
        return None
    sides = [without_margin(side) for side in (test.left, test.comparators[0])]
    named = [side for side in sides if _BEST.search(name_of_score(side))]
    others = [side for side in sides if side not in named and not isinstance(side, ast.Constant)]
    return named[0] if len(named) == len(others) == 1 else None


def _other(test: ast.Compare, best: ast.expr) -> str:
    left, right = (without_margin(side) for side in (test.left, test.comparators[0]))
    return ast.unparse(right if left is best else left)


def _is_kept(file: File, test: ast.Compare, context: Context, either: bool = False) -> bool:
    """Whether something is saved where the comparison holds, or where a flag says that it held; or in either arm."""
    function = file.function_around(context)
    nodes = function.nodes if function is not None else walk(file.module.source.tree)
    flags = [node for node in nodes if isinstance(node, ast.Assign) and node.value is test]
    for branch in branches(nodes):
        if branch.test is test or _is_part_of(test, branch.test):
            flags += [
                line for line in branch.held if isinstance(line, ast.Assign) and ast.unparse(line.value) == "True"
            ]
            arms = [branch.held, branch.other] if either else [branch.held]
            if any(_KEEPS.search("\n".join(map(ast.unparse, arm))) for arm in arms):
                return True
            if branch.test is test and any(map(_names_best, branch.held)):
                return True
            if branch.test is test and any(_KEEPS.search(text) for text in _where_told(file, branch.held, function)):
                return True
    names = {target.id for flag in flags for target in flag.targets if isinstance(target, ast.Name)}
    return bool(names) and any(_is_saved_by(other, names) for other in nodes)


def _where_told(file: File, arm: list[ast.stmt], function: Function | None) -> Iterator[str]:
    """What the callers do where the function says that the score was better: `if stopper.update(loss): save(model)`."""
    tells = any(isinstance(line, ast.Return) and ast.unparse(line) == "return True" for line in arm)
    for call in callers(file.sites, function) if function is not None and tells else ():
        nodes = call.function.nodes if call.function is not None else walk(call.file.module.source.tree)
        for branch in branches(nodes):
            if branch.test is call.node:
                yield "\n".join(map(ast.unparse, branch.held))


def _is_part_of(test: ast.Compare, whole: ast.expr) -> bool:
    """`args.save and loss < best_loss`."""
    return isinstance(whole, ast.BoolOp) and isinstance(whole.op, ast.And) and any(p is test for p in whole.values)


def _names_best(line: ast.stmt) -> bool:
    """`best_settings = {"lr": lr}`: what goes with the best score is written down."""
    if not isinstance(line, ast.Assign) or isinstance(line.value, ast.Constant):
        return False
    return any(_BEST.search(last_name(target)) for target in line.targets)


def _is_saved_by(node: ast.AST, flags: set[str]) -> bool:
    """`save_checkpoint(state, is_best)`, `if is_best: torch.save(...)`."""
    if isinstance(node, ast.If):
        return last_name(node.test) in flags and _KEEPS.search("\n".join(map(ast.unparse, node.body))) is not None
    if not isinstance(node, ast.Call) or not last_name(node.func).startswith("save"):
        return False
    given = [*node.args, *(keyword.value for keyword in node.keywords)]
    return any(isinstance(part, ast.Name) and part.id in flags for part in given)


def _repeats(file: File, best: ast.expr, context: Context) -> bool:
    """Whether it is asked again and again: in a loop, in a method, or of a global in a function that a loop calls."""
    function = file.function_around(context)
    if any(outer.kind == "loop" for outer in context.outwards()) or function is None:
        return any(outer.kind == "loop" for outer in context.outwards())
    if function.cls is not None:
        return function.name != "__init__"
    if not isinstance(best, ast.Name) or best.id not in context.scope.globals:
        return False
    return any(call.loops for call in callers(file.sites, function))


def _never_changes(file: File, test: ast.Compare, best: ast.expr, context: Context) -> bool:
    """Whether it is assigned once, before it is first compared, a number that any score beats."""
    function = file.function_around(context)
    name = own_attribute(best, function)
    if name and function is not None and function.cls is not None and function.cls.attribute(name):
        return _attribute_never_changes(file, test, best, context)
    if not isinstance(best, ast.Name):
        begun = begun_with(file, best, context)
        return begun is not None and _is_start(begun.file, test, begun.node, begun.context)
    bound = file.bindings(best.id, context)
    if any(outer.kind == "loop" for each in bound for outer in each.context.outwards()):
        return False
    starts, known = 0, True
    for each in bound:
        if isinstance(each.value, ast.expr) and ast.unparse(each.value) == _other(test, best):
            return False
        if each.kind == "param":
            starts += _is_given_start(file, test, best, context)
        elif each.kind == "value" and isinstance(each.value, ast.expr) and _is_start(file, test, each.value, context):
            starts += 1
        else:
            known &= each.kind == "value" and isinstance(each.value, ast.expr) and _is_restored(each.value, best.id)
    return starts > 0 and known and not _is_set_outside(file, best.id)


def _is_given_start(file: File, test: ast.Compare, best: ast.Name, context: Context) -> bool:
    """Whether all that call the function around hand over a start: `run(epochs, best_loss=inf)`."""
    function = file.function_around(context)
    if (
        function is None
        or best.id not in function.parameters
        or any(call.loops for call in callers(file.sites, function))
    ):
        return False
    handed = list(given(file.sites, function, best.id))
    return bool(handed) and all(_is_start(each.file, test, each.node, each.context) for each in handed)


def _attribute_never_changes(file: File, test: ast.Compare, best: ast.expr, context: Context) -> bool:
    function = file.function_around(context)
    name = own_attribute(best, function)
    if function is None or function.cls is None or not name:
        return False
    sets = function.cls.attribute(name)
    starts = [
        method
        for method, assigned in sets
        if assigned.value is not None and _is_start(file, test, assigned.value, assigned.context)
    ]
    others = [each.value for method, each in sets if method not in starts]
    if len(starts) != 1 or not _runs_first(starts[0]):
        return False
    written = re.compile(
        rf"\.{name}\b[^=\n]*(?<![=!<>])=(?!=)|\b{name}=|(?:setattr|__dict__|vars|update)\b.*['\"]{name}['\"]"
    )
    times = sum(len(written.findall(other.text)) for other in file.sites.mentioning([name], tests=True))
    dynamic = any(word in file.text for word in ("__dict__", "setattr(", "load_state_dict(self, "))
    restored = all(value is not None and _is_restored(value, name) for value in others)
    updated = any(value is not None and ast.unparse(value) == _other(test, best) for value in others)
    return times <= len(sets) and not dynamic and restored and not updated


def _runs_first(method: Function) -> bool:
    """The constructor, or a method that it alone calls."""
    if method.name == "__init__":
        return True
    init = method.cls.methods.get("__init__") if method.cls is not None else None
    called = rf"\.{method.name}\("
    mentioning = method.file.sites.mentioning([method.name], tests=True)
    times = sum(len(re.findall(called, other.text)) for other in mentioning)
    return init is not None and times == 1 and re.search(called, init.text) is not None


def _is_restored(value: ast.expr, name: str) -> bool:
    """`checkpoint["best_acc"]` of a run that is resumed, and `best_acc.to(device)` beneath it."""
    if isinstance(value, ast.Subscript):
        return isinstance(value.slice, ast.Constant) and isinstance(value.slice.value, str)
    moved = value.func if isinstance(value, ast.Call) else None
    return isinstance(moved, ast.Attribute) and moved.attr in ("to", "cuda", "item") and last_name(moved.value) == name


def _is_set_outside(file: File, name: str) -> bool:
    """Whether some file sets a variable of this name in a module: `state.best_acc = acc`."""
    written = re.compile(rf"\.{name}\s*=(?!=)|globals\(\)")
    return any(written.search(other.text) for other in file.sites.mentioning([name], tests=True))


def _is_start(file: File, test: ast.Compare, value: ast.expr, context: Context) -> bool:
    """Nothing, less than nothing, or more than any score: the start of a search, and no threshold."""
    number = file.constant(value, context)
    if isinstance(number, int | float) and not isinstance(number, bool):
        return number == 0 or abs(number) >= _HUGE or number == -1 or _beats_all(test, number)
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mult):
        value = value.right
    named = file.resolve(value, context)
    return named in ("math.inf", "numpy.inf", "torch.inf") or INFINITE.fullmatch(ast.unparse(value)) is not None


def _beats_all(test: ast.Compare, number: float) -> bool:
    """Less than nothing where more is better; a whole, or a hundred of a hundred, where less is."""
    best_is_right = not _BEST.search(name_of_score(without_margin(test.left)))
    more = isinstance(test.ops[0], ast.Gt | ast.GtE) == best_is_right
    return number < 0 if more else number in (1, 100)
