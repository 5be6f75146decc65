"""batch-norm-batch-of-one: batch statistics of a single sample."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts, Forward
from mlcheck.lint.nodes import stores
from mlcheck.lint.sites import UNKNOWN, Call
from mlcheck.lint.sites.certain import is_certain
from mlcheck.lint.sites.data.lengths import size_of_last
from mlcheck.lint.sites.data.loaders import loaders
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.options import by_default

LOOKS_AT = "data loader"
WORDS = ("DataLoader", "BatchNorm")
_NORMS = tuple(f"torch.nn.BatchNorm{n}d" for n in (1, 2, 3))
_OTHERWISE = (
    *("SyncBatchNorm", "track_running_stats", "freeze_bn", "frozen_bn", "FrozenBatch"),
    *("BatchNorm1d):", "BatchNorm2d):", "BatchNorm3d):"),
)
_UNPACKS = pattern(r"(?<!un)squeeze\((?:dim=)?0\)|\b(?:x|bag)\[0\]")
_UNMOVED = pattern(r"momentum=0(?:\.0*)?\s*[,)]")


def check(facts: Facts) -> Iterator[Finding]:
    yield from _one_after_another(facts)
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


def _one_after_another(facts: Facts) -> Iterator[Finding]:
    """`for image, label in zip(images, labels): net(image.unsqueeze(0))`, in train mode and for a gradient."""
    for forward in facts.forwards:
        file = facts.sites.at(forward.place.path)
        if file is None or not forward.trained or {mode.kind for mode in forward.modes} != {"train"}:
            continue
        if forward.moded != "yes" or not _is_one_of_loop(forward) or any(word in file.text for word in _OTHERWISE):
            continue
        files = {file.path, *file.imports}
        norms = [call for call in facts.sites.calls(*_NORMS) if call.file.path in files and is_certain(call)]
        unpacking = any(_UNPACKS.search(call.file.text) for call in norms)
        if norms and not unpacking and not any(_UNMOVED.search(call.file.text) for call in norms):
            yield Finding(
                "One sample at a time trains batch normalisation: its running averages belong to no sample, and "
                "`eval()` uses them",
                forward.place.location,
                help="give the model a whole batch, or use `nn.GroupNorm`, which normalises each sample by itself",
                related=(norms[0].place.location,),
            )


def _is_one_of_loop(forward: Forward) -> bool:
    """Whether all that is given is `x.unsqueeze(0)` or `x[None]`, of what a loop takes out of a batch.

    Or `xs[i : i + 1]`, where the loop counts `i`.
    """
    call = forward.place.node
    match call.args if isinstance(call, ast.Call) and not call.keywords else []:
        case [ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="unsqueeze"), args=[ast.Constant(value=0)])]:
            pass
        case [ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=None))]:
            pass
        case [ast.Subscript(slice=ast.Slice(lower=ast.Name(id=name), upper=end, step=None))]:
            if end is None or ast.unparse(end) not in (f"{name} + 1", f"1 + {name}"):
                return False
        case _:
            return False
    taken = [loop.node for loop in forward.loops[-1:] if isinstance(loop.node, ast.For)]
    return len(forward.loops) > 1 and any(stores(loop.target, name) for loop in taken)


def _size(loader: Call) -> object:
    """The number of samples in a batch, of PyTorch's own sampler of batches too."""
    sampler = loader.argument("batch_sampler", 4)
    if sampler is None:
        given = loader.argument("batch_size", 1)
        return by_default(loader.file, given, loader.context) if given is not None else 1
    made, context = source(loader.file, sampler, loader.context)
    if not isinstance(made, ast.Call) or loader.file.called(made, context) != "torch.utils.data.BatchSampler":
        return UNKNOWN
    return Call(loader.file, made, context).constant("batch_size", 1, UNKNOWN)
