"""best-model-reversed: of all checkpoints the worst is kept, or training stops while the score still improves."""

import ast
import re
from collections.abc import Container, Iterator

from mlcheck.core.finding import Finding, Location
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts
from mlcheck.lint.judging import is_named_for_attack
from mlcheck.lint.nodes import assigned, last_name, walk
from mlcheck.lint.sites import Call, Context, File, Function
from mlcheck.lint.sites.evaluation.directions import directed
from mlcheck.lint.sites.evaluation.early_stoppers import Told, told_scores
from mlcheck.lint.sites.evaluation.metrics import better
from mlcheck.lint.sites.origins import returns

LOOKS_AT = "model selection"
WORDS = ("best", "Best", "min_", "_min", "lowest", "highest", "max_", "_max", "Checkpoint", "Stopping", "TrainingArg")
_LIGHTNING = tuple(
    f"{package}.callbacks.{name}"
    for package in ("lightning.pytorch", "pytorch_lightning")
    for name in (
        *("ModelCheckpoint", "EarlyStopping"),
        *("model_checkpoint.ModelCheckpoint", "early_stopping.EarlyStopping"),
    )
)
_TRAINER = tuple(f"transformers.{name}" for name in ("TrainingArguments", "Seq2SeqTrainingArguments"))
_IGNITE = tuple(f"ignite.handlers.{name}" for name in ("Checkpoint", "ModelCheckpoint", "EarlyStopping"))
_BEST = pattern(r"best|(?:^|_)(?:min|lowest|max|highest)(?:_|$)", re.IGNORECASE)
_EXTREME = pattern(r"(?:^|_)(?:(min|lowest)|max|highest)(?:_|$)", re.IGNORECASE)
_MARGIN = pattern(r"delta|margin|eps|tol|thresh", re.IGNORECASE)
# An attack looks for the highest loss, and calls it the best: what is selected here is a model, or the end of training.
_SELECTS = pattern(
    r"save|state_dict|checkpoint|deepcopy|patience|stop|improve|best_\w*epoch|(?:counter|wait) = 0", re.IGNORECASE
)


def check(facts: Facts) -> Iterator[Finding]:
    sites, seen = facts.sites, 0
    for call in sites.calls(*_LIGHTNING, *_TRAINER, *_IGNITE):
        seen += 1
        yield from _in_call(call)
    for told in told_scores(sites):
        seen += 1
        metric = _name(told.score) or _computed(told)
        if better(metric) not in ("", told.wanted) and not _is_turned(told.call.file, told.call.context, told.score):
            what = f"`{told.stopper.cls.name if told.stopper.cls else ''}` takes it for better when it is {told.wanted}"
            place = told.stopper.place(told.compared).location
            yield _finding(told.call.file, told.call.node, told.call.context, metric, what, (place,))
    for file in sites.mentioning(["best", "Best", "min_", "_min", "lowest", "highest", "max_", "_max"]):
        if not any(_may_choose(compare) for compare, _ in file.walk.comparisons):
            continue
        if is_named_for_attack(file.path):
            continue
        for function, context in file.scopes():
            found = [(compare, _choice(compare, statement)) for compare, statement in _comparisons(file, function)]
            choices = [(compare, *choice) for compare, choice in found if choice is not None]
            seen += len(choices)
            for compare, score, best, taken in choices:
                if not _knows_both(choices, score, best):
                    yield from _by_hand(file, context, compare, score, best, taken)
    for file in sites.mentioning(["best", "Best"]):
        for function, context in file.scopes() if "mode" in file.text or "direction" in file.text else ():
            for asked in directed(file.nodes_in(function)):
                seen += 1
                if asked.taken != asked.wanted:
                    yield Finding(
                        f"The {asked.wanted[:-2]}est is asked for, and the {asked.taken[:-2]}est is taken here",
                        file.place(asked.compare, context).location,
                        help="turn the comparison round",
                    )
    sites.seen[LOOKS_AT] = seen


def _computed(told: Told) -> str:
    """The metric of `stopper(mean(losses))`, and of `stopper(validate(net))` where that sums up what is told there."""
    if not isinstance(told.score, ast.Call):
        return ""
    named = told.call.file.resolve(told.score.func, told.call.context)
    if isinstance(named, Function):
        words = (part for node in named.nodes if (part := last_name(node)))
        agreed = {better(word) for word in words} - {""} == {better(told.parameter)}
        return told.parameter if agreed else ""
    names = [last_name(node) for node in walk(told.score) if better(last_name(node))]
    return names[0] if len(set(map(better, names))) == 1 else ""


def _knows_both(choices: list[tuple[ast.Compare, ast.expr, ast.expr, str]], score: ast.expr, best: ast.expr) -> bool:
    """Whether the same two are compared the other way round as well: by what the score means in each branch."""
    pair = ast.unparse(score), ast.unparse(best)
    return len({taken for _, one, other, taken in choices if (ast.unparse(one), ast.unparse(other)) == pair}) > 1


def _in_call(call: Call) -> Iterator[Finding]:
    if call.name.startswith("ignite."):
        metric, wanted = _of_score_function(call), "higher"
    elif call.name.startswith("transformers."):
        metric, wanted = _of_trainer(call)
    else:
        metric, wanted = _of_lightning(call)
    if metric and wanted and better(metric) not in ("", wanted):
        yield _finding(call.file, call.node, call.context, metric, f"the one with the {wanted[:-2]}est is kept here")


def _of_lightning(call: Call) -> tuple[str, str]:
    """The metric that a callback watches, and which of its values it takes for better."""
    early = call.name.endswith("EarlyStopping")
    given = call.constant("monitor", 0 if early else 2)
    mode = call.constant("mode", 4 if early else None, "min")
    if call.constant("save_top_k", None, 1) in (-1, 0) or not isinstance(given, str) or len(call.node.args) > 5:
        return "", ""
    return given, {"min": "lower", "max": "higher"}.get(mode, "") if isinstance(mode, str) else ""


def _of_trainer(call: Call) -> tuple[str, str]:
    """Transformers takes every metric but a `loss` to be better when higher."""
    given = call.constant("metric_for_best_model")
    greater = call.constant("greater_is_better")
    if not isinstance(given, str) or call.constant("load_best_model_at_end", None, False) is not True:
        return "", ""
    if greater is None:
        return given, "lower" if given.endswith("loss") else "higher"
    return given, {True: "higher", False: "lower"}.get(greater, "") if isinstance(greater, bool) else ""


def _of_score_function(call: Call) -> str:
    """`loss` of `score_function=lambda engine: engine.state.metrics["loss"]`: Ignite keeps the highest score."""
    given = call.argument("score_function")
    if given is None and call.name.endswith("EarlyStopping"):
        given = call.argument("score_function", 1)
    if given is None:
        return ""
    found, _ = call.file.value(given, call.context)
    if isinstance(found, ast.Lambda):
        return _metric(found.body)
    named = call.file.resolve(given, call.context)
    answers = list(returns(named)) if isinstance(named, Function) else []
    return _metric(answers[0]) if len(answers) == 1 else ""


def _metric(node: ast.expr) -> str:
    """The key in `engine.state.metrics["loss"]`."""
    if (
        isinstance(node, ast.Subscript)
        and isinstance(node.slice, ast.Constant)
        and "metrics" in ast.unparse(node.value)
    ):
        return str(node.slice.value)
    return ""


def _comparisons(file: File, scope: ast.AST) -> Iterator[tuple[ast.Compare, ast.stmt]]:
    """`if score > best: best = score`, and `is_best = score > best`: the comparison and the statement."""
    for node in file.nodes_in(scope):
        if isinstance(node, ast.If):
            parts = node.test.values if isinstance(node.test, ast.BoolOp) else [node.test]
            yield from ((part, node) for part in parts if isinstance(part, ast.Compare))
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Compare):
            sides = {last_name(side) for side in (node.value.left, *node.value.comparators)}
            if sides.isdisjoint(map(last_name, node.targets)):  # `iou = iou > 0.5` keeps neither of the two
                yield node.value, node


def _may_choose(compare: ast.Compare) -> bool:
    """Whether one side is called the best: most files have no such comparison, and need not be searched."""
    return any(_BEST.search(_name(side)) for side in (compare.left, *compare.comparators))


def _choice(compare: ast.Compare, statement: ast.stmt) -> tuple[ast.expr, ast.expr, str] | None:
    """The score, the best one so far, and which scores are taken, of a comparison that chooses the best."""
    if len(compare.ops) != 1 or not isinstance(compare.ops[0], ast.Lt | ast.LtE | ast.Gt | ast.GtE):
        return None
    score, best = _without_margin(compare.left), _without_margin(compare.comparators[0])
    taken = "higher" if isinstance(compare.ops[0], ast.Gt | ast.GtE) else "lower"
    if _BEST.search(_name(score)) and not _BEST.search(_name(best)):
        score, best, taken = best, score, "lower" if taken == "higher" else "higher"
    named = bool(_name(score)) and _BEST.search(_name(best)) and not _BEST.search(_name(score))
    return (score, best, taken) if named and _takes(statement, score, best) else None


def _without_margin(node: ast.expr) -> ast.expr:
    """`loss` of `loss + min_delta`: by how much it must be better says nothing about the direction."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        if isinstance(node.right, ast.Constant) or _MARGIN.search(last_name(node.right)):
            return node.left
    return node


def _by_hand(
    file: File, context: Context, compare: ast.Compare, score: ast.expr, best: ast.expr, taken: str
) -> Iterator[Finding]:
    wanted = {better(_name(score)), better(_name(best))} - {""}
    extreme = _EXTREME.search(_name(best))
    if extreme is not None and taken == ("lower" if extreme[1] else "higher"):
        return
    if len(wanted) == 1 and taken not in wanted and not _is_turned(file, context, score):
        metric = _name(score) if better(_name(score)) else _name(best)
        yield _finding(file, compare, context, metric, f"the {taken[:-2]}est is kept here as the best")


def _name(node: ast.AST) -> str:
    """`loss` of `loss`, `self.loss` and `results["loss"]`; `best_loss` of `best["loss"]`."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
        return node.slice.value if not _BEST.search(ast.unparse(node.value)) else f"best_{node.slice.value}"
    return last_name(node)


def _takes(statement: ast.stmt, score: ast.expr, best: ast.expr) -> bool:
    """Whether the better score becomes the best one, and a model with it: in the branch, or as a flag."""
    if isinstance(statement, ast.Assign):
        target = statement.targets[0]
        return isinstance(target, ast.Name | ast.Attribute) and "best" in ast.unparse(target).lower()
    assert isinstance(statement, ast.If)
    if any(_keeps(line, ast.unparse(best)) for line in statement.orelse):
        return False  # `if loss > best: stop after many ... else: best = loss`
    if not any(_SELECTS.search(ast.unparse(line)) for line in statement.body):
        return False
    name, values = ast.unparse(best), {ast.unparse(score), *_extremes(score, best)}
    return any(_keeps(line, name, values) for line in statement.body)


def _keeps(line: ast.stmt, name: str, values: Container[str] | None = None) -> bool:
    """Whether something under the line is assigned to the name: one of these values, or any."""
    pairs = [pair for node in walk(line) if isinstance(node, ast.Assign) for pair in assigned(node)]
    return any(ast.unparse(t) == name and (values is None or ast.unparse(value) in values) for t, value in pairs)


def _extremes(score: ast.expr, best: ast.expr) -> Iterator[str]:
    """`max(score, best)`: written in the branch, it is what the comparison was to find."""
    for pair in ((score, best), (best, score)):
        given = ", ".join(map(ast.unparse, pair))
        yield from (f"max({given})", f"min({given})")


def _is_turned(file: File, context: Context, score: ast.expr) -> bool:
    """Whether the score is the negative of what its name says, or another one: `mean_acc = val_loss`."""
    made, _ = file.value(score, context)
    bound = file.bindings(score.id, context) if isinstance(score, ast.Name) else []
    if any({better(_name(each.value)), better(_name(score))} == {"higher", "lower"} for each in bound if each.value):
        return True
    return any(isinstance(node, ast.UnaryOp | ast.BinOp) for node in walk(made)) and "-" in ast.unparse(made)


def _finding(
    file: File, node: ast.AST, context: Context, metric: str, what: str, related: tuple[Location, ...] = ()
) -> Finding:
    wanted = better(metric)
    return Finding(
        f"`{metric}` is better when it is {wanted}, and {what}",
        file.place(node, context).location,
        help=f"turn the comparison round, or say so in the options: `{_OPTIONS[wanted]}`",
        related=related,
    )


_OPTIONS = {
    "higher": 'mode="max"` or `greater_is_better=True',
    "lower": 'mode="min"`, `greater_is_better=False`, or the negative as the score: `-loss',
}
