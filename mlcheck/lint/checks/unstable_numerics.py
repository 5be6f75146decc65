"""unstable-numerics: a formula that loses its digits where a function of torch keeps them."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import last_name, walk
from mlcheck.lint.sites import File

LOOKS_AT = "logarithm or exponential"
WORDS = ("torch.log(", "torch.exp(")
_WHOLE = ("floor", "ceil", "round", "trunc")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    for file in facts.sites.mentioning(["torch.log(", "torch.exp("]):
        for call in file.calls("log", "exp"):
            facts.sites.seen[LOOKS_AT] += 1
            name = file.resolve(call.node.func, call.context)
            if name == "torch.log" and len(call.node.args) == 1:
                better = _better(file, call.node.args[0])
                if better:
                    yield Finding(
                        f"`{ast.unparse(call.node)}` loses digits or overflows where `{better}` does not",
                        call.place.location,
                        help=f"use `{better}`",
                    )
        rounded = [arg for call in file.calls(*_WHOLE) for arg in call.node.args]
        for node in walk(file.module.source.tree):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) and _is_one(node.right):
                if any(node is arg for arg in rounded):
                    continue
                if _is_call(node.left, "torch.exp", file):
                    yield Finding(
                        f"`{ast.unparse(node)}` loses all digits near zero",
                        file.place(node, file.walk.module).location,
                        help="use `torch.expm1`",
                    )


def _better(file: File, node: ast.expr) -> str:
    """The function for `log(1 + x)` and `log(sum(exp(x)))`."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and (_is_one(node.left) or _is_one(node.right)):
        other = node.right if _is_one(node.left) else node.left
        if isinstance(other, ast.Call) and last_name(other.func) in _WHOLE:
            return ""
        return "F.softplus" if _is_call(other, "torch.exp", file) else "torch.log1p"
    if isinstance(node, ast.Call) and node.args and _is_call(node, "torch.sum", file):
        return "torch.logsumexp" if _is_call(node.args[0], "torch.exp", file) else ""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "sum":
        return "torch.logsumexp" if _is_call(node.func.value, "torch.exp", file) else ""
    return ""


def _is_one(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) in (int, float) and node.value == 1


def _is_call(node: ast.expr, name: str, file: File) -> bool:
    return isinstance(node, ast.Call) and file.resolve(node.func, file.walk.module) == name
