"""softmax-no-dim: a softmax that guesses its dimension."""

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts

LOOKS_AT = "softmax"
WORDS = ("softm", "Softm")
_FUNCTIONS = tuple(f"torch.nn.functional.{name}" for name in ("softmax", "log_softmax", "softmin"))
_LAYERS = tuple(f"torch.nn.{name}" for name in ("Softmax", "LogSoftmax", "Softmin"))


def check(facts: Facts) -> Iterator[Finding]:
    calls = list(facts.sites.calls(*_FUNCTIONS, *_LAYERS))
    facts.sites.seen[LOOKS_AT] = len(calls)
    for call in calls:
        position = 1 if call.name in _FUNCTIONS else 0
        if call.argument("dim", position) is None or call.constant("dim", position) is None:
            yield Finding(
                f"`{call.name.rpartition('.')[2]}` without `dim`: it takes the first dimension of 1-D and 3-D inputs "
                "and the second of all others",
                call.place.location,
                help="say which: `dim=-1` for (..., classes), `dim=1` for (batch, classes, ...)",
            )
