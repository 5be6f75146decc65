"""Schedules that count the steps of an optimizer, and are stepped for every batch that it waits for."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.lint.facts import Place
from mlcheck.lint.nodes import stores, walk
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.model import Call
from mlcheck.lint.sites.origins import Origin, callers, origins
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.scopes import Context
from mlcheck.lint.sites.training.counting import branches

_SPACES = ("torch.optim.lr_scheduler.", "transformers.get_", "transformers.optimization.get_")
_DEPTH = 4


def stepped_too_often(sites: Sites) -> Iterator[tuple[Call, Call, Origin, str]]:
    """The step of the schedule, that of the optimizer, where the schedule is made, and by what its length is divided.

    The optimizer steps after every n-th batch, the schedule is as long as the batches divided by n, and each batch
    steps it.
    """
    if any(True for _ in sites.mentioning(["accelerat", "deepspeed"], tests=True)):
        return  # which step a schedule when the optimizer steps
    for file in sites.mentioning([".step("]):
        for call in file.calls("step"):
            if call.function is None or not call.loops or call.node.args or branches(call.context, call.loops[0]):
                continue
            made = _schedule(call)
            for other in file.calls("step") if made is not None else ():
                if made is None or other.function is not call.function or call.loops[0] not in other.loops:
                    continue
                tests = branches(other.context, call.loops[0])
                periods = {
                    ast.unparse(part) for test in tests for part in _divisors(file, test.test, test.context, ast.Mod)
                }
                lengths = {
                    ast.unparse(part)
                    for file_of, argument, context in _told(made)
                    for part in _divisors(file_of, argument, context, ast.FloorDiv, ast.Div)
                }
                if len(tests) == 1 and tests[0].holds and (shared := periods & lengths):
                    yield call, other, made, min(shared)


def _schedule(call: Call) -> Origin | None:
    """The call that makes what is stepped, where that is a schedule for certain."""
    owner = call.owner
    found = origins(call.file, owner, call.context) if owner is not None else []
    return found[0] if len(found) == 1 and found[0].name.startswith(_SPACES) else None


def _told(made: Origin) -> Iterator[tuple[File, ast.expr, Context]]:
    """What the schedule is given, and what the function of the project is given that makes and returns it."""
    yield from ((made.file, argument, made.context) for argument in _arguments(made))
    if made.entered is not None:
        call = made.entered.call
        handed = _arguments(Origin(call.file, call.node, call.context))
        yield from ((call.file, argument, call.context) for argument in handed)


def _arguments(made: Origin) -> list[ast.expr]:
    node = made.node
    return [*node.args[1:], *(word.value for word in node.keywords)] if isinstance(node, ast.Call) else []


def _divisors(
    file: File, node: ast.expr, context: Context, *kinds: type[ast.operator], depth: int = _DEPTH
) -> Iterator[ast.expr]:
    """What something is divided by in an expression, also behind the names in it."""
    for part in _behind(file, node, context, depth):
        if isinstance(part, ast.BinOp) and isinstance(part.op, kinds) and not isinstance(part.right, ast.Constant):
            yield part.right


def _behind(file: File, node: ast.expr, context: Context, depth: int = _DEPTH) -> Iterator[ast.AST]:
    """All parts of an expression, and of those behind the names in it."""
    for part in walk(node):
        yield part
        made, where = source(file, part, context) if isinstance(part, ast.Name) and depth else (part, context)
        if made is not part and isinstance(made, ast.expr):
            yield from _behind(file, made, where, depth - 1)


def stepped_too_rarely(sites: Sites) -> Iterator[tuple[Call, Origin, str]]:
    """The step of a schedule after every n-th batch, where it is made, and the length in batches that it was given."""
    if any(True for _ in sites.mentioning(["accelerat", "deepspeed"], tests=True)):
        return
    for file in sites.mentioning([".step("]):
        for call in file.calls("step"):
            tests = branches(call.context, call.loops[0]) if call.function is not None and call.loops else []
            batches = _gone_through(call.loops[0].node) if len(tests) == 1 and tests[0].holds else ""
            counted = any(_is_operation(part, ast.Mod) for each in tests for part in walk(each.test))
            made = _schedule(call) if batches and counted else None
            if made is None or made.file is not file or not _is_in_reach(call, made, batches):
                continue
            for argument in _arguments(made):
                parts = list(_behind(file, argument, made.context))
                divided = any(_is_operation(part, ast.Div, ast.FloorDiv) for part in parts)
                length = f"len({batches})"
                if not divided and any(isinstance(part, ast.Call) and ast.unparse(part) == length for part in parts):
                    yield call, made, length
                    break


def _is_operation(node: ast.AST, *kinds: type[ast.operator]) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, kinds)


def _gone_through(loop: ast.AST) -> str:
    """`loader` of `for i, batch in enumerate(tqdm(loader))`."""
    over = loop.iter if isinstance(loop, ast.For) else None
    while isinstance(over, ast.Call) and over.args:
        over = over.args[0]
    return ast.unparse(over) if isinstance(over, ast.Name | ast.Attribute) else ""


def _is_in_reach(call: Call, made: Origin, name: str) -> bool:
    """Whether the name means the same where the schedule is made and where it is stepped."""
    around = made.file.function_around(made.context)
    if around is call.function:
        return True
    return name.startswith("self.") and around is not None and call.function is not None and around.cls is call.cls


def shrunk_every_batch(sites: Sites) -> Iterator[tuple[Place, ast.expr]]:
    """`if epoch in milestones: group["lr"] *= 0.1` inside the loop over batches, and the test that lets it."""
    for file in sites.mentioning(["['lr']", '["lr"]']):
        for function in (*file.functions, None):
            nodes = function.nodes if function is not None else walk(file.module.source.tree)
            for loop in (node for node in nodes if isinstance(node, ast.For) and _shrinks(node)):
                context = next((inner for node, inner in file.walk.loops if node is loop), None)
                if context is not None and file.function_around(context) is function:
                    yield from _in_batches(file, context, loop)
                if function is not None and function.cls is None and function.node.body[-1:] == [loop]:
                    for call in callers(sites, function):
                        yield from _in_batches(call.file, call.context, call.node)


def _shrinks(loop: ast.For) -> bool:
    """`for group in optimizer.param_groups: group["lr"] *= factor`."""
    if not ast.unparse(loop.iter).endswith(".param_groups") or not isinstance(loop.target, ast.Name):
        return False
    own = f"{loop.target.id}['lr']"
    match loop.body:
        case [ast.AugAssign(target=target, op=ast.Mult() | ast.Div())]:
            return ast.unparse(target) == own
        case [ast.Assign(targets=[target], value=ast.BinOp(left=left, op=ast.Mult() | ast.Div()))]:
            return ast.unparse(target) == ast.unparse(left) == own
    return False


def _in_batches(file: File, context: Context, node: ast.AST) -> Iterator[tuple[Place, ast.expr]]:
    """Where every test around it, up to the loop of the batches, asks for what this loop never changes."""
    around = [outer for outer in context.outwards() if outer.node is not node]
    ends = next((i for i, outer in enumerate(around) if outer.kind in ("function", "lambda", "class")), len(around))
    loops = [outer.node for outer in around[:ends] if outer.kind == "loop"]
    tests = [outer.node.test for outer in around[:ends] if isinstance(outer.node, ast.If) and outer.arm == "body"]
    if len(loops) < 2 or len(tests) != 1 or not all(isinstance(loop, ast.For) for loop in loops[:2]):
        return
    batches, epochs = loops[0], loops[1]
    guarded = any(tests[0] is getattr(part, "test", None) for part in walk(batches))
    asked = {part.id for part in walk(tests[0]) if isinstance(part, ast.Name)}
    counted = {part.id for part in walk(getattr(epochs, "target", epochs)) if isinstance(part, ast.Name)}
    calls = any(isinstance(part, ast.Call) for part in walk(tests[0]))
    if guarded and asked & counted and not calls and not any(stores(batches, name) for name in asked):
        if any(isinstance(part, ast.Attribute) and part.attr == "backward" for part in walk(batches)):
            yield file.place(node, context), tests[0]
