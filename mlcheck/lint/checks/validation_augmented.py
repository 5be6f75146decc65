"""validation-augmented: validation data is augmented, or its transform replaces that of the training data."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding, Location
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import walk
from mlcheck.lint.sites import Call, Class, Function, Sites
from mlcheck.lint.sites.data.handed import training_transform
from mlcheck.lint.sites.data.inverted import augmented_unless_training
from mlcheck.lint.sites.data.jitter import mixing_collate, noise_in_samples, transform_in_samples
from mlcheck.lint.sites.data.loaders import PUBLIC, Loader, classes_of, loaders
from mlcheck.lint.sites.data.makers import made
from mlcheck.lint.sites.data.part_transforms import PARTS, transforms_of_parts, transforms_of_whole
from mlcheck.lint.sites.data.transforms import is_random, makes_the_task, name_of, transforms_of
from mlcheck.lint.sites.evaluation.evaluation_steps import augmented_steps
from mlcheck.lint.sites.origins import Origin, origins
from mlcheck.lint.values import split_of_name

LOOKS_AT = "data loader"
WORDS = ("DataLoader", ".transform = ", "LightningModule")


def check(facts: Facts) -> Iterator[Finding]:
    for loader in facts.sites.once(loaders):
        if loader.own_split in ("val", "test") and not loader.trained:
            yield from _flagged(loader)
            yield from _jittered(facts.sites, loader)
            yield from _handed_to_both(facts.sites, loader)
        if loader.own_split in ("val", "test") and not loader.trained and not _is_changed(loader):
            data, steps = _steps(loader)
            drawn = next((step for step in steps if is_random(step)), None)
            if drawn is not None and not makes_the_task(steps) and not _is_meant(facts.sites, loader):
                yield Finding(
                    f"The {'validation' if loader.own_split == 'val' else 'test'} data is augmented at random: "
                    f"`{name_of(drawn)}` is among its transforms",
                    _place(loader, data),
                    help="make a second data set with the transforms of evaluation, and take the held-out part of that",
                    related=(drawn.file.place(drawn.node, drawn.context).location,),
                )
    for each in facts.sites.once(made):
        if each.split in ("val", "test") and not each.trained and each.loader.own_split == "":
            steps = _steps_of(each.data) if not _is_changed(each.loader) else []
            drawn = next((step for step in steps if is_random(step)), None)
            if drawn is not None and not makes_the_task(steps):
                yield Finding(
                    f"The {'validation' if each.split == 'val' else 'test'} data is augmented at random: what this "
                    f"call makes has `{name_of(drawn)}` among its transforms",
                    each.call.place.location,
                    help="give held-out data the transforms of evaluation",
                    related=(drawn.file.place(drawn.node, drawn.context).location,),
                )
    for place, kind, name in augmented_steps(facts.sites):
        yield Finding(
            f"The {kind} data is augmented at random: its step applies `{name}` too",
            place.location,
            help="apply it in `training_step` alone",
        )
    for shared in transforms_of_whole(facts.sites):
        yield Finding(
            f"`{shared.part}.dataset` is the data set of the other parts too: they get this transform as well",
            shared.place.location,
            help="give each part a data set of its own: two data sets with two transforms, the same indices",
        )
    for unheard in transforms_of_parts(facts.sites):
        yield Finding(
            f"`{unheard.part}` is a part of a data set, and never asks for a `transform` of its own: its samples keep "
            "that of the whole",
            unheard.place.location,
            help="make a second data set with this transform, and take the same indices of that",
        )


def _flagged(loader: Loader) -> Iterator[Finding]:
    """`Pictures(val_files)`, where `augment=True` is the default of the data set's class."""
    data = loader.data[0] if len(loader.data) == 1 else None
    cls = data.file.resolve(data.node.func, data.context) if data and isinstance(data.node, ast.Call) else None
    init = cls.find("__init__") if isinstance(cls, Class) else None
    if data is None or init is None or not isinstance(cls, Class) or not isinstance(data.node, ast.Call):
        return
    made = Call(data.file, data.node, data.context)
    for position, (name, default) in enumerate(list(init.parameters.items())[1:]):
        if not name.startswith("aug") or not _is_switch(cls, init, name):
            continue
        given = made.argument(name, position)
        value = init.file.constant(default, init.defined.context) if given is None and default is not None else None
        if (value if given is None else made.constant(name, position)) is True:
            yield Finding(
                f"The {'validation' if loader.own_split == 'val' else 'test'} data is augmented: "
                f"`{cls.name}` is made with `{name}=True`",
                _place(loader),
                help=f"pass `{name}=False` for the held-out data",
                related=(data.file.place(data.node, data.context).location,),
            )


def _place(loader: Loader, data: Origin | None = None) -> Location:
    """Where the held-out data set is made, if its name says so; else where its loader is."""
    data = data or loader.data[0]
    names = data.file.names_given(data.node)
    held_out = bool(names) and all(split_of_name(name) in ("val", "test") for name in names)
    return data.file.place(data.node, data.context).location if held_out else loader.call.place.location


def _jittered(sites: Sites, loader: Loader) -> Iterator[Finding]:
    """Noise in the data set's own class, which trains too, and mixing where batches are put together."""
    kind = "validation" if loader.own_split == "val" else "test"
    collate = loader.call.argument("collate_fn", 6)
    mixed = mixing_collate(loader.call.file, collate, loader.call.context) if collate is not None else None
    if mixed is not None:
        yield Finding(
            f"The {kind} data is augmented at random: its `collate_fn` mixes the samples of a batch",
            loader.call.place.location,
            help="give this loader no `collate_fn`, or one that does not mix",
        )
    cls = _class_of(loader)
    if cls is None or not any(other.split == "train" and _class_of(other) is cls for other in sites.once(loaders)):
        return
    yield from augmented_unless_training(cls, kind)
    if (drawn := transform_in_samples(cls)) is not None:
        yield Finding(
            f"The {kind} data is augmented as the training data: `{cls.name}` applies `{name_of(drawn[1])}` to every "
            "sample, whatever the split",
            _place(loader),
            help='apply it to training samples alone: `if self.split == "train":`',
            related=(cls.file.place(drawn[0], cls.defined.inner).location,),
        )
    noise = noise_in_samples(cls)
    if noise is not None:
        yield Finding(
            f"The {kind} data gets random noise as well: `{cls.name}` adds it to every sample, whatever the split",
            cls.file.place(noise, cls.defined.inner).location,
            help="add it to training samples alone: `if self.train:`",
            related=(loader.call.place.location,),
        )


def _handed_to_both(sites: Sites, loader: Loader) -> Iterator[Finding]:
    """`Clips(val_files, augment=jitter)`, where the training data gets the same."""
    cls = _class_of(loader)
    given = _augmentation(loader)
    if cls is None or given is None or split_of_name(ast.unparse(given)) in ("val", "test"):
        return
    for other in sites.once(loaders):
        same = _augmentation(other) if other.split == "train" and _class_of(other) is cls else None
        if same is not None and ast.unparse(same) == ast.unparse(given):
            yield Finding(
                f"The {'validation' if loader.own_split == 'val' else 'test'} data is augmented as the training data: "
                f"it is given `{ast.unparse(given)}` too",
                _place(loader),
                help="give the held-out data no augmentation",
                related=(other.data[0].file.place(other.data[0].node, other.data[0].context).location,),
            )
            return


def _augmentation(loader: Loader) -> ast.expr | None:
    """What a data set is given as `aug...=`, if it is no constant, or by a name for training."""
    node = loader.data[0].node if len(loader.data) == 1 else None
    words = node.keywords if isinstance(node, ast.Call) else []
    given = [word.value for word in words if word.arg is not None and word.arg.startswith("aug")]
    plain = len(given) == 1 and isinstance(given[0], ast.Name | ast.Attribute | ast.Call)
    return given[0] if plain else training_transform(loader)


def _class_of(loader: Loader) -> Class | None:
    data = loader.data[0] if len(loader.data) == 1 else None
    named = data.file.resolve(data.node.func, data.context) if data and isinstance(data.node, ast.Call) else None
    return named if isinstance(named, Class) else None


def _is_switch(cls: Class, init: Function, name: str) -> bool:
    """Whether samples depend on it: `if self.augment:` where they are fetched."""
    kept = [key for key, sets in cls.attributes.items() if isinstance(v := sets[0][1].value, ast.Name) and v.id == name]
    item = cls.find("__getitem__")
    tests = [node.test for node in walk(item.node) if isinstance(node, ast.If | ast.IfExp)] if item else []
    return any(f"self.{key}" in ast.unparse(test) and "not " not in ast.unparse(test) for key in kept for test in tests)


def _is_meant(sites: Sites, held_out: Loader) -> bool:
    """Whether the training data beside it is not augmented: then it was no slip, and robustness is measured."""
    beside = [o for o in sites.once(loaders) if o.split == "train" and o.call.file is held_out.call.file]
    steps = [_steps(loader)[1] for loader in beside]
    return any(steps) and not any(is_random(step) for each in steps for step in each)


def _steps(loader: Loader) -> tuple[Origin | None, list[Origin]]:
    """The transforms of the loader's data, through the data set that it is a part of.

    Of several public data sets, one of which a setting chooses, maybe beside others: the first that is augmented.
    """
    if _is_choice(loader.data):
        each = [(data, _steps_of([data])) for data in loader.data]
        return next(((data, steps) for data, steps in each if any(map(is_random, steps))), each[0])
    return None, _steps_of(loader.data)


def _is_choice(found: list[Origin]) -> bool:
    names = [name for data in found for name in classes_of(data) if name.startswith(PUBLIC)]
    return len(names) == len(set(names)) > 1


def _steps_of(found: list[Origin], depth: int = 3) -> list[Origin]:
    if _is_choice(found) and depth:
        each = [_steps_of([data], depth - 1) for data in found]
        return next((steps for steps in each if any(map(is_random, steps))), each[0])
    if len(found) != 1:
        return []
    data, seen = found[0], set[int]()
    while data.name in PARTS:
        assert isinstance(data.node, ast.Call)
        if not data.node.args or id(data.node) in seen:
            return []
        seen.add(id(data.node))
        whole = origins(data.file, data.node.args[0], data.context, data.entered)
        if len(whole) != 1:
            return _steps_of(whole, depth - 1) if _is_choice(whole) and depth else []
        data = whole[0]
    return transforms_of(data) or []


def _is_changed(loader: Loader) -> bool:
    """Whether some transform is assigned later on, other than by a constructor to its own object."""
    file = loader.call.file
    found = (each for each in file.walk.attributes if each.target.attr in ("transform", "transforms"))
    around = ((each, file.method_around(each.context)) for each in found)
    return any(
        method is None or method.name != "__init__" or ast.unparse(each.target.value) != method.receiver
        for each, method in around
    )
