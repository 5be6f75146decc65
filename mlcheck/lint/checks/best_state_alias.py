"""best-state-alias: the best weights are kept as a state dict that changes with the model."""

import ast
import re
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites import Class
from mlcheck.lint.training import read_later

LOOKS_AT = "kept model"
_WHY = "`state_dict()` shares its memory with the model: what is kept here changes with every further step"


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = len(facts.training.snapshots) + sum(1 for _ in facts.sites.calls("copy.deepcopy"))
    yield from _loaded_again(facts)
    for snapshot in facts.training.snapshots:
        if snapshot.kind == "state" and snapshot.trained_on and read_later(facts, snapshot):
            yield Finding(
                _WHY,
                snapshot.place.location,
                help="keep a copy: `copy.deepcopy(model.state_dict())`, or save it to a file at once",
            )


def _loaded_again(facts: Facts) -> Iterator[Finding]:
    """`self.best = self.model.state_dict()`, and later `self.model.load_state_dict(self.best)`: one and the same."""
    texts = [file.text for file in facts.sites.mentioning(["load_state_dict"])]
    for cls in facts.sites.classes if texts else ():
        if ".state_dict()" not in cls.file.text or ".state_dict()" not in cls.file.module.text_of(cls.node):
            continue
        for name, sets in cls.attributes.items():
            values = [assigned.value for _, assigned in sets]
            kept = [value for value in values if not (isinstance(value, ast.Constant) and value.value is None)]
            if len(kept) != 1 or not isinstance(kept[0], ast.Call) or kept[0].args:
                continue
            func = kept[0].func
            if not isinstance(func, ast.Attribute) or func.attr != "state_dict":
                continue
            owner = ast.unparse(func.value)
            loaded = re.compile(rf"(?<![\w.]){re.escape(owner)}\.load_state_dict\(\s*self\.{re.escape(name)}\s*[,)]")
            if owner.startswith("self.") and any(map(loaded.search, texts)) and not _is_made_anew(cls, owner):
                function = next(function for function, assigned in sets if assigned.value is kept[0])
                yield Finding(
                    _WHY,
                    function.place(kept[0]).location,
                    help="keep a copy: `copy.deepcopy(model.state_dict())`, or save it to a file at once",
                )


def _is_made_anew(cls: Class, owner: str) -> bool:
    """Whether the model is another one by the time the weights are loaded."""
    sets = [assigned.value for _, assigned in cls.attributes.get(owner[len("self.") :], [])]
    return sum(not (isinstance(value, ast.Constant) and value.value is None) for value in sets) > 1
