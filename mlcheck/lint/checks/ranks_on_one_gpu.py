"""ranks-on-one-gpu: every process of a distributed run uses the same GPU."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import is_name, walk
from mlcheck.lint.sites import Call, Context, File, Function
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.origins import origins
from mlcheck.lint.sites.ranks import DDP, is_guarded

LOOKS_AT = "distributed model"
WORDS = ("DistributedDataParallel",)

_DEVICE = "torch.device"
_ONE_EACH = ("CUDA_VISIBLE_DEVICES", "SLURM")  # a cluster may show each process one GPU alone, under the number 0


def check(facts: Facts) -> Iterator[Finding]:
    wraps = list(facts.sites.calls(DDP))
    facts.sites.seen[LOOKS_AT] = len(wraps)
    for wrap in wraps:
        if wrap.file.is_test:
            continue
        near = {wrap.file.path, *wrap.file.imports}
        texts = [file.text for file in facts.sites.files.values() if file.path in near]
        if any(word in text for text in texts for word in _ONE_EACH) or is_guarded(wrap.file, wrap.context):
            continue
        yield from _batches_on_first(wrap)
        number = _listed(wrap)
        chosen = wrap.constant("device_ids", 1) is not None
        if number is None and not any(word in text for text in texts for word in ("set_device(", "cuda.device(")):
            begins = "init_process_group" in wrap.file.text and (not chosen or "__main__" in wrap.file.text)
            number = _moved(wrap, starts=begins)
        if number is not None:
            yield Finding(
                f"Every process puts its replica on GPU {number}: the others stay idle, or NCCL refuses",
                wrap.place.location,
                help="use the local rank: `torch.cuda.set_device(local_rank)`, `device_ids=[local_rank]`",
            )


def _batches_on_first(wrap: Call) -> Iterator[Finding]:
    """`device = torch.device("cuda:0")` beside `device_ids=[local_rank]`, in a function that trains with it."""
    given, function = wrap.argument("device_ids", 1), wrap.function
    if function is None or not isinstance(given, ast.List) or len(given.elts) != 1:
        return
    if "rank" not in ast.unparse(given).lower():
        return
    for made in wrap.file.calls("device"):
        names = wrap.file.names_given(made.node)
        if made.function is not function or len(names) != 1 or wrap.file.called(made.node, made.context) != _DEVICE:
            continue
        told = made.node.args[0] if len(made.node.args) == 1 else None
        arms = [told.body, told.orelse] if isinstance(told, ast.IfExp) else [told]
        numbers = [_number_of(made, arm) for arm in arms if arm is not None]
        if any(number is not None for number in numbers) and _is_given_in_loop(function, names[0]):
            yield Finding(
                f"The model is on the GPU of its rank, and `{names[0]}` is one GPU for all of them",
                made.place.location,
                help='`torch.device("cuda", local_rank)`',
                related=(wrap.place.location,),
            )


def _is_given_in_loop(function: Function, name: str) -> bool:
    """Whether a loop that trains hands the device to a call."""
    return any(
        is_name(arg, name)
        for loop in function.nodes
        if isinstance(loop, ast.For) and "backward(" in ast.unparse(loop)
        for call in walk(loop)
        if isinstance(call, ast.Call)
        for arg in call.args
    )


def _number_of(call: Call, node: ast.expr) -> int | None:
    return _number(call.file.constant(node, call.context))


def _listed(wrap: Call) -> int | None:
    """The number in `device_ids=[0]`, or that of what stands there."""
    given = wrap.argument("device_ids", 1)
    node, context = wrap.file.value(given, wrap.context) if given is not None else (None, wrap.context)
    if isinstance(node, ast.List | ast.Tuple) and len(node.elts) == 1:
        only = node.elts[0]
        if isinstance(only, ast.Attribute) and only.attr == "index":  # of a `torch.device`
            made, context = wrap.file.value(only.value, context)
            named = isinstance(made, ast.Call) and wrap.file.resolve(made.func, context) == _DEVICE
            only = made.args[0] if named and isinstance(made, ast.Call) and len(made.args) == 1 else only
        return _told(wrap.file, only, context)
    return None


def _told(file: File, node: ast.expr, context: Context) -> int | None:
    """The one number that may stand there; of a parameter, where all calls of the function can be seen."""
    if (number := _number(file.constant(node, context))) is not None or "rank" in ast.unparse(node).lower():
        return number
    for bound in file.bindings(node.id, context) if isinstance(node, ast.Name) else ():
        function = file.function_around(bound.context) if bound.kind == "param" else None
        if function is not None and file.sites.calls_of(function) is None:
            return None
    found = origins(file, node, context)
    told = {_number(each.file.constant(each.node, each.context)) for each in found}
    return told.pop() if len(told) == 1 else None


def _moved(wrap: Call, starts: bool) -> int | None:
    """The number in `DDP(model.cuda(0))` and `DDP(model.to("cuda:0"))`.

    `DDP(model.cuda())` is 0 where this file `starts` the processes: nobody else can have chosen their GPU.
    """
    given = wrap.argument("module", 0)
    node, context = source(wrap.file, given, wrap.context) if given is not None else (None, wrap.context)
    if isinstance(node, ast.Attribute):
        node, context = wrap.file.value(node, context)
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    if node.func.attr == "cuda" and not node.args and not node.keywords:
        return 0 if starts else None
    if node.func.attr not in ("cuda", "to") or len(node.args) != 1:
        return None
    device, context = wrap.file.value(node.args[0], context)
    if isinstance(device, ast.Call) and len(device.args) == 1:
        device = device.args[0] if wrap.file.resolve(device.func, context) == "torch.device" else device
    if isinstance(device, ast.IfExp) and "is_available()" in ast.unparse(device.test):
        device = device.body
    told = wrap.file.constant(device, context)
    return (0 if starts else None) if told == "cuda" else _number(told)


def _number(value: object) -> int | None:
    """The GPU that `0`, `"cuda:0"` and the like name."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and value.startswith("cuda:") and value[5:].isdigit():
        return int(value[5:])
    return None
