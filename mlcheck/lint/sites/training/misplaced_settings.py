"""Settings of an optimizer that stand where it takes another one for them, or that no optimizer reads."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import islice

from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import is_name, last_name
from mlcheck.lint.sites.model import Call
from mlcheck.lint.sites.origins import Origin, origins
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.training.optimizers import optimizers

_ORDERS = {
    "SGD": ("lr", "momentum", "dampening", "weight_decay"),
    "Adam": ("lr", "betas", "eps", "weight_decay"),
    "AdamW": ("lr", "betas", "eps", "weight_decay"),
    "RMSprop": ("lr", "alpha", "eps", "weight_decay", "momentum"),
    "Adagrad": ("lr", "lr_decay", "weight_decay"),
}
_NAMES = {
    "lr": pattern(r"^(?:lr|learning_rate|base_lr|lrate)$"),
    "weight_decay": pattern(r"^(?:weight_decay|wd|l2|weightdecay|l2_reg)$"),
    "momentum": pattern(r"^(?:momentum|sgd_momentum)$"),
}
_KNOWN = frozenset(
    ["params", "lr", "weight_decay", "momentum", "lr_decay", "initial_lr", "max_lr", "min_lr", "base_lr"]
)
_KNOWN |= {"max_momentum", "base_momentum", "swa_lr", "momentum_decay", "decoupled_weight_decay"}
_OTHER_NAME = pattern(r"^(?:learning_?rate|l_?rate|wd|weight_?deca?y?|weightdecay|l2(?:_reg|_penalty)?)$")
_SETTING = pattern(r"lr|learning|decay|momentum|^wd$|rate")


def in_wrong_place(sites: Sites) -> Iterator[tuple[Call, str, str, ast.expr]]:
    """`Adam(parameters, weight_decay)`: the call, what is given, what it is taken for, and the argument."""
    for call in sites.once(optimizers):
        order = _ORDERS.get(call.name.rpartition(".")[2], ("lr",))
        if any(isinstance(arg, ast.Starred) for arg in call.node.args):
            continue
        for taken, given in zip(order, call.node.args[1:], strict=False):
            name = last_name(given).lower()
            meant = next((setting for setting, names in _NAMES.items() if names.search(name)), "")
            if meant and meant != taken:
                yield call, ast.unparse(given), taken, given


def read_by_nobody(sites: Sites) -> Iterator[tuple[Origin, str]]:
    """`{"params": head, "lr_mult": 10}` in the groups of an optimizer, of a key that nothing reads."""
    for call in sites.once(optimizers):
        params, strangers = call.argument("params", 0), _is_given_to_strangers(call)
        for listed in origins(call.file, params, call.context) if params is not None else ():
            groups = (_unread_key(sites, listed, group, strangers) for group in _written_in(listed))
            yield from islice((found for found in groups if found is not None), 1)
    for file in sites.mentioning(["add_param_group"]):
        for call in file.calls("add_param_group"):
            group = call.argument("param_group", 0)
            found = _unread_key(sites, Origin(file, call.node, call.context), group, True) if _is_torchs(call) else None
            if found is not None:
                yield found


def _written_in(listed: Origin) -> Iterator[ast.expr]:
    """The groups that a list is written with, or made of, or that are appended to it by its name."""
    node, file = listed.node, listed.file
    if isinstance(node, ast.ListComp | ast.GeneratorExp):
        yield node.elt
    if isinstance(node, ast.List | ast.Tuple):
        yield from (file.value(group, listed.context)[0] for group in node.elts)
    names = file.names_given(node) if isinstance(node, ast.List) else ()
    for call in file.calls("append") if len(names) == 1 else ():
        if is_name(call.owner, names[0]) and call.context.scope is listed.context.scope and call.node.args:
            yield call.node.args[0]


def _unread_key(sites: Sites, listed: Origin, group: ast.expr | None, strangers: bool) -> tuple[Origin, str] | None:
    """The first key of a group that nothing reads; to strangers it may mean something, unless it is misspelt."""
    keys = group.keys if isinstance(group, ast.Dict) and None not in group.keys else []
    for key in keys:
        if isinstance(key, ast.Constant) and isinstance(group, ast.Dict) and _is_unread(sites, key.value):
            if not strangers or _OTHER_NAME.search(str(key.value)):
                return listed._replace(node=group), str(key.value)
    return None


def _is_torchs(call: Call) -> bool:
    """Whether the group is added to one of torch's own optimizers."""
    made = origins(call.file, call.owner, call.context) if call.owner is not None else []
    return bool(made) and all(origin.name.startswith("torch.optim.") for origin in made)


def _is_given_to_strangers(made: Call) -> bool:
    """Whether the optimizer goes to code that is not known, such as a scheduler that reads its groups."""
    names = made.file.names_given(made.node)
    around = made.function.all(ast.Call) if made.function is not None else []
    for call in around:
        if any(isinstance(arg, ast.Name) and arg.id in names for arg in call.args):
            named = made.file.resolve(call.func, made.context)
            if named is None or (isinstance(named, str) and not named.startswith(("torch.", "builtins."))):
                return True
    return False


def _is_unread(sites: Sites, key: object) -> bool:
    return isinstance(key, str) and key not in _KNOWN and bool(_SETTING.search(key)) and not _is_read(sites, key)


def _is_read(sites: Sites, key: str) -> bool:
    """Whether any file may take it out of the groups: `group["lr_mult"]`, `group.get("lr_mult")`, `**group`."""
    read = re.compile(rf"[\[(]\s*[\"']{key}[\"']|[\"']{key}[\"']\s+(?:not )?in\b|[\"']{key}[\"']\s*[,\])]")
    return any(read.search(file.text) for file in sites.files.values())
