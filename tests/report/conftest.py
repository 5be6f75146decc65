"""Reports to render: a small real-looking one with every outcome and figure, and a hostile one."""

import math
from typing import Any

import pytest

from mlcheck.core.finding import Figure, Finding, Location
from mlcheck.core.outcome import By, Outcome, Severity, Stage
from mlcheck.core.report import Report, Result

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="

FIGURES = (
    Figure(
        "curves",
        "Loss on one batch",
        {
            "series": [
                {"name": "yours", "y": [2.3, 1.9, math.nan, 1.7]},
                {"name": "Adam", "x": [0, 1], "y": [2.3, 0.1]},
            ],
            "lines": [{"name": "floor", "y": 0.05}],
            "x_label": "step",
            "y_label": "loss",
            "log_y": True,
        },
    ),
    Figure("bars", "Gradient norm", {"labels": ["net.0", "net.2"], "values": [0.5, -math.inf], "unit": "L2"}),
    Figure("matrix", "Confusion", {"rows": ["cat", "dog"], "columns": ["cat", "dog"], "values": [[5, 1], [None, -4]]}),
    Figure("images", "The batch", {"tiles": [{"png": PNG, "caption": "label 7"}]}),
    Figure("table", "Tensors", {"columns": ["name", "mean"], "rows": [["images", 0.25], ["labels", math.nan]]}),
    Figure("text", "Sample 0", {"text": "to be\n  or not"}),
)


def entry(rule: str, title: str, stage: Stage, by: By, outcome: Outcome, **more: Any) -> Result:
    return Result(rule, title, stage, more.pop("severity", Severity.ERROR), by, outcome, **more)


@pytest.fixture
def report() -> Report:
    return sample()


def sample() -> Report:
    softmax = Finding(
        "the output already sums to 1",
        Location("model.py", 42, 16, symbol="Net.forward"),
        "return logits: `CrossEntropyLoss` applies log-softmax itself",
        {"row sum": 1.0, "deviation": 3.1e-08},
        (Location("train.py", 8),),
    )
    read = Finding("`nn.Softmax` feeds `CrossEntropyLoss`", Location("model.py", 58, 9))
    overfit = Finding("loss 1.62 after 200 steps, above the floor of 0.05", Location("model.py", 42))
    crash = 'Traceback (most recent call last):\n  File "data.py", line 9, in get\nIndexError: 17'
    results = (
        entry("softmax-before-ce", "The loss receives logits", Stage.TRAINING, By.PROBE, Outcome.FAIL, seconds=1.24,
              summary="row sums 1.0000 over 64 rows", findings=(softmax,), explains=("cannot-overfit", "flat-start")),
        entry("softmax-before-ce", "The loss receives logits", Stage.TRAINING, By.LINT, Outcome.FAIL, findings=(read,)),
        entry("cannot-overfit", "One batch can be learned", Stage.VALIDATION, By.PROBE, Outcome.FAIL,
              findings=(overfit,), figures=FIGURES, seconds=6.8),
        entry("flat-start", "The first loss is as expected", Stage.TRAINING, By.PROBE, Outcome.WARN,
              findings=(Finding("gradients are 14 times too small"),), severity=Severity.WARNING),
        entry("loader-raises", "The loader runs to its end", Stage.DATA, By.PROBE, Outcome.ERROR, traceback=crash,
              reason="IndexError: 17"),
        entry("purpose-unstated", "The purpose is written down", Stage.SCOPE, By.SIGN_OFF, Outcome.PENDING,
              reason="nobody has signed this off yet"),
        entry("batch-dependence", "Samples do not mix", Stage.VALIDATION, By.PROBE, Outcome.INCONCLUSIVE,
              reason="two runs differ by 2e-3"),
        entry("missing-eval-mode", "Evaluation is in eval mode", Stage.VALIDATION, By.SIGN_OFF, Outcome.WAIVED,
              reason="waived by Ada on 2026-11-02, without end: no dropout here"),
        entry("missing-eval-mode", "Evaluation is in eval mode", Stage.VALIDATION, By.LINT, Outcome.WARN,
              findings=(Finding("`validate` runs in train mode", Location("train.py", 20)),)),
        entry("clip-before-unscale", "Gradients are unscaled first", Stage.SPEED, By.LINT, Outcome.SKIP,
              reason="no GradScaler in 4 files"),
        entry("unused-parameter", "Every parameter learns", Stage.TRAINING, By.PROBE, Outcome.PASS, seconds=0.061,
              summary="6 of 6 parameters changed", looked_at=6, numbers={"parameters": 6}),
    )  # fmt: skip
    return Report(
        "check",
        "model:Net",
        results,
        {"python": "3.11.7", "torch": "2.13.0"},
        "2026-11-21T14:31:19+00:00",
        9.25,
        ("the whole report: report.html",),
    )


HOSTILE = (
    "</script><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "[bold red]x[/bold red][/] [link=file:///etc]y[/link]",
    "\x1b[31mred\x1b[0m\x1b]0;title\x07\x9b2J",
    "nul\x00 bell\x07 back\x08 delete\x7f",
    "right \u202egnp.exe\u202c to left \u2066x\u2069 \u200f",
    "lone \udcff surrogate",
    "{{ 7 * 7 }} {% raw %}",
    "line\r\nbreak\u2028and\u2029more",
    "``` `code` ** __ | <!-- --> @someone",
    "",
)


@pytest.fixture(params=HOSTILE, ids=range(len(HOSTILE)))
def hostile(request: pytest.FixtureRequest) -> Report:
    return made(request.param)


@pytest.fixture(scope="session")
def endless() -> Report:
    """Ten megabytes in every place."""
    return made("</script>" * 1_111_111)


def made(bad: str) -> Report:
    """The same text in every place that a user, a file or a framework can write."""
    place = Location(bad, 1, 2, symbol=bad)
    finding = Finding(bad, place, bad, {bad: 1.0}, (place,))
    figures = (
        Figure("curves", bad, {"series": [{"name": bad, "y": [1, 2]}], "lines": [{"name": bad, "y": 1}], "x_label": bad,
                               "y_label": bad}),
        Figure("bars", bad, {"labels": [bad], "values": [1], "unit": bad}),
        Figure("matrix", bad, {"rows": [bad], "columns": [bad], "values": [[1]]}),
        Figure("images", bad, {"tiles": [{"png": PNG, "caption": bad}, {"png": bad, "caption": bad}]}),
        Figure("table", bad, {"columns": [bad], "rows": [[bad]]}),
        Figure("text", bad, {"text": bad}),
        Figure(bad, bad, {bad: bad}),
    )  # fmt: skip
    results = tuple(
        entry(f"rule-{outcome}{bad}", bad, Stage.DATA, by, outcome, summary=bad, reason=bad, findings=(finding,),
              figures=figures, numbers={bad: 2.0}, traceback=bad, explains=(bad,))
        for outcome in Outcome for by in By
    )  # fmt: skip
    return Report(bad, bad, results, {bad: bad}, bad, 1.0, (bad,))
