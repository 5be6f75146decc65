"""Loaders that a loop goes over side by side, none of them shuffled: their order tells what belongs together."""

from __future__ import annotations

import ast

from mlcheck.lint.nodes import is_name, walk
from mlcheck.lint.sites.model import Call
from mlcheck.lint.sites.origins import Origin, origins
from mlcheck.lint.sites.project import Sites

_LOADER = "torch.utils.data.DataLoader"


def paired(sites: Sites) -> frozenset[int]:
    """The calls that make such loaders: of `for (x,), (noise,) in zip(images, noises)`; `sites.once(paired)`."""
    found: set[int] = set()
    for file in sites.mentioning(["zip("]):
        for call in file.calls("zip"):
            if not is_name(call.node.func, "zip") or len(call.node.args) < 2 or not _is_gone_over(call):
                continue
            made = [origins(file, each, call.context) for each in call.node.args]
            loaders = [origin for each in made for origin in each if origin.name == _LOADER]
            if sum(any(origin in loaders for origin in each) for each in made) > 1 and not any(map(_shuffles, loaders)):
                found |= {id(origin.node) for origin in loaders}
    return frozenset(found)


def _is_gone_over(zipped: Call) -> bool:
    nodes = zipped.function.nodes if zipped.function is not None else walk(zipped.file.module.source.tree)
    loops = (node for node in nodes if isinstance(node, ast.For))
    return any(part is zipped.node for loop in loops for part in walk(loop.iter))


def _shuffles(origin: Origin) -> bool:
    """Whether a loader is told to, or by a sampler, or perhaps."""
    told = {word.arg: word.value for word in origin.node.keywords} if isinstance(origin.node, ast.Call) else {}
    shuffle = told.get("shuffle")
    never = shuffle is None or (isinstance(shuffle, ast.Constant) and not shuffle.value)
    return not never or "sampler" in told or "batch_sampler" in told
