"""squeeze-no-dim: the batch goes too where it holds one sample."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts, Forward
from mlcheck.lint.sites.data.loaders import loaders
from mlcheck.lint.values import Symbol, Tensor

LOOKS_AT = "squeezed prediction"
WORDS = ("squeeze",)


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = sum("squeeze" in ast.unparse(loss.place.node) for loss in facts.losses)
    whole = _whole_batches(facts)
    for loss in facts.losses:
        node = loss.place.node
        if not isinstance(node, ast.Call) or not isinstance(loss.input, Tensor | Symbol) or not loss.input.traces:
            continue
        if whole and all(isinstance(trace, Forward) and trace.trained for trace in loss.input.traces):
            continue
        for given in node.args[:1]:
            if isinstance(given, ast.Call) and isinstance(given.func, ast.Attribute) and given.func.attr == "squeeze":
                if not given.args and not given.keywords:
                    yield Finding(
                        "`squeeze()` drops every dimension of size 1: for a last batch of one sample, the batch too",
                        loss.place.location,
                        help="name the dimension: `squeeze(-1)`",
                    )


def _whole_batches(facts: Facts) -> bool:
    """Whether all that is trained on comes in batches of one size, above one: the last, smaller ones are left out."""
    trained = [loader.call for loader in facts.sites.once(loaders) if loader.trained]
    return bool(trained) and all(
        call.constant("drop_last", 8, False) is True and call.constant("batch_size", 1, 1) != 1 for call in trained
    )
