"""unused-layer: a layer that is made and never called."""

import re
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites import Class
from mlcheck.lint.sites.modules import MODULE, holds_parameters, module_classes, text_of
from mlcheck.lint.words import occurrences

LOOKS_AT = "module class"
_FEW = 4
_ANY = ("getattr(", "children(", "modules(", "_modules", "__dict__", "eval(", "vars(", "locals(")


def check(facts: Facts) -> Iterator[Finding]:
    classes = facts.sites.once(module_classes)
    for cls in classes:
        if cls.libraries != {MODULE} or cls.find("forward") is None:
            continue
        text = text_of(cls)
        layers = [
            (name, *assigned[0])
            for name, assigned in cls.attributes.items()
            if len(assigned) == 1 and _is_once(name, text) and assigned[0][1].value is not None
        ]
        if not layers or any(word in text for word in _ANY):
            continue
        for name, function, assigned in layers:
            assert assigned.value is not None
            if not holds_parameters(cls.file, assigned.value, assigned.context) or _used_elsewhere(facts, cls, name):
                continue
            yield Finding(
                f"`self.{name}` is made here and never used: its weights get no gradient",
                function.place(assigned.node).location,
                help="call it in `forward`, or remove it; DistributedDataParallel stops at such parameters",
            )


def _is_once(name: str, text: str) -> bool:
    """Whether the word stands once in the text. Counting letters first is much faster than matching words."""
    count = text.count(name)
    return count == 1 or (count < _FEW and occurrences(name, text) == 1)


def _used_elsewhere(facts: Facts, cls: Class, name: str) -> bool:
    """Whether an heir names it, or anything reads it off another object than `self`, or has it in a string."""
    other = re.compile(rf"(?<!\bself)\.{name}\b|[\"'](?:[\w.]+\.)?{name}(?:\.[\w.]+)?[\"']")
    if any(other.search(file.text) for file in facts.sites.mentioning([name], tests=True)):
        return True
    heirs = (heir for heir in facts.sites.once(module_classes) if cls in heir.line and heir is not cls)
    return any(occurrences(name, heir.file.module.text_of(heir.node), most=1) for heir in heirs)
