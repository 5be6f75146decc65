"""Image transforms: what a data set applies to its samples, as far as the text tells."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import walk
from mlcheck.lint.sites.entering import Entered
from mlcheck.lint.sites.guards import own_attribute
from mlcheck.lint.sites.model import Call, Class, Function
from mlcheck.lint.sites.origins import Origin, origins

_DEPTH = 4
_MONAI = "monai.transforms."
_SPACES = ("torchvision.transforms.v2.", "torchvision.transforms.", "albumentations.", "torchio.", _MONAI)
_RANDOM = frozenset(
    [
        *("ColorJitter", "AutoAugment", "RandAugment", "TrivialAugmentWide", "AugMix", "MixUp", "CutMix"),
        *("HorizontalFlip", "VerticalFlip", "ShiftScaleRotate", "Rotate", "CoarseDropout", "GaussNoise", "Flip"),
    ]
)
_OF_PART = pattern(r"train|split|mode|phase|aug|val|test|eval|subset|part", re.IGNORECASE)
_LABELS = pattern(r"label|mask|seg|target|class", re.IGNORECASE)
_SETTLED = frozenset(["RandomApply", "RandomChoice", "RandomOrder"])


def transforms_of(data: Origin) -> list[Origin] | None:
    """The steps of the transform that a data set is made with; None where they are not known."""
    cls = data.file.resolve(data.node.func, data.context) if isinstance(data.node, ast.Call) else None
    if isinstance(cls, Class) and isinstance(data.node, ast.Call) and (own := _own_transform(cls, data, data.node)):
        return steps_of(own)
    if not isinstance(data.node, ast.Call) or (isinstance(cls, Class) and _chooses(cls)):
        return None
    given = next((k.value for k in data.node.keywords if k.arg in ("transform", "transforms")), None)
    if given is None and data.name.endswith((".ImageFolder", ".DatasetFolder")):
        position = 1 if data.name.endswith(".ImageFolder") else 3
        given = data.node.args[position] if len(data.node.args) > position else None
    if given is None:
        given = _given_to(cls, data.node) if isinstance(cls, Class) else None
    if given is None:
        return None
    return steps_of(Origin(data.file, given, data.context, -1, data.entered))


def _chooses(cls: Class) -> bool:
    """Whether a data set applies its transform to one part of the data alone: `if self.train:`."""
    tests = (node.test for node in walk(cls.node) if isinstance(node, ast.If | ast.IfExp))
    return any(_OF_PART.search(ast.unparse(test)) for test in tests)


def _own_transform(cls: Class, data: Origin, made: ast.Call) -> Origin | None:
    """What the constructor of a data set makes and each sample goes through, by what this call gives it."""
    init, item = cls.find("__init__"), cls.find("__getitem__")
    if init is None or item is None or any(_OF_PART.search(ast.unparse(test)) for test in _tests(item)):
        return None
    called = {own_attribute(node.func, item) for node in item.nodes if isinstance(node, ast.Call)}
    entered = Entered(init, Call(data.file, made, data.context), data.entered)
    for name in called - {""}:
        sets = [each for where, each in cls.attribute(name) if where is init]
        kept = [each for each in sets if not entered.leaves_out(each.node, each.context)]
        value = kept[0].value if len(kept) == 1 and len(sets) == len(cls.attribute(name)) else None
        if value is not None and not isinstance(value, ast.Name):
            own = Origin(init.file, value, kept[0].context, -1, entered)
            if steps_of(own):
                return own
    return None


def _tests(function: Function) -> Iterator[ast.expr]:
    return (node.test for node in function.nodes if isinstance(node, ast.If | ast.IfExp))


def _given_to(cls: Class, made: ast.Call) -> ast.expr | None:
    """The transform in `Pictures(files, labels, tfm)`: what a class of the project keeps and calls for each sample."""
    init = cls.find("__init__")
    names = list(init.parameters)[1:] if init is not None else []
    found = [name for name in names if name in ("transform", "transforms")] or _called_per_sample(cls, names)
    given = [word.value for word in made.keywords if word.arg in found]
    place = names.index(found[0]) if found else len(made.args)
    if given or place >= len(made.args) or any(isinstance(arg, ast.Starred) for arg in made.args[: place + 1]):
        return given[0] if given else None
    return made.args[place]


def _called_per_sample(cls: Class, names: list[str]) -> list[str]:
    """The one parameter that is kept as it is, and called in `__getitem__`."""
    item = cls.find("__getitem__")
    called = (
        {ast.unparse(node.func) for node in item.nodes if isinstance(node, ast.Call)} if item is not None else set()
    )
    kept = [
        sets[0][1].value.id
        for key, sets in cls.attributes.items()
        if len(sets) == 1 and isinstance(sets[0][1].value, ast.Name) and f"self.{key}" in called
    ]
    return [name for name in kept if name in names] if len(kept) == 1 else []


def steps_of(transform: Origin) -> list[Origin] | None:
    """The steps of a transform, `Compose` unfolded; None where it may be one of several or is not known."""
    found = origins(transform.file, transform.node, transform.context, transform.entered)
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


def _listed(origin: Origin, listed: ast.expr, depth: int = _DEPTH) -> list[Origin]:
    """The steps of a list written out, `*more` unfolded; none where it is not known, or made of itself."""
    if depth == 0:
        return []
    if isinstance(listed, ast.BinOp) and isinstance(listed.op, ast.Add):
        sides = [_listed(origin, side, depth - 1) for side in (listed.left, listed.right)]
        return [step for side in sides for step in side] if all(sides) else []
    parts = _begun(origin, listed) or origins(origin.file, listed, origin.context, origin.entered)
    if len(parts) != 1 or not isinstance(parts[0].node, ast.List | ast.Tuple):
        return []
    return [*_elements(parts[0], depth - 1), *_added(origin, listed, depth - 1)]


def _elements(part: Origin, depth: int) -> Iterator[Origin]:
    for step in part.node.elts if isinstance(part.node, ast.List | ast.Tuple) else ():
        if isinstance(step, ast.Starred):
            yield from _listed(part, step.value, depth)
        else:
            yield Origin(part.file, step, part.context, -1, part.entered)


def _begun(origin: Origin, listed: ast.expr) -> list[Origin]:
    """The list that a name begins with, where all else it is given is `+= [...]`."""
    bindings = origin.file.bindings(listed.id, origin.context) if isinstance(listed, ast.Name) else []
    first = [binding.value for binding in bindings if binding.kind == "value"]
    if len(bindings) < 2 or len(first) != 1 or origin.entered is None or not isinstance(first[0], ast.List):
        return []
    grows = all(isinstance(each.node, ast.AugAssign) for each in bindings if each.kind != "value")
    return [Origin(origin.file, first[0], bindings[0].context, -1, origin.entered)] if grows else []


def _added(origin: Origin, listed: ast.expr, depth: int) -> list[Origin]:
    """The steps added to the list later, where that certainly happens in the call that is followed."""
    steps: list[Origin] = []
    if not isinstance(listed, ast.Name):
        return steps
    if origin.entered is None:
        return _appended_above(origin, listed)
    for node, context in origin.file.walk.mutations.get(listed.id, ()):
        called = node.func.attr if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else ""
        if isinstance(node, ast.Call) and node.args and origin.entered.runs(context):
            step = Origin(origin.file, node.args[0], context, -1, origin.entered)
            steps += [step] if called == "append" else _elements(step, depth) if called == "extend" else []
    for binding in origin.file.bindings(listed.id, origin.context):
        if isinstance(binding.node, ast.AugAssign) and origin.entered.runs(binding.context):
            steps += _elements(Origin(origin.file, binding.node.value, binding.context, -1, origin.entered), depth)
    return steps


def _appended_above(origin: Origin, listed: ast.Name) -> list[Origin]:
    """The steps that lines of the same function append above the use; none where one of them may not run."""
    file, steps = origin.file, list[Origin]()
    function = file.function_around(origin.context)
    for node, context in file.walk.mutations.get(listed.id, ()):
        if file.function_around(context) is not function:
            continue
        match node:
            case ast.Call(func=ast.Attribute(attr="append"), args=[step]) if node.lineno < listed.lineno:
                steps.append(Origin(file, step, context))
            case _:
                return []
        if any(outer.kind in ("if", "loop", "try") for outer in context.outwards()):
            return []
    return steps


def is_random(step: Origin) -> bool:
    """Whether a step draws anew each time: `RandomCrop`, `ColorJitter`, ...

    A random crop of MONAI's is no augmentation alone: it is how a volume is made to fit.
    """
    name = step.name
    last = name.rpartition(".")[2]
    if name.startswith(_MONAI):
        return last.startswith("Rand") and "Crop" not in last
    return name.startswith(_SPACES) and last not in _SETTLED and (last.startswith("Random") or last in _RANDOM)


def makes_the_task(steps: list[Origin]) -> bool:
    """Whether the random steps make what a model is to undo: they change a copy, or some of several pictures alone.

    MONAI's steps name what they change; a picture that is changed beside its labels is augmented.
    """
    if any(name_of(step).startswith("CopyItems") for step in steps):
        return True
    loaded = {key for step in steps if name_of(step).startswith("LoadImage") for key in _keys(step)}
    drawn = {key for step in steps if is_random(step) for key in _keys(step)}
    return bool(drawn) and drawn < loaded and not any(map(_LABELS.search, loaded))


def _keys(step: Origin) -> list[str]:
    given = Call(step.file, step.node, step.context).argument("keys", 0) if isinstance(step.node, ast.Call) else None
    listed = step.file.value(given, step.context)[0] if given is not None else None
    parts = listed.elts if isinstance(listed, ast.List | ast.Tuple) else [] if listed is None else [listed]
    return [key for part in parts if isinstance(key := step.file.constant(part, step.context), str)]


def name_of(step: Origin) -> str:
    """`RandomCrop` of `transforms.RandomCrop(32)`."""
    return step.name.rpartition(".")[2]
