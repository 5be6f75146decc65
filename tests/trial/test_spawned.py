"""Scripts that start their ranks by themselves: followed as one of them, and really run on several."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from probe_programs import ask, examined
from rank_programs import alarms, changed, run_ranks
from script_programs import FAULTS, SOUND

from mlcheck.core.outcome import Outcome
from mlcheck.trial.find import EntryOptions, load_trial
from mlcheck.trial.trial import Trial

Load = Callable[..., Trial]

# The sound script in the form of PyTorch's tutorial: a function that gets its rank, two processes, a group of its own.
SPAWNING = (
    SOUND.replace(
        'if __name__ == "__main__":\n',
        "def main(rank, world):\n"
        """\
    import os
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "localhost", "12355"
    torch.distributed.init_process_group("gloo", rank=rank, world_size=world)
""",
    )
    + """\
    torch.distributed.destroy_process_group()

if __name__ == "__main__":
    torch.multiprocessing.spawn(main, args=(NPROCS,), nprocs=NPROCS, join=True)
"""
)


@pytest.fixture
def load(driven: Callable[[Trial], Trial]) -> Load:
    def loaded(text: str, world: int = 0) -> Trial:
        Path("train.py").write_text(text, encoding="utf-8")
        return driven(load_trial("train.py", EntryOptions(world=world)))

    return loaded


def test_the_first_of_the_processes_is_followed(load: Load) -> None:
    trial = load(SPAWNING.replace("NPROCS", "2"))
    assert (trial.spawns, trial.slots) == (2, 2)
    assert any("starts its 2 processes with torch.multiprocessing.spawn" in notice for notice in trial.notices)
    for rule in ("missing-zero-grad", "missing-eval-mode", "train-not-restored"):
        assert ask(rule, trial).outcome is Outcome.PASS, rule


def test_a_fault_in_a_spawned_process_is_found(load: Load) -> None:
    right, wrong = FAULTS["missing-zero-grad"]
    verdict = ask("missing-zero-grad", load(SPAWNING.replace("NPROCS", "2").replace(right, wrong)))
    assert verdict.outcome is Outcome.FAIL


@pytest.mark.parametrize(
    ("processes", "world", "told"),
    [("0", 0, "as many as there are GPUs, none here"), ("8", 0, "--ranks 8"), ("3", 2, "--ranks 3")],
)
def test_ranks_that_are_not_run_say_why(load: Load, processes: str, world: int, told: str) -> None:
    result = examined(load(SPAWNING.replace("NPROCS", processes), world), "ranks-drift-apart")["ranks-drift-apart"]
    assert result.outcome is Outcome.SKIP
    assert told in result.reason


def spawning(source: str) -> str:
    """A program for torchrun, as one that spawns its two ranks."""
    head, body = source.split('dist.init_process_group("gloo")\n')
    body = "".join(f"    {line}\n" for line in body.splitlines())
    joins = '    dist.init_process_group("gloo", rank=rank, world_size=world)\n'
    calls = 'if __name__ == "__main__":\n    torch.multiprocessing.spawn(main, (2,), nprocs=2)\n'
    return f"{head}def main(rank, world):\n{joins}{body}\n{calls}"


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ("SEED", "0", ""),
        ("sampler.set_epoch(epoch)", "pass", "set-epoch-missing"),
        ("if rank == 0:", "if True:", "save-on-all-ranks"),
    ],
)
def test_spawned_ranks_are_really_run(tmp_path: Path, old: str, new: str, rule: str) -> None:
    seen = run_ranks(spawning(changed((old, new))), tmp_path)
    assert seen.whole
    assert set(alarms(seen)) == ({rule} if rule else set())
