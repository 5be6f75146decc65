"""unused-layer: a layer that is made and never called."""

import re
from collections import Counter
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites import Class
from mlcheck.lint.sites.modules import MODULE, holds_parameters, module_classes, text_of
from mlcheck.lint.words import occurrences

LOOKS_AT = "module class"
_FEW = 4
_WORD = re.compile(r"\w+")
_ANY = ("getattr(", "children(", "modules(", "_modules", "__dict__", "eval(", "vars(", "locals(")


def check(facts: Facts) -> Iterator[Finding]:
    classes = facts.sites.once(module_classes)
    for cls in classes:
        if cls.libraries != {MODULE} or cls.find("forward") is None:
            continue
        text = text_of(cls)
        words = Counter(_WORD.findall(text))
        layers = [
            (name, *assigned[0])
            for name, assigned in cls.attributes.items()
            if len(assigned) == 1 and words[name] == 1 and text.count(name) < _FEW and assigned[0][1].value is not None
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


def _used_elsewhere(facts: Facts, cls: Class, name: str) -> bool:
    """Whether an heir names it, or anything reads it off another object than `self`, or has it in a string."""
    other = re.compile(rf"(?<!\bself)\.{name}\b|[\"'](?:[\w.]+\.)?{name}(?:\.[\w.]+)?[\"']")
    if any(other.search(file.text) for file in facts.sites.mentioning([name], tests=True)):
        return True
    heirs = (heir for heir in facts.sites.once(module_classes) if cls in heir.line and heir is not cls)
    return any(occurrences(name, heir.file.module.text_of(heir.node), most=1) for heir in heirs)
