"""mean-loss-over-dataset: batch means are summed and divided by the number of samples."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts, Loss
from mlcheck.lint.nodes import is_name, last_name, own_nodes, walk
from mlcheck.lint.sites import Call, Class, Context, File, Function
from mlcheck.lint.sites.data.loaders import LOADER
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.origins import Origin, origins, returns
from mlcheck.lint.values import Const

LOOKS_AT = "loss"
_DATA_SETS = ("dataset", "_set", "trainset", "testset", "valset")
_BY_LENGTH = pattern(r"/\s*len\(")
_BATCH_SIZE = pattern(r"len\(\w+\)|\w+\.size\((?:dim=)?0\)|\w+\.shape\[0\]")


def check(facts: Facts) -> Iterator[Finding]:
    yield from _counts_over_batches(facts)
    yield from _weighed_again(facts)
    means = {loss.place.spot for loss in facts.losses if _is_mean(loss)}
    others = {loss.place.spot for loss in facts.losses if not _is_mean(loss)}
    if not means:
        return
    for file in facts.sites.mentioning(["+="], tests=False):
        if not any(path == file.path for path, _, _ in means):
            continue
        for scope, context in file.scopes():
            for name, loss in _summed(file, scope, context, means - others):
                for division in _divisions(file, scope, context, name):
                    yield Finding(
                        f"`{name}` sums the means of batches and is divided by the number of samples: "
                        "it is too small by the batch size",
                        file.place(division, context).location,
                        help="divide by `len(loader)`, or sum `loss.item() * len(batch)`",
                        related=(file.place(loss, context).location,),
                    )


def _is_mean(loss: Loss) -> bool:
    reduction = loss.settings.get("reduction", Const("mean"))
    return reduction == Const("mean") and not set(loss.settings) & {"**", "size_average", "reduce"}


def _summed(
    file: File, scope: ast.AST, context: Context, means: set[tuple[str, int, int]]
) -> Iterator[tuple[str, ast.AST]]:
    """Names that loss values are added to as they are, and only those."""
    for name, values in _added_up(file, scope, context).items():
        found = [_loss_call(file, value, context) for value in values]
        spots = [(file.path, node.lineno, node.col_offset) for node in found if node is not None]
        if len(spots) == len(values) and all(spot in means for spot in spots):
            yield name, values[0]


def _added_up(file: File, scope: ast.AST, context: Context) -> dict[str, list[ast.expr]]:
    """What `name += ...` adds, by name; not in loops over single samples, where means and sums are the same."""
    nodes = list(own_nodes(scope))
    sums = [node for node in nodes if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add)]
    loops = [node for node in nodes if isinstance(node, ast.For)] if sums else []
    single = [loop for loop in loops if any(map(_is_of_single_samples, origins(file, loop.iter, context)))]
    left_out = {id(node) for loop in single for node in walk(loop)}
    added: dict[str, list[ast.expr]] = {}
    for node in sums:
        if _is_sum(node.target) and id(node) not in left_out:
            added.setdefault(ast.unparse(node.target), []).append(node.value)
    return added


def _is_sum(node: ast.expr) -> bool:
    """`total`, and `totals["loss"]`."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
        node = node.value
    return isinstance(node, ast.Name)


def _is_of_single_samples(over: Origin) -> bool:
    """A data set itself, or a loader whose batches hold one sample."""
    if over.name == LOADER and isinstance(over.node, ast.Call):
        return Call(over.file, over.node, over.context).constant("batch_size", 1, 1) == 1
    if isinstance(over.node, ast.Call):
        made = over.file.resolve(over.node.func, over.context)
        return isinstance(made, Class) and made.find("__getitem__") is not None
    return last_name(over.node).lower().endswith(_DATA_SETS)


def _loss_call(file: File, node: ast.expr, context: Context) -> ast.Call | None:
    """The call of the loss behind `loss.item()`, `float(loss)`, `loss.detach()` or `loss`."""
    while isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute) and node.func.attr in ("item", "detach", "cpu"):
            node = node.func.value
        elif is_name(node.func, "float") and node.args:
            node = node.args[0]
        else:
            return node
    if isinstance(node, ast.Name):
        above = [b for b in file.bindings(node.id, context) if getattr(b.node, "lineno", 0) <= node.lineno]
        value = above[-1].value if above and above[-1].kind == "value" else None
        return value if isinstance(value, ast.Call) else None
    found, _ = source(file, node, context)
    return found if isinstance(found, ast.Call) else None


def _divisions(file: File, scope: ast.AST, context: Context, name: str) -> Iterator[ast.AST]:
    for node in own_nodes(scope):
        if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Div) and _is_sum(node.target):
            if ast.unparse(node.target) == name and _is_sample_count(file, scope, context, node.value):
                yield node
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and _is_sum(node.left):
            if ast.unparse(node.left) == name and _is_sample_count(file, scope, context, node.right):
                yield node


def _is_sample_count(file: File, scope: ast.AST, context: Context, node: ast.expr) -> bool:
    """`len(loader.dataset)`, `len(train_set)`, `len(loader.sampler)`, and what was counted up by the batch sizes."""
    if isinstance(node, ast.Name) and _counts_samples(scope, node.id):
        return True
    node, _ = file.value(node, context)
    if not (isinstance(node, ast.Call) and is_name(node.func, "len") and node.args):
        return False
    last = ast.unparse(node.args[0]).rpartition(".")[2].lower()
    return last.endswith((*_DATA_SETS, "sampler"))


def _counts_samples(scope: ast.AST, name: str) -> bool:
    """`seen += len(y)`, `seen += x.size(0)`: and nothing else is ever added."""
    added = [
        ast.unparse(node.value)
        for node in own_nodes(scope)
        if isinstance(node, ast.AugAssign) and is_name(node.target, name)
    ]
    return bool(added) and all(_BATCH_SIZE.fullmatch(text) for text in added)


def _counts_over_batches(facts: Facts) -> Iterator[Finding]:
    """`correct += (prediction == y).sum().item()`, and `correct / len(loader)`."""
    for file in facts.sites.mentioning(["+="]):
        if any(word not in file.text for word in ("torch", "len(")):
            continue
        for scope, context in file.scopes():
            text = file.module.text_of(scope) if isinstance(scope, ast.stmt) else file.text
            if "+=" not in text or not _BY_LENGTH.search(text):
                continue
            for name, values in _added_up(file, scope, context).items():
                for division in (
                    _batch_divisions(scope, name) if all(_is_count(file, value, context) for value in values) else ()
                ):
                    yield Finding(
                        f"`{name}` is a sum over samples and is divided by the number of batches",
                        file.place(division, context).location,
                        help="divide by `len(loader.dataset)`, or count the samples that were seen",
                    )


def _weighed_again(facts: Facts) -> Iterator[Finding]:
    """`meter.update((prediction == y).sum().item(), len(y))`, where the meter weighs its values itself."""
    for file in facts.sites.mentioning([".update("]):
        for call in file.calls("update") if "sum" in file.text else ():
            given = call.node.args
            if len(given) != 2 or not _counts(given[0]) or _BATCH_SIZE.fullmatch(ast.unparse(given[1])) is None:
                continue
            update = file.resolve(call.node.func, call.context)
            if not isinstance(update, Function) or update.cls is None or len(update.parameters) != 3:
                continue
            _, value, number = update.parameters
            added = [n.value for n in update.nodes if isinstance(n, ast.AugAssign) and isinstance(n.op, ast.Add)]
            if {f"{value} * {number}", number} <= {ast.unparse(node) for node in added}:
                yield Finding(
                    "This number is a sum over the batch, and the meter multiplies it by the size of the batch again",
                    call.place.location,
                    help="give the meter the mean of the batch: `.float().mean().item()`",
                    related=(update.place(update.node).location,),
                )


def _is_count(file: File, node: ast.expr, context: Context) -> bool:
    """As `_counts`, also through a name and a function of the project that returns nothing else."""
    node, where = source(file, node, context)
    named = file.resolve(node.func, where) if isinstance(node, ast.Call) else None
    if isinstance(named, Function) and not named.node.decorator_list:
        given = list(returns(named))
        return bool(given) and all(_counts(source(named.file, each, named.inner)[0]) for each in given)
    return _counts(node) or _is_weighed(node)


def _is_weighed(node: ast.expr) -> bool:
    """`loss.item() * x.size(0)`: the mean of a batch, as many times as it has samples."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult):
        return False
    sides = [node.left, node.right]
    sizes = [_BATCH_SIZE.fullmatch(ast.unparse(side)) is not None for side in sides]
    other = sides[1 - sizes.index(True)] if sizes.count(True) == 1 else None
    return isinstance(other, ast.Call) and last_name(other.func) == "item"


def _counts(node: ast.expr) -> bool:
    """`(a == b).sum().item()`, `torch.sum(a == b)`: how many of a batch are right; a loss with `reduction="sum"`."""
    while isinstance(node, ast.Call):
        func = node.func
        if any(word.arg == "reduction" and ast.unparse(word.value) == "'sum'" for word in node.keywords):
            return True
        if isinstance(func, ast.Attribute) and func.attr in ("item", "cpu", "float", "long", "int") and not node.args:
            node = func.value
        elif isinstance(func, ast.Name) and func.id in ("int", "float") and node.args:
            node = node.args[0]
        elif isinstance(func, ast.Attribute) and func.attr == "sum":
            node = node.args[0] if ast.unparse(func.value) == "torch" and node.args else func.value
            while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _CASTS:
                node = node.func.value
            equal = isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq)
            return equal or (isinstance(node, ast.Call) and ast.unparse(node.func).endswith(".eq"))
        else:
            return False
    return False


_CASTS = ("float", "long", "int", "type", "to", "double")


def _batch_divisions(scope: ast.AST, name: str) -> Iterator[ast.AST]:
    """Divisions by `len(loader)` and nothing else."""
    nodes = list(own_nodes(scope))
    around = {child: node for node in nodes if isinstance(node, ast.BinOp) for child in (node.left, node.right)}
    for node in nodes:
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Div) or not _is_batch_count(node.right):
            continue
        left = node.left
        if isinstance(left, ast.BinOp) and isinstance(left.op, ast.Mult):
            left = left.right if isinstance(left.left, ast.Constant) else left.left
        outer = around.get(node)
        alone = not (
            isinstance(outer, ast.BinOp) and isinstance(outer.op, ast.Div | ast.Mult) and not _by_hundred(outer)
        )
        if _is_sum(left) and ast.unparse(left) == name and alone:
            yield node


def _by_hundred(node: ast.BinOp) -> bool:
    return isinstance(node.op, ast.Mult) and any(
        isinstance(side, ast.Constant) and side.value in (100, 100.0) for side in (node.left, node.right)
    )


def _is_batch_count(node: ast.expr) -> bool:
    """`len(val_loader)`."""
    if not (isinstance(node, ast.Call) and is_name(node.func, "len") and node.args):
        return False
    last = ast.unparse(node.args[0]).rpartition(".")[2].lower()
    return last.endswith(("loader", "_dl", "dataloader", "batches"))
