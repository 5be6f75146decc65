"""What Determined's harness does around a trial's own methods: workloads, callbacks, schedulers, metrics."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import torch

from mlcheck.trial.determined.api import PyTorchTrial
from mlcheck.trial.determined.context import PyTorchTrialContext
from mlcheck.trial.determined.data import DataLoader, loader_of
from mlcheck.trial.determined.metrics import as_arrays, averages_of, reduced
from mlcheck.trial.determined.settings import Position, Record
from mlcheck.trial.trial import EntryError


@dataclass
class Workload:
    """The stretch of training or validation under way, with the metrics of its batches so far."""

    kind: str = ""
    metrics: list[dict[str, Any]] = field(default_factory=list)


class Harness:
    """Drives one constructed trial. Raises EntryError where Determined would refuse the trial's shape."""

    def __init__(self, trial: PyTorchTrial, context: PyTorchTrialContext, record: Record, unit: int) -> None:
        self._trial = trial
        self._context = context
        self._record = record
        self._unit = unit
        self._workload = Workload()
        self._reduced: dict[str, Any] = {}
        self.evaluates_batches = _overrides(trial, "evaluate_batch")
        if self.evaluates_batches == _overrides(trial, "evaluate_full_dataset"):
            raise EntryError(
                f"the trial {type(trial).__name__} must define exactly one of evaluate_batch and evaluate_full_dataset"
            )
        self._takes_index = len(inspect.signature(trial.evaluate_batch).parameters) > 1
        self.callbacks = _callbacks(trial)
        for callback in self.callbacks.values():
            callback.on_trial_startup(0, None)
        self._training = trial.build_training_data_loader()
        self._validation = trial.build_validation_data_loader()
        for name, loader in (("training", self._training), ("validation", self._validation)):
            self._accept(name, loader)
        context.position.epoch_len = self._epoch_length()
        for callback in self.callbacks.values():
            callback.on_training_start()

    def _accept(self, name: str, loader: Any) -> None:
        if isinstance(loader, DataLoader) or self._context.experimental._data_repro_checks_disabled:
            return
        raise EntryError(
            f"build_{name}_data_loader() returned {type(loader).__module__}.{type(loader).__qualname__}: return a "
            "determined.pytorch.DataLoader, or call context.experimental.disable_dataset_reproducibility_checks()"
        )

    @property
    def loaders(self) -> list[Any]:
        """The loaders as torch's own, whose samplers and generators hold state."""
        loaders = (self._training, self._validation)
        return [loader._plain if isinstance(loader, DataLoader) else loader for loader in loaders]

    def _epoch_length(self) -> int:
        return max(_count(self._training), 1)

    def train_batches(self) -> Iterator[Any]:
        """One epoch of the training loader, each batch on the device."""
        for batch in islice(iter(self._sharded(self._training)), self._epoch_length()):
            yield self._on_device(batch)

    def validation_batches(self) -> Iterator[Any]:
        """One pass of the validation loader. A pass that was evaluated to its end ends the validation."""
        self.settle()
        for batch in self._sharded(self._validation):
            yield self._on_device(batch) if self.evaluates_batches else batch
        self.settle()

    def _sharded(self, loader: Any) -> Any:
        """Determined deals out the batches of its own loaders to the ranks; any other loader is read as it is."""
        ranks = self._context.distributed
        if ranks.size == 1 or not isinstance(loader, DataLoader):
            return loader
        return loader.get_data_loader(num_replicas=ranks.size, rank=ranks.rank)

    def _on_device(self, batch: Any) -> Any:
        return self._context.to_device(batch) if self._context.experimental._auto_to_device else batch

    def train_step(self, batch: Any, index: int) -> Mapping[str, Any]:
        context, epoch_len = self._context, self._context._length_of_epoch()
        self._enter("training")
        epoch, within = divmod(index, epoch_len)
        context.position.batch = index
        self._record.note("batch", str(index))
        if within == 0:
            for callback in self.callbacks.values():
                _epoch_start(callback, epoch)
        metrics = self._trial.train_batch(batch=batch, epoch_idx=epoch, batch_idx=index)
        if context._steps_now():
            self._after_step(index, epoch_len)
        if isinstance(metrics, torch.Tensor):
            metrics = {"loss": metrics}
        metrics = as_arrays(metrics, "train_batch", detach=True)
        self._trial.get_batch_length(batch)  # the harness divides by it for its throughput: it must not raise
        self._workload.metrics.append(metrics)
        if within == epoch_len - 1:
            for callback in self.callbacks.values():
                callback.on_training_epoch_end(epoch)
        if (index + 1) % self._unit == 0:
            self._leave()
        return metrics

    def _after_step(self, index: int, epoch_len: int) -> None:
        """What follows a batch with an optimizer step: the automatic scaler's update, then the schedulers."""
        context = self._context
        if context.experimental._auto_amp:
            self._record.note("scaler_update")
            context._scaler.update()
        for scheduler in context.lr_schedulers:
            for _ in range(scheduler.steps_after(index, epoch_len, context._aggregation_frequency)):
                self._record.note("lr_step", scheduler._scheduler)
                scheduler.step()

    @torch.no_grad()
    def evaluate_step(self, batch: Any) -> Mapping[str, Any]:
        if not self.evaluates_batches:
            return self.evaluate_split([batch])
        self._enter("validation")
        self._record.note("evaluate_batch")
        if self._takes_index:
            metrics = self._trial.evaluate_batch(batch=batch, batch_idx=len(self._workload.metrics))
        else:
            metrics = self._trial.evaluate_batch(batch=batch)  # type: ignore[call-arg]
        return self._kept(as_arrays(metrics, "evaluate_batch", detach=False))

    @torch.no_grad()
    def evaluate_split(self, batches: list[Any]) -> Mapping[str, Any]:
        """What evaluate_full_dataset makes of these batches."""
        self._enter("validation")
        self._record.note("evaluate_batch")
        loader = loader_of(batches, sum(map(self._length, batches)))
        metrics = self._trial.evaluate_full_dataset(data_loader=loader)
        return self._kept(as_arrays(metrics, "evaluate_full_dataset", detach=False))

    def _kept(self, metrics: dict[str, Any]) -> dict[str, Any]:
        if self._workload.metrics and metrics.keys() != self._workload.metrics[0].keys():
            raise EntryError(
                "evaluate_batch() must return the same metrics for every batch, not first "
                f"{sorted(self._workload.metrics[0])} and then {sorted(metrics)}"
            )
        self._workload.metrics.append(metrics)
        return metrics

    def _length(self, batch: Any) -> int:
        """The number of records, 1 for a batch of unknown form: the harness itself never asks for it here."""
        try:
            return self._trial.get_batch_length(batch)
        except (TypeError, ValueError):
            return 1

    def _enter(self, kind: str) -> None:
        """Begin a workload unless it is under way: modes are set and reducers reset here, not at every batch."""
        if self._workload.kind == kind:
            return
        self._leave()
        self._workload = Workload(kind)
        for model in self._context.models:
            model.train(kind == "training")
        self._context._reducers.reset()
        if kind == "validation":
            for callback in self.callbacks.values():
                callback.on_validation_start()
            for callback in self.callbacks.values():
                callback.on_validation_epoch_start()

    def _leave(self) -> None:
        """End the workload under way, with its reduced metrics for the callbacks."""
        ended, self._workload = self._workload, Workload()
        if ended.kind == "training":
            average = averages_of(ended.metrics)
            average.update(self._context._reducers.reduce(for_training=True))
            for callback in self.callbacks.values():
                callback.on_training_workload_end(avg_metrics=average, batch_metrics=ended.metrics)
        elif ended.kind == "validation":
            for callback in self.callbacks.values():
                callback.on_validation_epoch_end(ended.metrics)
            metrics = reduced(ended.metrics, self._trial.evaluation_reducer())
            self._reduced = self._context._reducers.reduce(
                for_training=False, cut_short=len(ended.metrics) < _count(self._validation)
            )
            metrics.update(self._reduced)
            for callback in self.callbacks.values():
                callback.on_validation_end(metrics)

    def settle(self) -> None:
        """End a validation under way, so that callbacks that swapped weights for it swap them back."""
        if self._workload.kind == "validation":
            with torch.no_grad():
                self._leave()

    def end_validation(self) -> Mapping[str, Any]:
        self.settle()
        return self._reduced

    def snapshot(self) -> object:
        self.settle()
        return replace(self._context.position), Workload(self._workload.kind, list(self._workload.metrics))

    def restore(self, state: object) -> None:
        assert isinstance(state, tuple)
        self.settle()
        position, workload = state
        assert isinstance(position, Position)
        vars(self._context.position).update(vars(position))
        self._workload = Workload(workload.kind, list(workload.metrics))

    def close(self) -> None:
        self.settle()
        for callback in self.callbacks.values():
            callback.on_trial_shutdown()


def _count(loader: Any) -> int:
    """How many batches it gives, as far as it says."""
    try:
        return len(loader)
    except TypeError:
        return sys.maxsize


def _overrides(trial: PyTorchTrial, method: str) -> bool:
    return getattr(type(trial), method) is not getattr(PyTorchTrial, method)


def _callbacks(trial: PyTorchTrial) -> dict[str, Any]:
    callbacks = trial.build_callbacks()
    if not isinstance(callbacks, dict):
        raise EntryError(f"build_callbacks() must return a dict of names to callbacks, not {type(callbacks).__name__}")
    return callbacks


def _epoch_start(callback: Any, epoch: int) -> None:
    """The hook took no argument until 0.17.8."""
    if inspect.signature(callback.on_training_epoch_start).parameters:
        callback.on_training_epoch_start(epoch)
    else:
        callback.on_training_epoch_start()
