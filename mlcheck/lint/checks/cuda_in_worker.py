"""cuda-in-worker: samples are put on the GPU inside the worker processes."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import is_name
from mlcheck.lint.sites import Class, Context, File, Function
from mlcheck.lint.sites.data.loaders import Loader, loaders
from mlcheck.lint.sites.gpus import is_gpu

LOOKS_AT = "data loader"
WORDS = ("DataLoader",)
_STARTED_ANEW = ("set_start_method", "set_forkserver_preload")  # processes that are not forked may use the GPU


def check(facts: Facts) -> Iterator[Finding]:
    if any(True for _ in facts.sites.mentioning(_STARTED_ANEW)):
        return
    for loader in facts.sites.once(loaders):
        if not loader.workers or loader.call.argument("multiprocessing_context", 10) is not None:
            continue
        for function in _run_by_workers(loader):
            for node in function.nodes:
                if isinstance(node, ast.Call) and _uses_cuda(function.file, node, function.inner):
                    yield Finding(
                        f"`{function.name}` runs in worker processes and uses the GPU, which a forked process cannot",
                        function.place(node).location,
                        help="return CPU tensors; move the batch in the training loop, with `pin_memory=True`",
                        related=(loader.call.place.location,),
                    )


def _run_by_workers(loader: Loader) -> Iterator[Function]:
    for data in loader.data:
        cls = data.file.resolve(getattr(data.node, "func", None), data.context)
        reads = cls.find("__getitem__") if isinstance(cls, Class) else None
        if reads is not None:
            yield reads
            yield from _called_by(reads)
    given = loader.call.argument("collate_fn", 6)
    named = loader.call.file.resolve(given, loader.call.context) if given is not None else None
    if isinstance(named, Function):
        yield named


def _called_by(reads: Function) -> Iterator[Function]:
    """The methods of the data set that reading a sample calls, and those that these call."""
    todo, told = [reads], {reads}
    while todo:
        method = todo.pop()
        for call in method.all(ast.Call):
            own = isinstance(call.func, ast.Attribute) and is_name(call.func.value, method.receiver)
            named = method.file.resolve(call.func, method.inner) if own else None
            if isinstance(named, Function) and named not in told:
                told.add(named)
                todo.append(named)
                yield named


def _uses_cuda(file: File, call: ast.Call, context: Context) -> bool:
    """`x.cuda()`, `x.to("cuda")`, `torch.zeros(3, device="cuda")`."""
    if (
        isinstance(call.func, ast.Attribute)
        and call.func.attr == "cuda"
        and not isinstance(file.resolve(call.func, context), str)
    ):
        return True
    given = [keyword.value for keyword in call.keywords if keyword.arg == "device"]
    if isinstance(call.func, ast.Attribute) and call.func.attr == "to":
        given += call.args[:1]
    return any(is_gpu(file, value, context) for value in given)
