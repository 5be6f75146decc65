"""test-set-selection: the test set decides which model is kept, or when training stops."""

import ast
import itertools
import re
from collections.abc import Collection, Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts
from mlcheck.lint.judging import is_named_for_attack
from mlcheck.lint.nodes import walk
from mlcheck.lint.sites import Call, Context, File, Function, Sites
from mlcheck.lint.sites.evaluation.best_settings import best_settings, own_scope
from mlcheck.lint.sites.evaluation.kept_maxima import kept_maxima
from mlcheck.lint.sites.evaluation.reported_best import best_of_epochs, running_best
from mlcheck.lint.sites.evaluation.test_scores import assigned, is_test_data, is_validation, scored_on_test
from mlcheck.lint.sites.origins import callers, returns
from mlcheck.lint.sites.training.trainers import decided_by_test
from mlcheck.lint.values import split_of_name
from mlcheck.lint.words import numbers_of_lines

LOOKS_AT = "choice of a model"
_BEST = pattern(r"best|lowest|highest", re.IGNORECASE)
_STOPS = pattern(r"stop(?!_and)", re.IGNORECASE)  # a clock is stopped, and read
_SAVES = ("torch.save", "save_checkpoint", ".save(", "deepcopy(", "state_dict(")
_BEST_ONE = pattern(r"best_?(?:model|net|lr|config|params)\b")
_ENVIRONMENT = pattern(r"\b(?:gym|gymnasium|env\.(?:step|reset)|episodes?|best_reward)\b")
"""Of reinforcement learning: what is called a test there is played in the environment, and no set of data."""
_KEPT = "which model is kept"
Choice = tuple[ast.expr, Context, str]
_TRAINS = pattern(r"\.backward\(|\btrain\w*\(|\bfit\w*\(|\boptim\.[A-Z]\w*\(")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    yield from _handed_in(facts.sites)
    yield from _by_trainers(facts.sites)
    yield from best_of_epochs(facts.sites)
    for best, taken in running_best(facts.sites):
        if _in_training(best.file, best.context) and not _ENVIRONMENT.search(best.file.text):
            yield Finding(
                "The test set decides which epoch is reported: the best of its scores is no longer an estimate",
                best.file.place(taken, best.context).location,
                help="report the score of the last epoch, or choose the epoch on a validation set",
                related=(best.place.location,),
            )
    for file in facts.sites.mentioning(["test", "Test", "train=False"]):
        if "torch" not in file.text or is_named_for_attack(file.path):
            continue
        reported: set[int] = set()
        for score, context, what in file.sites.once_of(_all_choices, file):
            facts.sites.seen[LOOKS_AT] += 1
            if not _in_training(file, context):
                continue
            call = scored_on_test(file, score, context)
            if call is not None and id(call) not in reported and not _ENVIRONMENT.search(file.text):
                reported.add(id(call))
                decided = _decided(what, score, context)
                yield Finding(
                    f"The test set decides {decided}: its score is no longer an estimate of anything",
                    file.place(call, context).location,
                    help="decide on a validation set, and look at the test set once, at the end",
                    related=(file.place(score, context).location,),
                )


def _decided(what: str, score: ast.expr, context: Context) -> str:
    """`if score > best: best = score` keeps the score alone."""
    for node in walk(context.node) if what == _KEPT else ():
        if isinstance(node, ast.If) and isinstance(node.test, ast.Compare):
            if score in (node.test.left, *node.test.comparators) and all(map(_is_number_kept, node.body)):
                return "which epoch is reported"
    return what


def _is_number_kept(line: ast.stmt) -> bool:
    return isinstance(line, ast.Assign) and isinstance(line.value, ast.Name | ast.Attribute)


def _by_trainers(sites: Sites) -> Iterator[Finding]:
    """The test set is what a trainer validates on, which keeps the best model or stops by that."""
    for call, data in sites.once(decided_by_test):
        sites.seen[LOOKS_AT] += 1
        yield Finding(
            f"The trainer chooses by the test set, `{ast.unparse(data)}`: its score is no longer an estimate",
            call.file.place(data, call.context).location,
            help="validate on a part of the training data, and look at the test set once, at the end",
            related=(call.place.location,),
        )


def _handed_in(sites: Sites) -> Iterator[Finding]:
    """The test set is given to a function that decides by whatever data it gets."""
    for file in sites.mentioning(["best", "stop", "Best", "Stop", "Plateau"]):
        if "torch" not in file.text:
            continue
        reported: set[int] = set()
        for score, context, what in file.sites.once_of(_all_choices, file):
            for call, data in _given(file, score, context) if _in_training(file, context) else ():
                if id(call.node) not in reported and not _ENVIRONMENT.search(file.text):
                    reported.add(id(call.node))
                    yield Finding(
                        f"The test set, `{ast.unparse(data)}`, decides {what}: its score is no longer an estimate",
                        call.place.location,
                        help="give it a validation set, and look at the test set once, at the end",
                        related=(file.place(score, context).location,),
                    )
            for call, tested in _scored_above(file, score, context):
                if id(call.node) not in reported and _in_training(call.file, call.context):
                    reported.add(id(call.node))
                    yield Finding(
                        f"The test set decides {what}: the score that is handed over was taken from it",
                        call.file.place(tested, call.context).location,
                        help="decide on a validation set, and look at the test set once, at the end",
                        related=(file.place(score, context).location,),
                    )


def _scored_above(file: File, score: ast.expr, context: Context) -> Iterator[tuple[Call, ast.AST]]:
    """`keep_best(model, metrics)`, which compares them: the calls whose scores are of the test set, if all are."""
    function = file.function_around(context)
    names = {node.id for node in walk(score) if isinstance(node, ast.Name)}
    handed = [name for name in function.parameters if name in names] if function is not None else []
    if function is None or len(handed) != 1 or len(names) != 1 or split_of_name(handed[0]):
        return
    at = list(function.parameters).index(handed[0]) - (1 if function.receiver else 0)
    above = list(callers(file.sites, function))
    given = [(call, call.argument(handed[0], at)) for call in above]
    found = [
        (call, scored_on_test(call.file, each, call.context)) for call, each in given if isinstance(each, ast.expr)
    ]
    tested = [(call, place) for call, place in found if place is not None]
    if len(tested) == len(above):
        yield from tested


def _given(file: File, score: ast.expr, context: Context) -> Iterator[tuple[Call, ast.expr]]:
    """The calls that give the test set for the parameter that the score is taken from; none if others do not."""
    function = file.function_around(context)
    found, _ = assigned(file, score, context)
    if function is None or not isinstance(found, ast.Call):
        return
    names = [node.id for node in (*found.args, *(k.value for k in found.keywords)) if isinstance(node, ast.Name)]
    names = [name for name in names if name in function.parameters and not split_of_name(name)]
    names += [node.id for node in found.args if is_validation(node) and isinstance(node, ast.Name)]
    positions = list(function.parameters)
    above = list(callers(file.sites, function))
    for name in dict.fromkeys(name for name in names if name in positions):
        at = positions.index(name) - (1 if function.receiver else 0)
        data = [(call, call.argument(name, at)) for call in above]
        tested = [(call, each) for call, each in data if each is not None and is_test_data(each)]
        if tested and len(tested) == len(data):
            yield from tested


def _all_choices(file: File) -> list[Choice]:
    return list(_choices(file))


def _choices(file: File) -> Iterator[Choice]:
    """Scores that are compared with the best one so far where models are kept, or given to early stopping."""
    yield from best_settings(file)
    keeps = any(word in file.text for word in _SAVES) or _BEST_ONE.search(file.text) is not None
    if keeps and file in file.sites.worded(_BEST):
        best_ones = frozenset(numbers_of_lines(_BEST, file.text))
        for compare, where in file.walk.comparisons:
            context = own_scope(where)
            if context is None or len(compare.ops) != 1 or not _meets(compare, best_ones):
                continue
            sides = [compare.left, compare.comparators[0]]
            best = [_BEST.search(ast.unparse(side)) is not None for side in sides]
            if best.count(True) != 1 or _compares_once(sides[best.index(True)], where):
                continue
            if isinstance(compare.ops[0], ast.Lt | ast.Gt | ast.LtE | ast.GtE):
                yield sides[best.index(False)], context, _KEPT
    for score, unnamed, where in kept_maxima(file) if keeps else ():
        context = own_scope(where)
        if context is not None and not _BEST.search(ast.unparse(unnamed)) and not _compares_once(unnamed, where):
            yield score, context, _KEPT
    for search in file.calls("optimize") if "optuna" in file.text else ():
        objective = file.resolve(search.argument("func", 0), search.context)
        if isinstance(objective, Function) and objective.file is file:
            for value in returns(objective):
                yield value, objective.inner, "which hyperparameters are kept"
    stops = frozenset(numbers_of_lines(_STOPS, file.text)) if file in file.sites.worded(_STOPS) else frozenset[int]()
    for last, calls in file.walk.calls.items():
        for call, where in calls if stops or last == "step" else ():
            if last != "step" and not _meets(call.func, stops):
                continue
            context = own_scope(where)
            if context is None or not call.args:
                continue
            if stops and _STOPS.search(ast.unparse(call.func)):
                yield call.args[0], context, "when training stops"
            elif _is_plateau_step(file, call, context):
                yield call.args[0], context, "when the learning rate falls"


def _compares_once(best: ast.expr, where: Context) -> bool:
    """Whether each call compares with what the function itself began with: one score, and nothing to choose from."""
    inside = list(itertools.takewhile(lambda outer: outer.kind != "function", where.outwards()))
    if not isinstance(best, ast.Name) or any(outer.kind in ("loop", "module", "comprehension") for outer in inside):
        return False
    function = where.scope.bindings.get(best.id, []) if best.id not in where.scope.globals else []
    return any(isinstance(binding.value, ast.Constant) for binding in function)


def _meets(node: ast.expr, lines: Collection[int]) -> bool:
    return any(line in lines for line in range(node.lineno, (node.end_lineno or node.lineno) + 1))


def _is_plateau_step(file: File, node: ast.Call, context: Context) -> bool:
    """`scheduler.step(score)` of a `ReduceLROnPlateau`."""
    if not isinstance(node.func, ast.Attribute) or node.func.attr != "step" or "ReduceLROnPlateau" not in file.text:
        return False
    made, _ = file.value(node.func.value, context)
    return isinstance(made, ast.Call) and ast.unparse(made.func).endswith("ReduceLROnPlateau")


def _in_training(file: File, context: Context) -> bool:
    """Whether training goes on around this scope: it trains itself, or it is called beside a training step."""
    for outer in context.outwards():
        if isinstance(outer.node, ast.FunctionDef | ast.Module):
            text = file.text if isinstance(outer.node, ast.Module) else file.module.text_of(outer.node)
            if _TRAINS.search(text) and re.search(r"^\s*(?:for|while)\b", text, re.MULTILINE):
                return True
    return False
