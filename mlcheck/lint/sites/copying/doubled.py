"""Two parts of one line, or of two lines, that are meant to differ and are written alike."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import is_name, last_name, loads, walk
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.latest import latest, source
from mlcheck.lint.sites.lines import Lines
from mlcheck.lint.sites.scopes import Context

_DRAWS = pattern(r"rand|normal|sample|uniform|choice|draw|noise")
_VIEWS = frozenset(["t", "view", "reshape", "float", "long", "flatten", "transpose", "squeeze", "to", "detach"])
_LOSSES = ("loss", "cross_entropy", "kl_div", "with_logits")
_WAVES = frozenset(["sin", "cos"])


def mixed_with_itself(lines: Lines) -> Iterator[tuple[ast.BinOp, str]]:
    """`lam * a + (1 - lam) * b`, where `a` and `b` are one: it is `a`."""
    for node in lines.all(ast.BinOp):
        if not isinstance(node.op, ast.Add):
            continue
        sides = _product(node.left), _product(node.right)
        for (weight, one), (rest, other) in ((left, right) for left in sides[0] for right in sides[1]):
            if _is_rest(rest, weight) or _is_rest(weight, rest):
                if _is_one(lines.file, one, other, lines.context):
                    yield node, ast.unparse(one)
                    break


def _product(node: ast.expr) -> list[tuple[ast.expr, ast.expr]]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        return [(node.left, node.right), (node.right, node.left)]
    return []


def _is_rest(node: ast.expr, weight: ast.expr) -> bool:
    """`1 - weight`."""
    match node:
        case ast.BinOp(left=ast.Constant(value=1 | 1.0), op=ast.Sub(), right=right):
            return ast.unparse(right) == ast.unparse(weight)
    return False


def _is_one(file: File, one: ast.expr, other: ast.expr, context: Context) -> bool:
    if ast.unparse(one) == ast.unparse(other):
        drawn = any(isinstance(node, ast.Call) and _DRAWS.search(last_name(node.func)) for node in walk(one))
        return not isinstance(one, ast.Constant) and not drawn
    if not isinstance(one, ast.Name) or not isinstance(other, ast.Name):
        return False
    first, second = file.value(one, context)[0], file.value(other, context)[0]
    if isinstance(first, ast.Name) and isinstance(second, ast.Name):
        return first.id == second.id and len(file.bindings(first.id, context)) == 1
    return first is second


def same_loss_twice(lines: Lines) -> Iterator[tuple[ast.BinOp, ast.expr, ast.expr]]:
    """`first + second`, where both are `cross_entropy(scores, target)`: the sum, and both calls."""
    for node in lines.all(ast.BinOp):
        if isinstance(node.op, ast.Add):
            (one, where), (other, beside) = (source(lines.file, s, lines.context) for s in (node.left, node.right))
            if one is not other and isinstance(one, ast.Call) and ast.unparse(one) == ast.unparse(other):
                if _is_plain_loss(lines.file, one, where) and _given_the_same(lines.file, one, other, where, beside):
                    yield node, one, other


def _is_plain_loss(file: File, call: ast.Call, context: Context) -> bool:
    """Whether a loss of PyTorch is called on what is there already: a model that is called anew may draw anew."""
    made, where = file.value(call.func, context)
    name = file.called(call, context) or file.called(made, where)
    inner = [part for arg in call.args for part in walk(arg) if isinstance(part, ast.Call)]
    kept = all(isinstance(part.func, ast.Attribute) and part.func.attr in _VIEWS for part in inner)
    return name.startswith("torch.nn.") and name.lower().endswith(_LOSSES) and kept


def _given_the_same(file: File, one: ast.expr, other: ast.expr, where: Context, beside: Context) -> bool:
    """Whether no name in the two has been given another value between them."""
    names = [[part for part in walk(call) if isinstance(part, ast.Name)] for call in (one, other)]
    pairs = zip(*names, strict=True)
    return all(latest(file, first, where) is latest(file, second, beside) for first, second in pairs)


def both_of_one(lines: Lines) -> Iterator[tuple[ast.Assign, str, str]]:
    """`h, c = h[:, back], h[:, back]` beneath `out, (h, c) = rnn(x)`: the line, what it reads, and what it leaves."""
    for line in lines.all(ast.Assign):
        match line:
            case ast.Assign(
                targets=[ast.Tuple(elts=[ast.Name(id=first), ast.Name(id=second)])], value=ast.Tuple(elts=[one, other])
            ) if first != second and ast.unparse(one) == ast.unparse(other):
                reads = [name for name in (first, second) if loads(one, name)]
                left = second if reads == [first] else first
                if len(reads) == 1 and _is_lost(lines, line, first, second, left):
                    yield line, reads[0], left


def _is_lost(lines: Lines, line: ast.Assign, first: str, second: str, left: str) -> bool:
    """Whether both come out of one call above, and nothing reads the one since."""
    given = [
        each.lineno
        for each in lines.all(ast.Assign)
        if each.lineno < line.lineno and isinstance(each.value, ast.Call) and _unpacks(each.targets[0], first, second)
    ]
    read = (name.lineno for name in lines.all(ast.Name) if is_name(name, left) and isinstance(name.ctx, ast.Load))
    return bool(given) and not any(max(given) < number <= line.lineno for number in read)


def _unpacks(target: ast.expr, first: str, second: str) -> bool:
    rows = (row.elts for row in walk(target) if isinstance(row, ast.Tuple))
    return any({first, second} <= {part.id for part in row if isinstance(part, ast.Name)} for row in rows)


def one_wave_twice(lines: Lines) -> Iterator[tuple[ast.Assign, ast.Assign]]:
    """`pe[:, 0::2] = torch.sin(angle)`, `pe[:, 1::2] = torch.sin(angle)`."""
    halves = [(line, *half) for line in lines.all(ast.Assign) if (half := _half(line)) is not None]
    for number, (first, start, rest, wave, angle) in enumerate(halves):
        for second, begin, other, again, same in halves[number + 1 :]:
            if {start, begin} == {0, 1} and (rest, wave, angle) == (other, again, same):
                yield first, second


def _half(line: ast.Assign) -> tuple[int, str, str, str] | None:
    """Where `pe[:, 1::2] = torch.sin(angle)` begins, the text of the rest, the wave, and of what it is taken."""
    target = line.targets[0]
    if not isinstance(target, ast.Subscript) or not isinstance(line.value, ast.Call):
        return None
    index = target.slice.elts if isinstance(target.slice, ast.Tuple) else [target.slice]
    every = [part for part in index if isinstance(part, ast.Slice) and part.step is not None]
    if len(every) != 1 or ast.unparse(every[0].step or every[0]) != "2" or every[0].upper is not None:
        return None
    start = every[0].lower.value if isinstance(every[0].lower, ast.Constant) else 0 if every[0].lower is None else None
    wave = last_name(line.value.func)
    if not isinstance(start, int) or start not in (0, 1) or wave not in _WAVES:
        return None
    others = ", ".join("#" if part is every[0] else ast.unparse(part) for part in index)
    angle = line.value.args[0] if line.value.args else line.value.func
    rest = f"{ast.unparse(target.value)}[{others}]"
    return start, rest, wave, ast.unparse(angle)
