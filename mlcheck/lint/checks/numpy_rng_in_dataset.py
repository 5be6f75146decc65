"""numpy-rng-in-dataset: a generator made once and copied into every worker."""

import re
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites import Class
from mlcheck.lint.sites.data.loaders import Loader, loaders
from mlcheck.lint.sites.layers.modules import text_of

LOOKS_AT = "multi-process loader"
WORDS = ("DataLoader",)
_GENERATORS = ("numpy.random.default_rng", "numpy.random.RandomState", "numpy.random.Generator", "random.Random")
_RESEEDS = pattern(r"worker_info|worker_id|initial_seed|set_epoch|reseed")
_DRAWS = (
    "random|uniform|normal|standard_|integers|randint|choice|rand|randn|shuffle|permutation|permuted|gauss|sample|beta"
)


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = sum(loader.workers for loader in facts.sites.once(loaders))
    for loader in facts.sites.once(loaders):
        if not loader.workers or loader.call.argument("worker_init_fn", 9) is not None:
            continue
        for data in loader.data:
            cls = data.file.resolve(getattr(data.node, "func", None), data.context)
            if isinstance(cls, Class):
                yield from _copied(cls, loader)
                yield from _shared(cls, loader)


def _copied(cls: Class, loader: Loader) -> Iterator[Finding]:
    reads = cls.find("__getitem__")
    text = text_of(cls)
    if reads is None or _RESEEDS.search(text):
        return
    for base in cls.line:
        for name, assignments in base.attributes.items():
            if len(assignments) != 1 or assignments[0][0].name != "__init__":
                continue
            function, assigned = assignments[0]
            made = base.file.resolve(getattr(assigned.value, "func", None), assigned.context)
            if not isinstance(made, str) or made not in _GENERATORS:
                continue
            if re.search(rf"\.{name}\.(?:{_DRAWS})\w*\(", reads.text):
                yield Finding(
                    f"`self.{name}` is copied into every worker: all draw the same numbers, epoch after epoch",
                    function.place(assigned.node).location,
                    help="draw with `torch` or `np.random`, which each worker seeds anew, or use `worker_init_fn`",
                    related=(loader.call.place.location,),
                )


def _shared(cls: Class, loader: Loader) -> Iterator[Finding]:
    """`rng = np.random.default_rng(0)` at the top of the file, from which samples are drawn."""
    reads = cls.find("__getitem__")
    if reads is None or _RESEEDS.search(reads.file.text):
        return
    for name, bindings in reads.file.walk.module.scope.bindings.items():
        value = bindings[0].value if len(bindings) == 1 and bindings[0].kind == "value" else None
        made = reads.file.resolve(getattr(value, "func", None), bindings[0].context)
        if made not in _GENERATORS or value is None or name in reads.inner.scope.bindings:
            continue
        if re.search(rf"(?<![\w.]){name}\.(?:{_DRAWS})\w*\(", reads.text):
            yield Finding(
                f"`{name}` is copied into every worker: all draw the same numbers, epoch after epoch",
                reads.file.place(value, bindings[0].context).location,
                help="draw with `torch` or `np.random`, which each worker seeds anew, or use `worker_init_fn`",
                related=(loader.call.place.location,),
            )
