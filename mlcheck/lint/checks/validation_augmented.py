"""validation-augmented: validation data is augmented, or its transform replaces that of the training data."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites import AttributeSet, File, Sites
from mlcheck.lint.sites.loaders import Loader, loaders
from mlcheck.lint.sites.origins import Origin, origins
from mlcheck.lint.sites.transforms import is_random, name_of, steps_of, transforms_of
from mlcheck.lint.values import split_of_name

LOOKS_AT = "data loader"
_SPLITS = "torch.utils.data.random_split"
_PARTS = (_SPLITS, "torch.utils.data.Subset")


def check(facts: Facts) -> Iterator[Finding]:
    for loader in facts.sites.once(loaders):
        if loader.own_split in ("val", "test") and not loader.trained and not _is_changed(loader):
            steps = _steps(loader)
            drawn = next((step for step in steps if is_random(step)), None)
            if drawn is not None:
                yield Finding(
                    f"The {'validation' if loader.own_split == 'val' else 'test'} data is augmented at random: "
                    f"`{name_of(drawn)}` is among its transforms",
                    loader.call.place.location,
                    help="make a second data set with the transforms of evaluation, and take the held-out part of that",
                    related=(drawn.file.place(drawn.node, drawn.context).location,),
                )
    yield from _shared(facts.sites)


def _steps(loader: Loader) -> list[Origin]:
    """The transforms of the loader's data, through the data set that it is a part of."""
    if len(loader.data) != 1:
        return []
    data = loader.data[0]
    while data.name in _PARTS:
        assert isinstance(data.node, ast.Call)
        if not data.node.args:
            return []
        whole = origins(data.file, data.node.args[0], data.context)
        if len(whole) != 1:
            return []
        data = whole[0]
    return transforms_of(data) or []


def _is_changed(loader: Loader) -> bool:
    """Whether some transform is assigned later on."""
    return any(assigned.target.attr in ("transform", "transforms") for assigned in loader.call.file.walk.attributes)


def _shared(sites: Sites) -> Iterator[Finding]:
    """`part.dataset.transform = ...`: the parts of `random_split` share one data set, so the last assignment counts."""
    for file in sites.mentioning([".dataset.transform"]):
        by_split: dict[int, list[tuple[str, AttributeSet]]] = {}
        for assigned in file.walk.attributes:
            found = _part(file, assigned)
            if found is not None:
                by_split.setdefault(id(found[1].node), []).append((found[0], assigned))
        for parts in by_split.values():
            last = parts[-1]
            if len({name for name, _ in parts}) > 1 or _is_wrong_alone(file, *last):
                yield Finding(
                    f"`{last[0]}.dataset` is the data set of the other parts too: they get this transform as well",
                    file.place(last[1].node, last[1].context).location,
                    help="give each part a data set of its own: two data sets with two transforms, the same indices",
                )


def _part(file: File, assigned: AttributeSet) -> tuple[str, Origin] | None:
    """The name of the part, and the `random_split` it comes from, of `name.dataset.transform = ...`."""
    owner = assigned.target.value
    if assigned.target.attr != "transform" or not isinstance(owner, ast.Attribute) or owner.attr != "dataset":
        return None
    if not isinstance(owner.value, ast.Name):
        return None
    copied = any(
        other.target.attr == "dataset" and isinstance(other.target.value, ast.Name) for other in file.walk.attributes
    )
    found = origins(file, owner.value, assigned.context)
    if copied or len(found) != 1 or found[0].name != _SPLITS:
        return None
    return owner.value.id, found[0]


def _is_wrong_alone(file: File, name: str, assigned: AttributeSet) -> bool:
    """One assignment alone: random steps for all parts, or steps meant for the held-out part alone."""
    if split_of_name(name) in ("val", "test"):
        return True
    value = assigned.value
    steps = steps_of(Origin(file, value, assigned.context)) if value is not None else None
    return any(is_random(step) for step in steps or ())
