"""From `module:predict`, a class, a module, an exported file or an address to something that answers queries."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from mlcheck.core.mistake import Mistake

FILES = (".pt", ".pth", ".ts", ".pt2", ".onnx")
_ACCEPTED = (
    "it must be a function of one query, a class with predict(query) and optionally load() and predict_batch(queries), "
    "or an nn.Module"
)
_PLAIN = "that runs one query to its end, or give the running service by --url"


class NoService(Mistake):
    """The entry point names nothing that answers queries: one sentence that says what to do."""


@dataclass(slots=True)
class Service:
    """What answers. `prepare` turns a query's JSON into what `predict` takes, before any clock starts.

    `predict_batch` takes a list of prepared queries, where the entry offers that. `example` is an input that
    came with the model.
    """

    predict: Callable[[Any], Any]
    prepare: Callable[[Any], Any]
    predict_batch: Callable[[list[Any]], Sequence[Any]] | None = None
    notices: list[str] = field(default_factory=list)
    example: Any = None


def load_service(entry: str) -> Service:
    """Import and load what `entry` names. Raises NoService for misuse; the user's own errors pass through."""
    if entry.startswith(("http://", "https://")):
        from mlcheck.load import http_service

        return http_service.of_url(entry)
    path = Path(entry)
    if path.suffix in FILES:
        _need_torch(entry)
        from mlcheck.load import exported

        return exported.load(path)
    folder, _, name = entry.rpartition(":") if not path.is_dir() else (entry, "", "")
    if folder and Path(folder).is_dir():
        _need_torch(entry)
        from mlcheck.load import exported

        return exported.of_checkpoint(Path(folder), name)
    return of_target(_find(entry), entry)


def _need_torch(entry: str) -> None:
    """A function may do without torch; a model without serving code may not."""
    if importlib.util.find_spec("torch") is None:
        raise NoService(f"to serve {entry}, mlcheck needs torch: pip install 'mlcheck[probe,load]'")


def of_target(target: Any, entry: str) -> Service:
    """A service of a function, a class, an object with `predict`, or an nn.Module or its class."""
    if _is_module(target):
        from mlcheck.load import exported

        return exported.of_module(target() if isinstance(target, type) else target)
    if inspect.iscoroutinefunction(target):
        raise NoService(f"`{entry}` is async: it must be a plain function {_PLAIN}")
    if inspect.isclass(target):
        return _of_object(target(), entry)
    if inspect.isroutine(target):
        return _of_function(target, entry)
    return _of_object(target, entry)


def _of_function(function: Callable[..., Any], entry: str) -> Service:
    required = [
        parameter
        for parameter in inspect.signature(function).parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]
    if not required and not inspect.signature(function).parameters:
        made = function()  # a factory: build_model()
        if _is_module(made):
            from mlcheck.load import exported

            return exported.of_module(made)
        return _of_object(made, entry)
    if len(required) > 1:
        names = ", ".join(parameter.name for parameter in required)
        raise NoService(
            f"`{entry}` needs {names}: a predict function takes one query, for example a dict with all of them"
        )
    return Service(_synchronised(function), _as_it_is)


def _of_object(target: Any, entry: str) -> Service:
    predict = getattr(target, "predict", None)
    if not callable(predict):
        kind = "a module" if isinstance(target, ModuleType) else f"an object of type {type(target).__name__}"
        raise NoService(f"`{entry}` is {kind} without a method `predict`: {_ACCEPTED}")
    if inspect.iscoroutinefunction(predict):
        raise NoService(f"`{entry}`.predict is async: it must be a plain method {_PLAIN}")
    load = getattr(target, "load", None)
    if callable(load):
        load()
    batch = getattr(target, "predict_batch", None)
    return Service(_synchronised(predict), _as_it_is, batch if callable(batch) else None)


def _synchronised(predict: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """`predict`, ended by the GPU's work being done where CUDA is in use: kernels are only queued by then."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return predict
    synchronize = torch.cuda.synchronize

    def timed(query: Any) -> Any:
        answer = predict(query)
        synchronize()
        return answer

    return timed


def _as_it_is(query: Any) -> Any:
    return query


def _is_module(target: Any) -> bool:
    torch = sys.modules.get("torch")
    if torch is None:
        return False
    return isinstance(target, torch.nn.Module) or (inspect.isclass(target) and issubclass(target, torch.nn.Module))


def _find(entry: str) -> Any:
    where, separator, name = entry.rpartition(":")
    if not separator or not where or not name:
        raise NoService(
            f"`{entry}` names no service: write `module:predict`, `path/to/file.py:Class`, a file {', '.join(FILES)}, "
            "the folder of a Determined checkpoint, or --url with the address of a running service"
        )
    module = _run_file(Path(where)) if where.endswith(".py") or os.sep in where else _import(where)
    target: Any = module
    for part in name.split("."):
        if not hasattr(target, part):
            own = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
            raise NoService(f"there is no `{name}` in {module.__file__ or where}{_near(name, own)}")
        target = getattr(target, part)
    return target


def _run_file(path: Path) -> ModuleType:
    if not path.is_file():
        folder = path.parent if path.parent.is_dir() else Path()
        raise NoService(f"there is no file {path}{_near(path.name, [other.name for other in folder.glob('*.py')])}")
    sys.path.insert(0, str(path.resolve().parent))
    name = path.stem if path.stem not in sys.stdlib_module_names else f"{path.stem}_entry"
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _import(name: str) -> ModuleType:
    sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            files = [path.stem for path in Path.cwd().glob("*.py")]
            raise NoService(f"there is no module `{name}` in {Path.cwd()}{_near(name, files)}") from None
        raise


def _near(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=2, cutoff=0.5)
    return f"; did you mean {' or '.join(f'`{one}`' for one in near)}?" if near else ""
