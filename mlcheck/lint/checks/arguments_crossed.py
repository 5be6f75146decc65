"""arguments-crossed: two arguments stand in each other's place, as the names on both sides tell."""

import ast
import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import combinations

from mlcheck.core.finding import Finding
from mlcheck.core.named_tuples import NamedTuple
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import last_name, walk
from mlcheck.lint.sites import Call, Function
from mlcheck.lint.sites.copying.repeated_arguments import repeated_arguments
from mlcheck.lint.sites.layers.crossed_inputs import crossed_inputs
from mlcheck.lint.sites.origins import callers

LOOKS_AT = "call whose parameters have roles"
_PAIRS = (
    ("real", "fake"),
    ("student", "teacher"),
    ("policy", "ref"),
    ("policy", "reference"),
    ("chosen", "rejected"),
    ("positive", "negative"),
    ("pos", "neg"),
    ("mu", "logvar"),
    ("mu", "log_var"),
    ("mu", "sigma"),
    ("mean", "std"),
    ("mean", "logvar"),
    ("mean", "var"),
    ("old", "new"),
    ("online", "target"),
    ("local", "target"),
    ("source", "target"),
    ("src", "target"),
    ("main", "target"),
    ("model", "ema"),
)
_TELLING = frozenset(word for pair in _PAIRS for name in pair for word in name.split("_"))
_COPIES = pattern(r"\.parameters\(\)|\.state_dict\(\)")
_WEIGHTS = frozenset(["online", "local", "source", "src", "main", "model"])
_WORD = pattern(r"[a-z]+|\d+")
_SYMMETRIC = frozenset(
    ["mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "cosine_similarity", "cdist", "pairwise_distance", "dist"]
)
_EVEN = frozenset(["abs", "square", "norm", "abs_"])


class _Roles(NamedTuple):
    """The positions of two parameters, and the words that tell them apart."""

    first: int
    second: int
    one: str
    other: str


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    for crossed in crossed_inputs(facts):
        yield Finding(
            f"`{crossed.names[1]}` is given as `{crossed.names[0]}`, and `{crossed.names[0]}` as `{crossed.names[1]}`: "
            "the two are swapped",
            crossed.place.location,
            help=f"`forward` takes `{crossed.names[0]}` before `{crossed.names[1]}`",
            related=(crossed.forward.location,),
        )
    for repeated in repeated_arguments(facts.sites):
        facts.sites.seen[LOOKS_AT] += 1
        yield Finding(
            f"`{repeated.given.id}` is given as `{repeated.wanted}` too, and `{repeated.wanted}` stands beside it",
            repeated.call.file.place(repeated.given, repeated.call.context).location,
            help=f"was `{repeated.wanted}` meant?",
            related=(repeated.function.place().location,),
        )
    for file in facts.sites.mentioning(["torch"]):
        for function in file.functions:
            for roles in _roles(function):
                yield from _crossed(facts, function, roles)


def _roles(function: Function) -> Iterator[_Roles]:
    """Pairs of parameters that are called `real_pred` and `fake_pred`: the same but for one word."""
    names = [arg.arg for arg in (*function.node.args.posonlyargs, *function.node.args.args)]
    names = names[1:] if function.receiver else names
    told = [(number, words) for number, name in enumerate(names) if not _TELLING.isdisjoint(words := _words(name))]
    for (first, one), (second, two) in combinations(told, 2):
        for here, there in (order for pair in _PAIRS for order in (pair, pair[::-1])):
            left, right = _words(here), _words(there)
            if not (left <= one and right <= two and one - left == two - right):
                continue
            if _WEIGHTS.isdisjoint((here, there)) or _COPIES.search(function.text):
                yield _Roles(first, second, here, there)


@lru_cache(4096)
def _words(name: str) -> frozenset[str]:
    return frozenset(_WORD.findall(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()))


def _crossed(facts: Facts, function: Function, roles: _Roles) -> Iterator[Finding]:
    found, told = [], 0
    for call in callers(facts.sites, function):
        pair = _given(call, roles)
        if pair is None:
            continue
        facts.sites.seen[LOOKS_AT] += 1
        if _is_told(pair[0], roles.one, roles.other) or _is_told(pair[1], roles.other, roles.one):
            told += 1
        if _is_crossed(pair, roles):
            found.append((call, pair))
    if told or len(found) != 1 or _is_symmetric(function, roles):
        return  # both ways are meant: a loss of each side
    call, pair = found[0]
    if any(_is_loaded(call, _root(side)) for side in pair if _is_told(side, "target", "")):
        return  # it gets its weights in another way, and this call copies them back
    names = list(function.parameters)[1 if function.receiver else 0 :]
    yield Finding(
        f"`{ast.unparse(pair[0])}` is given as `{names[roles.first]}`, and `{ast.unparse(pair[1])}` as "
        f"`{names[roles.second]}`: the two are swapped",
        call.file.place(pair[0], call.context).location,
        help=f"`{function.name}` takes `{names[roles.first]}` before `{names[roles.second]}`",
        related=(function.place().location,),
    )


def _is_loaded(call: Call, node: ast.expr) -> bool:
    """`target.load_state_dict(online.state_dict())`, somewhere in the file."""
    wanted = f"{ast.unparse(node)}.load_state_dict"
    return any(ast.unparse(each.node.func) == wanted for each in call.file.calls("load_state_dict"))


def _given(call: Call, roles: _Roles) -> tuple[ast.expr, ast.expr] | None:
    """The two arguments, both by position."""
    args = call.node.args
    if len(args) <= roles.second or any(isinstance(arg, ast.Starred) for arg in args):
        return None
    return args[roles.first], args[roles.second]


def _is_crossed(pair: tuple[ast.expr, ast.expr], roles: _Roles) -> bool:
    """Whether each is named for the other's place; of weights it is enough that the target stands in the wrong one."""
    if _is_told(pair[0], roles.other, roles.one) and _is_told(pair[1], roles.one, roles.other):
        return True
    if "target" not in (roles.one, roles.other):
        return False
    wrong, right = (pair[0], pair[1]) if roles.other == "target" else (pair[1], pair[0])
    other = roles.one if roles.other == "target" else roles.other
    plain = isinstance(_root(wrong), ast.Name | ast.Attribute) and isinstance(_root(right), ast.Name | ast.Attribute)
    return plain and _is_told(wrong, "target", other) and not _said(right) & {"target", "tgt"}


def _is_told(node: ast.expr, word: str, other: str) -> bool:
    """Whether a name in it says the one word, and none the other."""
    said = _said(node)
    return _words(word) <= said and not (other and _words(other) <= said)


def _said(node: ast.expr) -> frozenset[str]:
    root = _root(node)
    return (
        _words(last_name(root)) if last_name(root) else frozenset().union(*(_words(last_name(n)) for n in walk(node)))
    )


def _root(node: ast.expr) -> ast.expr:
    """`fake` of `fake.detach().float()[:n]`."""
    while True:
        match node:
            case ast.Call(func=ast.Attribute(value=inner, attr=attr)) if attr in (
                "detach",
                "float",
                "to",
                "view",
                "clone",
            ):
                node = inner
            case ast.Subscript(value=inner):
                node = inner
            case _:
                return node


def _is_symmetric(function: Function, roles: _Roles) -> bool:
    """Whether the function computes the same with the two swapped, as far as its text tells."""
    names = list(function.parameters)[1 if function.receiver else 0 :]
    swap = {names[roles.first]: names[roles.second], names[roles.second]: names[roles.first]}
    body = function.node.body
    return sorted(_written(line, {}) for line in body) == sorted(_written(line, swap) for line in body)


def _written(node: ast.AST, swap: dict[str, str], is_even: bool = False) -> str:
    """The text of a syntax tree in which it does not matter how sums, products and distances are ordered."""
    if isinstance(node, ast.Name):
        return swap.get(node.id, node.id)
    parts = [_written(part, swap, _is_even(node)) for part in ast.iter_child_nodes(node)]
    free = isinstance(node, ast.BinOp) and (
        isinstance(node.op, ast.Add | ast.Mult) or (is_even and isinstance(node.op, ast.Sub))
    )
    if free or (isinstance(node, ast.Call) and last_name(node.func) in _SYMMETRIC):
        parts.sort()
    match node:
        case ast.Constant(value=value):
            own = repr(value)
        case ast.Attribute(attr=own):
            pass
        case ast.keyword(arg=str(own)):
            pass
        case _:
            own = ""
    return f"{node.__class__.__name__}({own};{','.join(parts)})"


def _is_even(node: ast.AST) -> bool:
    """Whether what stands in it may change its sign: `(a - b) ** 2`, `(a - b).abs()`."""
    match node:
        case ast.BinOp(op=ast.Pow(), right=ast.Constant(value=2)):
            return True
        case ast.Attribute(attr=attr):
            return attr in _EVEN or attr == "pow"
        case ast.Call(func=ast.Attribute(attr=attr)):
            return attr in _EVEN or attr == "pow"
    return False
