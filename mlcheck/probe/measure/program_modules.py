"""Networks that a program holds beside the models that it trains: a teacher, a fixed extractor of features."""

from __future__ import annotations

from torch import nn

from mlcheck.trial.trial import Trial


def held_modules(trial: Trial) -> dict[str, nn.Module]:
    """Those that are attributes of the program's objects and no part of a model, by the attribute's name."""
    known = {part for model in trial.models.values() for part in model.modules()}
    return {
        name: value
        for owner in trial.objects
        if hasattr(owner, "__dict__") and not isinstance(owner, nn.Module)
        for name, value in vars(owner).items()
        if isinstance(value, nn.Module) and value not in known
    }
