"""teacher-not-detached: a graph is kept for a teacher that nobody trains."""

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts, Forward
from mlcheck.lint.values import Value, owner_key, traces_of

LOOKS_AT = "student loss"
_TEACHERS = ("teacher", "ema", "momentum")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    optimizers = list(facts.training.optimizers.values())
    trained = {owner for optimizer in optimizers for owner in optimizer.owners}
    if not optimizers or any(not optimizer.owners for optimizer in optimizers):
        return
    for loss in facts.losses:
        student = _forwards(loss.input)
        teacher = _forwards(loss.target) - student
        facts.sites.seen[LOOKS_AT] += bool(student and teacher)
        for forward in sorted(teacher, key=lambda forward: forward.place.spot):
            if student and _is_teacher(forward) and owner_key(forward.module) not in trained:
                if forward.grad.kind == "on" and not forward.frozen:
                    yield Finding(
                        f"`{forward.name}` is in no optimizer, and its graph is kept and walked back in every step",
                        forward.place.location,
                        help=f"call it under `torch.no_grad()`, or `.detach()` what `{forward.name}` returns",
                        related=(loss.place.location,),
                    )


def _forwards(value: Value | None) -> frozenset[Forward]:
    found = traces_of(value) if value is not None else ()
    return frozenset(trace for trace in found if isinstance(trace, Forward))


def _is_teacher(forward: Forward) -> bool:
    words = forward.name.lower().replace(".", "_").split("_")
    return any(word in _TEACHERS for word in words)
