"""How many batches a loop over a loader has, where the program writes out all that it takes to tell."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Place
from mlcheck.lint.nodes import last_name, walk
from mlcheck.lint.sites.data.loaders import LOADER
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.iteration import counter_of, iteration_of
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.model import OPEN, UNKNOWN, Call
from mlcheck.lint.sites.origins import Origin, callers, origins
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.scopes import Context
from mlcheck.lint.sites.training.counting import branches

_NAME = pattern(r"(?<![\w.])[A-Za-z_]\w*")
_DRAWN = {"torch.randint": 2, **{f"torch.{name}": 0 for name in ("randn", "rand", "zeros", "ones", "arange")}}
"""What draws a tensor, and which of its arguments is the size."""


def ends_with_a_step(sites: Sites, step: Place) -> bool:
    """Whether the number of batches is known, and a multiple of that after which the optimizer steps.

    Or the loop passes over those that are left: `step = i // every`, and `if step >= steps: continue`.
    """
    call = sites.call_at(step)
    turn = _turn(call) if call is not None else None
    loop = turn.loops[0] if turn is not None and turn.loops else None
    if call is None or turn is None or loop is None or not isinstance(loop.node, ast.For):
        return False
    file = call.file
    if _leaves_the_rest(loop.node):
        return True
    tests = [source(file, branch.test, branch.context) for branch in branches(call.context, loop)]
    tests += [(test, call.context) for test in _passed_over(loop.node, turn.node)]
    remainders = [
        (part, context)
        for test, context in tests
        for part in walk(test)
        if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Mod)
    ]
    if len(remainders) == 1 and _is_multiple(turn, loop.node, _as_given(turn, call, remainders[0][0].right)):
        return True
    periods = [_number(file, part.right, context) for part, context in remainders]
    count = _batches(turn.file, loop.node.iter, turn.context) if len(periods) == 1 else None
    return count is not None and periods[0] is not None and periods[0] > 0 and count % periods[0] == 0


def _turn(call: Call) -> Call:
    """The call itself, where it stands in a loop; else the only call of the function that it stands in."""
    above = list(callers(call.file.sites, call.function)) if call.function is not None and not call.loops else []
    return above[0] if len(above) == 1 else call


def _as_given(turn: Call, call: Call, period: ast.expr) -> str:
    """A period as the caller writes it: each parameter by what is given for it."""
    text = ast.unparse(period)
    if turn is call or call.function is None:
        return text
    names = [name for name in call.function.parameters if name != call.function.receiver]
    given = {name: turn.argument(name, number) for number, name in enumerate(names)}
    words = {name: ast.unparse(node) for name, node in given.items() if node is not None and node is not OPEN}
    return _NAME.sub(lambda found: words.get(found[0], found[0]), text)


def _is_multiple(turn: Call, loop: ast.For, period: str) -> bool:
    """`for i in range(every * steps)`, `islice(loader, every * steps)`, and `if i >= every * steps: break`."""
    over = iteration_of(loop).over
    limits = list(_limits(loop))
    if isinstance(over, ast.Call) and over.args and last_name(over.func) in ("range", "trange"):
        limits.append(over.args[0])
    elif isinstance(over, ast.Call) and len(over.args) == 2 and last_name(over.func) == "islice":
        limits.append(over.args[1])
    for limit in limits:
        made = turn.file.value(source(turn.file, limit, turn.context)[0], turn.context)[0]
        match made:
            case ast.BinOp(op=ast.Mult()) if period in (ast.unparse(made.left), ast.unparse(made.right)):
                return True
            case ast.BinOp(op=ast.Sub(), right=ast.BinOp(op=ast.Mod()) as rest) if ast.unparse(rest.right) == period:
                return True
    return False


def _limits(loop: ast.For) -> Iterator[ast.expr]:
    """`limit` of `if i >= limit: break`, where `i` counts the turns from 0; of `if i > limit`, where from 1."""
    counter, start = counter_of(loop) or ("", 0)
    past = ast.GtE | ast.Eq if start == 0 else ast.Gt
    for line in loop.body:
        match line:
            case ast.If(
                test=ast.Compare(left=ast.Name(id=name), ops=[order], comparators=[limit]),
                body=[*_, ast.Break() | ast.Continue()],
            ) if name == counter and isinstance(order, past):
                yield limit


def _passed_over(loop: ast.For, step: ast.Call) -> Iterator[ast.expr]:
    """`(i + 1) % every` of `if (i + 1) % every: continue`, above the step."""
    for line in loop.body:
        if isinstance(line, ast.If) and isinstance(line.body[-1], ast.Continue) and line.lineno < step.lineno:
            yield line.test


def _leaves_the_rest(loop: ast.For) -> bool:
    counted = {
        ast.unparse(line.targets[0])
        for line in loop.body
        if isinstance(line, ast.Assign)
        and isinstance(line.value, ast.BinOp)
        and isinstance(line.value.op, ast.FloorDiv)
    }
    return any(
        isinstance(line, ast.If)
        and isinstance(line.body[-1], ast.Continue | ast.Break)
        and isinstance(line.test, ast.Compare)
        and isinstance(line.test.ops[0], ast.Gt | ast.GtE | ast.Eq)
        and ast.unparse(line.test.left) in counted
        for line in loop.body
    )


def _batches(file: File, over: ast.expr, context: Context) -> int | None:
    """The length of the loader, or of all loaders that it may be, where they are equally long."""
    found = {_of_loader(origin) for origin in origins(file, over, context) if not isinstance(origin.node, ast.Constant)}
    return found.pop() if len(found) == 1 else None


def _of_loader(origin: Origin) -> int | None:
    if origin.name != LOADER or not isinstance(origin.node, ast.Call):
        return None
    sizes = _sizes(Call(origin.file, origin.node, origin.context))
    if sizes is None:
        return None
    rows, batch, drops = sizes
    return rows // batch if drops else -(-rows // batch)


def size_of_last(call: Call) -> int | None:
    """How many samples the last batch of a loader has; None where that cannot be told."""
    sizes = _sizes(call)
    if sizes is None:
        return None
    rows, batch, drops = sizes
    return batch if drops else rows % batch or batch


def _sizes(call: Call) -> tuple[int, int, bool] | None:
    """The samples of a loader, those in a batch, and whether it drops the rest."""
    data, size = call.argument("dataset", 0), call.argument("batch_size", 1)
    rows = _rows(call.file, data, call.context) if data is not None else None
    batch = 1 if size is None else _number(call.file, size, call.context)
    drops = call.constant("drop_last", 8, default=False)
    if rows is None or not batch or drops not in (True, False) or call.argument("batch_sampler", 4) is not None:
        return None
    return rows, batch, drops is True


def _rows(file: File, data: ast.expr, context: Context) -> int | None:
    """The number of samples of `TensorDataset(torch.randn(256, 5), ...)`, `[draw(i) for i in range(256)]`."""
    found: set[int | None] = set()
    for origin in origins(file, data, context):
        match origin.node:
            case ast.Call(args=[_, *_] as tensors) if origin.name == "torch.utils.data.TensorDataset":
                found |= {_drawn(each) for each in origins(origin.file, tensors[0], origin.context)}
            case ast.ListComp(generators=[ast.comprehension(iter=ast.Call(args=[number]) as counted, ifs=[])]):
                counts = origin.file.called(counted, origin.context) == "builtins.range"
                found.add(_number(origin.file, number, origin.context) if counts else None)
            case _:
                found.add(None)
    return found.pop() if len(found) == 1 else None


def _drawn(origin: Origin) -> int | None:
    """The first of the sizes of `torch.randn(256, 5)`, `torch.zeros((256, 5))`, `torch.randint(0, 9, (256, 5))`."""
    if origin.name not in _DRAWN or not isinstance(origin.node, ast.Call):
        return None
    call = Call(origin.file, origin.node, origin.context)
    size = call.argument("size", _DRAWN[origin.name])
    if isinstance(size, ast.Tuple | ast.List) and size.elts:
        size = size.elts[0]
    return _number(origin.file, size, origin.context) if size is not None else None


def _number(file: File, node: ast.expr, context: Context) -> int | None:
    """The whole number that an expression comes to, wherever it is written out; None where it may be several."""
    found = {origin.file.constant(origin.node, origin.context) for origin in origins(file, node, context)}
    only = found.pop() if len(found) == 1 else UNKNOWN
    return only if isinstance(only, int) and not isinstance(only, bool) else None
