"""Programs started over and over in processes of their own, whatever they do there."""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from dataclasses import replace
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from mlcheck.trial.search import Combination
from mlcheck.trial.starts import NO_TIME, Start, answer_starts
from mlcheck.trial.trial import EntryOptions, Source

FUNCTION = """
    import ctypes, os, sys, time, urllib.error
    import torch
    from torch import nn

    started = []

    def build(act=""):
        started.append(act)
        assert started == [act]  # no start meets what another has left
        model = nn.Linear(4, 2)
        if act == "shape":
            model = nn.Linear(5, 2)
        if act == "type":
            raise TypeError(
                "no such thing")
        if act == "refuse":
            from determined import InvalidHP
            raise InvalidHP("too wide")
        if act == "huge":
            torch.empty(1 << 55)
        if act == "offline":
            try:
                raise urllib.error.URLError("no route")
            except OSError:
                raise RuntimeError("weights are not there")
        if act == "gpu":
            raise AssertionError("Torch not compiled with CUDA enabled")
        if act == "silent":
            assert act == "gpu" and torch.cuda.is_available()
        if act == "package":
            import flash_attn
        if act == "crash":
            ctypes.string_at(0)
        if act == "leave":
            os._exit(3)
        if act == "exit":
            sys.exit("bad value")
        if act == "hang":
            time.sleep(1000)
        data = [] if act == "empty" else [(torch.randn(8, 4), torch.randint(2, (8,)))]
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def train_step(batch):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(batch[0]), batch[1])
            loss.backward()
            optimizer.step()
            return {"loss": loss.item()}

        return {"model": model, "optimizer": optimizer, "train_loader": data, "train_step": train_step}
"""
SCRIPT = """
    import argparse, os, sys, time
    import torch
    from torch import nn

    parser = argparse.ArgumentParser()
    parser.add_argument("--kind", choices=["plain", "wrong", "never", "quits"])
    parser.add_argument("--out")
    args = parser.parse_args()
    model = nn.Linear(4, 2 if args.kind != "wrong" else 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    if args.kind == "quits":
        sys.exit(2)
    for step in range(0 if args.kind == "never" else 100_000):
        loss = nn.functional.cross_entropy(model(torch.randn(8, 4)), torch.ones(8).long())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        open(args.out, "a").write("stepped")
        time.sleep(0.1)
"""


def starts(source: Source, combinations: Sequence[Combination], seconds: float = 60.0) -> list[Start]:
    found: list[Start] = []

    def asking() -> Generator[Combination, Start, None]:
        for combination in combinations:
            start = yield combination
            found.append(start)

    answer_starts(asking(), source, seconds)
    return found


def source(folder: Path, text: str, entry: str, **options: Any) -> Source:
    (folder / entry.partition(":")[0]).write_text(dedent(text), encoding="utf-8")
    return Source(entry, EntryOptions(seed=0, **options), str(folder))


def acts(folder: Path, *names: str, seconds: float = 60.0) -> dict[str, Start]:
    of = source(folder, FUNCTION, "program.py:build")
    return dict(zip(names, starts(of, [{"act": name} if name else {} for name in names], seconds), strict=True))


def test_each_start_is_judged_by_itself(tmp_path: Path) -> None:
    found = acts(tmp_path, "", "type", "", "shape", "refuse", "crash", "leave", "exit", "empty", "plain")
    assert found[""] == found["plain"] == Start("starts")
    line = dedent(FUNCTION).splitlines().index("        raise TypeError(") + 1
    assert found["type"].error == "TypeError: no such thing"
    assert found["type"].place == (str(tmp_path / "program.py"), line)
    assert found["type"].traceback.endswith("TypeError: no such thing\n")
    assert "shapes cannot be multiplied" in found["shape"].error
    assert found["shape"].is_same(found["shape"])
    assert not found["shape"].is_same(found["type"])
    assert (found["refuse"].how, found["refuse"].error) == ("rejected", "too wide")
    assert found["crash"].error == "the process was ended by SIGSEGV"
    assert found["leave"].error == "the process exited with code 3"
    assert found["exit"].error == "SystemExit: bad value"
    assert found["empty"].error == "the training loader gives no batch"
    assert {found[name].how for name in ("type", "shape", "crash", "leave", "exit", "empty")} == {"fails"}


def test_what_the_machine_lacks_is_no_fault(tmp_path: Path) -> None:
    found = acts(tmp_path, "huge", "offline", "gpu", "silent", "package")
    assert {start.how for start in found.values()} == {"unknown"}
    assert "memory" in found["huge"].error
    assert "network" in found["offline"].error
    assert all("devices" in found[name].error for name in ("gpu", "silent", "package"))


def test_one_that_hangs_keeps_the_others_from_nothing_but_time(tmp_path: Path) -> None:
    began = time.monotonic()
    of = source(tmp_path, FUNCTION, "program.py:build")
    found = starts(of, [{}, {"act": "hang"}, {}], seconds=45)
    assert [start.how for start in found] == ["starts", "unknown", "starts"]
    assert "in time" in found[1].error
    assert time.monotonic() - began < 45


def test_without_time_nothing_is_known(tmp_path: Path) -> None:
    of = source(tmp_path, FUNCTION, "program.py:build")
    assert starts(of, [{}, {}], seconds=1) == [NO_TIME, NO_TIME]


def test_a_script_ends_with_its_first_step(tmp_path: Path) -> None:
    grid = {
        "script": "train.py",
        "words": ["--kind", "{kind}", "--out", "{_output}"],
        "default": {},
        "given": {"_output": "kept.txt"},
        "alias": {},
        "sweeps": [{"kind": ["plain", "wrong"]}],
    }
    of = source(tmp_path, SCRIPT, "train.py", arguments=("--kind", "plain", "--out", "kept.txt"), grid=grid)
    kinds = ("plain", "wrong", "never", "quits", "other")
    found = dict(zip(kinds, starts(of, [{"kind": kind} for kind in kinds]), strict=True))
    assert found["plain"].how == "starts"
    assert found["wrong"].how == "fails"
    assert "out of bounds" in found["wrong"].error
    assert found["never"].how == "unknown"
    assert found["quits"].error == "train.py ended with sys.exit(2) without a training step"
    assert found["other"].error.startswith("train.py refuses its arguments: argument --kind: invalid choice: 'other'")
    assert not found["other"].error.endswith("`--`")
    assert not (tmp_path / "kept.txt").exists()


MODULE = """
    import lightning
    import torch
    from torch import nn

    class Module(lightning.LightningModule):
        def __init__(self, groups=1):
            super().__init__()
            self.net = nn.Sequential(nn.Linear(4, 8), nn.GroupNorm(groups, 8), nn.Linear(8, 2))

        def training_step(self, batch, _):
            return nn.functional.cross_entropy(self.net(batch[0]), batch[1])

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

        def train_dataloader(self):
            data = torch.utils.data.TensorDataset(torch.randn(64, 4), torch.randint(2, (64,)))
            return torch.utils.data.DataLoader(data, 8, shuffle=True)
"""


def test_a_module_that_a_trainer_runs(tmp_path: Path) -> None:
    pytest.importorskip("lightning")
    of = replace(source(tmp_path, MODULE, "program.py:Module"), by_trainer=True)
    found = starts(of, [{}, {"groups": 3}, {"groups": 4}], seconds=240)
    assert [start.how for start in found] == ["starts", "fails", "starts"]
    assert found[1].error == "ValueError: num_channels (8) must be divisible by num_groups (3)"
