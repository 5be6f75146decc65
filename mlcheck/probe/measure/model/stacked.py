"""Whether dimension 0 of what a model is given counts samples for certain: those that the default collate_fn stacks."""

from __future__ import annotations

from torch.utils.data import DataLoader, default_collate

from mlcheck.probe.measure.model.model_calls import CapturedCall
from mlcheck.probe.measure.tree import leaves
from mlcheck.trial.trial import Trial


def stacks_samples(trial: Trial, call: CapturedCall) -> bool:
    """Only where no other dimension of an input is as long, so that the two cannot have changed places."""
    loader = trial.loaders.get("training")
    if not isinstance(loader, DataLoader) or loader.collate_fn is not default_collate:
        return False
    shapes = [tensor.shape for _, tensor in leaves((call.args, call.kwargs)) if tensor.ndim]
    return loader.batch_size == call.rows and all(call.rows not in shape[1:] for shape in shapes)
