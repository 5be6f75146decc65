"""The program started in two processes of their own: whether both begin with the same weights and data.

Python draws a new key for `hash()` of text in every process, and with it the order of sets; within one process all
starts agree. Only programs that hash or make sets are asked. Tensors are compared by a few random projections, so
that rounding makes no difference.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from mlcheck.core.finding import Location
from mlcheck.probe.measure.drive import Clock, inconclusive
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.names import part_of
from mlcheck.probe.measure.program_text import program_text
from mlcheck.probe.measure.tree import leaves
from mlcheck.trial.channel import SCRATCH, connect
from mlcheck.trial.child import child_command
from mlcheck.trial.find import EntryOptions, load_trial
from mlcheck.trial.generators import seed_all
from mlcheck.trial.isolate import End, run_child
from mlcheck.trial.trackers import Trackers
from mlcheck.trial.trial import Source, Trial

_SEED = 8
_BATCHES = 3
_PROJECTIONS = 4
_SHARE = 0.4
_ROUNDING = 1e-3
_KEY = "PYTHONHASHSEED"
_HASHED = re.compile(r"(?<![\w.])(?:hash|set|frozenset)\(|\{[^{}:]*\bfor\b")

Start = list[tuple[str, list[float]]]


@dataclass(frozen=True, slots=True)
class OtherProcess:
    """`parting` is what differs first between two processes with one seed, as in `0 of batch 1`; empty if nothing.

    `keyed` says that it is hash() of text or the order of a set: with one key two processes agree.
    """

    reach: ClassVar[Reach] = "data"
    order: ClassVar[int] = 90

    parting: str
    keyed: bool
    place: Location

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:
        source = trial.source
        if source is None or source.by_trainer:
            raise NotMeasured("the program cannot be begun in another process")
        if not _HASHED.search(program_text(trial)):
            raise NotMeasured("the program neither hashes nor makes sets")
        if os.environ.get(_KEY, "random") != "random":
            raise NotMeasured(f"{_KEY} is set: every process hashes alike")
        clock = Clock(0.9 * seconds)  # most of a start is imports, which take long on a busy machine
        one, other = (_elsewhere(source, key, min(_SHARE * seconds, clock.left())) for key in ("1", "2"))
        parting = _parting(one, other)
        keyed = bool(parting) and not _parting(one, _elsewhere(source, "1", clock.left()))
        return cls(parting, keyed, Location(*trial.entry))


def main(text: str) -> None:
    """In the other process: tell what the program begins with."""
    channel, job = connect(), json.loads(text)
    seed_all(job["options"]["seed"] or 0)
    Trackers(os.environ[SCRATCH]).install()
    trial = load_trial(job["entry"], EntryOptions.read(job["options"]))
    channel.send({"start": _start(trial)})
    channel.finish()


def _elsewhere(source: Source, key: str, seconds: float) -> Start:
    """The start in a new process, with this key for hash(). Raises NotMeasured where it does not come so far."""
    heard = list[dict[str, Any]]()
    command = child_command(__name__, json.dumps({"entry": source.entry, "options": source.options.plain()}))
    end = run_child(command, time_limit_s=seconds, cwd=source.folder, on_message=heard.append, environment={_KEY: key})
    if end.how is not End.FINISHED or not heard:
        raise inconclusive(f"the program was not started in another process: {end}")
    return [(str(name), list(map(float, values))) for name, values in heard[-1]["start"]]


def _start(trial: Trial) -> Start:
    """The initial weights and the first batches, each tensor by its size and its projections."""
    seed_all(_SEED)
    found = [
        (f"`{key}` of the initial weights", _sketch(value))
        for model in trial.models.values()
        for key, value in model.state_dict().items()
        if isinstance(value, Tensor)
    ]
    for index, batch in enumerate(islice(trial.train_batches(), _BATCHES), 1):
        found += [(f"`{part_of('batch', name)}` of batch {index}", _sketch(value)) for name, value in leaves(batch)]
    return found


def _sketch(tensor: Tensor) -> list[float]:
    """The number of elements, their norm, and their products with a few random vectors."""
    values = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    flat = values.detach().cpu().to_dense().double().flatten().nan_to_num(0.0, 0.0, 0.0)
    generator = torch.Generator().manual_seed(len(flat))
    vectors = torch.randn(_PROJECTIONS, len(flat), generator=generator, dtype=torch.float64)
    return [float(len(flat)), float(flat.norm()), *(vectors @ flat).tolist()]


def _parting(one: Start, other: Start) -> str:
    for (name, mine), (_, theirs) in zip(one, other):
        scale = max(mine[1], theirs[1])
        if mine[0] != theirs[0] or any(abs(a - b) > _ROUNDING * scale for a, b in zip(mine[1:], theirs[1:])):
            return name
    return "" if len(one) == len(other) else "the number of tensors"
