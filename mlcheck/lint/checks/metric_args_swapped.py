"""metric-args-swapped: a metric of scikit-learn gets the predictions first, where it takes the labels first."""

import ast
import re
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import last_name, walk
from mlcheck.lint.sites import Call, Function
from mlcheck.lint.sites.evaluation.gathered import Gathered, gathered
from mlcheck.lint.sites.iteration import item_of_iteration
from mlcheck.lint.sites.latest import latest, source
from mlcheck.lint.sites.origins import returns

LOOKS_AT = "metric of scikit-learn"
WORDS = ("sklearn",)
_METRICS = (
    *("precision_score", "recall_score", "roc_auc_score", "average_precision_score", "log_loss", "r2_score"),
    *("precision_recall_fscore_support", "classification_report", "roc_curve", "precision_recall_curve"),
    *("balanced_accuracy_score", "brier_score_loss", "explained_variance_score", "top_k_accuracy_score"),
    *("mean_absolute_percentage_error", "det_curve"),
)
_PREDICTED = frozenset(["pred", "preds", "prediction", "predictions", "predicted", "prob", "probs", "proba", "hat"])
_PREDICTED |= {
    "logits",
    "output",
    "outputs",
    "score",
    "scores",
    "probabilities",
    "yhat",
    "ypred",
    "guess",
    "guesses",
    "guessed",
}
_CHOOSES = frozenset(["argmax", "sigmoid", "softmax", "predict", "topk", "round"])
_LABELS = frozenset(["true", "label", "labels", "target", "targets", "gt", "truth", "ytrue", "actual", "truths"])
_PLAIN = (
    "numpy",
    "cpu",
    "detach",
    "tolist",
    "flatten",
    "ravel",
    "astype",
    "int",
    "long",
    "float",
    "reshape",
    "squeeze",
)


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    for call in facts.sites.calls(*(f"sklearn.metrics.{name}" for name in _METRICS)):
        facts.sites.seen[LOOKS_AT] += 1
        given = call.node.args[:2]
        if len(given) == 2 and _kinds(call, given) == ["predicted", "label"]:
            metric, first, second = last_name(call.node.func), ast.unparse(given[0]), ast.unparse(given[1])
            yield Finding(
                f"`{metric}` gets the predictions first: it takes the labels, then the predictions",
                call.place.location,
                help=f"swap them: `{metric}({second}, {first})`",
            )


def _kinds(call: Call, given: list[ast.expr]) -> list[str]:
    """What two arguments are: by their names, and where neither tells, by what each batch adds to them."""
    named = [_kind(part) for part in given]
    if any(named):
        return named
    return [_kind_of_batch(_gathered(call, part)) for part in given]


def _gathered(call: Call, part: ast.expr) -> Gathered | None:
    """What each batch adds, also to a list that a function of the project returns beside another."""
    bound = latest(call.file, part, call.context) if isinstance(part, ast.Name) else None
    value = bound.value if bound is not None and bound.kind == "item" else None
    named = call.file.resolve(value.func, call.context) if isinstance(value, ast.Call) else None
    answers = list(returns(named)) if isinstance(named, Function) else []
    if bound is None or not isinstance(named, Function) or len(answers) != 1 or not isinstance(answers[0], ast.Tuple):
        return gathered(call.file, part, call.context, brought=True)
    item = answers[0].elts[bound.item] if bound.item < len(answers[0].elts) else answers[0]
    return gathered(named.file, item, named.inner, brought=True)


def _kind_of_batch(added: Gathered | None) -> str:
    """`predicted` of the classes that are chosen from scores, `label` of what a loop brings beside the inputs."""
    if added is None:
        return ""
    made, context = source(added.file, added.node, added.context)
    called = {last_name(part.func) for part in walk(made) if isinstance(part, ast.Call)}
    if not called.isdisjoint(_CHOOSES):
        return "predicted"
    item = item_of_iteration(made, context)
    return "label" if item is not None and item.key not in (0, "input_ids", "x", "image", "images") else ""


def _kind(node: ast.expr) -> str:
    """`predicted`, `label`, or "" where the name tells neither or both."""
    while isinstance(node, ast.Call | ast.Subscript):
        if isinstance(node, ast.Subscript):
            node = node.value
        elif isinstance(node.func, ast.Attribute) and node.func.attr in _PLAIN:
            node = node.func.value
        elif len(node.args) == 1 and last_name(node.func) in (
            "concatenate",
            "cat",
            "hstack",
            "array",
            "asarray",
            "stack",
        ):
            node = node.args[0]
        else:
            return ""
    words = set(re.split(r"[^a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", last_name(node)).lower()))
    predicted, label = bool(words & _PREDICTED), bool(words & _LABELS)
    return "" if predicted == label else "predicted" if predicted else "label"
