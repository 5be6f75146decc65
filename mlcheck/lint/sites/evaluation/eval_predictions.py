"""The function that a Trainer of Transformers is given for its metrics: what in it is predictions, and what labels."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.dataclasses import dataclass
from mlcheck.lint.nodes import is_name
from mlcheck.lint.sites.latest import latest, source
from mlcheck.lint.sites.model import OPEN, Call, Class, Function
from mlcheck.lint.sites.origins import Origin, origins
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.running import run_by
from mlcheck.lint.sites.scopes import Context

TRAINERS = frozenset(["transformers.Trainer", "transformers.Seq2SeqTrainer", "transformers.trainer.Trainer"])
ARGUMENTS = frozenset(["transformers.TrainingArguments", "transformers.Seq2SeqTrainingArguments"])
_FLAT = frozenset(
    ["flatten", "ravel", "reshape", "squeeze", "astype", "copy", "tolist", "numpy", "cpu", "detach", "view", "int"]
)
_ARRAYS = frozenset(
    ["numpy.array", "numpy.asarray", "numpy.squeeze", "torch.tensor", "torch.from_numpy", "torch.as_tensor"]
)
_ARGMAX = frozenset(["numpy.argmax", "torch.argmax"])
_DEPTH = 8


@dataclass(eq=False)
class Scoring:
    """A Trainer that is made, and the function it is given for its metrics."""

    trainer: Call
    function: Function

    def origins_of(self, name: str, position: int) -> list[Origin]:
        """Where an argument of the Trainer may come from."""
        given = self.trainer.argument(name, position)
        return origins(self.trainer.file, given, self.trainer.context) if given not in (None, OPEN) else []

    @property
    def parameter(self) -> str:
        names = list(self.function.parameters)
        return names[1 if self.function.receiver else 0] if len(names) > bool(self.function.receiver) else ""


def trainers(sites: Sites) -> list[Call]:
    """The Trainers that are made, those of the project's own classes too; `sites.once(trainers)`."""
    found: list[Call] = []
    for file in sites.mentioning(["Trainer"]):
        for name, calls in file.walk.calls.items():
            if "Trainer" not in name:
                continue
            for node, context in calls:
                named = file.resolve(node.func, context)
                if named in TRAINERS or (isinstance(named, Class) and named.libraries <= TRAINERS and named.libraries):
                    found.append(Call(file, node, context))
    return found


def scorings(sites: Sites) -> list[Scoring]:
    """The Trainers whose `compute_metrics` is a function of the project; `sites.once(scorings)`."""
    found: list[Scoring] = []
    for call in sites.once(trainers):
        given = call.argument("compute_metrics")
        run = run_by(call.file, given, call.context) if given is not None and given is not OPEN else None
        if run is not None and not run.given and not run.function.node.decorator_list:
            found.append(Scoring(call, run.function))
    return found


@dataclass(eq=False)
class Part:
    """What an expression is of the predictions: `role` is predictions, labels, classes or "".

    `chosen` is the argmax that made classes of scores.
    """

    role: str
    name: str = ""
    chosen: Call | None = None


NOTHING = Part("")


def part(scoring: Scoring, node: ast.expr, context: Context, depth: int = _DEPTH) -> Part:
    """Whether an expression is the predictions or labels as they were given, or the classes that argmax chose."""
    file = scoring.function.file
    if depth == 0:
        return NOTHING
    if isinstance(node, ast.IfExp):
        arms = part(scoring, node.body, context, depth - 1), part(scoring, node.orelse, context, depth - 1)
        return arms[0] if arms[0].role == arms[1].role else NOTHING
    if (role := given_role(scoring, node)) is not None:
        return role
    if isinstance(node, ast.Name):
        if file.is_mutated(node.id, context):
            return NOTHING
        found = latest(file, node, context)
        if found is not None and found.kind == "item" and _is_parameter(scoring, found.value) and found.item < 2:
            return Part(("predictions", "labels")[found.item], node.id)
        made, where = source(file, node, context)
        return part(scoring, made, where, depth - 1) if made is not node else NOTHING
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and node.slice.value == 0:
        inner = part(scoring, node.value, context, depth - 1)
        return inner if inner.role == "predictions" else NOTHING  # the logits of several outputs
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
        return part(scoring, node.value, context, depth - 1)  # some of the samples
    return _called(scoring, node, context, depth) if isinstance(node, ast.Call) else NOTHING


def given_role(scoring: Scoring, node: ast.expr) -> Part | None:
    """`p.predictions`, `p.label_ids`, `p[0]`, `p[1]`; None for all else."""
    if isinstance(node, ast.Attribute) and _is_parameter(scoring, node.value):
        return Part({"predictions": "predictions", "label_ids": "labels"}.get(node.attr, ""), node.attr)
    if isinstance(node, ast.Subscript) and _is_parameter(scoring, node.value) and isinstance(node.slice, ast.Constant):
        return Part({"0": "predictions", "1": "labels"}.get(ast.unparse(node.slice), ""))
    return None


def _is_parameter(scoring: Scoring, node: ast.AST | None) -> bool:
    return isinstance(node, ast.Name) and node.id == scoring.parameter != ""


def _called(scoring: Scoring, node: ast.Call, context: Context, depth: int) -> Part:
    file, func = scoring.function.file, node.func
    named = file.resolve(func, context)
    by_method = isinstance(func, ast.Attribute) and not isinstance(named, str)
    owner = func.value if isinstance(func, ast.Attribute) and by_method else node.args[0] if node.args else None
    if owner is None:
        return NOTHING
    if named in _ARGMAX or (by_method and isinstance(func, ast.Attribute) and func.attr == "argmax"):
        inner = part(scoring, owner, context, depth - 1)
        return Part("classes", inner.name, Call(file, node, context)) if inner.role == "predictions" else NOTHING
    if named in _ARRAYS or (by_method and isinstance(func, ast.Attribute) and func.attr in _FLAT):
        return part(scoring, owner, context, depth - 1)
    return NOTHING


def axis(chosen: Call) -> object:
    """The axis that an argmax is taken over: None where none is given."""
    file, position = chosen.file, 1 if isinstance(chosen.file.resolve(chosen.node.func, chosen.context), str) else 0
    for name in ("axis", "dim"):
        if chosen.argument(name) is not None:
            return file.constant(chosen.argument(name), chosen.context)
    return chosen.constant("axis", position)


def metric_keys(function: Function, answers: Iterator[ast.expr]) -> frozenset[str] | None:
    """The names of the metrics that a function returns; None where they are not written out."""
    found: set[str] = set()
    for answer in answers:
        made, _ = source(function.file, answer, function.inner)
        if not isinstance(made, ast.Dict) or (isinstance(answer, ast.Name) and _grows(function, answer.id)):
            return None
        for key in made.keys:
            if not isinstance(key, ast.Constant) or not isinstance(key.value, str):
                return None
            found.add(key.value.removeprefix("eval_"))
    return frozenset(found) if found else None


def _grows(function: Function, name: str) -> bool:
    return function.file.is_mutated(name, function.inner) or any(
        isinstance(node, ast.AugAssign) and is_name(node.target, name) for node in function.nodes
    )
