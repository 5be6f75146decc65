"""lightning-schedule-per-epoch: a schedule counted in batches, which Lightning steps once an epoch."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites import Class, Context, File
from mlcheck.lint.sites.origins import Origin, origins, returns

LOOKS_AT = "Lightning schedule"
WORDS = ("LightningModule",)
_SCHEDULES = pattern(r"OneCycleLR|get_\w*schedule\w*|CyclicLR")
_IN_BATCHES = pattern(
    r"estimated_stepping_batches|steps_per_epoch|total_steps|training_steps|len\(|num_batches|max_steps"
)
_IN_EPOCHS = pattern(r"epochs?\b")


def check(facts: Facts) -> Iterator[Finding]:
    seen = 0
    for cls in facts.sites.classes:
        configure = cls.methods.get("configure_optimizers")
        lightning = any(name.rpartition(".")[2] == "LightningModule" and "lightning" in name for name in cls.libraries)
        if configure is None or not lightning:
            continue
        seen += 1
        if "interval" in configure.text or _steps_itself(cls):
            continue
        for answer in returns(configure):
            for schedule in _schedules(cls.file, answer, configure.inner):
                if _counts_batches(schedule):
                    yield Finding(
                        "This schedule counts batches, and Lightning steps it once an epoch: most is never reached",
                        schedule.file.place(schedule.node, schedule.context).location,
                        help='return `{"optimizer": ..., "lr_scheduler": {"scheduler": ..., "interval": "step"}}`',
                        related=(cls.file.place(answer, configure.inner).location,),
                    )
    facts.sites.seen[LOOKS_AT] = seen


def _steps_itself(cls: Class) -> bool:
    """Whether the module steps its schedules by hand, or says how Lightning does."""
    return any(name in base.methods for base in cls.line for name in ("lr_scheduler_step", "optimizer_step")) or any(
        word in base.file.text for base in cls.line for word in ("automatic_optimization", "lr_schedulers()")
    )


def _schedules(file: File, answer: ast.expr, context: Context) -> Iterator[Origin]:
    """The schedules in `[optimizer], [schedule]` and in `{"optimizer": ..., "lr_scheduler": schedule}`."""
    parts: list[ast.expr] = []
    found, context = file.value(answer, context)
    if isinstance(found, ast.Tuple) and len(found.elts) == 2:
        second, context = file.value(found.elts[1], context)
        parts = second.elts if isinstance(second, ast.List | ast.Tuple) else []
    elif isinstance(found, ast.Dict):
        parts = [value for key, value in zip(found.keys, found.values, strict=True) if _is_key(key, "lr_scheduler")]
    for part in parts:
        held, where = file.value(part, context)
        if isinstance(held, ast.Dict):
            if not all(_leaves_interval(file, value, where) for value in _spread(held)):
                continue
            inner = [value for key, value in zip(held.keys, held.values, strict=True) if _is_key(key, "scheduler")]
            yield from (origin for node in inner for origin in origins(file, node, where))
        else:
            yield from origins(file, held, where)


def _spread(table: ast.Dict) -> list[ast.expr]:
    """`settings` of `{"scheduler": schedule, **settings}`."""
    return [value for key, value in zip(table.keys, table.values, strict=True) if key is None]


def _leaves_interval(file: File, settings: ast.expr, context: Context) -> bool:
    """Whether settings that are spread into the answer let Lightning step once an epoch, by default at least."""
    for origin in origins(file, settings, context):
        node = origin.node.values[-1] if isinstance(origin.node, ast.BoolOp) else origin.node
        if not isinstance(node, ast.Dict) or _spread(node):
            return False
        if any(_is_key(k, "interval") and not _is_key(v, "epoch") for k, v in zip(node.keys, node.values, strict=True)):
            return False
    return True


def _is_key(node: ast.expr | None, wanted: str) -> bool:
    return isinstance(node, ast.Constant) and node.value == wanted


def _counts_batches(schedule: Origin) -> bool:
    """Whether the arguments of a schedule that is made for batches speak of batches and not of epochs."""
    node = schedule.node
    if not isinstance(node, ast.Call) or not _SCHEDULES.search(ast.unparse(node.func)):
        return False
    words = list(_keywords(schedule, node))
    given = " ".join([*map(ast.unparse, node.args[1:]), *(f"{name}={ast.unparse(value)}" for name, value in words)])
    if "steps_per_epoch=" in given:
        return True
    values = " ".join(
        ast.unparse(schedule.file.value(arg, schedule.context)[0])
        for arg in [*node.args[1:], *(value for _, value in words)]
    )
    return _IN_BATCHES.search(values) is not None and "epochs=" not in given


def _keywords(schedule: Origin, call: ast.Call) -> Iterator[tuple[str, ast.expr]]:
    """The arguments given by name, those of a dictionary that is written out among them."""
    for word in call.keywords:
        table = schedule.file.value(word.value, schedule.context)[0] if word.arg is None else None
        if isinstance(table, ast.Dict):
            pairs = zip(table.keys, table.values, strict=True)
            yield from ((str(key.value), value) for key, value in pairs if isinstance(key, ast.Constant))
        else:
            yield word.arg or "", word.value
