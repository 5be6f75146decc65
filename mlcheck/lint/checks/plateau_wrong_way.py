"""plateau-wrong-way: ReduceLROnPlateau waits for an accuracy to fall, or for a loss to rise."""

import ast
import re
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.training import Scheduler

LOOKS_AT = "learning-rate scheduler"
_BETTER_HIGH = re.compile(r"(?:^|_)(?:acc|accuracy|f1|auc|auroc|map|miou|iou|dice|bleu|precision|recall)(?:_|\d|$)")
_BETTER_LOW = re.compile(r"(?:^|_)(?:loss|losses|error|mse|mae|rmse|nll|ppl|perplexity|wer|cer)(?:_|\d|$)")


def check(facts: Facts) -> Iterator[Finding]:
    for step in facts.training.scheduler_steps:
        mode = _mode(step.scheduler) if step.scheduler.name == "ReduceLROnPlateau" else ""
        metric = _metric(step.place.node)
        high, low = _BETTER_HIGH.search(metric), _BETTER_LOW.search(metric)
        if (mode == "min" and high and not low) or (mode == "max" and low and not high):
            wanted = "max" if high else "min"
            yield Finding(
                f"`{metric}` is better when it is {'higher' if high else 'lower'}, and the scheduler waits for the "
                f"other: `mode='{mode}'`",
                step.place.location,
                help=f"make the scheduler with `mode='{wanted}'`",
                related=(step.scheduler.place.location,),
            )


def _mode(scheduler: Scheduler) -> str:
    """`min` or `max`; "" where it is not written out."""
    node = scheduler.place.node
    if not isinstance(node, ast.Call) or any(isinstance(arg, ast.Starred) for arg in node.args):
        return ""
    if any(keyword.arg is None for keyword in node.keywords):
        return ""
    given = [*node.args[1:2], *(keyword.value for keyword in node.keywords if keyword.arg == "mode")]
    if not given:
        return "min"
    return str(given[0].value) if isinstance(given[0], ast.Constant) else ""


def _metric(node: ast.AST) -> str:
    """The name of what the scheduler is told, in lower case; "" for anything computed."""
    if not isinstance(node, ast.Call):
        return ""
    given = [*node.args[:1], *(keyword.value for keyword in node.keywords if keyword.arg == "metrics")]
    value = given[0] if given else None
    if isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Constant):
        return str(value.slice.value).lower()
    if isinstance(value, ast.Attribute):
        return value.attr.lower()
    return value.id.lower() if isinstance(value, ast.Name) else ""
