"""benchmark-deterministic-clash: cuDNN is told to be repeatable and to try what is fastest."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites import AttributeSet, File

LOOKS_AT = "cuDNN flag"
WORDS = ("cudnn.benchmark", "benchmark =")
_FLAGS = ("torch.backends.cudnn.benchmark", "torch.backends.cudnn.deterministic")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    for file in facts.sites.mentioning(["cudnn.benchmark", "benchmark ="]):
        facts.sites.seen[LOOKS_AT] += sum(len(_set(file, flag)) for flag in _FLAGS)
        benchmark, deterministic = (_switched_on(file, flag) for flag in _FLAGS)
        for one in benchmark:
            clash = next((other for other in deterministic if other.context is one.context), None)
            if clash is not None and not _is_switched_off(file, one):
                yield Finding(
                    "cuDNN picks its algorithm by timing, so another run may pick another: it is not repeatable",
                    file.place(one.node, one.context).location,
                    help="with `deterministic = True` leave `benchmark` at False, or drop both where speed matters",
                    related=(file.place(clash.node, clash.context).location,),
                )


def _switched_on(file: File, flag: str) -> list[AttributeSet]:
    return [found for found in _set(file, flag) if file.constant(found.value, found.context) is True]


def _set(file: File, flag: str) -> list[AttributeSet]:
    return [
        found
        for found in file.walk.attributes
        if found.target.attr == flag.rpartition(".")[2] and file.resolve(found.target, found.context) == flag
    ]


def _is_switched_off(file: File, one: AttributeSet) -> bool:
    """Whether the same block sets it again, to something else."""
    later = [found for found in _set(file, _FLAGS[0]) if found.context is one.context]
    return any(isinstance(found.node, ast.stmt) and found.node.lineno > one.target.lineno for found in later)
