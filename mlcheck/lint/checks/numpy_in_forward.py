"""numpy-in-forward: a forward pass that waits for the device, and that no compiler can see through."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import walk
from mlcheck.lint.sites import Call, Function
from mlcheck.lint.sites.guards import conditions, in_forward
from mlcheck.lint.sites.layers.modules import module_classes

LOOKS_AT = "module class"
_READS = ("item", "tolist", "numpy")
_SAID = ("print", "log", "warn", "debug", "info", "format", "assert", "shape", "size")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = len(facts.sites.once(module_classes))
    for file in facts.sites.mentioning([f".{name}()" for name in _READS]):
        reads: dict[Function, list[Call]] = {}
        for call in file.calls(*_READS):
            function = in_forward(call)
            if function is not None and not call.node.args and not call.node.keywords and _is_plain(call, function):
                reads.setdefault(function, []).append(call)
        for calls in reads.values():
            name = getattr(calls[0].node.func, "attr", "")
            yield Finding(
                f"`.{name}()` in the forward pass waits for the device to finish and breaks a compiled graph",
                calls[0].place.location,
                help="stay with tensors: `torch.where`, indexing, `masked_fill`; keep numbers for the log outside",
                related=tuple(call.place.location for call in calls[1:5]),
            )


def _is_plain(call: Call, function: Function) -> bool:
    """Under no condition and in no message; of something that the pass computes, not of a size."""
    if conditions(call.context) or function.node.decorator_list:
        return False
    if any(
        isinstance(outer.node, ast.With) and "no_grad" in ast.unparse(outer.node.items[0])
        for outer in call.context.outwards()
    ):
        return False
    line = next((line for line in function.nodes if _is_line_of(line, call.node)), None)
    text = ast.unparse(line) if line is not None else ""
    return not any(word in text for word in _SAID)


def _is_line_of(node: ast.AST, call: ast.Call) -> bool:
    if not isinstance(node, ast.Assign | ast.Return | ast.Expr | ast.AugAssign | ast.Assert | ast.AnnAssign):
        return False
    return any(child is call for child in walk(node))
