"""Makes a `Trial` of a script: a first run to see where it trains, then runs under control."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch

from mlcheck.trial.channel import SCRATCH
from mlcheck.trial.planned import Planned
from mlcheck.trial.resumption import Standing
from mlcheck.trial.script.driver import Driver
from mlcheck.trial.script.instruments import Instruments
from mlcheck.trial.script.objects import Start
from mlcheck.trial.script.outputs import Outputs
from mlcheck.trial.script.plan import Plan
from mlcheck.trial.script.program import Program
from mlcheck.trial.script.repetition import repeats_batches
from mlcheck.trial.script.requests import LoopKey
from mlcheck.trial.script.resume import resume
from mlcheck.trial.script.scout import Scout
from mlcheck.trial.trial import EntryError, NotReached, Trial

_SCOUTING_S = 20.0
_SHOWN = 6


@dataclass(slots=True)
class _Latest:
    """What the trial holds: the same containers throughout, with the objects of the latest run in them."""

    models: dict[str, Any] = field(default_factory=dict)
    optimizers: dict[str, Any] = field(default_factory=dict)
    schedulers: dict[str, Any] = field(default_factory=dict)
    loaders: dict[str, Any] = field(default_factory=dict)
    objects: list[Any] = field(default_factory=list)
    planned: Planned | None = None
    standing: Standing = field(default_factory=Standing)

    def exchange(self, start: Start) -> None:
        """The objects of another run take the places of those of the last."""
        held = start.held
        both = {"training": start.training, "validation": start.validation}
        known = {name: loader for name, loader in both.items() if loader is not None}
        for mine, new in (
            (self.models, held.models),
            (self.optimizers, held.optimizers),
            (self.schedulers, held.schedulers),
            (self.loaders, known),
        ):
            mine.clear()
            mine.update(new)
        self.planned, self.standing = start.planned, start.standing
        self.objects[:] = [*held.others, *start.variables, *known.values()]


def build(program: Program, entry: tuple[str, int]) -> Trial:
    """Run the program twice: once to see what it does, once up to its first training batch, where it waits.

    Raises EntryError where it does not train; whatever the program raises passes through.
    """
    outputs = Outputs(Path(os.environ[SCRATCH]))
    instruments = Instruments()
    instruments.install()
    outputs.install()
    try:
        plan = Scout(instruments, outputs, _SCOUTING_S).explore(program)
        outputs.scratch.set_aside()
        return _trial(program, entry, plan, instruments, outputs)
    except BaseException:
        instruments.remove()
        outputs.uninstall()
        raise


def _trial(program: Program, entry: tuple[str, int], plan: Plan, instruments: Instruments, outputs: Outputs) -> Trial:
    latest = _Latest()
    driver = Driver(program, plan, instruments, outputs, _SCOUTING_S, latest.exchange)
    try:
        progress = driver.snapshot()
    except NotReached as why:
        raise EntryError(
            f"{program.name} was seen to train and, run anew, did not come to its first step again: {why}"
        ) from None
    driver.restore(progress)
    repeats = not plan.companions if plan.training else repeats_batches(driver)
    evaluates = bool(plan.evaluating) or plan.evaluates_by_calls
    return Trial(
        name=program.name,
        models=latest.models,
        optimizers=latest.optimizers,
        schedulers=latest.schedulers,
        train_step=driver.train_step,
        train_batches=driver.train_batches,
        evaluate_step=driver.evaluate_step if evaluates else None,
        validation_batches=driver.validation_batches if evaluates else None,
        end_evaluation=driver.end_evaluation if evaluates else None,
        owns_loop=True,
        entry=entry,
        device=_device(latest.models),
        notices=_notices(program.name, plan, instruments, outputs),
        record=[("script", place) for place in (_place(plan.training), *_evaluations(plan))],
        objects=latest.objects,
        planned=None if plan.renews_data else latest.planned,  # epochs over each rollout are not the run's
        loaders=latest.loaders,
        repeats_batches=repeats,
        draws_batches=plan.training is None,
        renews_data=plan.renews_data,
        progress=driver,
        resume=partial(resume, driver, outputs, lambda: latest.standing),
    )


def _device(models: dict[str, Any]) -> torch.device:
    parameter = next((p for model in models.values() for p in model.parameters()), None)
    return parameter.device if parameter is not None else torch.device("cpu")


def _place(loop: LoopKey | None) -> str:
    """`at train.py:29`; the framework's own loops are nowhere in the user's files."""
    if loop is None:
        return ""
    return f"at {os.path.relpath(loop.place[0])}:{loop.place[1]}" if loop.place[0] else "in its framework's loop"


def _evaluations(plan: Plan) -> list[str]:
    return list(dict.fromkeys(map(_place, sorted(plan.evaluating))))


def _notices(name: str, plan: Plan, instruments: Instruments, outputs: Outputs) -> list[str]:
    places = _evaluations(plan)
    if plan.training:
        evaluates = f"evaluates {', '.join(places)}" if places else "has no evaluation over a DataLoader"
        notices = [f"{name} trains {_place(plan.training)} and {evaluates}; it was run as it is, its loops cut short"]
    else:
        notices = [f"{name} trains without a DataLoader: it is followed from one forward pass to the next"]
    if plan.training and (others := {_place(key) for key in plan.others if key.place[0]} - {_place(plan.training)}):
        notices.append(
            f"{name} trains {', '.join(sorted(others))} as well, and no probe looked there: name a function or a "
            "script that does that alone"
        )
    if plan.error:
        notices.append(f"with its loops cut short, {name} raised {plan.error}")
    own = [file for file in outputs.scratch.redirected if ".cache" not in Path(file).parts]  # not what libraries keep
    if own:
        written = [os.path.relpath(file) if file.startswith(os.getcwd()) else file for file in own]
        more = f" and {len(written) - _SHOWN} more" if len(written) > _SHOWN else ""
        notices.append(
            f"what {name} writes went to a scratch folder, and your files are as they were: "
            f"{', '.join(written[:_SHOWN])}{more}"
        )
    notices += [f"{name} was left out: modules run eagerly" for name in instruments.left_out]
    return notices
