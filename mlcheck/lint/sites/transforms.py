"""Image transforms: what a data set applies to its samples, as far as the text tells."""

from __future__ import annotations

import ast

from mlcheck.lint.sites.model import OPEN
from mlcheck.lint.sites.origins import Origin, origins

_SPACES = ("torchvision.transforms.v2.", "torchvision.transforms.", "albumentations.")
_RANDOM = frozenset(
    [
        *("ColorJitter", "AutoAugment", "RandAugment", "TrivialAugmentWide", "AugMix", "MixUp", "CutMix"),
        *("HorizontalFlip", "VerticalFlip", "ShiftScaleRotate", "Rotate", "CoarseDropout", "GaussNoise", "Flip"),
    ]
)
_SETTLED = frozenset(["RandomApply", "RandomChoice", "RandomOrder"])


def transforms_of(data: Origin) -> list[Origin] | None:
    """The steps of the transform that a data set is made with; None where they are not known."""
    if not isinstance(data.node, ast.Call):
        return None
    given = next((k.value for k in data.node.keywords if k.arg in ("transform", "transforms")), None)
    if given is None and data.name.endswith((".ImageFolder", ".DatasetFolder")):
        position = 1 if data.name.endswith(".ImageFolder") else 3
        given = data.node.args[position] if len(data.node.args) > position else None
    if given is None:
        return None
    return steps_of(Origin(data.file, given, data.context, -1, data.entered))


def steps_of(transform: Origin) -> list[Origin] | None:
    """The steps of a transform, `Compose` unfolded; None where it may be one of several or is not known."""
    node = _entry(transform)
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
        item = transform.file.item_of(node.value, transform.context, node.slice.value)
        if item is not None and item is not OPEN:
            _, context = transform.file.value(node.value, transform.context)
            node, transform = item, Origin(transform.file, item, context)
    found = origins(transform.file, node, transform.context)
    if len(found) != 1 or not found[0].name.startswith(_SPACES):
        return None
    origin = found[0]
    if not origin.name.endswith(".Compose"):
        return [origin]
    assert isinstance(origin.node, ast.Call)
    listed = origin.node.args[0] if origin.node.args else None
    if listed is None:
        return None
    return _listed(origin, listed) or None


def _entry(transform: Origin) -> ast.expr:
    """`PIPELINES[mode]` in a function that is given the mode as a word: the entry by that word."""
    node, entered = transform.node, transform.entered
    if not isinstance(node, ast.Subscript) or not isinstance(node.slice, ast.Name) or entered is None:
        return node
    key = entered.constant(node.slice)
    return ast.copy_location(ast.Subscript(node.value, ast.Constant(key)), node) if isinstance(key, str) else node


def _listed(origin: Origin, listed: ast.expr) -> list[Origin]:
    """The steps of a list written out, `*more` unfolded; none where it is not known."""
    parts = origins(origin.file, listed, origin.context, origin.entered)
    if len(parts) != 1 or not isinstance(parts[0].node, ast.List | ast.Tuple):
        return []
    part, steps = parts[0], _added(origin, listed)
    for step in part.node.elts if isinstance(part.node, ast.List | ast.Tuple) else ():
        if isinstance(step, ast.Starred):
            steps += _listed(part, step.value)
        else:
            steps.append(Origin(part.file, step, part.context, -1, part.entered))
    return steps


def _added(origin: Origin, listed: ast.expr) -> list[Origin]:
    """The steps appended to the list one by one, where that certainly happens in the call that is followed."""
    steps = []
    if isinstance(listed, ast.Name) and origin.entered is not None:
        for node, context in origin.file.walk.mutations.get(listed.id, ()):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "append":
                if node.args and origin.entered.runs(context):
                    steps.append(Origin(origin.file, node.args[0], context, -1, origin.entered))
    return steps


def is_random(step: Origin) -> bool:
    """Whether a step draws anew each time: `RandomCrop`, `ColorJitter`, ..."""
    name = step.name
    last = name.rpartition(".")[2]
    return name.startswith(_SPACES) and last not in _SETTLED and (last.startswith("Random") or last in _RANDOM)


def name_of(step: Origin) -> str:
    """`RandomCrop` of `transforms.RandomCrop(32)`."""
    return step.name.rpartition(".")[2]
