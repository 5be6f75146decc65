"""What is drawn from a distribution that a network describes, in a way that no gradient passes."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.names import canonical
from mlcheck.lint.nodes import last_name, loads, walk
from mlcheck.lint.sites.evaluation.without_gradients import blocks_without
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.latest import origin
from mlcheck.lint.sites.model import Function
from mlcheck.lint.sites.scopes import Context

_PATHWISE = frozenset(
    f"torch.distributions.{name}" for name in ("Normal", "LogNormal", "Laplace", "MultivariateNormal", "Independent")
)
_OFF = ("no_grad", "inference_mode")
_CHOICES = ("rsample", ".training", "detach(")
_STEPS = 6


class Drawn(NamedTuple):
    """A call that draws, the function it stands in, what describes the distribution, and the distribution's name."""

    call: ast.Call
    function: Function
    parameters: tuple[ast.expr, ...]
    distribution: ast.expr | None

    @property
    def name(self) -> str:
        """The variable that holds what was drawn."""
        for node in self.function.all(ast.Assign):
            if node.value is self.call and isinstance(node.targets[0], ast.Name):
                return node.targets[0].id
        return ""


def drawn(file: File) -> Iterator[Drawn]:
    """`Normal(mu, std).sample()` and `torch.normal(mu, std)` where gradients are on, and nothing else is offered."""
    for call in file.calls("sample", "normal"):
        function = call.function
        if function is None or call.loops or any(word in function.text for word in _CHOICES):
            continue
        if any(word in ast.unparse(each) for each in function.node.decorator_list for word in _OFF):
            continue
        if call.node in set(blocks_without(function.nodes)):
            continue
        parameters = _parameters(file, call.node, call.context)
        if parameters:
            yield Drawn(call.node, function, parameters, call.owner if last_name(call.node.func) == "sample" else None)


def _parameters(file: File, call: ast.Call, context: Context) -> tuple[ast.expr, ...]:
    """`mu, std` of a draw from a distribution that could pass gradients on; nothing for any other call."""
    if last_name(call.func) == "normal":
        named = file.resolve(call.func, context)
        return tuple(call.args) if named == "torch.normal" and len(call.args) == 2 else ()
    made = call.func.value if isinstance(call.func, ast.Attribute) else None
    for _ in range(_STEPS if made is not None else 0):
        assert made is not None
        made, context = origin(file, made, context)
        named = file.resolve(made.func, context) if isinstance(made, ast.Call) else None
        if not isinstance(made, ast.Call) or not isinstance(named, str) or _short(named) not in _PATHWISE:
            return ()
        if not named.endswith(".Independent"):
            return (*made.args, *(word.value for word in made.keywords))
        made = made.args[0] if made.args else None
        if made is None:
            return ()
    return ()


def _short(name: str) -> str:
    """`torch.distributions.Normal` of `torch.distributions.normal.Normal`."""
    parts = canonical(name).split(".")
    return ".".join([*parts[:2], parts[-1]])


def is_learnt(file: File, function: Function, given: ast.expr) -> bool:
    """Whether a layer of the object computes it here: `self.mu(h)`, `self.encode(x)`, through local names."""
    todo, seen = [given], set[int]()
    while todo and len(seen) < 40:
        node = todo.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        for part in walk(node):
            func = part.func if isinstance(part, ast.Call) else None
            if isinstance(func, ast.Attribute) and last_name(func.value) == function.receiver != "":
                return True
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load):
                made, _ = origin(file, part, function.inner)
                if made is not part:
                    todo.append(made)
    return False


def given_on(function: Function, name: str) -> Iterator[ast.Call]:
    """The calls of the object's own layers and methods that get the variable: `self.decoder(z)`."""
    for node in function.all(ast.Call):
        func = node.func
        if isinstance(func, ast.Attribute) and last_name(func.value) == function.receiver != "":
            if any(loads(arg, name) for arg in node.args):
                yield node
