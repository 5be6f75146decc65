"""no-seed: a run is meant to be repeatable, and a generator that it draws from is not seeded."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts, Place
from mlcheck.lint.sites import Sites
from mlcheck.lint.sites.data.forgotten_generators import forgotten

LOOKS_AT = "reproducibility flag"
WORDS = ("deterministic", "seed")
_SEEDS = pattern(
    r"manual_seed|seed_everything|set_seed|seed_all|random_seed|\w*seed\w*\(|initial_seed|fork_rng"
    r"|set_determinism|seed=\w+\.seed"
)
_TRAINS = (".backward(", "Trainer(", ".fit(")


def check(facts: Facts) -> Iterator[Finding]:
    for left in forgotten(facts.sites):
        yield Finding(
            f"`{left.function.name}` leaves out the generator from which `{ast.unparse(left.draw.node.func)}` draws, "
            "and nothing else seeds it",
            left.function.place().location,
            help="seed it there too: `random.seed(seed)`, `numpy.random.seed(seed)`",
            related=(left.draw.place.location,),
        )
    wishes = list(_wishes(facts.sites))
    facts.sites.seen[LOOKS_AT] = len(wishes)
    if not wishes or not any(True for _ in facts.sites.mentioning(_TRAINS)):
        return
    if any(_SEEDS.search(file.text) for file in facts.sites.files.values()):
        return
    for what, place in wishes:
        yield Finding(
            f"{what}, and nothing in the project seeds a generator: no run can be reproduced",
            place.location,
            help="`torch.manual_seed(seed)`, `random.seed(seed)` and `numpy.random.seed(seed)` before anything is made",
        )


def _wishes(sites: Sites) -> Iterator[tuple[str, Place]]:
    for call in sites.calls("torch.use_deterministic_algorithms"):
        if call.constant("mode", 0) is True:
            yield "Deterministic algorithms are asked for", call.place
    for file in sites.mentioning(["deterministic", "seed"]):
        for assigned in file.walk.attributes:
            if ast.unparse(assigned.target).endswith("cudnn.deterministic") and assigned.value is not None:
                if isinstance(assigned.value, ast.Constant) and assigned.value.value is True:
                    yield "cuDNN is made deterministic", file.place(assigned.node, assigned.context)
        for call in file.calls("add_argument"):
            names = [arg.value for arg in call.node.args if isinstance(arg, ast.Constant)]
            if "--seed" in names:
                yield "A seed can be given", call.place
