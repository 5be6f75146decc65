"""A plain function as entry point: what it may return, and what it is told when it returns something else."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from mlcheck.core.outcome import Outcome
from mlcheck.pytest_plugin.fixture import Examined
from mlcheck.trial.find import EntryOptions, load_trial
from mlcheck.trial.sandbox import restored
from mlcheck.trial.trial import EntryError, Trial

Write = Callable[[str, str], Path]
Load = Callable[..., Trial]

HEAD = """
import torch
from collections import namedtuple
from dataclasses import dataclass
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

def parts(width=3):
    model = nn.Linear(width, 1)
    data = TensorDataset(torch.arange(4.0 * width).view(4, width) / 10, torch.ones(4, 1))
    loader = DataLoader(data, batch_size=2)
    return model, torch.optim.SGD(model.parameters(), lr=0.1), nn.MSELoss(), loader
"""


@pytest.fixture
def load(write: Write) -> Load:
    def load_source(source: str, **options: object) -> Trial:
        path = write("train.py", HEAD + source)
        assert path.exists()
        return load_trial("train.py:build", EntryOptions(**options))  # type: ignore[arg-type]

    return load_source


RETURNS = {
    "tuple": "return m, o, l, d",
    "tuple with validation": "return m, o, l, d, d",
    "dict": "return dict(model=m, optimizer=o, loss=l, train_loader=d, validation_loader=d)",
    "dataclass": """
    @dataclass
    class Parts:
        model: object
        optimizer: object
        loss: object
        train_loader: object
    return Parts(m, o, l, d)""",
    "namedtuple": "return namedtuple('P', 'loss train_loader model optimizer')(l, d, m, o)",
    "dict of one": "return dict(model={'net': m}, optimizer={'opt': o}, loss=l, train_loader=d)",
    "list of one": "return dict(model=m, optimizer=[o], loss=l, train_loader=d)",
}


@pytest.mark.parametrize("returned", RETURNS)
def test_every_form_trains(load: Load, returned: str) -> None:
    trial = load(f"def build():\n    m, o, l, d = parts()\n    {RETURNS[returned].strip()}\n")
    named = returned == "dict of one"
    assert list(trial.models) == (["net"] if named else ["model"])
    assert list(trial.optimizers) == (["opt"] if named else ["optimizer"])
    assert (trial.validation_batches is not None) == (returned in {"tuple with validation", "dict"})
    assert not trial.owns_loop
    assert trial.loss is not None
    assert trial.evaluate_step is not None
    (model,) = trial.models.values()
    first, _ = trial.train_batches()
    loss = trial.loss(first)
    gradient = torch.autograd.grad(loss, model.weight)[0]
    before = model.weight.detach().clone()
    metrics = trial.train_step(first, 0)
    assert metrics["loss"] == loss.detach()
    assert torch.allclose(model.weight, before - 0.1 * gradient)
    assert model.training
    evaluated = trial.evaluate_step(first)["loss"]
    assert not evaluated.requires_grad
    assert not model.training


def test_hyperparameters_go_to_arguments_of_their_name(load: Load) -> None:
    source = "def build(width, *, depth=1):\n    assert depth == 2\n    return parts(width)\n"
    trial = load(source, hparams={"width": 5, "depth": 2, "unused": 3})
    assert trial.models["model"].in_features == 5
    everything = "def build(**hparams):\n    assert hparams == {'width': 5}\n    return parts(**hparams)\n"
    load(everything, hparams={"width": 5})


def test_own_steps_are_driven_and_own_their_modes(load: Load) -> None:
    trial = load("""
def build():
    m, o, l, d = parts()
    modes = []
    def train_step(batch):
        modes.append(m.training)
        x, y = batch
        o.zero_grad()
        loss = l(m(x), y)
        loss.backward()
        o.step()
        m.eval()
        return loss
    def evaluate_step(batch):
        return {"grad": torch.is_grad_enabled(), "training": m.training, "modes": list(modes)}
    return dict(model=m, optimizer=o, train_loader=d, train_step=train_step, evaluate_step=evaluate_step)
""")
    assert trial.owns_loop
    assert trial.loss is None
    assert trial.evaluate_step is not None
    first, second = trial.train_batches()
    trial.train_step(first, 0)
    trial.train_step(second, 1)
    metrics = trial.evaluate_step(first)
    assert metrics == {"grad": True, "training": False, "modes": [True, False]}
    with restored(trial) as state:
        trial.train_step(first, 2)
    assert state.unrestored == []
    assert trial.evaluate_step(first)["modes"] == [True, False]


BATCHES = {
    "two inputs": ("forward(self, a, b): return self.layer(a + b)", "(torch.ones(3), torch.ones(3), torch.ones(1))"),
    "dict by name": (
        "forward(self, a, b): return self.layer(a + b)",
        "{'a': torch.ones(3), 'b': torch.ones(3), 'label': torch.ones(1)}",
    ),
    "dict by any name": (
        "forward(self, **inputs): return self.layer(inputs['a'])",
        "{'a': torch.ones(3), 'y': torch.ones(1)}",
    ),
    "dict as one": (
        "forward(self, batch): return self.layer(batch['a'])",
        "{'a': torch.ones(3), 'target': torch.ones(1)}",
    ),
}
NET = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 1)
    def {forward}
def build():
    m = Net()
    loader = DataLoader([{batch}] * 4, batch_size=2)
    return m, torch.optim.SGD(m.parameters(), lr=0.1), nn.MSELoss(), loader
"""


@pytest.mark.parametrize("form", BATCHES)
def test_forms_of_a_batch(load: Load, form: str) -> None:
    forward, batch = BATCHES[form]
    trial = load(NET.format(forward=forward, batch=batch))
    for index, drawn in enumerate(trial.train_batches()):
        assert trial.train_step(drawn, index)["loss"].shape == ()


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ("torch.ones(3)", "a batch is a Tensor, not a sequence of inputs and target or a dict"),
        ("{'a': torch.ones(3)}", r"a batch is a dict without a target \(target, targets, label, labels, y\)"),
    ],
)
def test_other_batches_ask_for_a_step(load: Load, batch: str, message: str) -> None:
    trial = load(NET.format(forward="forward(self, a): return self.layer(a)", batch=batch))
    with pytest.raises(EntryError, match=message + ".*return a `train_step"):
        trial.train_step(next(trial.train_batches()), 0)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("def build(width): return parts(width)", "requires `width`, and there is no config"),
        ("def build(width, /): return parts(width)", "requires `width` by position"),
        ("def build(): pass", "`train.py:build` returns nothing: return a dict"),
        ("def build(): return 3", "returns a int: return a dict"),
        ("def build(): return parts()[0]", "`train.py:build` is a model alone: define `example_batch` beside it"),
        ("def build(): return parts()[:3]", "returns a tuple of 3: return a dict"),
        ("def build(): return dict(model=parts()[0])", "has no `train_loader`, and no `example_batch` in its place"),
        ("def build(): return dict(train_loader=parts()[3])", "has no `model`: return a dict"),
        (
            "def build():\n m, o, l, d = parts()\n return dict(model=m, train_loader=d, train_step=len)",
            "a `train_step` without the `optimizer` it uses",
        ),
        (
            "def build(): return (1, *parts()[1:])",
            r"`model` .* must be a torch\.nn\.modules\.module\.Module, not a int",
        ),
        (
            "def build():\n m, o, l, d = parts()\n return m, 'sgd', l, d",
            r"`optimizer` .* must be a .*Optimizer, not a str",
        ),
        ("def build():\n m, o, l, d = parts()\n return m, o, 'mse', d", "`loss` returned .* must be callable, not str"),
        (
            "def build():\n m, o, l, d = parts()\n return m, o, l, 5",
            "`train_loader` .* cannot be iterated: it is a int",
        ),
        ("def build():\n m, o, l, d = parts()\n return m, o, l, iter(d)", "can be iterated only once"),
        (
            "def build():\n m, o, l, d = parts()\n return {'a': m, 'b': m}, o, l, d",
            "several models or optimizers: return a `train_step",
        ),
    ],
)
def test_what_does_not_fit_is_one_sentence(load: Load, source: str, message: str) -> None:
    with pytest.raises(EntryError, match=message) as caught:
        load(source)
    assert "\n" not in str(caught.value)


def test_a_step_that_returns_something_else(load: Load) -> None:
    steps = "train_step=lambda batch: 'done'"
    trial = load(f"def build():\n m, o, l, d = parts()\n return dict(model=m, optimizer=o, train_loader=d, {steps})")
    with pytest.raises(EntryError, match=r"train_step\(\) must return a dict of metrics, a loss or nothing, not a str"):
        trial.train_step(next(trial.train_batches()), 0)
    assert trial.evaluate_step is None


def test_all_but_the_model_may_be_left_out(load: Load) -> None:
    trial = load(
        "from mlcheck.trial.parts import Parts\ndef build(): return Parts(parts()[0], example_batch=torch.ones(4, 3))"
    )
    assert trial.supplied == {"loss", "optimizer"}
    assert "gives no loss and no optimizer" in trial.notices[0]
    assert trial.evaluate_step is None
    weight = trial.models["model"].weight
    before = weight.detach().clone()
    trial.train_step(next(trial.train_batches()), 0)
    assert not torch.equal(weight, before)


OWN_LOSSES = {
    "one number": "return (self.layer(a) - target).square().mean()",
    "in a dict": "return {'logits': self.layer(a), 'loss': (self.layer(a) - target).square().mean()}",
    "an attribute": "return namedtuple('Output', 'loss logits')((self.layer(a) - target).square().mean(), a)",
}


@pytest.mark.parametrize("form", OWN_LOSSES)
def test_the_loss_that_the_model_computes(load: Load, form: str) -> None:
    net = NET.partition("def build")[0].format(forward=f"forward(self, a, target): {OWN_LOSSES[form]}")
    batch = "{'a': torch.ones(4, 3), 'target': torch.zeros(4, 1)}"
    trial = load(f"{net}\ndef build(): return dict(model=Net(), example_batch={batch})")
    assert trial.supplied == {"optimizer"}
    drawn = next(trial.train_batches())
    assert trial.loss is not None
    assert trial.evaluate_step is not None
    trial.models["model"].eval()
    assert trial.loss(drawn) == trial.models["model"].layer(drawn["a"]).square().mean()
    assert trial.evaluate_step(drawn)["loss"] == trial.loss(drawn)


def test_a_bare_model_class_and_instance(write: Write) -> None:
    source = NET.partition("def build")[0].format(forward="forward(self, a): return self.layer(a)")
    write(
        "net.py",
        HEAD
        + source
        + "\nnet = Net()\nloss = nn.MSELoss()\ndef example_batch(): return torch.ones(4, 3), torch.ones(4, 1)",
    )
    for entry in ("net.py:Net", "net.py:net"):
        trial = load_trial(entry)
        assert trial.name == "Net"
        assert not trial.owns_loop
        assert trial.supplied == {"optimizer"}
        assert trial.train_step(next(trial.train_batches()), 0)["loss"] >= 0
    source = source.replace(
        "def __init__(self):", "example_input_array = torch.ones(2, 3)\n    def __init__(self, width):"
    )
    write("net.py", HEAD + source)
    trial = load_trial("net.py:Net", EntryOptions(hparams={"width": 3}))
    assert trial.supplied == {"loss", "optimizer"}
    with pytest.raises(EntryError, match=r"`net\.py:Net` requires `width`"):
        load_trial("net.py:Net")


def test_a_model_without_a_loss_is_judged_by_what_needs_none(write: Write) -> None:
    source = NET.partition("def build")[0].format(forward="forward(self, a): return self.layer(a - a.mean(0))")
    write("net.py", HEAD + source + "\nexample_batch = torch.randn(8, 3)\n")
    examined = Examined(load_trial("net.py:Net"), 0, 60.0)
    assert examined.result("batch-mixing").outcome is Outcome.FAIL
    for rule in ("cannot-overfit-one-batch", "parameter-not-in-optimizer", "learning-rate-too-high"):
        assert examined.result(rule).outcome is Outcome.SKIP, rule


def test_the_weights_of_a_loss_go_where_the_model_goes(load: Load) -> None:
    source = """
def build():
    data = TensorDataset(torch.ones(8, 3, dtype=torch.float64), torch.tensor([0, 1] * 4))
    loss = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 3.0]))
    return dict(model=nn.Linear(3, 2), loss=loss, train_loader=DataLoader(data, 4))
"""
    trial = load(source, dtype=torch.float64)
    batch = next(trial.train_batches())
    assert trial.loss is not None
    assert trial.loss(batch).dtype == torch.float64


def test_a_teacher_keeps_the_mode_it_was_given_in(load: Load) -> None:
    trial = load("""
def build():
    student, teacher, idle = nn.Linear(4, 2), nn.Linear(4, 2).eval(), nn.Linear(4, 2)

    def train_step(batch):
        return {"loss": student(batch[0]).sum()}

    student.eval()
    models = {"student": student, "teacher": teacher, "idle": idle}
    optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
    data = DataLoader(TensorDataset(torch.randn(8, 4), torch.zeros(8).long()), batch_size=4)
    return {"model": models, "optimizer": optimizer, "train_loader": data, "train_step": train_step}
""")
    trial.train_step(next(iter(trial.train_batches())), 0)
    modes = {name: model.training for name, model in trial.models.items()}
    assert modes == {"student": True, "teacher": False, "idle": True}


def test_several_optimizers_may_be_a_list(load: Load) -> None:
    source = """
        def build():
            m, o, l, d = parts()
            other = torch.optim.Adam(m.parameters())
            def step(batch):
                l(m(batch[0]), batch[1]).backward()
                o.step()
                other.step()
            return dict(model=m, optimizer=[o, other], train_loader=d, train_step=step)
    """
    assert list(load(textwrap.dedent(source)).optimizers) == ["optimizer1", "optimizer2"]
    with pytest.raises(EntryError, match=r"`optimizer2` .* must be a .*Optimizer, not a str"):
        load("def build():\n m, o, l, d = parts()\n return m, [o, 'sgd'], l, d")
