"""A probe of a program says a word about the YAML that the cluster would refuse."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlcheck.cli.hints import config_hint
from mlcheck.config import Config

EXPERIMENT = """\
name: digits
entrypoint: python3 train.py
hyperparameters: {lr: 0.1}
searcher: {name: single, metric: accuracy, smaller_is_better: false, max_length: {batches: 100}}
"""


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (EXPERIMENT, ""),
        (EXPERIMENT + "max_restartz: 3\n", "(invalid-experiment-config): `mlcheck lint experiment.yaml`"),
        ("lr: 0.1\n", ""),
        ("a: [", ""),
    ],
    ids=["sound", "misspelt", "other", "no YAML"],
)
def test_a_config_with_findings_is_hinted_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("import argparse\n", encoding="utf-8")
    Path("experiment.yaml").write_text(text, encoding="utf-8")
    hints = config_hint("experiment.yaml", Config())
    assert [told in hint for hint in hints] == ([True] if told else [])


def test_a_config_that_is_not_there_is_told_by_whoever_needs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert config_hint("gone.yaml", Config()) == ()
