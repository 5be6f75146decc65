"""Pretrained batch norms beside the data they are given: another scale, and what only looks like it."""

from __future__ import annotations

from collections.abc import Callable

import torch
from probe_programs import ask, classes, cross_entropy, says, trial_of
from torch import Tensor, nn

from mlcheck.core.outcome import Outcome
from mlcheck.trial.trial import Trial

RULE = "pretrained-norm-misfits"
Change = Callable[[Tensor], Tensor]


def as_it_is(x: Tensor) -> Tensor:
    return x


def fitted(steps: int, of_input: bool) -> nn.Sequential:
    """A body whose norms have seen so many batches of standardised inputs, the first of them the inputs themselves."""
    torch.manual_seed(0)
    first = [nn.BatchNorm2d(3)] if of_input else []
    body = nn.Sequential(
        *first, nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 8, 3), nn.BatchNorm2d(8)
    )
    for _ in range(steps):
        body(torch.randn(32, 3, 9, 9))
    return body


def tuned(change: Change, steps: int = 60, frozen: bool = True, of_input: bool = False) -> Trial:
    """A head on a body that was fitted before, frozen or not, on inputs that were changed."""

    class Tuned(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.head = fitted(steps, of_input), nn.Linear(8, 5)

        def forward(self, x: Tensor) -> Tensor:
            if frozen:
                self.body.eval()
            return self.head(self.body(x).mean((2, 3)))

    return trial_of(Tuned(), [(change(x), y) for x, y in classes(3, 9, 9)], cross_entropy)


def test_pixels_where_standardised_inputs_are_known() -> None:
    says(ask(RULE, tuned(lambda x: x / 60)), Outcome.WARN, "`body.1 (BatchNorm2d)` spreads 0.016", "16 channels alike")
    says(ask(RULE, tuned(lambda x: 128 + 50 * x)), Outcome.WARN)
    says(ask(RULE, tuned(lambda x: x / 60, frozen=False)), Outcome.WARN)


def test_inputs_of_the_scale_that_is_known() -> None:
    says(ask(RULE, tuned(as_it_is)), Outcome.PASS, "as wide as its running statistics")
    says(ask(RULE, tuned(lambda x: 0.6 * x + 0.3)), Outcome.PASS)
    says(ask(RULE, tuned(lambda x: x / 3, frozen=False)), Outcome.PASS)


def test_few_channels_tell_by_a_large_factor_only() -> None:
    says(ask(RULE, tuned(lambda x: x / 60, of_input=True)), Outcome.WARN, "3 channels alike")
    says(ask(RULE, tuned(lambda x: x / 4, of_input=True)), Outcome.PASS)


def test_another_subject_does_not_change_all_channels_alike() -> None:
    smooth = nn.AvgPool2d(5, 1, 2)
    says(ask(RULE, tuned(lambda x: 5 * smooth(x))), Outcome.PASS)


class Held:
    """A program with a network beside the one that it trains."""

    def __init__(self, teacher: nn.Module) -> None:
        self.teacher = teacher


def taught(change: Change, of_the_model: bool = False) -> Trial:
    held = Held(fitted(60, of_input=False).eval().requires_grad_(False))

    def loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        said = model(batch[0])
        with torch.no_grad():
            advice = held.teacher(change(1e-3 * said if of_the_model else batch[0]))
        return (said.mean((2, 3)) - advice.mean((1, 2, 3))[:, None]).square().mean()

    trial = trial_of(nn.Conv2d(3, 3, 3, padding=1), classes(3, 9, 9), loss)
    trial.objects = (held,)
    return trial


def test_a_teacher_beside_the_model() -> None:
    says(ask(RULE, taught(lambda x: x / 60)), Outcome.WARN, "`teacher.1 (BatchNorm2d)` spreads 0.016")
    says(ask(RULE, taught(as_it_is)), Outcome.PASS)
    assert ask(RULE, taught(as_it_is, of_the_model=True)).outcome is Outcome.SKIP  # it has not learnt to paint yet


def test_fresh_norms_and_a_pass_to_try_a_shape_tell_nothing() -> None:
    for steps in (0, 1):
        assert ask(RULE, tuned(lambda x: x / 60, steps)).outcome is Outcome.SKIP
