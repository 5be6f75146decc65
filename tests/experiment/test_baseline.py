"""What is known of experiment configs is hidden like what is known of code, and told when it is fixed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mlcheck.cli import main

TWICE = "entrypoint: model_def:Trial\nhyperparameters:\n  lr: 0.1\n  lr: 0.2\nsearcher:\n  name: single\n"
CODE = "def loss(x, y):\n    import torch.nn.functional as F\n\n    return F.cross_entropy(x.softmax(1), y)\n"
MODEL = """\
from determined.pytorch import PyTorchTrial


class Trial(PyTorchTrial):
    def __init__(self, context):
        self.lr = context.get_hparam("lr")
"""

Out = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write("model_def.py", MODEL)
    write("experiment.yaml", TWICE)
    write("losses.py", CODE)


def write(name: str, text: str) -> None:
    Path(name).write_text(text, encoding="utf-8")


def found(capsys: Out, *arguments: str) -> set[tuple[str, str, str]]:
    capsys.readouterr()
    main(["lint", "--format", "json", *arguments])
    results = json.loads(capsys.readouterr().out)["results"]
    return {(r["rule"], f["location"]["path"], f["fingerprint"]) for r in results for f in r["findings"]}


def test_code_and_configs_share_a_baseline(capsys: Out) -> None:
    every = found(capsys)
    assert {(rule, path) for rule, path, _ in every} >= {
        ("duplicate-config-key", "experiment.yaml"),
        ("softmax-before-ce", "losses.py"),
    }
    assert all(len(fingerprint) == 32 for _, _, fingerprint in every)
    assert main(["lint", "--write-baseline"]) == 0
    entries = json.loads(Path("mlcheck-baseline.json").read_text(encoding="utf-8"))["findings"]
    assert {entry["fingerprint"] for entry in entries} == {fingerprint for _, _, fingerprint in every}
    assert found(capsys, "--baseline", "mlcheck-baseline.json") == set()
    write("experiment.yaml", "# moved\n" + TWICE)
    assert found(capsys, "--baseline", "mlcheck-baseline.json") == set()


def test_a_fixed_config_is_told_and_taken_out(capsys: Out) -> None:
    main(["lint", "--write-baseline"])
    write("experiment.yaml", TWICE.replace("  lr: 0.2\n", ""))
    capsys.readouterr()
    main(["lint", "--baseline", "mlcheck-baseline.json"])
    assert "1 finding fixed (duplicate-config-key in experiment.yaml)" in " ".join(capsys.readouterr().out.split())
    main(["lint", "--write-baseline"])
    entries = json.loads(Path("mlcheck-baseline.json").read_text(encoding="utf-8"))["findings"]
    assert {entry["rule"] for entry in entries} >= {"softmax-before-ce"}
    assert "duplicate-config-key" not in {entry["rule"] for entry in entries}
