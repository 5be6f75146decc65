"""States that a module carries from one batch to the next, with the graph they were computed in."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import walk
from mlcheck.lint.sites.guards import own_attribute
from mlcheck.lint.sites.latest import origin
from mlcheck.lint.sites.layers.modules import MODULE, holds_parameters
from mlcheck.lint.sites.model import Call, Class, Function
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.scopes import AttributeSet

_LETS_GO = pattern(r"detach|\.data\b|no_grad|inference_mode|repackage")
_LETS_GO_OUTSIDE = pattern(r"detach|\.data\b|repackage")
"""An evaluation without gradients, elsewhere in the program, is no such thing."""
_FRESH = ("zeros", "zeros_like", "new_zeros")


def carried(cls: Class) -> Iterator[tuple[Function, AttributeSet, str]]:
    """`self.h = torch.relu(self.cell(self.h))` in `forward`, where nothing cuts it off and no batch begins anew."""
    forward = cls.methods.get("forward")
    if forward is None or cls.libraries != {MODULE} or _LETS_GO.search(cls.text):
        return
    for name, sets in cls.attributes.items():
        inside = [assigned for function, assigned in sets if function is forward]
        if not inside or not any(function.name == "__init__" for function, _ in sets):
            continue
        others = [(function, assigned) for function, assigned in sets if function is not forward]
        if not all(assigned.value is not None and _is_fresh(assigned.value) for _, assigned in others):
            continue
        first, last = inside[0], inside[-1]
        if not _reads_itself(cls, first, name) or not all(_is_plain(each, forward) for each in inside):
            continue
        if any(_is_learned(cls, forward, each) for each in inside) and not _begins_anew(cls, name, others):
            yield forward, last, name


def _is_fresh(value: ast.expr) -> bool:
    """`0`, `None`, `torch.zeros(...)`."""
    made = value.func.attr if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) else ""
    return made in _FRESH or (isinstance(value, ast.Constant) and value.value in (None, 0, 0.0))


def _computed(cls: Class, assigned: AttributeSet) -> list[ast.AST]:
    """All that the new state is computed of, also where `y, state = self.rnn(x, self.state)` stands above it."""
    value = assigned.value if assigned.value is not None else assigned.unpacked
    return list(walk(origin(cls.file, value, assigned.context)[0])) if value is not None else []


def _reads_itself(cls: Class, assigned: AttributeSet, name: str) -> bool:
    return any(ast.unparse(node) == f"self.{name}" for node in _computed(cls, assigned))


def _is_plain(assigned: AttributeSet, forward: Function) -> bool:
    """Whether it is assigned under no condition."""
    around = (outer for outer in assigned.context.outwards() if outer.kind not in ("loop", "with"))
    return next(around).node is forward.node


def _is_learned(cls: Class, forward: Function, assigned: AttributeSet) -> bool:
    """Whether a layer with parameters of the class takes part in it."""
    for node in _computed(cls, assigned):
        sets = cls.attribute(own_attribute(node.func, forward)) if isinstance(node, ast.Call) else []
        made = sets[0][1].value if len(sets) == 1 else None
        if made is not None and holds_parameters(sets[0][0].file, made, sets[0][1].context):
            return True
    return False


def _begins_anew(cls: Class, name: str, others: list[tuple[Function, AttributeSet]]) -> bool:
    """Whether anybody else touches the state, or may reset it before each batch: in a loop that runs a backward."""
    sites, resets = cls.file.sites, {function.name for function, _ in others if function.name != "__init__"}
    word = re.compile(rf"\.{re.escape(name)}\b|[\"']{re.escape(name)}[\"']")
    spoken = sum(len(word.findall(file.text)) for file in sites.mentioning([name], tests=True))
    if spoken > len(word.findall(cls.text)):
        return True
    return any(_may_be_called_per_batch(sites, reset) for reset in resets)


def _may_be_called_per_batch(sites: Sites, reset: str) -> bool:
    """Whether one of the calls may be; where none is seen, they are elsewhere."""
    calls = [call for file in sites.mentioning([f".{reset}("], tests=True) for call in file.calls(reset)]
    return not calls or any(
        _LETS_GO_OUTSIDE.search(call.file.text) or not _stands_above_batches(call, call.file.calls("backward"))
        for call in calls
    )


def _stands_above_batches(call: Call, backwards: list[Call]) -> bool:
    """Whether a loop over batches follows: in the loop over epochs, or in a function that only evaluates."""
    if any(other.loops[0] in call.loops for other in backwards if other.loops):
        return False
    if call.loops and all(other.loops for other in backwards):
        return True
    if not call.loops and (call.function is None or "backward" in call.function.text):
        return False
    inside = walk(call.loops[0].node if call.loops or call.function is None else call.function.node)
    return any(isinstance(node, ast.For) and node.lineno > call.node.lineno for node in inside)
