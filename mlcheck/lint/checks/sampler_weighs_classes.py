"""sampler-weighs-classes: a weighted sampler gets a weight for each class, where it wants one for each sample."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import last_name
from mlcheck.lint.sites import Call
from mlcheck.lint.sites.data.class_counts import counted
from mlcheck.lint.sites.latest import source

LOOKS_AT = "weighted sampler"
WORDS = ("WeightedRandomSampler",)
_SAMPLER = "torch.utils.data.WeightedRandomSampler"


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    for call in facts.sites.calls(_SAMPLER):
        facts.sites.seen[LOOKS_AT] += 1
        weights = call.argument("weights", 0)
        made = counted(call.file, weights, call.context) if weights is not None else None
        if made is not None and not call.file.is_test and _draws_samples(call):
            yield Finding(
                "These are the weights of the classes, and the sampler takes one for each sample: "
                "it draws the first few samples of the data set, over and over",
                call.place.location,
                help="look up the weight of each sample's class: `class_weights[targets]`",
                related=(made.file.place(made.node, made.context).location,),
            )


def _draws_samples(call: Call) -> bool:
    """Whether it draws from a data set: as many as there are, or for a loader. Classes may be drawn on purpose."""
    wanted = call.argument("num_samples", 1)
    if wanted is not None and "len(" in ast.unparse(source(call.file, wanted, call.context)[0]):
        return True
    names = call.file.names_given(call.node)
    return any(
        keyword.arg == "sampler" and (keyword.value is call.node or last_name(keyword.value) in names)
        for loader in call.file.calls("DataLoader")
        for keyword in loader.node.keywords
    )
