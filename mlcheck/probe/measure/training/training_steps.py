"""A few steps of the user's own loop on real batches, watched from all sides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import nn

from mlcheck.core.finding import Location
from mlcheck.probe.measure.autograd_graph import graph_nodes
from mlcheck.probe.measure.drive import Clock, first_batches, length_of, repeated_batches
from mlcheck.probe.measure.loss.losses import LossCall, LossWatch
from mlcheck.probe.measure.measurement import Reach
from mlcheck.probe.measure.model.unregistered import Fleeting, Leaves, Stray, followers, leaves_given, made_anew
from mlcheck.probe.measure.modules import ModuleWatch, Names
from mlcheck.probe.measure.training.gradients import GradientWatch, named_parameters
from mlcheck.probe.measure.training.holders import all_optimizers, holders
from mlcheck.probe.measure.training.influence import deadlocked, influences
from mlcheck.probe.measure.training.larger_steps import moved_by_larger_steps
from mlcheck.probe.measure.training.parameter_story import ENOUGH_UPDATES, ParameterStory
from mlcheck.trial.trial import Trial

FEW_STEPS = 12
MANY_STEPS = 64
_TO_COME_S = 3.0
_SLIGHT = 0.05


@dataclass(slots=True)
class TrainingSteps:
    """Up to three updates of every optimizer, in as many training steps as that takes.

    `updates` counts the steps of each optimizer by name, `foreign_optimizers` those that the trial does not
    name. `unregistered` are parameters that got gradients although they belong to no trained model and no optimizer.
    `fleeting` are those of them that are made anew in every step. `strays` counts tensors that an optimizer holds and
    no model owns. `late` are parameters that a model made in its steps and no optimizer was given. `gives_optimizer` is
    False where the one that stepped is mlcheck's own. `epoch` is how many batches a pass has, 0 where it does not tell.
    """

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 6

    steps: int
    owns_loop: bool
    updates: dict[str, int]
    parameters: list[ParameterStory]
    unregistered: list[Stray]
    strays: dict[str, int]
    losses: list[LossCall]
    backwards: int
    backward_place: Location
    step_places: dict[str, Location]
    gives_optimizer: bool = True
    fleeting: Fleeting | None = None
    late: tuple[str, ...] = ()
    epoch: int = 0

    @property
    def without_optimizer(self) -> bool:
        """Whether the program changes its parameters itself, as `p.data -= rate * p.grad` does."""
        return not self.updates and any(s.changed and s.trace.nonzero for s in self.parameters)

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:
        run = _Run(trial)
        run.drive(Clock(min(15.0, seconds / 3)))
        return cls(
            steps=run.steps,
            owns_loop=trial.owns_loop,
            updates={name: run.watch.stepped.get(id(opt), 0) for name, opt in trial.optimizers.items()},
            parameters=run.stories(),
            unregistered=run.unregistered(),
            strays=run.strays(),
            losses=run.contributing(),
            backwards=len(run.watch.backwards),
            backward_place=run.watch.backwards[0].place if run.watch.backwards else Location(),
            step_places={name: run.watch.step_places.get(id(o), Location()) for name, o in trial.optimizers.items()},
            gives_optimizer="optimizer" not in trial.supplied,
            fleeting=run.fleeting(),
            late=tuple(run.late.values()),
            epoch=run.epoch,
        )


class _Run:
    def __init__(self, trial: Trial) -> None:
        self.trial = trial
        self.names = Names(trial.models)
        self.registered = named_parameters(trial.models)
        held = {id(p): p for opt in trial.optimizers.values() for group in opt.param_groups for p in group["params"]}
        leaves = {**{id(p): p for p in self.registered}, **held}
        self.watch = GradientWatch(list(leaves.values()), self._see_root)
        self.losses = LossWatch()
        self.modules = ModuleWatch()
        self.steps = 0
        self._leaves = Leaves()
        self._contributing: list[LossCall] = []
        self._before = {id(p): p.detach().clone() for p in self.registered}
        self.late: dict[int, str] = {}
        self.epoch = length_of(trial.loaders.get("training"))

    def drive(self, clock: Clock) -> None:
        """Step until every optimizer has made its updates and a gradient was other than zero, within bounds.

        A module that has not run by then is given some steps more: its turn may come with other samples.
        """
        longer: Clock | None = None
        with self.losses, self.modules, self.watch:
            for batch in repeated_batches(self.trial):
                self.watch.turn = self.steps
                self.trial.train_step(batch, self.steps)
                self.steps += 1
                if not clock.left() or (self.steps >= MANY_STEPS and not self._awaits_the_end()):
                    return
                if self._enough():
                    longer = longer or Clock(_TO_COME_S)
                    if not longer.left() or not self._some_to_come():
                        return

    def _awaits_the_end(self) -> bool:
        """Whether nothing was applied or cleared by now, and a pass is not over: an update may come at its end."""
        carried = any(trace.carried for trace in self.watch.traces.values())
        return carried and self.steps <= self.epoch and not self.watch.stepped

    def _some_to_come(self) -> bool:
        """Whether a module has not run yet, and parameters of its own wait for a gradient."""
        traces = self.watch.traces
        return any(
            parameter.requires_grad and id(parameter) in traces and not traces[id(parameter)].arrivals
            for model in self.trial.models.values()
            for module in model.modules()
            if module not in self.modules.with_grad and module not in self.modules.without_grad
            for parameter in module.parameters(recurse=False)
        )

    def _enough(self) -> bool:
        done = [self.watch.stepped.get(id(opt), 0) for opt in self.trial.optimizers.values()]
        if self.steps < ENOUGH_UPDATES:
            return False
        if not done:
            return True
        if min(done) >= ENOUGH_UPDATES:
            traces = self.watch.traces.values()
            return any(trace.nonzero for trace in traces) or not any(trace.arrivals for trace in traces)
        # One that never steps is given all the steps there are, and so are steps at the rate of 0 of a warm-up.
        return self.steps >= FEW_STEPS and min(done) > 0 and any(trace.changed for trace in self.watch.traces.values())

    def _see_root(self, root: torch.Tensor) -> None:
        """Which of the losses seen feed this backward pass, and which leaves it will reach."""
        if len(self.watch.backwards) > 4 * ENOUGH_UPDATES:
            return
        nodes = graph_nodes(root)
        for node in nodes:
            self._leaves.see(node)
        known = {id(call) for call in self._contributing}
        self._contributing += [c for c in self.losses.calls if c.node in nodes and id(c) not in known]

    def contributing(self) -> list[LossCall]:
        return self._contributing

    def stories(self) -> list[ParameterStory]:
        found = []
        several = len(self.trial.models) > 1
        seen: set[int] = set()
        for key, model in self.trial.models.items():
            for prefix, module in model.named_modules():
                for name, parameter in module.named_parameters(recurse=False):
                    if id(parameter) not in seen:
                        seen.add(id(parameter))
                        full = ".".join(part for part in (key if several else "", prefix, name) if part)
                        if id(parameter) in self._before:
                            found.append(self._story(full, key, module, parameter))
                        elif not holders(parameter, self.trial, self.watch):
                            self.late[id(parameter)] = full
        self._try_influence(found)
        self._try_larger_steps(found)
        return found

    def _story(self, name: str, model: str, module: nn.Module, parameter: torch.Tensor) -> ParameterStory:
        held_by = holders(parameter, self.trial, self.watch)
        trace = self.watch.traces[id(parameter)]
        return ParameterStory(
            name=name,
            model=model,
            elements=parameter.numel(),
            requires_grad=parameter.requires_grad,
            optimizers=tuple(title for title, _ in held_by),
            learning_rate=max((rate for _, rate in held_by), default=0.0),
            trace=trace,
            changed=not torch.equal(parameter.detach(), self._before[id(parameter)]),
            dtype=parameter.dtype,
            under_no_grad=module in self.modules.without_grad and module not in self.modules.with_grad,
        )

    def _try_influence(self, stories: list[ParameterStory]) -> None:
        """For parameters without gradients, or with zeros alone: does the loss change when they do?"""
        by_name = {self.names.parameter(p): p for p in self.registered}
        held = [s for s in stories if s.requires_grad and s.optimizers]
        flat = [s for s in held if s.is_flat] if any(s.trace.nonzero for s in held) else []
        for group, share in (([s for s in held if not s.trace.arrivals], 0.0), (flat, _SLIGHT)):
            if group and self.watch.backwards:
                batch, parameters = first_batches(self.trial, 1)[0], [by_name[story.name] for story in group]
                told = influences(self.trial, batch, parameters, self.watch._parameters, share)
                for story, moves in zip(group, told):
                    story.influences = moves
        zeros = [by_name[story.name] for story in flat if not story.changed and not by_name[story.name].any()]
        waiting = deadlocked(self.trial, first_batches(self.trial, 1)[0], zeros, self.watch._parameters)
        for story in flat:
            story.waits = any(by_name[story.name] is parameter for parameter in waiting)

    def _try_larger_steps(self, stories: list[ParameterStory]) -> None:
        """For parameters that stay what they were: is it only that their updates are rounded away?"""
        by_name = {self.names.parameter(p): p for p in self.registered}
        stuck = [s for s in stories if s.stuck and s.learning_rate > 0 and not s.trace.lost]
        moved = moved_by_larger_steps(self.trial, [by_name[story.name] for story in stuck], self.steps)
        for story in stuck:
            story.rounded = any(by_name[story.name] is parameter for parameter in moved)

    def unregistered(self) -> list[Stray]:
        return sorted(Stray.of(leaf, self.trial) for leaf in self._strange())

    def fleeting(self) -> Fleeting | None:
        ran = self.modules.with_grad | self.modules.without_grad
        met = [(leaf, self._leaves.met[id(leaf)]) for leaf in self._strange()]
        return made_anew(met, len(self.watch.backwards), ran)

    def _strange(self) -> list[torch.Tensor]:
        """Parameters that got into the graph, and belong to nothing that is trained or saved."""
        groups = [g for optimizer in all_optimizers(self.trial, self.watch).values() for g in optimizer.param_groups]
        known = {*self.watch.traces, *self.late, *(id(p) for group in groups for p in group["params"])}
        called = {call.module for call in self.modules.calls}
        followed = followers(called, self.trial, self._before)
        return self._leaves.outside({*known, *followed}, leaves_given(self.modules.calls), self.trial)

    def strays(self) -> dict[str, int]:
        owned = {id(p) for p in self.registered}
        return {
            name: sum(id(p) not in owned for group in optimizer.param_groups for p in group["params"])
            for name, optimizer in self.trial.optimizers.items()
        }
