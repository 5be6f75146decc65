"""fit-on-eval: the preprocessing is fitted on data that is held out."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import before_methods, dotted, is_name, last_name, loads, walk
from mlcheck.lint.sites import Call, Class, Sites
from mlcheck.lint.sites.data.cutting import cut_behind
from mlcheck.lint.sites.data.encoded_in_helper import encoded_in_helpers
from mlcheck.lint.sites.data.fitted_in_helper import fitted_in_helpers
from mlcheck.lint.sites.data.fitted_whole import split_of_fitted
from mlcheck.lint.sites.data.folds import held_out_by_fold, rehearsed
from mlcheck.lint.sites.data.learning import COUNTERS, fitted, of_origin, taken_behind, target_by_group, targets
from mlcheck.lint.sites.data.lineage import Passed, lineage
from mlcheck.lint.sites.data.own_fits import own_fits
from mlcheck.lint.sites.data.own_scale import own_scales
from mlcheck.lint.sites.data.scaled_in_helper import scaled_in_helpers
from mlcheck.lint.sites.data.splitting import splits_of_rows
from mlcheck.lint.sites.guards import own_attribute
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.origins import Origin, origins
from mlcheck.lint.sites.training.optimizers import around
from mlcheck.lint.values import split_of_name

LOOKS_AT = "call that fits"
_RETURNING = ("fit_transform", "fit_resample")
_FITS = ("fit", "fit_transform", "partial_fit", "adapt")
_JOINS = ("concatenate", "concat", "vstack", "append", "cat")
_AS_ARRAY = ("toarray", "todense", "astype", "tocsr", "copy")
_SEEN = {
    "": "the training data has seen the test data",
    "The samples are multiplied": "the held-out data has copies of training samples",
}


def check(facts: Facts) -> Iterator[Finding]:
    fits = list(_fits(facts.sites))
    facts.sites.seen["call that fits"] = len(fits)
    yield from _learned_before(facts.sites)
    for own in (*own_scales(facts.sites), *scaled_in_helpers(facts.sites), *fitted_in_helpers(facts.sites)):
        yield Finding(
            f"`{own.name}` is scaled by its own statistics, not by those of the training data",
            own.place.location,
            help="scale both with the statistics of the training data",
            related=(own.training.location,),
        )
    for own in encoded_in_helpers(facts.sites):
        yield Finding(
            f"`{own.name}` numbers the categories that it finds, and so other ones than for the training data",
            own.place.location,
            help="keep the categories of the training data, `pd.Categorical(column, categories=known).codes`",
            related=(own.training.location,),
        )
    for each in own_fits(facts.sites):
        yield Finding(
            f"Each data set fits {each.what} to its own rows: held-out data is not encoded as training data is",
            each.function.place(each.node).location,
            help="fit on the training data, and hand the result to the data sets of the other splits",
            related=(each.held_out.place.location,),
        )
    for call, kind in fits:
        data = call.node.args[0]
        fold = held_out_by_fold(call.file, data, call.context)
        joined = _held_out_part(call)
        if kind in COUNTERS and (joined or not split_of_name(_name(data))):
            continue
        name = fold or joined or _name(data)
        if (fold or split_of_name(name) in ("val", "test")) and not (_is_drawn(call) or _is_learned_from(call, name)):
            yield Finding(
                f"`{kind}` is fitted on held-out data, `{name}`",
                call.place.location,
                help="fit on the training data alone, and call `transform` on the rest",
            )
        elif (cut := _cut_later(call)) is not None:
            yield Finding(
                f"`{kind}` is fitted on all data before the split: it has seen what is held out",
                call.place.location,
                help="fit on the training part, and call `transform` on the rest",
                related=(call.file.place(cut, call.context).location,),
            )
        elif (split := split_of_fitted(call)) is not None:
            when = "before the split" if call.node.lineno < split.node.lineno else "beneath the split"
            yield Finding(
                f"`{kind}` is fitted on all data {when}: it has seen what is held out",
                call.place.location,
                help="split first; fit on the training part, and call `transform` on the rest",
                related=(split.place.location,),
            )


def _held_out_part(fit: Call) -> str:
    """`x_test` of `x_train + x_test`, `np.concatenate([x_train, x_test])` and `pd.concat((train, test))`."""
    match fit.node.args[0]:
        case ast.BinOp(left=one, op=ast.Add(), right=other):
            names = [_name(one), _name(other)]
        case ast.Call(func=func, args=[ast.List(elts=parts) | ast.Tuple(elts=parts), *_]) if last_name(func) in _JOINS:
            names = [_name(part) for part in parts]
        case _:
            return ""
    held_out = [name for name in names if split_of_name(name) in ("val", "test")]
    return held_out[0] if held_out and any(split_of_name(name) == "train" for name in names) else ""


def _is_drawn(fit: Call) -> bool:
    """`PCA(n_components=2).fit_transform(test_features)`: a map of the points, made for one picture of them."""
    made, where = source(fit.file, fit.owner, fit.context) if fit.owner is not None else (None, fit.context)
    size = Call(fit.file, made, where).constant("n_components", 0) if isinstance(made, ast.Call) else None
    return size in (2, 3) and "scatter" in fit.file.text


def _is_learned_from(fit: Call, name: str) -> bool:
    """`mine = val_rows & known`, `probe.fit(x[mine], y[mine])`: held out from another model, and trained on here."""
    nodes = walk(fit.file.module.source.tree)
    made = [node for node in nodes if isinstance(node, ast.Assign) and loads(node.value, name)]
    names = {name, *(target.id for node in made for target in node.targets if isinstance(target, ast.Name))}
    taught = (call.node.args for call in fit.file.calls("fit"))
    return any(len(given) > 1 and any(loads(given[0], each) for each in names) for given in taught)


def _cut_later(fit: Call) -> ast.Subscript | None:
    """The slice of what was fitted and transformed that is held out."""
    if split_of_name(_name(fit.node.args[0])) == "train":
        return None  # what the split before holds out is still unseen
    whole = around(fit)
    owners = [fit.owner, *(ast.Name(name, ast.Load()) for name in fit.file.names_given(fit.node))]
    lines = (node for node in walk(whole) if isinstance(node, ast.Assign))
    made = next((line for line in lines if _is_transformed(line.value, fit.node, owners)), None)
    target = _table(made.targets[0]) if made is not None else None
    if made is None or target is None or not dotted(target):
        return None
    return cut_behind(fit, made, target)


def _table(target: ast.expr) -> ast.expr:
    """`frame` of `frame["age"] = ...`, which changes one of its columns."""
    key = target.slice if isinstance(target, ast.Subscript) else None
    named = isinstance(key, ast.Constant | ast.List | ast.Name)
    return target.value if isinstance(target, ast.Subscript) and named else target


def _is_transformed(value: ast.expr, fit: ast.Call, owners: list[ast.expr | None]) -> bool:
    """`scaler.fit_transform(x)` itself; `scaler.transform(x)` beneath `scaler.fit(x)`, by this or its other name."""
    value = before_methods(value, _AS_ARRAY)
    if not isinstance(fit.func, ast.Attribute) or fit.func.attr in _RETURNING:
        return value is fit
    match value:
        case ast.Call(func=ast.Attribute(value=owner, attr="transform"), args=[data]) if value.lineno > fit.lineno:
            known = [ast.unparse(each) for each in owners if each is not None]
            return ast.unparse(owner) in known and ast.dump(data) == ast.dump(fit.args[0])
    return False


def _learned_before(sites: Sites) -> Iterator[Finding]:
    """What learned from all rows, and of which the rows are split then."""
    splits = list(splits_of_rows(sites))
    cuts = {id(split.node) for split in splits}
    for split in splits:
        told = set[tuple[str, int]]()
        for data in split.node.args:
            behind = list(lineage(split.file, data, split.context))
            if any(id(passed.node) in cuts for passed in behind):
                continue  # a part of an earlier split: what was learned from it has not seen what that holds out
            for passed in behind:
                said, line = fitted(passed) or _target_told(split, passed, data), (passed.file.path, passed.node.lineno)
                if said and line not in told and not rehearsed(split, passed):
                    told.add(line)
                    yield Finding(
                        f"{said} before the split: {_SEEN.get(said, _SEEN[''])}",
                        passed.file.place(passed.node, passed.context).location,
                        help="split first; learn from the training part alone, and apply that to the rest",
                        related=(split.place.location,),
                    )


def _target_told(split: Call, passed: Passed, data: ast.expr) -> str:
    """Each row gets the average target of its group, its own among them."""
    groups = target_by_group(passed)
    told = groups & (targets(split.node) | passed.dropped | (taken_behind(split) if groups else frozenset()))
    return f"Each row is given the average of the target, `{min(told)}`, over all data" if told else ""


def _fits(sites: Sites) -> Iterator[tuple[Call, str]]:
    if not any(True for _ in sites.mentioning(["sklearn"])):
        return
    for file in sites.mentioning([f".{name}(" for name in _FITS]):
        for call in file.calls(*_FITS):
            owner = call.node.func
            if not isinstance(owner, ast.Attribute) or not call.node.args:
                continue
            found = origins(file, owner.value, call.context)
            if len(found) == 1 and (kind := of_origin(found[0]) or _of_project(found[0], owner.attr)):
                yield call, kind


def _of_project(made: Origin, method: str) -> str:
    """The name of a project's class that hands what it is to fit on to a part of its own that learns."""
    cls = made.file.resolve(made.node.func, made.context) if isinstance(made.node, ast.Call) else None
    fit = cls.find(method) if isinstance(cls, Class) else None
    if not isinstance(cls, Class) or fit is None or len(fit.parameters) < 2:
        return ""
    given = list(fit.parameters)[1]
    for node in fit.nodes:
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or not node.args:
            continue
        name, first = own_attribute(node.func.value, fit), node.args[0]
        if name and node.func.attr in _FITS and is_name(_rows(first), given):
            parts = [Origin(f.file, a.value, a.context) for f, a in cls.attribute(name) if a.value is not None]
            if len(parts) == 1 and of_origin(parts[0]):
                return cls.name
    return ""


def _rows(node: ast.expr) -> ast.expr:
    """`frame` of `frame[COLUMNS].to_numpy()`: all its rows, be it some of its columns."""
    node = before_methods(node, ("to_numpy", "copy", "astype", "fillna"))
    node = node.value if isinstance(node, ast.Attribute) and node.attr == "values" else node
    match node:
        case ast.Subscript(value=frame, slice=ast.Name(id=columns)) if columns.isupper():
            return frame
        case ast.Subscript(
            value=frame, slice=ast.Constant(value=str()) | ast.List(elts=[ast.Constant(value=str()), *_])
        ):
            return frame
    return node


def _name(node: ast.expr) -> str:
    """`x_test` of `x_test`, `x_test[:, :3]`, `self.x_test.values`."""
    while True:
        if isinstance(node, ast.Name):
            return node.id
        if isinstance(node, ast.Attribute):
            if split_of_name(node.attr):
                return node.attr
            node = node.value
        elif isinstance(node, ast.Subscript):
            if isinstance(node.slice, ast.Name) and split_of_name(node.slice.id):
                return node.slice.id
            node = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            node = node.func.value
        else:
            return ""
