"""temperature-multiplied: similarities are multiplied by a temperature below 1, which they are to be divided by."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites.layers.similarities import is_temperature, similarities
from mlcheck.lint.sites.options import by_default
from mlcheck.lint.sites.origins import Origin, callers, origins

LOOKS_AT = "temperature"
WORDS = ("temp", "tau", "TEMP", "TAU")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    for found in facts.sites.once(similarities):
        for factor in filter(lambda each: is_temperature(each.node), found.factors):
            facts.sites.seen[LOOKS_AT] += 1
            values = [_value(each) for each in origins(factor.file, factor.node, factor.context)]
            if values and all(isinstance(value, float) and 0 < value < 1 for value in values):
                yield Finding(
                    f"The similarities are multiplied by a temperature of {values[0]}, and are to be divided by it: "
                    "all become nearly alike",
                    factor.file.place(factor.node, factor.context).location,
                    help=f"divide by `{ast.unparse(factor.node)}`",
                    related=(found.taken.place.location,),
                )


def _value(made: Origin) -> object:
    """What it is where no option is given, and no argument to a function that nobody is seen to call."""
    function = made.file.function_around(made.context)
    node = made.node
    if function is not None and isinstance(node, ast.Name) and not any(callers(made.file.sites, function)):
        node = function.parameters.get(node.id) or node
    return by_default(made.file, node, made.context)
