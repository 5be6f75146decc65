"""What a training loop goes over: the loaders that a loop with a backward pass takes its batches from."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.lint.nodes import is_name
from mlcheck.lint.sites.data.fitting import fitted
from mlcheck.lint.sites.entering import Entered
from mlcheck.lint.sites.model import Call, Function
from mlcheck.lint.sites.origins import Origin, callers, origins
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.scopes import Context
from mlcheck.lint.sites.training.optimizers import optimizers


def trained(sites: Sites) -> frozenset[int]:
    """The nodes of the calls whose value a training loop runs over, and those of the functions that make it."""
    return frozenset(node for node, _ in sites.once(_gone_over))


def trained_again(sites: Sites) -> frozenset[int]:
    """Those that the loop runs over once more in each turn of another loop around it."""
    return frozenset(node for node, again in sites.once(_gone_over) if again)


def _gone_over(sites: Sites) -> frozenset[tuple[int, bool]]:
    found: set[tuple[int, bool]] = set()
    for call in _backward_calls(sites):
        for loop in call.loops:
            if loop is not call.loops[0] and _begins_anew(call, loop):
                break
            over = loop.node.iter if isinstance(loop.node, ast.For | ast.AsyncFor) else None
            outer = call.loops[-1].node if over is not None and loop is not call.loops[-1] else None
            for node in (*(_iterated(over) if over is not None else ()), *_nexts(call, loop)):
                for origin in _brought(call, node, loop):
                    if _is_of_script_without_training(call, origin):
                        continue
                    again = outer is not None and not _is_made_in(origin, outer)
                    ways = {id(origin.node), *(origin.entered.way if origin.entered is not None else ())}
                    found |= {(way, again) for way in ways}
    for origin in fitted(sites):
        found.add((id(origin.node), False))
        found |= {(way, False) for way in (origin.entered.way if origin.entered is not None else ())}
    return frozenset(found)


def _begins_anew(backward: Call, loop: Context) -> bool:
    """`for sample in loader: optimizer = Adam([code]); for _ in range(9): ...`: each sample is a problem of its own."""
    made = (each for each in backward.file.sites.once(optimizers) if each.file is backward.file)
    return any(around.node is loop.node for each in made for around in each.loops)


def _brought(backward: Call, node: ast.expr, loop: Context) -> Iterator[Origin]:
    """What the loop goes over, but for what a call brings that keeps the backward pass from running.

    `run(model, val_loader, optimizer=None)`, where `if optimizer is not None:` stands around it.
    """
    function = backward.function
    entries = [Entered(function, call) for call in callers(backward.file.sites, function)] if function else []
    training = [each for each in entries if not each.leaves_out(backward.node, backward.context)]
    for entered in training if len(training) < len(entries) else [None]:
        yield from origins(backward.file, node, loop, entered)


def _is_of_script_without_training(backward: Call, origin: Origin) -> bool:
    """`Trainer(model, loader).test()` in a script of its own, where `Trainer.train` is what goes over the loader."""
    function, text = backward.function, origin.file.text
    if function is None or function.cls is None or origin.file is backward.file or "__main__" not in text:
        return False
    names, methods = {function.name}, function.cls.methods.values()
    for _ in range(3):
        names |= {method.name for method in methods if any(f".{name}(" in method.text for name in names)}
    return "__init__" not in names and not any(f".{name}(" in text for name in names)


def _is_made_in(origin: Origin, loop: ast.AST) -> bool:
    """Whether each turn of the loop makes its own."""
    places = [origin.context, *([origin.entered.call.context] if origin.entered is not None else [])]
    return any(outer.node is loop for place in places for outer in place.outwards())


def _iterated(over: ast.expr) -> Iterator[ast.expr]:
    """The loader in `loader`, `enumerate(loader)`, `tqdm(loader, ...)`, `zip(a, b)`."""
    if isinstance(over, ast.Call):
        yield over
        for argument in over.args:
            yield from _iterated(argument)
    elif isinstance(over, ast.Name | ast.Attribute | ast.Subscript):
        yield over


def _nexts(backward: Call, loop: Context) -> Iterator[ast.expr]:
    """What `next()` is asked of in a loop, on the way to the backward pass: `if step % 100 == 0:` leads elsewhere."""
    way = set(backward.context.outwards())
    for call in backward.file.calls("next"):
        outwards = list(call.context.outwards())
        if is_name(call.node.func, "next") and call.node.args and loop in outwards:
            if all(each in way or each.kind in ("loop", "try") for each in outwards[: outwards.index(loop)]):
                yield from _iterated(call.node.args[0])


def _backward_calls(sites: Sites) -> Iterator[Call]:
    """Calls of `backward`, and calls of the functions that make such calls, through two hands.

    Where nothing on the way steps, the gradients are for something else: for maps of what the input counts.
    """
    found = [call for file in sites.mentioning(["backward("]) for call in file.calls("backward")]
    todo = [(call, _steps(call)) for call in found]
    seen: set[Function] = set()
    for _ in range(3):
        yield from (call for call, stepping in todo if stepping)
        inside = [(call.function, stepping) for call, stepping in todo if call.function is not None and not call.loops]
        functions = {function: stepping for function, stepping in inside if function not in seen}
        seen |= functions.keys()
        todo = [
            (call, functions[function] or _steps(call))
            for function in sorted(functions, key=_place)
            for call in callers(sites, function)
        ]


def _steps(call: Call) -> bool:
    return "step(" in call.file.text


def _place(function: Function) -> tuple[str, int]:
    return function.file.path, function.node.lineno
