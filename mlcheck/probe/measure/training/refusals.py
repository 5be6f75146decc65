"""Why a call of torch raised, where the call itself shows it: what an embedding was asked for, who is frozen.

And what to do about it, where that does not follow from the error.
"""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from mlcheck.core.plural import plural
from mlcheck.trial.cpu_shim import advice
from mlcheck.trial.trial import Trial

_GRAPH_GONE = "backward through the graph a second time"
_MOST_NODES = 10_000
_MIXED_DEVICES = "Expected all tensors to be on the same device"
_NO_GRAPH = "does not require grad and does not have a grad_fn"


def why(error: BaseException, trial: Trial) -> str:
    """What ends a sentence that the error goes on; empty where it is not known."""
    if isinstance(error, IndexError):
        return _beyond_the_rows(error)
    if _GRAPH_GONE in str(error):
        return _kept_beyond_its_step(trial)
    return _without_graph(trial) if _NO_GRAPH in str(error) else ""


def remedy(error: BaseException, trial: Trial) -> str:
    """What to do about an error that the machine has a part in; empty for any other."""
    if _MIXED_DEVICES not in str(error) or trial.device.type == "cpu":
        return advice(error)
    return (
        "create a tensor on the device of the inputs (`device=x.device`), and register what a module keeps; "
        "with CUDA_VISIBLE_DEVICES=-1 the program is examined as it runs without a GPU"
    )


def _beyond_the_rows(error: BaseException) -> str:
    """The ids that an embedding has no row for, from the frame of `torch.nn.functional.embedding` that raised."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code is not F.embedding.__code__:
        trace = trace.tb_next
    given: dict[str, Any] = trace.tb_frame.f_locals if trace is not None else {}
    ids, weight = given.get("input"), given.get("weight")
    if not isinstance(ids, Tensor) or not isinstance(weight, Tensor) or not ids.numel():
        return ""
    low, high, most = int(ids.min()), int(ids.max()), len(weight) - 1
    if low >= 0 and high <= most:
        return ""
    return f"an embedding of {most + 1} rows is asked for row {low if low < 0 else high}: ids must be 0 to {most}"


def _kept_beyond_its_step(trial: Trial) -> str:
    """The attribute of a module that holds a graph which the first backward took apart."""
    for model in trial.models.values():
        registered = {id(parameter) for parameter in model.parameters()}
        for path, module in model.named_modules():
            for attribute, value in vars(module).items():
                if not isinstance(value, Tensor) or value.grad_fn is None:
                    continue
                name = f"{path}.{attribute}" if path else attribute
                if any(id(leaf) not in registered for leaf in _parameters_behind(value)):
                    return (
                        f"`{name}` is no parameter but what an operation on one gave, once: nothing trains it, and its "
                        "graph is gone after the first backward"
                    )
                return f"`{name}` is kept from one step to the next with its graph, and never detached"
    return ""


def _parameters_behind(value: Tensor) -> list[Tensor]:
    """The leaves of its graph that are an `nn.Parameter`."""
    found: list[Tensor] = []
    waiting: list[Any] = [value.grad_fn]
    seen: set[Any] = set()
    while waiting and len(seen) < _MOST_NODES:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if isinstance(leaf := getattr(node, "variable", None), nn.Parameter):
            found.append(leaf)
        waiting += [inner for inner, _ in node.next_functions]
    return found


def _without_graph(trial: Trial) -> str:
    """Why a loss has nothing to go backward through."""
    parameters = [parameter for model in trial.models.values() for parameter in model.parameters()]
    wanting = sum(parameter.requires_grad for parameter in parameters)
    if not wanting:
        return f"none of {plural(len(parameters), 'parameter')} is trained, all are frozen (requires_grad=False)"
    if frozen := _frozen_by_now(trial):
        name, count = frozen[0]
        return (
            f"all {plural(count, 'parameter')} of `{name}` are frozen by now (requires_grad=False), though an "
            "optimizer is to train them, and so the loss has nothing to go back to"
        )
    told = f"{wanting} of {plural(len(parameters), 'parameter')} want a gradient"
    return f"the loss is cut off from the model (detached, or computed under no_grad), while {told}"


def _frozen_by_now(trial: Trial) -> list[tuple[str, int]]:
    """The outermost modules none of whose parameters wants a gradient, and all of which optimizers hold."""
    groups = [group for optimizer in trial.optimizers.values() for group in optimizer.param_groups]
    held = {id(parameter) for group in groups for parameter in group["params"]}
    found: list[tuple[str, nn.Module]] = []
    for key, model in trial.models.items():
        for path, module in model.named_modules():
            name = ".".join(part for part in (key if len(trial.models) > 1 else "", path) if part)
            mine = list(module.parameters())
            inside = any(module in set(other.modules()) for _, other in found)
            if name and mine and not inside and all(id(p) in held and not p.requires_grad for p in mine):
                found.append((name, module))
    return [(name, len(list(module.parameters()))) for name, module in found]
