"""fit-on-eval: the preprocessing is fitted on data that is held out."""

import ast
import re
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import walk
from mlcheck.lint.sites import Call, Class, File, Sites
from mlcheck.lint.sites.cutting import cut_in_two
from mlcheck.lint.sites.guards import own_attribute
from mlcheck.lint.sites.latest import latest, origin, source
from mlcheck.lint.sites.optimizers import around
from mlcheck.lint.sites.origins import Origin, origins
from mlcheck.lint.values import split_of_name

LOOKS_AT = "call that fits"
_AXIS = re.compile(r"mean\((?:[a-zA-Z_]\w*(?:, |(?=\))))?(?:(?:axis|dim)=)?0?(?:, keepdims?=True)?\)$")
"""A mean over all rows: of each column, or of everything."""
_RETURNING = ("fit_transform", "fit_resample")
_FITS = ("fit", "fit_transform", "partial_fit", "adapt")
_LEARNS = (
    *("StandardScaler", "MinMaxScaler", "RobustScaler", "MaxAbsScaler", "QuantileTransformer", "PowerTransformer"),
    *("PCA", "TruncatedSVD", "SimpleImputer", "KNNImputer", "TfidfVectorizer", "CountVectorizer", "SelectKBest"),
)
_RESAMPLERS = ("imblearn.over_sampling.", "imblearn.combine.")
_SPLITS = ("sklearn.model_selection.train_test_split",)


def check(facts: Facts) -> Iterator[Finding]:
    fits = list(_fits(facts.sites))
    facts.sites.seen["call that fits"] = len(fits)
    yield from _oversampled(facts.sites)
    yield from _normalised(facts.sites)
    yield from _standardised(facts.sites)
    for call, kind in fits:
        data = call.node.args[0]
        name = _name(data)
        if split_of_name(name) in ("val", "test"):
            yield Finding(
                f"`{kind}` is fitted on held-out data, `{name}`",
                call.place.location,
                help="fit on the training data alone, and call `transform` on the rest",
            )
        elif (cut := _cut_later(call)) is not None:
            yield Finding(
                f"`{kind}` is fitted on all data before it is split: the training data has seen the test data",
                call.place.location,
                help="fit on the training part, and call `transform` on the rest",
                related=(call.file.place(cut, call.context).location,),
            )
        elif (split := _split_later(call) or _split_itself(call)) is not None:
            yield Finding(
                f"`{kind}` is fitted on all data before it is split: the training data has seen the test data",
                call.place.location,
                help="split first; fit on the training part, and call `transform` on the rest",
                related=(split.place.location,),
            )


def _cut_later(fit: Call) -> ast.Subscript | None:
    """The slice of what `fit_transform` returned that is held out."""
    names = fit.file.names_given(fit.node)
    if not isinstance(fit.node.func, ast.Attribute) or fit.node.func.attr not in _RETURNING or len(names) != 1:
        return None
    made = next((n for n in walk(around(fit)) if isinstance(n, ast.Assign) and n.value is fit.node), None)
    return cut_in_two(around(fit), made, names[0]) if made is not None else None


def _standardised(sites: Sites) -> Iterator[Finding]:
    """`x = (x - x.mean(0)) / x.std(0)`, and then `train, test = x[:n], x[n:]`."""
    for file in sites.mentioning([".std("]):
        for call in file.calls("std"):
            whole = around(call)
            for made in walk(whole):
                target = made.targets[0] if isinstance(made, ast.Assign) else None
                if not isinstance(made, ast.Assign) or not isinstance(target, ast.Name):
                    continue
                if not _is_scaled_by(file, made.value, call):
                    continue
                cut = cut_in_two(whole, made, target.id)
                if cut is not None:
                    yield Finding(
                        "Mean and deviation are those of all data before it is split: the training data has seen "
                        "the test data",
                        file.place(made, call.context).location,
                        help="take both from the training part alone",
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
        and _is_over_samples(part)
    ]
    if len(owners) != 2 or file.value(scale, std.context)[0] is not std.node:
        return False
    return isinstance(shifted.left, ast.Name) and {ast.unparse(owner) for owner in owners} == {shifted.left.id}


def _is_over_samples(call: ast.Call) -> bool:
    """`x.mean()`, `x.mean(0)`, `x.mean(axis=(0, 1))`: each sample has part in it."""
    given = [*call.args[:1], *(keyword.value for keyword in call.keywords if keyword.arg in ("axis", "dim"))]
    return not given or any(isinstance(node, ast.Constant) and node.value == 0 for node in ast.walk(given[0]))


def _oversampled(sites: Sites) -> Iterator[Finding]:
    """Samples made out of others before the split: their likes end up on both sides of it."""
    for file in sites.mentioning(["imblearn"]):
        for call in file.calls("fit_resample"):
            owner = call.node.func
            made = origins(file, owner.value, call.context) if isinstance(owner, ast.Attribute) else []
            certain = bool(made) and all(origin.name.startswith(_RESAMPLERS) for origin in made)
            if certain and (split := _split_later(call)) is not None:
                yield Finding(
                    "The samples are multiplied before the split: the held-out data has copies of training samples",
                    call.place.location,
                    help="split first, and resample the training part alone",
                    related=(split.place.location,),
                )


def _normalised(sites: Sites) -> Iterator[Finding]:
    """`x = (x - x.mean(0)) / x.std(0)` above `train_test_split(x, ...)`."""
    for call in sites.calls(*_SPLITS):
        for data in call.node.args[:1]:
            node, context = source(call.file, data, call.context)
            match node:
                case ast.BinOp(left=ast.BinOp(left=ast.Name(id=name), op=ast.Sub(), right=mean), op=ast.Div()):
                    made, there = source(call.file, mean, context)
                    texts = (f"{name}.mean(", f"np.mean({name}", f"numpy.mean({name}")
                    over = _AXIS.search(ast.unparse(made))
                    if isinstance(data, ast.Name) and ast.unparse(made).startswith(texts) and over is not None:
                        yield Finding(
                            "The mean is that of all data, and the split comes after: the training data has seen "
                            "the test data",
                            call.file.place(made, there).location,
                            help="split first; take mean and deviation of the training part for both",
                            related=(call.place.location,),
                        )


def _fits(sites: Sites) -> Iterator[tuple[Call, str]]:
    if not any(True for _ in sites.mentioning(["sklearn"])):
        return
    for file in sites.mentioning([f".{name}(" for name in _FITS]):
        for call in file.calls(*_FITS):
            owner = call.node.func
            if not isinstance(owner, ast.Attribute) or not call.node.args:
                continue
            found = origins(file, owner.value, call.context)
            kinds = {origin.name.rpartition(".")[2] for origin in found if origin.name.startswith("sklearn.")}
            if len(found) == 1 and kinds and kinds <= set(_LEARNS):
                yield call, kinds.pop()
            elif len(found) == 1 and (kind := _of_project(found[0], owner.attr)):
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
        if name and node.func.attr in _FITS and isinstance(first, ast.Name) and first.id == given:
            parts = [Origin(f.file, a.value, a.context).name for f, a in cls.attribute(name) if a.value is not None]
            if len(parts) == 1 and parts[0].startswith("sklearn.") and parts[0].rpartition(".")[2] in _LEARNS:
                return cls.name
    return ""


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


def _split_later(fit: Call) -> Call | None:
    """The call that splits what this one returned."""
    if not isinstance(fit.node.func, ast.Attribute) or fit.node.func.attr not in _RETURNING:
        return None
    for call in fit.file.calls("train_test_split"):
        if fit.file.resolve(call.node.func, call.context) not in _SPLITS:
            continue
        for data in call.node.args:
            if fit.node.lineno < call.node.lineno and _above(fit, data, call):
                return call
    return None


def _split_itself(fit: Call) -> Call | None:
    """The call beneath that splits the very data it was fitted on, where what was fitted is used on the parts."""
    data, owner = fit.node.args[0], fit.node.func
    if not isinstance(data, ast.Name) or not isinstance(owner, ast.Attribute):
        return None
    names = [*fit.file.names_given(fit.node), *([owner.value.id] if isinstance(owner.value, ast.Name) else [])]
    held = latest(fit.file, data, fit.context)
    for call in fit.file.calls("train_test_split") if held is not None else ():
        if fit.file.resolve(call.node.func, call.context) not in _SPLITS or call.function is not fit.function:
            continue
        same = [each for each in call.node.args if isinstance(each, ast.Name) and each.id == data.id]
        later = [node for node in walk(around(fit)) if getattr(node, "lineno", 0) > (call.node.end_lineno or 0)]
        used = any(isinstance(node, ast.Name) and node.id in names for node in later)
        if fit.node.lineno < call.node.lineno and same and used and latest(fit.file, same[0], call.context) is held:
            return call
    return None


def _above(fit: Call, data: ast.expr, split: Call) -> bool:
    """Whether the split is given what the fit returned, and not what had the same name before or after."""
    node, context = origin(split.file, data, split.context)
    if node is data or isinstance(node, ast.Name | ast.Attribute):
        return any(found.node is fit.node for found in origins(split.file, data, split.context))
    return any(found.node is fit.node for found in origins(split.file, node, context))
