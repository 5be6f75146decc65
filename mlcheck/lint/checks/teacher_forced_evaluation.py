"""teacher-forced-evaluation: an evaluation lets chance decide where the model reads the right answer."""

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.judging import evaluates
from mlcheck.lint.sites import Function
from mlcheck.lint.sites.evaluation.forced_answers import Forced, forced_answers, shares_of
from mlcheck.lint.values import Object

LOOKS_AT = "model that is fed answers"
WORDS = ("random()", "rand(", "uniform(")


def check(facts: Facts) -> Iterator[Finding]:
    forced: dict[Function, list[Forced]] = {}
    for each in forced_answers(facts.sites):
        forced.setdefault(each.function, []).append(each)
    facts.sites.seen[LOOKS_AT] = len(forced)
    for forward in facts.forwards if forced else ():
        cls = facts.sites.class_of(forward.module.cls) if isinstance(forward.module, Object) else None
        method = cls.find("forward") if cls is not None else None
        call = facts.sites.call_at(forward.place) if method in forced else None
        if method is None or call is None or not evaluates(forward):
            continue
        for each in forced[method]:
            shares = shares_of(call, each)
            if shares and all(isinstance(share, float) and 0 < share < 1 for share in shares):
                yield Finding(
                    f"In {shares[0]:.0%} of the steps, drawn at random, the model is fed the right answer, "
                    f"`{each.answers}`, instead of its own: it cannot do that where there is none",
                    call.place.location,
                    help=f"`{each.share}` is to be 0 where the model is evaluated",
                    related=(each.function.place(each.drawn).location,),
                )
