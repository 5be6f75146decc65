"""mean-for-spread: the number meant for the spread of initial weights is given for their mean."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import last_name

LOOKS_AT = "weight initialisation"
WORDS = ("normal_",)
_DRAWN = (
    *("torch.nn.init.normal_", "torch.nn.init.trunc_normal_", "timm.layers.trunc_normal_"),
    *("timm.models.layers.trunc_normal_", "timm.layers.weight_init.trunc_normal_"),
)
_SPREADS = pattern(r"(?:^|_)(?:std(?:dev|v)?|sd|sigma|scale|spread)(?:_|$)|init\w*_(?:range|scale)|^range_?init")
_MOST = 0.2
"""Above it stand means that somebody may want: 1 for the scale of a norm."""


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    for call in facts.sites.calls(*_DRAWN):
        facts.sites.seen[LOOKS_AT] += 1
        mean = call.constant("mean", 1)
        spread = call.argument("std", 2)
        if spread is not None or len(call.node.args) != 2:
            continue
        given = call.node.args[1]
        if (isinstance(mean, float) and 0 < mean <= _MOST) or _SPREADS.search(last_name(given).lower()):
            name, told = call.name.rpartition(".")[2], f"{mean:g}" if isinstance(mean, float) else ast.unparse(given)
            yield Finding(
                f"The second argument of `{name}` is the mean: the weights are drawn around {told}, "
                "and their standard deviation is 1",
                call.place.location,
                help=f"`std={told}`",
            )
