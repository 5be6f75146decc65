"""Stands in for what trials inherit or raise from `determined`: trial, callbacks, schedulers, units, errors."""

from __future__ import annotations

import abc
import enum
from typing import Any

from mlcheck.trial.determined.data import data_length
from mlcheck.trial.determined.reducers import Reducer
from mlcheck.trial.trial import EntryError, RejectedConfig


class InvalidHP(RejectedConfig):
    """Raised by a trial to say that this combination of hyperparameters makes no sense."""

    def __init__(self, msg: str = "the trial raised determined.InvalidHP") -> None:
        super().__init__(msg)


class InvalidExperimentException(Exception):
    """The API was used in a way the harness refuses."""


class InternalException(Exception):
    """The API was used outside of training."""


class NotProvided(EntryError, AttributeError):
    """A part of Determined's API that the stand-in lacks, or a misspelt one."""


class LRScheduler:
    """A scheduler with the moments at which the harness steps it."""

    class StepMode(enum.Enum):
        STEP_EVERY_EPOCH = 1
        STEP_EVERY_BATCH = 2
        MANUAL_STEP = 3
        STEP_EVERY_OPTIMIZER_STEP = 4

    def __init__(self, scheduler: Any, step_mode: StepMode, frequency: int = 1) -> None:
        if not isinstance(step_mode, LRScheduler.StepMode):
            raise TypeError(f"step_mode must be a determined.pytorch.LRScheduler.StepMode, not {step_mode!r}")
        self._scheduler = scheduler
        self._step_mode = step_mode
        self._frequency = frequency

    def step(self, *args: Any) -> None:
        self._scheduler.step(*args)

    def get_last_lr(self) -> list[float]:
        return list(self._scheduler.get_last_lr())

    def state_dict(self) -> dict[str, Any]:
        return dict(self._scheduler.state_dict())

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._scheduler.load_state_dict(state_dict)

    def steps_after(self, batch_idx: int, epoch_len: int, aggregation: int) -> int:
        """How often the harness steps it after this batch, which ended with an optimizer step.

        STEP_EVERY_BATCH counts the aggregated batches too; STEP_EVERY_EPOCH steps when the next
        optimizer step falls into a later epoch.
        """
        mode, every = self._step_mode, self._frequency
        if mode is LRScheduler.StepMode.STEP_EVERY_BATCH:
            return sum((i + 1) % every == 0 for i in range(batch_idx - aggregation + 1, batch_idx + 1))
        if mode is LRScheduler.StepMode.STEP_EVERY_OPTIMIZER_STEP:
            return int((batch_idx + 1) % every == 0)
        if mode is LRScheduler.StepMode.STEP_EVERY_EPOCH:
            epochs = range(batch_idx // epoch_len, (batch_idx + aggregation) // epoch_len)
            return sum((epoch + 1) % every == 0 for epoch in epochs)
        return 0


class PyTorchCallback:
    """Hooks around training and validation; all do nothing until overridden."""

    def on_trial_startup(self, first_batch_idx: int, checkpoint_uuid: str | None) -> None:
        """Before the loaders are built."""

    def on_trial_shutdown(self) -> None:
        """At the very end."""

    def on_training_start(self) -> None:
        """After the loaders are built, before the first batch."""

    def on_training_epoch_start(self, epoch_idx: int) -> None:
        """Before the first batch of an epoch."""

    def on_training_epoch_end(self, epoch_idx: int) -> None:
        """After the last batch of an epoch."""

    def on_training_workload_end(self, avg_metrics: dict[str, Any], batch_metrics: list[dict[str, Any]]) -> None:
        """After at most `scheduling_unit` batches."""

    def on_validation_start(self) -> None:
        """Before a validation, in eval mode."""

    def on_validation_epoch_start(self) -> None:
        """Before the first validation batch."""

    def on_validation_epoch_end(self, outputs: list[Any]) -> None:
        """After the last validation batch, with the metrics of every batch."""

    def on_validation_end(self, metrics: dict[str, Any]) -> None:
        """After a validation, with its reduced metrics."""

    def on_checkpoint_load_start(self, checkpoint: dict[str, Any]) -> None:
        """Before a checkpoint is loaded."""

    def on_checkpoint_save_start(self, checkpoint: dict[str, Any]) -> None:
        """Before a checkpoint is saved."""

    def on_checkpoint_end(self, checkpoint_dir: str) -> None:
        """The old name of `on_checkpoint_write_end`."""

    def on_checkpoint_write_end(self, checkpoint_dir: str) -> None:
        """After a checkpoint is written."""

    def on_checkpoint_upload_end(self, uuid: str) -> None:
        """After a checkpoint is uploaded."""

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take back what `state_dict` gave."""


class PyTorchTrial(abc.ABC):
    """The class a user's trial inherits from."""

    @abc.abstractmethod
    def __init__(self, context: Any) -> None: ...

    @abc.abstractmethod
    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> Any: ...

    @abc.abstractmethod
    def build_training_data_loader(self) -> Any: ...

    @abc.abstractmethod
    def build_validation_data_loader(self) -> Any: ...

    def build_callbacks(self) -> dict[str, PyTorchCallback]:
        return {}

    def evaluate_batch(self, batch: Any, batch_idx: int) -> dict[str, Any]:
        raise NotImplementedError

    def evaluation_reducer(self) -> Reducer | dict[str, Reducer]:
        return Reducer.AVG

    def evaluate_full_dataset(self, data_loader: Any) -> dict[str, Any]:
        raise NotImplementedError

    def get_batch_length(self, batch: Any) -> int:
        return data_length(batch)


class TrainUnit:
    """A length of training."""

    def __init__(self, value: Any) -> None:
        self.value = value


class Batch(TrainUnit):
    """A length in batches."""


class Epoch(TrainUnit):
    """A length in epochs."""
