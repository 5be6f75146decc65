"""mean-of-batch-means: a metric averaged over batches, of which the last one is smaller."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.named_tuples import NamedTuple
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts, Place
from mlcheck.lint.nodes import last_name, stores, walk
from mlcheck.lint.sites import Call, Context, File, canonical
from mlcheck.lint.sites.data.loaders import LOADER, loaders
from mlcheck.lint.sites.evaluation.meters import weight_of
from mlcheck.lint.sites.evaluation.without_gradients import evaluating_files, switches_off
from mlcheck.lint.sites.iteration import iteration_of
from mlcheck.lint.sites.origins import origins
from mlcheck.lint.values import split_of_name

LOOKS_AT = "evaluation loop"
WORDS = ("no_grad", "inference_mode", "set_grad_enabled")
_MEANS = pattern(
    r"\.mean\(\)(?:\.item\(\))?$|^torch\.mean\(.*\)(?:\.item\(\))?$|(?:loss|criterion|entropy)\w*\(.*\)\.item\(\)|^loss\.item\(\)$|^loss$|float\(loss\)"
)
_SAMPLES = pattern(r"^len\(.*(?:data|dataset|_set|samples)\)$")
_SUMS = pattern(r"reduction\s*=\s*[\"']sum|\*\s*(?:len|x\.|y\.|\w+\.size\(|\w+\.shape|batch_size|bs\b|n\b)|\.sum\(")


def check(facts: Facts) -> Iterator[Finding]:
    seen = 0
    others = (loader for loader in facts.sites.once(loaders) if loader.split != "train")
    dropped = any(loader.call.constant("drop_last", 8, False) is not False for loader in others)
    for file in evaluating_files(facts):
        for scope in _scopes(file):
            for loop in _loops(scope):
                seen += 1
                around = scope.file.module.text_of(loop) if isinstance(scope.node, ast.Module) else scope.text
                if not dropped and "batch_size" in around:
                    yield from _weighed_alike(scope, loop)
                    yield from _counted_full(scope, loop)
                around = around.replace(f"* len({ast.unparse(iteration_of(loop).over)})", "")  # the number of batches
                yield from _means(scope, loop, _SUMS.search(around) is not None) if not dropped else ()
                if not dropped and not _SUMS.search(around):
                    yield from _listed(scope, loop) if ".append(" in around else ()
                    yield from _metered(scope, loop)
    facts.sites.seen[LOOKS_AT] = seen


class _Scope(NamedTuple):
    """A function, or the top level of a file, with the nodes that belong to it."""

    file: File
    inner: Context
    node: ast.AST
    nodes: list[ast.AST]

    @property
    def text(self) -> str:
        return self.file.module.text_of(self.node) if isinstance(self.node, ast.stmt) else self.file.text

    def place(self, node: ast.AST) -> Place:
        return self.file.place(node, self.inner)


def _scopes(file: File) -> Iterator[_Scope]:
    for function in file.functions:
        yield _Scope(file, function.inner, function.node, function.nodes)
    if any(_is_at_top_under_no_grad(context) for _, context in file.walk.loops):
        tree = file.module.source.tree
        yield _Scope(file, file.walk.module, tree, file.nodes_in(tree))


def _is_at_top_under_no_grad(context: Context) -> bool:
    around = list(context.outwards())
    inside = any(outer.kind in ("function", "lambda", "class") for outer in around)
    return not inside and any(isinstance(outer.node, ast.With) and switches_off(outer.node) for outer in around)


def _loops(scope: _Scope) -> Iterator[ast.For]:
    """The loops over held-out batches in a function that trains nothing, or over any in one that switches to `eval`.

    At the top level of a file, which may train as well, those that stand under `no_grad`.
    """
    text, nodes = scope.text, scope.nodes
    if isinstance(scope.node, ast.Module):
        blocks = [node for node in nodes if isinstance(node, ast.With) and switches_off(node)]
        nodes = [inner for block in blocks for inner in walk(block)]
    elif "for" not in text or "backward" in text:
        return
    evaluates = ".eval()" in text
    for node in nodes:
        if isinstance(node, ast.For):
            names = [part.id for part in walk(node.iter) if isinstance(part, ast.Name)]
            names += [part.attr for part in walk(node.iter) if isinstance(part, ast.Attribute)]
            loaded = evaluates and any("loader" in name.lower() for name in names)
            loaded = loaded and not _one_by_one(scope, node.iter)
            if loaded or any(split_of_name(name) in ("val", "test") for name in names):
                yield node


def _one_by_one(scope: _Scope, over: ast.expr) -> bool:
    """Whether the loader's batches have one sample each."""
    made = [each for each in origins(scope.file, over, scope.inner) if canonical(each.name) == LOADER]
    calls = [Call(each.file, each.node, each.context) for each in made if isinstance(each.node, ast.Call)]
    return any(call.constant("batch_size", 1, default=1) == 1 for call in calls)


def _weighed_alike(scope: _Scope, loop: ast.For) -> Iterator[Finding]:
    """`total += loss.item() * args.batch_size`, whatever the last batch holds, and `total / len(dataset)` behind it."""
    for node in walk(loop):
        if not isinstance(node, ast.AugAssign) or not isinstance(node.op, ast.Add):
            continue
        use = _over_samples(scope, loop, ast.unparse(node.target)) if _is_of_full_batch(node.value, loop) else None
        if use is not None:
            yield Finding(
                "A smaller last batch is counted as if it were full: the sum is divided by fewer samples",
                scope.place(node).location,
                help="weigh each batch by what it holds: `value * len(batch)`",
                related=(scope.place(use).location,),
            )


def _counted_full(scope: _Scope, loop: ast.For) -> Iterator[Finding]:
    """`correct / (len(loader) * batch_size)`, as if the last batch were full."""
    over = {f"len({ast.unparse(part)})" for part in walk(loop.iter) if isinstance(part, ast.Name | ast.Attribute)}
    sums = {ast.unparse(node.target) for node in walk(loop) if isinstance(node, ast.AugAssign)}
    divided = [node for node in scope.nodes if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)]
    below = {ast.unparse(node.right) for node in divided if ast.unparse(node.left) in sums}
    for node in scope.nodes:
        match node:
            case ast.BinOp(op=ast.Div(), right=ast.BinOp(op=ast.Mult()) as product) if ast.unparse(node.left) in sums:
                pass
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.BinOp(op=ast.Mult()) as product) if name in below:
                pass
            case _:
                continue
        sides = (product.left, product.right)
        if any(last_name(side) == "batch_size" for side in sides) and any(ast.unparse(side) in over for side in sides):
            yield Finding(
                "A smaller last batch is counted as if it were full: the sum is divided by more samples than there are",
                scope.place(product).location,
                help="divide by `len(loader.dataset)`, or count the samples that were seen",
            )


def _is_of_full_batch(value: ast.expr, loop: ast.For) -> bool:
    """The mean of a batch times a `batch_size` that no batch changes."""
    if not isinstance(value, ast.BinOp) or not isinstance(value.op, ast.Mult):
        return False
    for mean, size in ((value.left, value.right), (value.right, value.left)):
        fixed = isinstance(size, ast.Attribute) or (isinstance(size, ast.Name) and not stores(loop, size.id))
        if fixed and last_name(size) == "batch_size" and _MEANS.search(ast.unparse(mean)):
            return True
    return False


def _over_samples(scope: _Scope, loop: ast.For, total: str) -> ast.BinOp | None:
    """`total / len(dataset)` behind the loop."""
    for use in scope.nodes:
        if isinstance(use, ast.BinOp) and isinstance(use.op, ast.Div) and use.lineno > loop.lineno:
            if ast.unparse(use.left) == total and _SAMPLES.search(ast.unparse(use.right)):
                return use
    return None


def _listed(scope: _Scope, loop: ast.For) -> Iterator[Finding]:
    """`values.append(x.mean().item())` in the loop, and `sum(values) / len(values)` or their mean behind it."""
    for node in walk(loop):
        func = node.func if isinstance(node, ast.Call) else None
        if not isinstance(node, ast.Call) or not isinstance(func, ast.Attribute) or func.attr != "append":
            continue
        if not node.args or not _MEANS.search(ast.unparse(node.args[0])):
            continue
        over = [ast.unparse(part) for part in walk(loop.iter) if isinstance(part, ast.Name | ast.Attribute)]
        wanted = set[str]()
        for name in _names_behind(scope, func.value):
            wanted |= {f"np.mean({name})", f"mean({name})", f"statistics.mean({name})"}
            wanted |= {f"sum({name}) / len({counted})" for counted in (name, *over)}
        for use in scope.nodes:
            if isinstance(use, ast.BinOp | ast.Call) and ast.unparse(use) in wanted:
                yield Finding(
                    "The mean of the batches' means gives the samples of a smaller last batch more weight",
                    scope.place(use).location,
                    help="add up `value * len(batch)`, and divide by the number of samples",
                    related=(scope.place(node).location,),
                )


def _names_behind(scope: _Scope, listed: ast.expr) -> Iterator[str]:
    """What a list goes by: `values` also of `{k: sum(values) / len(values) for k, values in table.items()}`."""
    yield ast.unparse(listed)
    table = f"{ast.unparse(listed.value)}.items()" if isinstance(listed, ast.Subscript) else ""
    for node in scope.nodes if table else ():
        match node:
            case ast.DictComp(generators=[ast.comprehension(target=ast.Tuple(elts=[_, ast.Name(id=name)]), iter=over)]):
                if ast.unparse(over) == table:
                    yield name


def _metered(scope: _Scope, loop: ast.For) -> Iterator[Finding]:
    """`losses.update(loss.item())` of a meter of the project's own, whose `update(value, n=1)` is told no `n`.

    A meter of several values is told which: `metrics.update("loss", loss.item())`, `metrics.update({"loss": loss})`.
    """
    for node in walk(loop):
        func = node.func if isinstance(node, ast.Call) else None
        if not isinstance(node, ast.Call) or not isinstance(func, ast.Attribute):
            continue
        at = next((at for at, arg in enumerate(node.args[:2]) if any(map(_is_mean, _values(arg)))), None)
        if at is None:
            continue
        told = [*node.args[at + 1 :], *(word.value for word in node.keywords)]
        if told and [ast.unparse(each) for each in told] != [f"{ast.unparse(iteration_of(loop).over)}.batch_size"]:
            continue
        made = [(each.file.resolve(each.node.func, each.context), func.attr) for each in _made(scope, func.value)]
        weighed = {weight_of(cls, method, at + 1) for cls, method in made}
        if len(weighed) == 1 and (name := weighed.pop()):
            how = f"is told the size that was asked for as `{name}`" if told else f"is called without `{name}`"
            yield Finding(
                "The mean of the batches' means gives the samples of a smaller last batch more weight: "
                f"`{func.attr}` {how}, {'whatever the batch has' if told else 'which is then 1'}",
                scope.place(node).location,
                help=f"tell it the number of samples: `{func.attr}(value, {name}=len(batch))`",
            )


def _values(given: ast.expr) -> list[ast.expr]:
    return given.values if isinstance(given, ast.Dict) else [given]


def _is_mean(value: ast.expr) -> bool:
    return _MEANS.search(ast.unparse(value)) is not None


def _made(scope: _Scope, node: ast.expr) -> Iterator[Call]:
    for each in origins(scope.file, node, scope.inner):
        if isinstance(each.node, ast.Call):
            yield Call(each.file, each.node, each.context)


def _means(scope: _Scope, loop: ast.For, summed: bool) -> Iterator[Finding]:
    """`total += loss.item()` in the loop, and `total / len(loader)` behind it.

    Where something is `summed` over samples there, only what says that it is a mean.
    """
    over = {ast.unparse(part) for part in walk(loop.iter) if isinstance(part, ast.Name | ast.Attribute)}
    for node in walk(loop):
        if (
            not isinstance(node, ast.AugAssign)
            or not isinstance(node.op, ast.Add)
            or not isinstance(node.target, ast.Name)
        ):
            continue
        text = ast.unparse(node.value)
        if not _MEANS.search(text) or (summed and ("mean(" not in text or _SUMS.search(text))):
            continue
        for use in scope.nodes:
            if isinstance(use, ast.BinOp) and isinstance(use.op, ast.Div) and ast.unparse(use.left) == node.target.id:
                if any(ast.unparse(use.right) == f"len({name})" for name in over):
                    yield Finding(
                        "The mean of the batches' means gives the samples of a smaller last batch more weight",
                        scope.place(use).location,
                        help="add up `value * len(batch)`, and divide by the number of samples",
                        related=(scope.place(node).location,),
                    )
