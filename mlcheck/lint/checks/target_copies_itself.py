"""target-copies-itself: a target network or an average of weights is updated from itself."""

import ast
import re
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts, Place
from mlcheck.lint.nodes import is_name, walk
from mlcheck.lint.sites import File, Function
from mlcheck.lint.sites.guards import own_attribute

LOOKS_AT = "copied weight"
_ENDS = (".parameters()", ".state_dict()")
_WEIGHTS = ("load_state_dict", "parameters", "named_parameters", "state_dict", "buffers")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = sum(
        len(file.calls("load_state_dict", "copy_", "lerp_", "mul_")) for file in facts.sites.mentioning(["torch"])
    )
    places = [*(copy.place for copy in facts.training.self_copies), *_of_second_names(facts)]
    for file in facts.sites.mentioning([".state_dict().items()"]):
        places += [function.place(node) for function in file.functions for node in _by_key(function)]
    for place in {place.spot: place for place in places}.values():
        where = facts.sites.at(place.path)
        if where is not None and (not _is_gone_through(where, place.node) or _tells_apart(where, place.node)):
            continue
        alias = _alias(where, place.node) if where is not None else None
        yield Finding(
            "Both sides are the weights of one and the same module: this changes nothing"
            if alias is None
            else "This is a second name of the model, no copy: what follows the model is the model itself",
            place.location if alias is None else alias.location,
            help="take the weights from the model that is trained, and make the other with `copy.deepcopy`",
            related=() if alias is None else (place.location,),
        )


def _of_second_names(facts: Facts) -> Iterator[Place]:
    """`zip(self.net.parameters(), self.target.parameters())` where the class says `self.target = self.net`, once."""
    for file in facts.sites.mentioning(_ENDS):
        for call in file.calls("zip", "load_state_dict"):
            of_weights = bool(call.node.args) and all(ast.unparse(arg).endswith(_ENDS) for arg in call.node.args)
            method = call.function
            if not of_weights or method is None or method.cls is None:
                continue
            for name in _names_of(method, call.node):
                sets = method.cls.attribute(name)
                first = sets[0][1] if len(sets) == 1 else None
                other = own_attribute(first.value, method) if first is not None and first.value is not None else ""
                if first is None or other not in _names_of(method, call.node) or other == name:
                    continue
                if not any(outer.kind in ("if", "try") for outer in first.context.outwards()):
                    if len(method.cls.attribute(other)) == 1 and not _is_set_from_outside(facts, name, other):
                        yield call.place


def _is_set_from_outside(facts: Facts, *names: str) -> bool:
    """Whether the attributes of these names are set anywhere but in the one line of each."""
    setting = re.compile(rf"\.(?:{'|'.join(names)})\s*=(?!=)|setattr\(")
    return sum(len(setting.findall(file.text)) for file in facts.sites.files.values()) > len(names)


def _names_of(method: Function, over: ast.AST) -> set[str]:
    """The attributes of an object whose weights are asked for."""
    asked = (node.value for node in walk(over) if isinstance(node, ast.Attribute) and node.attr in _WEIGHTS)
    return {own_attribute(node, method) for node in asked} - {""}


def _is_gone_through(file: File, node: ast.AST) -> bool:
    """`for p, q in zip(...)`; pairs that are kept in a list are not copied by that."""
    if not isinstance(node, ast.Call) or ast.unparse(node.func) != "zip":
        return True
    loops = (each for each in walk(file.module.source.tree) if isinstance(each, ast.For | ast.comprehension))
    return any(part is node for loop in loops for part in walk(loop.iter))


def _tells_apart(file: File, node: ast.AST) -> bool:
    """`for p, q in zip(...): if p is q: continue`: it reckons with weights that both share."""
    loops = (each for each in walk(file.module.source.tree) if isinstance(each, ast.For))
    loop = node if isinstance(node, ast.For) else next((each for each in loops if each.iter is node), None)
    brought = {part.id for part in walk(loop.target) if isinstance(part, ast.Name)} if loop is not None else set()
    asked = (each for each in walk(loop) if isinstance(each, ast.Compare)) if loop is not None else ()
    return any(
        isinstance(each.ops[0], ast.Is | ast.IsNot)
        and {ast.unparse(each.left), ast.unparse(each.comparators[0])} <= brought
        for each in asked
    )


def _alias(file: File, copied: ast.AST) -> Place | None:
    """Where `self.target = self.net` stands, or `self.average = model`, of what a method copies onto itself."""
    line = getattr(copied, "lineno", 0)
    inside = [f for f in file.functions if f.cls is not None and f.node.lineno <= line <= (f.node.end_lineno or 0)]
    method, over = inside[-1] if inside else None, copied.iter if isinstance(copied, ast.For) else copied
    sides = [ast.unparse(arg) for arg in over.args] if isinstance(over, ast.Call) else []
    if method is None or method.cls is None or len(set(sides)) < len(sides):
        return None
    names = _names_of(method, over)
    held = {name: sets[0] for name in names if len(sets := method.cls.attribute(name)) == 1}
    given = {name: ast.unparse(assigned.value) for name, (_, assigned) in held.items() if assigned.value is not None}
    second = [name for name, value in given.items() if value in {f"{method.receiver}.{other}" for other in names}]
    if not second and len(names) == len(held) and len(set(given.values())) == 1:
        same = sorted(given, key=lambda name: held[name][1].node.lineno)
        second = [name for name in same[-1:] if given[name].isidentifier()]
    return held[second[0]][0].place(held[second[0]][1].node) if len(second) == 1 else None


def _by_key(function: Function) -> Iterator[ast.Call]:
    """`for key, value in ema.state_dict().items(): value.copy_(... weights[key])`, where those are of `ema` too."""
    for loop in function.nodes:
        if not isinstance(loop, ast.For) or not isinstance(loop.target, ast.Tuple) or len(loop.target.elts) != 2:
            continue
        module, items, _ = ast.unparse(loop.iter).partition(".state_dict().items()")
        key, value = map(ast.unparse, loop.target.elts)
        held = _weights_of(function, module) if items else ""
        for node in walk(loop) if held else ():
            if isinstance(node, ast.Call) and ast.unparse(node.func) == f"{value}.copy_":
                named = {part.id for arg in node.args for part in walk(arg) if isinstance(part, ast.Name)}
                texts = [ast.unparse(node), *(_assigned(loop, name) for name in named - {key, value, held})]
                if any(f"{held}[{key}]" in text for text in texts):
                    yield node


def _weights_of(function: Function, module: str) -> str:
    """The name that holds `module.state_dict()`, where it is set once and only read by keys."""
    found = ""
    for node in function.nodes:
        if isinstance(node, ast.Assign) and ast.unparse(node.value) == f"{module}.state_dict()":
            found = ast.unparse(node.targets[0])
    mentions = [node for node in function.nodes if is_name(node, found)]
    read = [
        node.value
        for node in function.nodes
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) and node.value in mentions
    ]
    return found if len(read) == len(mentions) - 1 else ""


def _assigned(loop: ast.For, name: str) -> str:
    """What a name is given in the loop, if only once."""
    given = [n.value for n in walk(loop) if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == name]
    return ast.unparse(given[0]) if len(given) == 1 else ""
