"""A finding does not hang on what things are called: other names for models, losses and optimizers change nothing."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

from mlcheck.core.outcome import By, Severity
from mlcheck.lint.run import LintSettings, run_lint
from tests.pages import RULES

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
NAMED = re.compile(r"\b(?:" + "|".join(OTHER_NAMES) + r")\b")
WAYS = sorted((Path(__file__).parent / "fixtures" / "ways").glob("*.py"))
MARK = re.compile(r"# error: ([\w-]+)")
# A parameter that is called and handed on, and nothing else in the program says what it is.
ONLY_THE_NAME_TELLS = {("training-under-no-grad", "def train_epoch(model, optimizer, loader):")}
ONLY_THE_NAME_TELLS |= {("training-under-no-grad", "        loss.requires_grad = True")}
ONLY_THE_NAME_TELLS |= {("best-state-alias", "def fit(model, optimizer: torch.optim.Optimizer, loader, score):")}
ONLY_THE_NAME_TELLS |= {("half-without-scaling", '    model.to("cuda").to(torch.float16)')}
ONLY_THE_NAME_TELLS |= {("loss-keeps-graph", "average = loss if average is None else 0.9 * average + 0.1 * loss")}
ONLY_THE_NAME_TELLS |= {("loss-keeps-graph", '        totals["recon"] += losses["recon"]  # error')}
ONLY_THE_NAME_TELLS |= {("loss-keeps-graph", "        meter.update(loss, x.size(0))  # error")}
ONLY_THE_NAME_TELLS |= {("softmax-over-batch", "            winners = scores.argmax(dim=0)")}
ONLY_THE_NAME_TELLS |= {("trainer-contract", "        return loss\n\n\ndef run(")}
ONLY_THE_NAME_TELLS |= {("partial-checkpoint", "def save(model, path):\n    torch.save(model.state_dict, path)")}
ONLY_THE_NAME_TELLS |= {("parameter-not-in-optimizer", "critic_optimizer = optim.Adam(model.generator.parameters())")}
ONLY_THE_NAME_TELLS |= {("loss-rewrapped", "loss = torch.tensor(np.mean(errors), requires_grad=True)  # error")}
ONLY_THE_NAME_TELLS |= {("copied-line-unchanged", "total += loss_fn(inner, outputs).item()  # error")}
ONLY_THE_NAME_TELLS |= {("loss-term-without-gradient", "found = F.one_hot(logits.argmax(1), num_classes).permute(")}
# A field of what the library hands back, and an argument that it takes, which have that name alone.
ONLY_THE_NAME_TELLS |= {("accumulation-not-averaged", "answers.loss.backward()  # error")}
ONLY_THE_NAME_TELLS |= {("ignored-labels-counted", 'model(input_ids=batch["input_ids"]).logits.argmax(dim=-1)')}
ONLY_THE_NAME_TELLS |= {("softmax-twice", "torch.distributions.Categorical(logits=policy(state))")}
# What a rule reads off the names themselves: what is swapped, what is timed, what a training step hands back, and
# notes about what is averaged or differentiated.
ABOUT_NAMES = {"loss-args-swapped", "timing-without-sync", "lightning-contract", "mean-of-batch-means", "sqrt-at-zero"}
ABOUT_NAMES |= {"compute-metrics-wrong"}

Files = dict[str, str]
Alarms = set[tuple[str, str, int]]


def programs() -> Iterator[object]:
    """Programs, each with what is reported of it under the names that it has.

    One in which nothing would be renamed is the page's own test, which tests/test_rules.py runs.
    """
    for rule in RULES:
        for example in rule.examples if By.LINT in rule.by else ():
            text = "".join(example.files.values())
            told = any(name == rule.name and part in text for name, part in ONLY_THE_NAME_TELLS)
            about_config = any(name.endswith(".yaml") for name in example.files)
            usable = NAMED.search(text) and not told and not about_config and rule.name not in ABOUT_NAMES
            if example.kind == "bad" and usable:
                alarms = {(rule.name, path, line) for path, line in example.errors}
                yield pytest.param(example.files, alarms, rule.name, id=f"{rule.name}-line-{example.line}")
    for path in WAYS:
        code = path.read_text("utf-8")
        lines = enumerate(code.splitlines(), 1)
        alarms = {(name, "program.py", number) for number, line in lines for name in MARK.findall(line)}
        yield pytest.param({"program.py": code}, alarms, "", id=path.stem)


def renamed(code: str, kept: Collection[str]) -> str:
    lines = code.splitlines(keepends=True)
    names = [token for token in tokenize.generate_tokens(io.StringIO(code).readline) if token.type == tokenize.NAME]
    for token in reversed(names):
        if token.string in OTHER_NAMES and token.string not in kept:
            row, column = token.start
            line = lines[row - 1]
            lines[row - 1] = line[:column] + OTHER_NAMES[token.string] + line[column + len(token.string) :]
    return "".join(lines)


@pytest.mark.parametrize(("files", "alarms", "rule"), list(programs()))
def test_other_names(files: Files, alarms: Alarms, rule: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    kept = {part for name in files for part in Path(name).with_suffix("").parts}
    for name, code in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(renamed(code, kept), encoding="utf-8")
    assert alarms == {
        (result.rule, finding.location.path, finding.location.line)
        for result in run_lint(["."], LintSettings()).results
        if result.severity is not Severity.NOTE or result.rule == rule
        for finding in result.findings
    }
