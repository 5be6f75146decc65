"""eval-without-no-grad: an evaluation builds a graph for every batch, and nobody asks for gradients."""

import ast
import re
from collections.abc import Hashable, Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts, Forward, Mode
from mlcheck.lint.judging import (
    draws_again,
    evaluates,
    has_no_weights,
    helps_evaluation,
    is_named_for_attack,
    tests_of_code,
)
from mlcheck.lint.nodes import is_name, last_name, loads, stores, walk
from mlcheck.lint.sites import File
from mlcheck.lint.sites.evaluation.answers import is_decided, read_as_array
from mlcheck.lint.sites.evaluation.collecting import collects
from mlcheck.lint.sites.evaluation.own_switches import switches_gradients
from mlcheck.lint.sites.evaluation.without_gradients import asks_for_gradients, stops_by_itself
from mlcheck.lint.words import lines_with

LOOKS_AT = "model call"
_LEAF = pattern(r"requires_grad_\((?:True)?\)|requires_grad ?= ?True|stop_gradient ?= ?False")
_LEAVES = ("requires_grad", "stop_gradient")
_OTHERS = pattern(r"^import (?:paddle|mindspore|jittor)\b", re.MULTILINE)
_ASKS = ("backward", "autograd", "requires_grad", "enable_grad", "functional_call", "jacrev", "vjp")
_GRAPH = ("grad_fn", "next_functions")


def check(facts: Facts) -> Iterator[Finding]:
    for idle in facts.idle:
        name = idle.name
        yield Finding(
            f"`{name}()` is called but not entered: it has no effect",
            idle.place.location,
            help=f"use it as `with {name}():` around the evaluation",
        )
    trained = {forward.place.spot for forward in facts.forwards if forward.trained}
    for first, *others in _evaluations(facts):
        place = first.place if first.place.spot not in trained else first.through or first.place
        built = "a graph is built" if first.loop is None else "every batch builds a graph"
        yield Finding(
            f"`{first.name}` is evaluated with gradients recorded: {built} for nothing",
            place.location,
            help="run the evaluation under `torch.no_grad()` or `torch.inference_mode()`",
            related=(
                *(mode.place.location for mode in first.modes if mode.place),
                *(other.place.location for other in others),
            ),
        )


def _evaluations(facts: Facts) -> Iterator[list[Forward]]:
    """The model calls that record gradients for nothing; those of one evaluation belong together."""
    spoken = {idle.place[0::2] for idle in facts.idle}
    trained = {forward.place.spot for forward in facts.forwards if forward.trained}
    found: dict[Hashable, dict[Hashable, Forward]] = {}
    tests = tests_of_code(facts)
    for forward in facts.forwards:
        if forward.through is not None and is_named_for_attack(forward.through.path):
            continue  # it needs the gradient of the input, wherever it asks for that
        if forward.place.path in tests or forward.place[0::2] in spoken or forward.frozen or forward.trained:
            continue
        if forward.unread and not _is_repeated(forward):  # a warm-up, once: what it recorded is gone at once
            continue
        if _is_foreign(facts, forward) or _is_shown(forward) or _takes_leaves(facts, forward):
            continue
        if switches_gradients(forward):
            continue
        if forward.place.spot in trained and not _is_told(forward) and not _has_own_loop(forward):
            continue
        if forward.grad.kind != "on" or forward.grad.place is not None:
            continue  # somebody switched gradients on: for what is adapted or attacked within the evaluation
        if not (_is_in_eval_mode(forward) or _has_no_mode(facts, forward)):
            continue
        if _is_read_as_array(facts, forward) or has_no_weights(forward) or _is_learned_from(facts, forward):
            continue
        if (
            evaluates(forward)
            or _is_collected(forward, not facts.backwards)
            or _generates(forward)
            or _is_told(forward)
            or helps_evaluation(forward)
            or _is_scored(facts, forward)
            or _only_infers(facts, forward)
        ) and not (_is_measured(forward) or stops_by_itself(facts, forward) or asks_for_gradients(facts, forward)):
            found.setdefault(_whole(forward), {})[forward.place.spot] = forward
    for together in found.values():
        yield list(together.values())


def _is_in_eval_mode(forward: Forward) -> bool:
    return {mode.kind for mode in forward.modes} == {"eval"}


def _has_no_mode(facts: Facts, forward: Forward) -> bool:
    """A loop over held-out batches of a trained model that does the same in both modes: it needs no `eval()`."""
    loop = forward.loop
    if loop is None or loop.trains or loop.split not in ("val", "test") or not _is_repeated(forward):
        return False
    if forward.moded != "no" or forward.learns is not None or not evaluates(forward):
        return False
    return any(other.trained and other.module is forward.module for other in facts.forwards)


def _is_repeated(forward: Forward) -> bool:
    """Whether a loop of its own function is around it: a function that warms up may well be called in a loop."""
    loop = forward.loop
    return loop is not None and any(part is forward.place.node for part in walk(loop.node))


def _is_foreign(facts: Facts, forward: Forward) -> bool:
    """A model of another library, whose gradients are switched off by that library's own `no_grad`."""
    file = facts.sites.at(forward.place.path)
    return file is not None and "torch" not in file.text and _OTHERS.search(file.text) is not None


def _is_read_as_array(facts: Facts, forward: Forward) -> bool:
    """Whether `model(x)` itself is; what `agent.act(x)` picks may have no gradient anyway."""
    func = forward.place.node.func if isinstance(forward.place.node, ast.Call) else None
    functions = _around(facts, forward)[-1:] if last_name(func) == forward.name else []
    return any(read_as_array(function, forward.place.node) for function in functions)


def _is_learned_from(facts: Facts, forward: Forward) -> bool:
    """A move of an agent that keeps `log_prob` of it, in a class that goes through the graph when the game is over."""
    file, around = facts.sites.at(forward.place.path), _around(facts, forward)
    if file is None or not around or "log_prob" not in file.module.text_of(around[-1]):
        return False
    return any(".backward(" in cls.text and around[-1] in cls.node.body for cls in file.classes)


def _is_shown(forward: Forward) -> bool:
    """One call in a cell of a notebook, to look at what comes out."""
    return forward.place.path.endswith(".ipynb") and forward.loop is None and not forward.functions


def _is_measured(forward: Forward) -> bool:
    """`print(model(example).shape)` in a loop that changes the model: nobody looks at what comes out."""
    inside = walk(forward.loop.node) if forward.loop is not None and draws_again(forward) else []
    asked = (node.value for node in inside if isinstance(node, ast.Attribute) and node.attr in ("shape", "size"))
    return any(node is forward.place.node for node in asked)


def _around(facts: Facts, forward: Forward) -> list[ast.stmt | ast.expr]:
    """The functions that the call stands in, the innermost last."""
    file, node = facts.sites.at(forward.place.path), forward.place.node
    functions = [function.node for function in file.functions] if file is not None else []
    return [each for each in functions if each.lineno <= getattr(node, "lineno", 0) <= (each.end_lineno or 0)]


def _has_leaves(file: File) -> bool:
    return any(_LEAF.search(line) for word in _LEAVES for line in lines_with(word, file.text))


def _takes_leaves(facts: Facts, forward: Forward) -> bool:
    """Whether an input was told to collect gradients in this function, or the graph itself is read there."""
    node = forward.place.node
    file = facts.sites.at(forward.place.path)
    if not isinstance(node, ast.Call) or file is None:
        return False
    around = _around(facts, forward)
    if around and any(word in file.module.text_of(around[0]) for word in _GRAPH):
        return True
    if not file.sites.once_of(_has_leaves, file):
        return False
    given = {part.id for arg in node.args for part in walk(arg) if isinstance(part, ast.Name)}
    for statement in walk(around[-1]) if around else ():
        if isinstance(statement, ast.Assign | ast.Expr) and _LEAF.search(ast.unparse(statement)):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.value]
            if any(isinstance(part, ast.Name) and part.id in given for target in targets for part in walk(target)):
                return True
    return False


def _is_collected(forward: Forward, nothing_trains: bool) -> bool:
    """`features.append(model(x))` in a loop over a loader, in eval mode since the function began, or in a program
    that trains nothing."""
    loop, call = forward.loop, forward.place.node
    if loop is None or loop.trains or loop.split == "train" or not isinstance(loop.node, ast.For):
        return False
    since = all(mode.when is not None and mode.when.calls == forward.when.calls for mode in forward.modes)
    if "loader" not in ast.unparse(loop.node.iter).lower() or not (since or nothing_trains):
        return False
    return collects(loop.node, call)


def _only_infers(facts: Facts, forward: Forward) -> bool:
    """A loop of a program that loads its weights, calls `eval()` in this function, and asks for no gradient at all."""
    loop = forward.loop
    if facts.backwards or not forward.restored or not _is_repeated(forward) or loop is None or loop.split == "train":
        return False
    if any(mode.when is None or mode.when.calls != forward.when.calls for mode in forward.modes):
        return False
    return not any(True for _ in facts.sites.mentioning(_ASKS, tests=True))


def _is_scored(facts: Facts, forward: Forward) -> bool:
    """`net.eval()`, then `net(x).argmax(1)` for each batch of a loop: the answer has no gradient to ask for."""
    loop, call, file = forward.loop, forward.place.node, facts.sites.at(forward.place.path)
    if loop is None or loop.trains or loop.split == "train" or file is None or not _is_repeated(forward):
        return False
    if any(mode.when is None or mode.when.calls != forward.when.calls for mode in forward.modes):
        return False
    brought = loop.node.target if isinstance(loop.node, ast.For) else None
    if brought is None or not any(isinstance(node, ast.Name) and stores(brought, node.id) for node in walk(call)):
        return False
    inside = walk(loop.node)
    parents = {child: node for node in inside for child in ast.iter_child_nodes(node)}
    names = file.names_given(call) if isinstance(call, ast.expr) else ()
    reads = [node for node in inside if isinstance(node, ast.Name) and node.id in names and loads(node, node.id)]
    return all(is_decided(parents, node) for node in (reads or (call,)))


def _is_told(forward: Forward) -> bool:
    """One function for both, `run(loader, train=False)`, that puts the model in that mode by `model.train(train)`.

    Or by `model.eval()`, where the loop is known to go over held-out batches: `for x, y in loaders[phase]`.
    """
    if forward.loop is None or forward.loop.trains:
        return False
    held_out = forward.loop.split in ("val", "test")
    return all(
        mode.when is not None and mode.when.calls == forward.when.calls and (held_out or _is_call_of_train(mode))
        for mode in forward.modes
    )


def _has_own_loop(forward: Forward) -> bool:
    """A step that training and evaluation share, called by a loop over held-out batches of a function of its own."""
    if forward.through is None or forward.loop is None or forward.loop.trains or forward.loop.split == "train":
        return False
    return evaluates(forward) and all(mode.place is not None for mode in forward.modes)


def _is_call_of_train(mode: Mode) -> bool:
    node = mode.place.node if mode.place is not None else None
    return isinstance(node, ast.Call) and last_name(node.func) == "train"


def _generates(forward: Forward) -> bool:
    """A loop that feeds a model its own output, in eval mode since the function began: `model.generate(prompt)`."""
    if forward.loop is None or forward.loop.trains or not forward.functions:
        return False
    named = forward.functions[-1].lower().strip("_").split("_")[0] in ("generate", "translate", "transcribe", "greedy")
    return named and all(mode.when is not None and mode.when.calls == forward.when.calls for mode in forward.modes)


def _whole(forward: Forward) -> Hashable:
    """What one `with` mends: the calls of one loop; the parts that a model's own method calls after one `eval()`."""
    node = forward.place.node
    func = node.func if isinstance(node, ast.Call) else None
    while isinstance(func, ast.Attribute):
        func = func.value
    if is_name(func, "self"):
        return frozenset(mode.place.spot for mode in forward.modes if mode.place)
    return forward.place.path, forward.place.symbol, forward.loop and forward.loop.place.spot
