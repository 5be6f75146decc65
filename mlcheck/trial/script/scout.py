"""A first run of the script: where it trains, where it evaluates, and that it does so at all."""

from __future__ import annotations

import time

import torch
from torch import nn
from torch.optim import Optimizer

from mlcheck.trial.script.coroutine import Run
from mlcheck.trial.script.instruments import Instruments
from mlcheck.trial.script.loaders import all_of, begin_alike
from mlcheck.trial.script.outputs import Outputs
from mlcheck.trial.script.plan import ENOUGH_BATCHES, FEW_BATCHES, Plan
from mlcheck.trial.script.program import Program
from mlcheck.trial.script.requests import Answer, Did, Ended, LoopKey, Pass, Request, WantsBatch
from mlcheck.trial.script.rhythm import Rhythm
from mlcheck.trial.script.sight import Sight, calls_one_of
from mlcheck.trial.script.stages import Stages
from mlcheck.trial.script.turns import never_again, stack_of
from mlcheck.trial.traceback import error_line
from mlcheck.trial.trial import Declined, EntryError

ENOUGH_UPDATES = 3
MOST_BATCHES = 64
MOST_UPDATES = 400


class Scout:
    """Follows one run, cutting its loops short, until training, evaluation and training after it were seen."""

    def __init__(self, instruments: Instruments, outputs: Outputs, seconds: float) -> None:
        self._instruments, self._outputs = instruments, outputs
        self._seconds = seconds
        self._sights: dict[LoopKey, Sight] = {}
        self._group: dict[LoopKey, Pass] = {}
        self._group_is_used = False
        self._groups: dict[frozenset[LoopKey], int] = {}
        self._stages = Stages()
        self._trained: dict[int, torch.Tensor] = {}
        self._updates = self._backwards = 0
        self._cut_short = False
        self._is_seen = False
        self._calls_in_a_row, self._called_at = 0, -1
        self._called: dict[int, nn.Module] = {}
        self._rhythm = Rhythm()

    def explore(self, program: Program) -> Plan:
        """Raises EntryError where the script never trains, and whatever it raises by itself."""
        self._began, self._start_up_s = time.monotonic(), 0.0
        run = Run(program)
        instruments = self._instruments
        instruments.begin(run)
        instruments.on_step, instruments.on_backward = self._see_step, self._see_backward
        instruments.waits_for, instruments.turn = frozenset({"forward"}), 1
        instruments.on_call = self._see_call
        try:
            end = self._follow(run)
        finally:
            instruments.on_step, instruments.on_backward = lambda _: None, lambda: None
            instruments.on_call = lambda _: None
            instruments.waits_for = frozenset()
            run.abandon()
        return self._plan(program, end)

    def _follow(self, run: Run) -> Ended | None:
        """Until the script ends, or enough was seen (None)."""
        request: Request = run.advance()
        while not isinstance(request, Ended):
            if self._complete() or self._is_lost():
                return None
            request = run.advance(self._answer(request, run) if isinstance(request, WantsBatch) else None)
        return request

    def _answer(self, request: WantsBatch, run: Run) -> Answer:
        key, given = request.of.key, request.of.given
        if key not in self._sights:
            self._sights[key] = Sight(len(self._sights), request.of.loader, stack_of(run.frames()))
        sight = self._sights[key]
        if not request.of.goes_on and self._is_enough(sight, given):
            self._cut_short = True
            return Answer.STOP
        if self._group_is_used:
            self._group.clear()
            self._group_is_used = False
        for other in [other for other, of in self._group.items() if of.over]:
            del self._group[other]
        self._group[key] = request.of
        sight.batches += 1
        return Answer.REAL

    def _is_enough(self, sight: Sight, given: int) -> bool:
        """Loops that prepare data are never cut short, nor anything before training has begun."""
        if sight.trains:
            return (given >= ENOUGH_BATCHES and self._enough_updates()) or given >= MOST_BATCHES
        return self._backwards > 0 and bool(sight.called) and given >= FEW_BATCHES

    def _enough_updates(self) -> bool:
        return self._updates >= ENOUGH_UPDATES or (not self._updates and self._backwards >= ENOUGH_UPDATES)

    def _complete(self) -> bool:
        if not self._enough_updates():
            return False
        if self._backwards >= MOST_UPDATES or self._spent() > self._seconds:
            return True
        evaluated = [s.called_at for s in self._sights.values() if not s.trains] + [self._called_at]
        resumed = any(self._stages.current.began < at < self._backwards for at in evaluated)
        return resumed and not self._stages.longer_is_open

    def _is_lost(self) -> bool:
        """Whether it trains and trains, and nothing that could be waited for was seen to happen."""
        return bool(self._backwards) and not self._has_reins() and self._spent() > self._seconds

    def _has_reins(self) -> bool:
        return self._is_seen or any(sight.trains for sight in self._sights.values())

    def _spent(self) -> float:
        """Seconds since it began to train: what it imports and prepares before takes the time it takes."""
        return time.monotonic() - self._began - self._start_up_s

    def _see_call(self, module: nn.Module) -> None:
        if torch.is_grad_enabled():
            self._rhythm.call()
            self._is_seen = True
        if torch.is_grad_enabled() and all(of.over and not self._sights[key].called for key, of in self._group.items()):
            self._group.clear()  # it took all batches from its loaders first, and goes over them by itself
        if self._group:
            self._group_is_used = True
            sight = self._sights[next(reversed(self._group))]
            sight.called[id(module)] = module
            sight.called_at = self._backwards
        elif not torch.is_grad_enabled() and not self._instruments.in_step:
            self._calls_in_a_row += 1
            if self._calls_in_a_row >= FEW_BATCHES or not module.training:  # one call will do for a whole graph
                self._called[id(module)] = module
                self._called_at = self._backwards

    def _see_backward(self) -> None:
        self._note_first()
        self._begin_anew_with_a_loader()
        self._backwards += 1
        self._calls_in_a_row = 0
        self._group_is_used = True
        for key in self._group:
            self._sights[key].backwards += 1
        if self._is_lost() and self._instruments.run:
            self._instruments.run.ask(Did("backward"))

    def _see_step(self, optimizer: Optimizer) -> None:
        self._note_first()
        self._updates += 1
        self._group_is_used = True
        trained = {id(p): p for held in optimizer.param_groups for p in held["params"]}
        self._trained |= trained
        for key in self._group:
            self._sights[key].steps += 1
            self._sights[key].trained |= trained
        group = frozenset(self._group)
        self._groups[group] = self._groups.get(group, 0) + 1
        self._stages.step(group, self._backwards)
        self._rhythm.step(optimizer, self._backwards)

    def _begin_anew_with_a_loader(self) -> None:
        """What was trained without a loader, before the first loop over one, prepares it: a backbone, a teacher."""
        if not self._group or not self._backwards or any(sight.trains for sight in self._sights.values()):
            return
        self._updates = self._backwards = 0
        self._groups.clear()
        self._stages = Stages()
        self._trained.clear()
        self._rhythm = Rhythm()
        self._called_at, self._start_up_s = -1, 0.0
        self._called.clear()
        self._note_first()

    def _note_first(self) -> None:
        """What it wrote before it trained is prepared data; and so long it takes to begin."""
        if not self._start_up_s:
            self._start_up_s = time.monotonic() - self._began
            self._outputs.scratch.keep()

    def _plan(self, program: Program, end: Ended | None) -> Plan:
        name = program.name
        if end and end.error and not self._cut_short:
            raise end.error
        if not self._backwards:
            if end and end.refused:
                raise Declined(f"{name} refuses its arguments: {end.refused}", "; give others after `--`")
            how = f" with sys.exit({end.exit_code!r})" if end and end.exit_code else ""
            how += f" after {error_line(end.handled)}" if end and end.handled else ""
            told = f"{name} ended{how} without a training step"
            remedy = (
                ": neither backward nor an optimizer was called in this "
                f"process; {program.change}, or name the trial or function in it that trains (module:Name)"
            )
            raise Declined(told, remedy) if end and end.exit_code else EntryError(f"{told}{remedy}")
        if not self._has_reins():
            raise EntryError(
                f"{name} trains without a DataLoader and without calling an nn.Module that has weights: there is "
                "nothing to follow its steps by; put the weights into an nn.Module and call it, or name a function "
                "that returns the parts of the program (module:build)"
            )
        training, companions = self._training()
        evaluating, watching = self._evaluating(training)
        return Plan(
            training=training,
            companions=companions,
            others=frozenset(k for k, s in self._sights.items() if s.trains and k != training and k not in companions),
            watching=watching,
            evaluating=frozenset(evaluating),
            evaluates_by_calls=training is None and calls_one_of(self._called, self._trained),
            turn=1
            if self._instruments.gives_closures
            else self._rhythm.turn,  # a closure is called as often as it likes
            lead=self._rhythm.lead if training is None else 0,
            error=error_line(end.error) if end and end.error else "",
            validation=self._sights[evaluating[0]].loader if evaluating else None,
            evaluates_last=self._evaluates_last(training, evaluating),
            evaluates_first=max([self._sights[key].called_at for key in evaluating] or [self._called_at]) == 0,
            renews_data=training is not None and self._renews_data(training),
        )

    def _renews_data(self, training: LoopKey) -> bool:
        mine = self._sights[training].loader.dataset
        again = [s for k, s in self._sights.items() if k.is_later(training) or training.is_later(k)]
        return any(not begin_alike(sight.loader.dataset, mine) for sight in again)

    def _evaluating(self, training: LoopKey | None) -> tuple[list[LoopKey], frozenset[LoopKey]]:
        """The loops over validation data; where there are some, those that watch how well training data is learnt.

        A loop that calls nothing that `training` trains goes with another training of the same program.
        """
        trained = (self._sights[training].trained if training else {}) or self._trained
        found = [key for key, seen in self._sights.items() if not seen.trains and calls_one_of(seen.called, trained)]
        learnt = {id(seen.loader.dataset) for seen in self._sights.values() if seen.trains}
        watches = {key for key in found if key.of_training or all_of(self._sights[key].loader, learnt)}
        validating = [key for key in found if key not in watches]
        return (validating, frozenset(found).difference(validating)) if validating else (found, frozenset())

    def _evaluates_last(self, training: LoopKey | None, evaluating: list[LoopKey]) -> bool:
        if training is None or not evaluating:
            return False
        return all(never_again(self._sights[training].stack, self._sights[key].stack) for key in evaluating)

    def _training(self) -> tuple[LoopKey | None, frozenset[LoopKey]]:
        """The loop with the most steps, the earlier of two; those whose batches the same steps take with it."""
        steps = {k: s.steps if self._updates else s.backwards for k, s in self._sights.items()}
        found = max(steps, key=lambda key: (steps[key], -self._sights[key].order), default=None)
        if found is None or not steps[found] or 2 * steps[found] < (self._updates or self._backwards):
            return None, frozenset()
        sight = self._sights[found]
        if sight.batches == 1 and sight.called and steps[found] >= ENOUGH_UPDATES:
            return None, frozenset()  # all its data in one batch, which it goes over by itself
        together = [group for group, times in self._groups.items() if found in group and 2 * times > steps[found]]
        return found, frozenset(key for group in together for key in group if key != found)
