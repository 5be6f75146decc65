"""Data sets of pictures and their masks, where a random flip or crop moves one of the two and not the other alike."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Place
from mlcheck.lint.nodes import is_name, is_none, last_name, walk
from mlcheck.lint.sites.data.transforms import is_random, name_of, steps_of
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.model import Call, Function
from mlcheck.lint.sites.origins import Origin, origins
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.scopes import Context

MASK = pattern(r"mask|(?:\b|_)segs?(?:\b|_|m)|(?:\b|_)gts?(?:\b|_)|annot|trimap|label|target")
_BOTH = pattern(r"\[['\"]\w*(?:image|img|picture)\w*['\"]\][^#]*\[['\"]\w*(?:mask|label|seg|target)\w*['\"]\]")
_SEEDED = pattern(r"seed|rng_state|get_params|getstate|ReplayCompose|to_deterministic")
_MAY_MOVE = pattern(r"transform|augment|crop|flip|self\.\w*(?:aug|tf)\w*\(", re.IGNORECASE)
_MOVES = frozenset(["RandomCrop", "RandomResizedCrop", "RandomRotation", "RandomAffine", "RandomPerspective"])
_MOVES |= {"RandomHorizontalFlip", "RandomVerticalFlip", "ElasticTransform", "RandomZoomOut", "RandomIoUCrop"}
_FLIPS = frozenset(["hflip", "vflip", "fliplr", "flipud", "rot90", "flip"])
_SETS = tuple(f"torchvision.datasets.{name}" for name in ("VOCSegmentation", "Cityscapes", "SBDataset"))
_DRAWS = ("random", "rand", "uniform", "randint", "choice")


class Apart(NamedTuple):
    """Where a mask, or a picture, is moved by its own draw, and what is moved so."""

    place: Place
    moved: str
    step: str


def moved_apart(sites: Sites) -> Iterator[Apart]:
    """`image = flip(image)`, `mask = flip(mask)`: each by its own draw."""
    for file in sites.mentioning(["__getitem__", "flip(", "fliplr", "flipud", "rot90"]) if sites.uses_torch else ():
        for function in file.functions:
            if not MASK.search(function.text.lower()) or _SEEDED.search(function.text):
                continue
            if function.name == "__getitem__" and "orch" in file.text:
                yield from _by_transforms(function)
                yield from _one_by_one(function)
            if function.name == "__getitem__" or _takes_both(function):
                yield from _by_hand(function)
    for call in sites.calls(*_SETS):
        for word in ("transform", "target_transform"):
            given = call.argument(word)
            step = _moving(Origin(call.file, given, call.context)) if given is not None and not is_none(given) else ""
            if step:
                yield Apart(call.place, "the picture" if word == "transform" else "the mask", step)
                break


def _takes_both(function: Function) -> bool:
    """`def augment(image, mask)`, `sample["image"], sample["mask"]`."""
    if _BOTH.search(function.text):
        return True
    names = [name for name in function.parameters if name != function.receiver]
    masks = [name for name in names if MASK.search(name.lower())]
    return len(masks) == 1 and len(names) > 1


def _by_transforms(function: Function) -> Iterator[Apart]:
    moves: list[tuple[Call, bool, str]] = []
    for node in function.all(ast.Call):
        if len(node.args) != 1 or node.keywords:
            continue
        call = next((c for c in function.file.calls(last_name(node.func)) if c.node is node), None)
        if call is None or (any(outer.kind in ("if", "loop") for outer in call.context.outwards()) and _chosen(call)):
            continue
        step = _moving(Origin(function.file, node.func, call.context))
        if step:
            names = (ast.unparse(node.args[0]), *function.file.names_given(node))
            of_mask = any(MASK.search(name.lower()) for name in names) or _is_read_from_mask(function, names[0])
            moves.append((call, of_mask, step))
    masks, pictures = [m for m in moves if m[1]], [m for m in moves if not m[1]]
    if masks and pictures:
        call, _, step = masks[0]
        yield Apart(call.place, f"`{ast.unparse(call.node.args[0])}`", step)


def _one_by_one(function: Function) -> Iterator[Apart]:
    """`image, mask = [self.augment(each) for each in (image, mask)]`."""
    for made in function.nodes:
        if not isinstance(made, ast.ListComp | ast.GeneratorExp):
            continue
        turn = made.generators[0]
        over, _ = source(function.file, turn.iter, function.inner)
        parts = over.elts if isinstance(over, ast.Tuple | ast.List) and isinstance(turn.target, ast.Name) else []
        masks = [part for part in parts if MASK.search(ast.unparse(part).lower())]
        if len(made.generators) > 1 or not masks or len(masks) == len(parts):
            continue
        inner = Context("comprehension", made, function.inner, function.inner.scope)
        for node in walk(made.elt):
            if isinstance(node, ast.Call) and len(node.args) == 1 and is_name(node.args[0], ast.unparse(turn.target)):
                step = _moving(Origin(function.file, node.func, inner)) or _moving_at_times(function, node.func)
                if step:
                    yield Apart(function.place(node), f"`{ast.unparse(masks[0])}`", step)


def _moving_at_times(function: Function, transform: ast.expr) -> str:
    """The moving step of `Compose(steps)`, where `steps` are others for training than for evaluation."""
    for made in origins(function.file, transform, function.inner):
        listed = made.node.args[0] if isinstance(made.node, ast.Call) and made.node.args else None
        arms = origins(made.file, listed, made.context) if listed is not None and name_of(made) == "Compose" else []
        for arm in arms:
            steps = arm.node.elts if isinstance(arm.node, ast.List | ast.Tuple) else []
            names = [_moving(arm._replace(node=step)) for step in steps]
            if any(names):
                return next(name for name in names if name)
    return ""


def _is_read_from_mask(function: Function, name: str) -> bool:
    """`weights` of `weights = Image.open(self.mask_path)`."""
    lines = (line for line in function.all(ast.Assign) if any(is_name(target, name) for target in line.targets))
    return any("mask" in ast.unparse(line.value).lower() and "open" in ast.unparse(line.value) for line in lines)


def _chosen(call: Call) -> bool:
    """Whether it stands in one arm of several, another of which may handle both together."""
    for outer in call.context.outwards():
        if isinstance(outer.node, ast.If) and outer.node.orelse:
            others = outer.node.body if outer.arm == "orelse" else outer.node.orelse
            if any(_MAY_MOVE.search(ast.unparse(line)) for line in others):
                return True
    return False


def _moving(transform: Origin) -> str:
    """The first step of a transform that moves the picture by a draw of its own; "" where there is none."""
    named = transform.file.resolve(transform.node, transform.context)
    if isinstance(named, Function):
        return named.name if _flips_by_draw(named) else ""
    steps = steps_of(transform) or []
    names = [step.name.rpartition(".")[2] for step in steps if is_random(step) and not _always_flips(step)]
    return next((name for name in names if name in _MOVES), "")


def _flips_by_draw(function: Function) -> bool:
    """`def random_flip(x): return hflip(x) if random() < 0.5 else x`, of one thing at a time."""
    calls = function.all(ast.Call)
    draws = any(last_name(call.func) in _DRAWS for call in calls)
    alone = len([name for name in function.parameters if name != function.receiver and not function.parameters[name]])
    return draws and alone == 1 and any(map(_is_flip, calls)) and not _SEEDED.search(function.text)


def _always_flips(step: Origin) -> bool:
    """`RandomHorizontalFlip(p=1)`, behind a draw of its own."""
    given = [*step.node.args, *(word.value for word in step.node.keywords)] if isinstance(step.node, ast.Call) else []
    return "Flip" in step.name and len(given) == 1 and step.file.constant(given[0], step.context) == 1


def _by_hand(function: Function) -> Iterator[Apart]:
    """`if random.random() > 0.5: image = hflip(image)`, and the same for the mask by another draw."""
    moved: dict[str, list[tuple[ast.expr, str]]] = {}
    for branch in function.all(ast.If):
        draws = [node for node in walk(branch.test) if isinstance(node, ast.Call) and last_name(node.func) in _DRAWS]
        flips = [node for line in branch.body for node in walk(line) if _is_flip(node) or _is_turned(node)]
        if draws and len(flips) == 1 and isinstance(flips[0], ast.Call | ast.Subscript) and not branch.orelse:
            name = _flipped(flips[0])
            step = last_name(flips[0].func) if isinstance(flips[0], ast.Call) else ast.unparse(flips[0].slice)
            if name:
                moved.setdefault(step, []).append((flips[0], name))
    for step, flips_of in moved.items():
        masks = [(node, name) for node, name in flips_of if MASK.search(name.lower())]
        if masks and len(masks) < len(flips_of):
            node, name = masks[0]
            yield Apart(function.place(node), f"`{name}`", step)


def _is_flip(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and last_name(node.func) in _FLIPS


def _is_turned(node: ast.AST) -> bool:
    """`mask[:, ::-1]`."""
    return isinstance(node, ast.Subscript) and "::-1" in ast.unparse(node.slice).replace(" ", "")


def _flipped(node: ast.Call | ast.Subscript) -> str:
    """`mask` of `TF.hflip(mask)`, of `mask.flip(2)` and of `mask[:, ::-1]`."""
    if isinstance(node, ast.Subscript):
        return last_name(node.value)
    if node.args and isinstance(node.args[0], ast.Name):
        return node.args[0].id
    owner = node.func.value if isinstance(node.func, ast.Attribute) else None
    return owner.id if isinstance(owner, ast.Name) else ""
