"""The `mlcheck` fixture: a model examined where the test stands, and left as it was."""

import random
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from mlcheck.config import Config
from mlcheck.core.catalog import UnknownRule
from mlcheck.core.mistake import Mistake
from mlcheck.core.outcome import Outcome
from mlcheck.pytest_plugin.fixture import Examiner

Batches = list[tuple[Tensor, Tensor]]


@pytest.fixture
def batches() -> Batches:
    generator = torch.Generator().manual_seed(0)
    return [(torch.randn(16, 4, generator=generator), torch.randint(3, (16,), generator=generator)) for _ in range(3)]


def network(*last: nn.Module) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3), *last)


def test_a_sound_model_passes(mlcheck: Examiner, batches: Batches) -> None:
    examined = mlcheck.probe(network(), batches, nn.CrossEntropyLoss())
    examined.assert_passes("input-ignored", "softmax-before-ce", "batch-mixing")
    assert examined.result("input-ignored").outcome is Outcome.PASS


def test_a_fault_is_told_with_its_numbers_and_the_line_of_the_test(mlcheck: Examiner, batches: Batches) -> None:
    examined = mlcheck.probe(network(nn.Softmax(dim=1)), batches, nn.CrossEntropyLoss())
    with pytest.raises(AssertionError, match=r"loss cannot fall below 0\.551") as raised:
        examined.assert_passes("input-ignored", "softmax-before-ce")
    assert "do: cross_entropy applies log-softmax itself" in str(raised.value)
    assert "input-ignored" not in str(raised.value)


def test_what_could_not_be_decided_is_no_pass(mlcheck: Examiner, batches: Batches) -> None:
    examined = mlcheck.probe(network(), batches, nn.CrossEntropyLoss())
    with pytest.raises(AssertionError, match="the loop is mlcheck's own"):
        examined.assert_passes("missing-zero-grad")


def test_your_own_step_is_what_is_judged(mlcheck: Examiner, batches: Batches) -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(batch: tuple[Tensor, Tensor]) -> Tensor:
        loss = nn.functional.cross_entropy(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        return loss.detach()

    examined = mlcheck.probe(model, batches, optimizer=optimizer, train_step=step)
    with pytest.raises(AssertionError, match="missing-zero-grad"):
        examined.assert_passes("missing-zero-grad")


def test_model_optimizer_and_generators_are_as_before(mlcheck: Examiner, batches: Batches) -> None:
    model = network(nn.Dropout(0.5)).eval()
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    random.seed(3)
    np.random.seed(3)
    torch.manual_seed(3)
    expected = random.random(), np.random.rand(), torch.rand(())
    random.seed(3)
    np.random.seed(3)
    torch.manual_seed(3)
    mlcheck.probe(model, batches, nn.CrossEntropyLoss()).assert_passes("input-ignored", "parameter-never-changes")
    assert (random.random(), np.random.rand(), torch.rand(())) == expected
    assert not model.training
    assert all(torch.equal(weight, before[name]) for name, weight in model.state_dict().items())
    assert all(weight.grad is None for weight in model.parameters())


@pytest.mark.slow
def test_without_names_every_rule_is_asked(mlcheck: Examiner, batches: Batches) -> None:
    examined = mlcheck.probe(network(), batches, nn.CrossEntropyLoss(), validation_loader=batches)
    examined.assert_passes()
    assert {result.outcome for result in examined.report().results} >= {Outcome.PASS, Outcome.SKIP}


def test_a_name_that_no_probe_answers_is_a_mistake(mlcheck: Examiner, batches: Batches) -> None:
    examined = mlcheck.probe(network(), batches, nn.CrossEntropyLoss())
    with pytest.raises(UnknownRule, match="did you mean `input-ignored`"):
        examined.result("input-ignord")
    with pytest.raises(Mistake, match="not answered by running"):
        examined.result("purpose-unstated")


def test_parts_that_do_not_fit_are_a_mistake(mlcheck: Examiner, batches: Batches) -> None:
    def once() -> Iterator[tuple[Tensor, Tensor]]:
        yield from batches

    with pytest.raises(Mistake, match="iterated only once"):
        mlcheck.probe(network(), once(), nn.CrossEntropyLoss())


def test_a_rules_options_are_the_projects_and_then_the_tests_own(batches: Batches) -> None:
    wide = [(30 * inputs, labels) for inputs, labels in batches]
    examiner = Examiner(Config(options={"inputs-not-scaled": {"rms": 1000}}))
    kept = examiner.probe(network(), wide, nn.CrossEntropyLoss()).result("inputs-not-scaled")
    assert (kept.outcome, kept.options) == (Outcome.PASS, {"rms": 1000.0})
    options = {"inputs-not-scaled": {"rms": 10}}
    strict = examiner.probe(network(), wide, nn.CrossEntropyLoss(), options=options).result("inputs-not-scaled")
    assert (strict.outcome, strict.options) == (Outcome.WARN, {"rms": 10.0})
    with pytest.raises(Mistake, match="it has `rms`"):
        examiner.probe(network(), wide, nn.CrossEntropyLoss(), options={"inputs-not-scaled": {"share": 1}})


def test_a_misspelt_rule_is_told_at_the_line_of_the_test(mlcheck: Examiner, batches: Batches) -> None:
    with pytest.raises(UnknownRule, match="did you mean `input-ignored`") as raised:
        mlcheck.probe(network(), batches).assert_passes("input-ignord")
    shown = raised.traceback.filter(raised)
    assert [str(entry.path) for entry in shown] == [__file__]
