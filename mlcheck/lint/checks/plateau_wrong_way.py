"""plateau-wrong-way: ReduceLROnPlateau waits for an accuracy to fall, or for a loss to rise."""

import ast
from collections.abc import Iterator
from typing import TypeGuard

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import before_methods, last_name
from mlcheck.lint.sites import Call, Sites
from mlcheck.lint.sites.evaluation.metrics import better
from mlcheck.lint.training import Scheduler
from mlcheck.lint.values import Const

LOOKS_AT = "plateau scheduler"
WORDS = ("ReduceLROnPlateau",)
_NUMBERS = ("item", "cpu", "detach", "float")
_MODES = {"higher": "max", "lower": "min"}
_BETTER = {mode: side for side, mode in _MODES.items()}
_OTHER = {"max": "min", "min": "max"}


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = sum(made.name == "ReduceLROnPlateau" for made in facts.training.schedulers.values())
    for step in facts.training.scheduler_steps:
        mode = _mode(step.scheduler) if step.scheduler.name == "ReduceLROnPlateau" else ""
        given, turned = _told(step.place.node)
        metric, wanted = _name(given), _MODES.get(better(_name(given)), "")
        if turned:
            metric, wanted = ast.unparse(turned), _OTHER.get(wanted, "")
        if mode and wanted and mode != wanted:
            yield Finding(
                f"`{metric}` is better when it is {_BETTER[wanted]}, and the scheduler waits for the "
                f"other: `mode='{mode}'`",
                step.place.location,
                help=f"make the scheduler with `mode='{wanted}'`",
                related=(step.scheduler.place.location,),
            )
    yield from _monitored(facts.sites)


def _monitored(sites: Sites) -> Iterator[Finding]:
    """`{"scheduler": scheduler, "monitor": "val_loss"}`, as Lightning takes it."""
    for call in sites.calls("torch.optim.lr_scheduler.ReduceLROnPlateau"):
        mode = call.constant("mode", 1, "min")
        for table in _tables(call):
            entries = {key.value: value for key, value in zip(table.keys, table.values, strict=True) if _is_word(key)}
            held = [entries[name] for name in ("scheduler", "lr_scheduler") if name in entries]
            metric = call.file.constant(entries.get("monitor"), call.context)
            wanted = _MODES.get(better(metric), "") if isinstance(metric, str) else ""
            if mode in ("min", "max") and wanted not in ("", mode):
                if any(call.file.value(each, call.context)[0] is call.node for each in held):
                    yield Finding(
                        f"`{metric}` is better when it is {better(str(metric))}, and the scheduler waits for the "
                        f"other: `mode='{mode}'`",
                        call.place.location,
                        help=f"make the scheduler with `mode='{wanted}'`",
                        related=(call.file.place(table, call.context).location,),
                    )


def _tables(call: Call) -> list[ast.Dict]:
    """The dictionaries with a `monitor` in the function around it."""
    nodes = call.function.nodes if call.function is not None else ()
    return [node for node in nodes if isinstance(node, ast.Dict) and any(_is_word(k, "monitor") for k in node.keys)]


def _is_word(key: ast.expr | None, word: str = "") -> TypeGuard[ast.Constant]:
    return isinstance(key, ast.Constant) and (not word or key.value == word)


def _mode(scheduler: Scheduler) -> str:
    """`min` or `max`; "" where it is not written out."""
    node = scheduler.place.node
    if not isinstance(node, ast.Call) or any(isinstance(arg, ast.Starred) for arg in node.args):
        return ""
    if any(keyword.arg is None for keyword in node.keywords):
        return ""
    given = [*node.args[1:2], *(keyword.value for keyword in node.keywords if keyword.arg == "mode")]
    if not given:
        preset = scheduler.arguments.get("mode", Const("min"))  # of a `functools.partial`
        return str(preset.value) if isinstance(preset, Const) else ""
    return str(given[0].value) if isinstance(given[0], ast.Constant) else ""


def _told(node: ast.AST) -> tuple[ast.expr | None, ast.expr | None]:
    """What the scheduler is told; of `-loss` and `1 - accuracy` the metric, and the whole, which turns it round."""
    if not isinstance(node, ast.Call):
        return None, None
    given = [*node.args[:1], *(keyword.value for keyword in node.keywords if keyword.arg == "metrics")]
    match given[0] if given else None:
        case ast.UnaryOp(op=ast.USub(), operand=inner) as whole:
            return inner, whole
        case ast.BinOp(left=ast.Constant(), op=ast.Sub(), right=inner) as whole:
            return inner, whole
        case value:
            return value, None


def _name(value: ast.expr | None) -> str:
    """The name of a metric, and of the function or method that it is the answer of; "" for the rest."""
    value = before_methods(value, _NUMBERS) if value is not None else None
    if isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Constant):
        return str(value.slice.value)
    if isinstance(value, ast.Attribute):
        return value.attr
    if isinstance(value, ast.Call):
        return last_name(value.func)
    return value.id if isinstance(value, ast.Name) else ""
