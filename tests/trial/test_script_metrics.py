"""Metrics that a script only prints: read where every prediction is right, and where every one is wrong."""

from __future__ import annotations

import pytest
from probe_programs import ask, says
from script_programs import SOUND, LoadScript

from mlcheck.core.check import Verdict
from mlcheck.core.outcome import Outcome
from mlcheck.probe.checks.metric_wrong import judge_printed
from mlcheck.probe.measure.measurement import NotMeasured
from mlcheck.probe.measure.validation.printed_metrics import PrintedMetrics
from mlcheck.trial.script import driver
from mlcheck.trial.trial import Trial

PRINTED = "    print(right / len(loader.dataset))\n"
COUNTED = "            right += (model(data).argmax(1) == target).sum().item()\n"
FOUR = SOUND.replace("default=2", "default=6")
SHARE = "    print(f'accuracy {right / len(loader.dataset):.3f}')\n"
UNEVEN = FOUR.replace("TensorDataset(x[64:], y[64:]), 16", "TensorDataset(x[64:], y[64:]), 15")


def printing(line: str, counted: str = COUNTED, program: str = FOUR) -> str:
    assert PRINTED in program
    return program.replace(PRINTED, line).replace(COUNTED, counted)


LINES = """\
    print(f'accuracy {right / len(loader.dataset):.3f}')
    print(f'Test set: loss 0.31, Accuracy: {right}/{len(loader.dataset)} (5%)')
    print('Accuracy of the network on the 32 test images: %d %%' % (100 * right / 32))
    print(f'* Acc@1 {100 * right / 32:.2f} Acc@5 99.01')
    print(f'acc 0.21 | val_acc {right / 32:.2f} | best_val_acc 0.7')
    import logging; logging.getLogger('run').warning('acc %.4f', right / 32)
"""
RIGHT = {
    "whole": (printing(LINES), 6),
    "more than is evaluated": (
        printing(SHARE, program=FOUR.replace("TensorDataset(x[64:], y[64:]), 16", "TensorDataset(x[64:], y[64:]), 2")),
        1,
    ),
    "one evaluation only": (printing(SHARE, program=FOUR.replace("default=6", "default=1")), 1),
}
WRONG = {
    "divided by batches": (
        printing("    print(f'accuracy {right / len(loader):.3f}')\n"),
        "accuracy is printed as 16.000 where every prediction is right",
    ),
    "the wrong end": (
        printing(SHARE, COUNTED.replace("argmax", "argmin")),
        "accuracy is printed as 0.000 where every prediction is right",
    ),
    "compared with itself": (
        printing(
            SHARE.replace("accuracy", "val_acc"),
            COUNTED.replace("model(data).argmax(1)", "model(data) is data or target"),
        ),
        "accuracy is printed as 1.000 whether every prediction is right or every one is wrong",
    ),
    "a small last batch": (
        printing(
            "    print(f'accuracy {right / len(loader):.3f}')\n",
            COUNTED.replace(".sum().item()", ".float().mean().item()"),
            UNEVEN,
        ),
        "with the last batch right alone, 6.25 % of the samples, it is printed as 0.333",
    ),
}
UNKNOWN = {
    "no metric": printing("    print(f'loss {right:.3f}')\n"),
    "that of the training alone": printing(
        "    print(f'epoch 3: accuracy 0.412, validation loss {1 - right / 32:.3f}')\n"
    ),
    "two splits": printing(SHARE).replace(
        "        test(test_loader)\n", "        test(test_loader); test(train_loader)\n"
    ),
}


def judged(trial: Trial) -> Verdict:
    try:
        return judge_printed(PrintedMetrics.measure(trial, 60.0))
    except NotMeasured as reason:
        return Verdict(reason.outcome, reason=reason.reason)


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_printed_follows_the_outputs(load_script: LoadScript, name: str) -> None:
    program, count = RIGHT[name]
    verdict = judged(load_script(program))
    says(verdict, Outcome.PASS, "accuracy, as printed, follows the outputs")
    assert verdict.looked_at == count


@pytest.mark.parametrize("name", WRONG)
def test_what_is_printed_is_not_what_it_is_called(load_script: LoadScript, name: str) -> None:
    program, told = WRONG[name]
    verdict = judged(load_script(program))
    says(verdict, Outcome.WARN, told)
    assert verdict.findings[0].location.path == "train.py"


@pytest.mark.parametrize("name", UNKNOWN)
def test_nothing_is_said_of_what_is_not_known(load_script: LoadScript, name: str) -> None:
    assert judged(load_script(UNKNOWN[name])).outcome is Outcome.SKIP


def test_the_rule_asks_what_is_printed_where_nothing_is_returned(load_script: LoadScript) -> None:
    says(ask("metric-wrong", load_script(printing(SHARE))), Outcome.PASS, "as printed")


def test_a_script_that_starts_slowly_goes_on_when_its_steps_were_undone(
    load_script: LoadScript, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "_QUICK_S", 0.0)
    says(ask("metric-wrong", load_script(printing(SHARE))), Outcome.PASS, "as printed")
