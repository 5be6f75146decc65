"""What a script prints of right and of wrong predictions is judged as numbers are."""

from __future__ import annotations

import pytest
from probe_programs import says

from mlcheck.core.finding import Location
from mlcheck.core.outcome import Outcome
from mlcheck.probe.checks.metric_wrong import judge_printed
from mlcheck.probe.measure.validation.printed_metrics import PrintedMetrics
from mlcheck.probe.measure.validation.printed_text import Printed, metrics_in


def printed(kind: str, right: str, wrong: str, low: str = "", both: bool = True) -> PrintedMetrics:
    """What a script prints of right and of wrong predictions, and of scores below every threshold."""

    def told(*values: str) -> tuple[Printed, ...]:
        return tuple(metrics_in([f"val_{kind} {values[0]}"], [f"val_{kind} {values[1]}"]))

    lowered = told(low, wrong) if low else ()
    return PrintedMetrics(told(right, wrong), 3, 96, (1.0,), Location(), lowered=lowered, both_in_all=both)


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (printed("auc", "1.000", "0.000", "0.500"), "computed from decisions, not from scores"),
        (printed("f1", "0.165", "0.020"), "f1 is printed as 0.165 where every prediction is right"),
    ],
)
def test_a_printed_metric_that_falls_short(seen: PrintedMetrics, said: str) -> None:
    says(judge_printed(seen), Outcome.WARN, said)


@pytest.mark.parametrize(
    "seen",
    [printed("auc", "1.000", "0.000", "1.000"), printed("f1", "0.61", "0.0", both=False), printed("f1", "1", "0")],
)
def test_a_printed_metric_that_need_not_be_one(seen: PrintedMetrics) -> None:
    says(judge_printed(seen), Outcome.PASS, "follows the outputs")


def test_a_metric_that_ignores_its_outputs_beside_one_that_does_not() -> None:
    def judge(name: str) -> Outcome:
        lines = [f"epoch 3 {name} 0.165 auc {auc}" for auc in ("1.00", "0.00")]
        return judge_printed(
            PrintedMetrics(tuple(metrics_in(*([line] for line in lines))), 3, 96, (1.0,), Location())
        ).outcome

    assert judge("f1") is Outcome.WARN
    assert judge("accuracy") is Outcome.PASS
