"""Makes a `Trial` of a LightningModule: Lightning's own Trainer fits it, one batch at a time, like a script.

Nothing of Lightning is imitated: hooks, automatic and manual optimisation and every form of `configure_optimizers`
mean what they mean there. The data comes from the module's own `train_dataloader` or from the one LightningDataModule
beside it. Arguments of both constructors come from the hyperparameters, by name.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any

from mlcheck.trial.config import Hyperparameters
from mlcheck.trial.construct import arguments_of
from mlcheck.trial.trial import EntryError

_EPOCHS = 1000


def is_lightning_module(target: Any) -> bool:
    return isinstance(target, type) and any(base.__name__ == "LightningModule" for base in target.__mro__)


@dataclass(frozen=True)
class Fit:
    """`Trainer.fit` of a module, on the CPU or the first GPU, without logger, checkpoints and progress bar."""

    module: type
    data: type | None
    values: Hyperparameters

    @property
    def name(self) -> str:
        return self.module.__name__

    def run(self) -> None:
        trainer = _package(self.module).Trainer(
            max_epochs=_EPOCHS,
            devices=1,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            num_sanity_val_steps=0,
        )
        data = self.data(**arguments_of(self.data, self.data.__name__, self.values)) if self.data else None
        trainer.fit(self.module(**arguments_of(self.module, self.module.__name__, self.values)), datamodule=data)


def fit_of(module: type, entry: str, values: Hyperparameters) -> Fit:
    """Raises EntryError where there is no data to fit it to, or an argument without a value."""
    data = _data_beside(module)
    own = getattr(module, "train_dataloader", None) is not _inherited(module, "train_dataloader")
    if not own and len(data) != 1:
        found = ", ".join(kind.__name__ for kind in data) or "none"
        raise EntryError(
            f"`{entry}` has no train_dataloader, and beside it must be one LightningDataModule (there is {found}): "
            "probe the script that calls trainer.fit instead, as `mlcheck probe train.py`"
        )
    fit = Fit(module, None if own else data[0], values)
    for kind in (fit.module, fit.data):
        if kind:
            arguments_of(kind, kind.__name__, values)
    return fit


def _package(module: type) -> ModuleType:
    """The package the module was written for: `lightning.pytorch` or `pytorch_lightning`."""
    base = next(base for base in module.__mro__ if base.__name__ == "LightningModule")
    root = base.__module__.split(".")[0]
    return import_module("lightning.pytorch" if root == "lightning" else root)


def _inherited(module: type, name: str) -> Any:
    base = next(base for base in module.__mro__ if base.__name__ == "LightningModule")
    return getattr(base, name, None)


def _data_beside(module: type) -> list[type]:
    """The data modules that the module's own file defines or imports."""
    names = vars(sys.modules[module.__module__])
    kinds = [value for value in names.values() if isinstance(value, type)]
    data = [kind for kind in kinds if any(base.__name__ == "LightningDataModule" for base in kind.__mro__)]
    return [kind for kind in dict.fromkeys(data) if kind.__name__ != "LightningDataModule"]
