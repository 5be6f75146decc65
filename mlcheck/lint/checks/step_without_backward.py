"""step-without-backward: an optimizer steps, a loss is computed, and nothing computes gradients of it."""

import ast
from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import chain

from mlcheck.core.finding import Finding, first_of_each_line
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Backward, Facts, Loop, Loss, Step
from mlcheck.lint.nodes import last_name, walk
from mlcheck.lint.sites import Class, File, Function
from mlcheck.lint.sites.training.contexts_without_step import asked_for_nothing
from mlcheck.lint.sites.training.learnt_by_copy import learnt_by_copy
from mlcheck.lint.sites.training.written_steps import stepped_on_nothing
from mlcheck.lint.values import live, traces_of

LOOKS_AT = "optimizer step"
_ELSEWHERE = (
    "backward",
    ".grad",
    "closure",
    "autograd",
    "transformers",
    "deepspeed",
    "fabric",
    "lightning",
)
"""Words of other ways to come by gradients."""
_BY_HAND = pattern(r"autograd\.(?:grad|backward)\(|\.grad\b|closure")
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_REPORTS = frozenset(["append", "update", "add", "add_scalar", "log", "write", "set_postfix", "insert", "format"])


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = len({step.place.spot for step in facts.steps})
    yield from first_of_each_line(
        chain(_along_another(facts), _seen(facts), _written(facts), asked_for_nothing(facts.sites), _by_copy(facts))
    )


def _by_copy(facts: Facts) -> Iterator[Finding]:
    for found in learnt_by_copy(facts.sites):
        yield Finding(
            f"This step finds no gradients: `{found.model}` is never called, and the gradients of its deep copy are "
            "the copy's own",
            found.step.place.location,
            help="take them over: `p.grad = q.grad.clone()`, for the parameters of both",
            related=(found.copy.place.location,),
        )


def _written(facts: Facts) -> Iterator[Finding]:
    for clear, step in stepped_on_nothing(facts.sites):
        yield Finding(
            "This step finds no gradients: they were cleared, and nothing since then calls `backward()`",
            step.place.location,
            help="call `loss.backward()` before the step",
            related=(clear.place.location,),
        )


def _seen(facts: Facts) -> Iterator[Finding]:
    if not facts.losses:
        return
    nowhere = not facts.backwards and not any(True for _ in facts.sites.mentioning(_ELSEWHERE, tests=True))
    if any(_is_handed_on(file) for file in facts.sites.mentioning(["loss"])):
        return
    for steps in _walks(facts):
        last = steps[-1]
        made = facts.training.optimizers.get(last.key)
        given = last.place.node.args if isinstance(last.place.node, ast.Call) else []
        if last.scaler or given or (made is not None and made.handed_on):
            continue
        loss = facts.losses[0] if nowhere else _left_alone(facts, steps)
        if loss is not None:
            where = (
                "the program calls `backward()` on a loss" if nowhere else "this loop asks for any of its parameters"
            )
            yield Finding(
                f"This step finds no gradients: nothing in {where}",
                last.place.location,
                help="call `loss.backward()` before the step",
                related=(loss.place.location,),
            )


def _walks(facts: Facts) -> Iterable[list[Step]]:
    """The steps, those of one place together."""
    found: dict[tuple[str, int, int], list[Step]] = {}
    for step in facts.steps:
        found.setdefault(step.place.spot, []).append(step)
    return found.values()


def _along_another(facts: Facts) -> Iterator[Finding]:
    """`opt_b.zero_grad()`, the loss of another network alone, `opt_b.step()`: the gradients are clean at every step."""
    backwards = {back.place.spot: back for back in facts.backwards}
    unseen = {back.place.spot for back in facts.backwards if back.unseen}
    for steps in _walks(facts):
        last, made = steps[-1], facts.training.optimizers.get(steps[-1].key)
        file = facts.sites.at(last.place.path)
        if made is None or made.handed_on or not made.owners or file is None or _BY_HAND.search(file.text):
            continue
        grads = [each for step in steps for each in step.grads]
        spots = {each.place.spot if each.kind == "clean" and each.place is not None else None for each in grads}
        back = backwards.get(next(iter(spots)) or ("", 0, 0)) if len(spots) == 1 else None
        if back is None or back.place.spot in unseen or not back.forwards or any(step.scaler for step in steps):
            continue
        names = " and ".join(f"`{name}`" for name in sorted({call.name for call in back.forwards}))
        yield Finding(
            f"This step finds no gradients: they were cleared, and the loss since then is of {names} alone",
            last.place.location,
            help="compute the loss with the network that this optimizer holds",
            related=(back.place.location,),
        )


def _left_alone(facts: Facts, steps: Sequence[Step]) -> Loss | None:
    """A loss of the loop that these steps run in, where no backward pass does and the gradients are always clean."""
    if any(grads.kind != "clean" for step in steps for grads in step.grads):
        return None
    loops = {loop for step in steps for loop, _ in step.when.loops}
    inside = [back for back in facts.backwards if any(loop in loops for loop, _ in back.when.loops)]
    owners = facts.training.optimizers[steps[-1].key].owners if steps[-1].key in facts.training.optimizers else None
    if inside and (not owners or any(back.unseen or not owners.isdisjoint(_learning(back)) for back in inside)):
        return None
    file = facts.sites.at(steps[-1].place.path)
    words = [word for word in _ELSEWHERE if word != "backward" or not inside]
    if file is None or any(word in _text(file, loop) for loop in loops for word in words):
        return None
    recorded = {call for call in facts.forwards if call.grad.kind == "on" and not loops.isdisjoint(call.loops)}
    if inside:
        recorded = {call for call in recorded if owners and not owners.isdisjoint(call.touched)}
    return next((loss for loss in facts.losses if not recorded.isdisjoint(live(traces_of(loss.input)))), None)


def _learning(backward: Backward) -> set[Hashable]:
    """The modules that had a part in what a backward pass is asked of."""
    return {module for call in backward.forwards for module in call.touched}


def _text(file: File, loop: Loop) -> str:
    node = loop.node
    return file.module.text_of(node) if isinstance(node, ast.stmt) and loop.place.path == file.path else ""


def _is_handed_on(file: File) -> bool:
    """Whether code that is not known gets a loss, and may differentiate it."""
    top = [statement for statement in file.module.source.tree.body if not isinstance(statement, _DEFINITIONS)]
    blocks = [(function.nodes, function.inner) for function in file.functions]
    for nodes, context in (*blocks, ([node for each in top for node in walk(each)], file.walk.module)):
        for node in nodes:
            if not isinstance(node, ast.Call):
                continue
            if last_name(node.func) in _REPORTS or _moves_rate(node.func):
                continue
            losses = [arg for arg in node.args if isinstance(arg, ast.Name) and "loss" in arg.id.lower()]
            named = file.resolve(node.func, context) if losses else "torch"
            library = isinstance(named, str) and named.startswith(("torch", "builtins.", "numpy.", "math."))
            if not library and not isinstance(named, Function | Class):
                return True
    return False


def _moves_rate(func: ast.expr) -> bool:
    """`scheduler.step(val_loss)`."""
    return isinstance(func, ast.Attribute) and func.attr == "step" and "sched" in last_name(func.value).lower()
