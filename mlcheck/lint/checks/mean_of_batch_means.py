"""mean-of-batch-means: a metric averaged over batches, of which the last one is smaller."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import last_name, stores, walk
from mlcheck.lint.sites import Call, Class, File, Function, canonical
from mlcheck.lint.sites.data.loaders import LOADER, loaders
from mlcheck.lint.sites.origins import origins
from mlcheck.lint.values import split_of_name

LOOKS_AT = "evaluation loop"
WORDS = ("no_grad", "inference_mode")
_MEANS = pattern(
    r"\.mean\(\)\.item\(\)|(?:loss|criterion|entropy)\w*\(.*\)\.item\(\)|^loss\.item\(\)$|^loss$|float\(loss\)"
)
_SAMPLES = pattern(r"^len\(.*(?:data|dataset|_set|samples)\)$")
_SUMS = pattern(r"reduction\s*=\s*[\"']sum|\*\s*(?:len|x\.|y\.|\w+\.size\(|\w+\.shape|batch_size|bs\b|n\b)|\.sum\(")


def check(facts: Facts) -> Iterator[Finding]:
    seen = 0
    dropped = any(loader.call.constant("drop_last", 8, False) is not False for loader in facts.sites.once(loaders))
    for file in facts.sites.mentioning(["no_grad", "inference_mode"]):
        for function in file.functions:
            for loop in _loops(function):
                seen += 1
                yield from _weighed_alike(function, loop) if not dropped else ()
                if not dropped and not _SUMS.search(file.module.text_of(function.node)):
                    yield from _means(file, function, loop)
                    yield from _listed(function, loop)
                    yield from _metered(function, loop)
    facts.sites.seen[LOOKS_AT] = seen


def _loops(function: Function) -> Iterator[ast.For]:
    """The loops over held-out batches in a function that trains nothing, or over any in one that switches to `eval`."""
    text = function.file.module.text_of(function.node)
    if "for" not in text or "backward" in text:
        return
    evaluates = ".eval()" in text
    for node in function.nodes:
        if isinstance(node, ast.For):
            names = [part.id for part in walk(node.iter) if isinstance(part, ast.Name)]
            names += [part.attr for part in walk(node.iter) if isinstance(part, ast.Attribute)]
            loaded = evaluates and any("loader" in name.lower() for name in names)
            loaded = loaded and not _one_by_one(function, node.iter)
            if loaded or any(split_of_name(name) in ("val", "test") for name in names):
                yield node


def _one_by_one(function: Function, over: ast.expr) -> bool:
    """Whether the loader's batches have one sample each."""
    made = [each for each in origins(function.file, over, function.inner) if canonical(each.name) == LOADER]
    calls = [Call(each.file, each.node, each.context) for each in made if isinstance(each.node, ast.Call)]
    return any(call.constant("batch_size", 1, default=1) == 1 for call in calls)


def _weighed_alike(function: Function, loop: ast.For) -> Iterator[Finding]:
    """`total += loss.item() * args.batch_size`, whatever the last batch holds, and `total / len(dataset)` behind it."""
    for node in walk(loop):
        if not isinstance(node, ast.AugAssign) or not isinstance(node.op, ast.Add):
            continue
        use = _over_samples(function, loop, ast.unparse(node.target)) if _is_of_full_batch(node.value, loop) else None
        if use is not None:
            yield Finding(
                "A smaller last batch is counted as if it were full: the sum is divided by fewer samples",
                function.place(node).location,
                help="weigh each batch by what it holds: `value * len(batch)`",
                related=(function.place(use).location,),
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


def _over_samples(function: Function, loop: ast.For, total: str) -> ast.BinOp | None:
    """`total / len(dataset)` behind the loop."""
    for use in function.nodes:
        if isinstance(use, ast.BinOp) and isinstance(use.op, ast.Div) and use.lineno > loop.lineno:
            if ast.unparse(use.left) == total and _SAMPLES.search(ast.unparse(use.right)):
                return use
    return None


def _listed(function: Function, loop: ast.For) -> Iterator[Finding]:
    """`values.append(x.mean().item())` in the loop, and `sum(values) / len(values)` or their mean behind it."""
    for node in walk(loop):
        func = node.func if isinstance(node, ast.Call) else None
        if not isinstance(node, ast.Call) or not isinstance(func, ast.Attribute) or func.attr != "append":
            continue
        name = ast.unparse(func.value)
        if not node.args or not _MEANS.search(ast.unparse(node.args[0])):
            continue
        wanted = (f"sum({name}) / len({name})", f"np.mean({name})", f"mean({name})", f"statistics.mean({name})")
        for use in function.nodes:
            if isinstance(use, ast.BinOp | ast.Call) and ast.unparse(use) in wanted:
                yield Finding(
                    "The mean of the batches' means counts the samples of a smaller last batch for more",
                    function.place(use).location,
                    help="add up `value * len(batch)`, and divide by the number of samples",
                    related=(function.place(node).location,),
                )


def _metered(function: Function, loop: ast.For) -> Iterator[Finding]:
    """`losses.update(loss.item())` of a meter of the project's own, whose `update(value, n=1)` is told no `n`."""
    for node in walk(loop):
        func = node.func if isinstance(node, ast.Call) else None
        if not isinstance(node, ast.Call) or not isinstance(func, ast.Attribute) or func.attr != "update":
            continue
        if len(node.args) != 1 or node.keywords or not _MEANS.search(ast.unparse(node.args[0])):
            continue
        weighed = {_weight(each.file.resolve(each.node.func, each.context)) for each in _made(function, func.value)}
        if len(weighed) == 1 and (name := weighed.pop()):
            yield Finding(
                "The mean of the batches' means counts the samples of a smaller last batch for more: "
                f"`update` takes `{name}` for 1",
                function.place(node).location,
                help=f"tell it the number of samples: `update(value, {name}=len(batch))`",
            )


def _made(function: Function, node: ast.expr) -> Iterator[Call]:
    for each in origins(function.file, node, function.inner):
        if isinstance(each.node, ast.Call):
            yield Call(each.file, each.node, each.context)


def _weight(cls: object) -> str:
    """`n` of a class with `def update(self, value, n=1)`, which multiplies the value by it."""
    update = cls.find("update") if isinstance(cls, Class) else None
    names = list(update.parameters) if update is not None else []
    if update is None or len(names) != 3:
        return ""
    default, text = update.parameters[names[2]], update.file.module.text_of(update.node)
    once = isinstance(default, ast.Constant) and default.value == 1
    products = (f"{names[1]} * {names[2]}", f"{names[2]} * {names[1]}")
    return names[2] if once and any(product in text for product in products) else ""


def _means(file: File, function: Function, loop: ast.For) -> Iterator[Finding]:
    """`total += loss.item()` in the loop, and `total / len(loader)` behind it."""
    over = {ast.unparse(part) for part in walk(loop.iter) if isinstance(part, ast.Name | ast.Attribute)}
    for node in walk(loop):
        if (
            not isinstance(node, ast.AugAssign)
            or not isinstance(node.op, ast.Add)
            or not isinstance(node.target, ast.Name)
        ):
            continue
        if not _MEANS.search(ast.unparse(node.value)):
            continue
        for use in function.nodes:
            if isinstance(use, ast.BinOp) and isinstance(use.op, ast.Div) and ast.unparse(use.left) == node.target.id:
                if any(ast.unparse(use.right) == f"len({name})" for name in over):
                    yield Finding(
                        "The mean of the batches' means counts the samples of a smaller last batch for more",
                        file.place(use, function.inner).location,
                        help="add up `value * len(batch)`, and divide by the number of samples",
                        related=(file.place(node, function.inner).location,),
                    )
