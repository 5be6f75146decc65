"""Answers of one pass over a loader that shuffles, read by the number of the batch in another pass over it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.facts import Place
from mlcheck.lint.names import canonical
from mlcheck.lint.nodes import is_name, last_name, loads, walk
from mlcheck.lint.sites.blocks import LoopSite, for_loops
from mlcheck.lint.sites.data.loaders import LOADER
from mlcheck.lint.sites.guards import own_attribute
from mlcheck.lint.sites.iteration import iteration_of
from mlcheck.lint.sites.model import Call, Function
from mlcheck.lint.sites.origins import Origin, origins
from mlcheck.lint.sites.project import Sites

_TELLS = frozenset(["print", "info", "debug", "log", "write", "add_scalar", "format", "set_postfix", "append"])
_SIZES = frozenset(["len", "size", "numel"])
_DRAWN = frozenset(f"torch.utils.data.{name}Sampler" for name in ("Random", "SubsetRandom", "WeightedRandom"))


class ByTurn(NamedTuple):
    """Where a list is read by the number of the batch, and where another pass fills it; the list as it is read."""

    name: str
    read: Place
    filled: Place


def read_by_turn(sites: Sites) -> Iterator[ByTurn]:
    """`soft[i]` in `for i, batch in enumerate(loader)`, of what a loop before appended to `soft`, batch by batch."""
    for file in sites.mentioning(["enumerate("]):
        for loop in for_loops(file) if "torch" in file.text else ():
            yield from _in_loop(loop)


def _in_loop(loop: LoopSite) -> Iterator[ByTurn]:
    turn = iteration_of(loop.node)
    if not isinstance(turn.number, ast.Name) or turn.start is not None:
        return
    for read in walk(loop.node):
        if not isinstance(read, ast.Subscript) or not isinstance(read.ctx, ast.Load):
            continue
        if not is_name(read.slice, turn.number.id) or not isinstance(read.value, ast.Name | ast.Attribute):
            continue
        found = [each for made in origins(loop.file, read.value, loop.context) for each in _filling(made)]
        if any(node is loop.node for _, node in found) or not found or not _meets_batch(loop.node, read):
            continue
        own = _drawn_anew(Origin(loop.file, turn.over, loop.context))
        if own and all(_drawn_anew(over) == own for over, _ in found) and own.isdisjoint(loop.file.sites.once(_kept)):
            over, filling = found[0]
            yield ByTurn(
                ast.unparse(read.value), loop.file.place(read, loop.context), over.file.place(filling, over.context)
            )


def _meets_batch(loop: ast.For, read: ast.expr) -> bool:
    """Whether what is read is computed with what the batch brings: `loss(model(x), soft[i])`, and not just told."""
    own, answers = _names(iteration_of(loop).brought), set[str]()
    lines = [line for line in walk(loop) if isinstance(line, ast.Assign)]
    for line in sorted(lines, key=lambda line: line.lineno):
        targets = {part for target in line.targets for part in _names(target)}
        own |= targets if any(loads(line.value, name) for name in own) else set()
        answers |= targets if _holds(line.value, read, answers) else set()
    return any(
        _holds(node, read, answers) and any(loads(node, name) for name in own)
        for node in walk(loop)
        if isinstance(node, ast.BinOp) or (isinstance(node, ast.Call) and last_name(node.func) not in _TELLS)
    )


def _holds(node: ast.AST, read: ast.expr, answers: set[str]) -> bool:
    return any(part is read for part in walk(node)) or any(loads(node, name) for name in answers)


def _filling(made: Origin) -> Iterator[tuple[Origin, ast.AST]]:
    """What a list is filled from, where each batch adds what is computed of it, and the loop that does so."""
    match made.node:
        case ast.ListComp(elt=answer, generators=[part]) if not part.ifs:
            turn = iteration_of(part)
            if _tells_of(answer, _names(turn.brought)):
                yield made._replace(node=turn.over), made.node
        case ast.List(elts=[]):
            function = made.file.function_around(made.context)
            for holder, name in _holders(made, function) if function is not None else ():
                for loop in holder.all(ast.For):
                    if _adds(loop, name):
                        over = made._replace(node=iteration_of(loop).over)
                        yield (over if holder is function else over._replace(context=holder.inner, entered=None)), loop


def _holders(made: Origin, function: Function) -> Iterator[tuple[Function, str]]:
    """The functions that may fill a list, and what it is called there: of an attribute, all methods."""
    for line in function.all(ast.Assign):
        target = line.targets[0] if line.value is made.node else None
        if isinstance(target, ast.Name):
            yield function, target.id
        elif target is not None and own_attribute(target, function) and function.cls is not None:
            yield from ((method, ast.unparse(target)) for method in function.cls.methods.values())


def _adds(loop: ast.For, name: str) -> bool:
    """Whether each turn appends what is computed of what it brings: not the learning rate of the step."""
    known = _names(iteration_of(loop).brought)
    for line in loop.body:
        match line:
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=held, attr="append"), args=[answer])):
                if ast.unparse(held) == name:
                    return _tells_of(answer, known)
            case ast.Assign(targets=targets, value=value) if _tells_of(value, known):
                known |= {part for target in targets for part in _names(target)}
    return False


def _tells_of(answer: ast.expr, known: set[str]) -> bool:
    """Whether it is computed of the samples, and not of how many there are: batches of one number are of one size."""
    match answer:
        case ast.Call(func=func) if last_name(func) in _SIZES:
            return False
        case ast.Subscript(value=ast.Attribute(attr="shape")):
            return False
    return any(loads(answer, each) for each in known)


def _names(target: ast.expr) -> set[str]:
    return {part.id for part in walk(target) if isinstance(part, ast.Name)}


def _drawn_anew(over: Origin) -> frozenset[int]:
    """The calls that make the loader, if it comes in another order each time it is gone over; else none."""
    function = over.file.function_around(over.context)
    if "seed" in (function.text if function is not None else over.file.text):
        return frozenset()  # it may begin each pass with the same draws
    found = origins(over.file, over.node, over.context, over.entered)
    return frozenset(id(each.node) for each in found) if all(map(_is_drawn, found)) else frozenset()


def _kept(sites: Sites) -> frozenset[int]:
    """The calls that make a loader of which somebody keeps the batches: `list(loader)`, and goes over those."""
    lists = (call for file in sites.mentioning(["list(", "tuple("]) for call in file.calls("list", "tuple"))
    given = ((call, call.node.args[0]) for call in lists if call.node.args)
    return frozenset(id(each.node) for call, over in given for each in origins(call.file, over, call.context))


def _is_drawn(made: Origin) -> bool:
    if canonical(made.name) != LOADER or not isinstance(made.node, ast.Call):
        return False
    sampler = Call(made.file, made.node, made.context).argument("sampler", 3)
    if isinstance(sampler, ast.expr):
        drawn = origins(made.file, sampler, made.context, made.entered)
        return all(canonical(each.name) in _DRAWN for each in drawn)
    return made.told("shuffle", 2, False) is True
