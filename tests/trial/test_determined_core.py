"""A loop of one's own that reports to Determined's core API is followed as any script, as if off the cluster."""

from __future__ import annotations

from pathlib import Path

import pytest
from probe_programs import ask
from script_programs import HEAD
from test_script import LoadScript

from mlcheck.core.outcome import Outcome
from mlcheck.trial.determined import core_api, package
from mlcheck.trial.sandbox import restored

LOOP = (
    HEAD
    + """
import determined as det

def main(core):
    steps = 0
    for operation in core.searcher.operations():
        while steps < operation.length:
            model.train()
            for data, target in train_loader:
                optimizer.zero_grad()
                loss = F.cross_entropy(model(data), target)
                loss.backward()
                optimizer.step()
                steps += 1
                if core.distributed.rank == 0:
                    core.train.report_training_metrics(steps_completed=steps, metrics={"loss": loss.item()})
            model.eval()
            with torch.no_grad():
                right = sum(model(data).argmax(1).eq(target).sum().item() for data, target in test_loader)
            core.train.report_validation_metrics(steps_completed=steps, metrics={"accuracy": right / 32})
            with core.checkpoint.store_path({"steps_completed": steps}) as (path, storage_id):
                torch.save(model.state_dict(), path / "model.pt")
            if core.preempt.should_preempt():
                return
            operation.report_progress(steps)
        operation.report_completed(right)

distributed = det.core.DistributedContext.from_torch_distributed()
with det.core.init(distributed=distributed) as core:
    main(core)
"""
)


@pytest.fixture(autouse=True)
def stand_in() -> None:
    package.install(None)


def test_such_a_loop_is_followed(load_script: LoadScript) -> None:
    trial = load_script(LOOP)
    assert ask("missing-zero-grad", trial).outcome is Outcome.PASS
    assert ask("missing-eval-mode", trial).outcome is Outcome.PASS
    with restored(trial):
        for index, batch in enumerate(trial.train_batches()):
            trial.train_step(batch, index)


def test_a_fault_in_it_is_found(load_script: LoadScript) -> None:
    assert ask("missing-zero-grad", load_script(LOOP.replace("optimizer.zero_grad()", "pass"))).outcome is Outcome.FAIL


def test_what_is_stored_is_there_for_the_rest_of_the_run(tmp_path: Path) -> None:
    (tmp_path / "weights").write_text("1 2 3")
    with core_api.Context(core_api.DistributedContext(), {"searcher": {"max_length": {"batches": 7}}}) as core:
        assert [operation.length for operation in core.searcher.operations()] == [7]
        kept = core.checkpoint.upload(tmp_path, {"steps_completed": 1})
        with core.checkpoint.restore_path(kept) as path:
            assert (path / "weights").read_text() == "1 2 3"
        core.checkpoint.delete(kept)
        with pytest.raises(FileNotFoundError, match="it is on the cluster"), core.checkpoint.restore_path(kept):
            pass
