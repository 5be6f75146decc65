"""missing-zero-grad: a step takes gradients that an earlier step has already used."""

import ast
import re
from collections.abc import Iterator
from itertools import chain

from mlcheck.core.finding import Finding, first_of_each_line
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import last_name, stores, walk
from mlcheck.lint.sites import Call, Class, Function, Sites
from mlcheck.lint.sites.training.optimizers import optimizers
from mlcheck.lint.sites.training.written_steps import never_cleared

LOOKS_AT = "optimizer step"
_HARMLESS = r"(?!\s*=[^=]|\.step\(\)|\.(?:load_)?state_dict\(|\.param_groups)"
_CLEARS = pattern(
    r"zero_?grad|clear_?grad|\.grad\s*=|\.grad\S*\.(?:fill_|mul_|set_)|autograd\.grad|_foreach_zero_|zero_\(|\bdel\b"
)
_PLAIN_BASES = frozenset(["torch.nn.Module", "abc.ABC", "builtins.object", "object"])


def check(facts: Facts) -> Iterator[Finding]:
    written = (finding for made in facts.sites.once(optimizers) for finding in _never_cleared(facts.sites, made))
    seen = list(_seen(facts))
    steps = {finding.related for finding in seen}
    turns = (finding for finding in _in_turns(facts.sites) if finding.related not in steps)
    yield from first_of_each_line(chain(seen, written, turns, _by_hand(facts.sites)))


def _in_turns(sites: Sites) -> Iterator[Finding]:
    for backward, step in never_cleared(sites):
        name = ast.unparse(step.node.func).removesuffix(".step")
        yield Finding(
            f"This backward adds to gradients that `{name}` has already used in a step: nothing clears them",
            backward.place.location,
            help=f"call `{name}.zero_grad()` for every step, before this backward",
            related=(step.place.location,),
        )


def _by_hand(sites: Sites) -> Iterator[Finding]:
    """`loss.backward()` and `w -= lr * w.grad` in one loop, in which nothing clears any gradient."""
    for file in sites.mentioning([".grad"]):
        for call in file.calls("backward") if "torch" in file.text else ():
            loop = call.loops[0].node if call.loops else None
            if not isinstance(loop, ast.stmt) or _CLEARS.search(file.module.text_of(loop)):
                continue
            inside = walk(loop)
            updated = next((node for node in inside if _steps_along_gradient(node)), None)
            name = last_name(_updated(updated)) if updated is not None else ""
            if updated is None or any(isinstance(node, ast.Assign) and stores(node, name) for node in inside):
                continue
            called = [call.file.resolve(node.func, call.context) for node in inside if isinstance(node, ast.Call)]
            if any(isinstance(each, Function) and _CLEARS.search(each.text) for each in called):
                continue
            yield Finding(
                "This backward adds to gradients that the previous iteration has used: nothing clears them",
                call.place.location,
                help="clear them after the update: `w.grad = None` for each parameter",
                related=(file.place(updated, call.context).location,),
            )


def _steps_along_gradient(node: ast.AST) -> bool:
    """`w -= lr * w.grad`, `w.data.sub_(lr * w.grad)`, `w.add_(w.grad, alpha=-lr)`, `w.data = w - lr * w.grad`."""
    target = _updated(node)
    name = ast.unparse(target) if target is not None else ""
    given: list[ast.expr] = []
    if isinstance(node, ast.Assign) or (isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Sub | ast.Add)):
        given = [node.value]
    elif isinstance(node, ast.Call):
        given = node.args
    return bool(name) and any(ast.unparse(part) == f"{name}.grad" for each in given for part in walk(each))


def _updated(node: ast.AST) -> ast.expr | None:
    """The variable that is changed in place."""
    target: ast.expr | None = None
    if isinstance(node, ast.AugAssign):
        target = node.target
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("sub_", "add_"):
        target = node.func.value
    elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute) and node.targets[0].attr == "data":
        target = node.targets[0]
    if isinstance(target, ast.Attribute) and target.attr == "data":
        target = target.value
    return target if isinstance(target, ast.Name) else None


def _never_cleared(sites: Sites, made: Call) -> Iterator[Finding]:
    """An optimizer that a class keeps and steps, while everything that is cleared anywhere is another of its own."""
    cls, names = made.cls, made.file.names_given(made.node)
    if cls is None or len(names) != 1 or not cls.libraries <= _PLAIN_BASES or names[0] not in _optimizers_of(cls):
        return
    other_use = re.compile(rf"\.{re.escape(names[0])}\b{_HARMLESS}")
    if ".grad" in made.file.text or any(
        other_use.search(f.text) for f in sites.mentioning([f".{names[0]}"], tests=True)
    ):
        return
    if not all(_is_of_another(call, cls, names[0]) for call in _clearings(sites)):
        return
    for method in cls.methods.values():
        calls = [call for call in made.file.calls("backward", "step") if call.function is method]
        steps = [c.node.lineno for c in calls if ast.unparse(c.node.func) == f"{method.receiver}.{names[0]}.step"]
        backward = next((c for c in calls if ast.unparse(c.node.func).endswith(".backward")), None)
        if backward is not None and any(line >= backward.node.lineno for line in steps):
            yield Finding(
                f"This backward adds to gradients that `{names[0]}` has already used in a step: nothing clears them",
                backward.place.location,
                help=f"call `{method.receiver}.{names[0]}.zero_grad()` for every step, before this backward",
                related=(made.place.location,),
            )


def _optimizers_of(cls: Class) -> set[str]:
    """The attributes that are set once, to one of torch's optimizers."""
    found = set()
    for name, assigned in cls.attributes.items():
        function, first = assigned[0]
        named = function.file.resolve(getattr(first.value, "func", None), first.context)
        if len(assigned) == 1 and isinstance(named, str) and named.startswith("torch.optim."):
            found.add(name)
    return found


def _clearings(sites: Sites) -> Iterator[Call]:
    for file in sites.mentioning(["zero_grad"], tests=True):
        yield from file.calls("zero_grad")


def _is_of_another(clearing: Call, cls: Class, name: str) -> bool:
    func = clearing.node.func
    owner = func.value if isinstance(func, ast.Attribute) else None
    if clearing.cls is not cls or not isinstance(owner, ast.Attribute) or not isinstance(owner.value, ast.Name):
        return False
    return owner.attr != name and owner.attr in _optimizers_of(cls)


def _seen(facts: Facts) -> Iterator[Finding]:
    for step in facts.steps:
        for grads in step.grads:
            if grads.kind == "stale" and grads.place is not None:
                name = f"`{step.optimizer}`" if step.optimizer else "the optimizer"
                yield Finding(
                    f"This backward adds to gradients that {name} has already used in a step: nothing clears them",
                    grads.place.location,
                    help=f"call `{step.optimizer or 'optimizer'}.zero_grad()` for every step, before this backward",
                    related=(step.place.location,),
                )
