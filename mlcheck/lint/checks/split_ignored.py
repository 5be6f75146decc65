"""split-ignored: a loader over `subset.dataset`, which is all of the data again."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import walk
from mlcheck.lint.sites.loaders import loaders
from mlcheck.lint.sites.origins import origins

LOOKS_AT = "data loader"
_PARTS = ("torch.utils.data.random_split", "torch.utils.data.Subset")


def check(facts: Facts) -> Iterator[Finding]:
    yield from _unused_part(facts)
    for loader in facts.sites.once(loaders):
        data, file = loader.dataset, loader.call.file
        if not isinstance(data, ast.Attribute) or data.attr != "dataset":
            continue
        found = origins(file, data.value, loader.call.context)
        if found and all(
            origin.name in ("torch.utils.data.random_split", "torch.utils.data.Subset") for origin in found
        ):
            yield Finding(
                f"`{ast.unparse(data)}` is the whole data set again, not the part that was split off",
                loader.call.place.location,
                help=f"give the loader `{ast.unparse(data.value)}` itself",
            )


def _unused_part(facts: Facts) -> Iterator[Finding]:
    """A loader over what was split, in the function that splits it, whose training part nothing reads."""
    for loader in facts.sites.once(loaders):
        data, call = loader.dataset, loader.call
        if not isinstance(data, ast.Name) or loader.split in ("val", "test"):
            continue
        for split in call.file.calls("random_split"):
            whole = split.node.args[0] if split.node.args else None
            if split.function is not call.function or not isinstance(whole, ast.Name) or whole.id != data.id:
                continue
            named = call.file.resolve(split.node.func, split.context)
            part = _first_part(call.file.module.source.tree, split.node)
            if named != "torch.utils.data.random_split" or not part or split.node.lineno > call.node.lineno:
                continue
            around = call.function.node if call.function is not None else call.file.module.source.tree
            if not any(isinstance(n, ast.Name) and n.id == part and isinstance(n.ctx, ast.Load) for n in walk(around)):
                yield Finding(
                    f"`{data.id}` is the whole data set, and `{part}`, the part that was split off, is never used",
                    call.place.location,
                    help=f"give the loader `{part}`",
                    related=(split.place.location,),
                )


def _first_part(tree: ast.AST, split: ast.Call) -> str:
    """`train` of `train, val = random_split(...)`."""
    for node in walk(tree):
        if isinstance(node, ast.Assign) and node.value is split and isinstance(node.targets[0], ast.Tuple):
            first = node.targets[0].elts[0]
            return first.id if isinstance(first, ast.Name) and not first.id.startswith("_") else ""
    return ""
