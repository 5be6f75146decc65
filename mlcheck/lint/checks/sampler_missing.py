"""sampler-missing: every process of a distributed run trains on all of the data."""

import ast
import re
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import last_name, walk
from mlcheck.lint.sites import OPEN, Binding, Call, Context, File, Sites
from mlcheck.lint.sites.data.loaders import Loader, loaders
from mlcheck.lint.sites.frameworks import owned
from mlcheck.lint.sites.origins import callers, origins
from mlcheck.lint.sites.ranks import DDP, is_for_evaluation, is_guarded, mentions_rank, names_of_choice, starts

LOOKS_AT = "data loader"
WORDS = ("DataLoader",)
_TELLS = ("print", "str", "repr", "len", "format", "info", "debug")
_HANDS = 3
_WHOLE = ("torch.utils.data.RandomSampler", "torch.utils.data.SequentialSampler")
_SHARED = pattern(
    r"^(?!\s*(?:from|import)\b).*(?:shard|num_replicas|split_dataset|rank::|[\w)\]]\[(?:\w+_)?rank\b|world_size\]"
    r"|% [\w.]*world_size\b|distributed_sampler|DistributedBatch|(?<!\bRandom)(?<!\bSequential)Sampler\b)|torchdata",
    re.MULTILINE,
)
"""Something that may share out the data; a sampler that is imported and not used does not."""


def check(facts: Facts) -> Iterator[Finding]:
    yield from _forgotten(facts.sites)
    yield from _of_one_rank(facts.sites)
    wraps = [start for start in facts.sites.once(starts) if start.file.called(start.node, start.context) == DDP]
    if not wraps or facts.sites.once(owned) or _is_shared(facts.sites):
        return
    for loader in facts.sites.once(loaders):
        near = [wrap for wrap in wraps if _is_near(wrap, loader.call.file)]
        if near and loader.trained and loader.kind == "map" and _goes_its_way(loader) and not _by_rank(loader):
            yield Finding(
                "Every process loads all the training data: the ranks repeat the same work instead of sharing it",
                loader.call.place.location,
                help="pass `sampler=DistributedSampler(data)`, and call its `set_epoch` in each epoch",
                related=(near[0].place.location,),
            )


def _is_near(wrap: Call, file: File) -> bool:
    """Whether the file wraps the model, has it wrapped by a function, or is imported by the file that wraps it."""
    if wrap.file is file or file.path in wrap.file.imports:
        return True
    return wrap.function is not None and any(call.file is file for call in callers(file.sites, wrap.function))


def _is_shared(sites: Sites) -> bool:
    """Whether anything shares out the data; samplers that are certainly of held-out data are left out of account."""
    held_out = {
        (call.file.path, call.node.lineno)
        for call in sites.calls("torch.utils.data.DistributedSampler")
        if is_for_evaluation(call)
    }
    return any(
        (file.path, line) not in held_out and not any(line in lines for lines in _idle_lines(sites, file))
        for file in sites.files.values()
        for found in _SHARED.finditer(file.text)
        for line in [file.text.count("\n", 0, found.start()) + 1]
    )


def _idle_lines(sites: Sites, file: File) -> Iterator[range]:
    """The lines of functions at the top of a file whose names nothing reads."""
    for function in file.functions:
        node = function.node
        if node in file.module.source.tree.body and not node.decorator_list:
            if not any(other.uses[function.name] > 0 for other in sites.files.values()):
                yield range(node.lineno, (node.end_lineno or node.lineno) + 1)


def _goes_its_way(loader: Loader) -> bool:
    """Whether no sampler is given, or one that goes over all of the data in each process."""
    given = loader.call.argument("sampler", 3)
    if not loader.owns_order or given is None or given is OPEN:
        return not loader.owns_order
    found = origins(loader.call.file, given, loader.call.context)
    alone = [each for each in found if isinstance(each.node, ast.Constant) and each.node.value is None]
    whole = [each for each in found if each.name in _WHOLE]
    return bool(whole) and len(alone) + len(whole) == len(found)


def _by_rank(loader: Loader) -> bool:
    """Whether the data, its indices or the number of samples depend on the rank."""
    if mentions_rank(loader.call.node):
        return True
    todo: list[tuple[ast.AST, File, Context]] = [(data.node, data.file, data.context) for data in loader.data]
    for _ in range(_HANDS):
        if any(mentions_rank(node) for node, _, _ in todo):
            return True
        named = {name for node, file, where in todo for name in _named(file, node, where)}
        todo = [(binding.value, file, binding.context) for file, binding in named if binding.value is not None]
    return False


def _named(file: File, node: ast.AST, context: Context) -> Iterator[tuple[File, Binding]]:
    """What the variables were assigned that an expression is computed from."""
    for name in {part.id for part in walk(node) if isinstance(part, ast.Name)}:
        for binding in file.bindings(name, context):
            if binding.kind in ("value", "item") and binding.value is not None:
                yield file, binding


def _of_one_rank(sites: Sites) -> Iterator[Finding]:
    """`DistributedSampler(data, world_size, rank=0)`: all processes take the share of the first."""
    for sampler in sites.calls("torch.utils.data.DistributedSampler"):
        rank, count = sampler.constant("rank", 2), sampler.constant("num_replicas", 1)
        alone = isinstance(count, int) or sampler.file.is_test
        if isinstance(rank, int) and not alone and sites.once(starts) and not is_guarded(sampler.file, sampler.context):
            yield Finding(
                f"Every process takes the share of rank {rank}: the ranks do the same work instead of sharing it",
                sampler.place.location,
                help="pass `rank=dist.get_rank()`, or leave it out",
            )


def _asks_for_none(node: ast.expr) -> bool:
    """`shuffle=sampler is None`: that uses no sampler."""
    return isinstance(node, ast.Compare) and ast.unparse(node).endswith((" is None", " is not None"))


def _forgotten(sites: Sites) -> Iterator[Finding]:
    """A sampler that is made for some data and given to nobody, beside a loader of the same data without one."""
    made = list(sites.calls("torch.utils.data.DistributedSampler"))
    for sampler in made:
        names, data, function = names_of_choice(sampler), sampler.argument("dataset", 0), sampler.function
        if len(names) != 1 or not isinstance(data, ast.Name | ast.Attribute) or function is None:
            continue
        if is_for_evaluation(sampler):  # a score over all of it, on every rank, is slow and right
            continue
        calls = [node for node in function.nodes if isinstance(node, ast.Call) and last_name(node.func) not in _TELLS]
        given = [part for call in calls for part in (*call.args, *(word.value for word in call.keywords))]
        if any(names[0] in ast.unparse(part) for part in given if not _asks_for_none(part)):
            continue
        for loader in sites.once(loaders):
            own = loader.dataset
            if loader.call.function is function and own is not None and ast.unparse(own) == ast.unparse(data):
                if (
                    not loader.owns_order
                    and not loader.call.context.excludes(sampler.context)
                    and all(loader.call.names())
                ):
                    yield Finding(
                        f"`{names[0]}` is made for this data and not used: every process loads all of it",
                        loader.call.place.location,
                        help=f"pass `sampler={names[0]}`, and no `shuffle`",
                        related=(sampler.place.location,),
                    )
