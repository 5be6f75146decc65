"""average-not-moved: an average of weights, or a target network, never follows the model that is trained."""

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts, Place
from mlcheck.lint.nodes import last_name, walk
from mlcheck.lint.sites import Call, Function, canonical
from mlcheck.lint.sites.origins import callers
from mlcheck.lint.sites.training.optimizers import optimizers
from mlcheck.lint.sites.weights.kept_averages import own_averages_left, still_averages
from mlcheck.lint.sites.weights.unread_copies import unread_copies

LOOKS_AT = "weight average"
_AVERAGE = pattern(
    r"(?:^|_)(?:ema|avg|average|averaged|target|teacher|momentum|shadow|swa|polyak|key|encoder_k)(?:_|$)"
)
_SHORT = 3
_PLAIN_BASES = ("torch.nn.Module", "builtins.object", "abc.ABC")


class _Blend(NamedTuple):
    """A loop over the parameters of two modules that moves those of `moved` towards those of `followed`."""

    function: Function
    loop: ast.For
    moved: str
    followed: str
    place: Place


def check(facts: Facts) -> Iterator[Finding]:
    blends = [blend for file in facts.sites.mentioning([".parameters()"]) for blend in _blends(file.calls("zip"))]
    facts.sites.seen[LOOKS_AT] = len(blends)
    for still in (*still_averages(facts.sites), *own_averages_left(facts.sites)):
        yield Finding(
            f"Nothing calls `{still.name}.{still.move}(...)`: the average keeps the model's initial weights",
            still.made.place.location,
            help="call it after each step of the optimizer",
        )
    for unread in unread_copies(facts.sites):
        read = unread.entry or unread.moved
        yield Finding(
            f"`{unread.name}` follows the model, and nothing reads it: it is not called, saved or handed out",
            read.location,
            help=f"use `{unread.name}` where the other model is used by mistake, or leave it out",
            related=(unread.moved.location,) if unread.entry is not None else (),
        )
    yield from _overwritten(facts, blends)
    held = {name for made in facts.sites.once(optimizers) for name in _held(made)} if blends else set()
    blends += [by_call for blend in blends for by_call in _handed(blend)]
    for blend in blends:
        place = blend.place.location
        if blend.moved in held and _AVERAGE.search(blend.followed) and not _changes(facts, blend, blends, held):
            yield Finding(
                f"This moves `{blend.moved}`, which is trained, towards `{blend.followed}`, which never changes",
                place,
                help=f"swap the two: it is `{blend.followed}` that follows",
            )
        elif blend.followed in held and _AVERAGE.search(blend.moved) and _is_left_out(facts, blend):
            yield Finding(
                f"Nothing calls `{blend.function.name}`: `{blend.moved}` keeps the weights it was copied with",
                blend.function.place().location,
                help="call it after each step of the optimizer",
            )


def _overwritten(facts: Facts, blends: list[_Blend]) -> Iterator[Finding]:
    """`ema.load_state_dict(model.state_dict())` in a loop, around another that moves `ema` step by step."""
    for file in facts.sites.mentioning([".load_state_dict("]) if blends else ():
        for call in file.calls("load_state_dict"):
            match call.node:
                case ast.Call(
                    func=ast.Attribute(value=average),
                    args=[ast.Call(func=ast.Attribute(value=model, attr="state_dict"))],
                ):
                    pair = (last_name(average), last_name(model))
                case _:
                    continue
            loop = call.loops[0] if call.loops else None
            if loop is None or call.context is not loop or not _AVERAGE.search(pair[0]):
                continue
            inner = [node for node in walk(loop.node) if isinstance(node, ast.For) and node is not loop.node]
            if any(_blends_in(call, node, pair, blends) for node in inner):
                yield Finding(
                    f"This makes `{pair[0]}` the model of now, and what its steps have averaged is lost",
                    call.place.location,
                    help=f"leave this out: `{pair[0]}` follows by its own update",
                )


def _blends_in(call: Call, loop: ast.For, pair: tuple[str, str], blends: list[_Blend]) -> bool:
    """Whether the loop moves the one towards the other, itself or by a function that is given both."""
    for blend in blends:
        if (blend.moved, blend.followed) == pair and any(node is blend.loop for node in walk(loop)):
            return True
        names = list(blend.function.parameters)
        for node in walk(loop) if {blend.moved, blend.followed} <= set(names) else ():
            if isinstance(node, ast.Call) and call.file.resolve(node.func, call.context) is blend.function:
                given = dict(zip(names, map(last_name, node.args), strict=False))
                if (given.get(blend.moved), given.get(blend.followed)) == pair:
                    return True
    return False


def _blends(zips: list[Call]) -> Iterator[_Blend]:
    for call in zips:
        owners = [_owner(argument) for argument in call.node.args]
        function = call.function
        if function is None or len(owners) != 2 or not all(owners):
            continue
        for loop in function.nodes:
            if isinstance(loop, ast.For) and loop.iter is call.node and isinstance(loop.target, ast.Tuple):
                moved = [_is_blended(loop, ast.unparse(name)) for name in loop.target.elts]
                if len(moved) == 2 and sum(moved) == 1:
                    both = owners[moved.index(True)], owners[moved.index(False)]
                    yield _Blend(function, loop, *both, function.place(loop))


def _handed(blend: _Blend) -> Iterator[_Blend]:
    """The same of the modules that a call hands over: `follow(self.actor, self.actor_target)`."""
    names = [name for name in blend.function.parameters if name != blend.function.receiver]
    if not {blend.moved, blend.followed} <= set(names):
        return
    for call in callers(blend.function.file.sites, blend.function):
        given = [call.argument(name, names.index(name)) for name in (blend.moved, blend.followed)]
        moved, followed = map(last_name, given)
        if moved and followed and (moved, followed) != (blend.moved, blend.followed):
            yield blend._replace(moved=moved, followed=followed, place=call.place)


def _owner(argument: ast.expr) -> str:
    """`target` of `self.target.parameters()`."""
    if isinstance(argument, ast.Call) and not argument.args and isinstance(argument.func, ast.Attribute):
        return last_name(argument.func.value) if argument.func.attr == "parameters" else ""
    return ""


def _is_blended(loop: ast.For, name: str) -> bool:
    """Whether the parameter becomes a mixture of itself and something else."""
    text = "\n".join(ast.unparse(statement) for statement in loop.body)
    own = rf"(?<![\w.]){re.escape(name)}(?:\.data|\.detach\(\))?"
    if re.search(rf"{own}\.(?:mul_\(.*\)\.add_|lerp_)\(", text):
        return True
    return re.search(rf"{own}(?:\.copy_\(| = )(?=.*{own}(?!\w)).*\+", text) is not None


def _held(made: Call) -> Iterator[str]:
    """The last names of the modules whose parameters an optimizer is given."""
    given = made.argument("params", 0)
    for node in walk(given) if given is not None else ():
        if isinstance(node, ast.Call) and (name := _owner(node)):
            yield name


def _changes(facts: Facts, blend: _Blend, blends: list[_Blend], held: set[str]) -> bool:
    """Whether what is followed here moves itself: it is trained, follows in turn, or takes other weights than these."""
    name = blend.followed
    if name in held or any(other.moved == name for other in blends):
        return True
    loaded = re.compile(rf"\b{name}\.load_state_dict\((?!(?:\w+\.)*{blend.moved}\.state_dict\(\))")
    return any(loaded.search(file.text) for file in facts.sites.mentioning([f"{name}.load_state_dict("]))


def _is_left_out(facts: Facts, blend: _Blend) -> bool:
    """Whether the copy is made and the model trained right here, and nobody speaks of what blends and does no more."""
    body = blend.function.node.body
    if blend.loop is not body[-1] or len(body) > _SHORT or _is_called_by_others(blend.function):
        return False
    text = blend.function.file.text
    made = re.search(rf"\b{blend.moved} = copy\.deepcopy\(|\b{blend.moved}\.load_state_dict\(", text)
    trains = ".backward(" in text and ".step(" in text
    return bool(made) and trains and _is_in_use(facts, blend) and not facts.sites.is_named(blend.function.name, 2)


def _is_in_use(facts: Facts, blend: _Blend) -> bool:
    """Whether a step of the same class is called: what calls none of them may lie outside of what is read."""
    cls = blend.function.cls
    steps = [method.name for method in cls.methods.values() if ".backward(" in method.text] if cls is not None else []
    return not steps or "__init__" in steps or any(facts.sites.is_named(name, 2) for name in steps)


def _is_called_by_others(function: Function) -> bool:
    """Whether a decorator, a library's base class or Python itself may call it, without its name being written."""
    if function.name.startswith("__") or function.name == "forward":
        return True
    if any(
        "grad" not in ast.unparse(each) and "inference" not in ast.unparse(each)
        for each in function.node.decorator_list
    ):
        return True
    bases = [base for cls in function.cls.line for base in cls.bases] if function.cls is not None else []
    return any(base is None or (isinstance(base, str) and canonical(base) not in _PLAIN_BASES) for base in bases)
