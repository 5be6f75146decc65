"""Trainers of frameworks that keep a model, or stop, by what they are given to validate on."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.names import canonical
from mlcheck.lint.nodes import before_methods, last_name
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.model import OPEN, Call
from mlcheck.lint.sites.origins import origins
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.scopes import Context
from mlcheck.lint.values import split_of_name

_LIGHTNING = ("lightning.", "pytorch_lightning.", "lightning_fabric.")
_DECIDES = ("ModelCheckpoint", "EarlyStopping")
_KEEPS = ("map", "filter", "select", "shuffle", "with_format", "remove_columns", "rename_column")
_STEPS = 3
_STOPPERS = ("EarlyStoppingCallback",)


class Validated(NamedTuple):
    """The test data that a trainer validates on and decides by, and the call that gives it."""

    call: Call
    data: ast.expr


def decided_by_test(sites: Sites) -> tuple[Validated, ...]:
    """Test data to validate on, wherever a trainer is certain to choose by it; `sites.once(decided_by_test)`."""
    return (*_by_lightning(sites), *_by_transformers(sites))


def _by_lightning(sites: Sites) -> Iterator[Validated]:
    for call in _fits(sites):
        data = call.argument("val_dataloaders", 2)
        if isinstance(data, ast.Name | ast.Attribute) and data is not OPEN and _watches(call.file):
            if split_of_name(last_name(data)) == "test" and _is_reported(call.file, data):
                yield Validated(call, data)


def _by_transformers(sites: Sites) -> Iterator[Validated]:
    for call in sites.calls("transformers.Trainer", "transformers.Seq2SeqTrainer"):
        data = call.argument("eval_dataset", 4)
        if data is not None and data is not OPEN and _is_of_hub(call, data) and _keeps_best(call):
            yield Validated(call, data)


def _is_reported(file: File, data: ast.expr) -> bool:
    """`trainer.test(model, test_loader)`, of the same data."""
    given = [[*call.node.args, *(word.value for word in call.node.keywords)] for call in file.calls("test")]
    return any(ast.unparse(each) == ast.unparse(data) for parts in given for each in parts)


def _fits(sites: Sites) -> Iterator[Call]:
    """`trainer.fit(module, train, validation)` of Lightning's Trainer."""
    for file in sites.mentioning(["lightning"]):
        for call in file.calls("fit"):
            owner = call.owner
            made, where = file.value(owner, call.context) if owner is not None else (None, call.context)
            if file.called(made, where).startswith(_LIGHTNING) and file.called(made, where).endswith(".Trainer"):
                yield call


def _watches(file: File) -> bool:
    """A checkpoint by a monitored number, or early stopping, which cannot do without one."""
    for call in file.calls(*_DECIDES):
        name = file.called(call.node, call.context)
        if name.startswith(_LIGHTNING) and (call.argument("monitor") is not None or name.endswith("EarlyStopping")):
            return True
    return False


def _keeps_best(call: Call) -> bool:
    """`load_best_model_at_end=True` among the settings, or a callback that stops."""
    if any(isinstance(call.file.resolve(stop.node.func, stop.context), str) for stop in call.file.calls(*_STOPPERS)):
        return True
    args = call.argument("args", 1)
    found = origins(call.file, args, call.context) if args is not None and args is not OPEN else []
    made = [Call(each.file, each.node, each.context) for each in found if isinstance(each.node, ast.Call)]
    return bool(made) and all(
        canonical(each.file.called(each.node, each.context)).endswith("TrainingArguments")
        and each.constant("load_best_model_at_end") is True
        for each in made
    )


def _is_of_hub(call: Call, data: ast.expr) -> bool:
    """`data["test"]` of `data = load_dataset(...)`, mapped and filtered as may be, and not split by hand."""
    data, context = call.file.value(data, call.context)
    data = before_methods(data, _KEEPS)
    if not isinstance(data, ast.Subscript) or not isinstance(data.value, ast.Name):
        return False
    tested = isinstance(data.slice, ast.Constant) and data.slice.value == "test"
    return tested and _is_loaded(call.file, data.value, context)


def _is_loaded(file: File, table: ast.Name, context: Context, depth: int = _STEPS) -> bool:
    """`raw = load_dataset(...)`, `table = raw.map(...)`, and split by hand nowhere between."""
    bound = file.bindings(table.id, context)
    values = [each.value for each in bound if isinstance(each.value, ast.expr)]
    texts = [ast.unparse(value) for value in values]
    if len(texts) < len(bound) or any("train_test_split" in text for text in texts):
        return False
    if any("load_dataset(" in text or "load_from_disk(" in text for text in texts):
        return True
    inner = before_methods(values[0], _KEEPS) if len(values) == 1 and depth > 0 else None
    return isinstance(inner, ast.Name) and _is_loaded(file, inner, bound[0].context, depth - 1)
