"""What a Determined trial is told and given: the context, names, batches, loaders, worker processes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from determined_programs import HEAD, Load, train


def test_what_the_context_tells(load_determined: Load) -> None:
    config = """
name: told
hyperparameters: {global_batch_size: 10, optimizer: {lr: 0.5}}
data: {url: "somewhere"}
resources: {slots_per_trial: 4}
searcher: {max_length: {epochs: 3}}
reproducibility: {experiment_seed: 11}
"""
    trial = load_determined(
        """
class T(Base):
    def __init__(self, context, hparams):
        super().__init__(context)
        assert hparams["optimizer"]["lr"] == context.get_hparam("optimizer")["lr"] == 0.5
        self.told = [
            context.get_global_batch_size(), context.get_per_slot_batch_size(), context.get_data_config(),
            context.get_experiment_config()["searcher"]["max_length"], context.get_trial_seed(),
            context.get_initial_batch(), context.distributed.get_rank(), context.distributed.get_size(),
            context.distributed.allgather("x"), context.get_stop_requested(), str(context.device),
            det.get_cluster_info().trial.hparams["global_batch_size"], torch.initial_seed(),
        ]
        context.get_tensorboard_writer().add_scalar("x", 1.0, 0)
    def train_batch(self, batch, epoch_idx, batch_idx):
        c = self.context
        told = (c.current_train_batch(), c.current_train_epoch(), c.is_epoch_start(), c.is_epoch_end(), c._epoch_len)
        return {"told": str(told)}
""",
        config,
    )
    told = trial.objects[0].told
    assert told == [8, 2, {"url": "somewhere"}, {"epochs": 3}, 11, 0, 0, 1, ["x"], False, "cpu", 10, 11]
    assert any("slots_per_trial is 4" in notice for notice in trial.notices)
    assert [metrics["told"] for metrics in train(trial, 7)][-2:] == ["(5, 0, False, True, 6)", "(6, 1, True, False, 6)"]


def test_models_are_named_as_the_trial_names_them(load_determined: Load) -> None:
    trial = load_determined("""
class T(Base):
    def __init__(self, context):
        self.context = context
        self.nets = [context.wrap_model(One()), context.wrap_model(One())]
        self.heads = {"left": context.wrap_model(One())}
        context.wrap_model(One())
        self.opts = [context.wrap_optimizer(torch.optim.SGD(net.parameters(), lr=1.0)) for net in self.nets]
        context.wrap_optimizer(torch.optim.SGD(self.heads["left"].parameters(), lr=1.0))
""")
    assert list(trial.models) == ["nets.0", "nets.1", "heads.left", "model3"]
    assert list(trial.optimizers) == ["opts.0", "opts.1", "optimizer2"]


def test_batches_are_moved_and_converted(load_determined: Load) -> None:
    trial = load_determined("""
import numpy as np
class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 2
    def __getitem__(self, i):
        return {"x": np.float32(i), "name": f"row {i}", "pair": (np.int64(i), [i])}
def collate(rows):
    return {"x": np.array([r["x"] for r in rows]), "names": [r["name"] for r in rows], "pair": (rows[0]["pair"],)}
class T(Base):
    def build_training_data_loader(self):
        return DataLoader(Rows(), batch_size=2, collate_fn=collate)
""")
    (batch,) = trial.train_batches()
    assert torch.equal(batch["x"], torch.tensor([0.0, 1.0]))
    assert batch["names"] == ["row 0", "row 1"]


SPAWNED = """
from pathlib import Path
from mlcheck.trial.find import EntryOptions, load_trial
if __name__ == "__main__":
    trial = load_trial("model_def:T", EntryOptions(hparams={"global_batch_size": 1}))
    print(len([batch for batch in trial.train_batches()]), end="")
"""
IN_WORKERS = """
class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, i):
        return torch.tensor(float(i)), torch.tensor(1.0)
class T(Base):
    def build_training_data_loader(self):
        return DataLoader(Rows(), batch_size=2, num_workers=1, multiprocessing_context="spawn")
"""


def test_workers_that_start_afresh_find_the_stand_in(write: Callable[[str, str], Path]) -> None:
    write("model_def.py", HEAD + IN_WORKERS)
    write("drive.py", SPAWNED)
    done = subprocess.run([sys.executable, "drive.py"], capture_output=True, text=True, check=False)
    assert done.stdout == "2", done.stderr


def test_an_installed_determined_is_hidden_and_that_is_told(
    load_determined: Load, write: Callable[[str, str], Path]
) -> None:
    write("installed/determined/__init__.py", "raise ImportError('the real one')")
    sys.path.append(str(Path("installed").resolve()))
    assert any("stand-in" in notice for notice in load_determined("class T(Base): pass").notices)


def test_a_torch_loader_needs_the_checks_disabled(load_determined: Load) -> None:
    source = """
class T(Base):
    def __init__(self, context):
        super().__init__(context)
        {line}
    def loader(self):
        return torch.utils.data.DataLoader([(torch.ones(()), torch.ones(()))] * 4, batch_size=2)
"""
    trial = load_determined(source.format(line="context.experimental.disable_dataset_reproducibility_checks()"))
    assert len(list(trial.train_batches())) == 2
    with pytest.raises(Exception, match="disable_dataset_reproducibility_checks"):
        load_determined(source.format(line="pass"))
