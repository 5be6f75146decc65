"""total-overwritten: a total that is divided by what a loop ran over holds its last batch alone."""

import ast
from collections.abc import Iterator
from functools import partial

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import assigned, is_name, last_name, loads, walk
from mlcheck.lint.sites.blocks import LoopSite, for_loops, straight
from mlcheck.lint.sites.evaluation.begun_anew import begun_anew
from mlcheck.lint.sites.evaluation.doubled import doubled
from mlcheck.lint.sites.evaluation.dropped_sums import dropped_sums, unread_sums
from mlcheck.lint.sites.evaluation.last_batch_metrics import last_alone, metrics_of_last_batch
from mlcheck.lint.sites.evaluation.never_added import never_added
from mlcheck.lint.sites.evaluation.overwritten_results import overwritten_results
from mlcheck.lint.sites.iteration import iteration_of

LOOKS_AT = "loop with a mean behind it"
_ZEROS = ("torch.zeros", "torch.tensor", "numpy.zeros")
_FEW = 3
_SIZES = ("size", "numel", "len")


def check(facts: Facts) -> Iterator[Finding]:
    seen = 0
    for file in facts.sites.mentioning([".eval()", "no_grad", "inference_mode"]):
        for loop in for_loops(file):
            seen += 1
            if (told := last_alone(loop)) is not None:
                yield Finding(
                    f"`{ast.unparse(told)}` is of the last batch alone: every batch before it overwrote the name",
                    file.place(told, loop.context).location,
                    help="add up over the batches, and divide by their number behind the loop",
                    related=(file.place(loop.node, loop.context).location,),
                )
    for alone in metrics_of_last_batch(facts.sites):
        file, context = alone.loop.file, alone.loop.context
        yield Finding(
            f"`{alone.names[0]}` and `{alone.names[1]}` are of the last batch alone: every batch before it "
            "overwrote them",
            file.place(alone.metric, context).location,
            help="gather them in lists, and compute the metric of all that was gathered",
            related=(file.place(alone.line, context).location,),
        )
    yield from _lost_results(facts)
    for loop, sum_, thrown in dropped_sums(facts.sites):
        yield Finding(
            f"What the loop adds up in `{ast.unparse(sum_.target)}` is thrown away here for its last batch",
            loop.file.place(thrown, loop.context).location,
            help=f"divide the sum: `{ast.unparse(sum_.target)} /= ...`",
            related=(loop.file.place(sum_, loop.context).location,),
        )
    yield from _never_told(facts)
    for file in facts.sites.mentioning(["+", ".append("]):
        for loop in for_loops(file) if "torch" in file.text else ():
            yield from _begun_anew(loop)
    for place, name in doubled(facts.sites):
        yield Finding(
            f"`{name}` is added to itself: what the loop was to add up is overwritten in each turn",
            place.location,
            help="give what one item adds a name of its own",
        )
    for file in facts.sites.mentioning([" / "]):
        for loop in for_loops(file):
            added = _added(loop.node)
            for mean, total, count in _means(loop):
                seen += 1
                whole = count in added if isinstance(count, str) else _is_of_all(count, loop)
                if whole and (line := _overwritten(loop, total)) is not None:
                    yield _finding(loop, line, mean, total)
                elif total in added and isinstance(count, str) and (line := _overwritten(loop, count)) is not None:
                    if _is_size(line.value):
                        yield _finding(loop, line, mean, count)
    facts.sites.seen[LOOKS_AT] = seen


def _never_told(facts: Facts) -> Iterator[Finding]:
    """Totals that nothing is added to, and totals that nothing reads."""
    for lost in never_added(facts.sites):
        said, needed = f"`{lost.name}` is always 0 here: nothing is ever added to it", f"`{lost.name} += ...`"
        yield Finding(said, lost.mean.location, help=needed, related=(lost.begun.location,))
    for loop, gathered, told, kept in unread_sums(facts.sites):
        yield Finding(
            f"`{ast.unparse(told.left)}` is of the last batch alone, and nothing reads the sum of all, `{kept}`",
            loop.file.place(told, loop.context).location,
            help=f"divide the sum: `{kept}`",
            related=(loop.file.place(gathered, loop.context).location,),
        )


def _lost_results(facts: Facts) -> Iterator[Finding]:
    """What each turn overwrites that was to gather all, and what each turn divides."""
    for lost in overwritten_results(facts.sites):
        what = (
            f"`{lost.name}` is divided in every turn, and what follows is added to that: it is the mean of nothing"
            if lost.divided
            else f"Every turn overwrites `{lost.name}`: what is returned is of the last turn alone"
        )
        yield Finding(
            what,
            lost.loop.file.place(lost.line, lost.loop.context).location,
            help="divide once, behind the loop" if lost.divided else f"gather: `{lost.name}.update(...)`",
            related=(lost.loop.file.place(lost.loop.node, lost.loop.context).location,),
        )


def _begun_anew(loop: LoopSite) -> Iterator[Finding]:
    """`correct = 0` inside of the loop over the batches that counts in it."""
    for found in begun_anew(loop, partial(_means_of_all, loop)):
        yield Finding(
            f"`{found.name}` is reset in every iteration of the loop: where it is read, it covers the last one alone",
            loop.file.place(found.begun, loop.context).location,
            help=f"move `{ast.unparse(found.begun)}` before the loop",
            related=(loop.file.place(found.read, loop.context).location,),
        )


def _means_of_all(loop: LoopSite) -> dict[str, ast.BinOp]:
    """The divisions behind the loop by what all its turns counted, by the names of their totals."""
    added = _added(loop.node)
    return {
        total: mean
        for mean, total, count in _means(loop)
        if (count in added - {total} if isinstance(count, str) else _is_of_all(count, loop))
    }


def _finding(loop: LoopSite, line: ast.Assign, mean: ast.AST, name: str) -> Finding:
    return Finding(
        f"Every batch overwrites `{name}`: the mean behind the loop is of the last batch alone",
        loop.file.place(line, loop.context).location,
        help=f"add up: `{name} += ...`",
        related=(loop.file.place(mean, loop.context).location,),
    )


def _means(loop: LoopSite) -> Iterator[tuple[ast.BinOp, str, str | ast.expr]]:
    """`total / count` behind the loop: the division, the total, and the count by its name or as `len(...)`."""
    for statement in loop.after:
        for node in walk(statement):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
                total, count = _root(node.left), node.right
                if total:
                    yield node, total, _root(count) or count
        if isinstance(statement, ast.For | ast.While):
            return


def _root(node: ast.expr) -> str:
    """`total` of `100.0 * total.item()` and of `float(total)`."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.BinOp(op=ast.Mult(), left=ast.Constant(), right=inner):
            return _root(inner)
        case ast.BinOp(op=ast.Mult(), left=inner, right=ast.Constant()):
            return _root(inner)
        case ast.Call(func=ast.Attribute(value=inner, attr="item" | "float" | "double"), args=[]):
            return _root(inner)
        case ast.Call(func=ast.Name(id="float"), args=[inner]):
            return _root(inner)
    return ""


def _added(loop: ast.For) -> set[str]:
    """The variables that the loop adds to."""
    return {
        node.target.id
        for node in walk(loop)
        if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add) and isinstance(node.target, ast.Name)
    }


def _is_of_all(count: ast.expr, loop: LoopSite) -> bool:
    """`len(loader)` or `len(loader.dataset)` behind `for batch in loader`."""
    if not isinstance(count, ast.Call) or last_name(count.func) != "len" or len(count.args) != 1:
        return False
    counted = count.args[0]
    if isinstance(counted, ast.Attribute) and counted.attr == "dataset":
        counted = counted.value
    text = ast.unparse(counted)
    return any(
        text in _carried(loop, node) for node in walk(loop.node.iter) if isinstance(node, ast.Name | ast.Attribute)
    )


def _carried(loop: LoopSite, node: ast.expr) -> tuple[str, ...]:
    """What a loop goes through by its name, and the data that it carries where it is a loader made here."""
    made, context = loop.file.value(node, loop.context)
    if isinstance(made, ast.Call) and made.args and loop.file.called(made, context) == "torch.utils.data.DataLoader":
        return ast.unparse(node), ast.unparse(made.args[0])
    return (ast.unparse(node),)


def _overwritten(loop: LoopSite, name: str) -> ast.Assign | None:
    """The assignment in the loop that throws away what the turns before it left in a variable that began at zero."""
    if not any(_begins_at_zero(loop, statement, name) for statement in loop.before) or loads(loop.node, name):
        return None
    stores = [node for node in walk(loop.node) if is_name(node, name) and not isinstance(node.ctx, ast.Load)]
    lines = [node for node in straight(loop.node.body) if isinstance(node, ast.Assign) and node.targets[0] in stores]
    if len(stores) != 1 or len(lines) != 1 or len(lines[0].targets) != 1:
        return None
    value, own = _told(loop.node, lines[0].value), _of_turn(loop.node)
    return lines[0] if _is_of_batch(lines[0].value, own) and _is_of_batch(value, own) else None


def _told(loop: ast.For, value: ast.expr) -> ast.expr:
    """`meter.update(x)` of `made`, where the loop makes it so, in a line or two: a name is what it was assigned."""
    for _ in range(_FEW):
        bare = value.args[0] if isinstance(value, ast.Call) and is_name(value.func, "float") and value.args else value
        name = bare.id if isinstance(bare, ast.Name) else ""
        lines = [node for node in walk(loop) if isinstance(node, ast.Assign) and node.lineno < value.lineno]
        made = [given for line in lines for target, given in assigned(line) if is_name(target, name)]
        if not made:
            break
        value = made[-1]
    return value


def _of_turn(loop: ast.For) -> set[str]:
    """The names of what the turn brought and of what is computed from it; its number counts all turns before."""
    turn = iteration_of(loop)
    counts = isinstance(turn.over, ast.Call) and last_name(turn.over.func) in ("enumerate", "trange", "range")
    brought = ast.Tuple([]) if counts else turn.brought
    names = {node.id for node in walk(brought) if isinstance(node, ast.Name)}
    lines = [node for node in walk(loop) if isinstance(node, ast.Assign)]
    for line in sorted(lines, key=lambda line: line.lineno):
        if any(loads(line.value, name) for name in names):
            names |= {n.id for target in line.targets for n in walk(target) if isinstance(n, ast.Name)}
    return names - _added(loop)


def _begins_at_zero(loop: LoopSite, statement: ast.stmt, name: str) -> bool:
    if not isinstance(statement, ast.Assign):
        return False
    for target, value in assigned(statement):
        if is_name(target, name):
            if isinstance(value, ast.Constant):
                return type(value.value) in (int, float) and value.value == 0
            return loop.file.called(value, loop.context) in _ZEROS
    return False


def _is_of_batch(value: ast.expr, own: set[str]) -> bool:
    """Whether the value is computed from what this turn brought, and is not asked of something that may keep count."""
    node = value
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.args:
        node = node.func.value
    if isinstance(node, ast.BinOp):
        return _is_of_batch(node.left, own) or _is_of_batch(node.right, own)
    if isinstance(node, ast.Call):
        kept = isinstance(node.func, ast.Attribute) and last_name(node.func.value) not in ("torch", "F", *own)
        if kept and not any(word in last_name(node.func) for word in ("loss", "criterion")):
            return False
        if isinstance(node.func, ast.Name) and not any(word in node.func.id for word in ("loss", "criterion", "len")):
            return False
    return any(isinstance(inner, ast.Name) and inner.id in own for inner in walk(node))


def _is_size(value: ast.expr) -> bool:
    """`labels.size(0)`, `len(labels)`, `labels.shape[0]`, `labels.numel()`."""
    if isinstance(value, ast.Subscript) and isinstance(value.value, ast.Attribute):
        return value.value.attr == "shape"
    return isinstance(value, ast.Call) and last_name(value.func) in _SIZES
