"""Loaders that a whole run goes over a single time, whatever it calls an epoch."""

from __future__ import annotations

import ast

from mlcheck.lint.sites.data.loaders import loaders
from mlcheck.lint.sites.iteration import iteration_of
from mlcheck.lint.sites.model import Call
from mlcheck.lint.sites.origins import callers, origins

_DEPTH = 3


def gone_over_once(sampler: Call) -> bool:
    """`for step, batch in enumerate(loader)` around the only backward pass, in a function that no loop calls."""
    sites = sampler.file.sites
    mine = {id(loader.call.node) for loader in sites.once(loaders) if _comes_from(loader.call, sampler)}
    passes = [call for file in sites.mentioning([".backward("]) for call in file.calls("backward")]
    over = [call for call in passes if mine and any(_goes_over(call, mine, at) for at in range(len(call.loops)))]
    return bool(over) and all(len(call.loops) == 1 and not _is_called_again(call, _DEPTH) for call in over)


def _comes_from(loader: Call, sampler: Call) -> bool:
    given = loader.argument("sampler", 3)
    if not isinstance(given, ast.expr):
        return False
    return any(origin.node is sampler.node for origin in origins(loader.file, given, loader.context))


def _goes_over(call: Call, loaders: set[int], at: int) -> bool:
    loop = call.loops[at]
    if not isinstance(loop.node, ast.For | ast.AsyncFor):
        return False
    over = iteration_of(loop.node).over
    return any(id(origin.node) in loaders for origin in origins(call.file, over, loop))


def _is_called_again(call: Call, depth: int) -> bool:
    """Whether a loop stands around a call of the function that this one is in, as far as they can be seen."""
    if call.function is None:
        return False
    above = list(callers(call.file.sites, call.function))
    return not above or depth == 0 or any(each.loops or _is_called_again(each, depth - 1) for each in above)
