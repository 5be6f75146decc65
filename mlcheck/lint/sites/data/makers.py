"""Loaders as the calls of the function that makes them get them: `build(root, "val")` is not that for "train"."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property

from mlcheck.core.dataclasses import dataclass
from mlcheck.lint.nodes import last_name, walk
from mlcheck.lint.sites.data.gone_over import trained
from mlcheck.lint.sites.data.loaders import Loader, hook_of, loaders
from mlcheck.lint.sites.entering import Entered
from mlcheck.lint.sites.model import OPEN, Call, Function
from mlcheck.lint.sites.origins import Origin, callers, origins, returns
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.values import split_of_name

_MANY = 12


@dataclass(eq=False)
class Made:
    """A loader by the call that gets it. `trained`: a loop that calls `backward` certainly runs over it.

    `item`: its place among what is returned, -1 where nothing is returned beside it.
    """

    loader: Loader
    entered: Entered
    trained: bool
    item: int

    @property
    def call(self) -> Call:
        return self.entered.call

    def _unpacked(self) -> Iterator[str]:
        """`train_loader` of `train_loader, sampler = make_loader(data)`."""
        nodes = self.call.function.nodes if self.call.function is not None else walk(self.call.file.module.source.tree)
        for line in nodes if self.item >= 0 else ():
            if isinstance(line, ast.Assign) and line.value is self.call.node:
                parts = (target.elts for target in line.targets if isinstance(target, ast.Tuple | ast.List))
                yield from (last_name(elts[self.item]) for elts in parts if self.item < len(elts))

    @property
    def hook(self) -> str:
        """The split by the method of a framework that asks for the loader."""
        return hook_of(self.call.function)

    @cached_property
    def split(self) -> str:
        """train, val or test, by the name it is given and by the words that the call hands over; "" if they differ.

        Where they tell nothing: by the names of what it hands over, or by the method of a framework that returns it.
        """
        names = [*self.call.file.names_given(self.call.node), *self._unpacked()]
        words = [*self.call.node.args, *(word.value for word in self.call.node.keywords)]
        names += [word.value for word in words if isinstance(word, ast.Constant) and isinstance(word.value, str)]
        handed = [last_name(word) for word in words if isinstance(word, ast.Name | ast.Attribute)]
        found = {split for name in names if (split := split_of_name(name))}
        found = found or {split for name in handed if (split := split_of_name(name))}
        return self.hook if not found else found.pop() if len(found) == 1 else ""

    @cached_property
    def data(self) -> list[Origin]:
        """Where the data set of this call may come from."""
        dataset = self.loader.dataset
        if dataset is None or dataset is OPEN:
            return []
        return origins(self.loader.call.file, dataset, self.loader.call.context, self.entered)

    def constant(self, name: str, position: int) -> object:
        """The constant that this call leads to for an argument of the loader; None where that is not given."""
        given = self.loader.call.argument(name, position)
        return None if given is None else self.entered.constant(given)


def made(sites: Sites) -> tuple[Made, ...]:
    """All loaders that functions of the project make and return, once for each call; `sites.once(made)`."""
    return tuple(_made(sites))


def _made(sites: Sites) -> Iterator[Made]:
    over = sites.once(trained)
    for loader in sites.once(loaders):
        function = loader.call.function
        item = _returned(function, loader) if function is not None and not function.node.decorator_list else None
        if function is None or item is None:
            continue
        above = list(callers(sites, function))
        for call in above if len(above) <= _MANY else ():
            entered = Entered(function, call)
            if not entered.leaves_out(loader.call.node, loader.call.context):
                yield Made(loader, entered, id(call.node) in over, item)


def _returned(function: Function, loader: Loader) -> int | None:
    """Its place among what the function returns, -1 by itself; None if it is not returned, or other loaders are."""
    found, beside = list[int](), {each.call.node for each in function.file.sites.once(loaders)} - {loader.call.node}
    for answer in returns(function):
        several = isinstance(answer, ast.Tuple | ast.List)
        for item, part in enumerate(answer.elts if isinstance(answer, ast.Tuple | ast.List) else [answer]):
            made = {origin.node for origin in origins(function.file, part, function.inner)}
            if several and not made.isdisjoint(beside):
                return None
            if loader.call.node in made:
                found.append(item if several else -1)
    return found[0] if found else None
