"""Services made of a bare model: an nn.Module, TorchScript, torch.export, ONNX. JSON becomes tensors here."""

from __future__ import annotations

import pickle
import warnings
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from mlcheck.load.service import NoService, Service, of_target
from mlcheck.trial.determined import checkpoint

_BARE = (
    "a bare model has no serving code, so mlcheck itself calls eval() and inference_mode(): "
    "to test your serving code, name its predict function"
)


def load(path: Path) -> Service:
    """A service of an exported file. Raises NoService for a file that is missing, damaged or holds only weights."""
    if not path.is_file():
        raise NoService(f"there is no file {path}")
    if path.suffix == ".onnx":
        from mlcheck.load import onnx_file

        return onnx_file.load(path)
    try:
        if path.suffix == ".pt2":
            return _of_callable(torch.export.load(str(path)).module())
        with warnings.catch_warnings():  # TorchScript is deprecated, and models saved as it are served for years
            warnings.simplefilter("ignore", DeprecationWarning)
            return of_module(torch.jit.load(str(path), map_location=None if torch.cuda.is_available() else "cpu"))  # type: ignore[no-untyped-call]
    except (RuntimeError, zipfile.BadZipFile, pickle.UnpicklingError, ValueError, OSError) as error:
        line = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise NoService(
            f"{path} is no model that can be run by itself ({line[:160]}): export it with torch.export.save "
            "or torch.onnx.export, or name a predict function"
        ) from error


def of_checkpoint(folder: Path, name: str = "") -> Service:
    """A service of a trial that Determined saved: its own `predict`, or its model, by `name` where it has several."""
    if not checkpoint.is_checkpoint(folder):
        raise NoService(f"{folder} is a folder without a state_dict.pth: name that of a Determined checkpoint")
    device = torch.device("cuda") if torch.cuda.is_available() else torch.device("cpu")
    restored = checkpoint.restore(folder, device)
    models = restored.models
    if callable(getattr(restored.trial, "predict", None)) and not name:
        service = of_target(restored.trial, str(folder))
    elif name in models or (not name and len(models) == 1):
        service = of_module(models[name] if name else next(iter(models.values())))
    else:
        asked = f"has no model `{name}`" if name else "has several models"
        raise NoService(f"the trial of {folder} {asked}: name one, as in {folder}:NAME, of {', '.join(models)}")
    service.notices.append(f"restored {restored.source}")
    return service


def of_module(module: nn.Module) -> Service:
    """A service of a module, in evaluation mode and without gradients."""
    module.eval()
    example = getattr(module, "example_input", None)
    if example is None:
        example = getattr(module, "example_input_array", None)
    service = _of_callable(module, next(module.parameters(), torch.empty(0)).device)
    service.example = example
    service.notices.append(_BARE)
    return service


def _of_callable(model: Callable[..., Any], device: torch.device | None = None) -> Service:
    place = device or torch.device("cpu")

    def prepare(query: Any) -> Any:
        return _moved(tensors(query), place)

    def predict(query: Any) -> Any:
        with torch.inference_mode():
            answer = _called(model, query)
        if place.type == "cuda":
            torch.cuda.synchronize()
        return answer

    def predict_batch(queries: list[Any]) -> Sequence[Any]:
        """Queries that are one tensor with a leading batch dimension of 1 are joined along it."""
        sizes = [len(query) for query in queries]
        return list(torch.split(predict(torch.cat(queries)), sizes))

    return Service(predict, prepare, predict_batch)


def _called(model: Callable[..., Any], query: Any) -> Any:
    if isinstance(query, dict):
        return model(**query)
    if isinstance(query, tuple):
        return model(*query)
    return model(query)


def tensors(query: Any) -> Any:
    """JSON as tensors: numbers and nested lists of numbers; {"shape", "dtype", "seed"} is filled at random.

    A dict of such are keyword arguments, {"args": [...]} positional ones. Tensors, text and bytes stay.
    """
    if isinstance(query, dict):
        if "shape" in query and set(query) <= {"shape", "dtype", "seed", "high"}:
            return _drawn(query)
        if set(query) == {"args"}:
            return tuple(tensors(argument) for argument in query["args"])
        if set(query) == {"values", "dtype"}:
            return torch.tensor(query["values"], dtype=_dtype(query["dtype"]))
        return {name: tensors(argument) for name, argument in query.items()}
    if isinstance(query, list | int | float):
        return torch.tensor(query)
    return query


def _drawn(wanted: dict[str, Any]) -> torch.Tensor:
    generator = torch.Generator().manual_seed(int(wanted.get("seed", 0)))
    dtype = _dtype(wanted.get("dtype", "float32"))
    if dtype.is_floating_point:
        return torch.randn(*wanted["shape"], generator=generator).to(dtype)
    return torch.randint(0, int(wanted.get("high", 2)), wanted["shape"], generator=generator).to(dtype)


def _dtype(name: str) -> torch.dtype:
    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype):
        raise NoService(f"a query asks for the dtype {name!r}, which torch does not have")
    return found


def _moved(value: Any, device: torch.device) -> Any:
    if isinstance(value, torch.Tensor):
        return value.to(device)
    if isinstance(value, dict):
        return {name: _moved(entry, device) for name, entry in value.items()}
    if isinstance(value, tuple):
        return tuple(_moved(entry, device) for entry in value)
    return value
