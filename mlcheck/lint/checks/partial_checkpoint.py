"""partial-checkpoint: a checkpoint from which the run cannot go on as it was."""

import ast
import re
from collections.abc import Callable, Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import is_name, last_name, loads, walk
from mlcheck.lint.sites import Call, Sites
from mlcheck.lint.sites.heirs import heirs
from mlcheck.lint.sites.origins import Origin, callers, origins
from mlcheck.lint.sites.weights.checkpoint_keys import (
    goes_on,
    hands_on,
    keys_read,
    keys_used,
    loaded,
    saved_keys,
    way_of,
)
from mlcheck.lint.sites.weights.resuming import epochs_begun_anew, is_for_looking, loaded_before_made
from mlcheck.lint.sites.weights.saved_states import under_other_names
from mlcheck.lint.sites.weights.uncalled_states import uncalled_states
from mlcheck.lint.sites.weights.unsaved_states import asked_by_other_names, unsaved_states

LOOKS_AT = "checkpoint save"
_STATEFUL = tuple(f"torch.optim.{name}" for name in ("Adam", "AdamW", "NAdam", "RAdam", "RMSprop", "Adagrad"))
_SHAPES = ("StepLR", "MultiStepLR", "ExponentialLR", "LinearLR", "PolynomialLR", "OneCycleLR", "CosineAnnealingLR")
_SCHEDULES = tuple(f"torch.optim.lr_scheduler.{name}" for name in (*_SHAPES, "CosineAnnealingWarmRestarts"))
_LOADS_SCHEDULE = pattern(r"sch\w*(?:\[[^\]]*\])?\.load_state_dict|last_epoch|lr_lambda|get_last_lr")
_OPTIMIZER_LOADED = pattern(r"opt\w*(?:\[[^\]]*\])?\.load_state_dict|\bload_optimizer\w*\(")
_PROGRESS = ("epoch", "epochs", "start_epoch", "step", "steps", "global_step", "iteration", "iter", "iter_num")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = len(list(facts.sites.calls("torch.save")))
    for place, named in uncalled_states(facts.sites):
        yield Finding(
            f"`{named}` is the method, not what it returns: the file holds no weights by name",
            place.location,
            help=f"call it: `{named}()`",
        )
    for place, saved, meant in under_other_names(facts.sites):
        yield Finding(
            f"The state of `{saved}` is saved under the name of `{meant}`, whose own is lost",
            place.location,
            help=f"`{meant}.state_dict()`",
        )
    for saved_table, key, read in unsaved_states(facts.sites):
        yield Finding(
            f"`{key}` is loaded when the run is resumed but never saved: the run cannot be resumed",
            saved_table.place.location,
            help=f'save the state under `"{key}"`, as it is loaded',
            related=(read.location,),
        )
    for read, asked, saved_table, kept in asked_by_other_names(facts.sites):
        yield Finding(
            f"`{asked}` is never saved: the state that is kept as `{kept}` is not loaded when the run is resumed",
            read.location,
            help=f'load it from `"{kept}"`, where it is saved',
            related=(saved_table.place.location,),
        )
    without = list(_resumed_without_optimizer(facts.sites))
    told = {(finding.location.path, finding.location.symbol) for finding in without}
    beside = _resumed_beside_schedule(facts.sites)
    yield from without
    yield from (each for each in beside if (each.location.path, each.location.symbol) not in told)
    yield from _resumed_without_schedule(facts.sites)
    for place, name, loop in epochs_begun_anew(facts.sites):
        yield Finding(
            f"`{name}` is read from the checkpoint, and the epochs begin at 0 all the same",
            place.location,
            help=f"`range({name}, ...)`",
            related=(loop.location,),
        )
    for place, name, made in loaded_before_made(facts.sites):
        yield Finding(
            f"`{name}` is made below: a run that is resumed ends here with an `UnboundLocalError`",
            place.location,
            help=f"load its state after `{name}` is made",
            related=(made.location,),
        )


def _resumed_without_optimizer(sites: Sites) -> Iterator[Finding]:
    """Where model and epoch are read from a checkpoint that holds the optimizer, and that is left out."""
    for call, name, files in loaded(sites):
        around = way_of(call)
        read = keys_read(around, name)
        epoch = next((key for key in keys_used(around, name) if key.lower() in _PROGRESS), None)
        model = any("model" in key or "state_dict" in key or "net" in key for key in read if not _is_optimizer(key))
        if epoch is None or not model or any(_is_optimizer(key) for key in read):
            continue
        if hands_on(around, name) or not _trains(call):
            continue
        if is_for_looking(sites, call.function) if call.function is not None else not goes_on(around, name):
            continue
        saved = [key for save in sites.calls("torch.save") if save.file in files for key in saved_keys(save)]
        if saved and not any(_is_optimizer(key) for key in saved) and _has_state(call):
            yield Finding(
                f"The run continues from the saved `{epoch}` with a new optimizer: its state was never saved",
                call.place.location,
                help="save `optimizer.state_dict()` beside the weights, and load it here",
            )
        elif any(_is_optimizer(key) for key in saved):
            yield Finding(
                f"The run continues from the saved `{epoch}` with a new optimizer, though the old one was saved",
                call.place.location,
                help="call `optimizer.load_state_dict(...)`, and that of the scheduler and the scaler",
            )


def _resumed_without_schedule(sites: Sites) -> Iterator[Finding]:
    """A run that goes on at the saved epoch, with its optimizer, and with a schedule that begins anew."""
    for call, name, _ in loaded(sites):
        if call.function is None or hands_on(call.function.node, name):
            continue
        read = keys_read(way_of(call), name)
        epoch = next((key for key in read if key.lower() in _PROGRESS), None)
        schedule = _schedule(call) if epoch is not None and any(map(_is_optimizer, read)) and _trains(call) else None
        if schedule is not None:
            yield Finding(
                f"The run continues from the saved `{epoch}`, and its learning-rate schedule starts again",
                call.place.location,
                help="save `scheduler.state_dict()` beside the optimizer's, and load it here",
                related=(schedule.place.location,),
            )


def _resumed_beside_schedule(sites: Sites) -> Iterator[Finding]:
    """`scheduler.load_state_dict(saved["scheduler"])` at the saved epoch, beside an optimizer that begins anew."""
    for file in sites.mentioning([".load_state_dict("]):
        for call in file.calls("load_state_dict"):
            owner = call.owner
            given = call.node.args[0] if call.node.args else None
            if call.function is None or "sched" not in last_name(owner).lower() or not isinstance(given, ast.Subscript):
                continue
            if not isinstance(given.value, ast.Name) or hands_on(call.function.node, given.value.id):
                continue
            read = keys_read(call.function.node, given.value.id)
            goes_on = any(key.lower() in _PROGRESS for key in read) and _has_state(call)
            if goes_on and not _OPTIMIZER_LOADED.search(file.text) and not any(map(_is_optimizer, read)):
                yield Finding(
                    f"`{ast.unparse(owner or given)}` continues where it was, but the optimizer starts again",
                    call.place.location,
                    help="save `optimizer.state_dict()` beside it, and load it here",
                )


def _schedule(load: Call) -> Call | None:
    """The one schedule that the function that loads, its object or its callers make; None if it may be set right."""
    calls = callers(load.file.sites, load.function) if load.function is not None else ()
    around = {load.function, *(call.function for call in calls if call.function is not None)}
    kept = {origin.node for origin in _kept(load, lambda name: "sched" in name.lower())}
    made = [
        call
        for call in load.file.sites.calls(*_SCHEDULES)
        if (load.cls is not None and call.cls is load.cls) or call.function in around or call.node in kept
    ]
    if len(made) != 1 or made[0].argument("last_epoch") is not None:
        return None
    names = made[0].file.names_given(made[0].node)
    name = r"\w*sched\w*" if made[0].node in kept else re.escape(names[0].rpartition(".")[2]) if names else "(?!)"
    steps = rf"(?<!\w){name}\.step\(" if len(names) == 1 else "(?!)"
    own = load.function.text if load.function is not None else ""
    loads = any(_LOADS_SCHEDULE.search(file.text) for file in load.file.sites.files.values())
    caught_up = made[0].function is not load.function and re.search(steps, own) is not None
    caught_up = caught_up or re.search(rf"for \w+ in range\([^\n]*:\s*[\w.]*{steps}", load.file.text) is not None
    return None if loads or caught_up or re.search(steps, load.file.text) is None else made[0]


def _has_state(call: Call) -> bool:
    """Whether the function, its object or its callers make an optimizer that keeps averages of the gradients."""
    made = list(call.file.sites.calls(*_STATEFUL))
    made += (sgd for sgd in call.file.sites.calls("torch.optim.SGD") if sgd.argument("momentum", 2) is not None)
    beside = {(outer.file, outer.function) for outer in _resuming(call)}
    if any(each.function is call.function or (call.cls is not None and each.cls is call.cls) for each in made):
        return True
    if any((each.file, each.function) in beside for each in made):
        return True
    inner, names = (call.function.inner, call.function.parameters) if call.function is not None else (call.context, {})
    given = [ast.Name(name, ast.Load()) for name in names if _is_optimizer(name)]
    handed = [each for name in given for each in origins(call.file, name, inner)]
    handed += _kept(call, _is_optimizer)
    return bool(handed) and all(map(_is_stateful, handed))


def _is_stateful(made: Origin) -> bool:
    return made.name in _STATEFUL or (made.name == "torch.optim.SGD" and made.told("momentum", 2, 0) != 0)


def _kept(call: Call, is_meant: Callable[[str], bool]) -> list[Origin]:
    """What the object of the method that loads was given, and keeps under such a name."""
    sets = call.cls.attributes.items() if call.cls is not None else ()
    return [
        origin
        for name, each in sets
        for function, assigned in each
        if is_meant(name) and isinstance(assigned.value, ast.Name) and assigned.value.id in function.parameters
        for origin in origins(function.file, assigned.value, assigned.context)
    ]


def _trains(call: Call) -> bool:
    """Whether the same function goes on training, or was given the optimizer of a training, or has one beside it.

    A script that loads outside of all functions trains in any of them.
    """
    function = call.function
    if function is None:
        return bool(call.file.calls("backward"))
    kept = call.file.sites.once(heirs).get(function.cls, [function.cls]) if function.cls else []
    names = [*function.parameters, *(name for heir in kept for name in heir.attributes)]
    if any(map(_is_optimizer, names)):
        return True
    if any(other.function is call.function for other in call.file.calls("backward", "zero_grad")):
        return True
    return any(step.function is outer.function for outer in _resuming(call) for step in outer.file.calls("backward"))


def _resuming(load: Call) -> Iterator[Call]:
    """The calls of the function that loads behind which epochs are counted from what it gives: `range(start, 90)`."""
    for call in callers(load.file.sites, load.function) if load.function is not None else ():
        scope = call.function.node if call.function is not None else call.file.module.source.tree
        lines = [line for line in walk(scope) if isinstance(line, ast.Assign) and line.value is call.node]
        names = {part.id for line in lines for part in walk(line.targets[0]) if isinstance(part, ast.Name)}
        ranges = (node for node in walk(scope) if isinstance(node, ast.Call) and is_name(node.func, "range"))
        if any(loads(node.args[0], name) for node in ranges if len(node.args) > 1 for name in names):
            yield call


def _is_optimizer(key: str) -> bool:
    return key.lower().startswith("opt") or "optim" in key.lower()
