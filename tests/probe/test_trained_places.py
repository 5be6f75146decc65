"""One graph for both splits: which of its nodes are trained on, and which a held-out accuracy counts."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from probe_programs import ask, says, trial_of
from torch import Tensor, nn

from mlcheck.core.outcome import Outcome
from mlcheck.trial.trial import Trial

NODES = 120


def places(first: int, last: int) -> Tensor:
    return (torch.arange(NODES) >= first) & (torch.arange(NODES) < last)


def on_one_graph(
    train: Tensor, held_out: Tensor, names: tuple[str, ...] = ("val_acc",), smooth: float = 0.0, masks: bool = True
) -> Trial:
    """`masks` are in the batch, or only the program has them; `smooth` is what neighbours say after the model."""
    g = torch.Generator().manual_seed(9)
    x, y = torch.randn(NODES, 8, generator=g), torch.randint(4, (NODES,), generator=g)
    link = F.normalize((torch.rand(NODES, NODES, generator=g) < 0.1).float() + torch.eye(NODES), p=1.0, dim=1)
    model = nn.Linear(8, 4)
    batch = {"x": x, "y": y, "link": link, **({"train": train, "held_out": held_out} if masks else {})}

    def loss(net: nn.Module, given: Any) -> Tensor:
        return F.cross_entropy(net(given["x"])[train], given["y"][train])

    @torch.no_grad()
    def evaluate(given: Any) -> dict[str, float]:
        scores = model(given["x"])
        said = (smooth * given["link"] @ scores + (1 - smooth) * scores).argmax(1) == given["y"]
        of = {"val_acc": held_out, "accuracy": held_out, "train_acc": train}
        return {"loss": float(loss(model, given)), **{name: float(said[of[name]].float().mean()) for name in names}}

    trial = trial_of(model, [batch], loss, evaluate=evaluate)
    trial.validation_batches = lambda: iter([batch])
    return trial


@pytest.mark.parametrize("names", [("val_acc",), ("train_acc", "accuracy")])
@pytest.mark.parametrize("masks", [True, False])
def test_nodes_that_are_trained_on_and_asked(names: tuple[str, ...], masks: bool) -> None:
    trial = on_one_graph(places(0, 60), places(40, 90), names, masks=masks)
    says(ask("splits-overlap", trial), Outcome.FAIL, f"{names[-1]} counts 50 places", "20 of them are trained on")


@pytest.mark.parametrize("names", [("val_acc",), ("train_acc", "accuracy")])
@pytest.mark.parametrize("smooth", [0.0, 0.5])
def test_nodes_that_are_kept_apart(names: tuple[str, ...], smooth: float) -> None:
    trial = on_one_graph(places(0, 60), places(60, 90), names, smooth)
    assert ask("splits-overlap", trial).outcome is Outcome.PASS


def test_an_accuracy_of_training_nodes_is_named_so() -> None:
    verdict = ask("splits-overlap", on_one_graph(places(0, 60), places(60, 90), ("train_acc",)))
    assert verdict.outcome is Outcome.SKIP
