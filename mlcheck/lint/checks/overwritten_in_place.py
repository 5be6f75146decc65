"""overwritten-in-place: an operation changes a tensor that is still read, or kept, as what it was."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts
from mlcheck.lint.names import canonical
from mlcheck.lint.nodes import is_name, walk
from mlcheck.lint.sites import Function, Sites
from mlcheck.lint.sites.data.held_samples import held_sample, is_view
from mlcheck.lint.sites.layers.aliases import added_to_both, held_against_itself
from mlcheck.lint.sites.layers.arguments import changed_for_the_caller
from mlcheck.lint.sites.layers.changed_parameters import changed_parameters
from mlcheck.lint.sites.layers.ignored_labels import ignored_in_both
from mlcheck.lint.sites.layers.kept_slices import kept_slices
from mlcheck.lint.sites.layers.modules import is_module
from mlcheck.lint.sites.layers.overwriting import Overwriting, is_changed_anyway, overwritings
from mlcheck.lint.sites.layers.saved_results import kept_result, written_into
from mlcheck.lint.sites.layers.written_then_read import moved_onto_itself, picked_for_good, read_too_late
from mlcheck.lint.sites.straight import blocks_around, read_after, rebound_between

LOOKS_AT = "operation in place"
_SIGNS = (" += ", " -= ", " *= ", " /= ")
_DATASETS = ("torch.utils.data.Dataset", "torchvision.datasets.VisionDataset")
_PICTURE = pattern(r"^(?:im|img|image|frame|volume|wav|audio|waveform|spec|spectrogram|patch|crop)s?$")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    yield from _in_modules(facts.sites)
    yield from _in_datasets(facts.sites)
    for call, name in read_too_late(facts.sites):
        yield Finding(
            f"`{name}` is read here after it was changed in place in the same line",
            call.place.location,
            help=f"keep what is to be added first: `other = {name}.flip(0)`, or compute a new tensor without the `_`",
        )
    for call, name in moved_onto_itself(facts.sites):
        yield Finding(
            f"`{name}` is read while its rows are written over: some of them are copies of others then",
            call.place.location,
            help=f"write into a new tensor: `torch.zeros_like({name})`",
        )
    for forward, line, kept in picked_for_good(facts.sites):
        yield Finding(
            f"`self.{kept}` is overwritten by the entries for this batch, and the next batch picks from those",
            forward.place(line).location,
            help=f"give what is picked a name of its own: `{kept} = ...`",
        )
    for file in facts.sites.mentioning(["torch"]):
        for function in file.functions:
            text = function.text
            if "_(" in text:
                yield from _beside_itself(function)
            if any(sign in text for sign in _SIGNS):
                yield from added_to_both(function)
            if "] = " in text:
                yield from _one_for_two(function)
                yield from _ignored_in_both(function)
                yield from held_against_itself(function)
            yield from _slices_written_over(function)


def _beside_itself(function: Function) -> Iterator[Finding]:
    """`noisy = x.add_(noise)`, and `loss(net(noisy), x)`: the two are one tensor."""
    for change in overwritings(function):
        if change.is_layer or not change.certain or change.result in ("", change.name):
            continue
        for node in function.nodes:
            if isinstance(node, ast.Call) and node.lineno > change.node.lineno and len(node.args) > 1:
                one, *others = node.args
                apart = [{n.id for n in walk(arg) if isinstance(n, ast.Name)} for arg in (one, *others)]
                both = [names for names in apart if names & {change.name, change.result}]
                if (
                    len(both) == 2
                    and not both[0] & both[1] & {change.name, change.result}
                    and not _rebinds(function, change, node)
                ):
                    yield Finding(
                        f"This changes `{change.name}` in place: `{change.result}` is the same tensor, and they are "
                        f"held against each other in line {node.lineno}",
                        function.place(change.node).location,
                        help="compute a new tensor, without the `_`",
                        related=(function.place(node).location,),
                    )
                    break


def _rebinds(function: Function, change: Overwriting, use: ast.Call) -> bool:
    return any(rebound_between(function.node, change.node, use, name) for name in (change.name, change.result))


def _one_for_two(function: Function) -> Iterator[Finding]:
    """`labels = ids`, then `labels[~mask] = -100` and `ids[mask] = mask_id`: both lines write into one tensor."""
    for line in function.all(ast.Assign):
        target = line.targets[0] if len(line.targets) == 1 else None
        if not isinstance(target, ast.Name) or not isinstance(line.value, ast.Name):
            continue
        names = (target.id, line.value.id)
        writes = [_written_at(function, name, line) for name in names]
        if writes[0] is None or writes[1] is None or names[0] == names[1]:
            continue
        last = max(writes[0], writes[1], key=lambda node: node.lineno)
        if all(read_after(function.node, last, name) is not None for name in names):
            if not any(rebound_between(function.node, line, last, name) for name in names):
                yield Finding(
                    f"`{names[0]}` and `{names[1]}` are one tensor, and both are written to: each write changes both",
                    function.place(line).location,
                    help=f"`{names[0]} = {names[1]}.clone()`",
                    related=tuple(function.place(write).location for write in writes if write is not None),
                )


def _ignored_in_both(function: Function) -> Iterator[Finding]:
    """`labels = input_ids`, then `labels[mask] = -100`, and `input_ids` goes to the model."""
    for found in ignored_in_both(function):
        yield Finding(
            f"`{found.labels}` is no copy: what is written into it replaces tokens of `{found.inputs}`, too",
            function.place(found.line).location,
            help="make a copy: `.clone()` of a tensor, `copy.deepcopy` of a list",
            related=(function.place(found.write).location, function.place(found.read).location),
        )


def _slices_written_over(function: Function) -> Iterator[Finding]:
    """`last = x[:, -1:]`, `x[:, :] = x - last`, and `y + last` behind it: by then `last` is zero."""
    for kept in kept_slices(function):
        yield Finding(
            f"`{kept.name}` is a view, and this line changes it: line {kept.read.lineno} does not read what it was",
            function.place(kept.write).location,
            help=f"`{kept.name} = ....clone()`, or bind the result to a new name",
            related=(function.place(kept.view).location,),
        )


def _written_at(function: Function, name: str, after: ast.Assign) -> ast.Assign | None:
    """The first `name[index] = ...` behind a line; what is written by a word goes into a dictionary."""
    for node in function.all(ast.Assign):
        if node.lineno > after.lineno:
            target = node.targets[0]
            if isinstance(target, ast.Subscript) and is_name(target.value, name):
                if not isinstance(target.slice, ast.Constant | ast.JoinedStr):
                    return node
    return None


def _in_modules(sites: Sites) -> Iterator[Finding]:
    for cls in sites.classes:
        if not is_module(cls):
            continue
        yield from changed_for_the_caller(sites, cls)
        for function in cls.methods.values():
            if function.name == "__init__":
                continue
            for change in overwritings(function):
                sites.seen[LOOKS_AT] += 1
                yield from _read_as_it_was(function, change)
                yield from _needed_backward(function, change)
            for change in written_into(function):
                yield from _needed_backward(function, change)
        for leaf, name in changed_parameters(cls):
            yield Finding(
                f"This changes the parameter `self.{name}` in place while gradients are recorded: autograd refuses it",
                leaf.location,
                help=f"compute a new tensor of `self.{name}`, or do it under `torch.no_grad()`",
            )


def _needed_backward(function: Function, change: Overwriting) -> Iterator[Finding]:
    """`gate = torch.sigmoid(self.fc(x))`, and then `gate *= 2`: the gradient is computed from the first result."""
    made = kept_result(function, change)
    if made is not None:
        yield Finding(
            f"This changes `{change.name}` in place, and the backward pass needs it as it was: it fails there",
            function.place(change.node).location,
            help="compute a new tensor instead",
            related=(function.place(made).location,),
        )


def _read_as_it_was(function: Function, change: Overwriting) -> Iterator[Finding]:
    """The tensor itself, where the result has got a name of its own, or another name of it from before."""
    if (kept := _appended(function, change)) is not None:
        yield Finding(
            f"This changes `{change.name}` in place, and with it what was kept of it before",
            function.place(change.node).location,
            help="leave out `inplace=True`, or keep a `clone()`",
            related=(function.place(kept).location,),
        )
        return
    if change.loops:
        return
    if change.result != change.name and change.is_layer:
        later = read_after(function.node, change.node, change.name)
        if later is not None and not is_changed_anyway(function, later):
            yield Finding(
                f"This changes `{change.name}` in place, and line {later.lineno} reads it as if it were unchanged",
                function.place(change.node).location,
                help="leave out `inplace=True` here",
                related=(function.place(later).location,),
            )
            return
    for name, bound in _others(function, change):
        if name == change.name:
            continue
        later = read_after(function.node, change.node, name)
        if later is not None:
            yield Finding(
                f"This changes `{change.name}` in place, and with it `{name}`, which is the same tensor",
                function.place(change.node).location,
                help="compute a new tensor instead, or keep a `clone()` of the old one",
                related=(function.place(bound).location, function.place(later).location),
            )
            return


def _appended(function: Function, change: Overwriting) -> ast.stmt | None:
    """`kept.append(x)` in the same block as the layer that changes `x` after it, with nothing between them."""
    if not change.is_layer:
        return None
    for block in blocks_around(function.node, change.node)[-1:]:
        for node in block:
            call = node.value if isinstance(node, ast.Expr) else None
            if node.lineno >= change.node.lineno or not isinstance(call, ast.Call) or len(call.args) != 1:
                continue
            func, given = call.func, call.args[0]
            if isinstance(func, ast.Attribute) and func.attr == "append" and isinstance(given, ast.Name):
                if given.id == change.name and not rebound_between(function.node, node, change.node, change.name):
                    return node
    return None


def _others(function: Function, change: Overwriting) -> Iterator[tuple[str, ast.stmt]]:
    """Names that were given to the same tensor before: `identity = x`."""
    for node in function.all(ast.Assign):
        if node.lineno >= change.node.lineno or len(node.targets) != 1:
            continue
        target = node.targets[0]
        if isinstance(node.value, ast.Name) and isinstance(target, ast.Name) and node.value.id == change.name:
            if not any(rebound_between(function.node, node, change.node, n) for n in (change.name, target.id)):
                yield target.id, node


def _in_datasets(sites: Sites) -> Iterator[Finding]:
    for cls in sites.classes:
        reads = cls.methods.get("__getitem__")
        if reads is None or not any(canonical(base) in _DATASETS for base in cls.libraries):
            continue
        for change in overwritings(reads):
            held = held_sample(reads, change)
            if held is None:
                continue
            sites.seen[LOOKS_AT] += 1
            if change.certain or is_view(cls, reads, held.attr, change.name) or _PICTURE.search(change.name):
                yield Finding(
                    f"This changes what `self.{held.attr}` holds: the next epoch starts from the changed sample",
                    reads.place(change.node).location,
                    help=f"compute a new tensor: `{change.name} = ({change.name} ...)`, or `clone()` it first",
                    related=(reads.place(held).location,),
                )
