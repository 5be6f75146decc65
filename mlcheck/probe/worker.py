"""The child: loads the user's program, measures it and judges, one rule at a time, and reports each to the parent."""

from __future__ import annotations

import os
import traceback
from pathlib import Path

import torch

from mlcheck.core.catalog import Catalog, rules_folder
from mlcheck.core.check import Verdict, checks_of
from mlcheck.core.cores import cores
from mlcheck.core.finding import Finding, Location
from mlcheck.core.fingerprint import fingerprints
from mlcheck.core.mistake import Mistake
from mlcheck.core.outcome import Outcome
from mlcheck.probe import checks
from mlcheck.probe.chosen import ENTRY_RULE
from mlcheck.probe.examination import Examination
from mlcheck.probe.job import Job
from mlcheck.probe.measure.place import raised_at
from mlcheck.probe.result import result_of, to_message
from mlcheck.trial.changes import Changes
from mlcheck.trial.channel import SCRATCH, Channel, connect
from mlcheck.trial.cpu_shim import CpuShim, advice
from mlcheck.trial.find import EntryOptions, load_trial
from mlcheck.trial.generators import seed_all
from mlcheck.trial.importing import folder_that_holds
from mlcheck.trial.lost_gpu import GpuLost, look_at_gpu
from mlcheck.trial.ran import Ran
from mlcheck.trial.reads import Reads
from mlcheck.trial.script.coroutine import on_common_ground
from mlcheck.trial.search import begun, examined_with
from mlcheck.trial.surroundings import machine, packages
from mlcheck.trial.traceback import error_line, user_frame, user_traceback
from mlcheck.trial.trackers import Trackers
from mlcheck.trial.trial import RejectedConfig, Trial, is_program

_REJECTED = "probe it with values that it accepts: --hp NAME=VALUE"
_ABSENT = "install it beside mlcheck, or install mlcheck where the program runs and start it from there"


def main(text: str) -> None:
    """Answer a job. What the user's code raises is reported here; a crash is reported by the parent."""
    channel, job = connect(), Job.loads(text)
    try:
        if is_program(job.entry):
            on_common_ground(lambda: _examine(channel, job))
        else:
            _examine(channel, job)
    except GpuLost as lost:
        channel.send({"kind": "gpu lost", "error": str(lost)})
    except Exception as error:
        channel.send({"kind": "failed", "error": error_line(error), "traceback": traceback.format_exc()})
    channel.finish()


def _examine(channel: Channel, job: Job) -> None:
    channel.send({"kind": "begun", "rule": job.rules[0] if ENTRY_RULE in job.rules else ""})
    if job.without_gpu:
        os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    torch.set_num_threads(min(torch.get_num_threads(), cores(), 4))
    channel.send({"kind": "environment", "environment": machine()})
    seed_all(job.seed)
    scratch = Path(os.environ[SCRATCH])
    reads = Reads(scratch / "reads")
    reads.begin()
    ran = Ran()
    ran.begin()
    changes = Changes(os.getcwd())
    changes.begin()
    shim = CpuShim()
    if job.cpu_shim:
        shim.install()
    trackers = Trackers(str(scratch))
    trackers.install()
    trial = _loaded(job, channel)
    channel.send({"kind": "ran", "files": ran.files()})
    if trial is None:
        return
    with reads.unheard():
        channel.send({"kind": "environment", "environment": packages(trial.entry[0])})
    channel.send({"kind": "notices", "notices": list(trial.notices)}, time_limit_s=job.time_limit)
    try:
        Examination(trial, job, channel).run(checks_of(checks, job.rules))
    finally:
        told = (shim.told(os.getcwd()), changes.told(), trackers.told())
        channel.send({"kind": "notices", "notices": [*filter(None, told)]})
        channel.send({"kind": "ran", "files": ran.files()})
    channel.send({"kind": "environment", "environment": fingerprints(reads.data(_ours(scratch)), os.curdir)})


def _ours(scratch: Path) -> tuple[str, ...]:
    """Where mlcheck itself reads."""
    return str(scratch), str(rules_folder()), str(Path(__file__).parent.parent)


def _loaded(job: Job, channel: Channel) -> Trial | None:
    """The trial; or None, with every open rule answered by the reason there is none."""
    options = EntryOptions(
        config=Path(job.config) if job.config else None,
        hparams=job.hyperparameters,
        seed=job.seed,
        prep=job.prep or None,
        arguments=job.arguments,
        world=job.ranks,
        cpu_shim=job.cpu_shim,
        epochs=job.epochs,
        grid=job.grid,
        memory_limit=job.memory_limit,
    )
    try:
        return load_trial(job.entry, begun(options))
    except RejectedConfig as error:
        line = f"the trial rejects its hyperparameters: {error}"
        _answer_all(job, channel, _broken(job.entry, line, error, Outcome.ERROR))
    except Mistake as error:
        cause = error.__cause__
        outcome = Outcome.ERROR if cause is None else Outcome.FAIL
        _answer_all(
            job, channel, _broken(job.entry, str(error), cause, outcome), user_traceback(cause) if cause else ""
        )
    except Exception as error:
        look_at_gpu()
        when = "run as it is" if is_program(job.entry) else "before its first step"
        line = f"{when}, the program raised {error_line(error)}"
        verdict = _broken(job.entry, line, error, Outcome.FAIL, examined_with(options))
        _answer_all(job, channel, verdict, user_traceback(error))
    except SystemExit as error:
        line = f"the entry point called sys.exit({error.code!r}) while it was loaded"
        _answer_all(job, channel, _broken(job.entry, line, error, Outcome.FAIL), user_traceback(error))
    return None


def _broken(entry: str, line: str, error: BaseException | None, outcome: Outcome, otherwise: str = "") -> Verdict:
    remedy = (_remedy(error, entry) if error else "") or otherwise
    finding = Finding(line, raised_at(error) if error else Location(), help=remedy)
    return Verdict(outcome, summary=line, findings=(finding,))


def _remedy(error: BaseException, entry: str) -> str:
    if isinstance(error, RejectedConfig):
        return _REJECTED
    if not isinstance(error, ModuleNotFoundError):
        return advice(error)
    name = error.name or ""
    folder = folder_that_holds(name, entry) if name else None
    if folder:
        return f"its code is in {folder}: start mlcheck there, or here with PYTHONPATH={folder}"
    importer, _ = user_frame(error.__traceback__) or ("", 0)
    if importer and name.isidentifier() and Path(importer).with_name(f"{name}.py").is_file():
        return f"{name}.py lies beside {Path(importer).name}: `from .{name} import ...` finds it, or PYTHONPATH does"
    return _ABSENT


def _answer_all(job: Job, channel: Channel, verdict: Verdict, trace: str = "") -> None:
    catalog = Catalog()
    reason = verdict.reason or "the entry point does not run"
    for rule in job.rules:
        own = verdict if rule == ENTRY_RULE else Verdict(Outcome.SKIP, reason=reason)
        result = result_of(catalog[rule], own, traceback=trace if rule == ENTRY_RULE else "")
        channel.send({"kind": "finished", "report": to_message(result)})
