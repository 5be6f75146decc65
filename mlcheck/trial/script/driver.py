"""Holds the reins of a script: one training step, one evaluated batch, and back to a clean start."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from torch.utils.data import DataLoader

from mlcheck.core.plural import plural
from mlcheck.trial.cells import Cell
from mlcheck.trial.modes import process_cells
from mlcheck.trial.script.calls import Aside
from mlcheck.trial.script.coroutine import Run
from mlcheck.trial.script.instruments import Instruments
from mlcheck.trial.script.objects import Held, Newcomers, Start, held_by
from mlcheck.trial.script.outputs import Outputs
from mlcheck.trial.script.plan import Plan
from mlcheck.trial.script.program import Program
from mlcheck.trial.script.requests import Answer, Did, Ended, Given, Request, Turn, WantsBatch
from mlcheck.trial.traceback import error_line
from mlcheck.trial.trial import NotReached

_TURNS, _FAR = 8, 1000
_QUICK_S = 2.0  # a start that takes longer is not repeated for every measurement


class Driver:
    """Drives one run after the other of the same script; `on_start` hears of the objects of each.

    A measurement finds the script waiting for its first training batch. One that led it elsewhere is undone by
    a new run. Raises NotReached where the script ends, or never gets there, and the script's own errors.
    """

    def __init__(
        self, program: Program, plan: Plan, instruments: Instruments, outputs: Outputs,
        seconds: float, on_start: Callable[[Start], None],
    ) -> None:  # fmt: skip
        self._program, self._plan = program, plan
        self._instruments, self._outputs, self._seconds, self._on_start = instruments, outputs, seconds, on_start
        self._run: Run | None = None
        self._request: Request = Ended()
        self._loader: DataLoader[Any] | None = None
        self._evaluated: DataLoader[Any] | None = None
        self._newcomers, self._held = Newcomers(), Held({}, {}, {}, [])
        self._depth = self._steps = self._standing = 0
        self._start_s, self._is_elsewhere, self._has_cut, self._evaluates_late = 0.0, True, False, False
        self._beginning: Sequence[Cell] = ()
        self._aside = Aside()

    def train_batches(self) -> Iterator[Any]:
        """A pass over the loader of the training loop; without one, a few turns of whatever the script draws."""
        if self._plan.training is None:
            yield from map(Turn, range(_TURNS))
            return
        self._go_to_training()
        assert self._loader is not None
        yield from self._instruments.batches(self._loader)

    def validation_batches(self) -> Iterator[Any]:
        self._go_to_evaluation()
        if self._evaluated is None:
            yield from map(Turn, range(_TURNS))
            return
        yield from self._instruments.batches(self._evaluated)

    def train_step(self, batch: Any, _index: int) -> Mapping[str, Any]:
        """All that the script does with one batch, until it asks for the next."""
        self._go_to_training()
        if isinstance(self._request, Ended):
            raise self._at_its_end()
        self._steps, self._standing = self._steps + 1, self._standing + 1
        self._instruments.turn = self._plan.turn
        self._advance(None if isinstance(batch, Turn) else Given(batch))
        self._until(self._plan.is_training, or_ended=True)
        if isinstance(self._request, Ended) and isinstance(batch, Turn) and not self._instruments.backwards:
            self._steps, self._standing = self._steps - 1, self._standing - 1
            raise self._at_its_end()  # what it called last, behind its loop, trained nothing
        return {}

    def evaluate_step(self, batch: Any) -> Mapping[str, Any]:
        """All that the script does with one batch of its evaluation."""
        self._go_to_evaluation()
        self._advance(None if isinstance(batch, Turn) else Given(batch))
        self._until(lambda request: self._plan.is_training(request) or self._plan.is_evaluation(request), or_ended=True)
        return {}

    def end_evaluation(self) -> bool:
        """Let the pass over the validation data be over; whether the script then trains again, or ends."""
        if self._plan.training is None or not self._plan.is_evaluation(self._request):
            return False
        self._advance(Answer.STOP)
        return isinstance(self._request, Ended) or self._plan.is_training(self._request)

    def begin_anew(self) -> None:
        """Let the next measurement begin with a new run, wherever this one stands."""
        self._is_elsewhere = True

    def snapshot(self) -> int:
        if self._depth == 0 and (self._is_elsewhere or (self._steps and self._start_s < _QUICK_S)):
            self.start()
        elif self._is_elsewhere:
            self._go_to_training()
        self._standing = self._standing if self._depth else 0
        self._depth += 1
        return self._standing

    def restore(self, progress: int) -> None:
        self._depth -= 1
        self._standing = min(progress, self._steps)  # the steps made since are undone
        if not (self._depth and self._is_elsewhere):
            return
        has_trained = self._standing > 0
        try:
            self._go_to_training()
        except NotReached:
            if has_trained:
                raise
        if isinstance(self._request, Ended) and (self._request.error or not has_trained):
            error, before = self._request.error, self._held
            self.start()  # it evaluates at its end, or raised: what comes next begins where this began
            if error and has_trained and not before.weighs_as(self._held):
                self._is_elsewhere = True
                raise NotReached(f"{self._program.name} raised {error_line(error)} after it had trained")

    def close(self) -> None:
        if self._run:
            self._run.abandon()
        self._newcomers.close()
        self._instruments.remove()
        self._outputs.uninstall()

    def start(self, arrived: Callable[[Request], bool] | None = None) -> None:
        """Every run begins from the random numbers of the first: what seeds nothing makes the same weights again."""
        self._beginning = self._beginning or tuple(process_cells())
        for cell in self._beginning:
            cell.restore()
        if self._run:
            self._run.abandon()
        self._run, self._loader, self._evaluated = None, None, None
        self._outputs.scratch.clear()
        self._outputs.forgives = True
        self._newcomers.mark()
        began, self._run = time.monotonic(), Run(self._program)
        self._instruments.begin(self._run)
        self._instruments.waits_for, self._instruments.turn = self._plan.waits_for, 0
        self._instruments.lead = self._plan.lead
        self._steps = self._standing = 0
        self._is_elsewhere = self._has_cut = False
        self._advance(None)
        self._until(arrived or self._plan.is_training)
        self._start_s = max(self._start_s, time.monotonic() - began)
        self._take_hold(self._run)

    def _take_hold(self, run: Run) -> None:
        frames, loaders, plan = run.frames(), self._instruments.loaders, self._plan
        self._held = held_by(frames, self._newcomers)
        training = loaders.made_for([plan.training], None) if self._loader is None else self._loader
        validation = loaders.made_for(plan.evaluating, plan.validation)
        self._on_start(Start.of(frames, self._held, training, validation))

    def _advance(self, answer: Answer | Given | None, watched: bool = True) -> None:
        assert self._run is not None
        self._request = self._run.advance(answer, watched)
        if isinstance(self._request, Ended):
            self._is_elsewhere = True
            if self._request.error:
                raise self._request.error

    def _until(self, arrived: Callable[[Request], bool], or_ended: bool = False) -> None:
        """Let the script go on, its other loops cut short, until it asks what is waited for."""
        end, passed = time.monotonic() + self._seconds, 0
        with self._aside:
            while passed < _FAR:
                if arrived(self._request):
                    self._note_loader()
                    return
                if isinstance(self._request, Ended):
                    if or_ended:
                        return
                    raise self._at_its_end()
                if not self._instruments.has_trained:  # what it prepares takes the time and the batches it takes
                    end, passed = time.monotonic() + self._seconds, 0
                if time.monotonic() > end:
                    break
                passed += self._request != Did("call")
                self._pass_by_as_cut(self._request)
        self._is_elsewhere = True  # in the midst of something, a validation perhaps
        limit = f"{self._seconds:.0f} s" if passed < _FAR else f"{_FAR:,} batches"
        goal = "an evaluation" if arrived == self._plan.is_evaluation else "its next training step"
        raise NotReached(f"{self._program.name} did not come to {goal} in {limit}")

    def _note_loader(self) -> None:
        if isinstance(self._request, WantsBatch) and self._plan.is_training(self._request):
            self._loader = self._request.of.loader
        elif isinstance(self._request, WantsBatch):
            self._evaluated = self._request.of.loader
        self._is_elsewhere |= self._plan.is_evaluation(self._request)

    def _pass_by_as_cut(self, request: Request) -> None:
        """What a script raises where one of its loops ended early is no fault of its own: an average over nothing."""
        try:
            self._pass_by(request)
        except Exception as error:
            if not self._has_cut:
                raise
            told = f"raised {error_line(error)}, where mlcheck had cut its loops short"
            raise NotReached(f"{self._program.name} {told}") from error

    def _pass_by(self, request: Request) -> None:
        """Answer a request on the way to somewhere else: loops that call models are cut short, and none is watched."""
        if isinstance(request, Did):
            if request.what == "forward":
                self._instruments.turn = self._plan.turn
            self._aside.lead(past=True)
            self._advance(None, watched=False)
            return
        assert isinstance(request, WantsBatch)
        enough = self._plan.enough(request)
        self._aside.lead(past=bool(enough))
        if not enough:
            self._advance(Answer.REAL)
            return
        stops = request.of.given >= enough
        self._has_cut |= stops
        self._advance(Answer.STOP if stops else Answer.REAL, watched=False)

    def _go_to_training(self) -> None:
        if self._run is None:
            self.start()
        if not isinstance(self._request, Ended) and not self._plan.is_training(self._request):
            self._instruments.turn = 0
            self._until(self._plan.is_training)
            if self._plan.evaluates_first and self._run:
                self._take_hold(self._run)  # what it has made since it evaluated

    def _go_to_evaluation(self) -> None:
        if self._run is None:
            self.start()
        if isinstance(self._request, Ended):
            raise self._at_its_end()
        arrived, has_trained = self._plan.is_evaluation, self._standing > 0
        if self._plan.evaluates_first and not (has_trained or arrived(self._request)):
            self.start(arrived)
        if arrived(self._request):
            return
        is_anew = not (self._steps or self._is_elsewhere)
        if self._evaluates_late and not is_anew:
            if has_trained:
                raise NotReached(f"{self._program.name} trains over {self._seconds:.0f} s before it evaluates again")
            self.start()  # it evaluates soon after its start, or it would not be known to
        self._is_elsewhere = True
        try:
            with self._held.weights_kept():  # the steps on the way are none that somebody asked for
                self._until(arrived)
        except NotReached:
            self._evaluates_late |= not is_anew and not isinstance(self._request, Ended)
            raise

    def _at_its_end(self) -> NotReached:
        over = self._plan.evaluates_last and self._evaluated is not None
        why = "it evaluates last" if over else f"for more epochs or steps {self._program.change}"
        told = f"{self._program.name} ended after {plural(self._steps, 'training step')}: {why}"
        return NotReached(told, self._steps > self._standing, over)
