"""averaged-before-split: features are centred, scaled or filled in by averages of rows that are held out later."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import dotted, walk
from mlcheck.lint.sites import Call, File, Sites
from mlcheck.lint.sites.data.cutting import cut_behind
from mlcheck.lint.sites.data.learning import averaged
from mlcheck.lint.sites.data.lineage import lineage
from mlcheck.lint.sites.data.row_cuts import cuts_of_rows
from mlcheck.lint.sites.data.splitting import splits_of_rows
from mlcheck.lint.sites.training.optimizers import around

LOOKS_AT = "split of rows"
WORDS = ("train_test_split", "random_split", "Subset", "cross_val", "sklearn.model_selection", ".std(", ".max(")
_HELP = "take the averages from the training part alone"


def check(facts: Facts) -> Iterator[Finding]:
    splits = list(splits_of_rows(facts.sites))
    facts.sites.seen["split of rows"] = len(splits)
    for split in splits:
        for data in split.node.args:
            for passed in lineage(split.file, data, split.context):
                if said := averaged(passed):
                    yield Finding(
                        f"{said}, before the split",
                        passed.file.place(passed.node, passed.context).location,
                        help=_HELP,
                        related=(split.place.location,),
                    )
    yield from {found.location: found for found in (*_cut_later(facts.sites), *_cut_behind(facts.sites))}.values()


def _cut_behind(sites: Sites) -> Iterator[Finding]:
    """The rows are cut in another function than the one that scaled them."""
    for cut in cuts_of_rows(sites):
        for passed in lineage(cut.file, cut.rows, cut.context):
            if said := averaged(passed):
                yield Finding(
                    f"{said}, before the split",
                    passed.file.place(passed.node, passed.context).location,
                    help=_HELP,
                    related=(cut.file.place(cut.held, cut.context).location,),
                )


def _cut_later(sites: Sites) -> Iterator[Finding]:
    """`x = (x - x.mean(0)) / x.std(0)`, and then `train, test = x[:n], x[n:]`."""
    for file in sites.mentioning([".std("]):
        for call in file.calls("std"):
            whole = around(call)
            for made in walk(whole):
                target = made.targets[0] if isinstance(made, ast.Assign) else None
                if not isinstance(made, ast.Assign) or target is None or not dotted(target):
                    continue
                if not _is_scaled_by(file, made.value, call):
                    continue
                if (cut := cut_behind(call, made, target)) is not None:
                    yield Finding(
                        "Mean and standard deviation are computed on all data, before the split",
                        file.place(made, call.context).location,
                        help=_HELP,
                        related=(file.place(cut, call.context).location,),
                    )


def _is_scaled_by(file: File, node: ast.expr, std: Call) -> bool:
    """Whether it is `(x - m) / s` of one `x`, with `m` its mean and `s` the deviation that this call takes."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Div):
        return False
    shifted, scale = node.left, node.right
    if isinstance(scale, ast.BinOp) and isinstance(scale.op, ast.Add):
        scale = scale.left
    if not isinstance(shifted, ast.BinOp) or not isinstance(shifted.op, ast.Sub):
        return False
    mean = file.value(shifted.right, std.context)[0]
    owners = [
        part.func.value
        for part, name in ((mean, "mean"), (file.value(scale, std.context)[0], "std"))
        if isinstance(part, ast.Call)
        and isinstance(part.func, ast.Attribute)
        and part.func.attr == name
        and _is_over_samples(Call(file, part, std.context))
    ]
    if len(owners) != 2 or file.value(scale, std.context)[0] is not std.node:
        return False
    return bool(dotted(shifted.left)) and {ast.unparse(owner) for owner in owners} == {dotted(shifted.left)}


def _is_over_samples(call: Call) -> bool:
    """`x.mean()`, `x.mean(0)`, `x.mean(axis=(0, 1))`: each sample has part in it."""
    words = (keyword.value for keyword in call.node.keywords if keyword.arg in ("axis", "dim"))
    given = [*call.node.args[:1], *words]
    return not given or any(
        isinstance(node, ast.Constant | ast.Name) and call.file.constant(node, call.context) == 0
        for node in ast.walk(given[0])
    )
