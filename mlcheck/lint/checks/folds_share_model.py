"""folds-share-model: cross-validation trains one model on fold after fold, so it has seen what it is judged on."""

import ast
from collections import defaultdict
from collections.abc import Hashable, Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts, Loop
from mlcheck.lint.nodes import loads, own_nodes, walk
from mlcheck.lint.sites import File
from mlcheck.lint.sites.blocks import LoopSite, for_loops
from mlcheck.lint.sites.data.folds import is_over_folds
from mlcheck.lint.sites.data.hand_folds import deals_folds
from mlcheck.lint.values import Object

LOOKS_AT = "cross-validation"
WORDS = ("sklearn.model_selection", "fold", "FOLD")
_RESETS = ("load_state_dict", "reset", "deepcopy", ".apply(", "clone", "set_params", "init_weights", "initialize")


def check(facts: Facts) -> Iterator[Finding]:
    folds = {
        loop.node: file
        for file in facts.sites.mentioning(WORDS)
        for loop in for_loops(file)
        if _goes_over_folds(file, loop) and _takes_all(loop.node)
    }
    facts.sites.seen[LOOKS_AT] = len(folds)
    turns: dict[tuple[ast.AST, Hashable], set[int]] = defaultdict(set)
    told: set[ast.AST] = set()
    for forward in facts.forwards if folds else ():
        if not forward.trained or not isinstance(forward.module, Object):
            continue
        for loop, turn in forward.when.loops:
            if loop.node not in folds or loop.node in told or _resets(facts):
                continue
            turns[loop.node, forward.module.id].add(turn)
            if len(turns[loop.node, forward.module.id]) > 1:
                told.add(loop.node)
                yield _finding(loop, forward.name)


def _goes_over_folds(file: File, loop: LoopSite) -> bool:
    if is_over_folds(file, loop.node.iter, loop.context):
        return True
    return "torch" in file.text and deals_folds(file, loop.node, loop.context)


def _finding(loop: Loop, name: str) -> Finding:
    return Finding(
        f"All folds train the same `{name}`: from the second on it was trained on what it is validated on",
        loop.place.location,
        help="make the model, and its optimizer, anew inside the loop",
    )


def _takes_all(loop: ast.For) -> bool:
    """Whether every fold is trained on: `if fold != args.fold: continue` and `break` leave but one."""
    counted = loop.target.elts[0] if isinstance(loop.target, ast.Tuple) else None
    asks = (line for line in loop.body if isinstance(line, ast.If))
    if isinstance(counted, ast.Name) and any(loads(line.test, counted.id) for line in asks):
        return False
    leaving = [line for line in own_nodes(loop) if isinstance(line, ast.Break | ast.Continue | ast.Return)]
    inner = [line for line in own_nodes(loop) if isinstance(line, ast.For | ast.While) and line is not loop]
    within = {node for line in inner for node in walk(line)}
    return all(line in within and not isinstance(line, ast.Return) for line in leaving)


def _resets(facts: Facts) -> bool:
    """Whether anything could put the first weights back."""
    return any(True for _ in facts.sites.mentioning(_RESETS, tests=True))
