"""The optimizers of a program, by the calls that make them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.nodes import last_name, loads, walk
from mlcheck.lint.sites.blocks import blocks
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.model import OPEN, Call, Function
from mlcheck.lint.sites.origins import callers, returns
from mlcheck.lint.sites.project import Sites

OPTIMIZERS = ("Adam", "AdamW", "SGD", "RMSprop", "Adagrad", "Adadelta", "NAdam", "RAdam", "Adamax")
SCHEDULERS = (
    *("StepLR", "MultiStepLR", "LambdaLR", "ExponentialLR", "LinearLR", "PolynomialLR", "OneCycleLR", "CyclicLR"),
    *("CosineAnnealingLR", "CosineAnnealingWarmRestarts", "ReduceLROnPlateau", "ConstantLR", "MultiplicativeLR"),
)
_NAMELESS = "what is returned"
_ENDS = (ast.For, ast.AsyncFor, ast.While, ast.Return, ast.Raise, ast.Continue, ast.Break)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def optimizers(sites: Sites) -> tuple[Call, ...]:
    """All calls that make one of torch's; `sites.once(optimizers)`."""
    return tuple(sites.calls(*(f"torch.optim.{name}" for name in OPTIMIZERS)))


def around(call: Call) -> ast.AST:
    """The function that a call stands in, or the whole file."""
    return call.function.node if call.function is not None else call.file.module.source.tree


def following(call: Call) -> Iterator[ast.stmt]:
    """The statements that come after that of the call, in the same block."""
    todo = [around(call)]
    for node in todo:
        for block in blocks(node):
            todo += block
            for index, statement in enumerate(block):
                if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is call.node:
                    yield from block[index + 1 :]
                    return


def before_training(call: Call) -> Iterator[ast.stmt]:
    """The statements that run after that of the call and before the next loop, and those in their branches."""
    for parent, rest in _rests(around(call), call.node):
        for statement in _opened(rest):
            if isinstance(statement, _ENDS):
                return
            yield statement
        if isinstance(parent, _ENDS):
            return


def before_training_later(call: Call) -> Iterator[ast.stmt]:
    """The statements before any loop in the other methods of an object whose constructor makes the optimizer.

    Nothing where one of them makes it anew; a method that fetches the model to the CPU may only bring it back.
    """
    init = call.cls.find("__init__") if call.cls is not None else None
    if call.cls is None or call.function is None or init is None or init.cls is not call.cls:
        return
    if call.function is not init and {above.function for above in callers(call.file.sites, call.function)} != {init}:
        return
    kept = [sets for sets in call.cls.attributes.values() if any(each.value is call.node for _, each in sets)]
    if any(where not in (init, call.function) for sets in kept for where, _ in sets):
        return
    at_once = {last_name(node.func) for node in init.nodes if isinstance(node, ast.Call)}
    for method in call.cls.methods.values():
        if method not in (init, call.function) and method.name not in at_once and not _leaves(method):
            for statement in _opened(method.node.body):
                if isinstance(statement, _ENDS):
                    break
                yield statement


def _leaves(method: Function) -> bool:
    return any(word in method.text for word in (".cpu()", '.to("cpu")', ".to('cpu')"))


def _rests(node: ast.AST, made: ast.Call) -> list[tuple[ast.AST, list[ast.stmt]]]:
    """What is left of each block around the statement that assigns the call, innermost first; none if not in it."""
    for block in blocks(node):
        for index, statement in enumerate(block):
            if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is made:
                return [(node, block[index + 1 :])]
            inside = [] if isinstance(statement, _SCOPES) else _rests(statement, made)
            if inside:
                return [*inside, (node, block[index + 1 :])]
    return []


def _opened(block: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a block, and those in its branches behind the `if` or `with` they stand in."""
    for statement in block:
        yield statement
        if isinstance(statement, ast.If | ast.With | ast.Try):
            for inner in blocks(statement):
                yield from _opened(inner)


def handed_out(made: Call, model: str, optimizer: str) -> Iterator[tuple[Call, str, str]]:
    """`model, optimizer = build()`: the calls of the function that returns both, with the names that they get.

    The optimizer may be made right where it is returned.
    """
    given = list(returns(made.function)) if made.function is not None else []
    if made.function is None or len(given) != 1 or not isinstance(given[0], ast.Tuple):
        return
    names = [
        part.id if isinstance(part, ast.Name) else optimizer if part is made.node else "" for part in given[0].elts
    ]
    if model not in names or optimizer not in names:
        return
    for call in callers(made.file.sites, made.function):
        for statement in walk(around(call)):
            if isinstance(statement, ast.Assign) and statement.value is call.node:
                target = statement.targets[0]
                if isinstance(target, ast.Tuple) and len(target.elts) == len(names):
                    kept = [part.id if isinstance(part, ast.Name) else "" for part in target.elts]
                    yield call, kept[names.index(model)], kept[names.index(optimizer)]


class Optimized(NamedTuple):
    """A model whose parameters an optimizer is given, as written, and the call that brings the optimizer there."""

    call: Call
    model: str


def optimized(call: Call) -> Iterator[Optimized]:
    """`model` of `Adam(model.parameters())`; in a function that returns it, what its calls give for `model`."""
    given = call.argument("params", 0)
    if not isinstance(given, ast.Call) or not isinstance(given.func, ast.Attribute) or given.func.attr != "parameters":
        return
    owner, function = given.func.value, call.function
    yield Optimized(call, ast.unparse(owner))
    names = call.file.names_given(call.node)
    if isinstance(owner, ast.Name) and len(names) < 2:
        for above, model, optimizer in handed_out(call, owner.id, names[0] if names else _NAMELESS):
            if loads(around(above), optimizer):
                yield Optimized(above, model)
    if function is None or not isinstance(owner, ast.Name) or owner.id not in function.parameters:
        return
    if not any(returned is call.node for returned in returns(function)):
        return
    position = list(function.parameters).index(owner.id) - (1 if function.receiver else 0)
    for above in callers(call.file.sites, function):
        handed = above.argument(owner.id, position)
        if handed is not None and handed is not OPEN:
            yield Optimized(above, ast.unparse(handed))


def model_given(made: Call) -> str:
    """`model` in `SGD(model.parameters())`, `SGD([p for p in model.parameters() if p.requires_grad])` and the like."""
    given = made.argument("params", 0)
    params = source(made.file, given, made.context)[0] if given is not None else None
    if isinstance(params, ast.ListComp | ast.GeneratorExp) and isinstance(params.elt, ast.Name):
        params = params.generators[0].iter
    elif isinstance(params, ast.Call) and isinstance(params.func, ast.Name) and params.func.id in ("filter", "list"):
        params = params.args[-1] if params.args else None
    func = params.func if isinstance(params, ast.Call) and not params.args else None
    if not isinstance(func, ast.Attribute) or func.attr != "parameters" or not isinstance(func.value, ast.Name):
        return ""
    return func.value.id
