"""iterable-not-sharded: every worker yields the whole stream, so each sample comes several times."""

import ast
import re
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites import Class, File, Function, canonical
from mlcheck.lint.sites.data.loaders import ITERABLE, Loader, loaders
from mlcheck.lint.sites.layers.modules import text_of

LOOKS_AT = "iterable data set"
WORDS = ("DataLoader",)
_SHARES = pattern(r"worker|shard|rank|split_by|split_dataset")
_WORD = pattern(r"\w+")
_IMPORTS = pattern(r"^\s*(?:from [\w.]+ )?import [^(\n]*$", re.MULTILINE)
_DRAWS = pattern(r"while True|\brand(?:n|int|perm)?\(|random\.|rng|choice|sample\(|cycle\(|generator")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = sum(loader.kind == "iterable" for loader in facts.sites.once(loaders))
    for loader in facts.sites.once(loaders):
        if not loader.workers or loader.call.argument("worker_init_fn", 9) is not None or len(loader.data) != 1:
            continue
        if _may_be_one(loader):
            continue
        data = loader.data[0]
        cls = data.file.resolve(getattr(data.node, "func", None), data.context)
        if not isinstance(cls, Class) or {canonical(base) for base in cls.libraries} != {ITERABLE}:
            continue
        iterates = cls.find("__iter__")
        beyond = "\n".join(_handed_on_to(cls, iterates))
        own = text_of(cls) + beyond
        text = _IMPORTS.sub("", own + "\n".join(_named_in(cls, own)))
        if iterates is None or "num_workers" in own or _SHARES.search(text):
            continue
        if not _DRAWS.search(own):
            yield Finding(
                f"Every worker process yields all of `{cls.name}`: each sample comes once from every worker",
                iterates.place().location,
                help="ask `torch.utils.data.get_worker_info()` in `__iter__`, and yield this worker's share alone",
                related=(loader.call.place.location,),
            )


def _named_in(cls: Class, text: str) -> Iterator[str]:
    """The functions and classes of the files around that the class speaks of, and those that these speak of."""
    words, told, grown = set(_WORD.findall(text)), set[str](), True
    around = {file for base in cls.line for file in (base.file, *map(cls.file.sites.at, base.file.imports)) if file}
    while grown:
        grown = False
        for each in _defined(around):
            if each.name in words and each.name not in told and each is not cls:
                told.add(each.name)
                words.update(_WORD.findall(each.text))
                grown = True
                yield each.text


def _defined(files: set[File]) -> Iterator[Class | Function]:
    for file in files:
        yield from file.functions
        yield from file.classes


def _handed_on_to(cls: Class, iterates: Function | None) -> Iterator[str]:
    """The code of the project's methods that may be meant by `self.task.samples()`, which `__iter__` goes through."""
    for node in iterates.nodes if iterates is not None else ():
        func = node.func if isinstance(node, ast.Call) else None
        if isinstance(func, ast.Attribute) and isinstance(func.value, ast.Attribute):
            for file in cls.file.sites.mentioning([f"def {func.attr}("]):
                yield from (each.text for each in file.functions if each.name == func.attr)


def _may_be_one(loader: Loader) -> bool:
    """Whether the number of workers is set to 1 or none somewhere: `if num_workers > 1: num_workers = 1`."""
    given = loader.call.argument("num_workers", 5)
    bindings = loader.call.file.bindings(given.id, loader.call.context) if isinstance(given, ast.Name) else ()
    values = [given, *(binding.value for binding in bindings)]
    return any(isinstance(value, ast.Constant) and value.value in (0, 1) for value in values)
