"""Whether the generators that draw splits and orders are seeded anywhere in a program."""

import re

from mlcheck.core.patterns import pattern
from mlcheck.lint.sites.project import Sites

TORCH = pattern(r"manual_seed\(")
NUMPY = pattern(r"\b(?:np|numpy)\.random\.seed\(")
PYTHON = pattern(r"\brandom\.seed\(")
HELPERS = pattern(r"\b(seed_everything|set_seed|fix_seed|seed_all|set_random_seed|setup_seed|init_seed)\b")


def seeds(sites: Sites, wanted: re.Pattern[str], helpers: bool = True) -> bool:
    """Whether a generator is seeded, or a helper that the program has from elsewhere may do so."""
    texts = [file.text for file in sites.files.values()]
    own = {defined.node.name for file in sites.files.values() for defined in file.walk.defined}
    return any(wanted.search(text) or (helpers and set(HELPERS.findall(text)) - own) for text in texts)
