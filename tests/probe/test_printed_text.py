"""Metrics read in what a program prints."""

from __future__ import annotations

import logging
import sys

import pytest

from mlcheck.probe.measure.validation.printed_text import Heard, metrics_in


def read(one: str, other: str) -> list[tuple[str, str, str]]:
    found = metrics_in(one.splitlines(), other.splitlines())
    return [(printed.kind, printed.one.text, printed.other.text) for printed in found if printed.changes]


@pytest.mark.parametrize(
    ("form", "kinds"),
    [
        ("accuracy {}", ["accuracy"]),
        ("epoch 3 | val_acc={} | lr 1e-3", ["accuracy"]),
        ("Test Accuracy: {}, Avg loss: 0.312", ["accuracy"]),
        ("precision {} recall 0.2", ["precision"]),
        ("f1-score: {}", ["f1"]),
        ("AUC ({})", ["auc"]),
        ("loss {}", []),
        ("train_acc {}", []),
        ("best accuracy {}", []),
        ("accelerator {}", []),
        ("Acc@5 {}", []),
        ("top-5 accuracy {}", []),
        ("vacc {}", []),
        ("Accuracy of the network on the 10000 images: {} %", ["accuracy"]),
        ("accuracy over 3 runs, loss {}, seconds 0.3", []),
    ],
)
def test_a_metric_is_a_number_after_its_name(form: str, kinds: list[str]) -> None:
    assert [kind for kind, *_ in read(form.format("0.913"), form.format("0.125"))] == kinds


def test_a_number_is_a_share_of_one_of_a_hundred_or_of_a_count() -> None:
    def shares(text: str) -> tuple[float, ...]:
        return metrics_in([f"accuracy {text}"], [f"accuracy {text}"])[0].one.shares

    assert shares("0.75") == (0.75,)
    assert shares("75.0%") == (0.75,)
    assert shares("75") == (75.0, 0.75)
    assert shares("24/32") == (0.75,)
    assert shares("3/0") == ()


def test_the_last_line_of_a_form_is_the_one_that_counts() -> None:
    assert read("acc 0.1\nacc 0.5\nloss 3", "acc 0.1\nacc 0.2") == [("accuracy", "0.5", "0.2")]


def test_a_loss_that_changes_its_sign_or_is_no_number_hides_no_accuracy() -> None:
    for loss in ("-1.5", "nan", "-inf", "3e-05"):
        assert read(f"loss {loss}, accuracy 0.9", "loss 0.1, accuracy 0.2") == [("accuracy", "0.9", "0.2")]
    assert read("accuracy 4x4", "accuracy 5x5") == []


def test_everything_said_is_heard_and_nothing_is_left_behind(capsys: pytest.CaptureFixture[str]) -> None:
    before = sys.stdout.write, logging.Logger.handle
    with Heard() as heard:
        print("one", 1)
        print("two\rthree", file=sys.stderr)
        logging.getLogger("quiet").error("four %d", 4)
    print("five")
    assert heard.lines[:4] == ["one 1", "two", "three", "four 4"]
    assert (sys.stdout.write, logging.Logger.handle) == before
    assert "one 1" in capsys.readouterr().out
