"""batch-norm-batch-of-one: batch statistics of a single sample."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites import UNKNOWN, Call
from mlcheck.lint.sites.certain import is_certain
from mlcheck.lint.sites.data.lengths import size_of_last
from mlcheck.lint.sites.data.loaders import loaders
from mlcheck.lint.sites.latest import source

LOOKS_AT = "data loader"
WORDS = ("DataLoader",)
_NORMS = tuple(f"torch.nn.BatchNorm{n}d" for n in (1, 2, 3))
_OTHERWISE = (
    *("SyncBatchNorm", "track_running_stats", "freeze_bn", "frozen_bn", "FrozenBatch"),
    *("BatchNorm1d):", "BatchNorm2d):", "BatchNorm3d):"),
)
_UNMOVED = pattern(r"momentum=0(?:\.0*)?\s*[,)]")


def check(facts: Facts) -> Iterator[Finding]:
    for loader in facts.sites.once(loaders):
        if not loader.trained or loader.split in ("val", "test"):
            continue
        always, last = _size(loader.call) == 1, size_of_last(loader.call) == 1
        if not always and not last:
            continue
        if loader.call.argument("collate_fn", 6) is not None:
            continue
        files = {loader.call.file.path, *loader.call.file.imports}
        norms = [call for call in facts.sites.calls(*_NORMS) if call.file.path in files and is_certain(call)]
        if not always:  # of pictures and sequences, one sample has several values a channel
            norms = [call for call in norms if call.name == _NORMS[0]]
        texts = {call.file.text for call in (loader.call, *norms)}
        if norms and not any(_UNMOVED.search(text) or any(word in text for word in _OTHERWISE) for text in texts):
            yield Finding(
                "Batches of one sample train batch normalisation: its running averages belong to no sample, "
                "and `eval()` uses them"
                if always
                else "The last batch has one sample: it has no variance for batch normalisation, which refuses it",
                loader.call.place.location,
                help="use a larger batch, or `nn.GroupNorm`, which normalises each sample by itself"
                if always
                else "pass `drop_last=True`",
                related=(norms[0].place.location,),
            )


def _size(loader: Call) -> object:
    """The number of samples in a batch, of PyTorch's own sampler of batches too."""
    sampler = loader.argument("batch_sampler", 4)
    if sampler is None:
        return loader.constant("batch_size", 1, 1)
    made, context = source(loader.file, sampler, loader.context)
    if not isinstance(made, ast.Call) or loader.file.called(made, context) != "torch.utils.data.BatchSampler":
        return UNKNOWN
    return Call(loader.file, made, context).constant("batch_size", 1, UNKNOWN)
