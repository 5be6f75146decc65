"""The part of the stand-in context that only tells: hyperparameters, config, sizes, seeds, where to write."""

from __future__ import annotations

from pathlib import Path
from tempfile import gettempdir
from typing import Any

from mlcheck.trial.determined.api import InvalidExperimentException
from mlcheck.trial.determined.settings import Position, Record, Settings
from mlcheck.trial.determined.writers import SilentWriter
from mlcheck.trial.trial import EntryError


class ExperimentContext:
    """What a trial may ask about its experiment."""

    def __init__(self, settings: Settings, record: Record) -> None:
        self.position = Position()
        self._settings = settings
        self._record = record
        self._hparams = settings.hyperparameters
        self._writer = SilentWriter()
        self._tensorboard_logging = True

    def get_hparams(self) -> dict[str, Any]:
        return self._hparams

    def get_hparam(self, name: str) -> Any:
        return self._hparams[name]

    def get_experiment_config(self) -> dict[str, Any]:
        if self._settings.config is None:
            raise EntryError("the trial reads the experiment config and none was given: name its YAML file (--config)")
        return self._settings.config

    def get_data_config(self) -> dict[str, Any]:
        return self.get_experiment_config().get("data") or {}

    def get_global_batch_size(self) -> int:
        return self.get_per_slot_batch_size() * self._settings.slots

    def get_per_slot_batch_size(self) -> int:
        size = self._hparams["global_batch_size"]
        slots = self._settings.slots
        if isinstance(size, bool) or not isinstance(size, int) or size < slots:
            raise InvalidExperimentException(
                f"the hyperparameter global_batch_size must be a whole number of at least {slots} "
                f"(slots_per_trial), not {size!r}"
            )
        return size // slots

    def get_trial_seed(self) -> int:
        return self._settings.seed

    def get_experiment_id(self) -> int:
        return 1

    def get_trial_id(self) -> int:
        return 1

    def get_initial_batch(self) -> int:
        return 0

    def get_stop_requested(self) -> bool:
        return self.position.stop_requested

    def set_stop_requested(self, stop_requested: bool) -> None:
        if not isinstance(stop_requested, bool):
            raise TypeError("stop_requested must be a bool")
        self._record.note("set_stop_requested", str(stop_requested))
        self.position.stop_requested = stop_requested

    def get_tensorboard_writer(self) -> SilentWriter:
        return self._writer

    def get_tensorboard_path(self) -> Path:
        return Path(gettempdir()) / "mlcheck-tensorboard"

    def set_enable_tensorboard_logging(self, enable_tensorboard_logging: bool) -> None:
        self._tensorboard_logging = enable_tensorboard_logging

    def get_enable_tensorboard_logging(self) -> bool:
        return self._tensorboard_logging
