"""The child: loads the user's program, measures it and judges, one rule at a time, and reports each to the parent."""

from __future__ import annotations

import os
import platform
import subprocess
import traceback
from importlib.metadata import version
from pathlib import Path

import torch

from mlcheck.core.catalog import Catalog
from mlcheck.core.check import Verdict, find_checks
from mlcheck.core.finding import Finding
from mlcheck.core.mistake import Mistake
from mlcheck.core.outcome import Outcome
from mlcheck.probe import checks
from mlcheck.probe.examination import Examination
from mlcheck.probe.job import Job
from mlcheck.probe.measure.place import raised_at
from mlcheck.probe.result import result_of, to_message
from mlcheck.trial.channel import Channel, connect
from mlcheck.trial.find import EntryOptions, load_trial
from mlcheck.trial.generators import seed_all
from mlcheck.trial.traceback import user_traceback
from mlcheck.trial.trial import RejectedConfig, Trial

ENTRY_RULE = "entry-does-not-run"


def main(text: str) -> None:
    """Answer a job. What the user's code raises is told; what it crashes, the parent tells."""
    channel, job = connect(), Job.loads(text)
    try:
        _examine(channel, job)
    except Exception as error:
        line = f"{type(error).__name__}: {error}".splitlines()[0]
        channel.send({"kind": "failed", "error": line, "traceback": traceback.format_exc()})
    channel.finish()


def _examine(channel: Channel, job: Job) -> None:
    channel.send({"kind": "begun", "rule": job.rules[0] if ENTRY_RULE in job.rules else ""})
    torch.set_num_threads(min(torch.get_num_threads(), _cores(), 4))
    channel.send({"kind": "environment", "environment": environment()})
    seed_all(job.seed)
    trial = _loaded(job, channel)
    if trial is None:
        return
    channel.send({"kind": "notices", "notices": list(trial.notices)}, time_limit_s=job.time_limit)
    found = [check for check in find_checks(checks) if check.rule in job.rules]
    Examination(trial, job, channel).run(found)


def _loaded(job: Job, channel: Channel) -> Trial | None:
    """The trial; or None, with every open rule answered by the reason there is none."""
    options = EntryOptions(
        config=Path(job.config) if job.config else None,
        hparams=job.hyperparameters,
        seed=job.seed,
        prep=job.prep or None,
        arguments=job.arguments,
    )
    try:
        return load_trial(job.entry, options)
    except RejectedConfig as error:
        _answer_all(job, channel, Verdict(Outcome.SKIP, reason=f"configuration rejected: {error}"))
    except Mistake as error:
        cause = error.__cause__
        outcome = Outcome.ERROR if cause is None else Outcome.FAIL
        _answer_all(job, channel, _broken(str(error), cause, outcome), user_traceback(cause) if cause else "")
    except Exception as error:
        line = f"building the trial raised {type(error).__name__}: {error}".splitlines()[0]
        _answer_all(job, channel, _broken(line, error, Outcome.FAIL), user_traceback(error))
    except SystemExit as error:
        line = f"the entry point called sys.exit({error.code!r}) while it was loaded"
        _answer_all(job, channel, _broken(line, error, Outcome.FAIL), user_traceback(error))
    return None


def _broken(line: str, error: BaseException | None, outcome: Outcome) -> Verdict:
    place = raised_at(error) if error else None
    finding = Finding(line, place) if place else Finding(line)
    return Verdict(outcome, summary=line, findings=(finding,))


def _answer_all(job: Job, channel: Channel, verdict: Verdict, trace: str = "") -> None:
    catalog = Catalog()
    reason = verdict.reason or f"the entry point does not run: {verdict.summary}"
    for rule in job.rules:
        own = verdict if rule == ENTRY_RULE else Verdict(Outcome.SKIP, reason=reason)
        result = result_of(catalog[rule], own, traceback=trace if rule == ENTRY_RULE else "")
        channel.send({"kind": "finished", "report": to_message(result)})


def environment() -> dict[str, str]:
    """What the results were obtained with."""
    cuda = torch.cuda.is_available()
    found = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": version("numpy"),
        "device": torch.cuda.get_device_name() if cuda else "CPU",
        "cores": str(_cores()),
        "cpu threads": str(torch.get_num_threads()),
        "platform": platform.platform(),
    }
    if cuda:
        found["CUDA"] = str(torch.version.cuda)
    commit = _commit()
    return {**found, "commit": commit} if commit else found


def _cores() -> int:
    """How many this process may use, which containers and schedulers limit."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _commit() -> str:
    """The commit of the user's repository, marked when files differ from it; empty outside one."""
    try:
        head = _git("rev-parse", "--short=12", "HEAD")
        return f"{head}, with changes" if _git("status", "--porcelain", "--untracked-files=no") else head
    except (OSError, subprocess.SubprocessError):
        return ""


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], capture_output=True, text=True, timeout=5, check=True)  # noqa: S603, S607
    return done.stdout.strip()
