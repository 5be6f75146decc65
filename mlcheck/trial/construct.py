"""Calls the user's own functions and constructors with the hyperparameters of the same names."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from mlcheck.trial.config import Hyperparameters
from mlcheck.trial.trial import EntryError


def arguments_of(function: Callable[..., Any], title: str, values: Hyperparameters) -> dict[str, Any]:
    """By name; all of them for a function that takes any. Raises EntryError for one that is required and not there."""
    parameters = inspect.signature(function).parameters.values()
    for parameter in parameters:
        needed = parameter.default is parameter.empty
        if needed and parameter.kind is parameter.POSITIONAL_ONLY:
            raise EntryError(f"`{title}` requires `{parameter.name}` by position: it is called with arguments by name")
        needed = needed and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        if needed and parameter.name not in values:
            raise EntryError(f"`{title}` requires `{parameter.name}`{values.how_to_add(parameter.name)}")
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return dict(values)
    return {parameter.name: values[parameter.name] for parameter in parameters if parameter.name in values}
