"""Makes a program of a LightningModule: Lightning's own Trainer fits it, one batch at a time, like a script.

Nothing of Lightning is imitated: hooks, automatic and manual optimisation and every form of `configure_optimizers`
mean what they mean there. Of a class, the data comes from its own `train_dataloader` or from the one
LightningDataModule beside it, and arguments of both constructors from the hyperparameters, by name. A function
returns a module that is made already: alone, or with its data as `trainer.fit` takes it, (module, datamodule) or
(module, train_loader, validation_loader).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any

from mlcheck.trial.config import Hyperparameters
from mlcheck.trial.construct import arguments_of
from mlcheck.trial.trial import EntryError

_EPOCHS = 1000


def is_lightning_module(target: Any) -> bool:
    """Whether it is a class derived from LightningModule."""
    return isinstance(target, type) and _derives(target, "LightningModule")


def is_fit(returned: Any) -> bool:
    """Whether a function has returned a LightningModule, with or without its data."""
    first = returned[0] if isinstance(returned, tuple) and returned else returned
    return is_lightning_module(type(first))


@dataclass(frozen=True)
class Fit:
    """`Trainer.fit` of a module, on the CPU or the first GPU, without logs, checkpoints and progress bar.

    `make` returns the module and what `fit` takes besides.
    """

    name: str
    make: Callable[[], tuple[Any, ...]]

    @property
    def change(self) -> str:
        return f"change {self.name}"

    def run(self) -> None:
        module, *data = self.make()
        package = _package(type(module))
        trainer = package.Trainer(
            max_epochs=_EPOCHS,
            devices=1,
            logger=_silent_logger(package),
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            num_sanity_val_steps=0,
        )
        if data and _derives(type(data[0]), "LightningDataModule"):
            trainer.fit(module, datamodule=data[0])
        else:
            trainer.fit(module, *data)


def fit_of(module: type, entry: str, values: Hyperparameters) -> Fit:
    """Raises EntryError where there is no data to fit it to, or an argument without a value."""
    data = _data_beside(module)
    own = getattr(module, "train_dataloader", None) is not _inherited(module, "train_dataloader")
    if not own and len(data) != 1:
        found = ", ".join(kind.__name__ for kind in data) or "none"
        raise EntryError(
            f"`{entry}` has no train_dataloader, and beside it must be one LightningDataModule (there is {found}): "
            "name a function that returns the module and its loaders, or probe the script that calls trainer.fit, "
            "as `mlcheck probe train.py`"
        )
    kinds = [module] if own else [module, data[0]]
    arguments = [arguments_of(kind, kind.__name__, values) for kind in kinds]
    return Fit(module.__name__, lambda: tuple(kind(**given) for kind, given in zip(kinds, arguments)))


def fit_of_function(function: Callable[..., Any], name: str, arguments: dict[str, Any]) -> Fit:
    def make() -> tuple[Any, ...]:
        returned = function(**arguments)
        return returned if isinstance(returned, tuple) else (returned,)

    return Fit(name, make)


def _package(module: type) -> ModuleType:
    """The package the module was written for: `lightning.pytorch` or `pytorch_lightning`."""
    base = next(base for base in module.__mro__ if base.__name__ == "LightningModule")
    root = base.__module__.split(".")[0]
    return import_module("lightning.pytorch" if root == "lightning" else root)


def _silent_logger(package: ModuleType) -> Any:
    """One that takes whatever a module logs to it by itself, as `self.logger.experiment.add_image(...)`."""
    try:
        return import_module(f"{package.__name__}.loggers.logger").DummyLogger()
    except (ImportError, AttributeError):
        return False


def _inherited(module: type, name: str) -> Any:
    base = next(base for base in module.__mro__ if base.__name__ == "LightningModule")
    return getattr(base, name, None)


def _data_beside(module: type) -> list[type]:
    """The data modules that the module's own file defines or imports."""
    kinds: Iterable[Any] = vars(sys.modules[module.__module__]).values()
    data = [kind for kind in kinds if isinstance(kind, type) and _derives(kind, "LightningDataModule")]
    return [kind for kind in dict.fromkeys(data) if kind.__name__ != "LightningDataModule"]


def _derives(kind: type, name: str) -> bool:
    return any(base.__name__ == name for base in kind.__mro__)
