"""Copies of a model that are taken before the model loads its weights: the copy keeps those drawn at random."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import before_methods, last_name, walk
from mlcheck.lint.sites.model import OPEN, Call, Class, Function
from mlcheck.lint.sites.origins import callers, origins
from mlcheck.lint.sites.project import Sites

_COPIES = ("copy.deepcopy", "torch.optim.swa_utils.AveragedModel")
_SAME = ("eval", "train", "to", "cuda", "cpu", "requires_grad_", "float", "half", "parameters")
_BEGINNING = pattern(r"init|orig|rand|fresh|blank|untrained|scratch|before|start|template|skeleton|old")
_BRINGS_UP = pattern(r"init|copy|sync|hard|reset|load|restore|resume|register|set|replace")
_FOLLOWS = pattern(r"ema|avg|average|shadow|target|momentum|swa|mean_?teacher")
_AVERAGES = pattern(r"EMA|Ema(?![a-z])|Averag|Shadow|SWA|MeanTeacher")
_TRAINED = pattern(r"pretrained|torch\.load|load_state_dict|weights\s*=|checkpoint")
_LOADS = ("load_state_dict",)


class Early(NamedTuple):
    """The copy, the name it has, and the load that comes too late for it."""

    copy: Call
    name: str
    model: str
    load: Call


def copied_too_early(sites: Sites) -> Iterator[Early]:
    """`ema = copy.deepcopy(model)` above `model.load_state_dict(...)`, where nothing brings the copy up to it."""
    for copy, given in _copies(sites):
        function = copy.function
        line = _line_of(function, copy) if function is not None else None
        if function is None or line is None or not isinstance(given, ast.Name | ast.Attribute) or copy.loops:
            continue
        target, model = line.targets[0], ast.unparse(given)
        if not isinstance(target, ast.Name | ast.Attribute) or _BEGINNING.search(last_name(target).lower()):
            continue
        same = _other_names(function, model)
        if ast.unparse(target) in same:
            continue
        loads = list(_loads(function, same))
        later = [call for call in loads if call.node.lineno > copy.node.lineno and not call.loops]
        if not later or len(later) < len(loads) or _loops_between(function, copy, later[0]):
            continue
        fresh = copy.name in _COPIES and _is_fresh(copy, given)
        if (_is_to_follow(copy, target) or fresh) and not _is_brought_up(sites, copy, target):
            yield Early(copy, ast.unparse(target), model, later[0])


def _copies(sites: Sites) -> Iterator[tuple[Call, ast.expr | None]]:
    """A copy and what it is of: by a call, or by one of a class whose constructor copies what it is given."""
    copying: dict[tuple[Function, str], None] = {}
    for call in sites.calls(*_COPIES):
        given = call.node.args[0] if call.node.args else None
        yield call, given
        if call.function is not None and isinstance(given, ast.Name):
            copying[call.function, given.id] = None
    for file in sites.mentioning(["named_parameters", "state_dict"]):
        for function in file.functions:
            for table in function.all(ast.DictComp) if function.name == "__init__" else ():
                over = before_methods(table.generators[0].iter, ("named_parameters", "state_dict", "items"))
                if isinstance(over, ast.Name) and re.search(r"\.(?:clone|detach)\(", ast.unparse(table.value)):
                    copying[function, over.id] = None
    for init, name in copying:
        names = list(init.parameters)
        for made in callers(sites, init) if init.name == "__init__" and name in names else ():
            handed = made.argument(name, names.index(name) - 1)
            if handed is not OPEN:
                yield made, handed


def _loops_between(function: Function, copy: Call, load: Call) -> bool:
    """Whether the model may be trained before it loads, as it does what was best."""
    loops = (node for node in function.nodes if isinstance(node, ast.For | ast.While))
    return any(copy.node.lineno < loop.lineno < load.node.lineno for loop in loops)


def _is_to_follow(copy: Call, target: ast.Name | ast.Attribute) -> bool:
    """Whether it is an average or a target, which is to begin where the model does; a reference may be another."""
    if copy.name.endswith(".AveragedModel") or _AVERAGES.search(last_name(copy.node.func)):
        return True
    return _FOLLOWS.search(last_name(target).lower()) is not None


def _is_fresh(copy: Call, model: ast.expr) -> bool:
    """Whether the model is certainly as it was made by then, with weights drawn at random."""
    found = origins(copy.file, model, copy.context)
    for origin in found:
        named = origin.file.resolve(origin.node.func, origin.context) if isinstance(origin.node, ast.Call) else None
        text = named.text if isinstance(named, Class) else ast.unparse(origin.node)
        if not isinstance(named, Class) and not (isinstance(named, str) and named.startswith("torch.nn.")):
            return False
        if _TRAINED.search(text) or _TRAINED.search(ast.unparse(origin.node)):
            return False
    return bool(found)


def _loads(function: Function, same: set[str]) -> Iterator[Call]:
    """`model.load_state_dict(...)`, and calls of methods of the object that do so with what it keeps."""
    for call in function.file.calls(*_LOADS):
        if call.owner is None or ast.unparse(call.owner) not in same:
            continue
        if call.function is function:
            yield call
        elif call.function is not None and call.cls is function.cls is not None:
            yield from (each for each in callers(function.file.sites, call.function) if each.function is function)


def _line_of(function: Function, copy: Call) -> ast.Assign | None:
    """`ema = copy.deepcopy(model).eval()`."""
    for line in function.all(ast.Assign):
        if len(line.targets) == 1 and before_methods(line.value, _SAME) is copy.node:
            return line
    return None


def _other_names(function: Function, model: str) -> set[str]:
    """What the function calls the model, by plain assignments such as `self.model = model`."""
    names = {model}
    for line in function.all(ast.Assign):
        for target in line.targets:
            pair = {ast.unparse(target), ast.unparse(line.value)}
            if not names.isdisjoint(pair) and isinstance(line.value, ast.Name | ast.Attribute):
                names |= pair
    return names


def _is_brought_up(sites: Sites, copy: Call, target: ast.Name | ast.Attribute) -> bool:
    """Whether the copy may be made anew, load by itself, or be set to the model's weights by whom it is handed to."""
    name, text = last_name(target), ast.unparse(target)
    for file in sites.mentioning([name]) if isinstance(target, ast.Attribute) else [copy.file]:
        within = walk(file.module.source.tree)
        if isinstance(target, ast.Name) and copy.function is not None:
            within = copy.function.nodes
        for node in within:
            if isinstance(node, ast.Assign) and node.value is not copy.node:
                if any(ast.unparse(each) == text for each in node.targets) and copy.node not in walk(node.value):
                    return True
            elif isinstance(node, ast.Call) and node is not copy.node and _concerns(node, name):
                if _BRINGS_UP.search(last_name(node.func).lower()) or _takes_all(node, name):
                    return True
    return False


def _concerns(call: ast.Call, name: str) -> bool:
    """Whether it is a method of the copy, or is given it."""
    parts = [call.func, *call.args, *(word.value for word in call.keywords)]
    return any(last_name(node) == name for part in parts for node in walk(part))


def _takes_all(call: ast.Call, name: str) -> bool:
    """`update(ema, model, decay=0)`."""
    given = [*call.args, *(word.value for word in call.keywords)]
    whole = any(isinstance(node, ast.Constant) and node.value in (0, 1) for node in given)
    return whole and any(last_name(node) == name for node in given)
