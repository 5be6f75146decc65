"""schedule-returns-rate: the function of LambdaLR returns a learning rate, where a factor of it is wanted."""

import ast
from collections.abc import Iterator
from typing import NamedTuple

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import last_name, walk
from mlcheck.lint.sites import OPEN, Call, Context, File
from mlcheck.lint.sites.origins import Origin, origins, returns
from mlcheck.lint.sites.running import run_by
from mlcheck.lint.sites.training.optimizers import optimizers

LOOKS_AT = "LambdaLR"
WORDS = ("schedule",)
_PARAMETERS = ("parameters", "named_parameters", "filter", "list", "iter", "chain", "values", "items")


def check(facts: Facts) -> Iterator[Finding]:
    made = list(facts.sites.calls("torch.optim.lr_scheduler.LambdaLR"))
    facts.sites.seen[LOOKS_AT] = len(made)
    for call in made:
        given, owner = call.argument("lr_lambda", 1), call.argument("optimizer", 0)
        if given is None or given is OPEN or owner is None or owner is OPEN:
            continue
        rate = _rate(facts, call, owner)
        if rate is None:
            continue
        for each in sorted(_returned(call, given), key=lambda each: each.value.lineno):
            if any(_is_factor(each.value, name) for name in _names_of(each, call, rate)):
                yield Finding(
                    f"LambdaLR multiplies the learning rate by this value: it becomes `{ast.unparse(rate)}` squared",
                    each.file.place(each.value, each.context).location,
                    help=f"return the factor alone, without `{ast.unparse(rate)}`",
                    related=(call.place.location,),
                )
                break


def _rate(facts: Facts, call: Call, owner: ast.expr) -> ast.expr | None:
    """The name of the learning rate that the scheduled optimizer is made with; None where it is 1 or not known."""
    found = {id(origin.node) for origin in origins(call.file, owner, call.context)}
    made = [each for each in facts.sites.once(optimizers) if id(each.node) in found]
    given = made[0].argument("lr", 1) if len(made) == 1 and len(found) == 1 else None
    if given is not None and _may_have_rates(made[0]):
        return None
    if (
        not isinstance(given, ast.Name | ast.Attribute)
        or given is OPEN
        or made[0].file.constant(given, made[0].context) == 1
    ):
        return None
    return given


def _may_have_rates(made: Call) -> bool:
    """Whether the parameters may come in groups with learning rates of their own, which the optimizer's is not for."""
    given = made.argument("params", 0)
    if given is None or given is OPEN:
        return True
    bound = made.file.bindings(given.id, made.context) if isinstance(given, ast.Name) else ()
    return any(_is_grouped(value) for value in [given, *(each.value for each in bound)] if isinstance(value, ast.AST))


def _is_grouped(params: ast.AST) -> bool:
    """Whether this has rates written into it, or comes from a function that may write them."""
    return any(
        (isinstance(node, ast.Call) and last_name(node.func) not in _PARAMETERS)
        or (
            isinstance(node, ast.Dict) and any(isinstance(key, ast.Constant) and key.value == "lr" for key in node.keys)
        )
        for node in walk(params)
    )


class _Result(NamedTuple):
    """What the schedule returns, and what stands beforehand for some of the parameters there."""

    file: File
    value: ast.expr
    context: Context
    given: dict[str, Origin]


def _returned(call: Call, given: ast.expr) -> Iterator[_Result]:
    """The results of the function, wherever it is defined: of a lambda its body."""
    value, context = call.file.value(given, call.context)
    if isinstance(value, ast.Lambda):
        yield _Result(call.file, value.body, context, {})
    elif (run := run_by(call.file, given, call.context)) is not None:
        for each in returns(run.function):
            yield _Result(run.function.file, each, run.function.inner, run.given)


def _names_of(result: _Result, call: Call, rate: ast.expr) -> Iterator[str]:
    """What the learning rate is called there: as here, or by what was given it."""
    yield ast.unparse(rate)
    wanted = _source(Origin(call.file, rate, call.context))
    for node in walk(result.value):
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
            held = result.given.get(ast.unparse(node), Origin(result.file, node, result.context))
            if wanted is not None and _source(held) == wanted:
                yield ast.unparse(node)


def _source(origin: Origin) -> tuple[str, str, int] | None:
    """Where a value comes from in the end: a number, by its place; a name or a setting, by the function around."""
    found = origins(origin.file, origin.node, origin.context)
    if len(found) != 1:
        return None
    node, context = found[0].node, found[0].context
    scope = next((outer.node for outer in context.outwards() if outer.kind == "function"), None)
    where = scope if isinstance(node, ast.Name | ast.Attribute) else node
    return found[0].file.path, ast.unparse(node), id(where)


def _is_factor(value: ast.expr, rate: str) -> bool:
    """Whether the value is the rate times something: not a difference or a quotient of two rates."""
    written = [ast.unparse(node) for node in walk(value) if isinstance(node, ast.Name | ast.Attribute)]
    if written.count(rate) != 1:
        return False
    while True:
        if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mult):
            sides = (value.left, value.right)
        elif isinstance(value, ast.BinOp) and isinstance(value.op, ast.Div):
            sides = (value.left,)  # type: ignore[assignment]
        else:
            return ast.unparse(value) == rate
        inner = [
            side
            for side in sides
            if any(ast.unparse(node) == rate for node in walk(side) if isinstance(node, ast.expr))
        ]
        if not inner:
            return False
        value = inner[0]
