"""reduced-too-early: a loss that is one number already is masked, or averaged over the batch."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts, Loss
from mlcheck.lint.nodes import walk
from mlcheck.lint.sites import Call, Context, File
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.origins import sole
from mlcheck.lint.values import Const

LOOKS_AT = "reduction"
WORDS = ("mean(", "sum(")
_MASKS = ("mask", "pad", "valid")
_IS_NUMBER = pattern(r"weight|/|num|(?:^|_)n_|count|size|len|ratio|rate|lambda|lamb|alpha|beta|coe?f|scale|factor")
_REDUCTIONS = ("mean", "sum")
_DIMS = ("dim", "axis")
_FIRST_OR_LAST = ("0", "-1")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    numbers = {loss.place.spot for loss in facts.losses if _is_reduced(loss)}
    numbers -= {loss.place.spot for loss in facts.losses if not _is_reduced(loss)}
    for file in facts.sites.mentioning(WORDS):
        for call in file.calls(*_REDUCTIONS):
            facts.sites.seen[LOOKS_AT] += 1
            given = _reduced_by(call)
            if given is None:
                continue
            yield from _averaged_again(call, given)
            yield from _masked(call, given, numbers)


def _is_reduced(loss: Loss) -> bool:
    reduction = loss.settings.get("reduction", Const("mean"))
    return reduction in (Const("mean"), Const("sum")) and not set(loss.settings) & {"**", "size_average", "reduce"}


def _reduced_by(call: Call) -> ast.expr | None:
    """`x` of `x.mean(...)` and of `torch.mean(x, ...)`."""
    if call.file.resolve(call.node.func, call.context) in ("torch.mean", "torch.sum"):
        return call.argument("input", 0)
    return call.owner if call.file.resolve(call.node.func, call.context) is None else None


def _dims(call: Call, given: ast.expr) -> list[str]:
    """What a reduction goes over: nothing, where it goes over everything."""
    told = [arg for arg in call.node.args if arg is not given]
    told += [word.value for word in call.node.keywords if word.arg != "input"]
    return [ast.unparse(each) for each in told]


def _averaged_again(call: Call, given: ast.expr) -> Iterator[Finding]:
    """`loss = torch.sum(errors)`, and `torch.mean(loss, dim=0)`."""
    named = {word.arg for word in call.node.keywords} <= {*_DIMS, "input"}
    if not named or len(dims := _dims(call, given)) != 1 or dims[0] not in _FIRST_OR_LAST:
        return
    total, context = _unscaled(call.file, given, call.context)
    inner = Call(call.file, total, context) if isinstance(total, ast.Call) else None
    if inner is None or not _is_of_all(inner, ("sum",)):  # the mean of a mean over everything is what it was
        return
    name = inner.node.func.attr if isinstance(inner.node.func, ast.Attribute) else ""
    yield Finding(
        f"`{name}` without `dim` has made one number of the whole batch, and this changes nothing",
        call.place.location,
        help=f"give `{name}` the dimensions of a sample: `{name}(dim=1)`",
        related=(inner.place.location,),
    )


def _unscaled(file: File, node: ast.expr, context: Context) -> tuple[ast.expr, Context]:
    """`x.sum()` of `loss`, where that is `-0.5 * x.sum()`."""
    node, context = source(file, node, context)
    while True:
        match node:
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                node = inner
            case ast.BinOp(left=left, op=ast.Mult(), right=inner) if _is_number(left):
                node = inner
            case ast.BinOp(left=inner, op=ast.Mult() | ast.Div(), right=right) if _is_number(right):
                node = inner
            case _:
                return node, context


def _is_number(node: ast.expr) -> bool:
    return isinstance(node.operand if isinstance(node, ast.UnaryOp) else node, ast.Constant)


def _is_of_all(call: Call, kinds: tuple[str, ...] = _REDUCTIONS) -> bool:
    """`torch.sum(x)`, and `(a - b).sum()`: a name of unknown kind could be anything that has such a method."""
    given = _reduced_by(call)
    if given is None or _dims(call, given) or not isinstance(call.node.func, ast.Attribute):
        return False
    of_torch = call.file.resolve(call.node.func, call.context) is not None
    return call.node.func.attr in kinds and (of_torch or isinstance(given, ast.BinOp))


def _masked(call: Call, given: ast.expr, numbers: set[tuple[str, int, int]]) -> Iterator[Finding]:
    """`loss = F.mse_loss(prediction, target) * mask`, and `loss.sum() / mask.sum()`; or one term of such a sum."""
    if _dims(call, given):
        return
    products = list(_products(call.file, given, call.context))
    for product, context in products:
        others = {ast.unparse(side) for other, _ in products if other is not product for side in _sides(other)}
        for loss, mask in (_sides(product), _sides(product)[::-1]):
            file, made, where = _computed(call.file, loss, context)
            spot = (file.path, getattr(made, "lineno", 0), getattr(made, "col_offset", 0))
            of_all = isinstance(made, ast.Call) and _is_of_all(Call(file, made, where))
            if not (spot in numbers or of_all) or _is_one_flag(call.file, mask, context):
                continue
            if _is_mask(mask) or (isinstance(mask, ast.Name) and mask.id in others) or _cancels_out(call, mask):
                yield Finding(
                    f"The loss is one number before `{ast.unparse(mask)}` is applied: no position is left out of it",
                    call.file.place(product, context).location,
                    help="keep the loss of each position, and divide the masked sum by the sum of the mask",
                    related=(file.place(made, where).location,),
                )


def _computed(file: File, node: ast.expr, context: Context) -> tuple[File, ast.expr, Context]:
    """The call that computes a loss, without its factors; in a function of the project, too."""
    found = sole(file, _unscaled(file, node, context)[0], context)
    if found is None or found.item >= 0:
        return file, *_unscaled(file, node, context)
    return found.file, *_unscaled(found.file, found.node, found.context)


def _cancels_out(call: Call, weights: ast.expr) -> bool:
    """`(loss * weights).sum() / weights.sum()`."""
    total = f"{ast.unparse(weights)}.sum()"
    around = call.function.all(ast.BinOp) if call.function is not None else []
    divided = (node for node in around if isinstance(node.op, ast.Div) and node.left is call.node)
    return any(
        ast.unparse(part) == total for node in divided for part in walk(node.right) if isinstance(part, ast.Call)
    )


def _products(file: File, node: ast.expr, context: Context) -> Iterator[tuple[ast.BinOp, Context]]:
    """The products that a sum consists of, or the one that it is."""
    node, context = source(file, node, context)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        for side in _sides(node):
            yield from _products(file, side, context)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        yield node, context


def _sides(node: ast.BinOp) -> tuple[ast.expr, ast.expr]:
    return node.left, node.right


def _is_mask(node: ast.expr) -> bool:
    text = ast.unparse(node).lower()
    return any(word in text for word in _MASKS) and not _IS_NUMBER.search(text)


def _is_one_flag(file: File, node: ast.expr, context: Context) -> bool:
    """`valid = mask.any()`: whether there is anything to learn from in this batch at all."""
    made, where = source(file, node, context)
    function = file.function_around(where)
    names = {part.id for part in ast.walk(made) if isinstance(part, ast.Name)}
    lines = (
        [line for line in function.file.nodes_in(function.node) if isinstance(line, ast.Assign)]
        if function is not None
        else []
    )
    values = [line.value for line in lines if any(isinstance(t, ast.Name) and t.id in names for t in line.targets)]
    return any(word in ast.unparse(each) for each in (made, *values) for word in ("any(", "all(", "mean()", "sum()"))
