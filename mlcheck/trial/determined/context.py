"""Stands in for `determined.pytorch.PyTorchTrialContext`: one slot, no cluster, every call noted."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import ReduceLROnPlateau

from mlcheck.trial.determined.api import InternalException, InvalidExperimentException, LRScheduler
from mlcheck.trial.determined.autocast import autocast_proxy
from mlcheck.trial.determined.data import to_device
from mlcheck.trial.determined.distributed import CommunicatingContext, DistributedContext
from mlcheck.trial.determined.experiment import ExperimentContext
from mlcheck.trial.determined.reducers import MetricReducer, Reducers
from mlcheck.trial.determined.settings import Record, Settings, missing_attribute
from mlcheck.trial.determined.writers import silent
from mlcheck.trial.ranks.over import over_ranks
from mlcheck.trial.trial import EntryError

_log = logging.getLogger("determined.pytorch")


def _apex_amp() -> Any:
    def configure_apex_amp(_: object, models: Any, optimizers: Any, enabled: bool = True, **_settings: object) -> Any:
        if not enabled:
            return models, optimizers
        raise EntryError(
            "the trial calls context.configure_apex_amp(), which needs NVIDIA apex and is gone from PyTorch's "
            "own tools: use context.experimental.use_amp()"
        )

    return configure_apex_amp


class PyTorchExperimentalContext:
    """What Determined keeps under `context.experimental`."""

    def __init__(self, parent: PyTorchTrialContext) -> None:
        self._parent = parent
        self._auto_amp = False
        self._data_repro_checks_disabled = False
        self._auto_to_device = True

    def use_amp(self) -> None:
        self._parent._record.note("use_amp")
        self._parent.wrap_scaler(torch.amp.GradScaler("cuda", enabled=torch.cuda.is_available()))
        self._auto_amp = True

    def disable_dataset_reproducibility_checks(self) -> None:
        self._data_repro_checks_disabled = True

    def disable_auto_to_device(self) -> None:
        self._auto_to_device = False

    def __getattr__(self, name: str) -> Any:
        raise missing_attribute("PyTorchTrialContext.experimental", name, dir(type(self)))


class PyTorchTrialContext(ExperimentContext):
    """The context a PyTorchTrial is constructed with."""

    def __init__(self, settings: Settings, record: Record) -> None:
        super().__init__(settings, record)
        self.device = settings.device
        kind = CommunicatingContext if settings.communicates else DistributedContext
        self.distributed = kind(settings.rank, settings.world)
        self.experimental = PyTorchExperimentalContext(self)
        self.models: list[nn.Module] = []
        self.optimizers: list[Optimizer] = []
        self.lr_schedulers: list[LRScheduler] = []
        self.profiler: Any = None
        self._aggregation_frequency = settings.aggregation_frequency
        self._average_gradients: dict[int, bool] = {}
        self._reducers = Reducers()
        self._scaler: Any = None
        self._originals: dict[int, nn.Module] = {}
        self._to_device_warned_types: set[type] = set()

    def __getattr__(self, name: str) -> Any:
        raise missing_attribute("PyTorchTrialContext", name, dir(type(self)))

    # Wrapping

    def wrap_model(self, model: nn.Module) -> nn.Module:
        self._record.note("wrap_model", model)
        model = model.to(self.device, self._settings.dtype)
        spread = over_ranks(model) if self._settings.communicates else model
        wrapped = autocast_proxy(spread) if self.experimental._auto_amp else spread
        self._originals[id(wrapped)] = model
        self.models.append(wrapped)
        return wrapped

    def wrap_optimizer(
        self,
        optimizer: Optimizer,
        backward_passes_per_step: int = 1,
        fp16_compression: bool | None = None,  # noqa: ARG002 - only matters to several slots
        average_aggregated_gradients: bool | None = None,
    ) -> Optimizer:
        if backward_passes_per_step < 1:
            raise InvalidExperimentException(f"backward_passes_per_step must be >= 1, not {backward_passes_per_step}")
        self._record.note("wrap_optimizer", optimizer)
        average = self._settings.average_aggregated_gradients
        if average_aggregated_gradients is not None:
            average = average_aggregated_gradients
        self._average_gradients[id(optimizer)] = average
        self.optimizers.append(optimizer)
        return optimizer

    def wrap_lr_scheduler(self, lr_scheduler: Any, step_mode: LRScheduler.StepMode, frequency: int = 1) -> Any:
        if isinstance(lr_scheduler, ReduceLROnPlateau) and step_mode is not LRScheduler.StepMode.MANUAL_STEP:
            raise InvalidExperimentException(
                "ReduceLROnPlateau.step() needs the metric: wrap it with MANUAL_STEP and step it in on_validation_end"
            )
        optimizer = getattr(lr_scheduler, "optimizer", None)
        if optimizer is not None and all(optimizer is not known for known in self.optimizers):
            raise InvalidExperimentException(
                "the scheduler's optimizer is not wrapped: use the one context.wrap_optimizer() returned"
            )
        wrapped = LRScheduler(lr_scheduler, step_mode, frequency)
        self._record.note("wrap_lr_scheduler", step_mode.name)
        self.lr_schedulers.append(wrapped)
        return lr_scheduler

    def wrap_scaler(self, scaler: Any) -> Any:
        if self._scaler is not None:
            raise InvalidExperimentException("call only one of wrap_scaler() and use_amp(), and only once")
        if self.models:
            raise InvalidExperimentException("call wrap_scaler() before wrap_model()")
        self._record.note("wrap_scaler", scaler)
        self._scaler = scaler
        return scaler

    def wrap_reducer(
        self, reducer: Any, name: str | None = None, for_training: bool = True, for_validation: bool = True
    ) -> MetricReducer:
        self._record.note("wrap_reducer", name or "")
        return self._reducers.add(reducer, name, for_training, for_validation)

    configure_apex_amp = _apex_amp()
    set_profiler = silent()

    def to_device(self, data: Any) -> Any:
        return to_device(data, self.device, self._to_device_warned_types)

    # Training

    def _steps_now(self) -> bool:
        return (self.current_train_batch() + 1) % self._aggregation_frequency == 0

    def backward(
        self,
        loss: torch.Tensor,
        gradient: torch.Tensor | None = None,
        retain_graph: bool = False,
        create_graph: bool = False,
    ) -> None:
        self._record.note("backward")
        if self.experimental._auto_amp:
            loss = self._scaler.scale(loss)
        loss.backward(gradient=gradient, retain_graph=retain_graph, create_graph=create_graph)  # type: ignore[no-untyped-call]

    def step_optimizer(
        self,
        optimizer: Optimizer,
        clip_grads: Callable[[Any], Any] | None = None,
        auto_zero_grads: bool = True,
        scaler: Any = None,
    ) -> None:
        """Average, unscale (only for `use_amp`, and only to clip), clip, step and clear, when a step is due."""
        if self._aggregation_frequency > 1 and not auto_zero_grads:
            raise InvalidExperimentException("auto_zero_grads=False does not go with aggregation_frequency > 1")
        if id(optimizer) not in self._average_gradients:
            raise InvalidExperimentException(
                "step_optimizer() got an optimizer that context.wrap_optimizer() did not return"
            )
        if not self._steps_now():
            self._record.note("aggregate", optimizer)
            return
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        if self._average_gradients[id(optimizer)] and self._aggregation_frequency > 1:
            for parameter in parameters:
                if parameter.grad is not None:
                    parameter.grad.div_(float(self._aggregation_frequency))
        automatic = self._scaler if self.experimental._auto_amp else None
        if clip_grads is not None:
            if automatic is not None:
                self._record.note("unscale", optimizer)
                automatic.unscale_(optimizer)
            self._record.note("clip_grads", optimizer)
            clip_grads(parameters)
        self._record.note("step_optimizer", optimizer)
        scaler = automatic if scaler is None else scaler
        if scaler:
            scaler.step(optimizer)
        else:
            optimizer.step()
        if auto_zero_grads:
            self._record.note("zero_grad", optimizer)
            optimizer.zero_grad()

    def current_train_batch(self) -> int:
        if self.position.batch is None:
            raise InternalException("training has not started")
        return self.position.batch

    def current_train_epoch(self) -> int:
        return self.current_train_batch() // self._length_of_epoch()

    def is_epoch_start(self) -> bool:
        return self.current_train_batch() % self._length_of_epoch() == 0

    def is_epoch_end(self) -> bool:
        return self.current_train_batch() % self._length_of_epoch() == self._length_of_epoch() - 1

    def _length_of_epoch(self) -> int:
        if self.position.epoch_len is None:
            raise InternalException("the training data loader is not built yet")
        return self.position.epoch_len

    @property
    def _epoch_len(self) -> int | None:
        return self.position.epoch_len

    @property
    def _current_batch_idx(self) -> int | None:
        return self.position.batch
