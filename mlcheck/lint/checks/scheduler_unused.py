"""scheduler-unused: a schedule is made and never stepped, so the learning rate stays what it was."""

import ast
import re
from collections.abc import Hashable, Iterator
from itertools import chain

from mlcheck.core.finding import Finding, first_of_each_line
from mlcheck.lint.facts import Facts, Place
from mlcheck.lint.nodes import last_name, loads, reads_of, walk
from mlcheck.lint.sites import Call, Class, File, Function
from mlcheck.lint.sites.origins import callers, returns
from mlcheck.lint.sites.training.lightning_schedules import never_moved
from mlcheck.lint.sites.training.optimizers import around
from mlcheck.lint.sites.training.read_elsewhere import is_read_in, is_spoken, leaves_be, only_asked
from mlcheck.lint.sites.training.replaced_optimizers import kept_by_name, kept_by_object
from mlcheck.lint.sites.training.twin_schedules import given_another
from mlcheck.lint.training import Optimizer, Scheduler
from mlcheck.lint.values import owner_key

LOOKS_AT = "learning-rate scheduler"
WORDS = ("schedule", "LR", "WarmRestarts")


def check(facts: Facts) -> Iterator[Finding]:
    yield from first_of_each_line(chain(_left_behind(facts), _idle(facts), _of_another(facts), _by_hand(facts)))


def _idle(facts: Facts) -> Iterator[Finding]:
    """Schedulers that no step moves, or that move an optimizer which never steps."""
    stepped = {step.key: step for step in facts.steps}
    moved = {step.scheduler.place.spot for step in facts.training.scheduler_steps}
    for scheduler in facts.training.schedulers.values():
        optimizer = owner_key(scheduler.optimizer) if scheduler.optimizer is not None else None
        if (
            scheduler.place.spot in moved
            and (heir := _heir(facts, optimizer)) is not None
            and _trains(facts, scheduler)
        ):
            yield Finding(
                f"`{scheduler.name}` moves the learning rate of an optimizer that never steps: another took its place",
                scheduler.place.location,
                help="make the scheduler after the optimizer that steps, and of that one",
                related=(heir.place.location,),
            )
        if scheduler.place.spot in moved or optimizer not in stepped or _is_read(facts, scheduler):
            continue
        yield Finding(
            f"`{scheduler.name}` is made and never stepped: the learning rate never changes",
            scheduler.place.location,
            help="call its `step()` after the optimizer's, or leave it out",
            related=(stepped[optimizer].place.location,),
        )


def _of_another(facts: Facts) -> Iterator[Finding]:
    """`sched_d = StepLR(opt_g, 30)` beside `sched_g = StepLR(opt_g, 30)`, where `opt_d` has no schedule."""
    for call, name, given, left, lost in given_another(facts.sites):
        yield Finding(
            f"`{name}` moves the learning rate of `{given}`, and `{lost}` has no schedule",
            call.place.location,
            help=f"give it `{lost}`",
            related=(left.place.location,),
        )


def _by_hand(facts: Facts) -> Iterator[Finding]:
    """`automatic_optimization = False`: Lightning leaves the schedules to the module as well."""
    for made, configure in never_moved(facts.sites):
        yield Finding(
            "Automatic optimization is off, so nothing steps this schedule: the learning rate never changes",
            made.file.place(made.node, made.context).location,
            help="`self.lr_schedulers().step()` in `on_train_epoch_end`",
            related=(configure.place().location,),
        )


def _left_behind(facts: Facts) -> Iterator[Finding]:
    """The optimizer's name is given to a new one while training, and the scheduler is still that of the first."""
    for kept in (*kept_by_name(facts.sites), *kept_by_object(facts.sites)):
        yield Finding(
            f"`{kept.name}` moves the learning rate of the first `{kept.optimizer}`; a new one has taken its place",
            kept.scheduler.place.location,
            help="make the scheduler anew, of the new optimizer",
            related=(kept.renewed.location,),
        )


def _trains(facts: Facts, scheduler: Scheduler) -> bool:
    """Whether a loop that steps it steps an optimizer, too: else the schedule may be there to be drawn."""
    moves = [step.when for step in facts.training.scheduler_steps if step.scheduler is scheduler]
    inside = {loop.node for when in moves for loop, _ in when.loops}
    return any(loop.node in inside for step in facts.steps for loop, _ in step.when.loops)


def _heir(facts: Facts, key: Hashable) -> Optimizer | None:
    """The optimizer that steps for the same modules, where the one with that key never does.

    Two that are each made under a condition may be one or the other.
    """
    optimizers = facts.training.optimizers
    made = optimizers.get(key)
    used = {step.key for step in facts.steps}
    spots = {optimizers[step].place.spot for step in used if step in optimizers}
    if made is None or made.handed_on or not made.owners or made.place.spot in spots:
        return None
    others = (optimizers[step] for step in used if step in optimizers)
    return next((other for other in others if other.owners == made.owners and (made.always or other.always)), None)


def _is_read(facts: Facts, scheduler: Scheduler) -> bool:
    """Whether anything but the assignment mentions the variable or attribute it is in."""
    files = [file for file in facts.sites.files.values() if file.path == scheduler.place.path]
    target = _target(files[0].module.source.tree, scheduler.place) if files else None
    if target is None or isinstance(target, ast.Name):
        handed = _returned_to(facts, scheduler.place, target.id if target is not None else "")
        if handed is not None:
            return any(_is_read_by(facts, call, bound) for call, bound in handed)
    if isinstance(target, ast.Name):
        name = target.id
        if (function := _owner_of_variable(facts, scheduler.place, name)) is not None:
            return _does_something(function.file, name, function.node)
        word = re.compile(rf"\b{re.escape(name)}\b")
        others = (file for file in facts.sites.files.values() if file not in files)
        if any(word.search(file.text) for file in others) or is_spoken(files[0].text, name):
            return True
        return _does_something(files[0], name, files[0].module.source.tree)
    if isinstance(target, ast.Attribute):
        name = target.attr
        texts = [file for file in facts.sites.files.values() if name in file.text]
        if any(is_spoken(file.text, name) for file in texts):
            return True
        return any(is_read_in(file.module.source.tree, name) for file in texts)
    taken = _taken_as(files[0], scheduler.place) if files else None
    return taken is None or not leaves_be(*taken)


def _taken_as(file: File, place: Place) -> tuple[Function, str] | None:
    """The function of the program in whose call it is made, and the parameter that it is given for."""
    for calls in file.walk.calls.values():
        for call, context in calls:
            given = [*call.args, *(word.value for word in call.keywords)]
            if place.node not in given or any(isinstance(arg, ast.Starred) for arg in call.args):
                continue
            named = file.resolve(call.func, context)
            named = named.find("__init__") if isinstance(named, Class) else named
            if not isinstance(named, Function):
                return None
            names = list(named.parameters)[bool(named.receiver) :]
            pairs = [*zip(call.args, names, strict=False), *((word.value, word.arg) for word in call.keywords)]
            return next(((named, name) for value, name in pairs if value is place.node and name in names), None)
    return None


def _owner_of_variable(facts: Facts, place: Place, name: str) -> Function | None:
    """The function whose own variable it is; None where code elsewhere may read it by its name."""
    call = facts.sites.call_at(place)
    function = call.function if call is not None else None
    if function is None or "locals()" in function.file.text:
        return None
    shared = (node for node in walk(function.node) if isinstance(node, ast.Global | ast.Nonlocal))
    return None if any(name in node.names for node in shared) else function


def _does_something(file: File, name: str, code: ast.AST) -> bool:
    """Whether the code may step what a variable holds: anything but saving it, and handing it to what leaves it be."""
    nodes = walk(code)
    idle = only_asked(nodes)
    for found in file.walk.calls.values():
        for call, context in found:
            named = file.resolve(call.func, context)
            named = named.find("__init__") if isinstance(named, Class) else named
            if isinstance(named, Function) and not any(isinstance(arg, ast.Starred) for arg in call.args):
                names = list(named.parameters)[bool(named.receiver) :]
                idle |= {arg for arg, given in zip(call.args, names, strict=False) if leaves_be(named, given)}
            elif last_name(call.func) == "prepare":
                idle.update(call.args)
    reads = reads_of(nodes, name)
    return any(read not in idle for read in reads)


def _returned_to(facts: Facts, place: Place, name: str) -> list[tuple[Call, ast.expr]] | None:
    """What the callers bind it to, where a function makes it and only returns it, alone or as an item of a tuple."""
    for file in facts.sites.files.values():
        for function in file.functions if file.path == place.path else ():
            if function.name != place.symbol or not any(node is place.node for node in function.nodes):
                continue
            reads = reads_of(function.nodes, name) if name else [place.node]
            returned = list(returns(function))
            if len(reads) != 1:
                return None
            if reads[0] in returned:
                return _unpacked(list(callers(facts.sites, function)), None)
            tuples = [value.elts for value in returned if isinstance(value, ast.Tuple)]
            if len(tuples) != 1 or reads[0] not in tuples[0]:
                return None
            return _unpacked(list(callers(facts.sites, function)), tuples[0].index(reads[0]))
    return None


def _unpacked(calls: list[Call], item: int | None) -> list[tuple[Call, ast.expr]] | None:
    """The target of that item in each call; None where one of them keeps the whole tuple."""
    found: list[tuple[Call, ast.expr]] = []
    for call in calls:
        for node in walk(around(call)):
            target = node.targets[0] if isinstance(node, ast.Assign) and node.value is call.node else None
            if item is None and target is not None and not isinstance(target, ast.Tuple):
                found.append((call, target))
            elif item is not None and isinstance(target, ast.Tuple) and item < len(target.elts):
                found.append((call, target.elts[item]))
    return found if calls and len(found) == len(calls) else None


def _is_read_by(facts: Facts, call: Call, bound: ast.expr) -> bool:
    """Whether anything reads what a caller bound it to."""
    if isinstance(bound, ast.Name) and call.function is not None:
        return bound.id != "_" and _is_used(around(call), bound.id)
    if isinstance(bound, ast.Name):
        return any(loads(file.module.source.tree, bound.id) for file in facts.sites.mentioning([bound.id], tests=True))
    if isinstance(bound, ast.Attribute):
        texts = list(facts.sites.mentioning([bound.attr], tests=True))
        spoken = (f'"{bound.attr}"', f"'{bound.attr}'")
        return any(word in file.text for file in texts for word in spoken) or any(
            is_read_in(file.module.source.tree, bound.attr) for file in texts
        )
    return True


def _is_used(code: ast.AST, name: str) -> bool:
    """Whether a variable is read for more than its state and the rate it is at."""
    nodes = walk(code)
    asked = only_asked(nodes)
    return any(node not in asked for node in reads_of(nodes, name))


def _target(tree: ast.AST, place: Place) -> ast.expr | None:
    """What the call's result is bound to; None where it goes anywhere else."""
    for node in walk(tree):
        if isinstance(node, ast.Assign) and node.value is place.node and len(node.targets) == 1:
            return node.targets[0]
    return None
