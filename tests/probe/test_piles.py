"""What adds up from pass to pass: lists that nobody clears, hooks registered anew; and what only looks like it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from probe_programs import ask, classes, cross_entropy, mlp, says, trial_of
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from mlcheck.core.outcome import Outcome
from mlcheck.trial.trial import Trial

Done = Callable[[Any, Tensor, Tensor, int], None]


class Owner:
    """What a program keeps between its steps."""

    def __init__(self) -> None:
        self.kept: Any = []
        self.last: Any = torch.zeros(0)
        self.model = mlp()


def nothing(*_: object) -> None:
    return


def keeping(owner: Owner, trained: Done = nothing, evaluated: Done = nothing, counts: bool = True) -> Trial:
    """A trial that does something more with its outputs after each step, and in each evaluation."""
    model = owner.model
    optimizer = torch.optim.Adam(model.parameters())

    def step(batch: Any, index: int) -> dict[str, Tensor]:
        optimizer.zero_grad()
        scores = model(batch[0])
        loss = torch.nn.functional.cross_entropy(scores, batch[1])
        loss.backward()
        optimizer.step()
        trained(owner, scores.detach(), loss.detach(), index)
        return {"loss": loss.detach()}

    def evaluate(batch: Any) -> dict[str, float]:
        with torch.no_grad():
            scores = model(batch[0])
            loss = torch.nn.functional.cross_entropy(scores, batch[1])
        evaluated(owner, scores, loss, 0)
        return {"val_loss": float(loss)}

    batches = classes(8)
    trial = trial_of(model, batches, cross_entropy, optimizer, step=step, evaluate=evaluate)
    data = TensorDataset(torch.cat([x for x, _ in batches]), torch.cat([y for _, y in batches]))
    trial.loaders = {"training": DataLoader(data, batch_size=32)}
    trial.objects = (owner,)
    trial.counts_batches = counts
    return trial


def append(owner: Owner, scores: Tensor, loss: Tensor, index: int) -> None:
    owner.kept.append((scores, index))


def join(owner: Owner, scores: Tensor, loss: Tensor, index: int) -> None:
    owner.last = torch.cat([owner.last.reshape(-1, scores.shape[1]), scores])


def hook(owner: Owner, scores: Tensor, loss: Tensor, index: int) -> None:
    owner.model[0].register_forward_hook(nothing)


def count(owner: Owner, scores: Tensor, loss: Tensor, index: int) -> None:
    owner.kept.append(loss)


def replace(owner: Owner, scores: Tensor, loss: Tensor, index: int) -> None:
    owner.last = scores


def clear_at_the_end_of_an_epoch(owner: Owner, scores: Tensor, loss: Tensor, index: int) -> None:
    owner.kept.append(scores)
    if index % 4 == 3:
        owner.kept.clear()


def hook_once(owner: Owner, scores: Tensor, loss: Tensor, index: int) -> None:
    handle = owner.model[0].register_forward_hook(nothing)
    handle.remove()


def keep_each_once(owner: Owner, scores: Tensor, loss: Tensor, index: int) -> None:
    owner.kept = owner.kept or {}
    owner.kept[scores.shape[0]] = scores


@pytest.mark.parametrize("done", [append, join])
def test_outputs_that_every_validation_adds(done: Done) -> None:
    says(ask("memory-piles-up", keeping(Owner(), evaluated=done)), Outcome.WARN, "numbers more after every validation")


def test_hooks_that_every_step_adds() -> None:
    says(ask("memory-piles-up", keeping(Owner(), trained=hook)), Outcome.WARN, "`model.0._forward_hooks` has 3 hooks")


@pytest.mark.parametrize("done", [count, replace, clear_at_the_end_of_an_epoch, hook_once, keep_each_once])
def test_what_does_not_add_up_in_training(done: Done) -> None:
    says(ask("memory-piles-up", keeping(Owner(), trained=done)), Outcome.PASS, "no list, dict or attribute")


@pytest.mark.parametrize("done", [count, replace, hook_once, keep_each_once])
def test_what_does_not_add_up_in_evaluation(done: Done) -> None:
    says(ask("memory-piles-up", keeping(Owner(), evaluated=done)), Outcome.PASS, "no list, dict or attribute")


def test_a_queue_of_bounded_length() -> None:
    owner = Owner()
    owner.kept = deque(maxlen=1000)
    says(ask("memory-piles-up", keeping(owner, evaluated=append)), Outcome.PASS)


def test_outputs_that_every_training_step_adds_and_none_reads() -> None:
    verdict = ask("memory-piles-up", keeping(Owner(), trained=append))
    says(verdict, Outcome.WARN, "`Owner.kept` holds", "more after every training", "no step reads it")


def keep_the_last_thousand(owner: Owner, scores: Tensor, loss: Tensor, index: int) -> None:
    owner.kept.append(scores)
    del owner.kept[:-1000]


def replay(owner: Owner, scores: Tensor, loss: Tensor, index: int) -> None:
    """Once there is enough of it, what was kept is learnt from."""
    owner.kept.append(scores)
    if len(owner.kept) > 500:
        drawn = owner.kept[int(torch.randint(len(owner.kept), ()))]
        with torch.enable_grad():
            (owner.model[-1].bias * drawn.mean(0)).sum().backward()


def join_and_cut(owner: Owner, scores: Tensor, loss: Tensor, index: int) -> None:
    join(owner, scores, loss, index)
    owner.last = owner.last[-5000:]


def join_at_first(owner: Owner, scores: Tensor, loss: Tensor, index: int) -> None:
    if index < 5000:
        join(owner, scores, loss, index)


@pytest.mark.parametrize("done", [keep_the_last_thousand, replay, join_at_first, join_and_cut])
def test_what_fills_in_training_may_be_a_buffer(done: Done) -> None:
    verdict = ask("memory-piles-up", keeping(Owner(), trained=done))
    says(verdict, Outcome.INCONCLUSIVE, "holds more after every round of training")


class Stream(IterableDataset[tuple[Tensor, Tensor]]):
    """Data without end, which cannot tell its length."""

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        while True:
            yield torch.randn(8), torch.tensor(0)


def test_of_data_without_end_only_hooks_are_looked_at() -> None:
    for change, outcome in ((hook, Outcome.WARN), (hook_once, Outcome.PASS)):
        trial = keeping(Owner(), trained=change)
        trial.loaders = {"training": DataLoader(Stream(), batch_size=32)}
        assert ask("memory-piles-up", trial).outcome is outcome


def test_of_a_program_that_counts_its_epochs_itself_only_hooks_are_looked_at() -> None:
    says(ask("memory-piles-up", keeping(Owner(), evaluated=append, counts=False)), Outcome.PASS, "no module has more")
    grown = ask("memory-piles-up", keeping(Owner(), trained=hook, counts=False))
    says(grown, Outcome.WARN, "`0._forward_hooks` has 1 hook more after every step")
    assert ask("memory-piles-up", keeping(Owner(), trained=hook_once, counts=False)).outcome is Outcome.PASS


def test_a_tensor_that_nothing_cuts() -> None:
    verdict = ask("memory-piles-up", keeping(Owner(), trained=join))
    says(verdict, Outcome.WARN, "`Owner.last` holds", "after every training", "however long it is")
