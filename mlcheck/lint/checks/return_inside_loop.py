"""return-inside-loop: a loop that adds up, or trains, returns at the end of its first turn."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import assigned, is_name, last_name, loads, own_nodes, walk
from mlcheck.lint.sites.blocks import LoopSite, blocks, for_loops, straight
from mlcheck.lint.sites.data.loaders import ITERABLE

LOOKS_AT = "loop"
_PARTS = frozenset(f"{begin}{what}" for begin in ("", "named_") for what in ("modules", "children", "parameters"))
_OF_ALL = frozenset(["apply", "train", "eval", "to", "cuda", "cpu", "half", "float", "requires_grad_", "zero_grad"])
_OF_ONE = frozenset(
    [
        *("one", "once", "single", "first", "step", "batch", "peek", "smoke", "sanity", "check", "dry", "debug"),
        *("iter", "iteration", "overfit", "warmup", "warm", "bench", "benchmark"),
    ]
)


def check(facts: Facts) -> Iterator[Finding]:
    seen = 0
    for file in facts.sites.mentioning(["return", "yield"]):
        if "torch" not in file.text:
            continue
        for loop in for_loops(file):
            seen += 1
            last = list(straight(loop.node.body))[-1]
            if isinstance(last, ast.Return) and last.value is not None and _runs_once(loop.node):
                if (what := _meant_for_all(loop, last)) is not None:
                    yield Finding(
                        f"This returns in the first iteration of the loop, which {what}",
                        file.place(last, loop.context).location,
                        help="return after the loop",
                        related=(file.place(loop.node, loop.context).location,),
                    )
            elif _ends_here(last) and (_gives_samples(loop) or _cuts_range(loop.node)):
                yield Finding(
                    "This ends the data in the first iteration of the loop: what the others would give is never seen",
                    file.place(last, loop.context).location,
                    help="leave it out: a generator ends with its loop",
                    related=(file.place(loop.node, loop.context).location,),
                )
    facts.sites.seen[LOOKS_AT] = seen


def _ends_here(line: ast.stmt) -> bool:
    return isinstance(line, ast.Break) or (isinstance(line, ast.Return) and line.value is None)


def _cuts_range(loop: ast.For) -> bool:
    """`for start in range(0, len(x), size): yield x[start : start + size]`: no such range is asked for one turn."""
    match loop:
        case ast.For(iter=ast.Call(func=ast.Name(id="range"), args=[_, _, *_]), body=[*lines, _], orelse=[]):
            gives = any(isinstance(line, ast.Expr) and isinstance(line.value, ast.Yield) for line in lines)
            return gives and not _skips(lines)
    return False


def _gives_samples(loop: LoopSite) -> bool:
    """Whether each turn gives samples of a data set that is gone through once: `__iter__`, with no turn skipped."""
    function = loop.file.function_around(loop.context)
    cls = function.cls if function is not None and function.name == "__iter__" else None
    once = not loop.node.orelse and not any(isinstance(node, ast.Try) for node in walk(loop.node))
    gives = any(isinstance(node, ast.Yield | ast.YieldFrom) for node in walk(loop.node))
    return cls is not None and ITERABLE in cls.libraries and once and gives and not _skips(loop.node.body)


def _runs_once(loop: ast.For) -> bool:
    """Whether each turn of the loop that comes to its last line is the last one.

    The first turn of `os.walk` is the folder itself: those that stop there want no folders inside it.
    """
    if isinstance(loop.iter, ast.Call) and last_name(loop.iter.func) == "walk":
        return False
    return not loop.orelse and not any(isinstance(node, ast.Try | ast.Yield) for node in walk(loop))


def _skips(block: list[ast.stmt]) -> bool:
    """Whether a turn may end before its last line; `if few: ... else: break` only limits how many there are."""
    for line in block:
        if isinstance(line, ast.Continue | ast.Break):
            return True
        inner = [line.orelse] if isinstance(line, ast.For | ast.While) else list(blocks(line))
        if isinstance(line, ast.If) and line.orelse:
            inner = [arm for arm in inner if not _only_breaks(arm)]
        if any(map(_skips, inner)):
            return True
    return False


def _only_breaks(arm: list[ast.stmt]) -> bool:
    return len(arm) == 1 and isinstance(arm[0], ast.Break)


def _meant_for_all(loop: LoopSite, last: ast.Return) -> str | None:
    """What the loop does that only makes sense in several turns; where turns are skipped, one sign is not enough."""
    text = loop.file.module.text_of(loop.node)
    trains = ".backward(" in text and ".step(" in text and not _is_for_one(loop.scope)
    if _changes_parts(loop.node, last):
        return "changes the parts of a network: all but the first stay as they are"
    name = _carried(loop, last)
    if _skips(loop.node.body) and not (trains and name):
        return None
    if trains:
        return "trains: the rest of the batches is never seen"
    return f"goes on from `{name}`: the other turns are never taken" if name else None


def _changes_parts(loop: ast.For, last: ast.Return) -> bool:
    """`for part in self.modules(): nn.init.normal_(part.weight)`, and what is returned is none of the parts."""
    over = loop.iter.func if isinstance(loop.iter, ast.Call) else None
    if not isinstance(over, ast.Attribute) or over.attr not in _PARTS or _skips(loop.body):
        return False
    parts = {part.id for part in walk(loop.target) if isinstance(part, ast.Name)}
    if any(loads(last, name) for name in parts):
        return False
    whole = over.attr.endswith("modules")  # the first of them is the network, with all its parts
    for inner in own_nodes(loop):
        if not whole and isinstance(inner, ast.For) and any(loads(inner.iter, name) for name in parts):
            parts |= {part.id for part in walk(inner.target) if isinstance(part, ast.Name)}
    return any(_acts_on(node, name, whole) for node in own_nodes(loop) for name in parts)


def _acts_on(node: ast.AST, name: str, whole: bool) -> bool:
    """`part.bias = None`, `part.reset_parameters()` for nothing but what it does, `nn.init.zeros_(part.weight)`."""
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
        return loads(node.value, name)
    if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Call):
        return False
    func = node.value.func
    if isinstance(func, ast.Attribute) and loads(func.value, name):
        return not (whole and is_name(func.value, name) and func.attr in _OF_ALL)
    return last_name(func).endswith("_") and loads(node.value, name)


def _carried(loop: LoopSite, last: ast.Return) -> str:
    """A variable that is begun before the loop, goes on in its turns and is returned; "" where there is none."""
    assert last.value is not None
    begun = {
        target.id
        for statement in loop.before
        if isinstance(statement, ast.Assign)
        for target, _ in assigned(statement)
        if isinstance(target, ast.Name)
    }
    if isinstance(loop.scope, ast.FunctionDef):
        begun |= {argument.arg for argument in loop.scope.args.args}
    turn = {part.id for part in walk(loop.node.target) if isinstance(part, ast.Name)}
    told = [last.value, *_made_last(loop.node, last.value)]
    for name in sorted(begun - turn):
        if any(loads(each, name) for each in told) and any(_goes_on(node, name) for node in own_nodes(loop.node)):
            return name
    return ""


def _made_last(loop: ast.For, value: ast.expr) -> list[ast.expr]:
    """`correct / total` of `accuracy = correct / total`, `return accuracy`."""
    lines = [line for line in loop.body if isinstance(line, ast.Assign)]
    pairs = [pair for line in lines for pair in assigned(line)]
    return [made for target, made in pairs if isinstance(target, ast.Name) and loads(value, target.id)]


def _is_for_one(scope: ast.AST) -> bool:
    """`train_one_batch`, `smoke_test`: a function that says it looks no further than the first."""
    return isinstance(scope, ast.FunctionDef) and not _OF_ONE.isdisjoint(scope.name.lower().split("_"))


def _goes_on(node: ast.AST, name: str) -> bool:
    """`total += ...`, `found.append(...)`, `x = layer(x)`."""
    match node:
        case ast.AugAssign(target=ast.Name(id=target)):
            return target == name
        case ast.Call(func=ast.Attribute(value=ast.Name(id=target), attr="append" | "extend")):
            return target == name
        case ast.Assign(targets=[ast.Name(id=target)], value=value):
            return target == name and isinstance(value, ast.Call | ast.BinOp) and loads(value, name)
    return False
