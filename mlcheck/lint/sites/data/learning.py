"""What preprocessing learns from all the rows it is given: scalers, imputers, means by hand, targets by group."""

from __future__ import annotations

import ast

from mlcheck.lint.nodes import is_name, walk
from mlcheck.lint.sites.data.lineage import Passed, named_columns
from mlcheck.lint.sites.data.multiplying import draws_again
from mlcheck.lint.sites.data.own_scalers import standardised
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.latest import latest, source
from mlcheck.lint.sites.model import Call
from mlcheck.lint.sites.origins import Origin, origins
from mlcheck.lint.sites.scopes import Binding, Context

LEARNERS = frozenset(
    [
        *("StandardScaler", "MinMaxScaler", "RobustScaler", "MaxAbsScaler", "QuantileTransformer", "PowerTransformer"),
        *("PCA", "TruncatedSVD", "SimpleImputer", "KNNImputer", "IterativeImputer", "TfidfVectorizer"),
        *("CountVectorizer", "SelectKBest", "SelectPercentile", "SelectFromModel", "RFE", "RFECV", "SelectFdr"),
        *("KBinsDiscretizer", "TargetEncoder", "NMF", "KernelPCA", "FastICA", "IncrementalPCA", "FactorAnalysis"),
    ]
)
COUNTERS = frozenset(["CountVectorizer"])
"""What learns which words there are, and not how often: of words that only held-out rows have, nothing follows."""
SCALERS = frozenset(["StandardScaler", "MinMaxScaler", "RobustScaler", "MaxAbsScaler"])
_BY_TARGET = frozenset(
    f"category_encoders.{name}"
    for name in ("TargetEncoder", "LeaveOneOutEncoder", "CatBoostEncoder", "JamesSteinEncoder", "WOEEncoder")
)
_SEVERAL = frozenset(
    [
        *("sklearn.pipeline.Pipeline", "sklearn.pipeline.make_pipeline", "sklearn.pipeline.FeatureUnion"),
        *("sklearn.compose.ColumnTransformer", "sklearn.compose.make_column_transformer"),
    ]
)
_DEPTH = 4  # pipelines within pipelines
_RESAMPLERS = ("imblearn.over_sampling.", "imblearn.combine.")
_AVERAGES = ("mean", "median", "mode")


def learner(file: File, node: ast.expr, context: Context) -> str:
    """The name of what an expression makes, where that learns from the rows it is fitted on; else ""."""
    found = origins(file, node, context)
    return of_origin(found[0]) if len(found) == 1 else ""


def of_origin(origin: Origin, depth: int = _DEPTH) -> str:
    name, last = origin.name, origin.name.rpartition(".")[2]
    if not isinstance(origin.node, ast.Call) or depth == 0:
        return ""
    if name in _SEVERAL:
        inner = [
            _within(origin, part, depth - 1)
            for part in [*origin.node.args, *(word.value for word in origin.node.keywords)]
        ]
        return next((f"{last} with {found}" for found in inner if found), "")
    if name in _BY_TARGET:
        return last
    if not name and isinstance(origin.node.func, ast.Subscript):
        return _chosen(origin, origin.node.func)
    if not name.startswith("sklearn.") or last not in LEARNERS:
        return ""
    words = {word.arg: word.value for word in origin.node.keywords}
    constant = isinstance(words.get("strategy"), ast.Constant) and ast.unparse(words["strategy"]) == "'constant'"
    return "" if "vocabulary" in words or constant else last


def _chosen(origin: Origin, func: ast.Subscript) -> str:
    """What `SCALERS[kind]()` makes, where all that the table offers learns."""
    table, where = origin.file.value(func.value, origin.context)
    classes = [origin.file.resolve(each, where) for each in table.values] if isinstance(table, ast.Dict) else []
    names = [each for each in classes if isinstance(each, str) and each.startswith("sklearn.")]
    learners = [last for each in names if (last := each.rpartition(".")[2]) in LEARNERS]
    return learners[0] if learners and len(learners) == len(classes) else ""


def _within(origin: Origin, part: ast.expr, depth: int) -> str:
    """What learns among the steps of a pipeline."""
    steps, context = origin.file.value(part, origin.context)
    for node in walk(steps):
        if isinstance(node, ast.Call | ast.Name):
            found = origins(origin.file, node, context)
            if len(found) == 1 and isinstance(found[0].node, ast.Call) and found[0].node is not origin.node:
                if name := of_origin(found[0], depth):
                    return name
    return ""


def fitted(passed: Passed) -> str:
    """What was fitted on all the rows that this expression has, in words; "" if nothing is known to."""
    match passed.node:
        case ast.Call(func=ast.Attribute(value=owner, attr="fit_transform"), args=[_, *_]):
            made = learner(passed.file, owner, passed.context)
            return f"`{made}` is fitted on all data" if made and made not in COUNTERS else ""
        case ast.Call(func=ast.Attribute(value=owner, attr="fit_resample"), args=[_, *_]):
            found = origins(passed.file, owner, passed.context)
            certain = bool(found) and all(origin.name.startswith(_RESAMPLERS) for origin in found)
            return "The samples are multiplied" if certain else ""
        case ast.Call(func=ast.Attribute(value=owner, attr="transform"), args=[data, *_]):
            return _fitted_above(passed, owner, data)
        case ast.Call() | ast.Subscript(slice=ast.Name()):
            return "The samples are multiplied" if draws_again(passed.file, passed.node, passed.context) else ""
    return ""


def _fitted_above(passed: Passed, owner: ast.expr, data: ast.expr) -> str:
    """`scaler.fit(x)` above `scaler.transform(x)`, of one and the same `x`."""
    file, made = passed.file, learner(passed.file, owner, passed.context)
    if not made or made in COUNTERS or not isinstance(data, ast.Name):
        return ""
    held = latest(file, data, passed.context)
    for call in file.calls("fit") if held is not None else ():
        func = call.node.func
        same = isinstance(func, ast.Attribute) and ast.unparse(func.value) == ast.unparse(owner)
        first = call.node.args[0] if call.node.args else None
        if same and is_name(first, data.id) and call.node.lineno < data.lineno:
            if latest(file, first, call.context) is held:
                return f"`{made}` is fitted on all data"
    return ""


def averaged(passed: Passed) -> str:
    """Which averages of all its rows an expression was filled in or scaled by, in words; "" if by none."""
    match passed.node:
        case ast.Call(func=ast.Attribute(value=owner, attr="fillna"), args=[filler, *_]):
            if _is_average(passed, owner, filler):
                return "Missing values are filled with what is average in all data"
    if (scaled := standardised(passed)) is not None:
        if _is_scaled(passed, *scaled):
            return "Mean and standard deviation are computed on all data"
        if _is_stretched(passed, *scaled):
            return "Minimum and maximum are computed on all data"
    return ""


def _is_average(passed: Passed, owner: ast.expr, filler: ast.expr) -> bool:
    """`x.fillna(x.mean())`, `x["age"].fillna(x["age"].median())`, or with the number in a name above."""
    made, _ = source(passed.file, filler, passed.context)
    if isinstance(made, ast.Subscript) and isinstance(made.slice, ast.Constant) and made.slice.value == 0:
        made = made.value  # `x.mode()[0]`
    if not isinstance(made, ast.Call) or not isinstance(made.func, ast.Attribute) or made.func.attr not in _AVERAGES:
        return False
    whole = isinstance(owner, ast.Name) and ast.unparse(made.func.value).startswith(owner.id)
    return whole or ast.unparse(made.func.value) == ast.unparse(owner)


def _is_scaled(passed: Passed, data: ast.expr, middle: ast.expr, scale: ast.expr) -> bool:
    """`(x - x.mean(0)) / x.std(0)` and the like, of one `x` over its rows."""
    wanted = ast.unparse(data)
    return _statistic(passed, middle, data) == ("mean", wanted) and _statistic(passed, scale, data) == ("std", wanted)


def _is_stretched(passed: Passed, data: ast.expr, middle: ast.expr, scale: ast.expr) -> bool:
    """`(x - x.min()) / (x.max() - x.min())`, of one `x` over its rows."""
    ends = [scale.left, scale.right] if isinstance(scale, ast.BinOp) and isinstance(scale.op, ast.Sub) else []
    wanted = ast.unparse(data)
    found = [_statistic(passed, each, data) for each in (middle, *ends)]
    return found == [("min", wanted), ("max", wanted), ("min", wanted)]


def _statistic(passed: Passed, node: ast.expr, data: ast.expr) -> tuple[str, str]:
    """The statistic over all rows that an expression is, and of what, if that is still what `data` holds."""
    file = passed.file
    if isinstance(node, ast.Name) and latest(file, node, passed.context) is None:
        return _statistic_of_branches(passed, node, data)
    made, where = source(file, node, passed.context)
    if not isinstance(made, ast.Call) or not isinstance(made.func, ast.Attribute):
        return "", ""
    named = file.resolve(made.func, where)
    by_function = isinstance(named, str) and named.startswith(("numpy.", "torch."))
    owner = made.args[0] if by_function and made.args else made.func.value
    given = [*made.args[1 if by_function else 0 :][:1], *(w.value for w in made.keywords if w.arg in ("axis", "dim"))]
    over_rows = not given or any(
        isinstance(part, ast.Constant | ast.Name) and file.constant(part, where) == 0 for part in walk(given[0])
    )
    if isinstance(owner, ast.Name) and isinstance(data, ast.Name):
        same = latest(file, owner, where) is latest(file, data, passed.context)
        return (made.func.attr, owner.id) if over_rows and same else ("", "")
    return (made.func.attr, ast.unparse(owner)) if over_rows else ("", "")


def _statistic_of_branches(passed: Passed, node: ast.Name, data: ast.expr) -> tuple[str, str]:
    """What a name is, where each branch that made it made the same of it."""
    above = [each for each in passed.file.bindings(node.id, passed.context) if _is_above(each, node, passed.context)]
    found = {
        _statistic(passed.at(each.value, each.context), each.value, data)
        if each.kind == "value" and isinstance(each.value, ast.expr) and not is_name(each.value, node.id)
        else ("", "")
        for each in above
    }
    return found.pop() if len(found) == 1 else ("", "")


def _is_above(binding: Binding, node: ast.Name, context: Context) -> bool:
    return getattr(binding.node, "lineno", 0) < node.lineno and not context.excludes(binding.context)


def target_by_group(passed: Passed) -> frozenset[str]:
    """The columns of `frame.groupby(key)["price"].transform("mean")`: what each row is told of the others."""
    for node in walk(passed.node):
        match node:
            case ast.Call(
                func=ast.Attribute(
                    value=ast.Subscript(value=ast.Call(func=ast.Attribute(attr="groupby")), slice=columns),
                    attr="transform",
                ),
                args=[ast.Constant(value="mean" | "median" | "sum"), *_],
            ):
                return named_columns(columns)
    return frozenset()


def taken_behind(split: Call) -> frozenset[str]:
    """The columns that are taken by themselves behind the split, where a list names the features without them."""
    nodes = split.function.nodes if split.function is not None else walk(split.file.module.source.tree)
    listed = [{part.value for part in node.elts if isinstance(part, ast.Constant)} for node in _lists(nodes)]
    alone = {
        name
        for node in nodes
        if isinstance(node, ast.Subscript) and node.lineno > split.node.lineno and isinstance(node.ctx, ast.Load)
        for name in named_columns(node.slice)
        if isinstance(node.slice, ast.Constant)
    }
    return frozenset(alone.difference(*listed) if listed else ())


def _lists(nodes: list[ast.AST]) -> list[ast.List]:
    """Lists of several words."""
    lists = [node for node in nodes if isinstance(node, ast.List) and len(node.elts) > 1]
    return [one for one in lists if all(isinstance(e, ast.Constant) and isinstance(e.value, str) for e in one.elts)]


def targets(split: ast.Call) -> frozenset[str]:
    """The columns that the second argument of a split takes: the target."""
    found: set[str] = set()
    for part in (part for node in split.args[1:] for part in walk(node)):
        if isinstance(part, ast.Subscript):
            found |= named_columns(part.slice)
        elif isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) and part.func.attr == "pop":
            found |= {arg.value for arg in part.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)}
        elif isinstance(part, ast.Attribute):
            found.add(part.attr)
    return frozenset(found)
