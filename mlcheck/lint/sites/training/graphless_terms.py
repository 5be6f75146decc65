"""Terms of a loss that became plain numbers before they were added to it, out of sight of the sum."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.facts import Place
from mlcheck.lint.nodes import before_methods, is_name, last_name
from mlcheck.lint.sites.evaluation.without_gradients import blocks_without
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.model import Call, Function
from mlcheck.lint.sites.origins import origins
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.running import run_by
from mlcheck.lint.sites.scopes import Binding, Context
from mlcheck.lint.sites.training.cut_sums import cut_in_sum

_CUTS = frozenset(["detach", "item"])
_OFF = ("torch.no_grad", "torch.inference_mode", "torch.autograd.no_grad")
_KEEPING = frozenset(["cpu", "mean", "sum", "to", "cuda", "float"])
_OPTIONS = frozenset(["args", "opt", "opts", "cfg", "config", "conf", "hparams", "params", "options"])
_NUMBERS = frozenset(
    f"torch.{name}" for name in ("zeros", "ones", "full", "zeros_like", "ones_like", "full_like", "tensor", "as_tensor")
)

_DEPTH = 2

Spots = Collection[tuple[str, int, int]]


class Term(NamedTuple):
    """The name of a term, where it was cut off, and the sum that it is added to."""

    name: str
    cut: Place
    sum: Place


def graphless_terms(sites: Sites, severed: Spots) -> Iterator[Term]:
    """`aux = aux.item()`, `loss = main + weight * aux`; `severed`: losses that got detached predictions."""
    for file in sites.mentioning([".backward("]):
        for call in file.calls("backward"):
            loss = _differentiated(call)
            if loss is not None:
                text = call.function.text if call.function is not None else file.text
                for value, context in _sums(file, loss, call):
                    yield from _told(file, text, value, context, severed)


def _differentiated(call: Call) -> ast.Name | None:
    """`loss` of `loss.backward()`, `scaler.scale(loss).backward()` and `accelerator.backward(loss)`."""
    func = call.node.func
    given = func.value if isinstance(func, ast.Attribute) else None
    if isinstance(given, ast.Call) and last_name(given.func) == "scale" and given.args:
        given = given.args[0]
    if isinstance(given, ast.Name) and given.id in ("accelerator", "fabric") and call.node.args:
        given = call.node.args[0]
    return given if isinstance(given, ast.Name) else None


def _sums(file: File, loss: ast.Name, call: Call) -> Iterator[tuple[ast.expr, Context]]:
    """The sums that the loss may have been last bound to above: one in each arm of a branch, back to a certain one."""
    around = set(call.context.outwards())
    above = [each for each in file.bindings(loss.id, call.context) if getattr(each.node, "lineno", 0) < loss.lineno]
    for made in reversed(above):
        if isinstance(made.value, ast.BinOp) and not made.context.excludes(call.context):
            yield made.value, made.context
        if made.context in around:
            return


def _told(file: File, text: str, value: ast.expr, context: Context, severed: Spots) -> Iterator[Term]:
    terms = list(_terms(file, value, context))
    cuts = {term.id: _cut(file, term, context, severed) for term in terms if isinstance(term, ast.Name)}
    live = [term for term in terms if cuts.get(last_name(term)) is None and not _is_constant(term)]
    if any(isinstance(node, ast.Attribute) and node.attr in (*_CUTS, "data") for node in ast.walk(value)):
        return  # a cut within the sum is there to be seen
    for name, cut in cuts.items():
        if cut is not None and live and f"{name}.backward(" not in text:
            yield Term(name, file.place(cut, context), file.place(value, context))
    quiet = [(term, call) for term in terms if (call := _quiet_call(file, term, context)) is not None]
    if len(quiet) < len(live):
        yield from (Term(ast.unparse(term), call, file.place(value, context)) for term, call in quiet)


def _quiet_call(file: File, term: ast.expr, context: Context) -> Place | None:
    """The call, where the term is what a function or a module gives that runs under `torch.no_grad()` as a whole.

    Or where the function adds up what it has cut off.
    """
    made = last_above(file, term.id, term, context) if isinstance(term, ast.Name) else None
    call, where = (made.value, made.context) if made is not None else (term, context)
    if not isinstance(call, ast.Call):
        return None
    named = file.resolve(call.func, where)
    if isinstance(named, Function) and (cut := cut_in_sum(named)) is not None:
        return named.place(cut)
    return file.place(call, where) if _is_quiet(file, call, where) else None


def _is_quiet(file: File, call: ast.Call, context: Context, depth: int = _DEPTH) -> bool:
    """Whether what is called asks a network without gradients, or hands what it is given to nothing but such calls."""
    run = run_by(file, call.func, context)
    named = run.function if run is not None else None
    if named is None or "set_grad_enabled" in named.text or "enable_grad" in named.text:
        return False
    if _is_decorated(named) or _reads_without_gradients(named):
        return _asks_network(named)
    given = set(named.parameters) - {named.receiver}
    reads = {id(node) for node in named.all(ast.Name) if node.id in given and isinstance(node.ctx, ast.Load)}
    calls = [node for node in named.all(ast.Call) if any(id(arg) in reads for arg in node.args)] if depth else []
    handed = {id(arg) for node in calls for arg in node.args}
    return bool(calls) and reads <= handed and all(_is_quiet(named.file, c, named.inner, depth - 1) for c in calls)


def _is_decorated(function: Function) -> bool:
    for decorator in function.node.decorator_list:
        manager = decorator.func if isinstance(decorator, ast.Call) and not decorator.args else decorator
        if function.file.resolve(manager, function.defined.context) in _OFF:
            return True
    return False


def _reads_without_gradients(function: Function) -> bool:
    """Whether all that it is given, and all that it asks of its object, is read under `with torch.no_grad():`."""
    quiet = set(blocks_without(function.nodes))
    given = set(function.parameters) - {function.receiver}
    own = function.receiver
    for node in function.nodes:
        if node in quiet:
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in given:
            return False
        if (
            isinstance(node, ast.Call)
            and own
            and isinstance(node.func, ast.Attribute)
            and is_name(node.func.value, own)
        ):
            return False
    return bool(quiet) and bool(given)


def _asks_network(function: Function) -> bool:
    """Whether it calls what it was given or what its object holds: there is something that could learn."""
    own = set(function.parameters)
    for node in function.all(ast.Call):
        func = node.func
        if isinstance(func, ast.Name) and (func.id in own or _is_of_stack(function, func)):
            return True
        if isinstance(func, ast.Attribute) and is_name(func.value, function.receiver):
            if function.cls is not None and function.cls.find(func.attr) is None:
                return True
    return False


def _is_of_stack(function: Function, layer: ast.Name) -> bool:
    """`for layer in self.layers: x = layer(x)`."""
    bound = function.file.bindings(layer.id, function.inner)
    loops = (turn.node for turn in bound if isinstance(turn.node, ast.For))
    over = (node for loop in loops for node in ast.walk(loop.iter) if isinstance(node, ast.Attribute))
    return any(is_name(node.value, function.receiver) for node in over)


def _terms(file: File, node: ast.expr, context: Context) -> Iterator[ast.expr]:
    """What is added up, without the constants that it is multiplied by or divided by."""
    match node:
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub(), right=right):
            yield from _terms(file, left, context)
            yield from _terms(file, right, context)
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            yield from _terms(file, inner, context)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            if _is_constant(left) or _is_number(file, left, context):
                yield from _terms(file, right, context)
            elif _is_constant(right) or _is_number(file, right, context):
                yield from _terms(file, left, context)
        case ast.BinOp(left=left, op=ast.Div(), right=right) if _is_constant(right):
            yield from _terms(file, left, context)
        case _:
            yield node


def _is_number(file: File, node: ast.expr, context: Context) -> bool:
    """A name that holds a number, or does so unless the function is given another one."""
    found = origins(file, node, context) if isinstance(node, ast.Name | ast.Attribute) else []
    function = file.function_around(context)
    default = function.parameters.get(node.id) if function is not None and isinstance(node, ast.Name) else None
    values = [each.node for each in found if each.node is not node] + [default] * (default is not None)
    return bool(values) and all(isinstance(v, ast.Constant) and isinstance(v.value, int | float) for v in values)


def _is_constant(node: ast.expr) -> bool:
    """A number, an option (`args.weight`), or a name in capitals: no weight that is learnt."""
    if isinstance(node, ast.Attribute):
        return last_name(node.value) in _OPTIONS or node.attr.isupper()
    return isinstance(node, ast.Constant) or (isinstance(node, ast.Name) and node.id.isupper())


def _cut(file: File, term: ast.Name, context: Context, severed: Spots) -> ast.AST | None:
    """Where the term lost its graph, by the last line that binds it."""
    made = last_above(file, term.id, term, context)
    value = made.value if made is not None else None
    if made is None or not isinstance(value, ast.expr):
        return None
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "float" and value.args:
        return value if isinstance(value.args[0], ast.Name) and _is_computed(file, value.args[0], made) else None
    inner = before_methods(_without_factor(value), _KEEPING)
    if isinstance(inner, ast.Call) and last_name(inner.func) in _CUTS and isinstance(inner.func, ast.Attribute):
        owner = before_methods(inner.func.value, _CUTS | _KEEPING)
        new = file.called(owner, made.context) in _NUMBERS
        return value if (isinstance(owner, ast.Call) and not new) or _is_computed(file, owner, made) else None
    spot = (file.path, inner.lineno, inner.col_offset)
    return value if spot in severed and isinstance(inner, ast.Call) and _is_of_data(file, inner, made) else None


def _without_factor(node: ast.expr) -> ast.expr:
    """`distance.detach()` of `distance.detach() * args.weight`."""
    match node:
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return left if _is_constant(right) else right if _is_constant(left) else node
        case ast.BinOp(left=left, op=ast.Div(), right=right) if _is_constant(right):
            return left
    return node


def _is_computed(file: File, node: ast.expr, made: Binding) -> bool:
    """Whether the name holds what a call or a formula gave, above the line that cuts it off."""
    above = last_above(file, node.id, node, made.context, made.node) if isinstance(node, ast.Name) else None
    return above is not None and isinstance(above.value, ast.Call | ast.BinOp)


def _is_of_data(file: File, loss: ast.Call, made: Binding) -> bool:
    """Whether the target is new numbers, or what the loop brings: nothing that could be learnt."""
    target = loss.args[1] if len(loss.args) == 2 else None
    if isinstance(target, ast.Name):
        above = last_above(file, target.id, target, made.context)
        if above is not None and above.kind in ("loop", "item") and "loop" in (above.kind, above.context.kind):
            return True
        target = above.value if above is not None and isinstance(above.value, ast.expr) else None
    return target is not None and file.called(before_methods(target, ("to", "cuda", "float")), made.context) in _NUMBERS


def last_above(file: File, name: str, use: ast.AST, context: Context, before: ast.AST | None = None) -> Binding | None:
    """The binding that stands last above this one in the text, branches of another arm left out."""
    line = getattr(before if before is not None else use, "lineno", 0)
    above = [
        binding
        for binding in file.bindings(name, context)
        if getattr(binding.node, "lineno", 0) < line and not binding.context.excludes(context)
    ]
    return above[-1] if above else None
