"""States of recurrent cells that begin at zero in every step of a loop, and not once before it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.lint.facts import Place
from mlcheck.lint.nodes import assigned, last_name, walk
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.guards import own_attribute
from mlcheck.lint.sites.model import Function

_CELLS = ("torch.nn.LSTMCell", "torch.nn.GRUCell", "torch.nn.RNNCell")
_ZEROS = ("zeros", "new_zeros", "zeros_like")


def begun_in_every_step(file: File) -> Iterator[tuple[Place, str]]:
    """`for x in xs: h = torch.zeros(b, n); h = self.cell(x, h)`: where it begins, and its name."""
    for function in file.functions:
        for loop in function.all(ast.For) if function.cls is not None else ():
            lines = [line for line in loop.body if isinstance(line, ast.Assign)]
            begun = {
                target.id: line
                for line in lines
                for target, value in assigned(line)
                if isinstance(target, ast.Name) and isinstance(value, ast.Call) and last_name(value.func) in _ZEROS
            }
            for line in lines if begun else ():
                name = _stepped(function, line, begun)
                if name:
                    yield function.place(begun[name]), name
                    break


def _stepped(function: Function, line: ast.Assign, begun: dict[str, ast.Assign]) -> str:
    """The state that the cell is given and gives back: `h` of `h = self.cell(x, h)`."""
    call = line.value
    name = own_attribute(call.func, function) if isinstance(call, ast.Call) else ""
    sets = function.cls.attribute(name) if name and function.cls is not None else []
    made = [where.file.called(each.value, each.context) for where, each in sets if each.value is not None]
    if not isinstance(call, ast.Call) or len(made) != 1 or made[0] not in _CELLS:
        return ""
    given = {part.id for arg in call.args[1:] for part in walk(arg) if isinstance(part, ast.Name)}
    back = {part.id for part in walk(line.targets[0]) if isinstance(part, ast.Name)}
    found = [each for each in begun if each in given & back and begun[each].lineno < line.lineno]
    return found[0] if found else ""
