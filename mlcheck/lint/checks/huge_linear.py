"""huge-linear: one linear layer holds more weights than the rest of most networks."""

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts

LOOKS_AT = "linear layer"
WORDS = ("Linear",)
_MANY = 100_000_000


def check(facts: Facts) -> Iterator[Finding]:
    layers = list(facts.sites.calls("torch.nn.Linear"))
    facts.sites.seen[LOOKS_AT] = len(layers)
    for call in layers:
        inputs, outputs = call.constant("in_features", 0), call.constant("out_features", 1)
        if isinstance(inputs, int) and isinstance(outputs, int) and inputs * outputs >= _MANY:
            yield Finding(
                f"This layer has {inputs * outputs / 1e6:,.0f} million weights: "
                f"{inputs * outputs * 16 / 2**30:.1f} GiB with their gradients and Adam's averages, in float32",
                call.place.location,
                help="pool before it is flattened, or factor it through a narrow layer",
            )
