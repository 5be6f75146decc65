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
from mlcheck.lint.sites.model import Function, Named
from mlcheck.lint.sites.records import made_of
from mlcheck.lint.sites.returning import returns
from mlcheck.lint.sites.scopes import Context

_PATHWISE = frozenset(
    f"torch.distributions.{name}" for name in ("Normal", "LogNormal", "Laplace", "MultivariateNormal", "Independent")
)
_OFF = ("no_grad", "inference_mode")
_CHOICES = ("rsample", ".training", "detach(")
_STEPS = 6


class Drawn(NamedTuple):
    """A call that draws, the function it stands in, what describes the distribution and where, and its name."""

    call: ast.Call
    function: Function
    parameters: tuple[ast.expr, ...]
    described: Function
    distribution: ast.expr | None

    @property
    def is_learnt(self) -> bool:
        """Whether layers compute what describes the distribution."""
        return any(is_learnt(self.described.file, self.described, each) for each in self.parameters)

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
        parameters, described = _parameters(function, call.node, call.context)
        if parameters:
            of = call.owner if last_name(call.node.func) == "sample" else None
            yield Drawn(call.node, function, parameters, described, of)


def _parameters(function: Function, call: ast.Call, context: Context) -> tuple[tuple[ast.expr, ...], Function]:
    """`mu, std` of a draw from a distribution that could pass gradients on; nothing for any other call.

    With the function that they stand in: a method, or another module, may return the distribution.
    """
    file = function.file
    if last_name(call.func) == "normal":
        named = file.resolve(call.func, context)
        return (tuple(call.args) if named == "torch.normal" and len(call.args) == 2 else ()), function
    made = call.func.value if isinstance(call.func, ast.Attribute) else None
    for _ in range(_STEPS):
        made, context = origin(function.file, made, context) if made is not None else (None, context)
        if not isinstance(made, ast.Call):
            break
        asked = _asked(function.file, made, context)
        if isinstance(asked, Function):
            answers = list(returns(asked))
            function, made, context = asked, answers[0] if len(answers) == 1 else None, asked.inner
        elif not isinstance(asked, str) or _short(asked) not in _PATHWISE:
            break
        elif not asked.endswith(".Independent"):
            return (*made.args, *(word.value for word in made.keywords)), function
        else:
            made = made.args[0] if made.args else None
    return (), function


def _asked(file: File, call: ast.Call, context: Context) -> Named:
    """What is called; of a module of the project, its forward pass."""
    named = file.resolve(call.func, context)
    cls = made_of(file, call.func, context) if named is None else None
    return cls.find("forward") if cls is not None else named


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
