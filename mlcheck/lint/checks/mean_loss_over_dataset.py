"""mean-loss-over-dataset: batch means are summed and divided by the number of samples."""

import ast
import re
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts, Loss
from mlcheck.lint.nodes import is_name, last_name, walk
from mlcheck.lint.sites import Context, File, Function
from mlcheck.lint.sites.data.loaders import LOADER
from mlcheck.lint.sites.evaluation.adding_up import DATA_SETS, added_up, stretch_of, sum_name
from mlcheck.lint.sites.evaluation.batch_counts import BATCH_SIZE, counts, is_count
from mlcheck.lint.sites.evaluation.batch_means import Spot, is_batch_mean, is_loss_of, last_bound
from mlcheck.lint.sites.evaluation.stretches import begun, stretch
from mlcheck.lint.sites.origins import origins
from mlcheck.lint.values import Const

LOOKS_AT = "loss"
_BY_LENGTH = pattern(r"/\s*len\(")
_ADDS = ("+=", "sum(", ".add(", ".update(")
_TOKENS = pattern(r"[\w.]+\.numel\(\)|(?:[\w.]*mask[\w.]*|\([\w.]+ != [\w.-]+\))\.sum\(\)(?:\.item\(\))?")
_LOADED = pattern(r"loader|(?:\b|_)dl\b|batches", re.IGNORECASE)


def check(facts: Facts) -> Iterator[Finding]:
    yield from _counts_over_batches(facts)
    yield from _weighed_again(facts)
    means = {loss.place.spot for loss in facts.losses if _is_mean(loss)}
    others = {loss.place.spot for loss in facts.losses if not _is_mean(loss)}
    for file in facts.sites.mentioning(["+", "sum("]):
        if "torch" not in file.text and not any(path == file.path for path, _, _ in means):
            continue
        for scope, context in file.scopes():
            text = file.module.text_of(scope) if isinstance(scope, ast.stmt) else file.text
            if "/" not in text or not any(word in text for word in _ADDS):
                continue
            if "+=" not in text and not _BY_LENGTH.search(text):
                continue
            found: list[tuple[str, ast.AST, ast.expr]] = []
            if "sum(" in text:
                found += _of_generators(file, scope, context, means - others)
            for name, loss in _summed(file, scope, context, means - others):
                number = stretch_of(file, scope, name, loss.lineno)
                divisions = _divisions(file, scope, context, name)
                found += [(name, d, loss) for d in divisions if stretch_of(file, scope, name, d.lineno) == number]
            for name, division, loss in found:
                yield Finding(
                    f"`{name}` sums the means of batches and is divided by the number of samples: "
                    "it is too small by the batch size",
                    file.place(division, context).location,
                    help="divide by `len(loader)`, or sum `loss.item() * len(batch)`",
                    related=(file.place(loss, context).location,),
                )


def _of_generators(
    file: File, scope: ast.AST, context: Context, means: set[Spot]
) -> Iterator[tuple[str, ast.AST, ast.expr]]:
    """`sum(step(x, y) for x, y in loader) / len(loader.dataset)`."""
    for node in file.nodes_in(scope):
        match node:
            case ast.BinOp(
                left=ast.Call(func=ast.Name(id="sum"), args=[ast.GeneratorExp() | ast.ListComp() as made]), op=ast.Div()
            ) if len(made.generators) == 1 and _is_over_loader(file, made.generators[0].iter, context):
                inner = Context("comprehension", made, context, context.scope)
                if is_batch_mean(file, made.elt, inner, means) and _is_sample_count(file, scope, context, node.right):
                    yield ast.unparse(made.elt), node, made.elt


def _is_mean(loss: Loss) -> bool:
    reduction = loss.settings.get("reduction", Const("mean"))
    return reduction == Const("mean") and not set(loss.settings) & {"**", "size_average", "reduce"}


def _summed(file: File, scope: ast.AST, context: Context, means: set[Spot]) -> Iterator[tuple[str, ast.expr]]:
    """Names that means of batches are added to as they are, and only those, with one of the values."""
    summed = added_up(file, scope, context)
    loaded = _over_loaders(file, scope, context) if summed else set()
    for (name, _), values in summed.items():
        if all(
            is_batch_mean(file, value, context, means) if value in loaded else is_loss_of(file, value, context, means)
            for value in values
        ):
            yield name, values[0]


def _over_loaders(file: File, scope: ast.AST, context: Context) -> set[ast.AST]:
    """What stands in loops that certainly go over batches."""
    loops = [node for node in file.nodes_in(scope) if isinstance(node, ast.For)]
    return {node for loop in loops if _is_over_loader(file, loop.iter, context) for node in walk(loop)}


def _is_over_loader(file: File, over: ast.expr, context: Context) -> bool:
    return _LOADED.search(ast.unparse(over)) is not None or LOADER in {
        each.name for each in origins(file, over, context)
    }


def _divisions(file: File, scope: ast.AST, context: Context, name: str) -> Iterator[ast.AugAssign | ast.BinOp]:
    for node in file.nodes_in(scope):
        if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Div):
            if sum_name(file, node.target, context) == name and _is_sample_count(file, scope, context, node.value):
                yield node
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            if sum_name(file, node.left, context) == name and _is_sample_count(file, scope, context, node.right):
                yield node


def _is_sample_count(file: File, scope: ast.AST, context: Context, node: ast.expr) -> bool:
    """`len(loader.dataset)`, `len(train_set)`, `len(loader.sampler)`, and what was counted up by the batch sizes."""
    if isinstance(node, ast.Name) and _counts_samples(file, scope, context, node):
        return True
    node, _ = file.value(node, context)
    if not (isinstance(node, ast.Call) and is_name(node.func, "len") and node.args):
        return False
    last = ast.unparse(node.args[0]).rpartition(".")[2].lower()
    return last.endswith((*DATA_SETS, "sampler")) and not _is_loader(file, node.args[0], context)


def _is_loader(file: File, node: ast.expr, context: Context) -> bool:
    """Whether a name has become that of a loader: `dataset = DataLoader(dataset, 16)`."""
    return isinstance(node, ast.Name) and any(over.name == LOADER for over in origins(file, node, context))


def _counts_samples(file: File, scope: ast.AST, context: Context, count: ast.Name) -> bool:
    """`seen += len(y)`, `seen += x.size(0)`, `seen += y.numel()`, or a name for that: and nothing else is added."""
    name = count.id
    begins = begun(file.nodes_in(scope), {name})
    added = [
        ast.unparse(last_bound(file, node.value, context))
        for node in file.nodes_in(scope)
        if isinstance(node, ast.AugAssign)
        and is_name(node.target, name)
        and stretch(begins, name, node.lineno) == stretch(begins, name, count.lineno)
    ]
    return bool(added) and all(BATCH_SIZE.fullmatch(text) or _TOKENS.fullmatch(text) for text in added)


def _counts_over_batches(facts: Facts) -> Iterator[Finding]:
    """`correct += (prediction == y).sum().item()`, and `correct / len(loader)`."""
    for file in facts.sites.mentioning(["+", "sum("]):
        if any(word not in file.text for word in ("torch", "len(")):
            continue
        for scope, context in file.scopes():
            text = file.module.text_of(scope) if isinstance(scope, ast.stmt) else file.text
            if not any(word in text for word in _ADDS) or not _BY_LENGTH.search(text):
                continue
            for (name, number), values in added_up(file, scope, context).items():
                if not all(is_count(file, value, context) for value in values):
                    continue
                yield from _by_batches(file, scope, context, name, number)


def _by_batches(file: File, scope: ast.AST, context: Context, name: str, number: int) -> Iterator[Finding]:
    for division in _batch_divisions(file, scope, context, name):
        if stretch_of(file, scope, name, division.lineno) == number:
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
            if len(given) != 2 or not counts(given[0]) or BATCH_SIZE.fullmatch(ast.unparse(given[1])) is None:
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


def _batch_divisions(file: File, scope: ast.AST, context: Context, name: str) -> Iterator[ast.BinOp]:
    """Divisions by `len(loader)` and nothing else."""
    nodes = file.nodes_in(scope)
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
        if sum_name(file, left, context) == name and alone:
            yield node


def _by_hundred(node: ast.BinOp) -> bool:
    return isinstance(node.op, ast.Mult) and any(
        isinstance(side, ast.Constant) and side.value in (100, 100.0) for side in (node.left, node.right)
    )


def _is_batch_count(node: ast.expr) -> bool:
    """`len(val_loader)`, `len(loaders["val"])`."""
    if not (isinstance(node, ast.Call) and is_name(node.func, "len") and node.args):
        return False
    over = node.args[0]
    if isinstance(over, ast.Subscript):
        return last_name(over.value).lower().endswith("loaders")
    return last_name(over).lower().endswith(("loader", "_dl", "dataloader", "batches"))
