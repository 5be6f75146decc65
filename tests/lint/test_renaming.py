"""A finding does not hang on what things are called: other names for models, losses and optimizers change nothing."""

from __future__ import annotations

import io
import tokenize
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

from mlcheck.core.catalog import Catalog
from mlcheck.core.outcome import By
from mlcheck.lint.run import LintSettings, run_lint

OTHER_NAMES = {
    "model": "m",
    "net": "n",
    "network": "w",
    "loss": "value",
    "criterion": "c",
    "loss_fn": "measure",
    "generator": "g",
    "discriminator": "d",
    "encoder": "enc",
    "decoder": "dec",
    "classifier": "k",
    "logits": "z",
}
WAYS = sorted((Path(__file__).parent / "fixtures" / "ways").glob("*.py"))
# A parameter that is called and handed on, and nothing else in the program says what it is.
ONLY_THE_NAME_TELLS = {("training-under-no-grad", "def train_epoch(model, optimizer, loader):")}
ONLY_THE_NAME_TELLS |= {("best-state-alias", "def fit(model, optimizer: torch.optim.Optimizer, loader, score):")}
ONLY_THE_NAME_TELLS |= {("half-without-scaling", '    model.to("cuda").to(torch.float16)')}
ONLY_THE_NAME_TELLS |= {("loss-keeps-graph", "average = loss if average is None else 0.9 * average + 0.1 * loss")}
ONLY_THE_NAME_TELLS |= {("loss-keeps-graph", '        totals["recon"] += losses["recon"]  # error')}
ONLY_THE_NAME_TELLS |= {("loss-keeps-graph", "        meter.update(loss, x.size(0))  # error")}
ONLY_THE_NAME_TELLS |= {("softmax-over-batch", "            winners = scores.argmax(dim=0)")}
ONLY_THE_NAME_TELLS |= {("trainer-contract", "        return loss\n\n\ndef run(")}
ONLY_THE_NAME_TELLS |= {("partial-checkpoint", "def save(model, path):\n    torch.save(model.state_dict, path)")}
# What a rule reads off the names themselves: what is swapped, what is timed, what a training step hands back, and
# notes about what is averaged or differentiated.
ABOUT_NAMES = {"loss-args-swapped", "timing-without-sync", "lightning-contract", "mean-of-batch-means", "sqrt-at-zero"}

Files = dict[str, str]


def programs() -> Iterator[object]:
    for rule in Catalog():
        for example in rule.examples if By.LINT in rule.by else ():
            told = any(
                name == rule.name and text in "".join(example.files.values()) for name, text in ONLY_THE_NAME_TELLS
            )
            if example.kind == "bad" and not told and rule.name not in ABOUT_NAMES:
                yield pytest.param(example.files, id=f"{rule.name}-line-{example.line}")
    for path in WAYS:
        yield pytest.param({"program.py": path.read_text("utf-8")}, id=path.stem)


def renamed(code: str, kept: Collection[str]) -> str:
    lines = code.splitlines(keepends=True)
    names = [token for token in tokenize.generate_tokens(io.StringIO(code).readline) if token.type == tokenize.NAME]
    for token in reversed(names):
        if token.string in OTHER_NAMES and token.string not in kept:
            row, column = token.start
            line = lines[row - 1]
            lines[row - 1] = line[:column] + OTHER_NAMES[token.string] + line[column + len(token.string) :]
    return "".join(lines)


def alarms(files: Files, folder: Path, monkeypatch: pytest.MonkeyPatch) -> set[tuple[str, str, int]]:
    folder.mkdir()
    monkeypatch.chdir(folder)
    for name, code in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(code, encoding="utf-8")
    report = run_lint(["."], LintSettings())
    return {
        (result.rule, finding.location.path, finding.location.line)
        for result in report.results
        for finding in result.findings
    }


@pytest.mark.parametrize("files", list(programs()))
def test_other_names(files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = {part for name in files for part in Path(name).with_suffix("").parts}
    other = {name: renamed(code, kept) for name, code in files.items()}
    assert alarms(other, tmp_path / "other", monkeypatch) == alarms(files, tmp_path / "as_is", monkeypatch)
