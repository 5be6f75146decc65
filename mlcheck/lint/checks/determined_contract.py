"""determined-contract: a PyTorchTrial that does by itself what its context has to do."""

import ast
import re
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import walk
from mlcheck.lint.sites import Call, Class, Function
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.layers.modules import holds_parameters
from mlcheck.lint.sites.origins import origins

LOOKS_AT = "Determined trial"
WORDS = ("PyTorchTrial",)
_TRIAL = "PyTorchTrial"
_LOADER = "torch.utils.data.DataLoader"
_OLD = ("build_model", "optimizer")


def check(facts: Facts) -> Iterator[Finding]:
    trials = [cls for cls in facts.sites.classes if _is_trial(cls)]
    facts.sites.seen[LOOKS_AT] = len(trials)
    for cls in trials:
        if any(name in cls.methods for name in _OLD):
            continue
        for call in _calls(cls):
            yield from _by_hand(cls, call)
        yield from _unwrapped(cls)
        yield from _never_stepped(cls)


def _never_stepped(cls: Class) -> Iterator[Finding]:
    """A schedule that the trial promises to step itself, under a name that stands nowhere else."""
    for call in cls.file.calls("wrap_lr_scheduler"):
        names = cls.file.names_given(call.node)
        by_hand = any("MANUAL_STEP" in ast.unparse(given) for given in _settings(call.node))
        if call.cls is cls and by_hand and len(names) == 1 and not cls.file.sites.is_named(names[0], times=2):
            yield Finding(
                f"`{names[0]}` is to be stepped by hand, and nothing steps it: the learning rate stays what it was",
                call.place.location,
                help="step it in `train_batch`, or let the context do so: `LRScheduler.StepMode.STEP_EVERY_EPOCH`",
            )


def _is_trial(cls: Class) -> bool:
    return any(name.startswith("determined.") and name.endswith(_TRIAL) for name in cls.libraries)


def _calls(cls: Class) -> list[Call]:
    """Calls in the methods that train."""
    found = cls.file.calls("backward", "step")
    return [call for call in found if call.cls is cls and not _evaluates(call.function)]


def _evaluates(function: Function | None) -> bool:
    return function is not None and function.name.startswith(("evaluate", "build_", "__init__"))


def _by_hand(cls: Class, call: Call) -> Iterator[Finding]:
    func = call.node.func
    if not isinstance(func, ast.Attribute) or "context" in ast.unparse(func.value):
        return
    if func.attr == "backward" and not call.node.args:
        yield Finding(
            "The trial calls `backward` itself: gradients are neither averaged over the slots nor aggregated",
            call.place.location,
            help=f"`self.context.backward({ast.unparse(func.value)})`",
        )
    elif func.attr == "step" and _is_optimizer(call, func.value):
        yield Finding(
            "The trial steps its optimizer itself instead of through the context",
            call.place.location,
            help=f"`self.context.step_optimizer({ast.unparse(func.value)})`",
        )
    elif func.attr == "step" and _stepped_by_context(call, func.value):
        yield Finding(
            "The trial steps its schedule, and the context steps it too: the learning rate changes twice as fast",
            call.place.location,
            help="leave this line out, or wrap it with `LRScheduler.StepMode.MANUAL_STEP`",
        )


def _stepped_by_context(call: Call, node: ast.expr) -> bool:
    """`wrap_lr_scheduler(schedule, STEP_EVERY_BATCH)`: the context steps it."""
    found = origins(call.file, node, call.context)
    return bool(found) and all(
        isinstance(origin.node, ast.Call)
        and ast.unparse(origin.node.func).endswith("wrap_lr_scheduler")
        and any("STEP_EVERY" in ast.unparse(given) for given in _settings(origin.node))
        for origin in found
    )


def _settings(node: ast.Call) -> list[ast.expr]:
    return [*node.args[1:], *(word.value for word in node.keywords)]


def _is_optimizer(call: Call, node: ast.expr) -> bool:
    found = origins(call.file, node, call.context)
    return bool(found) and all(
        (origin.name.startswith("torch.optim.") and ".lr_scheduler." not in origin.name)
        or (isinstance(origin.node, ast.Call) and ast.unparse(origin.node.func).endswith("wrap_optimizer"))
        for origin in found
    )


def _wrapped(cls: Class) -> Iterator[ast.expr]:
    """What `wrap_optimizer` is given in the file of a class, and what the names for it hold."""
    for call in cls.file.calls("wrap_optimizer"):
        for given in (*call.node.args[:1], *(word.value for word in call.node.keywords)):
            yield given
            yield source(call.file, given, call.context)[0]


def _unwrapped(cls: Class) -> Iterator[Finding]:
    """Optimizers that the context never sees, and loaders that it refuses."""
    text = cls.text
    for name, assignments in cls.attributes.items():
        for function, assigned in assignments:
            if assigned.value is None or function.name != "__init__":
                continue
            value, context = cls.file.value(assigned.value, assigned.context)
            if not isinstance(value, ast.Call):
                continue
            if (
                assigned.value is value
                and holds_parameters(cls.file, assigned.value, assigned.context)
                and _is_alone(text, name)
            ):
                yield Finding(
                    f"`self.{name}` is not wrapped: the context neither moves it to the GPU nor saves it",
                    function.place(assigned.node).location,
                    help=f"`self.{name} = self.context.wrap_model(...)`",
                )
            made = cls.file.resolve(value.func, context)
            if not isinstance(made, str) or not made.startswith("torch.optim.") or "lr_scheduler" in made:
                continue
            wrapped = {ast.unparse(each) for each in _wrapped(cls)}
            if wrapped.isdisjoint([f"self.{name}", ast.unparse(assigned.value)]):
                yield Finding(
                    f"`self.{name}` is not wrapped: the context neither steps nor saves it",
                    function.place(assigned.node).location,
                    help=f"`self.{name} = self.context.wrap_optimizer(...)`",
                )
    if "disable_dataset_reproducibility_checks" in text:
        return
    for call in cls.file.calls("DataLoader"):
        hook = call.function.name if call.function is not None and call.cls is cls else ""
        if hook.startswith("build_") and hook.endswith("_data_loader") and _returned(call):
            if call.file.resolve(call.node.func, call.context) == _LOADER:
                yield Finding(
                    f"`{hook}` returns PyTorch's own loader, which Determined refuses",
                    call.place.location,
                    help="return `determined.pytorch.DataLoader` with the same arguments",
                )


def _is_alone(text: str, name: str) -> bool:
    """Whether a module is trained under this name and given to no other call that may wrap it."""
    trained = re.search(rf"\bself\.{name}\.parameters\(", text)
    handed = re.search(rf"[(,=]\s*self\.{name}\s*[,)]", text)
    return trained is not None and handed is None


def _returned(call: Call) -> bool:
    node = call.function.node if call.function is not None else None
    return node is not None and any(isinstance(child, ast.Return) and child.value is call.node for child in walk(node))
