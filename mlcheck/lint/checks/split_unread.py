"""split-unread: one split's data is made and never read, and the other split's stands in its place."""

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import is_length, is_name, last_name, own_nodes, reads_of, walk
from mlcheck.lint.sites import Class, Context, File, Function
from mlcheck.lint.sites.data.counted_apart import counted_apart
from mlcheck.lint.sites.data.judged_by_training import judged_by_training
from mlcheck.lint.sites.data.other_split import iterators_of_other_split, loaders_of_other_split
from mlcheck.lint.sites.data.split_pairs import alike, attribute_pairs, loops_over
from mlcheck.lint.values import split_of_name

LOOKS_AT = "pair of splits"
_WRAPS = ("tqdm", "trange", "track", "enumerate", "iter", "prefetch", "cycle")
_COUNTS = pattern(r"==|\.eq\(|correct|argmax|torch\.max\(")
_ASKS = ("eval", "valid", "val_", "test", "accuracy", "score")
_ADAPTS = pattern(r"temperature|calibrat|(?<!cross)(?<!cross_)entropy|adapt|last_layer|fine_?tun", re.IGNORECASE)
_COMPARES = pattern(r"==|loss|criterion|correct|acc|score|metric|error", re.IGNORECASE)


class _Scope(NamedTuple):
    file: File
    node: ast.AST
    context: Context


def check(facts: Facts) -> Iterator[Finding]:
    seen = 0
    for file in facts.sites.mentioning(["train"]):
        for mixed in loaders_of_other_split(file):
            yield Finding(
                f"Nothing reads `{mixed.unread}`, and `{mixed.loader}` is made of `{mixed.data}`",
                mixed.place.location,
                help=f"`{mixed.unread}` belongs here",
            )
        for mixed in iterators_of_other_split(file):
            yield Finding(
                f"`{mixed.loader}` goes through `{mixed.data}`, and nothing here goes through `{mixed.unread}`",
                mixed.place.location,
                help=f"`{mixed.unread}` belongs here",
            )
        for judged in judged_by_training(file):
            yield Finding(
                f"This evaluation goes over `{judged.over}`, and nothing goes over `{judged.unread}`",
                judged.place.location,
                help=f"`{judged.unread}` belongs here",
            )
        for function in file.functions if "torch" in file.text else ():
            for apart in counted_apart(function):
                yield Finding(
                    f"This divides by the size of `{ast.unparse(apart.counted)}`, and goes over "
                    f"`{ast.unparse(apart.over)}`",
                    function.place(apart.over).location,
                    help=f"`{ast.unparse(apart.counted)}` belongs here",
                    related=(function.place(apart.counted).location,),
                )
        for node, context in file.scopes():
            for unread, other in _pairs(_Scope(file, node, context)):
                seen += 1
                yield from _judged(_Scope(file, node, context), unread, other)
        for cls in file.classes:
            for unread, other in attribute_pairs(cls):
                seen += 1
                yield from _judged_class(cls, unread, other)
    facts.sites.seen[LOOKS_AT] = seen


def _pairs(scope: _Scope) -> Iterator[tuple[str, str]]:
    """Names such as `val_loader` and `train_loader`, of which nothing reads the first."""
    together = alike(scope.context.scope.bindings)
    if not together:
        return
    inside = walk(scope.node)
    if any(isinstance(node, ast.Name) and node.id in ("locals", "globals") for node in inside):
        return
    for names in together:
        for unread, other in (names, names[::-1]):
            if split_of_name(unread) == split_of_name(other) or _is_known_elsewhere(scope, unread):
                continue
            if not _reads(inside, unread) and _reads(inside, other) and not _may_be_left(scope, unread):
                yield unread, other


def _may_be_left(scope: _Scope, unread: str) -> bool:
    """Whether training data is not needed: a model, or a part of it, is fitted to what was held out, on purpose."""
    if split_of_name(unread) != "train":
        return False
    text = scope.file.module.text_of(scope.node) if isinstance(scope.node, ast.stmt) else scope.file.text
    return _ADAPTS.search(text) is not None


def _judged_class(cls: Class, unread: str, other: str) -> Iterator[Finding]:
    """The loops of the class's methods over the attribute that stands in the place of the other."""
    trained: list[tuple[Function, ast.expr]] = []
    judged: list[tuple[Function, ast.expr]] = []
    for method in cls.methods.values():
        text = method.text
        of_training = "train" in method.name.lower()
        for loop, over in loops_over(method, f"{method.receiver}.{other}"):
            inside = cls.file.module.text_of(loop)
            if ".backward(" in inside:
                trained.append((method, over))
            elif ".eval()" in text and ".step(" not in inside and _COMPARES.search(inside) and not of_training:
                judged.append((method, over))
    found = (
        trained if split_of_name(unread) == "train" else judged if trained and split_of_name(other) == "train" else []
    )
    for method, place in found[:1]:
        yield _finding(_Scope(cls.file, method.node, method.inner), place, f"self.{unread}", f"self.{other}")


def _is_known_elsewhere(scope: _Scope, name: str) -> bool:
    """Whether another file may import a variable of a module."""
    files = scope.file.sites.mentioning([name], tests=True) if isinstance(scope.node, ast.Module) else ()
    return any(file is not scope.file for file in files)


def _reads(nodes: list[ast.AST], name: str) -> list[ast.Name]:
    """Where a variable is read, but for its length, and lines that pass it on to itself: `data = prepare(data)`."""
    aside = {
        inner
        for node in nodes
        if (isinstance(node, ast.Assign) and name in _targets(node)) or is_length(node)
        for inner in walk(node)
    }
    return [node for node in reads_of(nodes, name) if node not in aside]


def _targets(node: ast.Assign) -> set[str]:
    return {inner.id for target in node.targets for inner in walk(target) if isinstance(inner, ast.Name)}


def _judged(scope: _Scope, unread: str, other: str) -> Iterator[Finding]:
    """What stands in the place of the split that nothing reads."""
    nodes = walk(scope.node)
    reads = _reads(nodes, other)
    if _is_of_folds(scope, unread):
        lines = sorted(reads, key=lambda read: (read.lineno, read.col_offset))
        made = [line for line in lines if _is_given_to_data(nodes, line)]
        if len(made) > 1:
            yield _finding(scope, made[0] if split_of_name(other) != "train" else made[-1], unread, other)
        return
    counted = _read_by_length_of(scope, unread, reads)
    if counted is not None:
        yield _finding(scope, counted, unread, other)
        return
    loops = [node for node in own_nodes(scope.node) if isinstance(node, ast.For)]
    training = [loop for loop in loops if ".backward(" in scope.file.module.text_of(loop)]
    inner = [loop for loop in training if not any(other in set(walk(loop)) - {loop} for other in training)]
    over = [read for loop in inner for read in reads if read in _gone_over(nodes, loop)]
    if split_of_name(unread) == "train":
        if over:
            yield _finding(scope, over[0], unread, other)
    elif split_of_name(other) == "train" and (over or _is_trained_elsewhere(nodes, reads)):
        judged = [loop for loop in loops if loop not in training and _is_evaluation(scope, loop)]
        asked = [read for loop in judged for read in reads if read in _gone_over(nodes, loop)]
        asked += _asked(nodes, reads)
        if asked:
            yield _finding(scope, asked[0], unread, other)


def _read_by_length_of(scope: _Scope, unread: str, reads: list[ast.Name]) -> ast.Name | None:
    """`while i < len(val_data)`, or `for i in range(len(val_data))`, and what it reads is the other split's."""
    for loop in own_nodes(scope.node):
        head = loop.test if isinstance(loop, ast.While) else loop.iter if isinstance(loop, ast.For) else None
        lengths = [node for node in walk(head) if is_length(node)] if head is not None else []
        if any(is_name(part, unread) for node in lengths for part in walk(node)):
            inside = set(walk(loop))
            return next((read for read in reads if read in inside), None)
    return None


def _gone_over(nodes: list[ast.AST], loop: ast.For) -> set[ast.AST]:
    """What a loop goes over, and what was wrapped for it: `progress = tqdm(train_loader)`."""
    inside = set(walk(loop.iter))
    named = {node.id for node in inside if isinstance(node, ast.Name)}
    for node in nodes:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and not named.isdisjoint(_targets(node)):
            if last_name(node.value.func) in _WRAPS:
                inside |= set(node.value.args)
    return inside


def _finding(scope: _Scope, where: ast.AST, unread: str, other: str) -> Finding:
    verb = "trains on" if split_of_name(unread.removeprefix("self.")) == "train" else "judges by"
    return Finding(
        f"Nothing reads `{unread}`, and this {verb} `{other}`",
        scope.file.place(where, scope.context).location,
        help=f"`{unread}` belongs here",
    )


def _is_of_folds(scope: _Scope, name: str) -> bool:
    """`for train_index, val_index in folds.split(X)`."""
    bound = scope.context.scope.bindings.get(name, [])
    node = bound[0].node if len(bound) == 1 else None
    return isinstance(node, ast.For) and ".split(" in ast.unparse(node.iter)


def _is_given_to_data(nodes: list[ast.AST], read: ast.Name) -> bool:
    """`Subset(data, index)`, `SubsetRandomSampler(index)`."""
    calls = (node for node in nodes if isinstance(node, ast.Call) and read in node.args)
    return any(last_name(call.func) in ("Subset", "SubsetRandomSampler") for call in calls)


def _is_trained_elsewhere(nodes: list[ast.AST], reads: list[ast.Name]) -> bool:
    """`train_one_epoch(model, train_loader)`."""
    return any(
        isinstance(node, ast.Call) and "train" in last_name(node.func).lower() and any(r in node.args for r in reads)
        for node in nodes
    )


def _asked(nodes: list[ast.AST], reads: list[ast.Name]) -> list[ast.Name]:
    """What is given to calls such as `evaluate(model, train_loader)`, unless they say that training data is meant."""
    calls = [node for node in nodes if isinstance(node, ast.Call) and last_name(node.func).lower().startswith(_ASKS)]
    said = {
        node.value: " ".join(_targets(node)) for node in nodes if isinstance(node, ast.Assign) and node.value in calls
    }
    found = [(read, call) for read in reads for call in calls if read in call.args]
    return [read for read, call in found if not _says_train(call, read, said.get(call, ""))]


def _says_train(call: ast.Call, data: ast.Name, kept_as: str) -> bool:
    """`train_acc = evaluate(model, train_loader)`, `evaluate(model, train_loader, "train")`."""
    others = [argument for argument in (*call.args, *call.keywords) if argument is not data]
    return "train" in kept_as.lower() or any("train" in ast.unparse(argument).lower() for argument in others)


def _is_evaluation(scope: _Scope, loop: ast.For) -> bool:
    """Whether the loop asks the model without training it: a comparison with labels, or no gradients."""
    text = scope.file.module.text_of(loop)
    around = scope.file.module.text_of(scope.node) if isinstance(scope.node, ast.FunctionDef) else scope.file.text
    if ".step(" in text or not _COMPARES.search(text):
        return False
    if ".eval()" not in around and not ("no_grad" in around and _COUNTS.search(text)):
        return False
    return "model(" in text or "net(" in text or "no_grad" in around
