"""recurrent-state-dropped: a model that reads its own output begins every step from the same old state."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import assigned, stores, walk
from mlcheck.lint.sites.layers.begun_states import begun_in_every_step
from mlcheck.lint.sites.layers.stateful_modules import is_stateful

LOOKS_AT = "recurrent layer"
WORDS = ("LSTM", "GRU", "RNN")
_CELLS = ("LSTMCell(", "GRUCell(", "RNNCell(")
_SPELLED = (", _ =", ", _) =")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    if not any(True for _ in facts.sites.mentioning(WORDS)):
        return
    for file in facts.sites.mentioning(_CELLS):
        for line, name in begun_in_every_step(file):
            yield Finding(
                f"`{name}` begins anew in every step: what the cell has read is forgotten",
                line.location,
                help="make it once, before the loop",
            )
    for file in facts.sites.mentioning(_SPELLED):
        for loop, context in file.walk.loops:
            for node, call in _steps(loop):
                state = call.args[1]
                if not isinstance(state, ast.Name) or stores(loop, state.id) or not is_stateful(file, call, context):
                    continue
                facts.sites.seen[LOOKS_AT] += 1
                yield Finding(
                    f"Every step starts from the `{state.id}` of before the loop: what the model has read is forgotten",
                    file.place(node, context).location,
                    help=f"keep the state that comes back: `{ast.unparse(node.targets[0]).strip('()')}` with "
                    f"`{state.id}` as the last",
                )


def _steps(loop: ast.For | ast.While) -> Iterator[tuple[ast.Assign, ast.Call]]:
    """`scores, _ = model(token, state)`, where the turn makes the next `token` of these scores."""
    lines = [line for line in walk(loop) if isinstance(line, ast.Assign)]
    for line in lines:
        target, call = line.targets[0], line.value
        if not isinstance(call, ast.Call) or len(call.args) != 2 or not isinstance(call.args[0], ast.Name):
            continue
        parts = target.elts if isinstance(target, ast.Tuple) else []
        if len(parts) == 2 and isinstance(parts[0], ast.Name) and isinstance(parts[1], ast.Name):
            if parts[1].id == "_" and call.args[0].id in _made_of(parts[0].id, lines):
                yield line, call


def _made_of(name: str, lines: list[ast.Assign]) -> set[str]:
    """The names that get, in this turn, what is computed from `name`."""
    found = {name}
    for _ in range(3):
        for target, value in (each for line in lines for each in assigned(line)):
            read = {node.id for node in walk(value) if isinstance(node, ast.Name)}
            if isinstance(target, ast.Name) and read & found:
                found.add(target.id)
    return found
