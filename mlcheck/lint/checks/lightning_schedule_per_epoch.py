"""lightning-schedule-per-epoch: a schedule counted in batches, which Lightning steps once an epoch."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites import Class
from mlcheck.lint.sites.origins import Origin, returns
from mlcheck.lint.sites.training.lightning_schedules import is_lightning, schedules

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
        if configure is None or not is_lightning(cls):
            continue
        seen += 1
        if "interval" in configure.text or _steps_itself(cls):
            continue
        for answer in returns(configure):
            for schedule in schedules(cls.file, answer, configure.inner, per_epoch=True):
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
