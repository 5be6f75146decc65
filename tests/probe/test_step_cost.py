"""What a step asks of the device, whether it is overhead, and which settings of its loader suit: judged and counted."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from probe_programs import ask, classes, cross_entropy, mlp, trial_of, trial_on
from torch import nn
from torch.nn.utils import rnn
from torch.utils.data import TensorDataset

from mlcheck.core.finding import Location
from mlcheck.core.outcome import Outcome
from mlcheck.probe.checks import step_mostly_overhead, sync_in_loop
from mlcheck.probe.measure.speed.operation_table import OperationTable, operations
from mlcheck.probe.measure.speed.step_calls import Call, StepCalls
from mlcheck.probe.measure.speed.step_overhead import StepOverhead, interval

HERE = Location("train.py", 12, symbol="step")


CPU = torch.device("cpu")


Read = Callable[[torch.Tensor, torch.Tensor], Any]


def reading(read: Read, move: bool = False) -> StepCalls:
    """The calls of a step that does `read(loss, outputs)` at its end."""
    model = mlp()
    optimizer = torch.optim.Adam(model.parameters())
    device = torch.device("cpu")

    def step(batch: Any, _: int) -> dict[str, Any]:
        inputs, labels = [part.to(device) for part in batch] if move else batch
        optimizer.zero_grad()
        outputs = model(inputs)
        loss = nn.functional.cross_entropy(outputs, labels)
        loss.backward()
        optimizer.step()
        return {"loss": read(loss, outputs)}

    return StepCalls.measure(trial_of(model, classes(8), cross_entropy, optimizer, step=step), 10.0)


ONCE: list[Read] = [
    lambda loss, _: loss.cpu().data.item(),
    lambda loss, _: loss.detach().to("cpu").numpy(),
    lambda _, outputs: sum(outputs.detach().cpu().argmax(1).tolist()),
]


@pytest.mark.parametrize(
    ("read", "what"),
    [
        (lambda loss, _: loss.item(), ".item()"),
        (lambda loss, _: float(loss.detach()), "float()"),
        (lambda loss, _: loss.detach().cpu().numpy(), ".cpu()"),
        (lambda _, outputs: outputs.argmax(1).tolist(), ".tolist()"),
        (lambda loss, _: 1 if loss > 0 else 0, "bool()"),
        (lambda loss, _: f"{loss.detach():.3f}", "printed"),
        (lambda _, outputs: outputs[outputs > 0].sum().detach(), "indexed by a mask"),
        (lambda _, outputs: outputs.detach().nonzero(), "nonzero"),
        (lambda _, outputs: outputs.detach().argmax(1).unique(), "unique"),
        (lambda loss, _: loss.detach().to("cpu"), '.to("cpu")'),
        (lambda loss, _: loss.detach().to(device=torch.device("cpu")), '.to("cpu")'),
        (lambda loss, _: print(loss.detach()), "printed"),
        (lambda loss, _: math.isnan(loss.detach()), "float()"),
        (lambda loss, _: max(loss, torch.zeros(())), "bool()"),
        (lambda _, outputs: 3 in outputs.argmax(1), "in"),
        (lambda _, outputs: torch.arange(outputs.argmax(1).max()), "arange()"),
        (lambda loss, _: torch.tensor([loss.detach(), 1.0]), "tensor()"),
        (lambda _, outputs: outputs[: outputs.argmax(1)[0]].sum().detach(), "as an index"),
        (lambda _, outputs: outputs.detach().__setitem__(outputs > 9, outputs.detach()[0, :0]), "indexed by a mask"),
        (lambda _, outputs: nn.functional.one_hot(outputs.argmax(1)), "one_hot without num_classes"),
        (lambda _, outputs: outputs.argmax(1).bincount(minlength=4), "bincount"),
        (lambda _, outputs: outputs.detach().repeat_interleave(outputs.argmax(1), 0), "repeat_interleave without"),
        (lambda _, outputs: nn.utils.get_total_norm([outputs.detach()]).item(), ".item()"),
    ],
)
def test_a_read_of_a_number_is_counted_with_its_line(read: Read, what: str) -> None:
    found = reading(read)
    assert found.waits[0].what.startswith(what)
    assert found.waits[0].times == 1.0
    assert found.waits[0].place.path.endswith("test_step_cost.py")


@pytest.mark.parametrize("read", ONCE)
def test_what_was_brought_to_the_cpu_is_read_there_at_no_cost(read: Read) -> None:
    assert sum(call.times for call in reading(read).waits) == 1


@pytest.mark.parametrize(
    "read",
    [
        lambda loss, _: loss.detach(),
        lambda loss, _: loss.detach().to(torch.float64),
        lambda _, outputs: outputs.shape[0],
        lambda _, outputs: torch.where(outputs > 0, outputs, 0).mean().detach(),
        lambda _, __: torch.ones(3).sum().item(),  # never was on the device
        lambda _, outputs: len(outputs),
        lambda _, outputs: outputs.detach().__setitem__(outputs > 0, 0.0),
        lambda _, outputs: nn.functional.one_hot(outputs.argmax(1), num_classes=9),
        lambda _, outputs: outputs.detach().repeat_interleave(2, 0),
        lambda loss, _: torch.tensor(loss.shape),
        lambda loss, _: loss.detach().to("cpu", non_blocking=True),
        lambda loss, _: loss.detach().to(CPU),  # may be any device
        lambda _, outputs: torch.distributions.Categorical(logits=outputs).entropy().mean().detach(),
        lambda loss, _: torch.distributions.Normal(loss.detach(), 1.0).log_prob(loss.detach()),
        lambda _, outputs: {outputs: (outputs.dtype, outputs.device.type == "cuda", outputs is None)},
    ],
)
def test_what_waits_for_nothing_is_not_counted(read: Read) -> None:
    assert reading(read).waits == ()


def test_where_the_step_moves_its_batch_itself_only_that_is_on_the_device() -> None:
    found = reading(lambda loss, _: loss.item(), move=True)
    assert [(call.what, call.times) for call in found.waits] == [(".item()", 1.0)]
    assert found.meant


def test_what_clipping_moves_to_the_gradients_is_no_move_of_the_program() -> None:
    model = mlp()
    optimizer = torch.optim.Adam(model.parameters())

    def step(batch: Any, _: int) -> dict[str, Any]:
        optimizer.zero_grad()
        loss = cross_entropy(model, batch)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return {"loss": loss.item(), "again": loss.item()}

    found = StepCalls.measure(trial_of(model, classes(8), cross_entropy, optimizer, step=step), 10.0)
    assert not found.meant
    assert sync_in_loop.check(found).outcome is Outcome.PASS


def test_a_batch_that_is_moved_to_the_cpu_by_name_was_there() -> None:
    def step(batch: Any, _: int) -> dict[str, Any]:
        inputs, labels = batch[0].to("cpu"), batch[1].to("cpu")
        return {"loss": nn.functional.cross_entropy(model(inputs), labels).detach()}

    model = mlp()
    assert StepCalls.measure(trial_of(model, classes(8), cross_entropy, step=step), 10.0).waits == ()


def test_what_an_average_of_torch_reads_itself_is_not_the_users() -> None:
    def step(batch: Any, _: int) -> dict[str, Any]:
        nn.functional.cross_entropy(model(batch[0]), batch[1]).backward()
        average.update_parameters(model)
        return {"averaged": int(average.n_averaged)}

    model = mlp()
    average = torch.optim.swa_utils.AveragedModel(model)
    both = nn.ModuleList([model, average])
    found = StepCalls.measure(trial_of(both, classes(8), cross_entropy, step=step), 10.0)
    assert [(call.what, call.times) for call in found.waits] == [("int()", 1.0)]


def test_what_packing_a_sequence_reads_itself_is_not_the_users() -> None:
    class Packed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn = nn.GRU(8, 4, batch_first=True)

        def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
            packed = rnn.pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
            said, _ = rnn.pad_packed_sequence(self.rnn(packed)[0], batch_first=True)
            return said.mean(1)

    rows = [(torch.randn(6, 5, 8), torch.tensor([5, 3, 5, 1, 2, 4]), torch.randint(4, (6,))) for _ in range(3)]
    trial = trial_of(Packed(), rows, lambda model, batch: nn.functional.cross_entropy(model(*batch[:2]), batch[2]))
    found = StepCalls.measure(trial, 10.0)
    assert [(call.what, call.times) for call in found.waits] == [(".cpu()", 1.0)]
    assert not found.meant


def test_what_a_framework_reads_in_its_own_loop_is_not_the_users() -> None:
    library = compile("def last(values): return values[-1].item()", "/env/site-packages/framework/loop.py", "exec")
    framework: dict[str, Any] = {}
    exec(library, framework)
    assert reading(lambda loss, _: framework["last"]([loss])).waits == ()


def waiting(*calls: Call, meant: bool = True, device: str = "cpu") -> StepCalls:
    return StepCalls(device, meant, calls, (), ())


def test_several_reads_a_step_are_reported_and_one_is_left_to_the_user() -> None:
    one, other = Call(HERE, ".item()", 1.0), Call(replace(HERE, line=14), ".cpu()", 2.0)
    assert sync_in_loop.check(waiting(one)).outcome is Outcome.PASS
    assert sync_in_loop.check(waiting()).outcome is Outcome.PASS
    verdict = sync_in_loop.check(waiting(other, one))
    assert verdict.outcome is Outcome.WARN
    (finding,) = verdict.findings
    assert "would wait on a GPU (here, on the CPU, it does not) 3 times" in finding.message
    assert (finding.location.line, finding.related[0].line) == (14, 12)
    assert "every step waits 3 times" in sync_in_loop.check(waiting(other, one, device="cuda")).findings[0].message


def test_of_many_places_a_sentence_names_three() -> None:
    calls = [Call(replace(HERE, line=line, symbol="Solver._advance"), "bool()", 2.0) for line in range(1, 8)]
    (finding,) = sync_in_loop.check(waiting(*calls)).findings
    assert "bool() at train.py:3, 2 times; and at 4 more lines; meanwhile" in finding.message


def test_what_to_do_about_masks_is_said_of_masks() -> None:
    mask = Call(HERE, "indexed by a mask", 4.0)
    assert "weigh by the mask" in sync_in_loop.check(waiting(mask)).findings[0].help
    assert "add up `loss.detach()`" in sync_in_loop.check(waiting(mask, Call(HERE, ".item()", 1.0))).findings[0].help


@pytest.mark.parametrize(
    ("text", "meant"),
    [('trainer = Trainer(devices="auto")\n', False), ('device = "cpu"\n', True), ("model.cuda()\n", True)],
)
def test_devices_of_a_trainer_are_the_framework_s_to_choose(text: str, meant: bool, tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    program.write_text(text, encoding="utf-8")
    trial = replace(trial_of(mlp(), classes(8), cross_entropy), entry=(str(program), 1))
    assert StepCalls.measure(trial, 10.0).meant is meant


def test_a_program_for_the_cpu_alone_is_told_without_an_alarm() -> None:
    verdict = sync_in_loop.check(waiting(Call(HERE, ".item()", 2.0), meant=False))
    assert verdict.outcome is Outcome.PASS
    assert ".item() at train.py:12" in verdict.summary


def test_a_framework_puts_on_a_device_what_names_none() -> None:
    masks = Call(replace(HERE, line=15), "indexed by a mask", 4.0)

    def placed(*calls: Call) -> StepCalls:
        return replace(waiting(*calls, meant=False), placed=True)

    assert sync_in_loop.check(placed(Call(HERE, ".item()", 3.0))).outcome is Outcome.WARN
    assert sync_in_loop.check(placed(Call(HERE, ".item()", 2.0), masks)).outcome is Outcome.PASS
    assert sync_in_loop.check(waiting(Call(HERE, ".item()", 30.0), meant=False)).outcome is Outcome.PASS


def overhead(*ratios: float, batches: int = 20_000, size: int = 4, calls: int = 400) -> StepOverhead:
    return StepOverhead(size, 0.002, batches, ratios, OperationTable(calls=calls), Location("train.py", 3))


LOOP = StepCalls("cpu", True, (), (), (Call(HERE, "", 900.0), Call(replace(HERE, line=2), "", 100.0)))


FEW = StepCalls("cpu", True, (), (), (Call(HERE, "", 20.0), Call(replace(HERE, line=2), "", 15.0)))


def test_a_step_that_does_not_grow_with_its_batch_is_overhead() -> None:
    (finding,) = step_mostly_overhead.check(overhead(1.0, 1.05, 1.02), FEW).findings
    assert "a batch of 4 is too small" in finding.message
    assert "up to 3.9 times as fast" in finding.message
    (finding,) = step_mostly_overhead.check(overhead(1.0, 1.05, 1.2), LOOP).findings
    assert "of its 1000 operations 90% are asked for at this line" in finding.message
    assert finding.location == HERE


def test_a_few_pairs_that_others_disturbed_do_not_hide_what_most_say() -> None:
    (finding,) = step_mostly_overhead.check(overhead(*(1.3, 1.35, 1.4) * 6, 1.2, 2.5, 0.7), FEW).findings
    assert "only 1.35 times as long" in finding.message
    assert interval((2.0, 1.0)) == (1.0, 2.0)
    assert interval(range(9)) == (1, 7)
    assert interval(range(15)) == (3, 11)


@pytest.mark.parametrize(
    ("seen", "outcome"),
    [
        (overhead(3.1, 3.4, 3.0), Outcome.PASS),
        (overhead(2.0, 1.9, 2.4), Outcome.PASS),
        (overhead(1.6, 1.7, 1.65), Outcome.INCONCLUSIVE),
        (overhead(1.7, 2.4, 2.3), Outcome.INCONCLUSIVE),
        (overhead(1.1, 1.1, 1.9), Outcome.INCONCLUSIVE),
        (overhead(1.0, 1.0, 1.0, batches=100), Outcome.PASS),  # a pass of a fifth of a second
        (overhead(1.0, 1.0, 1.0, calls=40), Outcome.PASS),  # 50 µs an operation: weights are read and updated
        (overhead(), Outcome.PASS),
    ],
)
def test_a_step_that_computes_or_is_soon_over_is_no_finding(seen: StepOverhead, outcome: Outcome) -> None:
    verdict = step_mostly_overhead.check(seen, FEW)
    assert verdict.outcome is outcome
    assert not verdict.findings


def test_a_short_pass_is_not_measured_any_further() -> None:
    verdict = ask("step-mostly-overhead", trial_on(TensorDataset(*classes(8, batches=1, size=320)[0])))
    assert verdict.outcome is Outcome.PASS
    assert "too little to be worth a look" in verdict.summary


def test_the_profiler_tells_what_a_step_consists_of() -> None:
    batches = classes(8)
    table = operations(trial_of(mlp(), batches, cross_entropy), batches[0])
    assert table.calls > 20
    assert {"aten::addmm", "aten::mm"} & {row.name for row in table.rows}
    assert table.figure()[0].data["rows"]
