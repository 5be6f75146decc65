"""Averaged weights that are put into the model for a while: what keeps the model's own, and what gives them back."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import last_name, reads_of, stores_of, walk
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.model import Call, Class, Function
from mlcheck.lint.sites.origins import callers
from mlcheck.lint.sites.project import Sites

_WRITES = pattern(r"\.copy_\(|\.data = |load_state_dict\(")
_TRAINS = ("backward", "manual_backward")
_DEPTH = 2
_OTHERS = ("getattr(", "__exit__", "contextmanager")


def never_given_back(sites: Sites) -> Iterator[Finding]:
    """A call in a training loop that swaps the average in, of a class whose method that swaps it out nobody calls."""
    found = (cls for file in sites.mentioning(["parameters()"]) for cls in file.classes)  # it may import no torch
    for cls in found:
        text = cls.text
        if "parameters()" not in text or any(word in text for word in _OTHERS):
            continue
        for swap, back, name in _pairs(cls):
            if _is_asked_for(sites, back.name):
                continue
            for file in sites.mentioning([f".{swap.name}("]):
                for call in file.calls(swap.name):
                    if call.cls is not cls and name not in _without(file, cls) and _goes_on_training(call):
                        yield Finding(
                            f"`{swap.name}` puts the average into the model, and nothing calls `{back.name}`: "
                            "training goes on from it",
                            call.place.location,
                            help=f"call `{back.name}` after the evaluation",
                            related=(back.place().location,),
                        )


def _pairs(cls: Class) -> Iterator[tuple[Function, Function, str]]:
    """Two methods that write weights: one keeps them in `self.backup` first, the other takes them from there."""
    writes = [method for method in cls.methods.values() if _WRITES.search(method.text)]
    for swap in writes:
        for name in _kept(swap):
            for back in writes:
                if back is not swap and name not in _kept(back) and _reads(back, name):
                    yield swap, back, name


def _kept(method: Function) -> set[str]:
    """`backup` of `self.backup[name] = p.data.clone()` and `self.backup = {...}`, which the method does not read."""
    found = set()
    for node in method.nodes:
        target = node.targets[0] if isinstance(node, ast.Assign) else None
        filled = isinstance(target, ast.Subscript)
        owner = target.value if isinstance(target, ast.Subscript) else target
        if isinstance(node, ast.Assign) and isinstance(owner, ast.Attribute) and ast.unparse(owner.value) == "self":
            if (filled or isinstance(node.value, ast.DictComp)) and _outlives(node.value, method):
                found.add(owner.attr)
    return {name for name in found if not _reads(method, name)}


def _outlives(kept: ast.expr, method: Function) -> bool:
    """`p.data.clone()`; `p.data` too, where the method gives the parameter another storage: `p.data = average`."""
    return "clone" in ast.unparse(kept) or (last_name(kept) == "data" and ".data = " in method.text)


def _reads(method: Function, name: str) -> bool:
    """Whether entries of `self.name` are read."""
    return any(
        isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) and ast.unparse(node.value) == f"self.{name}"
        for node in method.nodes
    )


def _is_asked_for(sites: Sites, method: str) -> bool:
    """`ema.restore`, or its name as a string."""
    asked = re.compile(rf"[.\"']{method}\b")
    return any(asked.search(file.text) for file in sites.mentioning([method], tests=True))


def _without(file: File, cls: Class) -> str:
    """The text of a file but for that class."""
    return file.text.replace(cls.text, "") if cls.file is file else file.text


def kept_for_nothing(sites: Sites) -> Iterator[Finding]:
    """`own = deepcopy(model.state_dict())`, `model.load_state_dict(average)`, and nothing loads `own` again."""
    for file in sites.mentioning(["load_state_dict"]):
        for load in file.calls("load_state_dict") if "copy" in file.text or "clone" in file.text else ():
            function, model = load.function, load.owner
            if function is None or model is None:
                continue
            for node in function.all(ast.Assign):
                name = node.targets[0].id if isinstance(node.targets[0], ast.Name) else ""
                if not name or node.lineno > load.node.lineno or not _copies(node.value, ast.unparse(model)):
                    continue
                if len(stores_of(function.nodes, name)) == 1 and not reads_of(function.nodes, name):
                    if not function.inner.scope.globals and _goes_on_training(load):
                        yield Finding(
                            f"`{ast.unparse(model)}` gets other weights here, its own are kept in `{name}`, "
                            "and nothing puts them back: training goes on from the others",
                            load.place.location,
                            help=f"`{ast.unparse(model)}.load_state_dict({name})` after the evaluation",
                            related=(function.place(node).location,),
                        )


def _copies(value: ast.expr, model: str) -> bool:
    """`copy.deepcopy(model.state_dict())`, `{k: v.clone() for k, v in model.state_dict().items()}`."""
    text = ast.unparse(value)
    taken = f"{model}.state_dict()" in text or f"{model}.named_parameters()" in text
    return taken and ("copy(" in text or "clone(" in text)


def _goes_on_training(call: Call, depth: int = _DEPTH) -> bool:
    """Whether a loop around the call trains as well, itself or by what it calls, here or where this is called."""
    if _is_called_last(call):
        return False
    for loop in call.loops:
        inside = walk(loop.node)
        if any(isinstance(node, ast.Attribute) and node.attr in _TRAINS for node in inside):
            return True
        for node in inside:
            named = call.file.resolve(node.func, loop) if isinstance(node, ast.Call) and node is not call.node else None
            if isinstance(named, Function) and named is not call.function and _trains(named):
                return True
    if depth == 0 or call.function is None:
        return False
    return any(_goes_on_training(outer, depth - 1) for outer in callers(call.file.sites, call.function))


def _trains(function: Function) -> bool:
    return any(f".{word}(" in function.text for word in _TRAINS)


def _is_called_last(call: Call) -> bool:
    """Whether the branch that it stands in leaves the loop: `if stopped: swap(); break`."""
    around = [outer.node for outer in call.context.outwards() if isinstance(outer.node, ast.If)]
    return any(isinstance(node, ast.Break | ast.Return) for test in around for node in walk(test))
