"""metric-of-batches: F1, AUC and their like are computed batch by batch and averaged."""

import ast
import re
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts, Place
from mlcheck.lint.nodes import before_methods, last_name, walk
from mlcheck.lint.sites import Call, Function
from mlcheck.lint.sites.data.loaders import LOADER
from mlcheck.lint.sites.evaluation.logged_values import logged_in_evaluation
from mlcheck.lint.sites.evaluation.tracked_metrics import tracked_metrics
from mlcheck.lint.sites.evaluation.without_gradients import evaluating_files
from mlcheck.lint.sites.origins import origins, returns
from mlcheck.lint.sites.records import made_of

LOOKS_AT = "batch metric"
WORDS = ("sklearn", "torchmetrics", "torcheval", "exp(")
_LIBRARIES = ("sklearn.metrics.", "torchmetrics.functional.", "torcheval.metrics.functional.")
_NOT_MEANS = frozenset(["f1_score", "fbeta_score", "roc_auc_score", "average_precision_score", "precision_score"])
_NOT_MEANS |= {"recall_score", "matthews_corrcoef", "r2_score", "cohen_kappa_score", "balanced_accuracy_score"}
_NOT_MEANS |= {"multiclass_f1_score", "binary_f1_score", "auroc", "binary_auroc", "multiclass_auroc", "auc"}
_COUNTED = frozenset(["f1_score", "fbeta_score", "precision_score", "recall_score", "multiclass_f1_score"])
_EXPONENTIALS = ("math.exp", "torch.exp", "numpy.exp")
_LOSSES = ("torch.nn.functional.cross_entropy", "torch.nn.functional.nll_loss", "torch.nn.CrossEntropyLoss")
_LOSS = pattern(r"loss|criterion|nll|cross_entropy", re.IGNORECASE)
_OVER_DATA = pattern(r"loader|\bdl\b|_dl\b|batches|dataloader", re.IGNORECASE)
_ADDS = ("append", "update", "add", "push", "log")
_DEPTH = 3
_SAMPLES = pattern(r"per_(?:sample|image|user|query|class|graph|case)|for_each")


def check(facts: Facts) -> Iterator[Finding]:
    seen = 0
    known = any(True for _ in facts.sites.mentioning(WORDS))
    for file in evaluating_files(facts) if known else ():
        for function in file.functions:
            yield from _averaged_at_once(function)
            for loop in _loops(function):
                if _is_one_by_one(function, loop):
                    continue
                seen += 1
                yield from _averaged(function, loop)
    for update, function in tracked_metrics(facts.sites) if known else ():
        for answer in returns(function):
            named = _metric_of(function, answer)
            seen += 1
            if named:
                yield _finding(named, update.place, function.place(answer))
    for log, made, metric in logged_in_evaluation(facts.sites) if known else ():
        seen += 1
        named = metric or (_metric_of(log.function, made) if log.function is not None else "")
        if named and named != "perplexity":
            yield Finding(
                f"Lightning averages the batches' `{named}`, and their mean is not the `{named}` of the data",
                log.place.location,
                help="log a metric object of torchmetrics itself, which gathers all batches: `self.log(name, metric)`",
                related=(log.file.place(made, log.context).location,),
            )
    facts.sites.seen[LOOKS_AT] = seen


def _loops(function: Function) -> Iterator[ast.For]:
    """The loops over batches in a function that trains nothing."""
    text = function.text
    if "for" not in text or "backward" in text or _SAMPLES.search(text):
        return
    for node in function.nodes:
        if isinstance(node, ast.For) and _OVER_DATA.search(ast.unparse(node.iter)):
            yield node


def _averaged_at_once(function: Function) -> Iterator[Finding]:
    """`np.mean([f1_score(y, model(x)) for x, y in loader])`; the batches may come from a method that yields them."""
    if "backward" in (text := function.file.module.text_of(function.node)) or _SAMPLES.search(text):
        return
    for node in function.nodes:
        match node:
            case ast.Call(
                func=func,
                args=[ast.ListComp(elt=value, generators=[turn]) | ast.GeneratorExp(elt=value, generators=[turn])],
            ) if last_name(func) in ("mean", "fmean") and not turn.ifs:
                metric = _metric_of(function, value)
                if metric and _gives_batches(function, turn.iter) and not _is_one_by_one(function, turn):
                    yield _finding(metric, function.place(node), function.place(value))
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.ListComp(elt=value, generators=[turn])) if (
                not turn.ifs
            ):
                metric = _metric_of(function, value)
                mean = _mean_of(function, node, name) if metric else None
                if mean is not None and _gives_batches(function, turn.iter) and not _is_one_by_one(function, turn):
                    yield _finding(metric, function.place(mean), function.place(value))


def _gives_batches(function: Function, over: ast.expr) -> bool:
    if _OVER_DATA.search(ast.unparse(over)):
        return True
    named = function.file.resolve(over.func, function.inner) if isinstance(over, ast.Call) else None
    if not isinstance(named, Function):
        return False
    return any(any(isinstance(node, ast.Yield) for node in walk(loop)) for loop in _loops(named))


def _is_one_by_one(function: Function, loop: ast.For | ast.comprehension) -> bool:
    """Whether a loader that is made here brings one sample at a time: a metric of each, and then their mean."""
    file = function.file
    made = [
        Call(origin.file, origin.node, origin.context)
        for part in walk(loop.iter)
        if isinstance(part, ast.Name | ast.Attribute)
        for origin in origins(file, part, function.inner)
        if isinstance(origin.node, ast.Call) and origin.name == LOADER
    ]
    return any(call.constant("batch_size", 1, default=1) == 1 for call in made)


def _averaged(function: Function, loop: ast.For) -> Iterator[Finding]:
    """`scores.append(f1_score(...))` or `total += f1_score(...)`, and a mean of these behind the loop."""
    for node in walk(loop):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _ADDS:
            value, name = node.args[0] if node.args else None, ast.unparse(node.func.value)
        elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
            value, name = node.value, ast.unparse(node.target)
        else:
            continue
        metric = _metric_of(function, value)
        use = _mean_of(function, loop, name) or _mean_by_meter(function, loop, name) if metric else None
        if use is not None:
            yield _finding(metric, function.place(use), function.place(node))


def _mean_by_meter(function: Function, loop: ast.For, name: str) -> ast.expr | None:
    """`meter.value()`, `meter.average` or `meter()` behind the loop, of a class of the project that divides there."""
    for node in (*function.all(ast.Call), *function.all(ast.Attribute)):
        func = node.func if isinstance(node, ast.Call) else node
        asked, owner = ("__call__", func) if ast.unparse(func) == name else ("", func)
        if isinstance(func, ast.Attribute) and not asked:
            asked, owner = func.attr, func.value
        if node.lineno <= loop.lineno or not asked or (not isinstance(node, ast.Call) and asked == "__call__"):
            continue
        if ast.unparse(owner) != name or any(part is node for part in walk(loop)):
            continue
        meter = made_of(function.file, owner, function.inner)
        member = meter.find(asked) if meter is not None else None
        if member is not None and (" / " in member.text or "mean(" in member.text):
            return node
    return None


def _finding(metric: str, mean: Place, each: Place) -> Finding:
    return Finding(
        f"The mean of the batches' `{metric}` is not the `{metric}` of the data: it depends on the batches",
        mean.location,
        help="gather labels and predictions of all batches, and compute it once",
        related=(each.location,),
    )


def _metric_of(function: Function, value: ast.expr | None, depth: int = _DEPTH) -> str:
    """The name of a metric that is no mean over samples, where the value is one; "" elsewhere."""
    value = function.file.value(value, function.inner)[0] if value is not None else None
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mult):  # `f1_score(y, guess) * len(y)`
        return _metric_of(function, value.left) or _metric_of(function, value.right)
    if not isinstance(value, ast.Call):
        return ""
    named = function.file.resolve(value.func, function.inner)
    if isinstance(named, Function) and named is not function:
        answers = list(returns(named))
        return _metric_of(named, answers[0], depth - 1) if len(answers) == 1 and depth else ""
    last = named.rpartition(".")[2] if isinstance(named, str) and named.startswith(_LIBRARIES) else ""
    told = last in _NOT_MEANS and not _is_accuracy(Call(function.file, value, function.inner), str(named))
    return last if told else _perplexity(function, value)


def _is_accuracy(call: Call, named: str) -> bool:
    """Whether it counts over all classes at once, which torchmetrics does by default: with one label each, a mean."""
    if named.rpartition(".")[2] not in _COUNTED:
        return False
    library = named.partition(".")[0]
    of_classes = library == "torchmetrics" and call.constant("task") == "multiclass"
    by_default = of_classes or named == "torcheval.metrics.functional.multiclass_f1_score"
    return call.constant("average", default="micro" if by_default else None) == "micro"


def _perplexity(function: Function, value: ast.Call) -> str:
    """`math.exp(loss.item())`: of a mean loss it is a geometric mean, and these do not average."""
    if function.file.resolve(value.func, function.inner) not in _EXPONENTIALS or len(value.args) != 1:
        return ""
    given = value.args[0]
    given = given.left if isinstance(given, ast.BinOp) and isinstance(given.op, ast.Div) else given
    loss = before_methods(given, ("item", "detach", "cpu"))
    made, where = function.file.value(loss, function.inner)
    if not isinstance(made, ast.Call):
        return ""
    of_torch = function.file.called(made, where) or next(
        (origin.name for origin in origins(function.file, made.func, where)), ""
    )
    return "perplexity" if of_torch in _LOSSES or _LOSS.search(last_name(made.func)) else ""


def _mean_of(function: Function, loop: ast.For | ast.Assign, name: str) -> ast.expr | None:
    """Where the values are averaged, behind the loop."""
    means = (f"np.mean({name})", f"mean({name})", f"statistics.mean({name})", f"{name}.avg")
    for node in function.nodes:
        if not isinstance(node, ast.BinOp | ast.Call | ast.Attribute) or node.lineno <= loop.lineno:
            continue
        divided = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and ast.unparse(node.left)
        if (divided and divided in (name, f"sum({name})")) or ast.unparse(node) in means:
            return node
    return None
