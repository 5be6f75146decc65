"""Settings that Lightning's Trainer refuses when the fit begins."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.sites.model import UNKNOWN, Class, Function
from mlcheck.lint.sites.origins import returns
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.training.lightning import TRAINERS, is_of_early_lightning

_PLATEAU = "torch.optim.lr_scheduler.ReduceLROnPlateau"
_OFF = (UNKNOWN, None, 0, 0.0)


def refused(sites: Sites, modules: list[Class]) -> Iterator[Finding]:
    """`modules` are the Lightning modules of the program."""
    by_hand = [cls for cls in modules if _is_by_hand(cls)]
    for cls in modules:
        configure = cls.methods.get("configure_optimizers")
        if configure is not None and cls not in by_hand and not is_of_early_lightning(cls):
            yield from _unwatched(configure)
    if modules and len(by_hand) == len(modules):
        yield from _clipped_by_nobody(sites, by_hand[0])


def _is_by_hand(cls: Class) -> bool:
    """Whether automatic optimization is off, as far as the class says."""
    switched = cls.attribute("automatic_optimization")
    return bool(switched) and all(
        where.file.constant(each.value, each.context) is False for where, each in switched if each.value is not None
    )


def _clipped_by_nobody(sites: Sites, module: Class) -> Iterator[Finding]:
    for trainer in sites.calls(*TRAINERS):
        if trainer.constant("gradient_clip_val") not in _OFF:
            yield Finding(
                "Automatic optimization is off, so nobody clips: the Trainer refuses `gradient_clip_val`",
                trainer.file.place(trainer.argument("gradient_clip_val") or trainer.node, trainer.context).location,
                help="call `self.clip_gradients(optimizer, gradient_clip_val=...)` before each step of the module",
                related=(module.place.location,),
            )


def _unwatched(configure: Function) -> Iterator[Finding]:
    """A `ReduceLROnPlateau` that is handed over without the metric it is to watch."""
    for given in returns(configure):
        for node in _schedules(configure, given):
            if _is_plateau(configure, node):
                yield Finding(
                    "`ReduceLROnPlateau` is handed over without a `monitor`: the Trainer refuses it",
                    configure.place(given).location,
                    help='`{"scheduler": scheduler, "monitor": "val_loss"}`',
                )


def _schedules(configure: Function, given: ast.expr) -> Iterator[ast.expr]:
    """The schedules that are returned with no metric beside them."""
    if isinstance(given, ast.Tuple | ast.List) and len(given.elts) == 2 and isinstance(given.elts[1], ast.List):
        for each in given.elts[1].elts:
            yield from _bare(configure, each)
    held = _entries(given)
    if "monitor" not in held and "lr_scheduler" in held:
        yield from _bare(configure, held["lr_scheduler"])


def _bare(configure: Function, node: ast.expr) -> Iterator[ast.expr]:
    value, _ = configure.file.value(node, configure.inner)
    if not isinstance(value, ast.Dict):
        yield value
    elif len(held := _entries(value)) == len(value.keys) and "monitor" not in held and "scheduler" in held:
        if not isinstance(node, ast.Name) or not configure.file.is_mutated(node.id, configure.inner):
            yield held["scheduler"]


def _entries(node: ast.expr) -> dict[str, ast.expr]:
    """What a dictionary holds by name; nothing, where it holds more than is written out."""
    if not isinstance(node, ast.Dict) or None in node.keys:
        return {}
    pairs = zip(node.keys, node.values, strict=True)
    return {key.value: value for key, value in pairs if isinstance(key, ast.Constant) and isinstance(key.value, str)}


def _is_plateau(configure: Function, node: ast.expr) -> bool:
    value, where = configure.file.value(node, configure.inner)
    return configure.file.called(value, where) == _PLATEAU
