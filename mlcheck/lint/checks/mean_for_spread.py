"""mean-for-spread: the number meant for the spread of initial weights is given for their mean."""

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts

LOOKS_AT = "weight initialisation"
WORDS = ("normal_",)
_DRAWN = (
    *("torch.nn.init.normal_", "torch.nn.init.trunc_normal_", "timm.layers.trunc_normal_"),
    *("timm.models.layers.trunc_normal_", "timm.layers.weight_init.trunc_normal_"),
)
_MOST = 0.2
"""Above it stand means that somebody may want: 1 for the scale of a norm."""


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    for call in facts.sites.calls(*_DRAWN):
        facts.sites.seen[LOOKS_AT] += 1
        mean = call.constant("mean", 1)
        spread = call.argument("std", 2)
        if spread is None and len(call.node.args) == 2 and isinstance(mean, float) and 0 < mean <= _MOST:
            name = call.name.rpartition(".")[2]
            yield Finding(
                f"The second argument of `{name}` is the mean: the weights are drawn around {mean:g}, "
                "and their standard deviation is 1",
                call.place.location,
                help=f"`std={mean:g}`",
            )
