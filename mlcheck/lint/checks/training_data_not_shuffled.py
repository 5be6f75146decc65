"""training-data-not-shuffled: a model is trained on the same order of samples in every epoch."""

import ast
import re
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts
from mlcheck.lint.judging import is_named_for_attack
from mlcheck.lint.nodes import is_none, last_name, loads, walk
from mlcheck.lint.sites import OPEN, UNKNOWN, Call, Class
from mlcheck.lint.sites.data.drawn_orders import not_followed
from mlcheck.lint.sites.data.loaders import Loader, kind_of_data, loaders
from mlcheck.lint.sites.data.makers import Made, made
from mlcheck.lint.sites.data.noise import is_noise
from mlcheck.lint.sites.data.ordered_samplers import goes_in_order
from mlcheck.lint.sites.data.pairing import paired
from mlcheck.lint.sites.data.shuffled_rest import draws_the_rest, shuffles_the_rest
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.origins import Origin, callers, origins

LOOKS_AT = "data loader"
WORDS = ("DataLoader", "randperm", "permutation")
_ORDERED = pattern(
    r"time|series|forecast|window|stock|sequen|temporal|replay|buffer|rollout|stream"
    r"|random|dummy|fake|synthetic|onevar|noop|ones",
    re.IGNORECASE,
)
_MEANT = pattern(r"shuffle *= *False\b[^\n]*#[^\n]*(?:shuffl|order|sequen)", re.IGNORECASE)
"""A reason beside it: the order is meant."""
_TENSORS = "torch.utils.data.TensorDataset"
_MADE_UP = pattern(r"(?:random|dummy|fake|synthetic)_\w+$", re.IGNORECASE)
_MANY = 1000
_SHUFFLES = ("shuffle", "randperm", "permutation", "random.sample", "randint", "random.choice")


def check(facts: Facts) -> Iterator[Finding]:
    for loader in facts.sites.once(loaders):
        yield from _turned_about(loader)
        if (asked := _asked_in_vain(loader)) is not None:
            yield Finding(
                "`shuffle` is a parameter of the function around, and nothing reads it: the data is never shuffled",
                loader.call.place.location,
                help="pass `shuffle=shuffle`",
                related=(asked.place.location,),
            )
        elif loader.split not in ("val", "test") and loader.call.constant("shuffle", 2, False) is False:
            text = loader.call.file.module.text_of(loader.call.node)
            if not _MEANT.search(text) and id(loader.call.node) not in facts.sites.once(paired):
                yield from _in_order(loader)
    yield from not_followed(facts.sites)
    for each in facts.sites.once(made):
        if (each.trained or each.hook == "train") and each.split in ("", "train") and _is_left_in_order(each):
            yield Finding(
                f"The training data is not shuffled: this call of `{each.entered.function.name}` leaves "
                "`shuffle` at False",
                each.call.place.location,
                help="pass `shuffle=True` for the training data",
                related=(each.loader.call.place.location,),
            )


def _turned_about(loader: Loader) -> Iterator[Finding]:
    """What is shuffled in place of the training data, or takes the place of what would shuffle that."""
    if shuffles_the_rest(loader) or draws_the_rest(loader):
        yield Finding(
            "The data is shuffled unless it is for training",
            loader.call.place.location,
            help="the other way round: training data is shuffled, and the rest goes in order",
        )
    if _is_left_by_hook(loader):
        yield Finding(
            "The training data is not shuffled: the loader takes the place of the Trainer's own, which shuffles",
            loader.call.place.location,
            help="pass `shuffle=True`, or `sampler=self._get_train_sampler()`",
        )
    if _is_in_table(loader):
        yield Finding(
            "The training data is not shuffled: every loader made here goes through its data in order",
            loader.call.place.location,
            help='shuffle the one for training: `shuffle=split == "train"`',
        )


def _in_order(loader: Loader) -> Iterator[Finding]:
    """Loaders of training data that are told to shuffle by nothing."""
    if _is_only_counted(loader):
        return
    if loader.owns_order:
        if loader.trained and goes_in_order(loader) and _is_worth_shuffling(loader) and not _is_redrawn(loader):
            yield Finding(
                "The training data is not shuffled: `SequentialSampler` brings it in one order, in every epoch",
                loader.call.place.location,
                help="pass `shuffle=True` in place of the sampler, or a `RandomSampler`",
            )
        if _shuffles_only_with_others(loader):
            yield Finding(
                "The training data is shuffled only in a distributed run: the sampler draws nothing otherwise",
                loader.call.place.location,
                help="pass `shuffle=sampler is None`",
            )
    elif (loader.trained or loader.hook == "train") and _is_worth_shuffling(loader) and not _is_redrawn(loader):
        yield Finding(
            "The training data is not shuffled: every epoch brings the same batches in the same order",
            loader.call.place.location,
            help="pass `shuffle=True`, or a sampler that draws at random",
        )


def _asked_in_vain(loader: Loader) -> Call | None:
    """`def loader(data, shuffle): return DataLoader(data, shuffle=False)`: a call that asks for what is not read."""
    function = loader.call.function
    if function is None or "shuffle" not in function.parameters or loader.owns_order:
        return None
    if loader.call.constant("shuffle", 2, False) is not False or loads(function.node, "shuffle"):
        return None
    names = list(function.parameters)
    position = names.index("shuffle") - bool(function.receiver)
    asking = (call for call in callers(loader.call.file.sites, function) if call.constant("shuffle", position) is True)
    return next(asking, None)


def _is_left_in_order(each: Made) -> bool:
    """`make_loader(train_set)`, of a function whose `shuffle` is False unless it is told."""
    given = each.loader.call.argument("shuffle", 2)
    if not isinstance(given, ast.Name) or given.id not in each.entered.function.parameters or each.loader.owns_order:
        return False
    otherwise = any("shuffle" in name and each.call.constant(name) is True for name in each.call.names())
    if each.constant("shuffle", 2) is not False or _is_redrawn(each.loader) or otherwise:
        return False  # `make_loader(data, shuffle=False, shuffle_within_groups=True)`
    kinds = {kind_of_data(origin) for origin in each.data}
    return kinds == {"map"} and not any(_is_ordered(origin) or _shuffles_itself(origin) for origin in each.data)


def _is_left_by_hook(loader: Loader) -> bool:
    """`get_train_dataloader` of a Trainer of Transformers that hands `self.train_dataset` to a plain loader."""
    call = loader.call
    hook = call.function is not None and call.function.name == "get_train_dataloader" and call.cls is not None
    if not hook or call.cls is None or not any(name.endswith("Trainer") for name in call.cls.libraries):
        return False
    given = [call.argument(*each) for each in (("shuffle", 2), ("sampler", 3), ("batch_sampler", 4))]
    own = loader.dataset is not None and ast.unparse(loader.dataset) == "self.train_dataset"
    return own and given == [None] * 3 and not any(word in call.file.text for word in ("Iterable", "streaming"))


def _is_in_table(loader: Loader) -> bool:
    """`{split: DataLoader(sets[split]) for split in ("train", "val")}`, one of which a loop trains on by its key.

    Or the data is made there: `DataLoader(Pictures(root, split))`.
    """
    call = loader.call
    given = ("sampler", 3), ("batch_sampler", 4)
    if any(call.argument(name, position) is not None for name, position in given):
        return False
    if call.constant("shuffle", 2, False) is not False:
        return False
    if loader.key:
        return loader.key == "train" and not loader.trained and loader.kind == "map" and _trains_by_key(call)
    table = next((outer.node for outer in call.context.outwards() if outer.kind == "comprehension"), None)
    if not isinstance(table, ast.DictComp) or table.value is not call.node or len(table.generators) != 1:
        return False
    sets = loader.dataset.value if isinstance(loader.dataset, ast.Subscript) else None
    over, _ = source(call.file, table.generators[0].iter, call.context)
    made, inner = source(call.file, sets, call.context) if sets is not None else (loader.dataset, call.context)
    data: list[ast.expr]
    if isinstance(made, ast.Call):
        keys, data = over, [made]
    elif isinstance(made, ast.DictComp):
        keys, data = made.generators[0].iter, [made.value]
    elif isinstance(made, ast.Dict):
        keys, data = ast.Tuple([key for key in made.keys if key is not None]), made.values
    else:
        return False
    keys = over if isinstance(over, ast.List | ast.Tuple) else keys
    words = [ast.unparse(key) for key in keys.elts] if isinstance(keys, ast.List | ast.Tuple) else []
    kinds = {kind_of_data(Origin(call.file, *source(call.file, each, inner))) for each in data}
    return "'train'" in words and kinds == {"map"} and _trains_by_key(call)


def _trains_by_key(call: Call) -> bool:
    """`for x, y in loaders[phase]: ... backward()` in the same file."""
    return any(
        isinstance(loop.node, ast.For) and re.search(r"\w\[(?:phase|split|mode|'train')\]", ast.unparse(loop.node.iter))
        for other in call.file.calls("backward")
        for loop in other.loops
    )


def _is_worth_shuffling(loader: Loader) -> bool:
    """Samples of a data set that is indexed, neither in order of time nor made up, in more than one batch."""
    if loader.kind != "map" or any(_is_ordered(origin) or _shuffles_itself(origin) for origin in loader.data):
        return False
    size = loader.call.argument("batch_size", 1)
    node = loader.call.file.value(size, loader.call.context)[0] if size is not None and size is not OPEN else None
    whole = isinstance(node, ast.Constant) and isinstance(node.value, int) and node.value >= _MANY
    whole = whole and loader.call.argument("shuffle", 2) is not None  # all of the data at once, for all one can tell
    return not (whole or (isinstance(node, ast.Call) and last_name(node.func) in ("len", "__len__")))


def _is_redrawn(loader: Loader) -> bool:
    """Whether differential privacy draws its batches at random, or an attack works on each sample by itself."""
    call = loader.call
    around = call.function.name if call.function is not None else ""
    return "make_private" in call.file.text or is_named_for_attack(call.file.path, around)


def _is_ordered(origin: Origin) -> bool:
    if isinstance(origin.node, ast.Call) and origin.node.args:
        made_up = all(_MADE_UP.match(ast.unparse(each)) for each in origin.node.args) or is_noise(origin)
        if made_up or origin.name == _TENSORS:
            return made_up
    name = ast.unparse(origin.node.func) if isinstance(origin.node, ast.Call) else ""
    return _ORDERED.search(name.replace("random_split", "")) is not None


def _shuffles_itself(origin: Origin) -> bool:
    if not isinstance(origin.node, ast.Call):
        return False
    if any(keyword.arg == "shuffle" for keyword in origin.node.keywords):
        return True
    named = origin.file.resolve(origin.node.func, origin.context)
    if not isinstance(named, Class):
        return False
    return (
        any(word in base.text for base in named.line for word in _SHUFFLES) or _ORDERED.search(named.name) is not None
    )


def _shuffles_only_with_others(loader: Loader) -> bool:
    """`sampler = DistributedSampler(data, shuffle=...) if distributed else None`, and no `shuffle` for the loader."""
    given = loader.call.argument("sampler", 3)
    if given is None or given is OPEN or loader.call.argument("batch_sampler", 4) is not None:
        return False
    if any(_shuffles_itself(origin) for origin in loader.data):
        return False
    found = origins(loader.call.file, given, loader.call.context)
    alone = [origin for origin in found if is_none(origin.node) or origin.name.endswith(".SequentialSampler")]
    others = [origin for origin in found if origin.name.endswith(".DistributedSampler")]
    if not alone or len(alone) + len(others) != len(found):
        return False
    asked = {_asks(origin) for origin in others}
    certain = loader.trained or loader.split == "train"
    return bool(asked) and (asked == {"asked"} or (asked == {"default"} and certain))


def _is_only_counted(loader: Loader) -> bool:
    """`steps = len(loader)`, and nothing else is done with it, or `len(DataLoader(...))`."""
    call = loader.call
    around = list(call.function.nodes if call.function is not None else walk(call.file.module.source.tree))
    counted = [n.args[0] for n in around if isinstance(n, ast.Call) and last_name(n.func) == "len" and n.args]
    if any(each is call.node for each in counted):
        return True
    reads = [n for n in around if isinstance(n, ast.Name) and (n.id,) == loader.names and isinstance(n.ctx, ast.Load)]
    return bool(reads) and all(any(read is each for each in counted) for read in reads)


def _asks(origin: Origin) -> str:
    """Whether a sampler is asked to shuffle: asked, default (it does) or no."""
    assert isinstance(origin.node, ast.Call)
    given = next((keyword.value for keyword in origin.node.keywords if keyword.arg == "shuffle"), None)
    if given is None:
        return "default"
    value = origin.file.constant(given, origin.context)
    return "asked" if value is UNKNOWN or value is True else "no"
