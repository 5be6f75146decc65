"""Makes a `Trial` of a class derived from `determined.pytorch.PyTorchTrial`."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import torch

from mlcheck.trial.config import Hyperparameters
from mlcheck.trial.determined.api import PyTorchTrial
from mlcheck.trial.determined.context import PyTorchTrialContext
from mlcheck.trial.determined.harness import Harness
from mlcheck.trial.determined.settings import Record, Settings
from mlcheck.trial.generators import seed_all
from mlcheck.trial.trial import EntryError, Trial

_REMOVED = ("build_model", "optimizer", "create_lr_scheduler")
_REQUIRED = ("train_batch", "build_training_data_loader", "build_validation_data_loader")


def settings(values: Hyperparameters, config: dict[str, Any] | None, seed: int, device: torch.device) -> Settings:
    """What the experiment config fixes. Raises EntryError for a setting that is not a whole number."""
    given = config or {}
    resources, optimizations = _section(given, "resources"), _section(given, "optimizations")
    return Settings(
        hyperparameters=values,
        config=config,
        seed=seed,
        device=device,
        slots=max(_whole(resources, "slots_per_trial", 1), 1),
        aggregation_frequency=max(_whole(optimizations, "aggregation_frequency", 1), 1),
        average_aggregated_gradients=bool(optimizations.get("average_aggregated_gradients", True)),
        scheduling_unit=max(_whole(given, "scheduling_unit", 100), 1),
    )


def build(kind: type[PyTorchTrial], entry: str, place: tuple[str, int], experiment: Settings) -> Trial:
    """Construct the user's trial as the harness would and wrap it. Raises EntryError for a class it would refuse."""
    instance, context, record = construct(kind, experiment)
    harness = Harness(instance, context, record, experiment.scheduling_unit)
    models = names(instance, context.models, "model", context._originals)
    optimizers = names(instance, context.optimizers, "optimizer", {})
    schedulers = names(instance, [one._scheduler for one in context.lr_schedulers], "scheduler", {})
    for name, optimizer in optimizers.items():
        record.names[id(optimizer)] = name
        optimizer.register_step_pre_hook(lambda stepped, _args, _kwargs: record.note("step", stepped))
    record.names.update({id(scheduler): name for name, scheduler in schedulers.items()})
    return Trial(
        name=kind.__name__,
        models=models,
        optimizers=optimizers,
        schedulers=schedulers,
        train_step=harness.train_step,
        train_batches=harness.train_batches,
        evaluate_step=harness.evaluate_step,
        evaluate_split=None if harness.evaluates_batches else harness.evaluate_split,
        validation_batches=harness.validation_batches,
        end_validation=harness.end_validation if context._reducers.objects else None,
        owns_loop=True,
        entry=place,
        device=context.device,
        notices=_notices(entry, experiment, harness),
        record=record.events,
        objects=(
            instance,
            *context._originals.values(),
            *harness.callbacks.values(),
            *harness.loaders,
            *context._reducers.objects,
            context._scaler,
        ),
        loaders=dict(zip(("training", "validation"), harness.loaders, strict=True)),
        counts_batches=True,
        progress=harness,
        saved=_saved(models, optimizers, schedulers, harness.callbacks, context=context),
        again=lambda rank, world: _again(kind, entry, place, replace(experiment, rank=rank, world=world)),
        slots=experiment.slots,
        searched_metric=_searched_metric(experiment.config or {}),
        searches_smallest=_section(experiment.config or {}, "searcher").get("smaller_is_better") is not False,
    )


def _searched_metric(config: Mapping[str, Any]) -> str:
    """`searcher.metric`; empty where it is left out."""
    metric = _section(config, "searcher").get("metric")
    return metric if isinstance(metric, str) else ""


def construct(kind: type[PyTorchTrial], experiment: Settings) -> tuple[PyTorchTrial, PyTorchTrialContext, Record]:
    """The user's trial with the context it wraps its parts with. Raises EntryError for a class of the wrong shape."""
    _check_shape(kind)
    record = Record()
    context = PyTorchTrialContext(experiment, record)
    return kind(context, **_arguments(kind, experiment.hyperparameters)), context, record


def _again(kind: type[PyTorchTrial], entry: str, place: tuple[str, int], experiment: Settings) -> Trial:
    """Construct the trial anew. Determined seeds all ranks alike, and a restart as the start."""
    seed_all(experiment.seed)
    return build(kind, entry, place, experiment)


def _saved(*groups: Mapping[str, Any], context: PyTorchTrialContext) -> dict[str, Any]:
    """What Determined's checkpoint holds, beside the state of the random generators."""
    parts = {name: part for group in groups for name, part in group.items()}
    return {**parts, "scaler": context._scaler} if context._scaler is not None else parts


def _check_shape(kind: type[PyTorchTrial]) -> None:
    old = [name for name in _REMOVED if callable(getattr(kind, name, None))]
    if "build_model" in old:
        raise EntryError(
            f"the trial {kind.__name__} is written for Determined before 0.13 ({', '.join(old)}): create and wrap "
            "models and optimizers in __init__(self, context)"
        )
    missing = [name for name in _REQUIRED if getattr(kind, name) is getattr(PyTorchTrial, name)]
    if kind.__init__ is PyTorchTrial.__init__:
        missing.insert(0, "__init__")
    if missing:
        raise EntryError(f"the trial {kind.__name__} does not define {', '.join(missing)}: Determined requires it")


def _arguments(kind: type[PyTorchTrial], values: Hyperparameters) -> dict[str, Any]:
    """The constructor's arguments beside the context: `hparams`, where it is asked for (since 0.26)."""
    accepted = list(inspect.signature(kind).parameters.values())
    if not accepted:
        raise EntryError(f"{kind.__name__}.__init__ must take the context: def __init__(self, context)")
    beside = {parameter.name: parameter for parameter in accepted[1:]}
    unknown = [
        name
        for name, parameter in beside.items()
        if name != "hparams"
        and parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]
    if unknown:
        raise EntryError(
            f"{kind.__name__}.__init__ requires `{unknown[0]}`: a trial is constructed with the context, "
            "and with hparams where it asks for them"
        )
    return {"hparams": values} if "hparams" in beside else {}


def names(instance: object, wrapped: Iterable[Any], fallback: str, originals: Mapping[int, Any]) -> dict[str, Any]:
    """Each wrapped object under the attribute of the trial that holds it (`model`, `nets.0`, `heads.left`)."""
    held: dict[int, str] = {}
    for name, value in vars(instance).items():
        held.setdefault(id(value), name)
        inner = (
            value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list | tuple) else ()
        )
        for key, item in inner:
            held.setdefault(id(item), f"{name}.{key}")
    named: dict[str, Any] = {}
    for number, one in enumerate(wrapped):
        name = held.get(id(one)) or held.get(id(originals.get(id(one)))) or f"{fallback}{number}"
        named[name if name not in named else f"{fallback}{number}"] = one
    return named


def _notices(entry: str, experiment: Settings, harness: Harness) -> list[str]:
    notices = []
    if experiment.slots > 1:
        notices.append(
            f"slots_per_trial is {experiment.slots}: {entry} is run as one slot of them, "
            "with the batches of one slot and no communication"
        )
    if not harness.evaluates_batches:
        notices.append("evaluate_full_dataset() is called with one batch at a time")
    return notices


def _section(config: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    section = config.get(name)
    if section is not None and not isinstance(section, Mapping):
        raise EntryError(f"`{name}` in the experiment config must be a mapping, not {section!r}")
    return section or {}


def _whole(section: Mapping[str, Any], name: str, default: int) -> int:
    value = section.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int):
        raise EntryError(f"`{name}` in the experiment config must be a whole number, not {value!r}")
    return value
