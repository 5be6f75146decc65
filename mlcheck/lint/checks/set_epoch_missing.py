"""set-epoch-missing: a distributed sampler that shuffles alike in every epoch."""

import ast
import re
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import last_name, walk
from mlcheck.lint.sites import UNKNOWN, Call, Class, File, Sites
from mlcheck.lint.sites.data.endless import is_gone_over_endlessly
from mlcheck.lint.sites.data.epoch_samplers import heirs, shuffles
from mlcheck.lint.sites.data.gone_over import trained_again
from mlcheck.lint.sites.data.loaders import LOADER, loaders
from mlcheck.lint.sites.data.one_pass import gone_over_once
from mlcheck.lint.sites.frameworks import owned_around
from mlcheck.lint.sites.iteration import iteration_of
from mlcheck.lint.sites.origins import Origin, callers, origins
from mlcheck.lint.sites.ranks import is_for_evaluation
from mlcheck.lint.values import split_of_name

LOOKS_AT = "distributed sampler"
WORDS = ("DistributedSampler",)
_SAMPLER = "torch.utils.data.DistributedSampler"
_NAMES = {_SAMPLER, "torch.utils.data.distributed.DistributedSampler"}
_EPOCHS = pattern(
    r"\bfor\s+(?:\w*epoch\w*|ep|e)\s+in\b|\bfor\s+\w+\s+in\s+t?range\([^\n]*epochs?\b|while[^\n]*epoch|epochs?\s*\+=\s*1\b",
    re.IGNORECASE,
)
_TRAINS = pattern(r"backward|optim|epoch|\.fit\(|trainer|train\(\w", re.IGNORECASE)
_GUARD = pattern(r"^if __name__ ==", re.MULTILINE)
_HOLDERS = ("sampler", "batch_sampler")
_DEPTH = 4


def check(facts: Facts) -> Iterator[Finding]:
    calls = [*facts.sites.calls(_SAMPLER), *_picked(facts.sites), *facts.sites.once(heirs)]
    facts.sites.seen["distributed sampler"] = len(calls)
    texts = [file.text for file in facts.sites.files.values()]
    calls = [call for call in calls if not owned_around(call.file)]
    if not calls:
        return
    if not any(_EPOCHS.search(text) for text in texts) and not _goes_over_one_again(facts.sites):
        return
    told = _told(facts.sites)
    if told is None:
        return
    for call in calls:
        if not shuffles(call) or is_for_evaluation(call) or _goes_over_it_once(call) or _is_for_nobody(call):
            continue
        if any(samplers is None and _may_meet(facts.sites, teller.file, call.file) for teller, samplers in told):
            continue  # it may mean any
        tellers = [teller for teller, samplers in told if samplers is not None and id(call.node) in samplers]
        if not tellers and not gone_over_once(call):
            yield Finding(
                f"`set_epoch` is never called{' on this sampler' if told else ''}: every epoch shuffles the data in "
                "the same order",
                call.place.location,
                help="call `sampler.set_epoch(epoch)` at the beginning of each epoch",
            )
        elif len(tellers) == 1 and (number := _same_number(tellers[0])):
            yield Finding(
                f"`set_epoch` is given {number} in every epoch: each shuffles the data in the same order",
                tellers[0].place.location,
                help="pass the number of the epoch",
            )


def _goes_over_it_once(call: Call) -> bool:
    """Whether it belongs to a program by itself that says nothing of training, such as one that takes statistics."""
    text = call.file.text
    return _GUARD.search(text) is not None and _TRAINS.search(text) is None


def _is_for_nobody(call: Call) -> bool:
    """Whether a function returns it, and nothing in sight calls that."""
    returns = call.function.all(ast.Return) if call.function is not None else []
    if call.function is None or not any(call.node in (line.value, *_choices(line.value)) for line in returns):
        return False
    return next(iter(callers(call.file.sites, call.function)), None) is None


def _choices(node: ast.expr | None) -> tuple[ast.expr, ...]:
    return (node.body, node.orelse) if isinstance(node, ast.IfExp) else ()


def _goes_over_one_again(sites: Sites) -> bool:
    """Whether a loader with a sampler is gone over in each turn of a loop, whatever that counts."""
    again = [loader for loader in sites.once(loaders) if id(loader.call.node) in sites.once(trained_again)]
    return any(loader.call.argument("sampler", 3) is not None for loader in again) or is_gone_over_endlessly(sites)


def _picked(sites: Sites) -> Iterator[Call]:
    """`Sampler = RandomSampler if rank == -1 else DistributedSampler`, and then `Sampler(data)`."""
    for file in sites.mentioning(["DistributedSampler"]):
        for node in walk(file.module.source.tree):
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.IfExp(body=then, orelse=other)):
                    for call in file.calls(name):
                        if {str(file.resolve(arm, call.context)) for arm in (then, other)} & _NAMES:
                            yield call


def _may_meet(sites: Sites, one: File, other: File) -> bool:
    """Whether one program may run both files: not two scripts of a folder, of which each begins a run of its own."""
    if one is other or not all(_GUARD.search(file.text) for file in (one, other)):
        return True
    return any({one.path, other.path} <= {file.path, *_reached(sites, file)} for file in sites.files.values())


def _reached(sites: Sites, file: File) -> set[str]:
    """The paths of all files that this one imports, and of those that they import."""
    found, todo = set[str](), [*file.imports]
    while todo:
        path = todo.pop()
        imported = sites.at(path)
        if path not in found and imported is not None:
            found.add(path)
            todo += imported.imports
    return found


def _told(sites: Sites) -> list[tuple[Call, set[int] | None]] | None:
    """The calls of `set_epoch`, each with the nodes of all samplers it may mean, or None if any; None if unseen."""
    found: list[tuple[Call, set[int] | None]] = []
    for file in sites.mentioning(["set_epoch"], tests=True):
        calls = file.calls("set_epoch")
        if file.uses["set_epoch"] > len(calls) or re.search(r"getattr\([^\n]*['\"]set_epoch['\"]", file.text):
            return None
        found.extend((call, _samplers(call)) for call in calls)
    return found


def _samplers(call: Call) -> set[int] | None:
    """The samplers that `sampler.set_epoch(...)` or `loader.sampler.set_epoch(...)` may mean."""
    if not isinstance(call.node.func, ast.Attribute):
        return set()
    return _all_meant(origins(call.file, call.node.func.value, call.context), _DEPTH)


def _meant(origin: Origin, depth: int) -> set[int] | None:
    """The samplers behind an expression; none for what is certainly another thing, None where it may be any."""
    file, node, context = origin.file, origin.node, origin.context
    if origin.name == "torch.utils.data.BatchSampler":
        return _held([origin], "sampler", depth)
    if isinstance(node, ast.Constant) or origin.name.startswith("torch.utils.data."):
        return {id(node)} if origin.name.endswith(".DistributedSampler") else set()
    if isinstance(node, ast.Call) and isinstance(file.resolve(node.func, context), Class):
        if any(heir.node is node for heir in file.sites.once(heirs)):
            return {id(node)}
        return set()  # a class of the project, whose own `set_epoch` tells its samplers
    if depth and isinstance(node, ast.Attribute) and node.attr in _HOLDERS:
        return _held(origins(file, node.value, context), node.attr, depth)
    name = last_name(node)
    return set() if split_of_name(name) in ("val", "test") else None


def _held(holders: list[Origin], name: str, depth: int) -> set[int] | None:
    """The samplers that loaders, or samplers of batches, were given."""
    found: set[int] = set()
    for holder in holders:
        if isinstance(holder.node, ast.Constant):
            continue
        inner: set[int] | None = None
        if isinstance(holder.node, ast.Call) and holder.name.startswith("torch.utils.data."):
            call = Call(holder.file, holder.node, holder.context)
            position = {"sampler": 3, "batch_sampler": 4}[name] if holder.name.endswith("DataLoader") else 0
            given = call.argument(name, position)
            inner = set() if given is None else _all_meant(origins(holder.file, given, holder.context), depth - 1)
        elif isinstance(holder.node, ast.Attribute | ast.Name):
            inner = _meant(holder, depth - 1)
        if inner is None:
            return None
        found |= inner
    return found


def _all_meant(found: list[Origin], depth: int) -> set[int] | None:
    samplers: set[int] = set()
    for origin in found:
        inner = _meant(origin, depth)
        if inner is None:
            return None
        samplers |= inner
    return samplers


def _same_number(teller: Call) -> str:
    """`the same number` for a constant, `the number of the batch` for that of the loop over the loader; else ""."""
    around = teller.function.name if teller.function is not None else ""
    if len(teller.node.args) != 1 or split_of_name(around) in ("val", "test"):
        return ""
    if teller.function is None and not teller.loops and not _EPOCHS.search(teller.file.text):
        return ""  # a cell that looks at a few batches
    given = teller.node.args[0]
    if teller.file.constant(given, teller.context) is not UNKNOWN:
        return "the same number"
    for loop in teller.loops[:1]:
        over = _counted(loop.node, given)
        made = origins(teller.file, over, loop) if over is not None else []
        if made and all(origin.name == LOADER for origin in made):
            return "the number of the batch"
    return ""


def _counted(loop: ast.AST, number: ast.expr) -> ast.expr | None:
    """The loader of `for number, batch in enumerate(loader)` where the loop goes through all of it."""
    turn = iteration_of(loop) if isinstance(loop, ast.For) else None
    if turn is None or turn.number is None or turn.start is not None or ast.unparse(turn.number) != ast.unparse(number):
        return None
    return None if any(isinstance(node, ast.Break) for node in walk(loop)) else turn.over
