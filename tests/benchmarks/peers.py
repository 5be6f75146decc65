"""What mlcheck's probes find, beside torchtest2, pytest-torch and torchdiag, on the same programs.

    pip install torchtest2 pytest-torch torchdiag
    python tests/benchmarks/peers.py

Each of `zoo_models/faulty.py` has one fault; a tool that complains has found it, and has named it where a complaint
says one of the words in the program's docstring. On sound programs every complaint is a false alarm. Each tool is
given what it takes: mlcheck the program; pytest-torch the model, a batch, the loss and the training step; torchtest2
and torchdiag the model, a batch, the loss and the optimizer. A tool that is not installed is left out.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import json
import re
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

MODELS = Path(__file__).with_name("zoo_models")
SOUND = [
    "vision:mlp", "vision:lenet", "vision:batch_norm_cnn", "vision:vision_transformer", "vision:spectral_norm",
    "vision:log_probabilities", "vision:strong_dropout", "tabular:wine", "tabular:logistic_regression",
    "tabular:linear_regression", "tabular:quantiles", "sequence:wave_cnn", "sequence:packed_gru",
    "sequence:masked_encoder", "sequence:character_lstm", "loops:frozen_backbone", "loops:mixup", "loops:clipped",
    "structured:segmentation", "vision:squeeze_excite",
]  # fmt: skip
PACKAGES = {"mlcheck": "mlcheck", "torchtest2": "torchtest2", "pytest-torch": "pytest_torch", "torchdiag": "torchdiag"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--one", nargs=2, metavar=("TOOL", "ENTRY"), help="print one tool's complaints as JSON")
    parser.add_argument("--verbose", action="store_true", help="print what the tools say")
    arguments = parser.parse_args()
    if arguments.one:
        tool, entry = arguments.one
        print(json.dumps(ASK[tool](entry)))
        return 0
    tools = [tool for tool, package in PACKAGES.items() if find_spec(package)]
    print(f"{'':<34}" + "".join(f"{tool:>14}" for tool in tools))
    totals = {tool: [0, 0, 0] for tool in tools}
    for entry in [*faulty(), *SOUND]:
        words = faulty().get(entry)
        row = []
        for tool in tools:
            said = complaints(tool, entry)
            named = any(re.search(word, text, re.IGNORECASE) for word in words or () for text in said)
            if words is None:
                totals[tool][2] += bool(said)
                row.append("false alarm" if said else "silent")
            else:
                totals[tool][0] += bool(said)
                totals[tool][1] += named
                row.append("named" if named else "found" if said else "-")
            if arguments.verbose:
                print(*(f"    {tool}: {text[:300]}" for text in said), sep="\n")
        print(f"{entry.removeprefix('faulty:'):<34}" + "".join(f"{cell:>14}" for cell in row), flush=True)
    count = len(faulty())
    for place, what in enumerate((f"found, of {count}", f"named, of {count}", f"false alarms, on {len(SOUND)}")):
        print(f"{what:<34}" + "".join(f"{totals[tool][place]:>14}" for tool in tools))
    return 0


def faulty() -> dict[str, list[str]]:
    """Entry to the words of a message that names the fault."""
    import ast

    body = ast.parse((MODELS / "faulty.py").read_text(encoding="utf-8")).body
    functions = [node for node in body if isinstance(node, ast.FunctionDef)]
    return {
        f"faulty:{f.name}": [re.escape(word) for word in (ast.get_docstring(f) or "").split(", ")] for f in functions
    }


def complaints(tool: str, entry: str) -> list[str]:
    """What the tool says of the program, in a process of its own; its crash is a complaint."""
    command = [sys.executable, __file__, "--one", tool, entry]
    done = subprocess.run(command, cwd=MODELS, capture_output=True, text=True, check=False)
    last = (done.stdout.strip().splitlines() or [""])[-1]
    if done.returncode or not last.startswith("["):
        return [f"crashed: {(done.stderr.strip().splitlines() or ['no output'])[-1]}"]
    said: list[str] = json.loads(last)
    return said


def program(entry: str) -> tuple[dict[str, Any], Any, Any]:
    """The program's parts and its first batch: inputs as the model takes them, and targets."""
    import torch

    sys.path.insert(0, str(MODELS))
    torch.manual_seed(0)
    module, name = entry.split(":")
    parts = getattr(importlib.import_module(module), name)()
    batch = next(iter(parts["train_loader"]))
    if isinstance(batch, dict):
        return parts, {key: value for key, value in batch.items() if key != "target"}, batch["target"]
    return parts, batch[0] if len(batch) == 2 else tuple(batch[:-1]), batch[-1]


def by_mlcheck(entry: str) -> list[str]:
    command = [sys.executable, "-m", "mlcheck", "probe", entry, "--format", "json"]
    done = subprocess.run(command, cwd=MODELS, capture_output=True, text=True, check=False)
    results = json.loads(done.stdout)["results"]
    bad = [result for result in results if result["outcome"] in ("fail", "warn", "error")]
    return [f"{r['rule']}: {r['findings'][0]['message'] if r['findings'] else r['reason']}" for r in bad]


def by_torchtest2(entry: str) -> list[str]:
    import torchtest2
    from torch.nn import functional as F

    parts, inputs, targets = program(entry)
    loss = parts.get("loss", F.cross_entropy)
    report = torchtest2.check_model(parts["model"], inputs, targets, loss_fn=loss, optimizer=parts["optimizer"])
    return [f"{r.name}: {r.message}" for r in report.results if str(r.status) in ("WARN", "FAIL")]


def by_torchdiag(entry: str) -> list[str]:
    import torchdiag
    from torch.nn import functional as F

    parts, inputs, targets = program(entry)
    model, loss = parts["model"], parts.get("loss", F.cross_entropy)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        torchdiag.summary(model)
        torchdiag.verify_step(model, parts["optimizer"], loss, inputs, targets)
        torchdiag.check_gradients(model)
        torchdiag.check_dead_neurons(model, inputs)
    return [line.strip() for line in printed.getvalue().splitlines() if line.strip().startswith(("•", "✗"))]


def by_pytest_torch(entry: str) -> list[str]:
    import pytest_torch
    from pytest_torch.training_loop import TrainingSetup, assert_optimizer_coverage, run_training
    from torch.nn import functional as F

    parts, inputs, targets = program(entry)
    model, loss = parts["model"], parts.get("loss", F.cross_entropy)

    def of_output(output: Any) -> Any:
        return loss(output, targets)

    setup = TrainingSetup(model, parts["optimizer"])
    step = (lambda _, batch: parts["train_step"](batch)) if "train_step" in parts else None
    batches = [batch for _, batch in zip(range(20), parts["train_loader"])]
    asked: list[Callable[[], Any]] = [
        lambda: pytest_torch.check_inference_contract(model.eval(), inputs),
        lambda: pytest_torch.assert_gradients_finite(model.train(), inputs, of_output),
        lambda: pytest_torch.assert_all_params_receive_grad(model.train(), inputs, of_output),
        lambda: assert_optimizer_coverage(model, parts["optimizer"]),
        lambda: pytest_torch.assert_overfits_one_batch(model.train(), inputs, of_output),
        lambda: run_training(lambda: setup, batches, step or plain(loss)).assert_healthy(),
    ]
    said = []
    for ask in asked:
        try:
            ask()
        except AssertionError as failed:
            said.append(str(failed))
    return said


def plain(loss: Any) -> Any:
    """The loop that every one of these programs has that brings none of its own."""

    def step(setup: Any, batch: Any) -> Any:
        model, optimizer = setup.model, setup.optimizer
        model.train()
        if isinstance(batch, dict):
            value = loss(model(**{k: v for k, v in batch.items() if k != "target"}), batch["target"])
        else:
            value = loss(model(*batch[:-1]), batch[-1])
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        return value.detach()

    return step


ASK = {"mlcheck": by_mlcheck, "torchtest2": by_torchtest2, "pytest-torch": by_pytest_torch, "torchdiag": by_torchdiag}

if __name__ == "__main__":
    sys.exit(main())
