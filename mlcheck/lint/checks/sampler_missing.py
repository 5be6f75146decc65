"""sampler-missing: every process of a distributed run trains on all of the data."""

import ast
import re
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites import Sites
from mlcheck.lint.sites.loaders import Loader, loaders
from mlcheck.lint.sites.ranks import DDP, mentions_rank, owned

LOOKS_AT = "data loader"
_SHARED = re.compile(
    r"^(?!\s*(?:from|import)\b).*(?:shard|num_replicas|split_dataset|rank::|[\w)\]]\[(?:\w+_)?rank\b|world_size\]"
    r"|distributed_sampler|DistributedBatch|Sampler\b)|torchdata",
    re.MULTILINE,
)
"""Something that may share out the data; a sampler that is imported and not used does not."""


def check(facts: Facts) -> Iterator[Finding]:
    wraps = list(facts.sites.calls(DDP))
    if not wraps or facts.sites.once(owned) or _is_shared(facts.sites):
        return
    for loader in facts.sites.once(loaders):
        near = [wrap for wrap in wraps if wrap.file is loader.call.file or loader.call.file.path in wrap.file.imports]
        if near and loader.trained and loader.kind == "map" and not loader.owns_order and not _by_rank(loader):
            yield Finding(
                "Every process loads all of the training data: the ranks do the same work instead of sharing it",
                loader.call.place.location,
                help="pass `sampler=DistributedSampler(data)`, and call its `set_epoch` in each epoch",
                related=(near[0].place.location,),
            )


def _is_shared(sites: Sites) -> bool:
    return any(_SHARED.search(file.text) for file in sites.files.values())


def _by_rank(loader: Loader) -> bool:
    """Whether the data, its indices or the number of samples depend on the rank."""
    nodes: list[ast.AST] = [loader.call.node, *(data.node for data in loader.data)]
    return any(mentions_rank(node) for node in nodes)
