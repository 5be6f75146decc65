"""Gradient scalers that step and keep their first scale for good: nothing updates them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mlcheck.core.finding import Location
from mlcheck.lint.nodes import last_name, walk
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.guards import own_attribute
from mlcheck.lint.sites.model import OPEN, Call, Class, Function
from mlcheck.lint.sites.origins import callers
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.scopes import Context

SCALERS = ("torch.amp.GradScaler", "torch.cuda.amp.GradScaler", "torch.amp.grad_scaler.GradScaler")

Stuck = tuple[Call, str, Location]


def never_updated(sites: Sites) -> Iterator[Stuck]:
    """The step, the scaler's name there, and where the scaler was made: the first overflow is met at every step."""
    for made in sites.calls(*SCALERS):
        for name in made.file.names_given(made.node):
            files = list(sites.mentioning([name], tests=True))
            steps = [call for file in files for call in file.calls("step") if _last(call.node.func) == f"{name}.step"]
            if steps and not any(_updates(file, name) or _hands_on(file, name) for file in files):
                yield steps[0], name, made.place.location
    for file in sites.mentioning([".scale("]):
        for step in file.calls("step"):
            owner = step.owner
            if isinstance(owner, ast.Name):
                yield from _of_variable(step, owner.id)
            elif isinstance(owner, ast.Attribute) and step.cls is not None:
                yield from _of_object(step, step.cls, own_attribute(owner, step.function))


def _of_variable(step: Call, name: str) -> Iterator[Stuck]:
    """`scaler.scale(loss).backward()` and `scaler.step(optimizer)` of a variable that no one else can update."""
    file, function = step.file, step.function
    bound = file.bindings(name, step.context)
    text = function.text if function is not None else file.text
    own = bool(bound) and all(file.function_around(each.context) is function for each in bound)
    if not own or not step.loops or f"{name}.scale(" not in text or _is_updated(name, text):
        return
    if _hands_on(file, name, function.node if function is not None else None):
        return
    if any(each.kind == "param" for each in bound):
        made = _all_made(step.file.sites, function, name) if function is not None and len(bound) == 1 else None
        if made is not None:
            yield step, name, made
    elif function is not None or not _is_imported(file, name):
        yield step, name, file.place(bound[0].node, bound[0].context).location


def _all_made(sites: Sites, function: Function, parameter: str) -> Location | None:
    """Where the scaler is made that the callers give, if none of them updates it or lets another do so."""
    position, made = list(function.parameters).index(parameter) - bool(function.receiver), None
    for call in callers(sites, function):
        given = call.argument(parameter, position)
        if not isinstance(given, ast.Name) or given is OPEN or call.function is function:
            return None
        around, bound = call.function, call.file.bindings(given.id, call.context)
        scalers = [each for each in bound if each.value is not None and _makes(call.file, each.value, each.context)]
        text = around.text if around is not None else call.file.text
        if not scalers or any(call.file.function_around(each.context) is not around for each in bound):
            return None
        within = around.node if around is not None else None
        if _is_updated(given.id, text) or _hands_on(call.file, given.id, within, trusted=True):
            return None
        if around is None and _is_imported(call.file, given.id):
            return None
        made = call.file.place(scalers[0].node, scalers[0].context).location
    return made


def _of_object(step: Call, cls: Class, name: str) -> Iterator[Stuck]:
    """`self.scaler` of an object that makes it and steps it, and that nothing updates there or from outside."""
    sets = cls.attribute(name) if name else []
    made = [(function, each) for function, each in sets if each.value is not None]
    scalers = [(f, each) for f, each in made if each.value is not None and _makes(f.file, each.value, each.context)]
    empty = [each for _, each in made if isinstance(each.value, ast.Constant) and each.value.value is None]
    if not scalers or len(scalers) + len(empty) != len(sets):
        return
    kin = {base for other in step.file.sites.classes if set(other.line) & set(cls.line) for base in other.line}
    if not any(f".{name}.scale(" in each.text for each in cls.line):
        return
    if any(_is_updated(name, each.text) for each in kin):
        return
    if any(_hands_on(each.file, name, each.node) or "__dict__" in each.file.text for each in kin):
        return
    outside = re.compile(rf"(?<!\bself)\.{name}\b(?!\.state_dict)|[\"']{name}[\"']\s*\)")
    if not any(outside.search(file.text) for file in step.file.sites.mentioning([name], tests=True)):
        function, assigned = scalers[0]
        yield step, f"self.{name}", function.place(assigned.node).location


def _makes(file: File, node: ast.AST, context: Context) -> bool:
    """`GradScaler()`, `GradScaler() if mixed else None`."""
    arms = [node.body, node.orelse] if isinstance(node, ast.IfExp) else [node]
    calls = [arm for arm in arms if isinstance(arm, ast.Call) and file.called(arm, context) in SCALERS]
    return any("enabled=False" not in ast.unparse(call) for call in calls)


def _is_imported(file: File, name: str) -> bool:
    """Whether another file may use a variable of this module."""
    imports = re.compile(
        rf"\bimport\b.*\b{re.escape(file.name.rpartition('.')[2])}\b|\bfrom\b.*\b"
        rf"{re.escape(file.name.rpartition('.')[2])}\b.*\bimport\b"
    )
    return any(other is not file and imports.search(other.text) for other in file.sites.mentioning([name], tests=True))


def _last(node: ast.expr) -> str:
    """`scaler.step` of `self.scaler.step`."""
    return ".".join(ast.unparse(node).split(".")[-2:])


def _is_updated(name: str, text: str) -> bool:
    return re.search(rf"\b{name}\.update\b", text) is not None


def _updates(file: File, name: str = "scaler") -> bool:
    return _is_updated(name, file.text) or re.search(r"scaler\w*\.update\b", file.text, re.IGNORECASE) is not None


def _hands_on(file: File, name: str, within: ast.AST | None = None, trusted: bool = False) -> bool:
    """Whether something is given the scaler, or returns it, or has it by another name.

    `trusted`: a function of the project may take it that updates nothing.
    """
    calls = {node: context for found in file.walk.calls.values() for node, context in found}
    for node in walk(within or file.module.source.tree):
        given: list[ast.expr] = []
        if isinstance(node, ast.Call) and _takes_and_steps(file, node, calls.get(node)):
            continue
        if isinstance(node, ast.Call) and trusted and _updates_nothing(file, node, calls.get(node)):
            continue
        if isinstance(node, ast.Call):
            given = [*node.args, *(keyword.value for keyword in node.keywords)]
        elif isinstance(node, ast.Return | ast.Yield) and node.value is not None:
            given = [node.value, *(node.value.elts if isinstance(node.value, ast.Tuple) else ())]
        elif isinstance(node, ast.Assign):
            given = [node.value]
        elif isinstance(node, ast.Dict) or (isinstance(node, ast.List | ast.Tuple) and isinstance(node.ctx, ast.Load)):
            given = [*(node.values if isinstance(node, ast.Dict) else node.elts)]
        if any(isinstance(part, ast.Name | ast.Attribute) and last_name(part) == name for part in given):
            return True
    return False


def _updates_nothing(file: File, call: ast.Call, context: Context | None) -> bool:
    named = file.resolve(call.func, context) if context is not None else None
    return isinstance(named, Function) and "update" not in named.text


def _takes_and_steps(file: File, call: ast.Call, context: Context | None) -> bool:
    """Whether a function of the project is called that has a scaler of the same name, so that it was read too."""
    named = file.resolve(call.func, context) if context is not None else None
    return isinstance(named, Function) and any("scaler" in name for name in named.parameters) and _steps(named)


def _steps(function: Function) -> bool:
    text = function.text
    return "scaler.step(" in text and not _updates(function.file)
