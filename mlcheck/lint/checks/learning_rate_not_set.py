"""learning-rate-not-set: the learning rate is written where no optimizer of PyTorch reads it."""

import ast
import re
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import walk
from mlcheck.lint.sites import Context, File, canonical
from mlcheck.lint.sites.optimizers import OPTIMIZERS
from mlcheck.lint.sites.origins import origins

LOOKS_AT = "learning rate that is set"
_RATES = ("lr", "learning_rate")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    for file in facts.sites.mentioning([".lr", ".learning_rate", "defaults[", "learning_rate"]):
        if "optim" not in file.text:
            continue
        for target, owner in _settings(file):
            where = _context_of(file, target) or file.walk.module
            if _is_optimizer(file, owner, where):
                facts.sites.seen[LOOKS_AT] += 1
                if not _is_read(file, target):
                    yield Finding(
                        f"`{ast.unparse(target)}` is read by no optimizer: the learning rate stays what it was",
                        file.place(target, where).location,
                        help=f"set it in the groups: `for group in {ast.unparse(owner)}.param_groups: "
                        'group["lr"] = ...`',
                    )


def _settings(file: File) -> Iterator[tuple[ast.expr, ast.expr]]:
    """What is assigned that may be a learning rate, and whose it would be."""
    for node in walk(file.module.source.tree):
        if isinstance(node, ast.Assign | ast.AugAssign):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if (owner := _written(target)) is not None:
                    yield target, owner


def _written(target: ast.expr) -> ast.expr | None:
    """The optimizer of `opt.lr`, `opt.defaults["lr"]` and `opt.param_groups[0]["learning_rate"]`."""
    if isinstance(target, ast.Attribute):
        return target.value if target.attr in _RATES else None
    if not isinstance(target, ast.Subscript) or not isinstance(target.slice, ast.Constant):
        return None
    inner, key = target.value, target.slice.value
    if isinstance(inner, ast.Attribute) and inner.attr == "defaults" and key in _RATES:
        return inner.value
    if isinstance(inner, ast.Subscript) and isinstance(inner.value, ast.Attribute) and key == "learning_rate":
        return inner.value.value if inner.value.attr == "param_groups" else None
    return None


def _is_optimizer(file: File, node: ast.expr, context: Context) -> bool:
    """Whether it is one of PyTorch's own, wherever it comes from."""
    found = origins(file, node, context)
    names = [canonical(origin.name) for origin in found]
    return bool(names) and all(n.startswith("torch.optim.") and n.rpartition(".")[2] in OPTIMIZERS for n in names)


def _is_read(file: File, target: ast.expr) -> bool:
    """Whether anything reads it again: the writer may hand it on by hand."""
    text = re.escape(ast.unparse(target)).replace("'", "['\"]")
    return re.search(rf"{text}(?!\s*[-+*/]?=[^=])(?!\w)", file.text) is not None


def _context_of(file: File, target: ast.AST) -> Context | None:
    for function in reversed(file.functions):
        if any(node is target for node in function.nodes):
            return function.inner
    return None
