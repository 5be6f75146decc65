"""accelerate-contract: what an Accelerator has to do is done past it."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import is_name, last_name, walk
from mlcheck.lint.sites import Call, File, Function, Sites
from mlcheck.lint.sites.data.loaders import LOADER, loaders
from mlcheck.lint.sites.origins import Origin, given, origins
from mlcheck.lint.sites.training.optimizers import optimizers

LOOKS_AT = "Accelerator"
WORDS = ("Accelerator",)
_ACCELERATOR = "accelerate.Accelerator"
_PREPARE = ("prepare", "prepare_data_loader")


def check(facts: Facts) -> Iterator[Finding]:
    made = list(facts.sites.calls(_ACCELERATOR, "accelerate.accelerator.Accelerator"))
    facts.sites.seen[LOOKS_AT] = len(made)
    for file in facts.sites.mentioning(["prepare("]) if made else ():
        prepared = [call for call in file.calls("prepare") if _is_accelerator(call)]
        for function in {call.function for call in prepared}:
            here = [call for call in prepared if call.function is function]
            yield from _raw_backward(file, here)
            yield from _raw_clip(file, here, made)
            yield from _unwrapped(file, here)
            if all(_is_plain(call) for call in here):
                yield from _unprepared(facts, here)
    yield from _handed_on(facts.sites, made)


def _is_accelerator(call: Call) -> bool:
    func = call.node.func
    if not isinstance(func, ast.Attribute):
        return False
    found = origins(call.file, func.value, call.context)
    return bool(found) and all(origin.name.endswith(".Accelerator") for origin in found)


def _raw_backward(file: File, prepared: list[Call]) -> Iterator[Finding]:
    for call in file.calls("backward") if file.calls("step") else ():  # else nothing is trained by these gradients
        func = call.node.func
        if call.function is prepared[0].function and isinstance(func, ast.Attribute) and not call.node.args:
            if call.loops and call.node.lineno > prepared[0].node.lineno:
                yield _past(call, func.value, prepared[0])
    yield from _in_methods(file, prepared[0])


def _past(call: Call, loss: ast.expr, prepared: Call) -> Finding:
    return Finding(
        "`backward` bypasses the Accelerator: the loss is neither scaled for mixed precision "
        "nor divided for gradient accumulation",
        call.place.location,
        help=f"`accelerator.backward({ast.unparse(loss)})`",
        related=(prepared.place.location,),
    )


def _in_methods(file: File, prepared: Call) -> Iterator[Finding]:
    """The other methods of an object that keeps its Accelerator, where none of them runs backward through it."""
    kept = isinstance(prepared.owner, ast.Attribute) or _keeps_it(prepared)
    own = [call for call in file.calls("backward") if prepared.cls is not None and call.cls is prepared.cls]
    if not kept or any(call.node.args for call in own):
        return
    for call in own:
        if call.function is not prepared.function and isinstance(call.node.func, ast.Attribute):
            yield _past(call, call.node.func.value, prepared)


def _keeps_it(prepared: Call) -> bool:
    """`self.accelerator = accelerator`, of the one that prepares."""
    sets = prepared.cls.attributes.values() if prepared.cls is not None else ()
    name = last_name(prepared.owner)
    return any(is_name(assigned.value, name) for each in sets for _, assigned in each)


def _handed_on(sites: Sites, made: list[Call]) -> Iterator[Finding]:
    """`loss.backward()` in a function of any file that every caller hands the Accelerator which prepared the model."""
    prepared = [call for file in sites.mentioning(["prepare("]) for call in file.calls("prepare")] if made else []
    prepared = [call for call in prepared if _is_accelerator(call)]
    for file in sites.mentioning([".backward("]) if prepared else ():
        raw = [call for call in file.calls("backward") if call.function is not None]
        if any(call.node.args for call in raw):
            continue
        for call in raw:
            if call.function is not None and isinstance(call.node.func, ast.Attribute) and _gets_one(call.function):
                yield _past(call, call.node.func.value, prepared[0])


def _gets_one(function: Function) -> bool:
    """Whether a parameter is an Accelerator by all calls that can be seen."""
    for name in function.parameters:
        found = list(given(function.file.sites, function, name))
        each = [origin for one in found for origin in origins(one.file, one.node, one.context)]
        if each and all(origin.name.endswith(".Accelerator") for origin in each):
            return True
    return False


def _raw_clip(file: File, prepared: list[Call], made: list[Call]) -> Iterator[Finding]:
    """Clipping by hand, where the loss is certainly scaled: the gradients are still as large as the scale."""
    here = [call for call in made if call.file is file] or made
    half = [call for call in here if call.constant("mixed_precision", 2) == "fp16"]
    if not half or (here is made and len(half) < len(made)) or file.calls("unscale_gradients"):
        return
    for call in file.calls("clip_grad_norm_", "clip_grad_value_"):
        named = file.resolve(call.node.func, call.context)
        if isinstance(named, str) and named.startswith("torch.nn.utils.") and call.function is prepared[0].function:
            last = named.rpartition(".")[2]
            yield Finding(
                "Gradients are clipped without the Accelerator: in mixed precision they still carry the loss scale",
                call.place.location,
                help=f"`accelerator.{last}(...)`, where `accelerator.sync_gradients`",
                related=(half[0].place.location,),
            )


def _unwrapped(file: File, prepared: list[Call]) -> Iterator[Finding]:
    """`accelerator.backward(inner(x))`, with `inner = accelerator.unwrap_model(model)`; `model` is never called."""
    for call in file.calls("unwrap_model"):
        names, outer = file.names_given(call.node), call.argument("model", 0)
        if call.function is not prepared[0].function or len(names) != 1 or not isinstance(outer, ast.Name):
            continue
        if len(file.bindings(names[0], call.context)) != 1 or call.loops or outer.id == names[0]:
            continue
        for backward in file.calls("backward"):
            loop = backward.loops[-1].node if backward.loops else None
            if loop is None or backward.function is not call.function or not backward.node.args:
                continue
            called = [node for node in walk(loop) if isinstance(node, ast.Call)]
            if any(_mentions(node, outer.id) for node in called if not _looks_only(node)):
                continue
            for node in called:
                if isinstance(node.func, ast.Name) and node.func.id == names[0]:
                    yield Finding(
                        f"`{names[0]}` is trained past `{outer.id}`, which was prepared: its gradients are not "
                        "averaged over the processes",
                        file.place(node, backward.context).location,
                        help=f"call `{outer.id}(...)`; the model inside it is for saving",
                        related=(call.place.location,),
                    )


def _mentions(call: ast.Call, name: str) -> bool:
    """Whether it calls the model, or gives it to somebody who may."""
    return any(is_name(node, name) for node in (call.func, *call.args))


def _looks_only(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr in ("accumulate", "unwrap_model", "no_sync")


def _is_plain(call: Call) -> bool:
    return not any(isinstance(arg, ast.Starred) for arg in call.node.args) and all(call.names())


def _unprepared(facts: Facts, prepared: list[Call]) -> Iterator[Finding]:
    """An optimizer or a training loader that `prepare` is never given, although the model is."""
    file, function = prepared[0].file, prepared[0].function
    given = _given(prepared)
    for loader in facts.sites.once(loaders):
        if loader.call.file is file and loader.call.function is function and loader.trained:
            if id(loader.call.node) not in given and not loader.draws_itself:
                yield Finding(
                    "The training loader is not prepared: every process reads all of the data",
                    loader.call.place.location,
                    help="pass it to `accelerator.prepare` with the model and the optimizer",
                    related=(prepared[0].place.location,),
                )

    yield from _from_elsewhere(facts, prepared)
    for optimizer in facts.sites.once(optimizers):
        if optimizer.file is not file or optimizer.function is not function or id(optimizer.node) in given:
            continue
        names = file.names_given(optimizer.node)
        if len(names) == 1 and _is_stepped(optimizer, names[0]) and _prepares_model(file, prepared, optimizer):
            yield Finding(
                f"`{names[0]}` is not prepared: its steps know nothing of loss scaling and gradient accumulation",
                optimizer.place.location,
                help="pass it to `accelerator.prepare` with the model and the loader",
                related=(prepared[0].place.location,),
            )


def _is_stepped(optimizer: Call, name: str) -> bool:
    """In a loop of this function; or, as an attribute that no other method prepares, anywhere in the class."""
    file, cls = optimizer.file, optimizer.cls
    steps = [call for call in file.calls("step") if isinstance(call.node.func, ast.Attribute)]
    if any(_is_of(call, name) and call.function is optimizer.function and call.loops for call in steps):
        return True
    receiver = optimizer.function.receiver if optimizer.function is not None else ""
    if cls is None or len(cls.attributes.get(name, ())) != 1:
        return False
    handed = [
        arg for each in file.calls(*_PREPARE) for arg in (*each.node.args, *(k.value for k in each.node.keywords))
    ]
    return any(_is_of(call, f"{receiver}.{name}") and call.cls is cls for call in steps) and name not in map(
        last_name, handed
    )


def _is_of(call: Call, owner: str) -> bool:
    return isinstance(call.node.func, ast.Attribute) and ast.unparse(call.node.func.value) == owner


def _given(prepared: list[Call]) -> set[int]:
    """The expressions that what is prepared may come from."""
    return {
        id(origin.node)
        for call in prepared
        for arg in (*call.node.args, *(keyword.value for keyword in call.node.keywords))
        for origin in (*origins(call.file, arg, call.context), *_own(call, arg))
    }


def _from_elsewhere(facts: Facts, prepared: list[Call]) -> Iterator[Finding]:
    """A loop around `accelerator.backward` goes over a loader that another function made, and nobody prepared."""
    file, function = prepared[0].file, prepared[0].function
    everywhere = [call for each in facts.sites.mentioning(["prepare"]) for call in each.calls(*_PREPARE)]
    given = _given(everywhere)
    for call in file.calls("backward"):
        loops = [loop for loop in call.loops if isinstance(loop.node, ast.For)]
        if call.function is not function or not call.node.args or not loops or not isinstance(loops[0].node, ast.For):
            continue
        over = origins(file, loops[0].node.iter, loops[0])
        made = [origin for origin in over if origin.name == LOADER and id(origin.node) not in given]
        if made and len(made) == len(over) and made[0].file.function_around(made[0].context) is not function:
            yield Finding(
                "The training loader is not prepared: every process reads all of the data",
                prepared[-1].place.location,
                help=f"pass `{ast.unparse(loops[0].node.iter)}` to it, with the model and the optimizer",
                related=(made[0].file.place(made[0].node, made[0].context).location,),
            )
            return


def _prepares_model(file: File, prepared: list[Call], optimizer: Call) -> bool:
    """Whether the model of `Adam(model.parameters())` is among what is prepared."""
    params = optimizer.argument("params", 0)
    func = params.func if isinstance(params, ast.Call) else None
    if not isinstance(func, ast.Attribute) or func.attr != "parameters":
        return False
    model = ast.unparse(func.value)
    handed = [arg for call in prepared for arg in call.node.args]
    if any(ast.unparse(arg) == model for arg in handed):
        return True
    kept = [
        origin for arg in handed if isinstance(arg, ast.Attribute) for origin in origins(file, arg, optimizer.context)
    ]
    here = optimizer.function
    return any(ast.unparse(one.node) == model and one.file.function_around(one.context) is here for one in kept)


def _own(call: Call, arg: ast.expr) -> Iterator[Origin]:
    """What a name held before `prepare` gave it a new value."""
    if isinstance(arg, ast.Name):
        for binding in call.file.bindings(arg.id, call.context):
            if binding.kind == "value" and isinstance(binding.value, ast.expr):
                yield from origins(call.file, binding.value, binding.context)
