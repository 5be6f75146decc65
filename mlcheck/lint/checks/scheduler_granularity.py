"""scheduler-granularity: a schedule in epochs is stepped for every batch, or one in batches for every epoch."""

import ast
from collections.abc import Hashable, Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts, Loop, Step
from mlcheck.lint.nodes import last_name, walk
from mlcheck.lint.sites import Call, Sites
from mlcheck.lint.sites.guards import asked_alike
from mlcheck.lint.sites.options import by_default
from mlcheck.lint.sites.origins import origins
from mlcheck.lint.sites.training.schedules import shrunk_every_batch, stepped_too_often, stepped_too_rarely
from mlcheck.lint.training import Scheduler, SchedulerStep
from mlcheck.lint.values import Symbol, owner_key

LOOKS_AT = "learning-rate scheduler"
WORDS = ("schedule", "param_groups")
_BY_EPOCH = ("StepLR", "MultiStepLR", "ExponentialLR", "CosineAnnealingLR", "LambdaLR", "LinearLR", "PolynomialLR")
_MEASURED = frozenset(["loss", "acc", "accuracy", "metric", "score", "auc", "f1"])
_COUNTED = frozenset(["epoch", "step", "iteration", "iter", "epochs", "steps", "i"])
_BATCHES = 1000
_NOTHING_LEFT = 1e-6
_LAST_EPOCH = 300
_LEAVES = (ast.Continue, ast.Break, ast.Return)
_LENGTHS: dict[str, tuple[str, ...]] = {
    "CosineAnnealingLR": ("T_max",),
    "PolynomialLR": ("total_iters",),
    "OneCycleLR": ("max_lr", "total_steps"),
    "get_": ("num_warmup_steps", "num_training_steps"),
}


def check(facts: Facts) -> Iterator[Finding]:
    for scheduled, stepped, made, period in stepped_too_often(facts.sites):
        yield Finding(
            f"The optimizer steps once in `{period}` batches, the schedule counts its steps, and is stepped for every "
            "batch: it is over too early",
            scheduled.place.location,
            help="step it where the optimizer steps",
            related=(stepped.place.location, made.file.place(made.node, made.context).location),
        )
    for scheduled, made, length in stepped_too_rarely(facts.sites):
        yield Finding(
            f"The schedule is as long as there are batches, `{length}`, and is stepped for one in several: it never "
            "gets to its end",
            scheduled.place.location,
            help="divide its length by the number of batches that are accumulated",
            related=(made.file.place(made.node, made.context).location,),
        )
    yield from _given_a_loss(facts)
    for place, test in shrunk_every_batch(facts.sites):
        yield Finding(
            f"`{ast.unparse(test)}` holds for every batch of the epoch: each of them shrinks the learning rate",
            place.location,
            help="change it once, before the loop over the batches",
        )
    for step in facts.training.scheduler_steps:
        optimizers = {owner_key(each) for each in step.scheduler.optimizers}
        if not optimizers or None in optimizers or not step.when.loops or step.given:
            continue
        around = [loop for loop, _ in step.when.loops]
        loops = [[loop for loop, _ in s.when.loops] for s in facts.steps if s.key in optimizers]
        beside = [s for s in facts.steps if s.key in optimizers and around == [loop for loop, _ in s.when.loops]]
        certain = step.always or any(_stand_together(_around(facts, step), step, s) for s in beside)
        if len(around) > 1 and certain and around in loops and (why := _in_epochs(facts.sites, step.scheduler, around)):
            yield _finding(step, f"{why}, and it is stepped after every batch", "step it once in an epoch")
        elif any(found[: len(around)] == around and len(found) > len(around) for found in loops):
            alike = asked_alike(facts.sites.call_at(step.place), facts.sites.call_at(step.scheduler.place))
            if not alike and all(found[: len(around)] == around and len(found) > len(around) for found in loops):
                if given := _in_batches(step.scheduler):
                    message = f"`{given}` counts batches, and the scheduler is stepped once for many of them"
                    yield _finding(step, message, "step it after every `optimizer.step()`")


def _given_a_loss(facts: Facts) -> Iterator[Finding]:
    """`scheduler.step(val_loss)` of a schedule whose `step` takes the number of the epoch."""
    for step in facts.training.scheduler_steps:
        node = step.place.node
        given = node.args[0] if isinstance(node, ast.Call) and len(node.args) == 1 else None
        if given is None or step.scheduler.name not in _BY_EPOCH or _plateau_too(facts, step):
            continue
        names = {last_name(part).lower() for part in walk(given) if isinstance(part, ast.Name | ast.Attribute)}
        names |= {last_name(part).lower() for value in _added(facts, step, names) for part in walk(value)}
        words = {word for name in names for word in name.split("_")}
        if words & _MEASURED and not words & _COUNTED:
            yield _finding(
                step,
                f"`{step.scheduler.name}` takes `{ast.unparse(given)}` for the number of the epoch",
                "call `step()` without it, or use `ReduceLROnPlateau`",
            )


def _added(facts: Facts, step: SchedulerStep, names: set[str]) -> Iterator[ast.expr]:
    """What `total += loss.item()` adds to one of these names in the same file."""
    file = facts.sites.at(step.place.path)
    for node in walk(file.module.source.tree) if file is not None else ():
        if isinstance(node, ast.AugAssign) and last_name(node.target).lower() in names:
            yield node.value


def _plateau_too(facts: Facts, step: SchedulerStep) -> bool:
    """Whether what is stepped may be another schedule."""
    return any(True for _ in facts.sites.mentioning(["Plateau"], tests=True)) or step.scheduler.optimizer is None


def _around(facts: Facts, step: SchedulerStep) -> list[ast.AST]:
    """What stands in the function that steps, or in the loop of a script."""
    call = facts.sites.call_at(step.place)
    return call.function.nodes if call is not None and call.function is not None else walk(step.when.loops[-1][0].node)


def _stand_together(around: list[ast.AST], step: SchedulerStep, other: Step) -> bool:
    """Whether both are statements of one block: whatever comes before them, one does not run without the other."""
    wanted = {step.place.node, other.place.node}
    for node in around:
        for _, block in ast.iter_fields(node):
            if isinstance(block, list) and wanted <= {s.value for s in block if isinstance(s, ast.Expr)}:
                first, last = (i for i, s in enumerate(block) if isinstance(s, ast.Expr) and s.value in wanted)
                return not any(isinstance(n, _LEAVES) for s in block[first:last] for n in walk(s))
    return False


def _finding(step: SchedulerStep, message: str, mend: str) -> Finding:
    return Finding(message, step.place.location, help=mend, related=(step.scheduler.place.location,))


def _arguments(scheduler: Scheduler, *names: str) -> dict[str, ast.expr]:
    """The arguments after the optimizer, by name; nothing where some are hidden in `*` or `**`."""
    node = scheduler.place.node
    if not isinstance(node, ast.Call) or any(isinstance(arg, ast.Starred) for arg in node.args):
        return {}
    if any(keyword.arg is None for keyword in node.keywords):
        return {}
    given = {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}
    return {**dict(zip(names, node.args[1:], strict=False)), **given}


def _in_epochs(sites: Sites, scheduler: Scheduler, loops: list[Loop]) -> str:
    """Why the schedule must be meant for epochs; "" where it may well be meant for batches."""
    whole = _length(scheduler)
    if whole is not None and any(_is_range_of(sites, scheduler, whole, loop) for loop in loops[:-1]):
        return f"`{scheduler.name}` ends after `{ast.unparse(whole)}` steps, which is the number of epochs"
    shares = [_share_of(stone) for stone in _stones(scheduler)]
    if shares and all(share and share in [_range_of(loop) for loop in loops[:-1]] for share in shares):
        return f"`{scheduler.name}` counts fractions of `{shares[0]}`, the number of epochs"
    if not any(_runs_over_epochs(loop) for loop in loops[:-1]):
        return ""
    made, steps = sites.call_at(scheduler.place), max([_BATCHES, *(_turns(sites, loop) for loop in loops[:-1])])
    if scheduler.name == "StepLR":
        given = _arguments(scheduler, "step_size", "gamma")
        size, gamma = _number(made, given.get("step_size")), _number(made, given.get("gamma"), 0.1)
        if size and gamma and 0 < gamma < 1 and gamma ** (steps / size) < _NOTHING_LEFT:
            return f"`StepLR` multiplies the learning rate by {gamma:g} every {int(size)} steps"
    elif scheduler.name == "ExponentialLR":
        gamma = _number(made, _arguments(scheduler, "gamma").get("gamma"))
        if gamma and 0 < gamma < 1 and gamma**steps < _NOTHING_LEFT:
            return f"`ExponentialLR` multiplies the learning rate by {gamma:g} at every step"
    elif scheduler.name == "MultiStepLR":
        last = max([_number(made, stone) or _BATCHES for stone in _stones(scheduler)], default=_BATCHES)
        if last <= _LAST_EPOCH:
            return f"`MultiStepLR` is done after {int(last)} steps"
    elif scheduler.name == "CosineAnnealingLR":
        length = _arguments(scheduler, "T_max").get("T_max")
        text = ast.unparse(length).lower() if length is not None else ""
        if "epoch" in text and not any(word in text for word in ("len(", "step", "iter", "batch", "*")):
            return f"`CosineAnnealingLR` takes `{ast.unparse(length) if length else ''}` steps to its lowest point"
    return ""


def _stones(scheduler: Scheduler) -> list[ast.expr]:
    """The numbers of steps at which the learning rate falls."""
    if scheduler.name == "StepLR":
        size = _arguments(scheduler, "step_size", "gamma").get("step_size")
        return [size] if size is not None else []
    stones = _arguments(scheduler, "milestones", "gamma").get("milestones") if scheduler.name == "MultiStepLR" else None
    return stones.elts if isinstance(stones, ast.List | ast.Tuple) else []


def _share_of(number: ast.expr) -> str:
    """`epochs` of `epochs // 2` and of `int(0.75 * epochs)`; "" where anything else is counted."""
    match number:
        case ast.Call(func=ast.Name(id="int" | "round"), args=[inner], keywords=[]):
            return _share_of(inner)
        case ast.BinOp(left=inner, op=ast.FloorDiv() | ast.Div() | ast.Mult(), right=ast.Constant()):
            return ast.unparse(inner) if isinstance(inner, ast.Name | ast.Attribute) else ""
        case ast.BinOp(left=ast.Constant(), op=ast.Mult(), right=ast.Name() | ast.Attribute() as inner):
            return ast.unparse(inner)
    return ""


def _length(scheduler: Scheduler) -> ast.expr | None:
    """The length of the schedule, where that is no plain number."""
    name = "get_" if scheduler.name.startswith("get_") else scheduler.name
    names = _LENGTHS.get(name, ())
    given = _arguments(scheduler, *names).get(names[-1]) if names else None
    return given if isinstance(given, ast.Name | ast.Attribute | ast.Subscript) else None


def _is_range_of(sites: Sites, scheduler: Scheduler, length: ast.expr, loop: Loop) -> bool:
    """Whether a loop counts to the length of the schedule, as it is written or where both come from."""
    over = loop.node.iter if isinstance(loop.node, ast.For) and _range_of(loop) else None
    made, turns = sites.call_at(scheduler.place), sites.call_at(loop.place._replace(node=over)) if over else None
    if ast.unparse(length) == _range_of(loop) or made is None or turns is None:
        return ast.unparse(length) == _range_of(loop)
    ends = {origin.node for origin in origins(made.file, length, made.context)}
    return ends == {origin.node for origin in origins(turns.file, turns.node.args[-1], turns.context)}


def _range_of(loop: Loop) -> str:
    """`n` of `for epoch in range(n)`."""
    over = loop.node.iter if isinstance(loop.node, ast.For) else None
    counted = isinstance(over, ast.Call) and ast.unparse(over.func) in ("range", "trange")
    return ast.unparse(over.args[-1]) if counted and isinstance(over, ast.Call) and len(over.args) in (1, 2) else ""


def _runs_over_epochs(loop: Loop) -> bool:
    if not isinstance(loop.node, ast.For):
        return False
    return "epoch" in f"{ast.unparse(loop.node.target)} {ast.unparse(loop.node.iter)}".lower()


def _turns(sites: Sites, loop: Loop) -> int:
    """How often a loop over `range(epochs)` turns; 0 where that is not known."""
    over = loop.node.iter if isinstance(loop.node, ast.For) and _range_of(loop) else None
    call = sites.call_at(loop.place._replace(node=over)) if isinstance(over, ast.Call) else None
    return int(_number(call, over.args[-1])) if call is not None and isinstance(over, ast.Call) else 0


def _number(call: Call | None, node: ast.expr | None, default: float = 0) -> float:
    """The number that is given there, as it is if nobody gives an option; 0 where the text does not tell."""
    if node is None:
        return default
    known = by_default(call.file, node, call.context) if call is not None else getattr(node, "value", None)
    return known if isinstance(known, int | float) else 0


def _in_batches(scheduler: Scheduler) -> str:
    """The argument that counts batches over all epochs."""
    given: dict[str, ast.expr] = {}
    if scheduler.name == "OneCycleLR":
        given = _arguments(scheduler, "max_lr", "total_steps", "epochs", "steps_per_epoch")
    elif scheduler.name == "CosineAnnealingLR":
        given = _arguments(scheduler, "T_max")
    elif scheduler.name.startswith("get_"):
        given = _arguments(scheduler, "num_warmup_steps", "num_training_steps")
    for name in ("steps_per_epoch", "total_steps", "num_training_steps", "T_max"):
        value = given.get(name)
        known = scheduler.arguments.get(name)
        counted = isinstance(known, Symbol) and _counts_batches(known.key)
        if value is not None and (counted or "len(" in ast.unparse(value)) and "//" not in ast.unparse(value):
            return f"{name}={ast.unparse(value)}"
    return ""


def _counts_batches(key: Hashable, depth: int = 6) -> bool:
    """Whether a number was computed with `len(...)`, and not divided again."""
    if not isinstance(key, tuple) or depth == 0:
        return False
    if key[:2] in (("bin", "FloorDiv"), ("bin", "Div")):
        return False
    return key[:1] == ("builtins.len",) or any(_counts_batches(part, depth - 1) for part in key)
