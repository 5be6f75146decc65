"""The usual metrics of classes are those that scikit-learn computes."""

from __future__ import annotations

import warnings

import pytest
import torch
from sklearn import metrics

from mlcheck.probe.measure.validation.recomputed import recomputed


@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("rows", [1, 7, 200])
def test_as_scikit_learn_has_them(classes: int, rows: int) -> None:
    generator = torch.Generator().manual_seed(rows)
    predicted, truth = torch.randint(classes, (2, rows), generator=generator)
    ranking = torch.randint(9, (rows,), generator=generator).double()
    found = recomputed(predicted, truth, ranking)
    assert found["accuracy"]["accuracy"] == pytest.approx(metrics.accuracy_score(truth, predicted))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert found["accuracy"]["balanced"] == pytest.approx(metrics.balanced_accuracy_score(truth, predicted))
        functions = {"f1": metrics.f1_score, "precision": metrics.precision_score, "recall": metrics.recall_score}
        for name, function in functions.items():
            assert ("binary" in found[name]) is (classes == 2)
            for average, value in found[name].items():
                assert value == pytest.approx(function(truth, predicted, average=average, zero_division=0)), average
    if classes == 2 and len(set(truth.tolist())) == 2:
        assert found["auc"]["area"] == pytest.approx(metrics.roc_auc_score(truth, ranking))
    else:
        assert "auc" not in found
