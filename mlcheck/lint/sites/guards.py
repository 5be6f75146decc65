"""What stands around a call: conditions, and the forward pass it is a part of."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import last_name, walk
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.layers.modules import is_module
from mlcheck.lint.sites.model import Call, Function
from mlcheck.lint.sites.scopes import Context

if TYPE_CHECKING:
    from mlcheck.lint.sites.file import File

_TRAINING = pattern(r"\b(?:is_|self\.)?train(?:ing|_mode)?\b|\beval\b|\bdeterministic\b|\binference\b")


def conditions(context: Context) -> list[ast.expr]:
    """The tests of the `if`s around a place, up to its function, innermost first."""
    found = []
    for outer in context.outwards():
        if outer.kind in ("function", "lambda", "class"):
            break
        if isinstance(outer.node, ast.If):
            found.append(outer.node.test)
    return found


def told_conditions(file: File, context: Context) -> list[ast.expr]:
    """As `conditions`; of `if wanted:` what `wanted` was last assigned."""
    return [source(file, test, context)[0] for test in conditions(context)]


def asked_alike(one: Call | None, other: Call | None) -> bool:
    """Whether both stand under tests for words, of one name or for one word: `kind == "a"`, `kind in ("b", "c")`."""
    asked = [_asked_for_words(call.context) for call in (one, other) if call is not None]
    return len(asked) == 2 and not asked[0].isdisjoint(asked[1])


def _asked_for_words(context: Context) -> set[str]:
    """The names that the tests around a place compare with words, and these words."""
    found = set()
    for test in (node for asked in conditions(context) for node in walk(asked) if isinstance(node, ast.Compare)):
        said = [node.value for side in test.comparators for node in walk(side) if isinstance(node, ast.Constant)]
        if said and all(isinstance(word, str) for word in said):
            found |= {last_name(test.left), *map(repr, said)}
    return found - {""}


def on_failure(context: Context) -> bool:
    """Whether it stands in an `except` block: what runs out of memory, not what runs in every turn."""
    return any(outer.kind == "try" and outer.arm == "handler" for outer in context.outwards())


def asks_mode(node: ast.AST) -> bool:
    """Whether an expression mentions the mode: `self.training`, `not training`, `is_train`."""
    return _TRAINING.search(ast.unparse(node)) is not None


def in_branch_of_mode(call: Call) -> bool:
    return any(asks_mode(test) for test in conditions(call.context))


def only_where_asked(function: Function, node: ast.AST) -> bool:
    """Whether it stands under `if noise > 0:` or `if perturb:`, of a parameter that is off unless a caller asks."""
    defaults = function.parameters.items()
    off = {name for name, default in defaults if isinstance(default, ast.Constant) and not default.value}
    branches = [branch for branch in function.nodes if off and isinstance(branch, ast.If) and _asks(branch.test, off)]
    return any(part is node for branch in branches for line in branch.body for part in walk(line))


def _asks(test: ast.expr, names: set[str]) -> bool:
    if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Gt | ast.NotEq | ast.IsNot):
        test = test.left
    return isinstance(test, ast.Name) and test.id in names


def in_forward(call: Call) -> Function | None:
    """The forward pass of an `nn.Module` that a call stands in: `forward`, or a method only other methods call."""
    function = call.function
    if function is None or function.cls is None or not is_module(function.cls):
        return None
    return function if function.name == "forward" or _is_part_of_forward(function) else None


def _is_part_of_forward(function: Function) -> bool:
    """A method that `forward` calls, its own or one that it inherits, and `__init__` does not."""
    cls = function.cls
    assert cls is not None
    methods = {name: method for base in reversed(cls.line) for name, method in base.methods.items()}
    called = {
        name: f"self.{function.name}(" in methods[name].text for name in ("forward", "__init__") if name in methods
    }
    return called.get("forward", False) and not called.get("__init__", False)


def own_attribute(node: ast.expr | None, function: Function | None) -> str:
    """`x` of `self.x`; "" for anything else."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and function is not None:
        return node.attr if node.value.id == function.receiver else ""
    return ""
