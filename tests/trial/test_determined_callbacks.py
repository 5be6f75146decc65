"""Callbacks, modes and metric reducers come in the order in which Determined's harness has them."""

from __future__ import annotations

import pytest
from determined_programs import Load, by_hand, train, weight

from mlcheck.trial.sandbox import restored

CALLBACKS = """
log = []
class Hooks(PyTorchCallback):
    def __getattribute__(self, name):
        if name.startswith("on_"):
            return lambda *args, **kwargs: log.append((name, args, kwargs))
        return super().__getattribute__(name)
class T(Base):
    rows = 2
    def __init__(self, context):
        super().__init__(context)
        self.log = log
    def build_callbacks(self):
        return {"hooks": Hooks()}
    def train_batch(self, batch, epoch_idx, batch_idx):
        log.append(("train", (epoch_idx, batch_idx, self.model.training), {}))
        return {"loss": float(batch_idx)}
    def evaluate_batch(self, batch, batch_idx):
        log.append(("evaluate", (batch_idx, self.model.training, torch.is_grad_enabled()), {}))
        return {"v": float(batch_idx)}
"""


def test_callbacks_come_in_the_harness_order(load_determined: Load) -> None:
    trial = load_determined(CALLBACKS, "scheduling_unit: 2")
    log = trial.objects[0].log
    train(trial, 3)
    for batch in trial.validation_batches():
        assert trial.evaluate_step is not None
        trial.evaluate_step(batch)
    train(trial, 1, 3)
    assert trial.progress is not None
    trial.progress.close()
    workload = {"avg_metrics": {"loss": 0.5}, "batch_metrics": [{"loss": 0.0}, {"loss": 1.0}]}
    assert log == [
        ("on_trial_startup", (0, None), {}),
        ("on_training_start", (), {}),
        ("on_training_epoch_start", (0,), {}),
        ("train", (0, 0, True), {}),
        ("train", (0, 1, True), {}),
        ("on_training_epoch_end", (0,), {}),
        ("on_training_workload_end", (), workload),
        ("on_training_epoch_start", (1,), {}),
        ("train", (1, 2, True), {}),
        ("on_training_workload_end", (), {"avg_metrics": {"loss": 2.0}, "batch_metrics": [{"loss": 2.0}]}),
        ("on_validation_start", (), {}),
        ("on_validation_epoch_start", (), {}),
        ("evaluate", (0, False, False), {}),
        ("evaluate", (1, False, False), {}),
        ("on_validation_epoch_end", ([{"v": 0.0}, {"v": 1.0}],), {}),
        ("on_validation_end", ({"v": 0.5},), {}),
        ("train", (1, 3, True), {}),
        ("on_training_epoch_end", (1,), {}),
        ("on_training_workload_end", (), {"avg_metrics": {"loss": 3.0}, "batch_metrics": [{"loss": 3.0}]}),
        ("on_trial_shutdown", (), {}),
    ]


def test_modes_are_set_per_workload_not_per_batch(load_determined: Load) -> None:
    """A train_batch that leaves the model in eval mode is not put right before the next batch."""
    trial = load_determined("""
class T(Base):
    def train_batch(self, batch, epoch_idx, batch_idx):
        mode = self.model.training
        self.model.eval()
        return {"training": float(mode)}
""")
    assert [metrics["training"] for metrics in train(trial, 3)] == [1.0, 0.0, 0.0]


SWAP = """
class Swap(PyTorchCallback):
    def __init__(self, model):
        self.model, self.kept = model, None
    def on_validation_start(self):
        self.kept = self.model.w.detach().clone()
        self.model.w.data.fill_(7.0)
    def on_validation_end(self, metrics):
        self.model.w.data.copy_(self.kept)
class T(Base):
    def build_callbacks(self):
        return {"swap": Swap(self.model)}
"""


def test_a_validation_left_open_is_closed_before_training_goes_on(load_determined: Load) -> None:
    trial = load_determined(SWAP)
    assert trial.evaluate_step is not None
    assert trial.validation_batches is not None
    trial.evaluate_step(next(trial.validation_batches()))
    assert weight(trial) == 7.0
    train(trial, 1)
    assert weight(trial) == pytest.approx(0.2)


def test_a_validation_left_open_is_closed_by_the_sandbox(load_determined: Load) -> None:
    trial = load_determined(SWAP)
    assert trial.evaluate_step is not None
    assert trial.validation_batches is not None
    train(trial, 1)
    with restored(trial) as state:
        trial.evaluate_step(next(trial.validation_batches()))
    assert state.unrestored == []
    train(trial, 1, 1)
    assert weight(trial) == pytest.approx(by_hand([1, 1], [0.1, 0.1]), rel=1e-5)


REDUCERS = """
class Total(pytorch.MetricReducer):
    def __init__(self):
        self.reset()
    def reset(self):
        self.total = 0
    def per_slot_reduce(self):
        return self.total
    def cross_slot_reduce(self, per_slot_metrics):
        return {"total": sum(per_slot_metrics), "slots": len(per_slot_metrics)}
class Ends(PyTorchCallback):
    def __init__(self):
        self.training, self.validation = [], []
    def on_training_workload_end(self, avg_metrics, batch_metrics):
        self.training.append(avg_metrics)
    def on_validation_end(self, metrics):
        self.validation.append(metrics)
class T(Base):
    rows, batch_size = 5, 2
    def __init__(self, context):
        super().__init__(context)
        self.ends = Ends()
        self.total = context.wrap_reducer(Total())
        self.mean = context.wrap_reducer(lambda xs: sum(xs) / len(xs), name="mean", for_training=False)
        self.mean_of_training = context.wrap_reducer(len, name="count", for_validation=False)
    def build_callbacks(self):
        return {"ends": self.ends}
    def train_batch(self, batch, epoch_idx, batch_idx):
        self.total.total += len(batch[0])
        self.mean_of_training.update(1)
        return {}
    def evaluate_batch(self, batch):
        self.total.total += len(batch[0])
        self.mean.update(batch[0].mean().item())
        return {"v": batch[0].mean()}
"""


def test_reducers_are_reset_and_reduced_per_workload(load_determined: Load) -> None:
    trial = load_determined(REDUCERS, "scheduling_unit: 2")
    ends = trial.objects[0].ends
    train(trial, 3)
    assert ends.training == [{"total": 4, "slots": 1, "count": 2}]
    for _ in range(2):
        assert trial.validation_batches is not None
        for batch in trial.validation_batches():
            assert trial.evaluate_step is not None
            trial.evaluate_step(batch)
    assert ends.training[1:] == [{"total": 1, "slots": 1, "count": 1}]
    mean_of_batches = (1.5 + 3.5 + 5) / 3
    expected = {"v": pytest.approx(mean_of_batches), "total": 5, "slots": 1, "mean": pytest.approx(mean_of_batches)}
    assert ends.validation == [expected, expected], "a small last batch weighs as much as the others"


def test_one_reducer_per_metric(load_determined: Load) -> None:
    source = """
class Ends(PyTorchCallback):
    def on_validation_end(self, metrics):
        self.metrics = metrics
class T(Base):
    def __init__(self, context):
        super().__init__(context)
        self.ends = Ends()
    def build_callbacks(self):
        return {"ends": self.ends}
    def evaluate_batch(self, batch):
        return {"largest": batch[0], "smallest": batch[0], "sum": batch[0]}
    def evaluation_reducer(self):
        kinds = {"largest": pytorch.Reducer.MAX, "smallest": pytorch.Reducer.MIN}
        return {**kinds, "sum": pytorch.Reducer.SUM}
"""
    trial = load_determined(source)
    assert trial.validation_batches is not None
    assert trial.evaluate_step is not None
    for batch in trial.validation_batches():
        trial.evaluate_step(batch)
    assert trial.objects[0].ends.metrics == {"largest": 6.0, "smallest": 1.0, "sum": 21.0}


def test_the_whole_data_set_evaluation_gets_a_loader(load_determined: Load) -> None:
    trial = load_determined("""
class T(Base):
    batch_size = 4
    evaluate_batch = PyTorchTrial.evaluate_batch
    def evaluate_full_dataset(self, data_loader):
        total = sum(len(x) for x, _ in data_loader)
        return {"share": total / len(data_loader.dataset), "batches": len(data_loader)}
""")
    assert trial.validation_batches is not None
    assert trial.evaluate_step is not None
    assert [trial.evaluate_step(batch) for batch in trial.validation_batches()] == [{"share": 1.0, "batches": 1}] * 2
    assert any("evaluate_full_dataset" in notice for notice in trial.notices)
