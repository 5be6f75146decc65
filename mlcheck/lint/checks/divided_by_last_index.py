"""divided-by-last-index: the losses of an epoch are divided by the index of its last batch, or by another miscount."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import before_methods, last_name, stores, walk
from mlcheck.lint.sites.blocks import LoopSite, for_loops, straight
from mlcheck.lint.sites.evaluation.miscounted import miscounted
from mlcheck.lint.sites.iteration import counter_of

LOOKS_AT = "sum of losses"
WORDS = ("+",)
_SCORES = ("accuracy_score", "balanced_accuracy_score", "f1_score", "roc_auc_score", "jaccard_score", "r2_score")


def check(facts: Facts) -> Iterator[Finding]:
    losses = {loss.place.spot for loss in facts.losses}
    seen = 0
    for file in facts.sites.mentioning(["+"]):
        for site in for_loops(file) if "/" in file.text else ():
            loop = site.node
            if not _counts_its_turns(loop) or not any("/" in file.module.text_of(line) for line in site.after):
                continue
            spots = {node for node in walk(loop) if (file.path, *_start(node)) in losses}
            indices = {_index(loop), *_kept_indices(loop)}
            for total in _sums(loop, spots):
                seen += 1
                division = _division(site.after, total, indices) if _starts_at_zero(site, total) else None
                if division is not None:
                    yield Finding(
                        f"`{total}` is divided by the index of the last batch, which is one less than the number of "
                        "batches: the result is too large, and with a single batch this divides by zero",
                        file.place(division, site.context).location,
                        help="divide by `len(loader)`",
                        related=(file.place(loop, site.context).location,),
                    )
    facts.sites.seen[LOOKS_AT] = seen
    for found in miscounted(facts.sites):
        why = (
            f"`{found.counter}`, which adds up the indices of the batches and does not count them"
            if found.counter
            else "one more than the number of batches"
        )
        yield Finding(
            f"`{found.total}` is divided by {why}: it is too small",
            found.division.location,
            help="divide by `len(loader)`",
            related=(found.loop.location,),
        )


def _start(node: ast.AST) -> tuple[int, int]:
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


def _counts_its_turns(loop: ast.For) -> bool:
    """Whether a loop counts its turns from nought and runs to its end."""
    if not _index(loop):
        return False
    inside = [node for part in loop.body for node in walk(part)]
    leaves = any(isinstance(node, ast.Break | ast.Continue) for node in inside)
    return not leaves and not any(stores(part, _index(loop)) for part in loop.body)


def _index(loop: ast.For) -> str:
    """`i` of `for i, batch in enumerate(loader)` and of `for i in range(steps)`."""
    name, start = counter_of(loop) or ("", 0)
    return name if start == 0 else ""


def _kept_indices(loop: ast.For) -> Iterator[str]:
    """`count` of `count = i`: in every turn, and nothing else is done to it."""
    for line in straight(loop.body):
        match line:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Name(id=index)) if index == _index(loop):
                if sum(stores(part, name) for part in loop.body) == 1:
                    yield name


def _sums(loop: ast.For, losses: set[ast.AST]) -> Iterator[str]:
    """What every turn adds a loss to: one that its gradients are asked of, or that PyTorch made, or a score."""
    asked = {
        node.id
        for call in walk(loop)
        if isinstance(call, ast.Call) and last_name(call.func) == "backward"
        for node in walk(call)
        if isinstance(node, ast.Name)
    }
    made = {
        target.id
        for node in walk(loop)
        if isinstance(node, ast.Assign) and (node.value in losses or _is_score(node.value))
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for line in straight(loop.body):
        if isinstance(line, ast.AugAssign) and isinstance(line.op, ast.Add) and isinstance(line.target, ast.Name):
            value = _plain(line.value)
            if value in losses or (isinstance(value, ast.Name) and value.id in asked | made):
                yield line.target.id


def _is_score(node: ast.expr) -> bool:
    """`accuracy_score(y, prediction)`: one number for the batch, not a sum over it."""
    return isinstance(node, ast.Call) and last_name(node.func) in _SCORES


def _plain(node: ast.expr) -> ast.expr:
    """`loss` of `loss.detach().item()` and of `float(loss)`."""
    match node:
        case ast.Call(func=ast.Name(id="float"), args=[inner]):
            return inner
    return before_methods(node, ("item", "detach", "cpu"))


def _starts_at_zero(site: LoopSite, total: str) -> bool:
    """Whether the sum starts at zero, and is not reset within the loop."""
    loop = site.node
    set_to = [node for node in site.file.nodes_in(site.scope) if isinstance(node, ast.Assign) and stores(node, total)]
    before = [node for node in set_to if node.lineno < loop.lineno]
    within = any(loop.lineno <= node.lineno <= (loop.end_lineno or 0) for node in set_to)
    zeros = [isinstance(node.value, ast.Constant) and node.value.value == 0 for node in before]
    return bool(zeros) and all(zeros) and not within


def _division(behind: list[ast.stmt], total: str, indices: set[str]) -> ast.AST | None:
    """The first `total /= i` or `total / i`, where neither has become something else before."""
    for line in behind:
        if any(stores(line, index) for index in indices):
            return None
        for node in walk(line):
            match node:
                case ast.AugAssign(target=ast.Name(id=name), op=ast.Div(), value=ast.Name(id=by)):
                    pass
                case ast.BinOp(left=ast.Name(id=name), op=ast.Div(), right=ast.Name(id=by)):
                    pass
                case _:
                    continue
            if name == total and by in indices:
                return node
        if stores(line, total):
            return None
    return None
