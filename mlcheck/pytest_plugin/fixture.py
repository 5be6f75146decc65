"""The `mlcheck` fixture: any model, examined where the test stands, in one line."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from types import FunctionType
from typing import Any, cast

import numpy as np
import torch
from torch import nn
from torch.optim import Optimizer

import mlcheck.probe.checks
from mlcheck.config import Config
from mlcheck.core.check import find_checks
from mlcheck.core.mistake import Mistake
from mlcheck.core.options import RuleOptions
from mlcheck.core.outcome import Outcome
from mlcheck.core.report import Report, Result
from mlcheck.probe.chosen import probe_rules
from mlcheck.probe.examination import Examination
from mlcheck.probe.job import Job
from mlcheck.probe.result import from_message
from mlcheck.project import rule_options
from mlcheck.pytest_plugin.evidence import answered, told
from mlcheck.trial.config import hyperparameters
from mlcheck.trial.functions import build
from mlcheck.trial.trial import Trial

_BROKEN = (Outcome.FAIL, Outcome.ERROR, Outcome.WARN)


class Examiner:
    """What the fixture `mlcheck` is. `config` is the project's, whose rules' options hold here, too."""

    def __init__(self, config: Config) -> None:
        self._config = config

    def probe(
        self,
        model: nn.Module | Mapping[str, nn.Module],
        loader: Iterable[Any],
        loss: Callable[[Any, Any], torch.Tensor] | None = None,
        optimizer: Optimizer | Mapping[str, Optimizer] | None = None,
        *,
        train_step: Callable[[Any], Any] | None = None,
        evaluate_step: Callable[[Any], Any] | None = None,
        validation_loader: Iterable[Any] | None = None,
        seed: int = 0,
        time_limit: float = 60.0,
        options: Mapping[str, Mapping[str, float]] | None = None,
    ) -> Examined:
        """Examine the parts of a training program; nothing is run before a rule is asked for.

        The parts mean what they mean where a function returns them to `mlcheck probe`: `loader` is a DataLoader
        or a list of batches (inputs, target), `loss` is called with (output, target); without it, and without a
        loss of the model's own, only what needs none is judged. Without `optimizer` it is Adam at 1e-3; without
        `train_step` mlcheck supplies the loop, and rules about your loop are skipped. Model, optimizer and random
        generators are as before when it returns. `options` are numbers for single rules, over those that the project
        sets. Raises EntryError for parts that do not fit together, BadOption for an option that there is not.
        """
        parts = {
            "model": model,
            "optimizer": optimizer,
            "loss": loss,
            "train_loader": loader,
            "validation_loader": validation_loader,
            "train_step": train_step,
            "evaluate_step": evaluate_step,
        }
        caller = sys._getframe(1)
        place = (caller.f_code.co_filename, caller.f_lineno)
        device = next((weight.device for weight in _weights(model)), torch.device("cpu"))
        returning = cast(FunctionType, lambda: parts)
        trial = build(returning, "mlcheck.probe(...)", place, hyperparameters({}, {}, ""), device)
        return Examined(trial, seed, time_limit, rule_options(self._config, options))


def _weights(model: nn.Module | Mapping[str, nn.Module]) -> Iterator[nn.Parameter]:
    for module in model.values() if isinstance(model, Mapping) else (model,):
        if isinstance(module, nn.Module):
            yield from module.parameters()


class _Heard:
    """Takes the place of the channel to a parent process."""

    def __init__(self) -> None:
        self.results: dict[str, Result] = {}
        self.notices: list[str] = []

    def send(self, message: dict[str, Any]) -> None:
        if message["kind"] == "finished":
            result = from_message(message["report"])
            self.results[result.rule] = result
        elif message["kind"] == "notices":
            self.notices += message["notices"]


class Examined:
    """A program under examination. Measurements are shared between the rules that are asked for."""

    def __init__(self, trial: Trial, seed: int, time_limit: float, options: RuleOptions | None = None) -> None:
        self._trial, self._seed, self._options = trial, seed, options or {}
        self._heard = _Heard()
        self._checks = {check.rule: check for check in find_checks(mlcheck.probe.checks)}
        job = Job("", "", {}, "", seed, time_limit, 10 * time_limit, tuple(self._checks), rule_options=self._options)
        self._examination = Examination(trial, job, self._heard)

    def result(self, rule: str) -> Result:
        """What one rule came to. Raises UnknownRule, or Mistake for a rule that no probe answers."""
        __tracebackhide__ = True
        try:
            probe_rules((rule,))
        except Mistake as mistake:
            raise mistake.with_traceback(None) from None  # at the user's line, not at ours
        if rule not in self._checks:
            raise Mistake(f"`{rule}` is not answered by running the program, so it cannot be probed")
        if rule not in self._heard.results:
            with _generators_kept():
                self._examination.run([self._checks[rule]])
        return replace(self._heard.results[rule], options=self._options.get(rule, {}))

    def report(self) -> Report:
        """All rules, as a report."""
        results = tuple(self.result(rule) for rule in sorted(self._checks))
        return Report("probe", self._trial.name, results, notices=tuple(self._heard.notices))

    def assert_passes(self, *rules: str) -> None:
        """Raise AssertionError with the evidence unless each of the rules passes.

        Without rules, all are asked: none may fail or warn, and what does not apply is left out.
        """
        __tracebackhide__ = True
        results = list(map(self.result, rules)) or list(self.report().results)
        bad = [
            result for result in results if (result.outcome is not Outcome.PASS if rules else result.outcome in _BROKEN)
        ]
        if bad:
            raise AssertionError("\n\n".join(told(answered([result], result.rule)) for result in bad))


@contextmanager
def _generators_kept() -> Iterator[None]:
    """The test's own random numbers go on as if nothing had been drawn in between."""
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()
    devices = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])
        torch.set_rng_state(states[2])
        if devices:
            torch.cuda.set_rng_state_all(devices)
