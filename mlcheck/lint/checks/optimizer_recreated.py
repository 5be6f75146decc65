"""optimizer-recreated: every epoch, or every batch, makes a new optimizer for the same model."""

import ast
import itertools
from collections.abc import Hashable, Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts, Loop
from mlcheck.lint.sites import Call, Function
from mlcheck.lint.training import Optimizer

LOOKS_AT = "optimizer"
_COUNTED = pattern(r"\brange\(.*updates?\b|^updates? ")
"""A loop over the updates of an agent, each of which takes several steps."""
_RESTARTS = pattern(r"load_state_dict|deepcopy|reset|reinit|\.apply\(|init_weights|clone")


def check(facts: Facts) -> Iterator[Finding]:
    for made in facts.training.optimizers.values():
        loop = made.when.loops[-1][0] if made.when.loops else None
        if loop is None or not made.owners or not _has_state(made.place.node, made.type):
            continue
        if not made.always and not _is_made_either_way(facts, made, loop):
            continue
        if any(_age(owner) >= loop.first or _age(owner) == 0 for owner in made.owners):
            continue
        if _is_of_new_model(facts, made, loop) or _is_made_once(facts, made):
            continue
        if _is_step_of_training(facts, made, loop) and not _starts_over(facts, made, loop):
            yield _finding(made)
    yield from _left_to_a_default(facts)


def _finding(made: Optimizer) -> Finding:
    return Finding(
        f"A new `{made.type.rpartition('.')[2]}` is made in every iteration for the same model: "
        "its momentum and averages start at zero again",
        made.place.location,
        help="make the optimizer once, before the loop",
        related=(made.when.loops[-1][0].place.location,),
    )


def _has_state(node: ast.AST, kind: str) -> bool:
    """Plain SGD remembers nothing; what is not known may."""
    if not kind.endswith(".SGD"):
        return "LBFGS" not in kind
    return isinstance(node, ast.Call) and any(keyword.arg == "momentum" for keyword in node.keywords)


def _age(owner: Hashable) -> int:
    """When the module was made: identities grow with time."""
    if isinstance(owner, tuple):
        return max((_age(part) for part in owner), default=0)
    return owner if isinstance(owner, int) else 0


def _starts_over(facts: Facts, made: Optimizer, loop: Loop) -> bool:
    """Whether each turn begins with other weights: set in the loop, or in the function that it calls for a turn."""
    call = facts.sites.call_at(made.place)
    function = call.function if call is not None else None
    turn = [loop.node] if function is None or loop.node in function.nodes else [loop.node, function.node]
    return any(_RESTARTS.search(ast.unparse(node)) for node in turn)


def _is_of_new_model(facts: Facts, made: Optimizer, loop: Loop) -> bool:
    """`main()` in a loop over settings, which makes its own model: `net = build(args)`, `Adam(net.parameters())`."""
    call = facts.sites.call_at(made.place)
    function = call.function if call is not None else None
    if call is None or function is None or loop.node in function.nodes or not call.node.args:
        return False
    given = call.node.args[0]
    owner = given.func.value if isinstance(given, ast.Call) and isinstance(given.func, ast.Attribute) else None
    bindings = call.file.bindings(owner.id, call.context) if isinstance(owner, ast.Name) else []
    first = bindings[0] if bindings else None
    own = first is not None and call.file.function_around(first.context) is function
    return own and first is not None and first.kind == "value" and isinstance(first.value, ast.Call)


def _is_made_once(facts: Facts, made: Optimizer) -> bool:
    """`if model is None:`, where the model is made right there: the next turn finds it."""
    call = facts.sites.call_at(made.place)
    for outer in call.context.outwards() if call is not None else ():
        test = outer.node.test if isinstance(outer.node, ast.If) and outer.arm == "body" else None
        if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Is) and isinstance(outer.node, ast.If):
            asked = ast.unparse(test.left)
            targets = (node.targets[0] for node in outer.node.body if isinstance(node, ast.Assign))
            if any(ast.unparse(target) == asked for target in targets):
                return True
    return False


def _is_made_either_way(facts: Facts, made: Optimizer, loop: Loop) -> bool:
    """`if name == "sgd": opt = SGD(...)`, `else: opt = Adam(...)`, straight in the loop: one of them every time."""
    call = facts.sites.call_at(made.place)
    names = call.file.names_given(call.node) if call is not None else ()
    around = list(call.context.outwards()) if call is not None else []
    tests = list(itertools.takewhile(lambda outer: outer.kind == "if", around))
    if call is None or not names or not tests or around[len(tests)].node is not loop.node:
        return False
    return _is_assigned([tests[-1].node], names[0])


def _is_assigned(block: list[ast.AST] | list[ast.stmt], name: str) -> bool:
    """Whether the name certainly gets what a call makes; a branch that raises does not go on."""
    for line in block:
        match line:
            case ast.Raise():
                return True
            case ast.Assign(targets=[target], value=ast.Call()) if ast.unparse(target) == name:
                return True
            case ast.If() if _is_assigned(line.body, name) and _is_assigned(line.orelse, name):
                return True
    return False


def _is_step_of_training(facts: Facts, made: Optimizer, loop: Loop) -> bool:
    """Whether the loop runs over epochs, or is the one that trains; a loop over tasks or settings is neither."""
    steps = [step for step in facts.steps if step.key == made.key and loop in dict(step.when.loops)]
    if not steps or not isinstance(loop.node, ast.For):
        return False
    head = f"{ast.unparse(loop.node.target)} {ast.unparse(loop.node.iter)} {made.place.symbol}".lower()
    deeper = {len(step.when.loops) - len(made.when.loops) for step in steps}
    counted = _COUNTED.search(f"{ast.unparse(loop.node.target)} {ast.unparse(loop.node.iter)}".lower()) is not None
    return "epoch" in head or head.startswith("ep ") or deeper == {0} or counted


def _left_to_a_default(facts: Facts) -> Iterator[Finding]:
    """`def train_epoch(model, opt=None)` makes one where none is given, and a loop over epochs gives none."""
    for made in facts.training.optimizers.values():
        for file in facts.sites.files.values():
            if file.path != made.place.path:
                continue
            for call in file.calls(made.type.rpartition(".")[2]):
                if call.node is made.place.node and (caller := _epochs_without(facts, call)):
                    yield Finding(
                        f"`{call.function.name if call.function else ''}` makes a new optimizer whenever none is "
                        "given, and a loop over epochs gives none: momentum and averages start at zero again",
                        made.place.location,
                        help="make the optimizer once, before the loop, and hand it over",
                        related=(caller.place.location,),
                    )


def _epochs_without(facts: Facts, made: Call) -> Call | None:
    """A call in a loop over epochs that leaves the optimizer to the function's default."""
    function = made.function
    guard = next((context.node for context in made.context.outwards() if context.kind == "if"), None)
    if function is None or not isinstance(guard, ast.If) or made.loops:
        return None
    name = _parameter_that_is_none(guard.test, function)
    if not name or not _has_state(made.node, ast.unparse(made.node.func)):
        return None
    position = list(function.parameters).index(name)
    for call in facts.sites.calls_of(function) or ():
        loops = [loop.node for loop in call.loops if isinstance(loop.node, ast.For)]
        if call.argument(name, position) is None and any("epoch" in ast.unparse(loop.target) for loop in loops):
            return call
    return None


def _parameter_that_is_none(test: ast.expr, function: Function) -> str:
    """The parameter with default None that `test` asks for: `if opt is None`."""
    if isinstance(test, ast.Compare) and isinstance(test.left, ast.Name) and isinstance(test.ops[0], ast.Is):
        default = function.parameters.get(test.left.id)
        if isinstance(default, ast.Constant) and default.value is None:
            return test.left.id
    return ""
