"""Two optimizers over the parameters of one network, where another network is left without any."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import combinations

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import is_name, loads, walk
from mlcheck.lint.sites.model import Call
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.training.optimizers import around, optimizers

_TRAINED = pattern(r"(?<![\w.])([\w.]+)\.train\((?:True|mode=True)?\)")

_ASKED = pattern(r"(?<![\w.])([\w.]+)\.(?:parameters|named_parameters|requires_grad_)\(")
_IDLE = pattern(r"(?:numel\(\) for \w+ in |clip_grad_\w+\(\s*)[\w.]+\.parameters\(\)")
"""Parameters that are counted, or clipped: that trains none."""
_KIND = ("opt", "optim", "optimizer", "optimiser", "optimizers")
_WORD = pattern(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")


def doubled(sites: Sites) -> Iterator[Finding]:
    """`Adam(critic.parameters())` twice in one scope, and nothing asks for the parameters of `actor`."""
    for first, second in combinations(sites.once(optimizers), 2):
        if first.file is not second.file or first.function is not second.function or first.name != second.name:
            continue
        owner = _owner(first)
        if not owner or owner != _owner(second) or first.context.excludes(second.context):
            continue
        if not _held_at_once(first, second, owner):
            continue
        forgotten = sorted(_without(second, owner)) or sorted(_meant(first, second, owner))
        if forgotten:
            given = second.argument("params", 0)
            assert isinstance(given, ast.expr)
            yield Finding(
                f"Both optimizers hold the parameters of `{owner}`, and none those of `{forgotten[0]}`",
                second.place.location,
                help=f"was `{ast.unparse(given).replace(owner, forgotten[0])}` meant?",
                related=(first.place.location,),
            )


def _owner(call: Call) -> str:
    """`net` of `SGD(net.parameters(), ...)`, and `nets` of `SGD(parameters_of(nets), ...)`."""
    given = call.argument("params", 0)
    if isinstance(given, ast.Call) and is_name(given.func, "list") and len(given.args) == 1:
        given = given.args[0]
    match given:
        case ast.Call(func=ast.Attribute(value=ast.Name() | ast.Attribute() as owner, attr="parameters"), args=[]):
            return ast.unparse(owner)
        case ast.Call(args=[ast.Name() | ast.Attribute() as owner], keywords=[]):
            return ast.unparse(owner)
    return ""


def _held_at_once(first: Call, second: Call, owner: str) -> bool:
    """Whether they have names of their own, and the network is the same: a notebook makes both anew under one name."""
    assigned = [node for node in walk(around(second)) if isinstance(node, ast.Assign)]
    one, other = (next((line for line in assigned if call.node in walk(line.value)), None) for call in (first, second))
    between = range(first.node.lineno, second.node.lineno)
    bound = (name for line in assigned if line.lineno in between for target in line.targets for name in walk(target))
    if any(isinstance(name, ast.Name | ast.Attribute) and ast.unparse(name) == owner for name in bound):
        return False
    return one is other or one is None or other is None or ast.unparse(one.targets[0]) != ast.unparse(other.targets[0])


def _without(call: Call, owner: str) -> set[str]:
    """The other networks: switched to training, or a parameter that the function asks for and does not read."""
    text = call.file.text
    found = {name for name in _TRAINED.findall(text) if name.rpartition(".")[0] == owner.rpartition(".")[0]}
    if call.function is not None and "." not in owner and owner in call.function.parameters:
        body = call.function.node.body
        unread = {name for name in call.function.parameters if not any(loads(line, name) for line in body)}
        found |= {name for name in unread if _stem(name) == _stem(owner)}
    here = {ast.unparse(node) for node in walk(around(call)) if isinstance(node, ast.Name | ast.Attribute | ast.arg)}
    return (found & here) - {owner} - set(_ASKED.findall(text))


def _meant(first: Call, second: Call, owner: str) -> set[str]:
    """`critic` of `actor_optimizer` and `critic_optimizer`, both of `actor.parameters()`."""
    names = [call.file.names_given(call.node) for call in (first, second)]
    if any(len(found) != 1 for found in names):
        return set()
    root, _, last = owner.rpartition(".")
    parts = _parts(last)
    called = [[part for part in _parts(found[0].rpartition(".")[2]) if part not in _KIND] for found in names]
    one, other = map(set, called)
    if parts in called and len(one - other) > 0 < len(other - one):
        if named := _named(first, second, owner, called[1 - called.index(parts)]):
            return named
    if len(one - other) != 1 or len(other - one) != 1:
        return set()
    (mine,), (foreign,) = one - other, other - one
    if any(_stands_for(foreign, part) for part in parts):  # it is the first that holds what is not its own
        mine, foreign = foreign, mine
    found = set()
    for name in _unasked(first, second, owner):
        before, _, end = name.rpartition(".")
        if before == root and _is_counterpart(parts, _parts(end), mine, foreign):
            if _parts(end) == [foreign if part == mine else part for part in parts] or _is_network(first, name):
                found.add(name)
    return found


def _named(first: Call, second: Call, owner: str, parts: list[str]) -> set[str]:
    """`self.critic_2` of `critic_2_optimizer`, beside the optimizer that bears the owner's name."""
    root = owner.rpartition(".")[0]
    alike = {name for name in _unasked(first, second, owner) if _parts(name.rpartition(".")[2]) == parts}
    return {name for name in alike if name.rpartition(".")[0] == root and _is_network(first, name)}


def _unasked(first: Call, second: Call, owner: str) -> set[str]:
    """The other names there whose parameters are asked for at most to count or to clip, not made of the owner."""
    text = _IDLE.sub("", first.file.text)
    here = {ast.unparse(node) for node in walk(around(second)) if isinstance(node, ast.Name | ast.Attribute | ast.arg)}
    made_of = rf"(?<![\w.])%s\s*=(?!=).*(?<![\w.]){re.escape(owner)}\b"
    flags = {ast.unparse(node.test) for node in walk(around(second)) if isinstance(node, ast.If | ast.IfExp)}
    beside = (call for call in first.file.sites.once(optimizers) if call.file is first.file)
    held = {ast.unparse(part) for call in beside for part in _named_in(call)}
    found = here - set(_ASKED.findall(text)) - flags - held - {owner}
    return {name for name in found if not re.search(made_of % re.escape(name), text)}


def _named_in(call: Call) -> Iterator[ast.AST]:
    """All names and attributes in what an optimizer is given."""
    return (part for part in walk(call.node) if isinstance(part, ast.Name | ast.Attribute))


def _parts(name: str) -> list[str]:
    """`net`, `d` of `net_d` and of `netD`."""
    return [part.lower() for part in _WORD.findall(name)]


def _stands_for(short: str, part: str) -> bool:
    return short == part or (len(short) == 1 and part.startswith(short))


def _is_counterpart(parts: list[str], others: list[str], mine: str, foreign: str) -> bool:
    """Whether a name differs from the owner's where the names of the optimizers differ, and nowhere else."""
    pairs = list(zip(parts, others, strict=False))
    unlike = [(part, other) for part, other in pairs if part != other]
    return (
        len(parts) == len(others)
        and len(unlike) == 1
        and _stands_for(mine, unlike[0][0])
        and _stands_for(foreign, unlike[0][1])
    )


def _is_network(call: Call, name: str) -> bool:
    used = (
        rf"(?<![\w.]){re.escape(name)}\.(?:train|eval|zero_grad|cuda|to|apply|state_dict|load_state_dict|parameters)\("
    )
    return re.search(used, call.file.text) is not None


def _stem(name: str) -> str:
    """`model` of `d_model` and of `g_model`, `net` of `net1` and of `net2`."""
    return re.sub(r"^[a-z]+_|_[a-z]+$|\d+$", "", name)
