"""Whether the generators that draw splits and orders are seeded anywhere in a program."""

import re

from mlcheck.core.patterns import pattern
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.words import lines_with

TORCH = pattern(r"manual_seed\(")
NUMPY = pattern(r"\b(?:np|numpy)\.random\.seed\(")
PYTHON = pattern(r"\brandom\.seed\(")
HELPERS = pattern(r"\b(seed_everything|set_seed|fix_seed|seed_all|set_random_seed|setup_seed|init_seed)\b")


def seeds(sites: Sites, wanted: re.Pattern[str], helpers: bool = True) -> bool:
    """Whether a generator is seeded, or a helper that the program has from elsewhere may do so."""
    files = list(sites.mentioning(["seed"], tests=True))
    if any(wanted.search(file.text) for file in files):
        return True
    return helpers and sites.once(_borrows_helper)


def _borrows_helper(sites: Sites) -> bool:
    files = list(sites.mentioning(["seed"], tests=True))
    own = {defined.node.name for file in files for defined in file.walk.defined}
    named = {name for file in files for line in lines_with("seed", file.text) for name in HELPERS.findall(line)}
    return not named <= own
