"""Small training programs as trials, ways to break them, and how to ask a probe about them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from mlcheck.core.check import Verdict, find_checks
from mlcheck.core.outcome import Outcome
from mlcheck.core.report import Result
from mlcheck.probe import checks
from mlcheck.probe.examination import Examination, measurements_of, optional_measurements  # type: ignore[attr-defined]
from mlcheck.probe.job import Job
from mlcheck.probe.measure.measurement import Measurement, NotMeasured, Unexplained
from mlcheck.probe.result import from_message
from mlcheck.trial.generators import seed_all
from mlcheck.trial.sandbox import restored
from mlcheck.trial.trial import Trial

Loss = Callable[[nn.Module, Any], Tensor]


def trial_of(
    model: nn.Module,
    batches: list[Any],
    loss: Loss,
    optimizer: torch.optim.Optimizer | None = None,
    step: Callable[[Any, int], Any] | None = None,
    evaluate: Callable[[Any], Any] | None = None,
) -> Trial:
    """A trial whose loop is the plainest there is, unless `step` or `evaluate` replace it."""
    # Fused, as the loop over parameters in Python would be most of a step of these models.
    optimizer = optimizer or torch.optim.Adam(model.parameters(), lr=3e-3, fused=True)

    def plain_step(batch: Any, _: int) -> dict[str, Tensor]:
        model.train()
        optimizer.zero_grad()
        value = loss(model, batch)
        value.backward()
        optimizer.step()
        return {"loss": value.detach()}

    def plain_evaluate(batch: Any) -> dict[str, float]:
        model.eval()
        with torch.no_grad():
            return {"val_loss": float(loss(model, batch))}

    return Trial(
        name="program",
        models={"model": model},
        optimizers={"optimizer": optimizer},
        train_step=step or plain_step,
        train_batches=lambda: iter(batches),
        evaluate_step=evaluate or plain_evaluate,
        validation_batches=lambda: iter(batches[:1]),
        owns_loop=True,
        entry=(__file__, 1),
        objects=(),
    )


def trial_on(
    training: Dataset[Any],
    validation: Dataset[Any] | None = None,
    model: nn.Module | None = None,
    loss: Loss | None = None,
    shuffle: bool = True,
    **loading: Any,
) -> Trial:
    """A trial that reads from data sets, with the loaders behind it known."""
    train_loader = DataLoader(training, batch_size=32, shuffle=shuffle, **loading)
    held_out = DataLoader(validation, batch_size=32, **loading) if validation is not None else None
    trial = trial_of(model or mlp(), [], loss or cross_entropy)
    trial.train_batches = lambda: iter(train_loader)
    trial.validation_batches = (lambda: iter(held_out)) if held_out is not None else None
    trial.loaders = {"training": train_loader, "validation": held_out}
    return trial


def cross_entropy(model: nn.Module, batch: Any) -> Tensor:
    return F.cross_entropy(model(batch[0]), batch[1])


def share(predicted: Tensor, truth: Tensor) -> float:
    return float((predicted == truth).float().mean())


def classes(*shape: int, classes: int = 5, batches: int = 4, size: int = 32) -> list[Any]:
    """Batches of random inputs with random labels: something to learn by heart, nothing to learn."""
    generator = torch.Generator().manual_seed(1)
    return [
        (torch.randn(size, *shape, generator=generator), torch.randint(classes, (size,), generator=generator))
        for _ in range(batches)
    ]


def mlp(features: int = 8, out: int = 5) -> nn.Sequential:
    return nn.Sequential(nn.Linear(features, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, out))


def on_classes(model: nn.Module, batches: int = 12) -> Any:
    return trial_of(model, classes(8, batches=batches), cross_entropy)


def regression(target: Tensor, last: nn.Module | None = None) -> Any:
    model = nn.Sequential(*mlp(8, 1), *([last] if last else []))
    batches = [(torch.randn(32, 8), target) for _ in range(3)]
    return trial_of(model, batches, lambda model, batch: F.mse_loss(model(batch[0]), batch[1]))


def broken(last: nn.Module) -> Trial:
    """An MLP with something between its output and cross_entropy."""
    return trial_of(nn.Sequential(*mlp(), last), classes(8), cross_entropy)


class Function(nn.Module):
    """A model whose forward is a function of its layers and its input."""

    def __init__(self, forward: Any, **layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleDict(layers)
        self._forward = forward

    def forward(self, x: Tensor) -> Tensor:
        return self._forward(self.layers, x)


def own_loop(*order: str) -> Trial:
    """A loop of `forward`, `zero`, `backward` and `step` in the order given."""
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(batch: Any, _: int) -> dict[str, Tensor]:
        loss = cross_entropy(model, batch)
        for word in order:
            {"zero": optimizer.zero_grad, "backward": loss.backward, "step": optimizer.step}[word]()
        return {"loss": loss.detach()}

    return trial_of(model, classes(8), cross_entropy, optimizer, step=step)


class Asked:
    """Verdicts on one trial, each thing measured once, as the engine does it."""

    def __init__(self, trial: Trial, seconds: float = 60.0) -> None:
        self._trial, self._seconds = trial, seconds
        self._kept: dict[type[Measurement], Measurement | NotMeasured] = {}

    def verdict(self, rule: str, options: Mapping[str, float] = MappingProxyType({})) -> Verdict:
        check = import_module(f"mlcheck.probe.checks.{rule.replace('-', '_')}").check
        measured: list[Measurement | None] = []
        for needed in measurements_of(check):
            found = self._measured(needed)
            if isinstance(found, NotMeasured) and needed not in optional_measurements(check):
                return Verdict(found.outcome, reason=found.reason)
            measured.append(None if isinstance(found, NotMeasured) else found)
        try:
            verdict = check(*measured, **options)
        except NotMeasured as reason:
            return Verdict(reason.outcome, reason=reason.reason)
        assert isinstance(verdict, Verdict)
        return verdict

    def _measured(self, needed: type[Measurement]) -> Measurement | NotMeasured:
        if needed not in self._kept:
            seed_all(0)
            with restored(self._trial) as state:
                try:
                    self._kept[needed] = needed.measure(self._trial, self._seconds)
                except NotMeasured as reason:
                    self._kept[needed] = reason
            assert not state.unrestored
            found = self._kept[needed]
            if isinstance(found, Unexplained) and found.is_unexplained():
                with restored(self._trial):
                    found.explain(self._trial)
        return self._kept[needed]


def ask(rule: str, trial: Trial, seconds: float = 60.0) -> Verdict:
    """The verdict of one probe, measured as the engine measures it."""
    return Asked(trial, seconds).verdict(rule)


class Answers:
    """Keeps the results of an examination."""

    def __init__(self) -> None:
        self.results: dict[str, Result] = {}

    def send(self, message: dict[str, Any]) -> None:
        if message["kind"] == "finished":
            result = from_message(message["report"])
            self.results[result.rule] = result


def examined(trial: Trial, *rules: str, seed: int = 0) -> dict[str, Result]:
    job = Job(
        entry="program", config="", hyperparameters={}, prep="", arguments=(), ranks=0, cpu_shim=False, seed=seed,
        time_limit=60.0, budget=600.0, rules=rules, dead={}, blocked={},
    )  # fmt: skip
    answers = Answers()
    Examination(trial, job, answers).run([check for check in find_checks(checks) if check.rule in rules])
    return answers.results


def says(verdict: Verdict, outcome: Outcome, *words: str) -> None:
    """The outcome, and every one of `words` somewhere in its summary or reason."""
    assert verdict.outcome is outcome, verdict.reason or verdict.summary
    for word in words:
        assert word in (verdict.summary + verdict.reason)


def fails(rule: str, trial: Trial) -> Verdict:
    verdict = ask(rule, trial)
    assert verdict.outcome is Outcome.FAIL, verdict.reason or verdict.summary
    assert verdict.findings
    return verdict
