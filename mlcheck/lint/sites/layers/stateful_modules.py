"""Modules that take a recurrent state and give it back, and loops that hand it from one batch to the next."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Place
from mlcheck.lint.nodes import before_methods, is_name, is_none, last_name, loads, walk
from mlcheck.lint.sites.data.loaders import LOADER
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.guards import own_attribute
from mlcheck.lint.sites.iteration import iteration_of
from mlcheck.lint.sites.layers.recurrent import RECURRENT
from mlcheck.lint.sites.model import Call, Class, Function
from mlcheck.lint.sites.origins import origins, returns
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.scopes import Context

_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_GRADIENTS = pattern(r"\.grad\b")


class Carried(NamedTuple):
    """The call that gets the state of the batch before, the name of that, and the loader that draws the samples."""

    place: Place
    name: str
    loader: Place


def is_stateful(file: File, call: ast.Call, context: Context) -> bool:
    """Whether it is certainly a recurrent layer, or a module that hands its state through one and back."""
    found = origins(file, call.func, context)
    made = [(origin, before_methods(origin.node, ("eval", "train", "to", "cuda"))) for origin in found]
    kinds = [each.file.resolve(node.func, each.context) for each, node in made if isinstance(node, ast.Call)]
    return bool(found) and len(kinds) == len(found) and all(kind in RECURRENT or _hands_on(kind) for kind in kinds)


def _hands_on(cls: object) -> bool:
    """`forward(x, h)` with `y, h = self.rnn(x, h)`, which returns `h` last."""
    forward = cls.find("forward") if isinstance(cls, Class) else None
    if forward is None or not isinstance(cls, Class) or len(forward.parameters) != 3:
        return False
    given = list(forward.parameters)[2]
    back: set[str] = set()
    for node in forward.nodes:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and isinstance(node.targets[0], ast.Tuple):
            call = Call(forward.file, node.value, forward.inner)
            sets = cls.attribute(own_attribute(node.value.func, forward))
            layers = [where.file.called(each.value, each.context) for where, each in sets if each.value is not None]
            state, last = call.argument("hx", 1), node.targets[0].elts[-1]
            if layers and layers[0] in RECURRENT and is_name(state, given):
                back |= {last.id} if isinstance(last, ast.Name) else set()
    ends = [each.elts[-1] for each in returns(forward) if isinstance(each, ast.Tuple) and each.elts]
    return bool(back) and bool(ends) and all(isinstance(end, ast.Name) and end.id in back for end in ends)


def carried_over_shuffled(sites: Sites) -> Iterator[Carried]:
    """`y, h = model(x, h)` for each batch of a loader that draws them at random, where `h` never begins anew.

    That of a learnt optimizer, which is given gradients, belongs to the weights and not to the samples.
    """
    for file in sites.mentioning([".backward("]):
        for loop in dict.fromkeys(call.loops[0] for call in file.calls("backward") if call.loops):
            if not isinstance(loop.node, ast.For | ast.AsyncFor) or _GRADIENTS.search(file.module.text_of(loop.node)):
                continue
            made = origins(file, iteration_of(loop.node).over, loop)
            if not made or any(each.name != LOADER or each.told("shuffle", 2) is not True for each in made):
                continue
            for line, name in _handed_on(file, loop.node, loop):
                yield Carried(file.place(line, loop), name, made[0].file.place(made[0].node, made[0].context))


def _handed_on(file: File, loop: ast.For | ast.AsyncFor, context: Context) -> Iterator[tuple[ast.Assign, str]]:
    """The lines right in the loop by which a state goes in and comes back, and nothing but a cut touches it else."""
    deeper = {node for inner in walk(loop) if isinstance(inner, _LOOPS) and inner is not loop for node in walk(inner)}
    lines = [node for node in walk(loop) if isinstance(node, ast.Assign) and node not in deeper]
    for line in lines:
        match line:
            case ast.Assign(
                targets=[ast.Tuple(elts=[_, ast.Name(id=name)])], value=ast.Call(args=[_, given]) as call
            ) if _is_cut(file, given, name, context) and is_stateful(file, call, context):
                cuts = (each for each in lines if is_name(each.targets[0], name))
                cuts = (each for each in cuts if _is_cut(file, each.value, name, context))
                asked = (node for node in walk(loop) if isinstance(node, ast.Compare) and is_none(node.comparators[0]))
                known = {node for each in (line, *cuts, *asked) for node in walk(each)}
                if not any(node not in known for node in walk(loop) if is_name(node, name)):
                    yield line, name


def _is_cut(file: File, node: ast.expr, name: str, context: Context) -> bool:
    """`h`, `h.detach()`, `tuple(part.detach() for part in h)`, `repackage(h)`: the numbers as they are."""
    if is_name(node, name):
        return True
    named = file.resolve(node.func, context) if isinstance(node, ast.Call) else None
    read = walk(named.node) if isinstance(named, Function) else walk(node)
    changed = any(isinstance(part, ast.BinOp | ast.AugAssign) or "zero" in last_name(part) for part in read)
    return loads(node, name) and not changed and any(last_name(part) in ("detach", "detach_", "data") for part in read)
