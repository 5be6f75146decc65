"""best-state-alias: the best weights are kept as a state dict that changes with the model."""

import ast
import re
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import is_name, own_nodes, stores, walk
from mlcheck.lint.rereading import read_later
from mlcheck.lint.sites import Class, File, Function, Sites
from mlcheck.lint.sites.guards import own_attribute
from mlcheck.lint.sites.origins import Origin, callers, given, origins
from mlcheck.lint.sites.weights.listed import listed
from mlcheck.lint.sites.weights.saved_twice import written_over
from mlcheck.lint.training import Snapshot

LOOKS_AT = "kept model"
_TRAINS = pattern(r"\.step\(|\btrain\w*\(|\bfit\w*\(")
_EXCHANGES = pattern(r"\.data(?<!self\.data)\s*=[^=]")
"""Weights that get another storage leave the one that was kept as it was."""
_WHY = "`state_dict()` shares its memory with the model: what is kept here changes with every further step"


def check(facts: Facts) -> Iterator[Finding]:
    yield from written_over(facts.sites)
    facts.sites.seen[LOOKS_AT] = len(facts.training.snapshots) + sum(1 for _ in facts.sites.calls("copy.deepcopy"))
    yield from _loaded_again(facts)
    yield from _kept_in_table(facts)
    yield from _kept_in_own_table(facts)
    yield from _kept_above_loop(facts)
    yield from _put_back(facts)
    for kept in listed(facts.sites):
        if kept.is_state:
            yield Finding(_WHY, kept.place.location, help="keep a copy: `copy.deepcopy(model.state_dict())`")
    for snapshot in facts.training.snapshots:
        told = snapshot.kind == "state" and snapshot.trained_on and not _is_moved_at_once(snapshot)
        if told and read_later(facts, snapshot):
            yield Finding(
                _WHY,
                snapshot.place.location,
                help="keep a copy: `copy.deepcopy(model.state_dict())`, or save it to a file at once",
            )


def _is_moved_at_once(snapshot: Snapshot) -> bool:
    """`for key in best: best[key] = best[key].cpu()`: each entry gives way to what a call makes of it.

    Or `best.update({key: value.clone() for key, value in best.items()})`.
    """
    target, nodes = ast.unparse(snapshot.target), walk(snapshot.within)
    loops = [node for node in nodes if isinstance(node, ast.For)]
    lines = [node for loop in loops for node in walk(loop) if isinstance(node, ast.Assign)]
    into = [line.targets[0] for line in lines if isinstance(line.value, ast.Call)]
    if any(isinstance(each, ast.Subscript) and ast.unparse(each.value) == target for each in into):
        return True
    calls = [node for node in nodes if isinstance(node, ast.Call) and ast.unparse(node.func) == f"{target}.update"]
    given = [call.args[0] for call in calls if call.args]
    return any(isinstance(each, ast.DictComp) and isinstance(each.value, ast.Call) for each in given)


def _loaded_again(facts: Facts) -> Iterator[Finding]:
    """`self.best = self.model.state_dict()`, and later `self.model.load_state_dict(self.best)`: one and the same."""
    texts = [file.text for file in facts.sites.mentioning(["load_state_dict"])]
    exchanging = [file for file in facts.sites.mentioning([".data"]) if _EXCHANGES.search(file.text)]
    for cls in facts.sites.classes if texts else ():
        if ".state_dict()" not in cls.file.text or ".state_dict()" not in cls.text:
            continue
        if _is_exchanged(cls, exchanging):
            continue
        for name, sets in cls.attributes.items():
            values = [assigned.value for _, assigned in sets]
            kept = [value for value in values if not (isinstance(value, ast.Constant) and value.value is None)]
            if len(kept) != 1 or not isinstance(kept[0], ast.Call) or kept[0].args:
                continue
            func = kept[0].func
            if not isinstance(func, ast.Attribute) or func.attr != "state_dict":
                continue
            owner = ast.unparse(func.value)
            loaded = re.compile(rf"(?<![\w.]){re.escape(owner)}\.load_state_dict\(\s*self\.{re.escape(name)}\s*[,)]")
            if owner.startswith("self.") and any(map(loaded.search, texts)) and not _is_another(cls, owner, name):
                function = next(function for function, assigned in sets if assigned.value is kept[0])
                yield Finding(
                    _WHY,
                    function.place(kept[0]).location,
                    help="keep a copy: `copy.deepcopy(model.state_dict())`, or save it to a file at once",
                )


def _is_exchanged(cls: Class, exchanging: list[File]) -> bool:
    """Whether what changes the weights, here or in a file that this one imports, gives them another storage."""
    own = {base.file.path for base in cls.line}
    reached = own.union(*(base.file.imports for base in cls.line))
    near = [file for file in exchanging if file.path in reached]
    return bool(near) and not any(file.calls("step") for file in near) and not cls.file.calls("step")


def _kept_in_table(facts: Facts) -> Iterator[Finding]:
    """`best["weights"] = model.state_dict()` in a loop, and `model.load_state_dict(best["weights"])` behind it."""
    for file in facts.sites.mentioning(["load_state_dict"]):
        for call in file.calls("load_state_dict"):
            given = call.argument("state_dict", 0)
            if not isinstance(given, ast.Subscript) or not isinstance(given.value, ast.Name):
                continue
            if not isinstance(given.slice, ast.Constant) or not isinstance(call.node.func, ast.Attribute):
                continue
            model = call.node.func.value
            for loop in own_nodes(call.function.node if call.function else file.module.source.tree):
                if not isinstance(loop, ast.For | ast.While) or (loop.end_lineno or 0) >= call.node.lineno:
                    continue
                trains = _TRAINS.search(file.module.text_of(loop)) is not None
                kept = next((node for node in walk(loop) if _keeps(node, given, ast.unparse(model))), None)
                root = ast.unparse(model).partition(".")[0]
                if kept is not None and trains and (root == "self" or not stores(loop, root)):
                    yield Finding(
                        _WHY,
                        file.place(kept, call.context).location,
                        help="keep a copy: `copy.deepcopy(model.state_dict())`, or save it to a file at once",
                        related=(call.place.location,),
                    )


def _kept_in_own_table(facts: Facts) -> Iterator[Finding]:
    """`self.best["weights"] = net.state_dict()` in one method, and in another it is loaded into `net` again."""
    for file in facts.sites.mentioning(["load_state_dict"]):
        for call in file.calls("load_state_dict"):
            given, back = call.argument("state_dict", 0), call.function
            if not isinstance(given, ast.Subscript) or not isinstance(given.slice, ast.Constant) or back is None:
                continue
            model, cls = call.owner, back.cls
            if not own_attribute(given.value, back) or not isinstance(model, ast.Name) or cls is None:
                continue
            for method in (each for each in cls.methods.values() if each is not back):
                kept = next((node for node in method.nodes if _keeps(node, given, model.id)), None)
                if kept is not None and _is_same_model(facts.sites, method, back, model.id):
                    yield Finding(
                        _WHY,
                        method.place(kept).location,
                        help="keep a copy: `copy.deepcopy(model.state_dict())`, or save it to a file at once",
                        related=(call.place.location,),
                    )


def _is_same_model(sites: Sites, one: Function, other: Function, name: str) -> bool:
    """Whether both methods are certainly given one and the same model under a name, by a program that trains it."""
    made = [
        {_identity(each) for origin in given(sites, method, name) for each in origins(*origin[:3])}
        for method in (one, other)
    ]
    trained = any(call.file.calls("step") for call in callers(sites, one))
    return len(made[0]) == 1 and made[0] == made[1] and trained


def _identity(found: Origin) -> int:
    """What tells it from others: of a parameter that nobody is seen to give, the parameter."""
    bound = found.file.bindings(found.node.id, found.context) if isinstance(found.node, ast.Name) else []
    return id(bound[0].node) if len(bound) == 1 else id(found.node)


def _kept_above_loop(facts: Facts) -> Iterator[Finding]:
    """`start = model.state_dict()`, and `model.load_state_dict(start)` in a loop that trains it: nothing goes back."""
    for file in facts.sites.mentioning(["load_state_dict"]):
        for call in file.calls("load_state_dict"):
            given, func = call.argument("state_dict", 0), call.node.func
            if not isinstance(given, ast.Name) or not isinstance(func, ast.Attribute) or not call.loops:
                continue
            bound, loop, model = file.bindings(given.id, call.context), call.loops[0].node, ast.unparse(func.value)
            value = bound[0].value if len(bound) == 1 else None
            if not isinstance(value, ast.Call) or ast.unparse(value) != f"{model}.state_dict()":
                continue
            if value in set(walk(loop)) or stores(loop, model.partition(".")[0]) or not _is_handed(loop, model):
                continue
            if _TRAINS.search(ast.unparse(loop)) is not None:
                yield Finding(
                    _WHY,
                    file.place(value, bound[0].context).location,
                    help="keep a copy: `copy.deepcopy(model.state_dict())`",
                    related=(call.place.location,),
                )


def _put_back(facts: Facts) -> Iterator[Finding]:
    """`current = model.state_dict()`, others loaded into the model, and then `model.load_state_dict(current)`."""
    for file in facts.sites.mentioning(["load_state_dict"]):
        for back in file.calls("load_state_dict"):
            given, function = back.argument("state_dict", 0), back.function
            if not isinstance(given, ast.Name) or not isinstance(back.node.func, ast.Attribute) or function is None:
                continue
            model = ast.unparse(back.node.func.value)
            bound = file.bindings(given.id, back.context)
            value = bound[0].value if len(bound) == 1 else None
            uses = [n for n in function.nodes if is_name(n, given.id) and n is not given]
            if not isinstance(value, ast.Call) or value not in function.nodes or len(uses) != 1:
                continue
            if ast.unparse(value) != f"{model}.state_dict()":
                continue
            between = (
                call
                for call in file.calls("load_state_dict")
                if call.function is function
                and value.lineno < call.node.lineno < back.node.lineno
                and ast.unparse(call.node.func) == f"{model}.load_state_dict"
            )
            other = next(between, None)
            if other is not None and not any(stores(node, model.partition(".")[0]) for node in function.nodes):
                yield Finding(
                    "`state_dict()` shares its memory with the model: what is loaded next overwrites what is kept "
                    "here, and nothing is put back",
                    file.place(value, bound[0].context).location,
                    help="keep a copy: `copy.deepcopy(model.state_dict())`",
                    related=(other.place.location, back.place.location),
                )


def _is_handed(loop: ast.AST, model: str) -> bool:
    """Whether an optimizer is made of its parameters in the loop, or something is called with it."""
    calls = (node for node in walk(loop) if isinstance(node, ast.Call))
    given = {ast.unparse(arg) for call in calls for arg in (*call.args, *(word.value for word in call.keywords))}
    return not given.isdisjoint((model, f"{model}.parameters()"))


def _keeps(node: ast.AST, entry: ast.Subscript, model: str) -> bool:
    """`best["weights"] = model.state_dict()`, `best.update(weights=model.state_dict())`."""
    state = f"{model}.state_dict()"
    if isinstance(node, ast.Assign):
        return ast.unparse(node.value) == state and any(ast.unparse(t) == ast.unparse(entry) for t in node.targets)
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr != "update":
        return False
    assert isinstance(entry.slice, ast.Constant)
    given = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
    return ast.unparse(node.func.value) == ast.unparse(entry.value) and given.get(str(entry.slice.value)) == state


def _is_another(cls: Class, owner: str, name: str) -> bool:
    """Whether what is loaded is not what was kept: the model is made anew, or entries of the state are replaced."""
    filled = re.compile(rf"\bself\.{re.escape(name)}(?:\[[^\]\n]+\] =[^=]|\.update\()")
    return filled.search(cls.text) is not None or _is_made_anew(cls, owner)


def _is_made_anew(cls: Class, owner: str) -> bool:
    """Whether the model is another one by the time the weights are loaded; `self.model.to(device)` is the same."""
    assignments = cls.attributes.get(owner[len("self.") :], [])
    if any(f"{owner}.load_state_dict(" in function.text for function, _ in assignments):
        return True
    sets = [assigned.value for _, assigned in assignments]
    made = [value for value in sets if value is not None and not (isinstance(value, ast.Constant) and not value.value)]
    return sum(owner not in ast.unparse(value) for value in made) + sets.count(None) > 1
