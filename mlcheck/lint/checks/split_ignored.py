"""split-ignored: a loader over `subset.dataset`, which is all of the data again."""

import ast
import re
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import is_length, is_name, loads, walk
from mlcheck.lint.sites import OPEN, Call, File
from mlcheck.lint.sites.data.literal_splits import fixed_parts, literal_splits
from mlcheck.lint.sites.data.loaders import kind_of_data, loaders
from mlcheck.lint.sites.data.mixed_pairs import mixed_pairs
from mlcheck.lint.sites.data.unused_parts import unused_parts
from mlcheck.lint.sites.origins import Origin, origins
from mlcheck.lint.sites.training.optimizers import around
from mlcheck.lint.values import split_of_name

LOOKS_AT = "data loader"
WORDS = ("DataLoader", "random_split", "TensorDataset")
_PARTS = ("torch.utils.data.random_split", "torch.utils.data.Subset")


def check(facts: Facts) -> Iterator[Finding]:
    yield from _unused_part(facts)
    for unused in unused_parts(facts.sites):
        yield Finding(
            f"`self.{unused.whole}` is the whole data set, and `self.{unused.part}`, the part that was split off, is "
            "never used",
            unused.loader.place.location,
            help=f"give the loader `self.{unused.part}`",
            related=(unused.split.place.location,),
        )
    yield from _part_of_the_other(facts)
    yield from _unread_numbers(facts)
    yield from _sliced_whole(facts)
    for literal in (*literal_splits(facts.sites), *fixed_parts(facts.sites)):
        yield Finding(
            f'This reads "{literal.word}" whatever `{literal.name}` is: the model is trained on what it is tested on',
            literal.place.location,
            help=f"pass `{literal.name}` on",
        )
    for pair in mixed_pairs(facts.sites):
        yield Finding(
            f"`{pair.first}` and `{pair.second}` are of different splits: the targets belong to other samples",
            pair.call.place.location,
            help="pair the inputs of a split with its own targets",
        )
    for loader in facts.sites.once(loaders):
        data, call = loader.dataset, loader.call
        made = origins(call.file, data, call.context) if data is not None and data is not OPEN else []
        if made and all(_is_whole_of_part(each) for each in made):
            whole = made[0].node
            yield Finding(
                f"`{ast.unparse(whole)}` is the whole data set again, not the part that was split off",
                loader.call.place.location,
                help=f"give the loader `{ast.unparse(whole).removesuffix('.dataset')}` itself",
            )


def _is_whole_of_part(origin: Origin) -> bool:
    """`train.dataset` of what `random_split` returned, one of a list or of a dictionary of parts perhaps."""
    if not isinstance(origin.node, ast.Attribute) or origin.node.attr != "dataset":
        return False
    parts = origins(origin.file, origin.node.value, origin.context, origin.entered)
    if len(parts) == 1 and isinstance(parts[0].node, ast.Subscript):
        parts = origins(parts[0].file, parts[0].node.value, parts[0].context, parts[0].entered)
    return bool(parts) and all(_split_by(each) in _PARTS for each in parts)


def _split_by(part: Origin) -> str:
    """The function that made the parts, also of `dict(zip(names, random_split(...)))`."""
    match part.node:
        case ast.Call(func=ast.Name(id="dict"), args=[ast.Call(func=ast.Name(id="zip"), args=[_, ast.Call() as made])]):
            return part.file.called(made, part.context)
    return part.name


def _unused_part(facts: Facts) -> Iterator[Finding]:
    """A loader over what was split, in the function that splits it, whose training part nothing reads."""
    for loader in facts.sites.once(loaders):
        data, call = loader.dataset, loader.call
        if not isinstance(data, ast.Name) or loader.split in ("val", "test"):
            continue
        for split in call.file.calls("random_split"):
            whole = split.node.args[0] if split.node.args else None
            if split.function is not call.function or not isinstance(whole, ast.Name) or whole.id != data.id:
                continue
            named = call.file.resolve(split.node.func, split.context)
            part = _first_part(call.file.module.source.tree, split.node)
            if named != "torch.utils.data.random_split" or not part or split.node.lineno > call.node.lineno:
                continue
            if not loads(around(call), part):
                yield Finding(
                    f"`{data.id}` is the whole data set, and `{part}`, the part that was split off, is never used",
                    call.place.location,
                    help=f"give the loader `{part}`",
                    related=(split.place.location,),
                )


def _unread_numbers(facts: Facts) -> Iterator[Finding]:
    """A loader that trains on all of the data, of which `Subset(data, valid_numbers)` is held out beside it."""
    for subset in facts.sites.calls("torch.utils.data.Subset"):
        data, numbers = subset.argument("dataset", 0), subset.argument("indices", 1)
        if not isinstance(data, ast.Name) or not isinstance(numbers, ast.Name):
            continue
        if split_of_name(numbers.id) not in ("val", "test"):
            continue
        body = around(subset)
        parts = next((pair for node in walk(body) if (pair := _two(node)) is not None and numbers.id in pair), None)
        other = next((name for name in parts or () if name != numbers.id), "")
        if not other or loads(body, other):
            continue
        for loader in facts.sites.once(loaders):
            call = loader.call
            whole = is_name(loader.dataset, data.id)
            if whole and loader.trained and call.function is subset.function:
                yield Finding(
                    f"`{data.id}` is the whole data set, and `{other}`, the part that was split off, is never used",
                    call.place.location,
                    help=f"give the loader `Subset({data.id}, {other})`",
                    related=(subset.place.location,),
                )


def _sliced_whole(facts: Facts) -> Iterator[Finding]:
    """`train.dataset[:, 0]` and `valid.dataset[:, 0]` of the two parts of one split: the same rows twice."""
    for split in facts.sites.calls("torch.utils.data.random_split"):
        body = around(split)
        parts = next((pair for node in walk(body) if (pair := _two(node)) and _made_by(node, split)), None)
        read: dict[str, list[ast.Subscript]] = {}
        for node in walk(body) if parts is not None else ():
            if isinstance(node, ast.Subscript) and _is_all_rows(node.slice) and _owner(node.value) in (parts or ()):
                read.setdefault(ast.unparse(node.slice), []).append(node)
        for same in read.values():
            if len({_owner(node.value) for node in same}) == 2:
                yield Finding(
                    f"`{ast.unparse(same[0].value)}` and `{ast.unparse(same[1].value)}` are both the whole data set, "
                    "not the parts that were split off",
                    split.file.place(same[0], split.context).location,
                    help=f"take the rows of each part: `{ast.unparse(same[0].value)}[{_owner(same[0].value)}.indices]`",
                    related=(split.place.location,),
                )


def _made_by(node: ast.AST, call: Call) -> bool:
    return isinstance(node, ast.Assign) and node.value is call.node


def _owner(node: ast.expr) -> str:
    """`train` of `train.dataset`."""
    named = isinstance(node, ast.Attribute) and node.attr == "dataset" and isinstance(node.value, ast.Name)
    return ast.unparse(node).partition(".")[0] if named else ""


def _is_all_rows(index: ast.expr) -> bool:
    """`[:]` and `[:, 3]`."""
    first = index.elts[0] if isinstance(index, ast.Tuple) and index.elts else index
    return isinstance(first, ast.Slice) and first.lower is None and first.upper is None


def _two(node: ast.AST) -> tuple[str, str] | None:
    """`train, valid` of `train, valid = split(...)`."""
    match node:
        case ast.Assign(targets=[ast.Tuple(elts=[ast.Name(id=one), ast.Name(id=other)])]):
            return one, other
    return None


def _part_of_the_other(facts: Facts) -> Iterator[Finding]:
    """`val_loader = DataLoader(train_set)`, where `val_set` is made beside it and nothing reads it."""
    for loader in facts.sites.once(loaders):
        data, call = loader.dataset, loader.call
        names_of = loader.names or _key_of(call)
        named = {split_of_name(name) for name in names_of}
        if not isinstance(data, ast.Name) or len(named) != 1:
            continue
        (meant,) = named
        held = split_of_name(data.id) or _asked_for(call, data)
        if not meant or held in ("", meant) or "train" not in (meant, held):
            continue
        names = [n for n in walk(around(call)) if isinstance(n, ast.Name)]
        counted = {part for node in walk(around(call)) if is_length(node) for part in walk(node)}
        read = {n.id for n in names if isinstance(n.ctx, ast.Load) and n not in counted}
        idle = [n for n in names if isinstance(n.ctx, ast.Store) and n.id not in read and _is_part(call, n, meant)]
        if idle and not (call.function is None and _is_used_elsewhere(facts, call.file, idle[0].id)):
            yield Finding(
                f"`{names_of[0]}` reads `{data.id}`, and nothing reads `{idle[0].id}`",
                call.place.location,
                help=f"give the loader `{idle[0].id}`",
                related=(call.file.place(idle[0], call.context).location,),
            )


def _asked_for(call: Call, data: ast.Name) -> str:
    """`train` of `data = Scenes(root, mode="train")`: the split that one of the constants names."""
    found = origins(call.file, data, call.context)
    made = found[0].node if len(found) == 1 else None
    given = [*made.args, *(word.value for word in made.keywords)] if isinstance(made, ast.Call) else []
    said = [node.value for node in given if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    splits = {split_of_name(text) for text in said if text.isidentifier()} - {""}
    return splits.pop() if len(splits) == 1 else ""


def _key_of(call: Call) -> tuple[str, ...]:
    """`val` of `{"val": DataLoader(...)}`."""
    for node in walk(around(call)):
        if isinstance(node, ast.Dict) and call.node in node.values:
            key = node.keys[node.values.index(call.node)]
            return (key.value,) if isinstance(key, ast.Constant) and isinstance(key.value, str) else ()
    return ()


def _is_used_elsewhere(facts: Facts, file: File, name: str) -> bool:
    taken = re.compile(rf"\bimport\b[^\n]*(?:\b{name}\b|\*)|\.{name}\b|^\s+{name},?$", re.MULTILINE)
    others = facts.sites.mentioning([name, "import *"], tests=True)
    return any(other is not file and taken.search(other.text) for other in others)


def _is_part(call: Call, name: ast.Name, split: str) -> bool:
    """Whether the name is bound to data of that split: a part, or a data set of its own."""
    if split_of_name(name.id) != split or name.lineno > call.node.lineno:
        return False
    for found in origins(call.file, name, call.context):
        if split == _asked_for(call, name):
            return True
        last = found.node.func if isinstance(found.node, ast.Call) else None
        text = ast.unparse(last).rpartition(".")[2] if last is not None else ""
        if text in ("random_split", "Subset") or "dataset" in text.lower() or kind_of_data(found) == "map":
            return True
    return False


def _first_part(tree: ast.AST, split: ast.Call) -> str:
    """`train` of `train, val = random_split(...)`."""
    for node in walk(tree):
        if isinstance(node, ast.Assign) and node.value is split and isinstance(node.targets[0], ast.Tuple):
            first = node.targets[0].elts[0]
            return first.id if isinstance(first, ast.Name) and not first.id.startswith("_") else ""
    return ""
