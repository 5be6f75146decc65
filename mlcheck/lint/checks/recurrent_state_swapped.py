"""recurrent-state-swapped: an LSTM's state and its memory change places from step to step."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites import Call, File
from mlcheck.lint.sites.guards import own_attribute

LOOKS_AT = "recurrent layer"
WORDS = ("LSTM",)
_LAYERS = ("torch.nn.LSTM", "torch.nn.LSTMCell")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    for file in facts.sites.files.values() if any(facts.sites.mentioning(WORDS)) else ():
        for function in file.functions:
            for node in function.all(ast.Assign):
                if not isinstance(node.value, ast.Call):
                    continue
                call = Call(file, node.value, function.inner)
                given = call.argument("hx", 1)
                if not isinstance(given, ast.Tuple) or len(given.elts) != 2:
                    continue
                kind = _layer(file, call)
                taken = _state(node.targets[0], kind)
                if not kind or len(taken) != 2:
                    continue
                facts.sites.seen[LOOKS_AT] += 1
                before, after = [ast.unparse(part) for part in given.elts], [ast.unparse(part) for part in taken]
                if before == after[::-1] and before != after:
                    yield Finding(
                        f"The layer takes and returns (state, memory): `{before[0]}` and `{before[1]}` change places "
                        "in every step",
                        file.place(node, function.inner).location,
                        help="one order on both sides: `h, c = cell(x, (h, c))`",
                    )


def _layer(file: File, call: Call) -> str:
    """`LSTM` or `LSTMCell`, where the call is certainly of one."""
    name = own_attribute(call.node.func, call.function)
    if name:
        sets = call.cls.attribute(name) if call.cls is not None else []
        made = [where.file.called(assigned.value, assigned.context) for where, assigned in sets if assigned.value]
    else:
        made = [file.called(*file.value(call.node.func, call.context))]
    return made[0].rpartition(".")[2] if len(made) == 1 and made[0] in _LAYERS else ""


def _state(target: ast.expr, kind: str) -> list[ast.expr]:
    """`h, c` of `h, c = cell(...)` and of `out, (h, c) = lstm(...)`."""
    parts = target.elts if isinstance(target, ast.Tuple | ast.List) else []
    if kind == "LSTM" and len(parts) == 2:
        parts = parts[1].elts if isinstance(parts[1], ast.Tuple | ast.List) else []
    return parts
