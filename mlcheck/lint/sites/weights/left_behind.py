"""Averaged models whose batch-norm statistics stay what they were when the copy was made."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import before_methods, is_name, walk
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.layers.running_statistics import keeps_statistics
from mlcheck.lint.sites.model import OPEN, Call, Function
from mlcheck.lint.sites.origins import origins
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.scopes import Context

_TAKES_OVER = pattern(r"buffers\(|running_mean|state_dict\(|update_bn|num_batches_tracked|momentum\s*=\s*None")
_REFRESHES = ("update_bn(", "bn_update", "running_mean", "reset_running_stats")
_COPIED = ("to", "cuda", "cpu", "eval", "requires_grad_")


def without_buffers(file: File) -> Iterator[Finding]:
    """A deep copy that is put into eval mode for good, and gets parameters but never the statistics."""
    if "deepcopy" not in file.text or _TAKES_OVER.search(file.text):
        return
    for call in file.calls("zip"):
        if len(call.node.args) != 2 or not all(ast.unparse(arg).endswith(".parameters()") for arg in call.node.args):
            continue
        loop = next((node for node in walk(file.module.source.tree) if iterates(node, call.node)), None)
        if not isinstance(loop, ast.For) or not isinstance(loop.target, ast.Tuple) or len(loop.target.elts) != 2:
            continue
        for number, argument in enumerate(call.node.args):
            updated = ast.unparse(loop.target.elts[number])
            owner = model_in(argument)
            if is_blended(loop, updated) and _stays_behind(file, owner, call.context):
                yield Finding(
                    f"Only parameters are averaged: the batch-norm statistics of `{ast.unparse(owner)}` stay "
                    "as they were when it was copied, and it is evaluated with them",
                    file.place(loop, call.context).location,
                    help="copy the buffers too: `for a, b in zip(average.buffers(), model.buffers()): a.copy_(b)`",
                )


def iterates(node: ast.AST, over: ast.Call) -> bool:
    return isinstance(node, ast.For) and node.iter is over


def is_blended(loop: ast.For, name: str) -> bool:
    text = "\n".join(ast.unparse(statement) for statement in loop.body)
    return (
        re.search(rf"(?<![\w.]){re.escape(name)}(?:\.data|\.detach\(\))?\.(?:mul_|lerp_|copy_|data = )", text)
        is not None
    )


def _stays_behind(file: File, owner: ast.expr, context: Context) -> bool:
    """Whether it is a deep copy of a model with batch norm, put into eval mode and never back, and called."""
    found = origins(file, owner, context)
    copy = found[0] if len(found) == 1 else None
    made = before_methods(copy.node, _COPIED) if copy is not None else None
    if copy is None or not isinstance(made, ast.Call) or copy.file.called(made, copy.context) != "copy.deepcopy":
        return False
    names, text = copy.file.names_given(copy.node), copy.file.text
    own = rf"{'[.]' if isinstance(owner, ast.Attribute) else ''}\b{names[0]}" if len(names) == 1 else "(?!)"
    put = re.search(rf"{own}\.eval\(\)", text) or ".eval()" in ast.unparse(copy.node)
    if not put or re.search(rf"{own}\.train\(", text):
        return False
    models = origins(copy.file, made.args[0], copy.context) if made.args else []
    called = any(re.search(rf"{own}\(", each.text) for each in file.sites.mentioning([f"{names[0]}("]))
    return called and bool(models) and all(keeps_statistics(model.file, model.node, model.context) for model in models)


def model_in(node: ast.expr) -> ast.expr:
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        node = node.func.value
    return node


def never_updated(sites: Sites) -> Iterator[Finding]:
    """`AveragedModel(model)` of a model with batch norm, which is evaluated, and no `update_bn` anywhere."""
    made = list(sites.calls("torch.optim.swa_utils.AveragedModel"))
    if not made or any(True for _ in sites.mentioning(_REFRESHES, tests=True)):
        return
    for call in made:
        names, model = call.file.names_given(call.node), call.argument("model", 0)
        if len(names) != 1 or model is None or model is OPEN or call.argument("use_buffers") is not None:
            continue
        found = origins(call.file, model, call.context)
        evaluated = list(_evaluating(call.file, names[0]))
        if evaluated and found and all(keeps_statistics(each.file, each.node, each.context) for each in found):
            yield Finding(
                f"Only parameters are averaged: the batch-norm statistics of `{names[0]}` stay as they were when it "
                "was copied, and it is evaluated with them",
                evaluated[0].place.location,
                help=f"`update_bn(loader, {names[0]})` before, or `use_buffers=True` where it is made",
                related=(call.place.location,),
            )


def _evaluating(file: File, name: str) -> Iterator[Call]:
    """`average.eval()`, and `evaluate(average, loader)` where that function puts what it is given into eval mode."""
    yield from (call for call in file.calls("eval") if ast.unparse(call.node.func).endswith(f"{name}.eval"))
    for calls in file.walk.calls.values():
        for node, context in calls:
            position = next((number for number, given in enumerate(node.args) if is_name(given, name)), None)
            function = file.resolve(node.func, context) if position is not None else None
            if isinstance(function, Function) and position is not None and not function.receiver:
                parameter = list(function.parameters)[position : position + 1]
                if parameter and f"{parameter[0]}.eval()" in function.text:
                    yield Call(file, node, context)
