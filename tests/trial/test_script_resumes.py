"""A script that goes on from the file it writes is started again with it: does its optimizer go on as well?"""

from __future__ import annotations

import pytest
from probe_programs import ask
from script_programs import HEAD, SOUND, LoadScript

from mlcheck.core.outcome import Outcome

RESUME = "resume-loses-state"
START = """
    import os
    start = 0
    if os.path.exists("last.pt"):
        state = torch.load("last.pt")
        model.load_state_dict(state["model"])
        start = state["epoch"] + 1
"""
SAVED = """        torch.save({"model": model.state_dict(), "epoch": epoch}, "last.pt")
"""
LOADS = (
    START
    + """        optimizer.load_state_dict(state["optimizer"])
"""
)
SAVED_WHOLE = SAVED.replace('"epoch"', '"optimizer": optimizer.state_dict(), "epoch"')
LOOP, TESTED = "    for epoch in range(args.epochs):\n", "        test(test_loader)\n"


def script(start: str, saved: str) -> str:
    goes_on = f"{start}    for epoch in range(start, args.epochs + 3):\n"
    return SOUND.replace(LOOP, goes_on).replace(TESTED, TESTED + saved)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            script(START, SAVED),
            "`last.pt`, from which the program goes on, holds no optimizer's state: after a restart",
        ),
        (script(START, SAVED_WHOLE), "goes on from `last.pt` without the state of an optimizer that is in it"),
        (
            script(START, SAVED).replace(
                "optim.Adam(model.parameters(), lr=3e-3)", "optim.SGD(model.parameters(), 0.1, 0.9)"
            ),
            "after a restart `momentum_buffer` of `optimizer` begins at 0",
        ),
        (
            script(START.replace('"epoch"] + 1', '"epoch"]'), SAVED.replace("epoch}", "epoch + 1}")),
            "after a restart `exp_avg`, `exp_avg_sq` of `optimizer` begin at 0",
        ),
    ],
)
def test_a_script_that_goes_on_without_its_optimizer(load_script: LoadScript, text: str, told: str) -> None:
    verdict = ask(RESUME, load_script(text))
    assert verdict.outcome is Outcome.FAIL, verdict
    assert told in verdict.findings[0].message
    assert verdict.findings[0].location.path == "train.py"
    assert "torch.load" in text.splitlines()[verdict.findings[0].location.line - 1]


@pytest.mark.parametrize(
    "text",
    [
        script(LOADS, SAVED_WHOLE),
        script(START, SAVED).replace("optim.Adam(model.parameters(), lr=3e-3)", "optim.SGD(model.parameters(), 0.1)"),
        script(
            LOADS.replace('state["optimizer"]', 'torch.load("optimizer.pt")'),
            SAVED + '        torch.save(optimizer.state_dict(), "optimizer.pt")\n',
        ),
    ],
    ids=["all is loaded", "nothing to remember", "in a file of its own"],
)
def test_a_script_that_goes_on_with_all_it_needs(load_script: LoadScript, text: str) -> None:
    verdict = ask(RESUME, load_script(text))
    assert verdict.outcome is Outcome.PASS, verdict


BEGINS_ANEW = START.replace('state["epoch"] + 1', "0")
PRETRAINED = (
    HEAD
    + """
import os
def train(count):
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(count):
        for data, target in train_loader:
            optimizer.zero_grad()
            F.cross_entropy(model(data), target).backward()
            optimizer.step()
        torch.save({"model": model.state_dict(), "epoch": epoch}, "pretrained.pt")

if not os.path.exists("pretrained.pt"):
    train(3)
model.load_state_dict(torch.load("pretrained.pt")["model"])
train(4)
"""
)
LAST = """    model.load_state_dict(torch.load("last.pt")["model"])
    test(test_loader)
"""


@pytest.mark.parametrize(
    "text",
    [
        SOUND,
        script(BEGINS_ANEW, SAVED),
        script(START.replace("last.pt", "other.pt"), SAVED),
        script("    start = 0\n", SAVED + LAST),
        PRETRAINED,
    ],
    ids=["nothing saved", "counts from 0", "another file", "loaded when it is over", "pretrained where it was not"],
)
def test_a_script_that_does_not_go_on_from_its_own_file(load_script: LoadScript, text: str) -> None:
    verdict = ask(RESUME, load_script(text))
    assert verdict.outcome is Outcome.SKIP, verdict
