"""Distributed programs: which files start processes, and what runs on one rank alone."""

from __future__ import annotations

import ast
import re

from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import is_name, last_name, walk
from mlcheck.lint.sites.blocks import straight
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.guards import own_attribute
from mlcheck.lint.sites.latest import reaching
from mlcheck.lint.sites.model import Call, Class, Function
from mlcheck.lint.sites.origins import callers, origins, returns
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.scopes import Context
from mlcheck.lint.values import split_of_name

INIT = "torch.distributed.init_process_group"
DDP = "torch.nn.parallel.DistributedDataParallel"
_RANK = pattern(r"rank|main_process|is_(?:main|master|chief|leader|zero|primary)|gpu\b|\bmaster", re.IGNORECASE)
_SEVERAL = pattern(r"world_size(?:\(\))? (?:!=|>) 1\b")
_DISTRIBUTED = pattern(r"distributed|(?:^|_)(?:ddp|dist|multi_?gpu|parallel)(?:_|$)", re.IGNORECASE)
_ONE = pattern(r"rank|main|master|chief|leader|primary", re.IGNORECASE)
_DEPTH = 4


def starts(sites: Sites) -> list[Call]:
    """The calls that start or wrap a distributed run; `sites.once(starts)`."""
    found = [call for call in sites.calls(INIT, DDP) if not _is_alone(call.file)]
    sites.seen["distributed start"] = len(found)
    return found


def _is_alone(file: File) -> bool:
    """Whether every process group that a file starts has one process: `init_process_group(..., world_size=1)`."""
    groups = file.calls("init_process_group")
    return bool(groups) and all(group.constant("world_size", 3) == 1 for group in groups)


def names_of_choice(call: Call) -> tuple[str, ...]:
    """The names that the call is given, by itself or as `DDP(model) if distributed else model`."""
    names = call.file.names_given(call.node)
    for node in call.function.nodes if call.function is not None and not names else ():
        if isinstance(node, ast.IfExp) and call.node in (node.body, node.orelse):
            return call.file.names_given(node)
    return names


def _asks_rank(file: File, test: ast.expr, context: Context) -> bool:
    """`if rank == 0:`, and `if chosen:` where `chosen = rank == 0`, also as `self.chosen` that a caller hands in."""
    test = test.operand if isinstance(test, ast.UnaryOp) else test
    parts = test.values if isinstance(test, ast.BoolOp) else [test]
    if mentions_rank(test) or any(_is_of_rank(file, part) for part in parts) or _names_process(file, test):
        return True
    if lets_one_rank_in(file, test, context):
        return True
    told = file.bindings(test.id, context) if isinstance(test, ast.Name) else []
    values = [each.value for each in told if each.kind == "value" and isinstance(each.value, ast.expr)]
    if any(mentions_rank(value) or _names_process(file, value) for value in values):
        return True
    chosen = [part for part in parts if isinstance(part, ast.Name | ast.Attribute)]
    return any(mentions_rank(each.node) for part in chosen for each in origins(file, part, context))


def _is_of_rank(file: File, test: ast.expr) -> bool:
    """`if args.save_logs:`, where the program has `args.save_logs = args.logs and is_master(args)`."""
    if not isinstance(test, ast.Attribute):
        return False
    text = ast.unparse(test)
    given = re.compile(rf"^[ \t]*{re.escape(text)} = (.*)$", re.MULTILINE)
    files = file.sites.mentioning([f"{text} = "])
    return any(_RANK.search(value) for each in files for value in given.findall(each.text))


def _names_process(file: File, test: ast.AST) -> bool:
    """`if proc == 0:`, where `proc` is given as the rank, or counts the processes that `spawn` starts."""
    given = [call.argument("rank", 4) for call in file.calls("init_process_group")]
    given += [call.argument("rank", 2) for call in file.calls("DistributedSampler")]
    names = {ast.unparse(node) for node in given if isinstance(node, ast.Name | ast.Attribute)}
    spawned = {last_name(call.argument("fn", 0)) for call in file.calls("spawn")}
    started = [each.node.args.args[:1] for each in file.functions if each.name in spawned]
    names |= {first.arg for arguments in started for first in arguments}
    wraps = [call for call in file.sites.calls(DDP) if call.file is file]
    given = [call.argument("device_ids", 1) for call in wraps]
    own = {last_name(each) for row in given if isinstance(row, ast.List) for each in row.elts} - {""}
    parts = [part for part in walk(test) if isinstance(part, ast.Name | ast.Attribute)]
    return any(ast.unparse(part) in names or last_name(part) in own for part in parts)


def is_guarded(file: File, context: Context) -> bool:
    """Whether a place is reached on certain ranks alone, as far as its own function tells."""
    for outer in context.outwards():
        if outer.kind in ("function", "lambda"):
            break
        if isinstance(outer.node, ast.If | ast.IfExp | ast.While):
            if _asks_rank(file, outer.node.test, outer) or _is_of_one_process(outer.node.test, outer.arm):
                return True
    function = file.function_around(context)
    return function is not None and any(_leaves(function, node) for node in straight(function.node.body))


def _is_of_one_process(test: ast.expr, arm: str) -> bool:
    """The branch `else:` of `if args.distributed:`, and `if not distributed:`."""
    turned = isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
    asked = test.operand if isinstance(test, ast.UnaryOp) else test
    named = isinstance(asked, ast.Name | ast.Attribute) and _DISTRIBUTED.search(last_name(asked)) is not None
    return named and (arm == "orelse") is not turned


def _leaves(function: Function, node: ast.stmt) -> bool:
    """`if rank != 0: return`, and `if world_size > 1: raise`: what follows is for one process."""
    if not isinstance(node, ast.If):
        return False
    asked = _asks_rank(function.file, node.test, function.inner) or _SEVERAL.search(ast.unparse(node.test))
    return bool(asked) and any(isinstance(child, ast.Return | ast.Raise) for child in [*node.body, *node.orelse])


def mentions_rank(node: ast.AST) -> bool:
    return _RANK.search(ast.unparse(node)) is not None


def is_one_rank(test: ast.expr) -> bool:
    """`rank == 0`, `dist.get_rank() == 0`, `is_main_process()`: true on one rank alone, if anywhere."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return any(map(is_one_rank, test.values))
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq):
        sides = (test.left, test.comparators[0])
        number = [side for side in sides if isinstance(side, ast.Constant) and side.value == 0]
        return len(number) == 1 and any("rank" in ast.unparse(side).lower() for side in sides)
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return isinstance(test.operand, ast.Name | ast.Attribute) and "rank" in ast.unparse(test.operand).lower()
    if isinstance(test, ast.Call) and not test.args:
        return re.search(r"is_(?:main|master|chief|rank_?zero|primary)", ast.unparse(test.func)) is not None
    return False


def lets_one_rank_in(file: File, test: ast.expr, context: Context) -> bool:
    """As `is_one_rank`; of a name, an attribute or a property too that the program sets to such a test."""
    if is_one_rank(test):
        return True
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return any(lets_one_rank_in(file, part, context) for part in test.values)
    if isinstance(test, ast.Call) and not test.args and isinstance(asked := file.resolve(test.func, context), Function):
        answers = list(returns(asked))
        return bool(answers) and all(map(_is_one_if_any, answers))
    if not isinstance(test, ast.Name | ast.Attribute):
        return False
    held = file.value(test, context)[0]
    if held is not test or isinstance(test, ast.Name):
        return is_one_rank(held)
    method = file.method_around(context)
    own = method is not None and is_name(test.value, method.receiver)
    cls = method.cls if own and method is not None else _made_of(file, test.value, context)
    asked = cls.find(test.attr) if cls is not None else None
    if asked is not None:
        decorators = {last_name(each) for each in asked.node.decorator_list}
        return (
            bool(decorators) and decorators <= {"property", "cached_property"} and all(map(is_one_rank, returns(asked)))
        )
    sets = cls.attribute(test.attr) if cls is not None else []
    return len(sets) == 1 and sets[0][1].value is not None and is_one_rank(sets[0][1].value)


def _is_one_if_any(answer: ast.expr) -> bool:
    """`rank == 0`, `not dist.is_initialized() or rank == 0`."""
    parts = answer.values if isinstance(answer, ast.BoolOp) and isinstance(answer.op, ast.Or) else [answer]
    return is_one_rank(parts[-1]) and all("is_initialized" in ast.unparse(part) for part in parts[:-1])


def _made_of(file: File, owner: ast.expr, context: Context) -> Class | None:
    """The class of the project that makes an object, wherever that is."""
    found = [(each, each.node) for each in origins(file, owner, context)]
    made = {each.file.resolve(node.func, each.context) if isinstance(node, ast.Call) else None for each, node in found}
    only = made.pop() if len(made) == 1 else None
    return only if isinstance(only, Class) else None


def runs_on_every_rank(sites: Sites, call: Call, depth: int = _DEPTH) -> bool:
    """Whether a call certainly runs in a distributed program, and on all of its ranks."""
    if is_guarded(call.file, call.context):
        return False
    here = {start.function for start in sites.once(starts) if start.file is call.file}
    if call.function in here or (call.function is not None and _trains_wrapped(sites, call.function)):
        return True
    if call.function is None or depth <= 0 or _may_be_guarded(call.function):
        return False
    above = list(callers(sites, call.function))
    return bool(above) and all(runs_on_every_rank(sites, other, depth - 1) for other in above)


def _given_to(loader: Call, sampler: Call) -> tuple[str, ...]:
    """The names of a loader that is given the sampler; its key in a dictionary."""
    given = [word.value for word in loader.node.keywords if word.arg == "sampler"]
    for name in [each for each in given if isinstance(each, ast.Name)]:
        values = [binding.value for binding in reaching(loader.file, name, loader.context)]
        given += [value for value in values if isinstance(value, ast.expr)]
    arms = [arm for each in given if isinstance(each, ast.IfExp) for arm in (each.body, each.orelse)]
    if sampler.node not in (*given, *arms):
        return ()
    tables = loader.function.all(ast.Dict) if loader.function is not None else []
    keys = [
        key for table in tables for key, value in zip(table.keys, table.values, strict=True) if value is loader.node
    ]
    words = [str(key.value) for key in keys if isinstance(key, ast.Constant)]
    return (*loader.file.names_given(loader.node), *words)


def is_for_evaluation(sampler: Call) -> bool:
    """Whether a sampler goes over held-out data, by the names of its data and its own, or by what is done around it."""
    around = sampler.function.text if sampler.function is not None else ""
    if ".eval()" in around and ".backward(" not in around and ".train()" not in around:
        return True
    names = [*sampler.file.names_given(sampler.node), last_name(sampler.argument("dataset", 0))]
    names += [name for loader in sampler.file.calls("DataLoader") for name in _given_to(loader, sampler)]
    if sampler.function is not None and not any(map(split_of_name, names)):
        names.append(sampler.function.name)
    return any(split_of_name(name) in ("val", "test") for name in names)


def _trains_wrapped(sites: Sites, function: Function) -> bool:
    """A method that runs the backward pass of an object that wraps its model: all ranks run it, or the others hang.

    Or it calls the object's method that does.
    """
    cls = function.cls
    if cls is None or _may_be_guarded(function) or not any(start.cls is cls for start in sites.once(starts)):
        return False
    trains = {call.function for call in function.file.calls("backward")} - {None}
    if function in trains:
        return True
    steps = {method.name for method in trains if method is not None and method.cls is cls}
    return any(
        call.function is function
        and own_attribute(call.node.func, function)
        and not is_guarded(call.file, call.context)
        for call in function.file.calls(*steps)
    )


def _may_be_guarded(function: Function) -> bool:
    """A decorator may run it on one rank alone; its name may say so."""
    return bool(function.node.decorator_list) or _ONE.search(function.name) is not None
