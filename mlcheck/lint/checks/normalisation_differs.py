"""normalisation-differs: training and held-out images are not brought to the same mean and variance."""

import ast
from collections.abc import Hashable, Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites.data.loaders import Loader, loaders
from mlcheck.lint.sites.data.transforms import name_of, transforms_of
from mlcheck.lint.sites.origins import Origin, origins

LOOKS_AT = "data loader"
WORDS = ("DataLoader",)
_LIBRARIES = ("torchvision.transforms.", "albumentations.")
_OWN = ("Lambda", "RandomApply", "RandomChoice", "Compose", "Sequential")
_PARTS = ("torch.utils.data.random_split", "torch.utils.data.Subset")


def check(facts: Facts) -> Iterator[Finding]:
    groups: dict[Hashable, list[tuple[Loader, list[Origin]]]] = {}
    for loader in facts.sites.once(loaders):
        data = _data(loader)
        steps = transforms_of(data) if data is not None else None
        if data is not None and steps is not None and loader.split:
            assert isinstance(data.node, ast.Call)
            together = (data.file.path, id(loader.call.function), ast.unparse(data.node.func))
            groups.setdefault(together, []).append((loader, steps))
    for group in groups.values():
        trained = [(loader, steps) for loader, steps in group if loader.split == "train"]
        norms = [_normalisation(steps) for _, steps in trained]
        if not norms or norms[0] is None or any(norm != norms[0] for norm in norms):
            continue
        for loader, steps in group:
            norm = _normalisation(steps)
            if loader.split != "train" and norm is not None and norm != norms[0]:
                yield _finding(loader, norms[0], norm, trained[0][0])


def _data(loader: Loader) -> Origin | None:
    """The data set of a loader, through the one that it is a part of."""
    found, seen = loader.data, set[int]()
    while len(found) == 1 and found[0].name in _PARTS and isinstance(found[0].node, ast.Call) and found[0].node.args:
        if id(found[0].node) in seen:  # `data, rest = random_split(data, sizes)` of a parameter
            return None
        seen.add(id(found[0].node))
        found = origins(found[0].file, found[0].node.args[0], found[0].context)
    return found[0] if len(found) == 1 and isinstance(found[0].node, ast.Call) else None


def _normalisation(steps: list[Origin]) -> tuple[str, ...] | None:
    """The constants of the `Normalize` among the steps, `()` for none; None where they are not known."""
    found: list[tuple[str, ...]] = []
    for step in steps:
        if not step.name.startswith(_LIBRARIES) or name_of(step) in _OWN:
            return None
        if name_of(step) == "Normalize":
            constants = _constants(step)
            if constants is None:
                return None
            found.append(constants)
    return found[0] if len(found) == 1 else () if not found else None


def _constants(step: Origin) -> tuple[str, ...] | None:
    """Mean and standard deviation as written out, `0.50` and `0.5` alike."""
    assert isinstance(step.node, ast.Call)
    given = [*step.node.args, *(keyword.value for keyword in step.node.keywords)]
    if not given or any(isinstance(arg, ast.Starred) for arg in given):
        return ("albumentations",) if not given else None
    values = []
    for arg in given[:2]:
        made, _ = step.file.value(arg, step.context)
        try:
            value = ast.literal_eval(made)
        except (ValueError, TypeError):
            return None
        values.append(repr([float(number) for number in value] if isinstance(value, list | tuple) else value))
    return tuple(values)


def _finding(loader: Loader, wanted: tuple[str, ...], found: tuple[str, ...], train: Loader) -> Finding:
    if not found:
        what = "The training images are normalised, and these are not"
    elif not wanted:
        what = "These images are normalised, and the training images are not"
    else:
        what = "These images are normalised with other constants than the training images"
    return Finding(
        f"{what}: their range is not the one that the model is trained on",
        loader.call.place.location,
        help="give both the `Normalize` of the training data",
        related=(train.call.place.location,),
    )
