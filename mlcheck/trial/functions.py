"""Makes a `Trial` of a plain function that builds model, optimizer, loss and loaders.

The function is called once, without positional arguments; hyperparameters of the config are passed to the
arguments of the same name. It returns

- a tuple `(model, optimizer, loss, train_loader)` or `(model, optimizer, loss, train_loader, validation_loader)`, or
- a dict, or an object with attributes (dataclass, namedtuple, module), of `model` and, as far as there are any,
  `optimizer`, `loss`, `train_loader` or `example_batch`, `validation_loader`, `scheduler`, `train_step`,
  `evaluate_step`. `mlcheck.trial.parts.Parts` is such an object with types.

`model`, `optimizer` and `scheduler` may be dicts of several by name. `loss` is called with (output, target).

A batch is a sequence whose last item is the target and whose others are the model's inputs, or a dict: its
`target`, `targets`, `label`, `labels` or `y` is the target, and the rest goes to the model by name where
`forward` has those names, else as one dict. For any other batch return the two steps yourself:

- `train_step(batch)` does forward, zero_grad, backward and step as the user's loop does, and returns a dict of
  metrics, a loss or nothing; the model is in train mode before the first. With it, `loss` may be left out.
- `evaluate_step(batch)` returns a dict of metrics, a loss or nothing. The modes and grad mode are the user's own.

Without `train_step` mlcheck supplies the loop, without `optimizer` Adam at 1e-3, and nothing is said about the
user's. Without `loss` the model gets the whole batch and its own loss is taken: the `loss` of its output, or an
output of one number. Where it has none either, its outputs are pulled at in a random direction, and only what
needs no loss is judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import FunctionType
from typing import Any

import torch
from torch import Tensor, nn

from mlcheck.trial.config import Hyperparameters
from mlcheck.trial.construct import arguments_of
from mlcheck.trial.determined.data import to_device
from mlcheck.trial.forward import forward, loss_in, pull, whole
from mlcheck.trial.parts import Checked, article, checked, unread_part
from mlcheck.trial.ranks.over import Dealt, is_wrapped, over_ranks
from mlcheck.trial.trial import EntryError, EntryOptions, Trial

_PLAIN = EntryOptions()
_RATE = 1e-3


def build(
    function: FunctionType,
    entry: str,
    place: tuple[str, int],
    values: Hyperparameters,
    device: torch.device,
    options: EntryOptions = _PLAIN,
) -> Trial:
    """Call the user's function and wrap what it returns. Raises EntryError where either does not fit."""
    returned = function(**arguments_of(function, entry, values))
    return assemble(returned, function.__name__, entry, place, device, options)


def assemble(
    returned: Any,
    name: str,
    entry: str,
    place: tuple[str, int],
    device: torch.device,
    options: EntryOptions = _PLAIN,
) -> Trial:
    """A trial of the parts, of whatever form they are. Raises EntryError where they do not fit together."""
    parts = checked(returned, entry)
    for module in (*parts.models.values(), parts.loss):
        if isinstance(module, nn.Module):  # a loss has tensors too: class weights, centres
            module.to(device, options.dtype)
    supplied = set() if parts.optimizers else {"optimizer"}
    if not parts.optimizers:
        (model,) = parts.models.values()
        parts.optimizers["optimizer"] = torch.optim.Adam(_trained(model, entry), lr=_RATE)
    if options.communicates and parts.train_step is None and not any(map(is_wrapped, parts.models.values())):
        models = {key: over_ranks(model) for key, model in parts.models.items()}
        parts = replace(parts, models=models, train_loader=Dealt(parts.train_loader, options.rank, options.world))
    steps = _Steps(parts, device)
    if not (parts.loss or parts.train_step or steps.has_own_loss()):
        supplied.add("loss")
    known = "loss" not in supplied
    return Trial(
        name=name,
        models=parts.models,
        optimizers=parts.optimizers,
        schedulers=parts.schedulers,
        train_step=steps.train,
        train_batches=lambda: steps.batches(parts.train_loader),
        evaluate_step=steps.evaluate if parts.evaluate_step or (known and not parts.train_step) or parts.loss else None,
        validation_batches=(lambda: steps.batches(parts.validation_loader))
        if parts.validation_loader is not None
        else None,
        loss=steps.loss if known and len(parts.models) == 1 and (parts.loss or not parts.train_step) else None,
        owns_loop=parts.train_step is not None,
        entry=place,
        device=device,
        notices=[*_notices(entry, supplied), *(unread_part(key, meant, entry) for key, meant in parts.unread.items())],
        objects=(returned, parts.train_loader, parts.validation_loader, parts.train_step, parts.evaluate_step),
        loaders={"training": parts.train_loader, "validation": parts.validation_loader},
        progress=steps,
        supplied=frozenset(supplied),
    )


def _trained(model: nn.Module, entry: str) -> list[nn.Parameter]:
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not parameters:
        raise EntryError(f"the model of `{entry}` has no parameter to train")
    return parameters


def _notices(entry: str, supplied: set[str]) -> list[str]:
    if not supplied:
        return []
    kinds = " and ".join(f"no {name}" for name in sorted(supplied))
    return [f"`{entry}` gives {kinds}: what is judged by it is left out"]


class _Steps:
    """Training and evaluation of one batch, by the user's own steps or by the plainest loop there is."""

    def __init__(self, parts: Checked, device: torch.device) -> None:
        self._parts = parts
        self._device = device
        self._training = False
        self._taught = [model for model in parts.models.values() if not _is_asked_only(model, parts)]

    def batches(self, loader: Any) -> Iterator[Any]:
        for batch in loader:
            yield to_device(batch, self._device)

    def has_own_loss(self) -> bool:
        """Whether the model computes a loss, seen on one batch. An error is left to the rehearsal, which tells it."""
        (model,) = self._parts.models.values()
        modes = {module: module.training for module in model.modules()}
        with torch.random.fork_rng(), torch.no_grad():
            try:
                model.eval()
                batch = next(iter(self.batches(self._parts.train_loader)), None)
                return batch is not None and loss_in(whole(model, batch)) is not None
            except Exception:
                return False
            finally:
                for module, training in modes.items():
                    module.training = training

    def loss(self, batch: Any) -> Tensor:
        (model,) = self._parts.models.values()
        if self._parts.loss is not None:
            output, target = forward(model, batch)
            return self._parts.loss(output, target)
        output = whole(model, batch)
        own = loss_in(output)
        return pull(output) if own is None else own

    def train(self, batch: Any, _index: int) -> Mapping[str, Any]:
        own = self._parts.train_step
        if own is not None:
            self._mode(True)
            return _metrics(own(batch), "train_step")
        (optimizer,) = self._parts.optimizers.values()
        for model in self._taught:
            model.train()
        optimizer.zero_grad()
        loss = self.loss(batch)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        return {"loss": loss.detach()}

    def evaluate(self, batch: Any) -> Mapping[str, Any]:
        own = self._parts.evaluate_step
        if own is not None:
            self._training = False
            return _metrics(own(batch), "evaluate_step")
        for model in self._parts.models.values():
            model.eval()
        self._training = False
        with torch.no_grad():
            return {"loss": self.loss(batch)}

    def snapshot(self) -> object:
        return self._training

    def restore(self, state: object) -> None:
        self._training = bool(state)

    def close(self) -> None:
        """Nothing is open between steps."""

    def _mode(self, training: bool) -> None:
        """Train mode before the first of a row of the user's own steps, never between them.

        A teacher that no optimizer trains keeps the evaluation mode it was given in.
        """
        if not self._training:
            for model in self._taught:
                model.train(training)
        self._training = training


def _is_asked_only(model: nn.Module, parts: Checked) -> bool:
    held = {id(p) for own in parts.optimizers.values() for group in own.param_groups for p in group["params"]}
    return not model.training and not any(id(p) in held and p.requires_grad for p in model.parameters())


def _metrics(returned: Any, step: str) -> Mapping[str, Any]:
    if returned is None:
        return {}
    if isinstance(returned, Mapping):
        return returned
    if isinstance(returned, Tensor | float | int):
        return {"loss": returned}
    raise EntryError(f"{step}() must return a dict of metrics, a loss or nothing, not {article(returned)}")
