"""Schedules that a Lightning module returns, and whether anything steps them where it optimizes by hand."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mlcheck.core.patterns import pattern
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.layers.modules import text_of
from mlcheck.lint.sites.model import Class, Function
from mlcheck.lint.sites.origins import Origin, origins, returns
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.scopes import AttributeSet, Context

_STEPPED = pattern(r"([\w.]+(?:\([^()]*\)|\[[^\]]*\])?)\.step\(")
_BY_HAND = pattern(r"\blr_schedulers\(|lr_scheduler_configs|lr_scheduler_step|\bsched\w*(?:\[[^\]]*\])?\.step\(")


def is_lightning(cls: Class) -> bool:
    return any(map(is_lightning_name, cls.libraries))


def is_lightning_name(name: str) -> bool:
    return name.rpartition(".")[2] == "LightningModule" and "lightning" in name


def is_plain_lightning(cls: Class) -> bool:
    """Whether nothing but Lightning and the project has a part in it."""
    return all(is_lightning_name(name) or name == "builtins.object" for name in cls.libraries)


def switched_off(cls: Class) -> AttributeSet | None:
    """Where the class switches automatic optimization off for certain."""
    switched = [assigned for _, assigned in cls.attribute("automatic_optimization")]
    chosen = any(outer.kind in ("if", "try") for each in switched for outer in each.context.outwards())
    off = bool(switched) and all(cls.file.constant(each.value, each.context) is False for each in switched)
    return switched[0] if off and not chosen else None


def never_moved(sites: Sites) -> Iterator[tuple[Origin, Function]]:
    """The schedules of modules that optimize by hand, and step none, with the method that returns them."""
    for file in sites.mentioning(["automatic_optimization"]):
        for cls in file.classes:
            configure = cls.find("configure_optimizers")
            if configure is None or not is_lightning(cls) or not is_plain_lightning(cls) or switched_off(cls) is None:
                continue
            found = [made for answer in returns(configure) for made in schedules(file, answer, configure.inner)]
            if found and not _is_stepped(cls, configure, found):
                yield from ((made, configure) for made in found)


def _is_stepped(cls: Class, configure: Function, found: list[Origin]) -> bool:
    """Whether the class, or a file that knows it, may step a schedule."""
    if any(_BY_HAND.search(file.text) for file in cls.file.sites.mentioning([cls.name], tests=True)):
        return True
    text = "".join(text_of(base) for base in cls.line).replace(configure.text, "")
    kept = {name for made in found for name in made.file.names_given(made.node)}
    handed = [rf"[(,=]\s*(?:self\.)?{re.escape(name)}\s*[,)]" for name in kept]
    if any(re.search(each, text) for each in handed):
        return True
    return any("opt" not in owner.lower() for owner in _STEPPED.findall(text))


def schedules(file: File, answer: ast.expr, context: Context, per_epoch: bool = False) -> Iterator[Origin]:
    """The schedules in `[optimizer], [schedule]` and in `{"optimizer": ..., "lr_scheduler": schedule}`.

    `per_epoch`: only those that Lightning steps once an epoch.
    """
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
            if per_epoch and not all(_leaves_interval(file, value, where) for value in _spread(held)):
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
