"""Scripts that draw their own batches, or take all their data at once: driven from one forward pass to the next."""

from __future__ import annotations

import pytest
from probe_programs import ask, examined
from script_programs import DRAWN, HEAD, IN_ORDER, LoadScript

from mlcheck.core.outcome import Outcome
from mlcheck.trial.sandbox import restored


def test_a_script_without_loader_is_driven_from_one_forward_pass_to_the_next(load_script: LoadScript) -> None:
    trial = load_script(DRAWN)
    assert "without a DataLoader" in trial.notices[0]
    for rule in ("missing-zero-grad", "missing-eval-mode", "train-not-restored", "cannot-overfit-one-batch"):
        verdict = ask(rule, trial)
        assert verdict.outcome is Outcome.PASS, (rule, verdict.reason or verdict.summary)


@pytest.mark.parametrize("rule", ["missing-zero-grad", "missing-eval-mode", "train-not-restored"])
def test_a_fault_is_found_without_a_loader(load_script: LoadScript, rule: str) -> None:
    line = {"missing-zero-grad": "optimizer.zero_grad()", "missing-eval-mode": "model.eval()"}.get(
        rule, "model.train()"
    )
    verdict = ask(rule, load_script(DRAWN.replace(line, "pass")))
    assert verdict.outcome is Outcome.FAIL, verdict.reason or verdict.summary


LOOKS = """
for epoch in range(200):
    model.train()
    optimizer.zero_grad()
    output = model(x)
    F.cross_entropy(output[:40], y[:40]).backward()
    optimizer.step()
    model.eval()
    output = model(x)
    print(F.cross_entropy(output[40:], y[40:]).item())
"""


@pytest.mark.parametrize(("trains", "outcome"), [("model.train()", Outcome.PASS), ("pass", Outcome.FAIL)])
def test_a_look_in_evaluation_mode_that_records_gradients_is_no_training(
    load_script: LoadScript, trains: str, outcome: Outcome
) -> None:
    verdict = ask("train-not-restored", load_script(HEAD + LOOKS.replace("model.train()", trains)))
    assert verdict.outcome is outcome, verdict.reason or verdict.summary


WHOLE = """
class Graph(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(8, 32), nn.Linear(32, 5)
    def forward(self, x):
        return self.two(F.dropout(F.relu(self.one(x)), 0.5, training=self.training))

model = Graph()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for epoch in range(200):
    model.train()
    optimizer.zero_grad()
    F.cross_entropy(model(x)[:40], y[:40]).backward()
    optimizer.step()
    model.eval()
    with torch.no_grad():
        print((model(x)[40:].argmax(1) == y[40:]).float().mean().item())
"""


@pytest.mark.parametrize(("mode", "outcome"), [(", training=self.training", Outcome.PASS), ("", Outcome.FAIL)])
def test_one_look_at_all_data_after_each_step_is_an_evaluation(
    load_script: LoadScript, mode: str, outcome: Outcome
) -> None:
    verdict = ask("random-evaluation", load_script(HEAD + WHOLE.replace(", training=self.training", mode)))
    assert verdict.outcome is outcome, verdict.reason or verdict.summary


def test_nothing_is_said_about_batches_that_are_drawn_within_a_step(load_script: LoadScript) -> None:
    rules = ("non-finite-batch", "training-data-not-shuffled", "loader-slower-than-step", "label-out-of-range")
    found = {rule: result.outcome for rule, result in examined(load_script(DRAWN), *rules).items()}
    assert found == {**dict.fromkeys(rules, Outcome.SKIP), "label-out-of-range": Outcome.PASS}


LISTED = """
loader = DataLoader(TensorDataset(x, y), 20, shuffle=True)
for epoch in range(100):
    batches = list(enumerate(loader))
    model.train()
    for step, (inputs, labels) in batches:
        optimizer.zero_grad()
        F.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        print(F.cross_entropy(model(x), y).item())
"""


@pytest.mark.parametrize(("clears", "outcome"), [("optimizer.zero_grad()", Outcome.PASS), ("pass", Outcome.FAIL)])
def test_a_script_that_lists_its_batches_first_is_followed_through_the_list(
    load_script: LoadScript, clears: str, outcome: Outcome
) -> None:
    trial = load_script(HEAD + LISTED.replace("optimizer.zero_grad()", clears))
    assert "without a DataLoader" in trial.notices[0]
    verdict = ask("missing-zero-grad", trial)
    assert verdict.outcome is outcome, verdict.reason or verdict.summary


AFTER_THE_PASS = """
head = nn.Linear(5, 5)
optimizer.add_param_group({"params": head.parameters()})
loader = DataLoader(TensorDataset(x, y), 20)
for epoch in range(100):
    optimizer.zero_grad()
    answers, labels = zip(*[(model(inputs), labels) for inputs, labels in loader])
    F.cross_entropy(head(torch.cat(answers)), torch.cat(labels)).backward()
    optimizer.step()
"""


def test_a_loop_whose_batches_the_model_has_seen_trains_though_its_step_comes_after_it(load_script: LoadScript) -> None:
    assert not any("without a DataLoader" in notice for notice in load_script(HEAD + AFTER_THE_PASS).notices)


ONE_BATCH = """
x_all, y_all = next(iter(DataLoader(TensorDataset(x, y), len(x))))
for layer in range(3):
    for step in range(50):
        optimizer.zero_grad()
        F.cross_entropy(model(x_all), y_all).backward()
        optimizer.step()
"""


@pytest.mark.parametrize(("clears", "outcome"), [("optimizer.zero_grad()", Outcome.PASS), ("pass", Outcome.FAIL)])
def test_a_script_that_takes_all_its_data_at_once_is_followed_through_its_own_loop(
    load_script: LoadScript, clears: str, outcome: Outcome
) -> None:
    trial = load_script(HEAD + ONE_BATCH.replace("optimizer.zero_grad()", clears))
    assert "without a DataLoader" in trial.notices[0]
    assert ask("missing-zero-grad", trial).outcome is outcome


def test_a_script_that_cannot_be_followed_step_by_step_decides_nothing(load_script: LoadScript) -> None:
    """It calls no module, as the forward-forward example does: nothing tells where a step begins."""
    trial = load_script(HEAD + ONE_BATCH.replace("model(x_all)", "x_all @ model.body.weight[:5].T"))
    result = examined(trial, "missing-zero-grad")["missing-zero-grad"]
    assert result.outcome is Outcome.INCONCLUSIVE
    assert "ended after" in result.reason


def test_a_batch_that_cannot_be_had_twice_is_not_learnt_by_heart(load_script: LoadScript) -> None:
    verdict = ask("cannot-overfit-one-batch", load_script(IN_ORDER))
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "none can be had twice" in verdict.reason


IN_PARTS = """
for step in range(100):
    model.train()
    optimizer.zero_grad()
    F.cross_entropy(model(x), y).backward()
    optimizer.step()
    model.eval()
    with torch.no_grad():
        print([F.cross_entropy(model(part), of).item() for part, of in zip(x.split(16), y.split(16))])
"""


def test_parts_that_are_evaluated_one_after_the_other_are_no_two_evaluations_of_one(load_script: LoadScript) -> None:
    verdict = ask("random-evaluation", load_script(HEAD + IN_PARTS))
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "none can be evaluated twice" in verdict.reason


APART = """
class Blocks(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = [nn.ModuleList([nn.Linear(8, 8), nn.Linear(8, 5)]) for _ in range(2)]
        self.weights = nn.ParameterList([p for block in self.blocks for p in block.parameters()])
    def forward(self, x):
        votes = 0
        for rest, vote in self.blocks:
            votes = votes + vote(x)
            x = x - F.relu(rest(x))
        return x, votes

model = Blocks()
optimizer = torch.optim.Adam(model.parameters())
while True:
    index = torch.randint(64, (16,))
    optimizer.zero_grad()
    _, votes = model(x[index])
    F.cross_entropy(votes, y[index]).backward()
    optimizer.step()
"""


def test_weights_that_a_list_registers_are_one_with_those_of_their_blocks(load_script: LoadScript) -> None:
    verdict = ask("tied-weights-apart", load_script(HEAD + APART))
    assert verdict.outcome is Outcome.PASS, verdict.summary


def test_that_other_batches_cost_otherwise_does_not_make_a_weight_matter(load_script: LoadScript) -> None:
    verdict = ask("parameter-without-gradient", load_script(HEAD + APART))
    assert verdict.outcome is Outcome.WARN, verdict.summary
    assert "never got a gradient" in verdict.summary
    assert "change the loss" not in verdict.summary


AT_ONCE = """
answers = (x[:, :1] + 3 * torch.randn(96, 1) > 0).float()
given = x[:, :1]
model = nn.Sequential(nn.Linear(1, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
for epoch in range(3000):
    optimizer.zero_grad()
    F.binary_cross_entropy_with_logits(model(given), answers).backward()
    optimizer.step()
"""


def test_all_data_at_once_is_no_batch_of_one_and_may_be_more_than_a_small_model_holds(load_script: LoadScript) -> None:
    verdict = ask("cannot-overfit-one-batch", load_script(HEAD + AT_ONCE.replace("WIDTH", "4")))
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "13 trained numbers cannot hold 96 targets" in verdict.reason


def test_all_data_at_once_that_a_model_could_hold_and_does_not(load_script: LoadScript) -> None:
    blind = AT_ONCE.replace("WIDTH", "64").replace("model(given)", "model(0 * given)")
    verdict = ask("cannot-overfit-one-batch", load_script(HEAD + blind))
    assert verdict.outcome is Outcome.FAIL, verdict.reason or verdict.summary
    assert "96 samples cannot be overfitted" in verdict.summary


FOLLOWED_BY_A_TARGET = """
target = Net()
target.load_state_dict(model.state_dict())
memory = []
for step in range(400):
    state = x[step % 96 : step % 96 + 1]
    model.eval()
    with torch.no_grad():
        chosen = model(state).argmax(1)
    model.train()
    memory.append((state, chosen))
    if len(memory) >= 8:
        states, actions = (torch.cat(part) for part in zip(*memory[-8:]))
        value = model(states).gather(1, actions[:, None])
        with torch.no_grad():
            wanted = 1.0 + 0.9 * target(states).amax(1, keepdim=True)
        loss = F.mse_loss(value, wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(("clears", "outcome"), [("optimizer.zero_grad()", Outcome.PASS), ("pass", Outcome.FAIL)])
def test_a_network_that_is_asked_within_a_step_is_not_evaluated_there(
    load_script: LoadScript, clears: str, outcome: Outcome
) -> None:
    trial = load_script(HEAD + FOLLOWED_BY_A_TARGET.replace("optimizer.zero_grad()", clears))
    assert trial.evaluate_step is not None
    assert trial.validation_batches is not None
    with restored(trial):
        for turn in list(trial.validation_batches())[:4]:
            trial.evaluate_step(turn)
            trial.train_step(turn, 0)
    assert ask("missing-zero-grad", trial).outcome is outcome


CLOSURE = """
model.eval()
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.2, max_iter=4, max_eval=EVALUATIONS)
def closure():
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    return loss
for epoch in range(40):
    optimizer.step(closure)
    with torch.no_grad():
        print(F.cross_entropy(model(x), y).item())
"""


@pytest.mark.parametrize("evaluations", [2, 9])
@pytest.mark.parametrize("line", ["optimizer.zero_grad()", "pass"])
def test_a_step_that_is_given_a_closure_is_one_training_step(
    load_script: LoadScript, line: str, evaluations: int
) -> None:
    text = CLOSURE.replace("EVALUATIONS", str(evaluations)).replace("optimizer.zero_grad()", line)
    found = examined(load_script(HEAD + text), "missing-zero-grad", "parameter-never-changes", "initial-loss-too-high")
    assert found["missing-zero-grad"].outcome is (Outcome.FAIL if line == "pass" else Outcome.PASS)
    assert found["parameter-never-changes"].outcome is Outcome.PASS
    assert found["initial-loss-too-high"].looked_at == 1
