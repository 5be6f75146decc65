"""half-without-scaling: a model is converted to half precision and trained in it."""

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts

LOOKS_AT = "half-precision model"


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = len({forward.place.spot for forward in facts.forwards if forward.half})
    optimizers = facts.training.optimizers
    for backward in facts.backwards:
        held = {owner for key in backward.reached if key in optimizers for owner in optimizers[key].owners}
        for forward in backward.forwards:
            if forward.half is None or forward.frozen or not held:
                continue
            yield Finding(
                f"`{forward.name}` is trained with its weights in half precision: small gradients and updates are lost",
                forward.half.location,
                help="keep the weights in float32 and run the forward pass under `torch.autocast`",
                related=(backward.place.location,),
            )
