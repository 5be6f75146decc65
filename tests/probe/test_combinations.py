"""The rehearsal of a grid or a search: what is tried first, what is blamed, and what may be claimed."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from probe_programs import ask, classes, cross_entropy, mlp, trial_of

from mlcheck import project
from mlcheck.config import Config
from mlcheck.core.finding import Location
from mlcheck.core.mistake import Mistake
from mlcheck.core.outcome import Outcome
from mlcheck.core.report import Result
from mlcheck.probe.checks.combination_does_not_start import check, written
from mlcheck.probe.engine import ProbeOptions, run_probes
from mlcheck.probe.measure.measurement import NotMeasured
from mlcheck.probe.measure.search.combinations import Combinations, Fault
from mlcheck.probe.measure.search.covering import covering, in_order
from mlcheck.probe.measure.search.strategy import Strategy
from mlcheck.trial.search import Axis, Combination, Search, key_of
from mlcheck.trial.starts import NO_TIME, Start

RULE = "combination-does-not-start"
STARTS, ODD = Start("starts"), Start("fails", "ValueError: odd", "ValueError", ("net.py", 3))
OTHER = Start("fails", "KeyError: 'lion'", "KeyError", ("net.py", 9))
Answer = Callable[[Mapping[str, Any]], Start]
AXES = (
    Axis("lr", (0.1, 0.01, 0.001)),
    Axis("width", (96, 128, 192)),
    Axis("heads", (4, 6, 8)),
    Axis("optimizer", ("adam", "sgd", "lion")),
)


def rehearse(
    answer: Answer, *products: Iterable[Axis], middle: Combination | None = None, most: int = 10**6
) -> Strategy:
    """What comes of starts that go as `answer` says; after `most` of them there is no time."""
    search = Search(tuple(map(tuple, products)), is_grid=True)
    strategy = Strategy(search, middle)
    rows = itertools.chain.from_iterable(map(in_order, search.products))
    asked = itertools.count()
    running = strategy.run(rows, lambda: next(asked) < most)
    try:
        combination = next(running)
        while True:
            combination = running.send(answer(combination) if combination else STARTS)
    except StopIteration:
        return strategy


def divides(values: Mapping[str, Any]) -> Start:
    return STARTS if values["width"] % values["heads"] == 0 else ODD


def test_every_combination_comes_once_and_few_meet_every_value_and_pair() -> None:
    rows = list(in_order(AXES))
    assert len(rows) == len({key_of(row) for row in rows}) == 81
    for axis in AXES:
        assert {row[axis.name] for row in rows[:3]} == set(axis.values)
    pairs = {
        (one.name, a, other.name, b)
        for one, other in itertools.combinations(AXES, 2)
        for a, b in itertools.product(one.values, other.values)
    }
    met = [
        {(a, row[a], b, row[b]) for a, b in itertools.combinations([axis.name for axis in AXES], 2)}
        for row in rows[:20]
    ]
    assert set().union(*met) == pairs
    assert {key_of(row) for row in covering(AXES)} >= {
        key_of({axis.name: axis.values[i] for axis in AXES}) for i in (0, -1)
    }


def test_a_space_with_many_values_is_put_in_order_at_once() -> None:
    wide = [Axis(f"a{number}", tuple(range(9))) for number in range(12)]
    assert len(list(itertools.islice(in_order(wide), 400))) == 400


def test_values_that_do_not_go_together_are_named_and_no_others() -> None:
    found = rehearse(divides, AXES)
    assert [dict(fault.values) for fault in found.faults] == [{"width": 128, "heads": 6}]
    assert found.faults[0].is_narrow
    assert len(found.rehearsed) + found.like_failed == 81


def test_a_value_that_never_starts_is_named_alone() -> None:
    found = rehearse(lambda values: OTHER if values["optimizer"] == "lion" else STARTS, AXES)
    assert [dict(fault.values) for fault in found.faults] == [{"optimizer": "lion"}]
    assert sum(start.how == "fails" for _, start in found.rehearsed) == 1
    assert found.like_failed == 26


def test_two_faults_are_two() -> None:
    found = rehearse(lambda values: OTHER if values["optimizer"] == "lion" else divides(values), AXES)
    assert sorted(map(key_of, (fault.values for fault in found.faults))) == sorted(
        map(key_of, ({"width": 128, "heads": 6}, {"optimizer": "lion"}))
    )


def test_three_values_together() -> None:
    def answer(values: Mapping[str, Any]) -> Start:
        return ODD if (values["lr"], values["heads"], values["optimizer"]) == (0.1, 8, "sgd") else STARTS

    assert [dict(one.values) for one in rehearse(answer, AXES).faults] == [{"lr": 0.1, "heads": 8, "optimizer": "sgd"}]


def test_a_fault_of_the_first_combination_waits_for_one_that_starts() -> None:
    found = rehearse(lambda values: ODD if values["lr"] != 0.001 else STARTS, AXES)
    assert sorted(fault.values["lr"] for fault in found.faults) == [0.01, 0.1]
    assert all(len(fault.values) == 1 for fault in found.faults)


def test_where_none_starts_no_value_is_blamed() -> None:
    found = rehearse(lambda _: ODD, AXES, most=5)
    assert [(dict(fault.values), fault.fault) for fault in found.faults] == [({}, ODD)]


def test_the_examined_values_serve_where_none_of_the_grid_starts() -> None:
    middle = {"lr": 0.5, "width": 96, "heads": 4, "optimizer": "adam"}
    found = rehearse(lambda values: STARTS if values["lr"] == 0.5 else ODD, AXES, middle=middle)
    assert [fault.values["lr"] for fault in found.faults] == [0.1, 0.01, 0.001]


def test_a_failure_that_does_not_come_again_stays_open() -> None:
    times = itertools.count()
    found = rehearse(lambda values: ODD if values["width"] == 128 and not next(times) else STARTS, AXES)
    assert not found.faults
    assert [start.error for _, start in found.rehearsed if start.how == "unknown"] == [
        "it failed once, and not again: ValueError: odd"
    ]


def test_what_the_machine_cannot_do_blames_nobody() -> None:
    memory = Start("unknown", "it ran out of memory on this machine")
    found = rehearse(lambda values: memory if values["width"] == 192 else divides(values), AXES)
    assert [dict(fault.values) for fault in found.faults] == [{"width": 128, "heads": 6}]


def test_a_value_that_is_broken_by_itself_clears_nobody() -> None:
    def answer(values: Mapping[str, Any]) -> Start:
        return OTHER if values["dropout"] > 1 else ODD if values["optimizer"] == "lbfgs" else STARTS

    axes = (Axis("dropout", (0.5, 1.5)), Axis("optimizer", ("sgd", "lbfgs")))
    found = rehearse(answer, axes)
    assert [(dict(one.values), one.is_narrow) for one in found.faults if one.fault is ODD] == [
        ({"optimizer": "lbfgs"}, True)
    ]


def test_without_time_the_values_are_not_narrowed() -> None:
    asked = itertools.count()
    found = rehearse(lambda values: NO_TIME if next(asked) > 3 else divides(values), AXES)
    assert all(not fault.is_narrow for fault in found.faults)
    assert len(found.rehearsed) < 5


def test_sweeps_of_a_runner_have_parameters_of_their_own() -> None:
    other = (Axis("norm", ("batch", "layer")),)
    found = rehearse(
        lambda values: OTHER if values.get("norm") == "layer" else STARTS if "norm" in values else divides(values),
        AXES,
        other,
    )
    assert {tuple(fault.values.items()) for fault in found.faults} >= {(("norm", "layer"),)}
    assert len(found.faults) == 2


def seen(*starts: Start, planned: int | None = None, **others: Any) -> Combinations:
    rows = [({"width": number}, start) for number, start in enumerate(starts)]
    values = [("width", number) for number in range(planned or len(rows))]
    told = {"drawn": 0, "by_runner": False, "is_whole": True, "rehearsed": rows, "seconds": 8.0, **others}
    return Combinations(planned=planned or len(rows), values=values, **told)


def open_reason(found: Combinations) -> str:
    with pytest.raises(NotMeasured) as told:
        check(found)
    assert told.value.outcome is Outcome.INCONCLUSIVE
    return told.value.reason


def test_it_passes_only_where_all_were_tried() -> None:
    assert check(seen(STARTS, STARTS)).summary == "all 2 planned combinations start"
    rejected = check(seen(STARTS, Start("rejected", "too wide")))
    assert (rejected.outcome, rejected.looked_at) == (Outcome.PASS, 2)
    assert rejected.summary == "of 2 planned combinations 1 starts, 1 was rejected by the trial"
    drawn = check(seen(STARTS, STARTS, is_whole=False, drawn=8)).summary
    assert drawn == "all 2 combinations of the search (every value, every pair of values, 8 draws) start"


def test_what_was_not_tried_is_told() -> None:
    reason = open_reason(seen(STARTS, STARTS, planned=20))
    assert reason.startswith(
        "of 20 planned combinations 2 start, 18 were not tried, with `width=2`, `width=3`, `width=4` "
    )
    assert reason.endswith("(all take about 2 min: raise --time-limit and --budget)")
    memory = Start("unknown", "it ran out of memory on this machine")
    assert open_reason(seen(STARTS, memory)) == (
        "of 2 planned combinations 1 starts, 1 stayed open; `width=1`: it ran out of memory on this machine"
    )


def test_where_nothing_was_tried_that_is_told() -> None:
    assert open_reason(seen(planned=6)) == "none of 6 planned combinations was tried within 8 s: raise --time-limit"


def test_a_failure_names_values_error_and_place() -> None:
    place = Location("net.py", 3)
    values = {"heads": 6, "width": 128}
    fault = Fault(values, ODD.error, place, "Traceback of theirs", planned=2, is_narrow=True)
    verdict = check(seen(STARTS, ODD, planned=3, faults=[fault], like_failed=1))
    assert verdict.outcome is Outcome.FAIL
    assert verdict.summary == "of 3 planned combinations 1 starts, 2 do not"
    told = "`heads=6` with `width=128` does not start (2 of 3 combinations): ValueError: odd"
    assert (verdict.findings[0].message, verdict.findings[0].location) == (told, place)
    assert verdict.traceback == "Traceback of theirs"
    unsure = Fault(values, ODD.error, place, "", planned=2, is_narrow=False)
    message = check(seen(STARTS, ODD, faults=[unsure])).findings[0].message
    assert (
        message == "`heads=6` with `width=128` does not start, whichever of these values is to blame: ValueError: odd"
    )
    alone = Fault({"heads": 6}, ODD.error, place, "", planned=2, is_narrow=False)
    assert check(seen(STARTS, ODD, faults=[alone])).findings[0].message == "`heads=6` does not start: ValueError: odd"
    none = check(seen(ODD, ODD, faults=[Fault({}, ODD.error, place, "", planned=2, is_narrow=True)]))
    assert none.findings[0].message == "none of the 2 combinations that were tried starts: ValueError: odd"


def test_values_as_they_are_shown() -> None:
    assert written({"lr": 0.00031622776601683794}) == "`lr=0.000316228`"
    assert written({"data": "x" * 50}) == f"`data={'x' * 40}…`"
    assert written({"a": 1, "b": True, "c": None}) == "`a=1` with `b=True` and `c=None`"


def test_a_trial_that_cannot_be_started_again_is_left_alone() -> None:
    result = ask(RULE, trial_of(mlp(), classes(8), cross_entropy))
    assert (result.outcome, result.reason) == (Outcome.SKIP, "the program cannot be started in another process")


TRIAL = """
    import torch
    from determined import InvalidHP
    from determined.pytorch import DataLoader, PyTorchTrial
    from torch import nn

    class Trial(PyTorchTrial):
        def __init__(self, context):
            self.context = context
            width, heads = context.get_hparam("width"), context.get_hparam("heads")
            if {rejects}:
                raise InvalidHP("does not divide")
            self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
            self.model = context.wrap_model(self.attention)
            self.optimizer = context.wrap_optimizer(torch.optim.SGD(self.model.parameters(), context.get_hparam("lr")))

        def build_training_data_loader(self):
            return DataLoader(torch.randn(32, 4, self.context.get_hparam("width")), batch_size=8, shuffle=True)

        def build_validation_data_loader(self):
            return self.build_training_data_loader()

        def train_batch(self, batch, epoch_idx, batch_idx):
            loss = self.model(batch, batch, batch)[0].square().mean()
            self.context.backward(loss)
            self.context.step_optimizer(self.optimizer)
            return {{"loss": loss}}

        def evaluate_batch(self, batch):
            return {{"loss": self.model(batch, batch, batch)[0].square().mean()}}
"""
SEARCH = """
    hyperparameters:
      global_batch_size: 8
      lr: {type: log, base: 10, minval: -3, maxval: -1, count: 2}
      width: {type: categorical, vals: [24, 32]}
      heads: {type: categorical, vals: [4, 6]}
    searcher: {name: grid, metric: loss}
"""


def examine(folder: Path, program: str, **options: Any) -> Result:
    (folder / "program.py").write_text(dedent(program), encoding="utf-8")
    asked = ProbeOptions(folder=str(folder), only=(RULE,), time_limit=120.0, **options)
    report = run_probes(asked)
    assert not [told for told in report.notices if "restored" in told]
    return next(result for result in report.results if result.rule == RULE)


@pytest.mark.parametrize("rejects", [False, True])
def test_a_trial_over_a_grid(tmp_path: Path, rejects: bool) -> None:
    (tmp_path / "experiment.yaml").write_text(dedent(SEARCH), encoding="utf-8")
    program = TRIAL.format(rejects="width % heads" if rejects else "False")
    result = examine(tmp_path, program, entry="program.py:Trial", config=str(tmp_path / "experiment.yaml"))
    if rejects:
        assert result.outcome is Outcome.PASS, result
        assert result.summary == "of 8 planned combinations 6 start, 2 were rejected by the trial"
        return
    assert result.outcome is Outcome.FAIL, result
    (finding,) = result.findings
    assert finding.message.endswith("(2 of 8 combinations): AssertionError: embed_dim must be divisible by num_heads")
    assert "`heads=6`" in finding.message
    assert "`width=32`" in finding.message
    assert "lr" not in finding.message
    assert (
        finding.location.line
        == dedent(program)
        .splitlines()
        .index("        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)")
        + 1
    )
    assert result.summary == "of 8 planned combinations 6 start, 2 do not"


SCRIPT = """
    import argparse
    import torch
    from torch import nn

    parser = argparse.ArgumentParser()
    parser.add_argument("--groups", type=int)
    parser.add_argument("--channels", type=int)
    parser.add_argument("--out")
    args = parser.parse_args()
    norm = nn.GroupNorm(args.groups, args.channels)
    model = nn.Sequential(nn.Linear(4, args.channels), norm, nn.Linear(args.channels, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = torch.utils.data.DataLoader([(torch.randn(4), i % 2) for i in range(32)], 8, shuffle=True)
    for epoch in range(2):
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
"""
GRID = """
    template:
      train: python program.py --groups {groups} --channels {channels} --out {_output}
      test: python test.py --out {_output}
    default: {groups: 1}
    resource: [0]
    ---
    groups: [2, 3]
    channels: [8, 12]
"""


def test_a_script_over_a_runners_grid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "params.yaml").write_text(dedent(GRID), encoding="utf-8")
    (tmp_path / "program.py").write_text(dedent(SCRIPT), encoding="utf-8")
    asked = project.probe_options(Config(config="params.yaml"))
    assert asked is not None
    assert (asked.entry, asked.config, asked.arguments) == ("program.py", "", ())
    result = examine(tmp_path, SCRIPT, entry=asked.entry, grid=asked.grid)
    assert result.outcome is Outcome.FAIL, result
    assert "`groups=3`" in result.findings[0].message
    assert "`channels=8`" in result.findings[0].message
    assert result.findings[0].message.endswith("num_channels (8) must be divisible by num_groups (3)")
    assert result.summary == "of 4 planned combinations 3 start, 1 does not"


def test_a_grid_goes_with_the_script_that_it_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "params.yaml").write_text(dedent(GRID), encoding="utf-8")
    asked = project.probe_options(Config(entry="./test.py", config="params.yaml"))
    assert asked is not None
    assert asked.grid is not None
    assert asked.grid["sweeps"] == [{}]  # nothing that is swept reaches it
    with pytest.raises(Mistake, match=r"no command of the grid params\.yaml starts other\.py"):
        project.probe_options(Config(entry="other.py", config="params.yaml"))
