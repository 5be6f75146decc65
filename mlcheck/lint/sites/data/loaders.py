"""The data loaders of a program: what they carry, for which split, and whether a training loop runs over them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property

from mlcheck.core.dataclasses import dataclass
from mlcheck.lint.names import canonical
from mlcheck.lint.nodes import is_name, is_none, loads
from mlcheck.lint.sites.data.gone_over import trained
from mlcheck.lint.sites.model import OPEN, Call, Class, Function
from mlcheck.lint.sites.origins import Origin, origins
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.unrolled import for_each_key
from mlcheck.lint.values import split_of_name

LOADER = "torch.utils.data.DataLoader"
PUBLIC = "torchvision.datasets."
ITERABLE = "torch.utils.data.IterableDataset"
_LOADERS = (
    *(LOADER, "determined.pytorch.DataLoader", "torch_geometric.loader.DataLoader"),
    *("monai.data.DataLoader", "monai.data.ThreadDataLoader"),
)
_MAPS = frozenset(f"torch.utils.data.{name}" for name in ("TensorDataset", "Subset", "ConcatDataset", "random_split"))
_HOOKS = {
    "train_dataloader": "train",
    "val_dataloader": "val",
    "test_dataloader": "test",
    "predict_dataloader": "test",
    "build_training_data_loader": "train",
    "build_validation_data_loader": "val",
}


@dataclass(eq=False)
class Loader:
    """One call that makes a loader. `trained`: a loop that calls `backward` certainly runs over it, or a Trainer.

    `key`: the one that it is kept under, of a comprehension that makes one loader for each key.
    """

    call: Call
    trained: bool
    key: str = ""

    @property
    def dataset(self) -> ast.expr | None:
        return self.call.argument("dataset", 0)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names it is bound to where it is made."""
        if self.key:
            return (self.key,)
        return self.call.file.names_given(self.call.node)

    @cached_property
    def split(self) -> str:
        """train, val or test, by the names of the loader, its data and the function; "" where they tell nothing.

        Where they contradict each other, it is "" too; `val_loader` of `test_set` is held out all the same.
        """
        found = [split for name in self._told() if (split := split_of_name(name))]
        if found or self.call.function is None:
            return found[0] if len(set(found)) == 1 or (found and "train" not in found) else ""
        return self.hook or ("" if self._is_only_tried() else split_of_name(self.call.function.name))

    @cached_property
    def own_split(self) -> str:
        """The split by the names of the loader alone; where it has none, of its data."""
        if not self.names:
            return self.split
        found = {split for name in self.names if (split := split_of_name(name))}
        return found.pop() if len(found) == 1 else ""

    @property
    def hook(self) -> str:
        """The split by the method of a framework that makes the loader."""
        return hook_of(self.call.function)

    def _is_only_tried(self) -> bool:
        """`next(iter(loader))` and no more: `test_dataset()` tests the data set, and evaluates nothing."""
        function = self.call.function
        if function is None or len(self.names) != 1:
            return False
        nodes, name = function.nodes, self.names[0]
        uses = {id(node) for node in nodes if is_name(node, name) and isinstance(node.ctx, ast.Load)}
        calls = [node for node in nodes if isinstance(node, ast.Call) and node.args]
        asked = {id(call.args[0]) for call in calls if is_name(call.func, "iter") or is_name(call.func, "len")}
        taken = [call for call in calls if is_name(call.func, "next") and isinstance(call.args[0], ast.Call)]
        return bool(uses) and uses <= asked and bool(taken)

    def _is_made_here(self) -> bool:
        """`return DataLoader(Pictures(files, "val"))`, of a class of the project."""
        func = self.dataset.func if isinstance(self.dataset, ast.Call) else None
        return isinstance(self.call.file.resolve(func, self.call.context), Class)

    def _told(self) -> Iterator[str]:
        yield from self.names
        if not self.names and isinstance(self.dataset, ast.Call) and self._is_made_here():
            given = [*self.dataset.args, *(word.value for word in self.dataset.keywords)]
            yield from (each.value for each in given if isinstance(each, ast.Constant) and isinstance(each.value, str))
        if isinstance(self.dataset, ast.Name | ast.Attribute):
            yield self.dataset.id if isinstance(self.dataset, ast.Name) else self.dataset.attr

    @cached_property
    def data(self) -> list[Origin]:
        """Where the data set may come from."""
        return origins(self.call.file, self.dataset, self.call.context) if self.dataset is not None else []

    @cached_property
    def kind(self) -> str:
        """`map` or `iterable` where all origins of the data agree, else "". Only what has an order can be shuffled."""
        if self.call.constant("shuffle", 2) is True:
            return "map"
        kinds = {kind_of_data(origin) for origin in self.data if not is_none(origin.node)}
        return kinds.pop() if len(kinds) == 1 else ""

    @property
    def draws_itself(self) -> bool:
        """Whether the data makes each sample of a draw of its own, whatever index it is asked for."""
        named = [o.file.resolve(o.node.func, o.context) for o in self.data if isinstance(o.node, ast.Call)]
        items = [each.find("__getitem__") for each in named if isinstance(each, Class)]
        return bool(items) and all(item is not None and not _goes_by_index(item) for item in items)

    @property
    def owns_order(self) -> bool:
        """Whether a sampler is, or may be, given."""
        return any(
            self.call.argument(name, position) is not None and self.call.constant(name, position) is not None
            for name, position in (("sampler", 3), ("batch_sampler", 4))
        )

    @cached_property
    def workers(self) -> bool:
        """Whether worker processes load the data: `num_workers` is given and not 0."""
        given = self.call.argument("num_workers", 5)
        if given is None or given is OPEN or self.call.constant("num_workers", 5) == 0:
            return False
        found = origins(self.call.file, given, self.call.context)
        return not all(isinstance(each.node, ast.Constant) and each.node.value == 0 for each in found)


def hook_of(function: Function | None) -> str:
    """The split by the name of a framework's method."""
    return _HOOKS.get(function.name, "") if function is not None else ""


def kind_of_data(origin: Origin) -> str:
    """`map`, `iterable` or "" of one origin of a data set."""
    if not isinstance(origin.node, ast.Call):
        return ""
    named = origin.file.resolve(origin.node.func, origin.context)
    if isinstance(named, Class):
        if any(canonical(base) == ITERABLE for base in named.libraries) or named.find("__iter__"):
            return "iterable"
        known = bool(named.libraries) and "?" not in named.libraries
        item = named.find("__getitem__")
        return "map" if item is not None and known and _goes_by_index(item) else ""
    names = classes_of(origin)
    return "map" if names and all(name in _MAPS or name.startswith(PUBLIC) for name in names) else ""


def _goes_by_index(item: Function) -> bool:
    """Whether `__getitem__` reads its index: of a queue of batches it is no more than a count."""
    names = [name for name in item.parameters if name != item.receiver]
    return not names or loads(item.node, names[0])


def classes_of(origin: Origin) -> list[str]:
    """The class of a library that makes the data; several of `dataset(root)`, where branches bind `dataset`."""
    if not isinstance(origin.node, ast.Call):
        return []
    if origin.name or not isinstance(origin.node.func, ast.Name):
        return [canonical(origin.name)] if origin.name else []
    found = origins(origin.file, origin.node.func, origin.context, origin.entered)
    names = [each.file.resolve(each.node, each.context) for each in found]
    known = [canonical(name) for name in names if isinstance(name, str)]
    return known if len(known) == len(names) else []


def loaders(sites: Sites) -> tuple[Loader, ...]:
    """All loaders that are made; `sites.once(loaders)`."""
    calls = list(sites.calls(*_LOADERS))
    over = sites.once(trained) if calls else frozenset[int]()
    sites.seen["data loader"] = len(calls)
    unrolled = ((call, key, each) for call in calls for key, each in for_each_key(call))
    return tuple(Loader(each, not over.isdisjoint([id(call.node), id(each.node)]), key) for call, key, each in unrolled)
