"""Functions that seed, and forget a generator from which the same program draws."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.core.patterns import pattern
from mlcheck.lint.sites.model import Call, Function
from mlcheck.lint.sites.origins import callers
from mlcheck.lint.sites.project import Sites

_NAMED = pattern(r"seed|determin|reproduc", re.IGNORECASE)
_DRAWS = {
    "numpy": tuple(
        f"numpy.random.{name}"
        for name in (
            *("rand", "randn", "random", "normal", "uniform", "randint", "choice", "permutation", "shuffle"),
            *("beta", "binomial", "random_sample", "standard_normal", "multivariate_normal", "poisson"),
        )
    ),
    "random": tuple(
        f"random.{name}"
        for name in ("random", "uniform", "randint", "choice", "choices", "sample", "shuffle", "gauss", "randrange")
    ),
}
_SEEDED = {
    "numpy": pattern(r"\b(?:np|numpy|onp)\.random\.(?:seed|set_state|mtrand)|from numpy\.random import.*\bseed"),
    "random": pattern(r"(?<![.\w])random\.(?:seed|setstate)|from random import.*\bseed|\brnd\.seed"),
}
_ALL = pattern(r"seed_everything|set_determinism|fix_all_seeds|import[^\n]*\bset_seed|\.set_seed\(")
_WORKERS = ("num_workers", "worker_init_fn")


class Forgotten(NamedTuple):
    """The function that seeds, and what draws from a generator that it leaves as it was."""

    function: Function
    draw: Call


def forgotten(sites: Sites) -> Iterator[Forgotten]:
    """A function named for seeding seeds torch, and in its file, or where it is called, NumPy or `random` draws too."""
    for seeding in sites.calls("torch.manual_seed", "torch.random.manual_seed"):
        function = seeding.function
        if function is None or function.cls is not None or not _NAMED.search(function.name) or function.file.is_test:
            continue
        if any(_ALL.search(file.text) for file in sites.files.values()):
            return
        calls = [call for call in callers(sites, function) if not call.loops]
        files = {call.file for call in calls} | ({function.file} if calls else set())
        for library, names in _DRAWS.items():
            if not any(_SEEDED[library].search(file.text) for file in sites.files.values()):
                draw = next((d for d in sites.calls(*names) if d.file in files and _is_of_main_process(sites, d)), None)
                if draw is not None:
                    yield Forgotten(function, draw)


def _is_of_main_process(sites: Sites, draw: Call) -> bool:
    """Whether no worker of a loader can be what draws: torch seeds the generators of its workers itself."""
    if "__getitem__" not in draw.file.text and "transform" not in draw.file.text:
        return True
    return not any(True for _ in sites.mentioning(_WORKERS, tests=True))
