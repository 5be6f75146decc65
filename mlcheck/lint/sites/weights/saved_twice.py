"""Files of the best weights that the weights of every epoch, or of the last, are written over."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.nodes import walk
from mlcheck.lint.sites.model import Call
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.training.counting import Branch, branches


def written_over(sites: Sites) -> Iterator[Finding]:
    """`if score > best: torch.save(weights, path)`, a plain `torch.save(weights, path)` behind it, and a load of it."""
    saves = [call for call in sites.calls("torch.save") if call.function is not None and len(call.node.args) == 2]
    for best in saves:
        path = ast.unparse(best.node.args[1])
        tests = branches(best.context, best.loops[0]) if best.loops else []
        if len(tests) != 1 or not _compares(tests[0]) or not isinstance(best.node.args[1], ast.Name | ast.Constant):
            continue
        for last in saves:
            if last.function is not best.function or last.node.lineno < best.node.lineno or last is best:
                continue
            if ast.unparse(last.node.args[1]) != path or branches(last.context, None):
                continue
            if _is_loaded(sites, last, path) and not _is_bound_anew(best, last):
                yield Finding(
                    f"This writes over the best weights in `{path}`, whatever their score: the last ones are loaded",
                    last.place.location,
                    help="give it a file of its own",
                    related=(best.place.location,),
                )


def _compares(test: Branch) -> bool:
    return test.holds and "best" in ast.unparse(test.test).lower()


def _is_loaded(sites: Sites, last: Call, path: str) -> bool:
    """Whether the function loads the file afterwards."""
    return any(
        load.function is last.function
        and load.node.lineno > last.node.lineno
        and bool(load.node.args)
        and ast.unparse(load.node.args[0]) == path
        for load in sites.calls("torch.load")
    )


def _is_bound_anew(best: Call, last: Call) -> bool:
    """Whether the path is another by then, or in the next turn."""
    name = best.node.args[1]
    inside = (node for loop in best.loops for node in walk(loop.node))
    bound = {node.id for node in inside if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return isinstance(name, ast.Name) and (name.id in bound or len(last.file.bindings(name.id, last.context)) != 1)
