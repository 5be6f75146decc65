"""learning-rate-not-set: the learning rate is written where no optimizer of PyTorch reads it."""

import ast
import re
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import is_name, last_name, reads_of, stores_of, walk
from mlcheck.lint.sites import Context, File, Function, Sites, canonical
from mlcheck.lint.sites.origins import origins
from mlcheck.lint.sites.training.misplaced_settings import read_by_nobody
from mlcheck.lint.sites.training.optimizers import OPTIMIZERS
from mlcheck.lint.sites.training.unheard_options import unheard_rates

LOOKS_AT = "learning rate that is set"
WORDS = (".lr", "_lr", "lr ", "--lr", "lrate", "learning_rate", "learning-rate", "defaults[", "dict()[", "params")
_NEW_RATE = pattern(r"^(?:(?:new|cur|curr|current|next|updated|decayed)_)?(?:lr|lrate|learning_rate)(?:_new|_t)?$")
_ASSIGNED = pattern(r"(?:\b|_)(?:lr|lrate|learning_rate)(?:_new|_t)?\s*[*/]?=[^=]")
_PROGRESS = pattern(r"step|epoch|iter|decay|warm|progress")
_RATES = ("lr", "learning_rate")
_TELLS = ("print", "info", "debug", "write", "log", "add_scalar", "set_description", "set_postfix", "format")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    yield from _in_copies(facts.sites)
    for group, key in read_by_nobody(facts.sites):
        yield Finding(
            f"No optimizer reads `{key}`: this group is trained with the settings of the others",
            group.file.place(group.node, group.context).location,
            help='settings that are read: `"lr"`, `"weight_decay"`, `"momentum"`',
        )
    yield from _unread(facts.sites)
    for unheard in unheard_rates(facts.sites):
        facts.sites.seen[LOOKS_AT] += 1
        yield Finding(
            f"Nothing reads `{unheard.flag}`: this learning rate is the same whatever the command line asks for",
            unheard.optimizer.place.location,
            help=f"give the optimizer what `{unheard.flag}` says, or take the option away",
            related=(unheard.option.place.location,),
        )
    for file in facts.sites.mentioning([".lr", ".learning_rate", "defaults[", "learning_rate"]):
        if "optim" not in file.text:
            continue
        for line, target, owner in _settings(file):
            function = _function_of(file, target)
            where = function.inner if function is not None else file.walk.module
            if _is_optimizer(file, owner, where):
                facts.sites.seen[LOOKS_AT] += 1
                around = function.node if function is not None else file.module.source.tree
                if not _is_read(facts.sites, target, owner) and not _notes_down(line, around):
                    yield Finding(
                        f"`{ast.unparse(target)}` is read by no optimizer: the learning rate stays what it was",
                        file.place(target, where).location,
                        help=f"set it in the groups: `for group in {ast.unparse(owner)}.param_groups: "
                        'group["lr"] = ...`',
                    )


def _unread(sites: Sites) -> Iterator[Finding]:
    """`new_lr = lr * 0.1 ** (step / 1000)` in the loop that trains, where nothing reads `new_lr`."""
    for file in sites.mentioning(["lr", "lrate", "learning_rate"]):
        for function in file.functions if "optim" in file.text else ():
            if ".step(" not in function.text or "locals()" in function.text or not _ASSIGNED.search(function.text):
                continue
            for line, target in _rates(function):
                name = target.id
                if not _decays(line, name) or not _is_told_only(function, name):
                    continue
                if '["lr"]' in function.text or "['lr']" in function.text or name in function.inner.scope.globals:
                    continue
                sites.seen[LOOKS_AT] += 1
                yield Finding(
                    f"Nothing reads `{name}`: the learning rate stays what it was",
                    function.place(line).location,
                    help=f'set it in the groups: `for group in optimizer.param_groups: group["lr"] = {name}`',
                )


def _rates(function: Function) -> Iterator[tuple[ast.Assign | ast.AugAssign, ast.Name]]:
    lines: list[ast.Assign | ast.AugAssign] = [*function.all(ast.Assign), *function.all(ast.AugAssign)]
    for line in lines:
        target = line.targets[0] if isinstance(line, ast.Assign) else line.target
        if isinstance(target, ast.Name) and _NEW_RATE.search(target.id):
            yield line, target


def _decays(line: ast.Assign | ast.AugAssign, name: str) -> bool:
    """Whether it is computed anew from where the training stands, or from itself: `lr *= 0.1`, `lr = lr / 2`."""
    if isinstance(line, ast.AugAssign) or not isinstance(line.value, ast.BinOp):
        return isinstance(line, ast.AugAssign) and isinstance(line.op, ast.Mult | ast.Div)
    return bool(_PROGRESS.search(ast.unparse(line.value))) or bool(reads_of(walk(line.value), name))


def _is_told_only(function: Function, name: str) -> bool:
    """Whether it is read for messages, for its next value, and above the loop that trains."""
    loops = [node for node in function.nodes if isinstance(node, ast.For | ast.While) and ".step(" in ast.unparse(node)]
    begins = loops[0].lineno if loops else 0
    harmless: set[ast.AST] = set()
    for node in function.nodes:
        tells = isinstance(node, ast.Call) and last_name(node.func) in _TELLS
        sets = isinstance(node, ast.Assign) and any(is_name(target, name) for target in node.targets)
        if tells or sets:
            harmless.update(walk(node))
    set_there = loops and any(store.lineno > begins for store in stores_of(walk(loops[0]), name))
    above = begins if set_there else 0
    return all(read in harmless or read.lineno < above for read in reads_of(function.nodes, name))


def _in_copies(sites: Sites) -> Iterator[Finding]:
    """`for group in optimizer.state_dict()["param_groups"]: group["lr"] = lr`: each call makes its own dictionaries."""
    for file in sites.mentioning([".state_dict()['param_groups']", '.state_dict()["param_groups"]']):
        for node in walk(file.module.source.tree):
            match node:
                case ast.Assign(targets=[ast.Subscript(value=group, slice=ast.Constant(value="lr")) as target]):
                    function = _function_of(file, target)
                    where = function.inner if function is not None else file.walk.module
                case _:
                    continue
            if (owner := _copied_of(_listed(file, group, where))) is not None:
                sites.seen[LOOKS_AT] += 1
                yield Finding(
                    f"`{ast.unparse(owner)}.state_dict()` is a copy: the learning rate stays what it was",
                    file.place(target, where).location,
                    help=f"go over the groups themselves: `for group in {ast.unparse(owner)}.param_groups: ...`",
                )


def _listed(file: File, group: ast.expr, context: Context) -> ast.expr | None:
    """The list that a parameter group is taken from, by a loop or by its number."""
    if isinstance(group, ast.Subscript):
        return group.value
    bound = file.bindings(group.id, context) if isinstance(group, ast.Name) else []
    over = bound[0].node if len(bound) == 1 else None
    return over.iter if isinstance(over, ast.For) and isinstance(over.target, ast.Name) else None


def _copied_of(groups: ast.expr | None) -> ast.expr | None:
    """The optimizer of `optimizer.state_dict()["param_groups"]`."""
    match groups:
        case ast.Subscript(
            value=ast.Call(func=ast.Attribute(value=owner, attr="state_dict"), args=[]),
            slice=ast.Constant(value="param_groups"),
        ):
            return owner
    return None


def _settings(file: File) -> Iterator[tuple[ast.Assign | ast.AugAssign, ast.expr, ast.expr]]:
    """What is assigned that may be a learning rate, and whose it would be, with the line."""
    for node in walk(file.module.source.tree):
        if isinstance(node, ast.Assign | ast.AugAssign):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if (owner := _written(target)) is not None:
                    yield node, target, owner


def _written(target: ast.expr) -> ast.expr | None:
    """The optimizer of `opt.lr`, `opt.defaults["lr"]` and `opt.param_groups[0]["learning_rate"]`."""
    if isinstance(target, ast.Attribute):
        return target.value if target.attr in _RATES else None
    if not isinstance(target, ast.Subscript) or not isinstance(target.slice, ast.Constant):
        return None
    inner, key = target.value, target.slice.value
    if isinstance(inner, ast.Attribute) and inner.attr == "defaults" and key in _RATES:
        return inner.value
    if isinstance(inner, ast.Subscript) and isinstance(inner.value, ast.Attribute) and key == "learning_rate":
        return inner.value.value if inner.value.attr == "param_groups" else None
    return None


def _is_optimizer(file: File, node: ast.expr, context: Context) -> bool:
    """Whether it is one of PyTorch's own, wherever it comes from."""
    found = origins(file, node, context)
    names = [canonical(origin.name) for origin in found]
    return bool(names) and all(n.startswith("torch.optim.") and n.rpartition(".")[2] in OPTIMIZERS for n in names)


def _is_read(sites: Sites, target: ast.expr, owner: ast.expr) -> bool:
    """Whether anything may read it again, by whatever name the optimizer goes: the writer may hand it on by hand."""
    if isinstance(target, ast.Attribute):
        reads = re.compile(
            rf"(?<!cfg\.)(?<!config\.)(?<!args\.)(?:{re.escape(last_name(owner))}|opt\w*)\.{target.attr}\b(?!\s*[-+*/]?=[^=])"
            rf"|attr\([^()]*[\"']{target.attr}[\"']",
        )
        return any(reads.search(file.text) for file in sites.mentioning([target.attr], tests=True))
    if "defaults" in ast.unparse(target):
        reads = re.compile(r"add_param_group|defaults(?!\[[\"']\w+[\"']\]\s*[-+*/]?=[^=])")
    else:
        reads = re.compile(r"[\"']learning_rate[\"'](?!\]\s*[-+*/]?=[^=])")
    return any(reads.search(file.text) for file in sites.mentioning(["learning_rate", "defaults", "add_param_group"]))


def _notes_down(line: ast.Assign | ast.AugAssign, around: ast.AST) -> bool:
    """Whether it only keeps a copy: of what a scheduler has set, or beside the groups that are set as well."""
    if any(word in ast.unparse(line.value) for word in ("get_last_lr", "param_groups")):
        return True
    return any(
        isinstance(node, ast.Subscript)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.slice, ast.Constant)
        and node.slice.value == "lr"
        and last_name(node.value) != "defaults"
        for node in walk(around)
    )


def _function_of(file: File, target: ast.AST) -> Function | None:
    found = (function for function in reversed(file.functions) if any(node is target for node in function.nodes))
    return next(found, None)
