"""A training program ready to be driven one step at a time, whatever framework it was written for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from mlcheck.core.mistake import Mistake
from mlcheck.core.source_text import is_code
from mlcheck.trial.planned import Planned
from mlcheck.trial.resumption import Resumption


class Progress(Protocol):
    """What an adapter itself keeps between steps: counters, a validation under way, callbacks to be closed."""

    def snapshot(self) -> object: ...

    def restore(self, state: Any) -> None: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class EntryOptions:
    """What goes with the entry point. `hparams` sets hyperparameters by (dotted) name, over the config's.

    `seed` defaults to the config's experiment seed, then 0; `device` to the GPU where there is one.
    `prep` names a function (`module:function` or `file.py:function`) called before the entry is imported.
    `arguments` are those of a script's own command line. `world` is on how many ranks it is to be run, 0 for as the
    program asks; with `communicates` this process is rank `rank` of them, and models are wrapped as on several
    devices; `dtype` is what they compute in. With `cpu_shim` what is asked of CUDA goes to the CPU. `epochs` is how
    long the run is planned to be, where it is known better than from the config. `grid` is what a runner starts a
    script with: the words of its command and the values that fill them. `memory_limit` in bytes is for all processes
    together, 0 for what the machine has.
    """

    config: Path | None = None
    hparams: Mapping[str, Any] = field(default_factory=dict)
    seed: int | None = None
    device: str | None = None
    prep: str | None = None
    arguments: tuple[str, ...] = ()
    rank: int = 0
    world: int = 0
    communicates: bool = False
    dtype: torch.dtype | None = None
    cpu_shim: bool = False
    epochs: int = 0
    grid: Mapping[str, Any] | None = None
    memory_limit: int = 0

    def plain(self) -> dict[str, Any]:
        """For JSON, from which `read` has it; all but the dtype."""
        named = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "dtype"}
        return {**named, "config": str(self.config or ""), "hparams": dict(self.hparams)}

    @staticmethod
    def read(plain: Mapping[str, Any]) -> EntryOptions:
        config = Path(plain["config"]) if plain["config"] else None
        return EntryOptions(**{**plain, "config": config, "arguments": tuple(plain["arguments"])})


def is_program(entry: str) -> bool:
    """Whether an entry point is run as it is and names nothing within: `train.py`, `train.ipynb`, `package.train`."""
    return is_code(entry) or ":" not in entry


@dataclass(frozen=True)
class Source:
    """How another process constructs the same trial: from which folder, and with which options.

    `by_trainer`: a trainer of Lightning's or Transformers' runs it, which starts its own ranks.
    """

    entry: str
    options: EntryOptions
    folder: str
    by_trainer: bool = False

    @property
    def is_program(self) -> bool:
        return is_program(self.entry)

    @property
    def runs_by_itself(self) -> bool:
        return self.is_program or self.by_trainer


@dataclass
class Trial:
    """The user's own model, data and loop.

    `train_step(batch, index)` runs the user's step on one batch, in train mode, with backward and
    optimizer step inside, and returns its metrics. `evaluate_step(batch)` runs the user's evaluation of
    one batch as the framework would (modes and grad mode set as the framework sets them, nothing more).
    `evaluate_split(batches)` does so for several at once, of a program that evaluates a whole split by itself.
    `train_batches()` and `validation_batches()` start a fresh pass and yield batches on `device`, as
    `train_step` takes them. `end_evaluation()` ends a script's own pass over its validation data, so that it goes on
    to what it prints; False where it did not come back to its training by that. `end_validation()` ends a validation
    whose metrics the program's own reducers make, and gives what they made of all batches of the last one; None
    without reducers.
    `loss(batch)` is the differentiable
    training loss of a batch without backward, where the adapter knows one; measures that need it skip without.
    `owns_loop` is False where mlcheck supplied the loop, so that nothing can be said about the user's.
    `models` and `optimizers` are keyed by the name the user gave them (`model`, `opt_g`).
    `entry` is the file and line of the class or function; `record` holds what the adapter saw happen
    (calls of the framework's API in order), for checks that judge the protocol.
    `objects` are the user's own objects that live across steps (the trial instance, its callbacks): the
    sandbox looks in them for state beside the models and optimizers. `loaders` are the `training` and `validation`
    loader behind the two passes, where the adapter knows them. `repeats_batches` is False where the program
    draws its batches itself, so that none can be given to it twice; `draws_batches` is True where it draws them
    within its steps, alike or not, so that no batch is seen before it is used. `renews_data` is True where its second
    epoch was seen to go over other samples than its first. `counts_batches` is True where the
    index given to `train_step` says which batch of which epoch it is, so that the last one ends its epoch. `progress`
    is the adapter's own.
    `saved` are the parts whose state_dict the framework writes to a checkpoint; None where that is the user's affair.
    `again(rank, world)` constructs the program anew, as a restart does, or as one rank of several, which cannot talk to
    the others; None where the adapter cannot. `resume()` starts a script again where its first run has left its files,
    up to its first training step; it gives None where that left none. `slots` is how many processes the program is
    meant for; `spawns` how many a script starts by itself with `torch.multiprocessing.spawn`, None where it does not.
    `searched_metric` is the one that the experiment's search goes by, empty where none is named; `searches_smallest`
    says that its smallest value is the best.
    `supplied` names what the user gave none of and mlcheck put in its place, `loss` or `optimizer`: nothing is said
    about these.
    `source` is how another process comes by the same trial. `planned` is how long the run is to be.
    """

    name: str
    models: Mapping[str, nn.Module]
    optimizers: Mapping[str, Optimizer]
    train_step: Callable[[Any, int], Mapping[str, Any]]
    train_batches: Callable[[], Iterator[Any]]
    owns_loop: bool
    entry: tuple[str, int]
    evaluate_step: Callable[[Any], Mapping[str, Any]] | None = None
    validation_batches: Callable[[], Iterator[Any]] | None = None
    evaluate_split: Callable[[list[Any]], Mapping[str, Any]] | None = None
    end_evaluation: Callable[[], bool] | None = None
    end_validation: Callable[[], Mapping[str, Any]] | None = None
    loss: Callable[[Any], torch.Tensor] | None = None
    schedulers: Mapping[str, LRScheduler] = field(default_factory=dict)
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    notices: list[str] = field(default_factory=list)
    record: list[tuple[str, str]] = field(default_factory=list)
    objects: Sequence[Any] = ()
    loaders: Mapping[str, Any] = field(default_factory=dict)
    repeats_batches: bool = True
    draws_batches: bool = False
    renews_data: bool = False
    counts_batches: bool = False
    progress: Progress | None = None
    saved: Mapping[str, Any] | None = None
    again: Callable[[int, int], Trial] | None = None
    resume: Callable[[], Resumption | None] | None = None
    slots: int = 1
    searched_metric: str = ""
    searches_smallest: bool = True
    spawns: int | None = None
    supplied: frozenset[str] = frozenset()
    source: Source | None = None
    planned: Planned | None = None


class EntryError(Mistake):
    """The entry point cannot become a trial: one sentence that says what, where and what to do."""


class Declined(EntryError):
    """A program ended by itself before it trained, and said that something was wrong: with its arguments, or a code."""

    def __init__(self, told: str, remedy: str) -> None:
        super().__init__(f"{told}{remedy}")
        self.told = told


class RejectedConfig(Exception):
    """The trial itself refused this configuration (Determined's InvalidHP): neither a crash nor a pass."""


class NotReached(BaseException):
    """A program that runs by itself did not come to the step asked for: nothing can be said about it.

    No Exception, as it is no error of the program's, which some measures catch and report. `used_up` says that the
    program's steps were, by what was measured before: a new run has more of them. `trains_no_more` says that the
    program evaluates when its training is over: no step ever follows.
    """

    def __init__(self, told: str, used_up: bool = False, trains_no_more: bool = False) -> None:
        super().__init__(told)
        self.used_up, self.trains_no_more = used_up, trains_no_more
