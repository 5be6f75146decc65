"""A batch that is taken once and trained on in each turn, while the loop goes over the loader for nothing."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.facts import Place
from mlcheck.lint.nodes import is_name, last_name, reads_of, walk
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.iteration import iteration_of
from mlcheck.lint.sites.model import Call
from mlcheck.lint.sites.project import Sites


class Kept(NamedTuple):
    """Where the batch is read, what the loop brings instead, and where the batch was taken."""

    read: Place
    brought: str
    taken: Place


def kept_batches(sites: Sites) -> Iterator[Kept]:
    """`fixed = next(iter(loader))`, and `for batch in loader: model(fixed)...backward()`, which never reads `batch`."""
    for file in sites.mentioning(["next(iter("]):
        for taken in file.calls("next") if ".backward(" in file.text else ():
            loader = _loader(taken)
            if loader:
                yield from _ignoring(file, taken, loader)


def _loader(taken: Call) -> str:
    """`loader` of `next(iter(loader))`."""
    match taken.node:
        case ast.Call(func=ast.Name(id="next"), args=[ast.Call(func=ast.Name(id="iter"), args=[loader])]):
            return ast.unparse(loader)
    return ""


def _ignoring(file: File, taken: Call, loader: str) -> Iterator[Kept]:
    held = set(file.names_given(taken.node)) | _unpacked(taken)
    for loop, inside in file.walk.loops if held else ():
        if not isinstance(loop, ast.For) or loop.lineno <= taken.node.lineno:
            continue
        turn = iteration_of(loop)
        if ast.unparse(turn.over) != loader or file.function_around(inside) is not taken.function:
            continue
        nodes = [node for line in loop.body for node in walk(line)]
        brought = [part.id for part in walk(turn.brought) if isinstance(part, ast.Name)]
        learns = any(isinstance(node, ast.Call) and last_name(node.func) == "backward" for node in nodes)
        if not learns or any(name.startswith("_") or reads_of(nodes, name) for name in brought):
            continue
        reads = [read for name in sorted(held) for read in reads_of(nodes, name)]
        changed = any(is_name(node, name) and isinstance(node.ctx, ast.Store) for node in nodes for name in held)
        if reads and not changed:
            yield Kept(file.place(reads[0], taken.context), ast.unparse(turn.brought), taken.place)


def _unpacked(taken: Call) -> set[str]:
    """`x` and `y` of `x, y = next(iter(loader))`."""
    nodes = taken.function.nodes if taken.function is not None else walk(taken.file.module.source.tree)
    lines = [node for node in nodes if isinstance(node, ast.Assign) and node.value is taken.node]
    return {part.id for line in lines for target in line.targets for part in walk(target) if isinstance(part, ast.Name)}
