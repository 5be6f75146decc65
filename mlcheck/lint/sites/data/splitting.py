"""Where the rows of a data set are split into parts, of which one is held out."""

import ast
from collections.abc import Iterator

from mlcheck.lint.nodes import last_name
from mlcheck.lint.sites.model import Call
from mlcheck.lint.sites.origins import origins
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.values import split_of_name

_SPLITS = (
    *("sklearn.model_selection.train_test_split", "torch.utils.data.random_split"),
    *("sklearn.model_selection.cross_val_score", "sklearn.model_selection.cross_validate"),
    "sklearn.model_selection.cross_val_predict",
)
_SUBSET = "torch.utils.data.Subset"


def splits_of_rows(sites: Sites) -> Iterator[Call]:
    """Calls that split the rows of their arguments: at random, into folds, or to score a model on each fold.

    Of the parts that `Subset` takes of the same data, the ones that are held out.
    """
    yield from sites.calls(*_SPLITS)
    for file in sites.mentioning(["sklearn.model_selection"]):
        for call in file.calls("split"):
            owner = call.owner
            made = origins(file, owner, call.context) if owner is not None else []
            if made and all(origin.name.startswith("sklearn.model_selection.") for origin in made):
                yield call
    for held_out in sites.calls(_SUBSET):
        if "train" in _siblings(held_out) and _splits(held_out) <= {"val", "test"} and _splits(held_out):
            yield held_out


def _siblings(part: Call) -> set[str]:
    """The splits that the other parts of the same data are for, by their names."""
    data, found = part.argument("dataset", 0), set[str]()
    for other in part.file.sites.calls(_SUBSET):
        same = other.file is part.file and other.function is part.function and other.node is not part.node
        given = other.argument("dataset", 0)
        if same and isinstance(data, ast.Name) and isinstance(given, ast.Name) and given.id == data.id:
            found |= _splits(other) if len(part.file.bindings(data.id, part.context)) == 1 else set()
    return found


def _splits(part: Call) -> set[str]:
    """train, val or test, by the names that a part is given; where it has none, by that of its indices."""
    names, indices = part.file.names_given(part.node), part.argument("indices", 1)
    if not names and isinstance(indices, ast.Name | ast.Attribute):
        names = (last_name(indices),)
    return {split for name in names if (split := split_of_name(name))}
