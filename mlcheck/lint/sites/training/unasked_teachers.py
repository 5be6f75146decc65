"""Teachers that are made ready for a distillation, and that nothing asks."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Place
from mlcheck.lint.nodes import is_none
from mlcheck.lint.sites.project import Sites

_TEACHER = pattern(r"teacher(?:_(?:model|net|network|encoder))?")
_READIES = r"\.(?:eval|train|load_state_dict|to|cuda|cpu|half|float|requires_grad_|parameters|named_parameters)\("


def unasked_teachers(sites: Sites) -> Iterator[tuple[str, Place]]:
    """`self.teacher = load()`, `self.teacher.eval()`, and `told = self.student(x)`."""
    for cls in sites.classes:
        for name, assigned in cls.attributes.items() if "teacher" in cls.text else ():
            function, first = assigned[0]
            if not _TEACHER.fullmatch(name) or len(assigned) != 1 or first.value is None or is_none(first.value):
                continue
            mentioned = re.compile(rf"\b{name}\b")
            harmless = re.compile(rf"\b{function.receiver}\.{name}(?:{_READIES}| = | *: )")
            texts = [file.text for file in sites.mentioning([name], tests=True)]
            counted = [(len(mentioned.findall(text)), len(harmless.findall(text))) for text in texts]
            if f".{name}.eval(" in cls.text and all(said == readied for said, readied in counted):
                yield f"{function.receiver}.{name}", function.place(first.node)
