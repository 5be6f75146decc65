"""The stand-in trains like Determined's harness: weights of a one-parameter model, worked out by hand.

The model is y = w * x with w = 0 at the start, the data are pairs (x, 1) and the loss is (1 - w x)^2, so that
one step of SGD with rate r on x adds 2 r x (1 - w x).
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from mlcheck.probe.measure.rehearsal import Rehearsal
from mlcheck.trial.find import EntryOptions, load_trial
from mlcheck.trial.sandbox import restored
from mlcheck.trial.trial import RejectedConfig, Trial

HEAD = """
import torch
import determined as det
from determined import pytorch
from determined.pytorch import DataLoader, LRScheduler, PyTorchCallback, PyTorchTrial, PyTorchTrialContext

class One(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.zeros(1))
    def forward(self, x):
        return self.w * x

class Base(PyTorchTrial):
    rate, rows, batch_size = 0.1, 6, 1
    def __init__(self, context: PyTorchTrialContext):
        self.context = context
        self.model = context.wrap_model(One())
        self.opt = context.wrap_optimizer(torch.optim.SGD(self.model.parameters(), lr=self.rate))
    def loader(self):
        x = torch.arange(1.0, self.rows + 1)
        return DataLoader(torch.utils.data.TensorDataset(x, torch.ones(self.rows)), batch_size=self.batch_size)
    def build_training_data_loader(self):
        return self.loader()
    def build_validation_data_loader(self):
        return self.loader()
    def loss(self, batch):
        x, y = batch
        return (y - self.model(x)).square().mean()
    def train_batch(self, batch, epoch_idx, batch_idx):
        loss = self.loss(batch)
        self.context.backward(loss)
        self.context.step_optimizer(self.opt)
        return {"loss": loss}
    def evaluate_batch(self, batch):
        return {"val_loss": self.loss(batch)}
"""

Load = Callable[..., Trial]


@pytest.fixture
def load(write: Callable[[str, str], Path]) -> Load:
    """A trial `T` from the body of a class (or several), with an experiment config."""

    def load_source(source: str, config: str = "{}", **options: Any) -> Trial:
        sys.modules.pop("model_def", None)
        write("model_def.py", HEAD + source)
        path = write("experiment.yaml", config)
        return load_trial("model_def:T", EntryOptions(config=path, device="cpu", **options))

    return load_source


def train(trial: Trial, steps: int, start: int = 0) -> list[dict[str, Any]]:
    """Batches from the loader, epoch after epoch, as the harness takes them."""
    metrics: list[dict[str, Any]] = []
    while len(metrics) < steps:
        for batch in trial.train_batches():
            metrics.append(dict(trial.train_step(batch, start + len(metrics))))
            if len(metrics) == steps:
                break
    return metrics


def weight(trial: Trial) -> float:
    return trial.models["model"].w.item()  # type: ignore[union-attr, operator]


def by_hand(xs: list[float], rates: list[float], w: float = 0.0) -> float:
    for x, rate in zip(xs, rates, strict=True):
        w += 2 * rate * x * (1 - w * x)
    return w


def test_plain_steps(load: Load) -> None:
    trial = load("class T(Base): pass")
    metrics = train(trial, 8)
    assert weight(trial) == pytest.approx(by_hand([1, 2, 3, 4, 5, 6, 1, 2], [0.1] * 8), rel=1e-5)
    assert metrics[0]["loss"] == pytest.approx(1.0)
    assert type(metrics[0]["loss"]).__name__ == "ndarray"
    assert trial.owns_loop
    assert trial.entry == ("model_def.py", HEAD.count("\n") + 1)
    assert (list(trial.models), list(trial.optimizers)) == (["model"], ["opt"])


@pytest.mark.parametrize(("average", "divisor"), [("true", 3.0), ("false", 1.0)])
def test_aggregation_steps_every_third_batch_on_the_mean_gradient(load: Load, average: str, divisor: float) -> None:
    config = f"optimizations: {{aggregation_frequency: 3, average_aggregated_gradients: {average}}}"
    trial = load("class T(Base): rate = 0.001", config)
    weights = []
    for index in range(6):
        train(trial, 1, index)
        weights.append(weight(trial))
    step = 3 * 2 * 0.001 * 1 / divisor
    assert weights[:3] == pytest.approx([0, 0, step])
    gradient = 3 * 2 * (1 - step) * 0.001 / divisor
    assert weights[3:] == pytest.approx([step, step, step + gradient])
    assert trial.models["model"].w.grad is None
    assert [event for event, _ in trial.record if event in {"aggregate", "step", "zero_grad"}] == [
        *["aggregate", "aggregate", "step", "zero_grad"] * 2
    ]


LR = """
class T(Base):
    rate = 1e-6
    def __init__(self, context):
        super().__init__(context)
        schedule = torch.optim.lr_scheduler.LambdaLR(self.opt, lambda steps: 1 + steps)
        self.lrs = context.wrap_lr_scheduler(schedule, LRScheduler.StepMode.{mode}, frequency={frequency})
"""


@pytest.mark.parametrize(
    ("mode", "frequency", "aggregation", "steps_after_batch"),
    [
        ("STEP_EVERY_BATCH", 1, 1, [1, 2, 3, 4, 5, 6, 7]),
        ("STEP_EVERY_BATCH", 2, 1, [0, 1, 1, 2, 2, 3, 3]),
        ("STEP_EVERY_BATCH", 1, 2, [0, 2, 2, 4, 4, 6, 6]),
        ("STEP_EVERY_BATCH", 2, 3, [0, 0, 1, 1, 1, 3, 3]),
        ("STEP_EVERY_OPTIMIZER_STEP", 1, 1, [1, 2, 3, 4, 5, 6, 7]),
        ("STEP_EVERY_OPTIMIZER_STEP", 1, 2, [0, 1, 1, 2, 2, 3, 3]),
        ("STEP_EVERY_OPTIMIZER_STEP", 4, 2, [0, 0, 0, 1, 1, 1, 1]),
        ("STEP_EVERY_EPOCH", 1, 1, [0, 0, 1, 1, 1, 2, 2]),
        ("STEP_EVERY_EPOCH", 2, 1, [0, 0, 0, 0, 0, 1, 1]),
        ("STEP_EVERY_EPOCH", 1, 2, [0, 1, 1, 1, 1, 2, 2]),
        ("MANUAL_STEP", 1, 1, [0] * 7),
    ],
)
def test_schedulers_step_when_the_harness_does(
    load: Load, mode: str, frequency: int, aggregation: int, steps_after_batch: list[int]
) -> None:
    """Epochs of three batches; what is compared is how often the schedule has stepped after each batch."""
    source = LR.format(mode=mode, frequency=frequency) + "    rows = 3\n"
    trial = load(source, f"optimizations: {{aggregation_frequency: {aggregation}}}")
    counts = []
    for index in range(7):
        train(trial, 1, index)
        counts.append(trial.schedulers["lrs"].last_epoch)
    assert counts == steps_after_batch
    assert trial.optimizers["opt"].param_groups[0]["lr"] == pytest.approx(1e-6 * (1 + counts[-1]))


def test_clipping_happens_after_averaging_and_before_the_step(load: Load) -> None:
    trial = load(
        """
class T(Base):
    def train_batch(self, batch, epoch_idx, batch_idx):
        loss = self.loss(batch)
        self.context.backward(loss)
        seen = []
        def clip(parameters):
            seen.extend(p.grad.clone() for p in parameters)
            torch.nn.utils.clip_grad_norm_(parameters, 0.5)
        self.context.step_optimizer(self.opt, clip_grads=clip)
        return {"before": torch.cat(seen) if seen else torch.zeros(1)}
""",
        "optimizations: {aggregation_frequency: 2}",
    )
    metrics = train(trial, 2)
    assert metrics[1]["before"].tolist() == [pytest.approx(-(2 * 1 + 2 * 2) / 2)]
    assert weight(trial) == pytest.approx(0.1 * 0.5)


def test_the_users_own_zero_grad(load: Load) -> None:
    """auto_zero_grads=False leaves the gradient; with aggregation it is refused."""
    source = """
class T(Base):
    def train_batch(self, batch, epoch_idx, batch_idx):
        self.context.backward(self.loss(batch))
        self.context.step_optimizer(self.opt, auto_zero_grads=False)
        return {}
"""
    trial = load(source)
    train(trial, 1)
    assert trial.models["model"].w.grad.item() == pytest.approx(-2.0)
    refused = load(source, "optimizations: {aggregation_frequency: 2}")
    with pytest.raises(Exception, match="auto_zero_grads"):
        train(refused, 1)


def test_a_step_that_never_comes_stays_visible(load: Load) -> None:
    trial = load("""
class T(Base):
    def train_batch(self, batch, epoch_idx, batch_idx):
        return self.loss(batch)
""")
    assert train(trial, 2)[1] == {"loss": pytest.approx(1.0)}
    assert weight(trial) == 0
    assert [event for event, _ in trial.record if event in {"backward", "step", "zero_grad"}] == []


def test_calls_around_the_context_are_recorded_too(load: Load) -> None:
    trial = load("""
class T(Base):
    def train_batch(self, batch, epoch_idx, batch_idx):
        loss = self.loss(batch)
        loss.backward()
        self.opt.step()
        return {"loss": loss}
""")
    train(trial, 1)
    assert trial.record[-2:] == [("batch", "0"), ("step", "opt")]


SCALED = """
class T(Base):
    def __init__(self, context):
        {before}
        super().__init__(context)
    def train_batch(self, batch, epoch_idx, batch_idx):
        loss = self.loss(batch)
        self.context.backward({loss})
        grads = []
        self.context.step_optimizer(self.opt, clip_grads=lambda ps: grads.extend(p.grad.item() for p in ps){scaler})
        {after}
        return {{"grad": grads[0]}}
"""


def test_use_amp_scales_unscales_before_clipping_and_updates(load: Load) -> None:
    before = "context.experimental.use_amp(); context._scaler = torch.amp.GradScaler('cpu', init_scale=8.0)"
    trial = load(SCALED.format(before=before, loss="loss", scaler="", after=""))
    assert train(trial, 1)[0]["grad"] == pytest.approx(-2.0)
    assert weight(trial) == pytest.approx(0.2)
    assert [event for event, _ in trial.record][-8:] == [
        "batch", "backward", "unscale", "clip_grads", "step_optimizer", "step", "zero_grad", "scaler_update",
    ]  # fmt: skip


def test_a_scaler_of_the_users_is_not_unscaled_before_clipping(load: Load) -> None:
    """Determined unscales only for use_amp: clipping sees the scaled gradient, the step the right one."""
    before = "self.scaler = context.wrap_scaler(torch.amp.GradScaler('cpu', init_scale=8.0))"
    parts = {"loss": "self.scaler.scale(loss)", "scaler": ", scaler=self.scaler", "after": "self.scaler.update()"}
    trial = load(SCALED.format(before=before, **parts))
    assert train(trial, 1)[0]["grad"] == pytest.approx(-16.0)
    assert weight(trial) == pytest.approx(0.2)


def test_the_autocast_proxy_shares_the_model(load: Load) -> None:
    trial = load("""
class T(Base):
    def __init__(self, context):
        self.context = context
        context.experimental.use_amp()
        net = One()
        self.model = context.wrap_model(net)
        self.opt = context.wrap_optimizer(torch.optim.SGD(self.model.parameters(), lr=0.1))
        assert isinstance(self.model, One) and self.model is not net and self.model.w is net.w
        self.model.eval()
        assert not net.training
""")
    train(trial, 1)
    assert weight(trial) == pytest.approx(0.2)
    with restored(trial) as state:
        train(trial, 2)
    assert state.unrestored == []
    assert weight(trial) == pytest.approx(0.2)


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


def test_callbacks_come_in_the_harness_order(load: Load) -> None:
    trial = load(CALLBACKS, "scheduling_unit: 2")
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


def test_modes_are_set_per_workload_not_per_batch(load: Load) -> None:
    """A train_batch that leaves the model in eval mode is not put right before the next batch."""
    trial = load("""
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


def test_a_validation_left_open_is_closed_before_training_goes_on(load: Load) -> None:
    trial = load(SWAP)
    assert trial.evaluate_step is not None
    assert trial.validation_batches is not None
    trial.evaluate_step(next(trial.validation_batches()))
    assert weight(trial) == 7.0
    train(trial, 1)
    assert weight(trial) == pytest.approx(0.2)


def test_a_validation_left_open_is_closed_by_the_sandbox(load: Load) -> None:
    trial = load(SWAP)
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


def test_reducers_are_reset_and_reduced_per_workload(load: Load) -> None:
    trial = load(REDUCERS, "scheduling_unit: 2")
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


def test_one_reducer_per_metric(load: Load) -> None:
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
    trial = load(source)
    assert trial.validation_batches is not None
    assert trial.evaluate_step is not None
    for batch in trial.validation_batches():
        trial.evaluate_step(batch)
    assert trial.objects[0].ends.metrics == {"largest": 6.0, "smallest": 1.0, "sum": 21.0}


def test_the_whole_data_set_evaluation_gets_a_loader(load: Load) -> None:
    trial = load("""
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


@pytest.mark.parametrize("where", ["__init__", "train_batch"])
def test_invalid_hp_is_a_rejected_config(load: Load, where: str) -> None:
    arguments = "self, context" if where == "__init__" else "self, batch, epoch_idx, batch_idx"
    source = f"class T(Base):\n    def {where}({arguments}):\n        raise det.InvalidHP('too wide')\n"

    def run() -> None:
        train(load(source), 1)

    with pytest.raises(RejectedConfig, match="too wide"):
        run()


SPACE = """
hyperparameters:
  global_batch_size: 2
  a: {type: int, minval: 0, maxval: 8}
  b: {type: categorical, vals: [x, y]}
"""
PICKY = """
class T(Base):
    def __init__(self, context):
        if context.get_hparam("a") CONDITION:
            raise det.InvalidHP(f"a is {context.get_hparam('a')}")
        self.info = det.get_cluster_info().trial.hparams
        super().__init__(context)
"""


def test_a_point_is_looked_for_that_the_trial_accepts(load: Load) -> None:
    trial = load(PICKY.replace("CONDITION", "< 5"), SPACE)
    (told,) = [notice for notice in trial.notices if "rejects" in notice]
    assert told == (
        "the trial rejects the middle of its search space (a is 4); examined: global_batch_size=2, a=6, b='y'"
    )
    assert trial.objects[0].info["a"] == 6
    assert not [notice for notice in load(PICKY.replace("CONDITION", "< 3"), SPACE).notices if "rejects" in notice]
    chosen = load(PICKY.replace("CONDITION", "== 4"), SPACE, hparams={"b": "x"})
    assert "a=2, b='x'" in " ".join(chosen.notices)


def test_a_rejection_within_a_step_is_no_failure(load: Load) -> None:
    source = (
        "class T(Base):\n    def train_batch(self, batch, epoch_idx, batch_idx):\n        raise det.InvalidHP('late')\n"
    )
    with pytest.raises(RejectedConfig, match="late"):
        Rehearsal.measure(load(source), 10.0)


def test_a_search_space_that_is_rejected_everywhere(load: Load) -> None:
    with pytest.raises(RejectedConfig, match="a is 4"):
        load(PICKY.replace("CONDITION", ">= 0"), SPACE)


def test_what_the_context_tells(load: Load) -> None:
    config = """
name: told
hyperparameters: {global_batch_size: 10, optimizer: {lr: 0.5}}
data: {url: "somewhere"}
resources: {slots_per_trial: 4}
searcher: {max_length: {epochs: 3}}
reproducibility: {experiment_seed: 11}
"""
    trial = load(
        """
class T(Base):
    def __init__(self, context, hparams):
        super().__init__(context)
        assert hparams["optimizer"]["lr"] == context.get_hparam("optimizer")["lr"] == 0.5
        self.told = [
            context.get_global_batch_size(), context.get_per_slot_batch_size(), context.get_data_config(),
            context.get_experiment_config()["searcher"]["max_length"], context.get_trial_seed(),
            context.get_initial_batch(), context.distributed.get_rank(), context.distributed.get_size(),
            context.distributed.allgather("x"), context.get_stop_requested(), str(context.device),
            det.get_cluster_info().trial.hparams["global_batch_size"], torch.initial_seed(),
        ]
        context.get_tensorboard_writer().add_scalar("x", 1.0, 0)
    def train_batch(self, batch, epoch_idx, batch_idx):
        c = self.context
        told = (c.current_train_batch(), c.current_train_epoch(), c.is_epoch_start(), c.is_epoch_end(), c._epoch_len)
        return {"told": str(told)}
""",
        config,
    )
    told = trial.objects[0].told
    assert told == [8, 2, {"url": "somewhere"}, {"epochs": 3}, 11, 0, 0, 1, ["x"], False, "cpu", 10, 11]
    assert any("slots_per_trial is 4" in notice for notice in trial.notices)
    assert [metrics["told"] for metrics in train(trial, 7)][-2:] == ["(5, 0, False, True, 6)", "(6, 1, True, False, 6)"]


def test_models_are_named_as_the_trial_names_them(load: Load) -> None:
    trial = load("""
class T(Base):
    def __init__(self, context):
        self.context = context
        self.nets = [context.wrap_model(One()), context.wrap_model(One())]
        self.heads = {"left": context.wrap_model(One())}
        context.wrap_model(One())
        self.opts = [context.wrap_optimizer(torch.optim.SGD(net.parameters(), lr=1.0)) for net in self.nets]
        context.wrap_optimizer(torch.optim.SGD(self.heads["left"].parameters(), lr=1.0))
""")
    assert list(trial.models) == ["nets.0", "nets.1", "heads.left", "model3"]
    assert list(trial.optimizers) == ["opts.0", "opts.1", "optimizer2"]


def test_batches_are_moved_and_converted(load: Load) -> None:
    trial = load("""
import numpy as np
class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 2
    def __getitem__(self, i):
        return {"x": np.float32(i), "name": f"row {i}", "pair": (np.int64(i), [i])}
def collate(rows):
    return {"x": np.array([r["x"] for r in rows]), "names": [r["name"] for r in rows], "pair": (rows[0]["pair"],)}
class T(Base):
    def build_training_data_loader(self):
        return DataLoader(Rows(), batch_size=2, collate_fn=collate)
""")
    (batch,) = trial.train_batches()
    assert torch.equal(batch["x"], torch.tensor([0.0, 1.0]))
    assert batch["names"] == ["row 0", "row 1"]


SPAWNED = """
from pathlib import Path
from mlcheck.trial.find import EntryOptions, load_trial
if __name__ == "__main__":
    trial = load_trial("model_def:T", EntryOptions(hparams={"global_batch_size": 1}))
    print(len([batch for batch in trial.train_batches()]), end="")
"""
IN_WORKERS = """
class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, i):
        return torch.tensor(float(i)), torch.tensor(1.0)
class T(Base):
    def build_training_data_loader(self):
        return DataLoader(Rows(), batch_size=2, num_workers=1, multiprocessing_context="spawn")
"""


def test_workers_that_start_afresh_find_the_stand_in(write: Callable[[str, str], Path]) -> None:
    write("model_def.py", HEAD + IN_WORKERS)
    write("drive.py", SPAWNED)
    done = subprocess.run([sys.executable, "drive.py"], capture_output=True, text=True, check=False)
    assert done.stdout == "2", done.stderr


def test_an_installed_determined_is_hidden_and_that_is_told(load: Load, write: Callable[[str, str], Path]) -> None:
    write("installed/determined/__init__.py", "raise ImportError('the real one')")
    sys.path.append(str(Path("installed").resolve()))
    assert any("stand-in" in notice for notice in load("class T(Base): pass").notices)


def test_a_torch_loader_needs_the_checks_disabled(load: Load) -> None:
    source = """
class T(Base):
    def __init__(self, context):
        super().__init__(context)
        {line}
    def loader(self):
        return torch.utils.data.DataLoader([(torch.ones(()), torch.ones(()))] * 4, batch_size=2)
"""
    trial = load(source.format(line="context.experimental.disable_dataset_reproducibility_checks()"))
    assert len(list(trial.train_batches())) == 2
    with pytest.raises(Exception, match="disable_dataset_reproducibility_checks"):
        load(source.format(line="pass"))
