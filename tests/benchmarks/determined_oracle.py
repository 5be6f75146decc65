"""Whether a Determined trial trains here as under the real package: losses and metrics, bit by bit.

    python tests/benchmarks/determined_oracle.py model_def:Trial --config const.yaml --real VENV/bin/python

runs a few batches and one validation in the folder of the trial, once under mlcheck's stand-in and once under the
package that VENV has, each in a process of its own, and compares every number that `train_batch` and `evaluate_batch`
return. Random numbers begin anew before the trial is constructed, before data is first read and before every call, so
that what is compared is the loop; the order of a second epoch that is shuffled is another.
An `evaluate_full_dataset` is called with one batch at a time here, and is not compared.
`--prep` and `--hp` are those of `mlcheck probe`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SEED = 7


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("entry")
    parser.add_argument("--config", required=True)
    parser.add_argument("--prep", default="")
    parser.add_argument("--hp", action="append", default=[])
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--real", default=sys.executable, metavar="PYTHON")
    parser.add_argument("--under", choices=("real", "stand-in"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.under:
        print(json.dumps(_under_real(options) if options.under == "real" else _under_stand_in(options)))
        return 0
    ours, theirs = _run(sys.executable, "stand-in", arguments), _run(options.real, "real", arguments)
    first = next((i for i, (one, other) in enumerate(zip(ours, theirs)) if one != other), None)
    if len(ours) != len(theirs) or first is not None:
        print(f"{options.entry}: DIFFER: {len(ours)} and {len(theirs)} calls")
        for side in (ours, theirs):
            print("  ", side[first] if first is not None else side[-1:])
        return 1
    print(f"{options.entry}: the same: {len(ours)} calls, {sum(len(call[1]) for call in ours)} numbers")
    return 0


def _run(python: str, under: str, arguments: list[str]) -> list[Any]:
    with tempfile.TemporaryDirectory() as home:
        path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH", "")])])
        environment = {**os.environ, "HOME": home, "PYTHONPATH": path}
        command = [python, __file__, *arguments, "--under", under]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"under the {under} package it ended with {done.returncode}:\n{done.stderr[-3000:]}")
    found: list[Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _begin(seed: int = SEED) -> None:
    import random

    import numpy as np
    import torch

    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def _hyperparameters(options: argparse.Namespace) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    import yaml

    from mlcheck.trial.config import hyperparameters, read_config

    given = dict(one.split("=", 1) for one in options.hp)
    overrides = {name: yaml.safe_load(value) for name, value in given.items()}
    config = read_config(Path(options.config))
    return config, overrides, hyperparameters(config, overrides, options.config)


def _under_real(options: argparse.Namespace) -> list[Any]:
    from importlib import import_module
    from inspect import signature

    from determined import pytorch

    config, _, values = _hyperparameters(options)
    sys.path.insert(0, os.getcwd())
    if options.prep:
        module, name = options.prep.split(":")
        getattr(import_module(module), name)()
    module, name = options.entry.split(":")
    kind = getattr(import_module(module), name)
    calls: list[Any] = []
    plain = json.loads(json.dumps(values))
    every = config.get("optimizations", {}).get("aggregation_frequency", 1)
    starting = pytorch.init(hparams=plain, exp_conf=config, aggregation_frequency=every)
    with _recorded(kind, calls), starting as context:
        context._trial_seed = SEED
        _begin()
        arguments = {"hparams": plain} if "hparams" in signature(kind.__init__).parameters else {}
        trial = kind(context, **arguments)
        trainer = pytorch.Trainer(trial, context)
        trainer.fit(max_length=pytorch.Batch(options.steps), checkpoint_policy="none")
    return calls


def _under_stand_in(options: argparse.Namespace) -> list[Any]:
    from mlcheck.trial.find import EntryOptions, load_trial

    _, overrides, _ = _hyperparameters(options)
    sys.path.insert(0, os.getcwd())
    trial = load_trial(
        options.entry,
        EntryOptions(config=Path(options.config), hparams=overrides, prep=options.prep, device="cpu", seed=SEED),
    )
    calls: list[Any] = []
    with _recorded(type(trial.objects[0]), calls):
        _begin()
        for index, batch in enumerate(_batches(trial.train_batches, options.steps)):
            trial.train_step(batch, index)
        assert trial.validation_batches is not None
        assert trial.evaluate_step is not None
        for batch in trial.validation_batches():
            trial.evaluate_step(batch)
    return calls


def _batches(epoch: Callable[[], Iterator[Any]], count: int) -> Iterator[Any]:
    """Batches of as many epochs as it takes."""
    while count > 0:
        for batch in epoch():
            yield batch
            count -= 1
            if not count:
                return


@contextlib.contextmanager
def _recorded(kind: Any, calls: list[Any]) -> Iterator[None]:
    """Note what the trial's own methods return, and let every call begin with the same random numbers."""
    own = {}
    for name in ("train_batch", "evaluate_batch"):
        if name in dir(kind):
            own[name] = getattr(kind, name)
            setattr(kind, name, _noting(own[name], name, calls))
    own["build_validation_data_loader"] = kind.build_validation_data_loader
    kind.build_validation_data_loader = _beginning_after(kind.build_validation_data_loader)
    try:
        yield
    finally:
        for name, method in own.items():
            setattr(kind, name, method)


def _beginning_after(method: Any) -> Any:
    """The last thing that is built: what is drawn then decides the order of the first epoch."""

    def building(*args: Any) -> Any:
        loader = method(*args)
        _begin()
        return loader

    return building


def _noting(method: Any, name: str, calls: list[Any]) -> Any:
    import functools
    import inspect

    @functools.wraps(method)
    def noting(*args: Any, **kwargs: Any) -> Any:
        _begin(SEED + 1 + len(calls))
        metrics = method(*args, **kwargs)
        calls.append([name, _numbers(metrics)])
        return metrics

    noting.__signature__ = inspect.signature(method)  # type: ignore[attr-defined] # which arguments it takes is asked
    return noting


def _numbers(metrics: Any) -> dict[str, str]:
    import numpy as np
    import torch

    found = metrics if isinstance(metrics, dict) else {"loss": metrics}
    shown = {}
    for key, value in found.items():
        if isinstance(value, torch.Tensor):
            value = value.detach().cpu().numpy()
        with contextlib.suppress(TypeError, ValueError):
            shown[key] = np.asarray(value, dtype=np.float64).tobytes().hex()
    return shown


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
