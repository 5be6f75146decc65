"""The parts of a training program, as a function or a test hands them over, and what they must be."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from mlcheck.trial.trial import EntryError


@dataclass(frozen=True)
class Parts:
    """What a function given to `mlcheck probe` may return; all but the model may be left out.

    `model`, `optimizer` and `scheduler` may be several: a dict of them by name, or a list. `loss` is called with
    (output, target); without it the model's own loss is taken, where its output has one. `example_batch` stands for a
    `train_loader` that is not there. `train_step(batch)` and `evaluate_step(batch)` are the user's own loop.
    """

    model: nn.Module | Mapping[str, nn.Module] | Sequence[nn.Module]
    optimizer: Optimizer | Mapping[str, Optimizer] | Sequence[Optimizer] | None = None
    loss: Callable[[Any, Any], Tensor] | None = None
    train_loader: Iterable[Any] | None = None
    validation_loader: Iterable[Any] | None = None
    scheduler: Any = None
    train_step: Callable[[Any], Any] | None = None
    evaluate_step: Callable[[Any], Any] | None = None
    example_batch: Any = None


_NAMES = tuple(part.name for part in fields(Parts))
_TUPLE = ("model", "optimizer", "loss", "train_loader", "validation_loader")
_OTHER_WORDS = {
    "optimizer": ("optim", "opt"),
    "loss": ("criterion", "loss_fn", "loss_function", "objective"),
    "validation_loader": ("val_loader", "valid_loader", "eval_loader", "test_loader", "val_dataloader"),
    "scheduler": ("sched", "lr_scheduler"),
    "train_step": ("training_step",),
    "evaluate_step": ("validation_step", "valid_step", "val_step", "eval_step", "test_step", "evaluate", "validate"),
}
_EXPECTED = (
    "return a dict (or object) of model, optimizer, loss and train_loader, or a tuple of them in this order, "
    "with an optional validation_loader"
)


@dataclass(frozen=True)
class Checked:
    """Parts that fit together, by name; the loaders still to be iterated.

    `unread` are names that stand for no part, each with the part that was probably meant, empty where none is near.
    """

    models: dict[str, nn.Module]
    optimizers: dict[str, Optimizer]
    schedulers: dict[str, Any]
    loss: Callable[[Any, Any], Tensor] | None
    train_loader: Iterable[Any]
    validation_loader: Iterable[Any] | None
    train_step: Callable[[Any], Any] | None
    evaluate_step: Callable[[Any], Any] | None
    unread: Mapping[str, str] = field(default_factory=dict)


def checked(returned: Any, entry: str) -> Checked:
    """Raises EntryError for what is missing, of the wrong kind, or does not fit together."""
    given = _fields(returned, entry)
    if given.get("model") is None:
        raise EntryError(f"what `{entry}` returns has no `model`: {_EXPECTED}")
    _check_callables(given, entry)
    _check_loaders(given, entry)
    parts = Checked(
        models=_named(given["model"], "model", nn.Module, entry),
        optimizers=_optimizers(given.get("optimizer"), entry),
        schedulers=_named(given["scheduler"], "scheduler", object, entry) if given.get("scheduler") else {},
        loss=given.get("loss"),
        train_loader=given["train_loader"],
        validation_loader=given.get("validation_loader"),
        train_step=given.get("train_step"),
        evaluate_step=given.get("evaluate_step"),
        unread=_unread(returned) if isinstance(returned, Mapping) else {},
    )
    if parts.train_step is None and (len(parts.models) > 1 or len(parts.optimizers) > 1):
        raise EntryError(f"`{entry}` returns several models or optimizers: return a `train_step(batch)` that uses them")
    if parts.train_step and not parts.optimizers:
        raise EntryError(f"`{entry}` returns a `train_step` without the `optimizer` it uses: return both")
    return parts


def _check_callables(given: dict[str, Any], entry: str) -> None:
    for name in ("loss", "train_step", "evaluate_step"):
        if given.get(name) is not None and not callable(given[name]):
            raise EntryError(f"`{name}` returned by `{entry}` must be callable, not {type(given[name]).__name__}")


def _check_loaders(given: dict[str, Any], entry: str) -> None:
    """Fills in the loader that an example batch stands for."""
    if given.get("train_loader") is None:
        example = given.get("example_batch")
        if example is None:
            raise EntryError(
                f"what `{entry}` returns has no `train_loader`, and no `example_batch` in its place: "
                "the model is run on one of them"
            )
        given["train_loader"] = [example]
    for name in ("train_loader", "validation_loader"):
        loader = given.get(name)
        if loader is not None and not hasattr(loader, "__iter__"):
            raise EntryError(f"`{name}` returned by `{entry}` cannot be iterated: it is a {type(loader).__name__}")
        if isinstance(loader, Iterator):
            raise EntryError(
                f"`{name}` returned by `{entry}` can be iterated only once: return the loader, not an iterator over it"
            )


def _fields(returned: Any, entry: str) -> dict[str, Any]:
    if isinstance(returned, Mapping):
        return {name: returned[name] for name in _NAMES if name in returned}
    if isinstance(returned, tuple) and not hasattr(returned, "_fields"):
        if len(returned) not in (4, 5):
            raise EntryError(f"`{entry}` returns a tuple of {len(returned)}: {_EXPECTED}")
        return dict(zip(_TUPLE, returned, strict=False))
    if isinstance(returned, nn.Module):
        return {"model": returned}
    given = {name: getattr(returned, name) for name in _NAMES if hasattr(returned, name)}
    if not given:
        raise EntryError(f"`{entry}` returns {article(returned)}: {_EXPECTED}")
    return given


def _optimizers(value: Any, entry: str) -> dict[str, Optimizer]:
    if value is None:
        return {}
    return {name: _inside(one) for name, one in _named(value, "optimizer", Optimizer, entry).items()}


def _inside(optimizer: Optimizer) -> Optimizer:
    """The optimizer that a framework's wrapper (Accelerate's) steps: torch's own hooks hear of that one."""
    inner = getattr(optimizer, "optimizer", None)
    return _inside(inner) if isinstance(inner, Optimizer) else optimizer


def _named(value: Any, name: str, kind: type, entry: str) -> dict[str, Any]:
    several = _several(value, name)
    for key, one in several.items():
        if not isinstance(one, kind):
            raise EntryError(
                f"`{key}` returned by `{entry}` must be a {kind.__module__}.{kind.__qualname__}, not {article(one)}"
            )
    return several


def _several(value: Any, name: str) -> dict[str, Any]:
    """By name; those of a list are numbered."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, list | tuple) and len(value) > 1:
        return {f"{name}{number}": one for number, one in enumerate(value, 1)}
    return {name: value[0] if isinstance(value, list | tuple) and value else value}


def _unread(returned: Mapping[Any, Any]) -> dict[str, str]:
    missing = [name for name in _NAMES if returned.get(name) is None]
    return {str(name): _meant(str(name), value, missing) for name, value in returned.items() if name not in _NAMES}


def _meant(name: str, value: Any, missing: list[str]) -> str:
    """Which of the missing parts a value of this kind under this name probably is."""
    fitting = [part for part in missing if _is_kind(value, part)]
    words = {word: part for part in fitting for word in (part, *_OTHER_WORDS.get(part, ()))}
    near = get_close_matches(name.lower(), words, n=1, cutoff=0.8)
    return words[near[0]] if near else ""


def _is_kind(value: Any, part: str) -> bool:
    if isinstance(value, nn.Module):
        return part == "loss"
    if isinstance(value, Optimizer):
        return part == "optimizer"
    if part.endswith("_loader"):
        return hasattr(value, "__iter__") and not isinstance(value, str | Mapping)
    if part == "scheduler":
        return hasattr(value, "step")
    return callable(value) and part in ("loss", "train_step", "evaluate_step")


def unread_part(name: str, meant: str, entry: str) -> str:
    probably = f"`{meant}` was probably meant" if meant else f"the parts are {', '.join(_NAMES)}"
    return f"`{entry}` returns `{name}`, which is not read: {probably}"


def article(value: Any) -> str:
    return "nothing" if value is None else f"a {type(value).__name__}"
