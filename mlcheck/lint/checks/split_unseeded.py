"""split-unseeded: each run draws another split, so a resumed run trains on what it validated on."""

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites import Call, Sites

LOOKS_AT = "random split"
WORDS = ("random_split", "train_test_split")
_SKLEARN = "sklearn.model_selection.train_test_split"
_TORCH = pattern(r"manual_seed\(|seed_everything|set_seed|fix_seed|seed_all|set_random_seed|setup_seed|init_seed")
_NUMPY = pattern(r"np\.random\.seed\(|numpy\.random\.seed\(|seed_everything|set_seed|fix_seed|seed_all|setup_seed")


def check(facts: Facts) -> Iterator[Finding]:
    splits = list(facts.sites.calls("torch.utils.data.random_split", _SKLEARN))
    facts.sites.seen[LOOKS_AT] = len(splits)
    for call in splits:
        name, position = ("random_state", None) if call.name == _SKLEARN else ("generator", 2)
        if call.constant("shuffle", None, True) is False or call.constant(name, position) is not None:
            continue
        if not _is_seeded(facts.sites, call):
            yield Finding(
                "Each run draws another split: a run that is resumed has seen these held-out samples",
                call.place.location,
                help="pass `generator=torch.Generator().manual_seed(seed)`"
                if position is not None
                else "pass `random_state=seed`",
            )


def _is_seeded(sites: Sites, call: Call) -> bool:
    seeds = _NUMPY if call.name == _SKLEARN else _TORCH
    return any(seeds.search(file.text) for file in sites.files.values())
