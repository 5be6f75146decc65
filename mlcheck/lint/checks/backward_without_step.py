"""backward-without-step: gradients are computed batch after batch, and the optimizer never steps."""

import ast
import itertools
import re
from collections.abc import Iterator
from itertools import chain

from mlcheck.core.finding import Finding, Location
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Backward, Facts, Step
from mlcheck.lint.nodes import last_name, walk
from mlcheck.lint.sites import OPEN, Call, Class, Function, Sites
from mlcheck.lint.sites.training.contexts_without_step import never_asked
from mlcheck.lint.sites.training.optimizers import optimizers
from mlcheck.lint.sites.training.overridden_steps import overridden_without_step
from mlcheck.lint.sites.training.step_functions import stepped_by_others
from mlcheck.lint.sites.training.unstepped import cleared_in_vain
from mlcheck.lint.sites.training.written_steps import never_stepped
from mlcheck.lint.training import Optimizer

LOOKS_AT = "backward pass"
_ALL_OF_LIGHTNING = pattern(r"\b(\w+) = self\.optimizers\(")
_ENGINES = ("ignite.engine.Engine", "ignite.engine.engine.Engine")
_PRECISION = pattern(r"amp|scaler|fp16|bf16|half|precision|apex|autocast")


def check(facts: Facts) -> Iterator[Finding]:
    told = set()
    for finding in _seen(facts):
        told.add((finding.location.path, finding.location.line))
        yield finding
    yield from _in_one_branch(facts.sites)
    yield from never_asked(facts.sites)
    for backward, made in never_stepped(facts.sites):
        place = backward.place.location
        if (place.path, place.line) not in told:
            told.add((place.path, place.line))
            yield _of_no_use(made.file.names_given(made.node)[0], place, made.place.location)
    for backward, name, step in overridden_without_step(facts.sites):
        place = backward.place.location
        if (place.path, place.line) not in told:
            yield _of_no_use(name, place, step.place.location)
    for made in facts.sites.once(optimizers):
        for finding in chain(_only_cleared(facts.sites, made), _nobody_steps(made)):
            if (finding.location.path, finding.location.line) not in told:
                yield finding


def _in_one_branch(sites: Sites) -> Iterator[Finding]:
    """`if amp: scaler.step(optimizer) else: loss.backward()`: the step of the other branch is forgotten."""
    for file in sites.mentioning([".backward("]):
        for call in file.calls("backward"):
            function, branch = call.function, call.context
            if function is None or not isinstance(branch.node, ast.If) or file.is_test:
                continue
            if not _PRECISION.search(ast.unparse(branch.node.test).lower()):
                continue  # such as every fourth batch, or the last one
            own, other = branch.node.body, branch.node.orelse
            if branch.arm == "orelse":
                own, other = other, own
            steps = [node for line in other for node in walk(line) if _is_step(node)]
            if not steps or not any(_called_last(node) == "backward" for line in other for node in walk(line)):
                continue
            later = [node for node in function.nodes if getattr(node, "lineno", 0) > (branch.node.end_lineno or 0)]
            names = {part for node in steps for part in _optimizers_of(node)}
            if any(_is_step(node) for line in own for node in walk(line)) or any(map(_is_step, later)):
                continue
            handed = [ast.unparse(n) for line in [*own, *later] for n in walk(line) if isinstance(n, ast.Call)]
            if names and not any(name in text for name in names for text in handed):
                yield Finding(
                    "This branch computes gradients and takes no step, which the other branch does: nothing is learnt",
                    call.place.location,
                    help=f"call `{min(names)}.step()` here too",
                    related=(file.place(steps[0], call.context).location,),
                )


def _called_last(node: ast.AST) -> str:
    return node.func.attr if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else ""


def _is_step(node: ast.AST) -> bool:
    return _called_last(node).startswith("step")


def _optimizers_of(step: ast.AST) -> Iterator[str]:
    """`optimizer` of `optimizer.step()` and of `scaler.step(optimizer)`."""
    if isinstance(step, ast.Call) and isinstance(step.func, ast.Attribute) and step.func.attr == "step":
        if step.args:
            yield ast.unparse(step.args[0])
        elif "sched" not in ast.unparse(step.func.value).lower():
            yield ast.unparse(step.func.value)


def _only_cleared(sites: Sites, made: Call) -> Iterator[Finding]:
    """An optimizer that a class clears before a backward pass and never uses again, where it steps another."""
    cls, names = made.cls, made.file.names_given(made.node)
    if cls is None or len(names) != 1 or len(cls.attributes.get(names[0], ())) != 1:
        return
    other_use = re.compile(
        rf"\.{re.escape(names[0])}\b(?!\s*=[^=]|\.zero_grad\(|\.(?:load_)?state_dict\(|\.param_groups)"
    )
    if any(other_use.search(file.text) for file in sites.mentioning([f".{names[0]}"], tests=True)):
        return
    for method in cls.methods.values():
        own = [call for call in made.file.calls("backward", "step", "zero_grad") if call.function is method]
        spoken = [(_called(call), call) for call in sorted(own, key=lambda call: call.node.lineno)]
        if not any(name.endswith(".step") and _is_optimizer(cls, method.receiver, name) for name, _ in spoken):
            continue
        for (first, _), (second, backward) in itertools.pairwise(spoken):
            if first == f"{method.receiver}.{names[0]}.zero_grad" and second.endswith(".backward"):
                yield Finding(
                    f"Gradients are computed for `{names[0]}`, which never steps: nothing is learnt",
                    backward.place.location,
                    help=f"call `{method.receiver}.{names[0]}.step()` after `backward()`",
                    related=(made.place.location,),
                )
                return


def _nobody_steps(made: Call) -> Iterator[Finding]:
    for clear, backward in cleared_in_vain(made):
        name = last_name(clear.owner)
        yield Finding(
            f"Gradients are computed for `{name}`, and nothing in the program steps an optimizer: nothing is learnt",
            backward.place.location,
            help=f"call `{name}.step()` after `backward()`",
            related=(made.place.location,),
        )


def _called(call: Call) -> str:
    return ast.unparse(call.node.func)


def _is_optimizer(cls: Class, receiver: str, called: str) -> bool:
    """`self.policy_opt.step`, where the class makes that one of torch's optimizers."""
    owner = called.removesuffix(".step")
    sets = cls.attributes.get(owner.removeprefix(f"{receiver}."), [])
    names = [f.file.resolve(a.value.func, a.context) for f, a in sets if isinstance(a.value, ast.Call)]
    return bool(names) and all(isinstance(name, str) and name.startswith("torch.optim.") for name in names)


def _seen(facts: Facts) -> Iterator[Finding]:
    stepped = {step.key for step in facts.steps}
    used = {facts.training.optimizers[key].place.spot for key in stepped if key in facts.training.optimizers}
    first: dict[object, Backward] = {}
    told: set[object] = set()
    for backward in facts.backwards:
        for key in backward.reached:
            optimizer = facts.training.optimizers.get(key)
            if optimizer is None or optimizer.place.spot in used or optimizer.handed_on or not optimizer.name:
                continue
            before = first.setdefault(key, backward)
            again = backward.when.later_turn(before.when) is not None or _is_in_step_of_framework(facts, backward)
            if key in told or not again or _may_step(facts, optimizer) or _has_heir(facts, backward, optimizer):
                continue
            told.add(key)
            yield _of_no_use(optimizer.name, before.place.location, optimizer.place.location)


def _has_heir(facts: Facts, backward: Backward, optimizer: Optimizer) -> bool:
    """Whether the function of the backward pass steps one of the same name, which has taken its place by then."""
    steps = (step for step in facts.steps if step.place.symbol == backward.place.symbol)
    heirs = (facts.training.optimizers.get(step.key) for step in steps if step.place.path == backward.place.path)
    return any(heir is not None and heir.name == optimizer.name for heir in heirs)


def _is_in_step_of_framework(facts: Facts, backward: Backward) -> bool:
    """Whether a framework calls the method around it for each batch."""
    if backward.place.symbol.rpartition(".")[2] in ("train_batch", "training_step"):
        return True
    for engine in facts.sites.calls(*_ENGINES):
        given = engine.argument("process_function", 0)
        named = engine.file.resolve(given, engine.context) if given is not None and given is not OPEN else None
        if isinstance(named, Function) and (named.file.path, named.place(named.node.body[0]).symbol) == (
            backward.place.path,
            backward.place.symbol,
        ):
            return True
    return False


def _of_no_use(name: str, computed: Location, made: Location) -> Finding:
    return Finding(
        f"Gradients are computed for `{name}`, which never steps: nothing is learnt",
        computed,
        help=f"call `{name}.step()` after `backward()`",
        related=(made,),
    )


def _is_of_others(facts: Facts, step: Step, optimizer: Optimizer) -> bool:
    """Whether the step is of an optimizer of other modules, made elsewhere: not of the same one made anew."""
    other = facts.training.optimizers.get(step.key)
    if other is None or not other.owners:
        return False
    if not (optimizer.owners.isdisjoint(other.around) and other.owners.isdisjoint(optimizer.around)):
        return False
    return (other.place.path, other.place.symbol) != (optimizer.place.path, optimizer.place.symbol)


def _steps_by_number(sites: Sites, optimizer: Optimizer) -> bool:
    """`opts = self.optimizers()` of Lightning, and `opts[number].step()`."""
    made = sites.at(optimizer.place.path)
    text = made.text if made is not None else ""
    return any(re.search(rf"\b{name}\[[^\]\n]+\]\.step\(", text) for name in _ALL_OF_LIGHTNING.findall(text))


def _is_in_its_place(facts: Facts, step: Step, optimizer: Optimizer) -> bool:
    """Whether another optimizer of the same weights steps, and this one is left over: they do learn.

    Where nobody clears this one either, the other may be of another part of the model: which parts learn is a choice.
    """
    other = facts.training.optimizers.get(step.key)
    if other is None or other.name == optimizer.name:
        return False
    alike = other.place.symbol == optimizer.place.symbol and _given_to(other) == _given_to(optimizer) != ""
    if not any(each.key == optimizer.key for each in facts.training.clearings):
        return alike or not other.owners or not other.around.isdisjoint(optimizer.around)
    return alike or not other.owners.isdisjoint(optimizer.owners)


def _given_to(optimizer: Optimizer) -> str:
    """`model.parameters()`, as it is written."""
    made = optimizer.place.node
    return ast.unparse(made.args[0]) if isinstance(made, ast.Call) and made.args else ""


def _may_step(facts: Facts, optimizer: Optimizer) -> bool:
    """Whether any text of the program may step it after all, or use the gradients without it."""
    if (optimizer.place.path, optimizer.name) in facts.sites.once(stepped_by_others):
        return True
    if optimizer.place.symbol.endswith("configure_optimizers") and _steps_by_number(facts.sites, optimizer):
        return True
    if any(_is_in_its_place(facts, step, optimizer) for step in facts.steps):
        return True
    calls = [each.place.node for each in facts.training.clearings if each.key == optimizer.key]
    owners = [call.func.value for call in calls if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)]
    name = f"(?:{'|'.join(sorted({re.escape(each) for each in (optimizer.name, *map(last_name, owners)) if each}))})"
    steps = re.compile(rf"\b{name}\b[^\n]*\.step\b|\bstep\w*\([^\n]*\b{name}\b|\.grad\b(?!\s*=\s*None)")
    elsewhere = re.compile(rf"(?<!\bself)\.{name}\b(?!\.(?:param_groups|state_dict|load_state_dict|zero_grad)\b)")
    own = {step.place.spot[:2] for step in facts.steps if not _is_of_others(facts, step, optimizer)}
    known = {step.place.spot[:2] for step in facts.steps} - own
    for file in facts.sites.files.values():
        lines = {file.text.count("\n", 0, found.start()) + 1 for found in steps.finditer(file.text)}
        if elsewhere.search(file.text) or any((file.path, line) not in known for line in lines):
            return True
    return False
