"""Parts of the same data cut off at either end: `data[:-100]` and `data[100:]`, which share all that lies between."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.named_tuples import NamedTuple
from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import assigned, last_name, walk
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.scopes import Context
from mlcheck.lint.values import split_of_name

_ENDS = pattern(r"\[ ?: ?- ?([\w.]+) ?[\],]")
_BEGINS = pattern(r"\[ ?([\w.]+) ?: ?[\],]")


class _Part(NamedTuple):
    split: str
    value: ast.expr
    slices: dict[str, ast.expr]


def mirrored_slices(sites: Sites) -> Iterator[Finding]:
    for file in sites.mentioning([":-", ": -"]):
        if "torch" not in file.text or file.is_test:
            continue
        sizes = set(_ENDS.findall(file.text)) & set(_BEGINS.findall(file.text))
        for scope, context in file.scopes() if sizes else ():
            named = [pair for node in file.nodes_in(scope) for pair in _named(node)]
            for size in sorted(sizes):
                fronts = list(_parts(named, f":-{size}"))
                for back in _parts(named, f"{size}:") if fronts else ():
                    for front in fronts:
                        held, learnt = (front, back) if front.split in ("val", "test") else (back, front)
                        if held.split in ("val", "test") and _are_of_one(held, learnt):
                            base = next(iter(held.slices))
                            yield _told(file, context, held.slices[base], learnt.slices[base])


def _told(file: File, context: Context, held: ast.expr, learnt: ast.expr) -> Finding:
    return Finding(
        f"`{ast.unparse(held)}` and `{ast.unparse(learnt)}` share all but their ends: "
        "most of what is held out is trained on",
        file.place(held, context).location,
        help="let one part begin where the other ends",
        related=(file.place(learnt, context).location,),
    )


def _named(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """What gets a name: by an assignment, as an item of a dictionary, or as an argument."""
    if isinstance(node, ast.Assign):
        yield from ((last_name(target), value) for target, value in assigned(node))
    elif isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                yield key.value, value
    elif isinstance(node, ast.keyword) and node.arg:
        yield node.arg, node.value


def _parts(named: list[tuple[str, ast.expr]], cut: str) -> Iterator[_Part]:
    """The names that are given such slices, with what these are taken of."""
    for name, value in named:
        slices = [node for node in walk(value) if isinstance(node, ast.Subscript) and _written(node.slice) == cut]
        if slices:
            yield _Part(split_of_name(name), value, {ast.unparse(node.value): node for node in slices})


def _written(node: ast.expr) -> str:
    """`:-100` of `data[:-100]` and of `data[:-100, :]`."""
    if isinstance(node, ast.Tuple) and node.elts and all(ast.unparse(rest) == ":" for rest in node.elts[1:]):
        node = node.elts[0]
    return ast.unparse(node) if isinstance(node, ast.Slice) else ""


def _are_of_one(held: _Part, learnt: _Part) -> bool:
    """Whether both are of the same data, of which the other is trained on; one without a name is a like data set."""
    if held.slices.keys() != learnt.slices.keys():
        return False
    if learnt.split:
        return learnt.split == "train"
    made = [part.value.func for part in (held, learnt) if isinstance(part.value, ast.Call)]
    return len({ast.unparse(each) for each in made}) == 1 and len(made) == 2 and last_name(made[0])[:1].isupper()
