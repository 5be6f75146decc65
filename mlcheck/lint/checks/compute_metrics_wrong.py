"""compute-metrics-wrong: the function that a Trainer of Transformers is given scores something else than it says."""

import ast
import re
from collections.abc import Iterator
from itertools import chain

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts, Place
from mlcheck.lint.sites import OPEN, Call, Class
from mlcheck.lint.sites.evaluation.eval_predictions import (
    ARGUMENTS,
    TRAINERS,
    Scoring,
    axis,
    metric_keys,
    part,
    scorings,
    trainers,
)
from mlcheck.lint.sites.origins import origins, returns

LOOKS_AT = "metric of a Trainer"
WORDS = ("Trainer",)
_OF_CLASSES = frozenset(
    f"sklearn.metrics.{name}"
    for name in (
        *("accuracy_score", "f1_score", "precision_score", "recall_score", "balanced_accuracy_score"),
        *("matthews_corrcoef", "precision_recall_fscore_support", "classification_report", "confusion_matrix"),
        *("cohen_kappa_score", "jaccard_score"),
    )
)
_LOADED = frozenset(["accuracy", "f1", "precision", "recall", "matthews_correlation"])
_LOADERS = ("evaluate.load", "datasets.load_metric")
_PREDICTED = frozenset(["logits", "logit", "pred", "preds", "prediction", "predictions", "outputs"])
_LABELS = frozenset(["label", "labels", "target", "targets", "references", "refs"])
_PADDED = frozenset(
    f"transformers.{name}"
    for name in ("DataCollatorForTokenClassification", "DataCollatorForSeq2Seq", "DataCollatorForLanguageModeling")
)
_ALWAYS = frozenset(["loss", "runtime", "samples_per_second", "steps_per_second", "epoch"])


def check(facts: Facts) -> Iterator[Finding]:
    found = facts.sites.once(scorings)
    facts.sites.seen[LOOKS_AT] = len(found)
    for scoring in found:
        yield from _swapped(scoring)
        for scored, predicted, labels in chain(_metrics(scoring), _compared(scoring)):
            yield from _raw(scoring, scored, predicted)
            yield from _padding(scoring, scored, labels)
        given = [predicted for _, predicted, _ in _metrics(scoring)]
        for predicted in (*given, *_chosen_of_tokens(scoring)):
            yield from _over_wrong_axis(scoring, predicted)
    for trainer in facts.sites.once(trainers):
        yield from _never_returned(trainer, [each for each in found if each.trainer is trainer])


def _swapped(scoring: Scoring) -> Iterator[Finding]:
    """`labels, logits = eval_pred`: predictions come first."""
    for node in scoring.function.nodes:
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=[ast.Name(id=one), ast.Name(id=two)])], value=ast.Name(id=name)):
                first, second = (set(re.split(r"[^a-z]+", each.lower())) for each in (one, two))
                if name == scoring.parameter and first & _LABELS and second & _PREDICTED and not first & _PREDICTED:
                    yield Finding(
                        f"The Trainer gives the predictions first: `{one}` are the predictions, and `{two}` the labels",
                        scoring.function.place(node).location,
                        help=f"`{two}, {one} = {name}`",
                    )


def _compared(scoring: Scoring) -> Iterator[tuple[Place, ast.expr, ast.expr]]:
    """`(predictions == labels).mean()`: what is compared, where one side is the labels as they were given."""
    function = scoring.function
    for node in function.nodes:
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq):
            sides = node.left, node.comparators[0]
            for predicted, labels in (sides, sides[::-1]):
                if part(scoring, labels, function.inner).role == "labels":
                    yield function.place(node), predicted, labels


def _metrics(scoring: Scoring) -> Iterator[tuple[Place, ast.expr, ast.expr]]:
    """The metrics of classes that the function computes, with what it gives for predictions and for labels."""
    file, function = scoring.function.file, scoring.function
    for call in file.calls(*(name.rpartition(".")[2] for name in _OF_CLASSES), "compute", *_aliases(scoring)):
        if call.function is not function:
            continue
        if file.resolve(call.node.func, call.context) in _OF_CLASSES:
            labels, predicted = call.argument("y_true", 0), call.argument("y_pred", 1)
        elif _is_loaded(call):
            predicted, labels = call.argument("predictions"), call.argument("references")
        else:
            continue
        if predicted is not None and labels is not None and predicted is not OPEN and labels is not OPEN:
            yield call.place, predicted, labels


def _aliases(scoring: Scoring) -> Iterator[str]:
    for name in _OF_CLASSES:
        yield from scoring.function.file.walk.aliases.get(name.rpartition(".")[2], ())


def _is_loaded(call: Call) -> bool:
    """`evaluate.load("accuracy").compute(...)`."""
    owner = call.owner
    made = origins(call.file, owner, call.context) if owner is not None else []
    if len(made) != 1 or made[0].name not in _LOADERS or not isinstance(made[0].node, ast.Call):
        return False
    return Call(made[0].file, made[0].node, made[0].context).constant("path", 0) in _LOADED


def _raw(scoring: Scoring, scored: Place, predicted: ast.expr) -> Iterator[Finding]:
    """Scores of classes where a metric takes classes."""
    what = part(scoring, predicted, scoring.function.inner)
    if what.role != "predictions" or _chosen_before(scoring):
        return
    if "logit" in what.name.lower() or _made_by_transformers(scoring):
        yield Finding(
            "The model's logits are given for classes: nothing has taken the largest of each row",
            scored.location,
            help="`predictions = np.argmax(logits, axis=-1)` first",
        )


def _chosen_before(scoring: Scoring) -> bool:
    """Whether the Trainer may be told to hand on something else than logits."""
    call = scoring.trainer
    hidden = any(word.arg is None for word in call.node.keywords)
    named = call.file.resolve(call.node.func, call.context)
    own = isinstance(named, Class) and any(named.find(name) for name in ("prediction_step", "evaluation_loop"))
    generates = isinstance(named, str) and named.endswith("Seq2SeqTrainer")
    return hidden or own or generates or call.argument("preprocess_logits_for_metrics") is not None


def _made_by_transformers(scoring: Scoring) -> bool:
    """A model of Transformers with several classes."""
    found = scoring.origins_of("model", 0)
    one = any("num_labels=1" in ast.unparse(origin.node).replace(" ", "") for origin in found)
    return bool(found) and not one and all(_is_classifier(origin.name) for origin in found)


def _is_classifier(name: str) -> bool:
    return name.startswith("transformers.") and "Classification" in name and name.endswith(".from_pretrained")


def _chosen_of_tokens(scoring: Scoring) -> Iterator[ast.expr]:
    """Each choice among the scores of tokens, whatever is computed of it."""
    if _is_of_tokens(scoring):
        yield from (call.node for call in scoring.function.file.calls("argmax") if call.function is scoring.function)


def _is_of_tokens(scoring: Scoring) -> bool:
    models = scoring.origins_of("model", 0)
    return bool(models) and all("TokenClassification" in origin.name for origin in models)


def _over_wrong_axis(scoring: Scoring, predicted: ast.expr) -> Iterator[Finding]:
    what = part(scoring, predicted, scoring.function.inner)
    if what.chosen is None or _chosen_before(scoring):
        return
    over = axis(what.chosen)
    if over is None or over == 0 or (over == 1 and _is_of_tokens(scoring)):
        where = {None: "all numbers", 0: "the samples"}.get(over if over in (None, 0) else 1, "the tokens")
        yield Finding(
            f"The largest is taken over {where}, not over the classes",
            what.chosen.place.location,
            help="`np.argmax(logits, axis=-1)`",
        )


def _padding(scoring: Scoring, scored: Place, labels: ast.expr) -> Iterator[Finding]:
    """Labels with the -100 of the padding among them."""
    what = part(scoring, labels, scoring.function.inner)
    text = scoring.function.text
    padded = scoring.origins_of("data_collator", 2)
    if what.role != "labels" or "-100" in text or "mask" in text:
        return
    if padded and all(origin.name in _PADDED for origin in padded):
        yield Finding(
            "The labels of the padding, -100, are counted as labels: no prediction can be right there",
            scored.location,
            help="`kept = labels != -100`, and score `predictions[kept]` and `labels[kept]`",
            related=(scoring.trainer.file.place(padded[0].node, padded[0].context).location,),
        )


def _never_returned(trainer: Call, given: list[Scoring]) -> Iterator[Finding]:
    """The best model is chosen by a metric that nobody computes."""
    if len(given) != 1 and (trainer.argument("compute_metrics") is not None or not _is_plain(trainer)):
        return
    keys = metric_keys(given[0].function, returns(given[0].function)) if given else frozenset[str]()
    over = trainer.argument("eval_dataset")
    several = isinstance(over, ast.Dict) if over is not None else False
    for origin in origins(trainer.file, args, trainer.context) if (args := trainer.argument("args", 1)) else ():
        if keys is None or several or origin.name not in ARGUMENTS or not isinstance(origin.node, ast.Call):
            continue
        told = Call(origin.file, origin.node, origin.context)
        wanted = told.constant("metric_for_best_model")
        if told.constant("load_best_model_at_end") is not True or not isinstance(wanted, str):
            continue
        if wanted.removeprefix("eval_") not in keys | _ALWAYS:
            listed = ", ".join(f"`{key}`" for key in sorted(keys)) or "none"
            yield Finding(
                f"The best model is the one with the best `{wanted}`, which `compute_metrics` does not return "
                f"({listed}): the first checkpoint fails",
                told.file.place(told.argument("metric_for_best_model") or told.node, told.context).location,
                help="name a metric that is returned",
                related=(trainer.place.location,),
            )


def _is_plain(trainer: Call) -> bool:
    """Whether no class of the project adds metrics of its own, and no argument is hidden."""
    named = trainer.file.resolve(trainer.node.func, trainer.context)
    return named in TRAINERS and all(word.arg is not None for word in trainer.node.keywords)
