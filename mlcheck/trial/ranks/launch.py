"""Starts a program on several ranks with torch.distributed.run and reads what became of each."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from mlcheck.trial.child import child_command
from mlcheck.trial.find import EntryOptions
from mlcheck.trial.isolate import ChildEnd, run_child
from mlcheck.trial.processes import signal_name
from mlcheck.trial.ranks.story import RankStory
from mlcheck.trial.trial import Source

_SHOWN = 8000
_FIRST_FAILURE = re.compile(r"Root Cause.*?rank\s*:\s*(?P<rank>\d+).*?exitcode\s*:\s*(?P<code>-?\d+)", re.DOTALL)
_GRACE_S = 5.0


@dataclass(frozen=True, slots=True)
class RankJob:
    """What each rank is to run. `patience` is how many seconds a rank waits for the others, `limit` those for all."""

    entry: str
    folder: str
    scratch: str
    world: int
    patience: float
    limit: float
    config: str = ""
    hparams: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    prep: str = ""
    arguments: tuple[str, ...] = ()
    cpu_shim: bool = False

    def dumps(self) -> str:
        return json.dumps(asdict(self))

    def options(self, *, communicates: bool, dtype: Any = None) -> EntryOptions:
        """For this process, which the launcher has told its rank."""
        return EntryOptions(
            config=Path(self.config) if self.config else None,
            hparams=self.hparams,
            seed=self.seed,
            device="cpu",
            prep=self.prep or None,
            arguments=tuple(self.arguments),
            rank=int(os.environ["RANK"]),
            world=self.world,
            communicates=communicates,
            dtype=dtype,
        )


@dataclass(frozen=True, slots=True)
class Launch:
    """How it ended as a whole, and the story of each rank."""

    end: ChildEnd
    ranks: tuple[RankStory, ...]


def launch(source: Source, world: int, seconds: float) -> Launch:
    """Run `source` on `world` ranks for at most `seconds`. Whatever was started is gone when this returns."""
    with tempfile.TemporaryDirectory(prefix="mlcheck-ranks-") as scratch:
        options = source.options
        job = RankJob(
            entry=source.entry,
            folder=source.folder,
            scratch=scratch,
            world=world,
            patience=max(seconds / 4, 1.0),
            limit=seconds,
            config=str(options.config) if options.config else "",
            hparams=dict(options.hparams),
            seed=options.seed or 0,
            prep=options.prep or "",
            arguments=options.arguments,
            cpu_shim=options.cpu_shim or torch.cuda.is_available(),  # which the ranks do not see
        )
        end = run_child(
            child_command("mlcheck.trial.ranks.shepherd", job.dumps()),
            time_limit_s=seconds + _GRACE_S,
            cwd=source.folder,
            on_message=lambda _: None,
        )
        return Launch(end, stories(Path(scratch), world, end.stderr))


def stories(folder: Path, world: int, launcher: str = "") -> tuple[RankStory, ...]:
    """What the ranks left in `folder`; `launcher` is what torch.distributed.run had to say."""
    ranks = tuple(_story(folder, rank) for rank in range(world))
    first = _FIRST_FAILURE.search(launcher)
    if first and int(first["rank"]) < world and not ranks[int(first["rank"])].failure:
        code = int(first["code"])
        told = signal_name(-code) if code < 0 else f"exit code {code}"
        ranks[int(first["rank"])].killed = told
    return ranks


def _story(folder: Path, rank: int) -> RankStory:
    journal = folder / f"rank-{rank}.jsonl"
    lines = journal.read_text().splitlines() if journal.exists() else []
    story = RankStory.read(rank, lines)
    stacks = folder / f"rank-{rank}.stacks"
    story.stack = stacks.read_text(errors="replace")[:_SHOWN] if stacks.exists() else ""
    output = folder / f"rank-{rank}.out"
    story.output = output.read_text(errors="replace")[-_SHOWN:] if output.exists() else ""
    return story
