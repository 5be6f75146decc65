"""Settings of an optimizer that stand where it takes another one for them, or that no optimizer reads."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import last_name
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
        params = call.argument("params", 0) if not _is_given_to_strangers(call) else None
        for listed in origins(call.file, params, call.context) if params is not None else ():
            groups = listed.node.elts if isinstance(listed.node, ast.List | ast.Tuple) else []
            for group in groups:
                keys = group.keys if isinstance(group, ast.Dict) and None not in group.keys else []
                unread = [key.value for key in keys if isinstance(key, ast.Constant) and _is_unread(sites, key.value)]
                if unread:
                    yield listed._replace(node=group), str(unread[0])
                    break


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
