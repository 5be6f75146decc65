"""Where the rows of a data set are split into parts, of which one is held out."""

from collections.abc import Iterator

from mlcheck.lint.sites.model import Call
from mlcheck.lint.sites.origins import origins
from mlcheck.lint.sites.project import Sites

_SPLITS = (
    *("sklearn.model_selection.train_test_split", "torch.utils.data.random_split"),
    *("sklearn.model_selection.cross_val_score", "sklearn.model_selection.cross_validate"),
    "sklearn.model_selection.cross_val_predict",
)


def splits_of_rows(sites: Sites) -> Iterator[Call]:
    """Calls that split the rows of their arguments: at random, into folds, or to score a model on each fold."""
    yield from sites.calls(*_SPLITS)
    for file in sites.mentioning(["sklearn.model_selection"]):
        for call in file.calls("split"):
            owner = call.owner
            made = origins(file, owner, call.context) if owner is not None else []
            if made and all(origin.name.startswith("sklearn.model_selection.") for origin in made):
                yield call
