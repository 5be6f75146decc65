"""score-taken-for-class: the highest score of a sample is compared with its label, and not the class that has it."""

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts, Forward
from mlcheck.lint.sites.evaluation.highest_scores import highest_for_class
from mlcheck.lint.values import Object

LOOKS_AT = "highest score"
WORDS = ("max(", "topk(")
_DECISION = pattern(r"(?<!-)[<>]=?|argmax|round|sign\(|where\(|one_hot|\bint\(|\.long\(|\.bool\(")


def check(facts: Facts) -> Iterator[Finding]:
    calls = {forward.place.node for forward in facts.forwards}
    facts.sites.seen[LOOKS_AT] = sum(len(file.calls("max", "topk")) for file in facts.sites.mentioning(WORDS))
    for found in highest_for_class(facts.sites, calls) if calls else ():
        if any(_decides(facts, forward) for forward in facts.forwards if forward.place.node is found.model):
            continue
        yield Finding(
            "This takes the highest scores themselves, and they are compared with labels: "
            "hardly any is the number of a class",
            found.picked.place.location,
            help="take the second result, the index: `_, predicted = scores.max(dim=1)`, or `argmax(dim=1)`",
            related=() if found.picked.place.spot == found.counted.place.spot else (found.counted.place.location,),
        )


def _decides(facts: Facts, forward: Forward) -> bool:
    """Whether the model may return classes itself, 0 and 1 for each part of a sample, of which one may suffice."""
    cls = facts.sites.class_of(forward.module.cls) if isinstance(forward.module, Object) else None
    return cls is not None and any(_DECISION.search(each.text) for each in cls.line)
