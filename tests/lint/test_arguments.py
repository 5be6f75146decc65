"""What torch takes first is found by its name too, and nobody else's arguments are moved."""

from __future__ import annotations

import ast

import pytest

from mlcheck.lint.files.source import Source, parse

IMPORTS = "import torch\nimport torch.nn.functional as F\nfrom torch import nn, optim\nfrom torch.utils import data\n"


def read(line: str, imports: str = IMPORTS) -> str:
    """The last line of a file, as the rules get to see it."""
    source = parse("train.py", f"{imports}{line}\n".encode())
    assert isinstance(source, Source)
    return ast.unparse(source.tree.body[-1])


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("F.mse_loss(input=a, target=b)", "F.mse_loss(a, b)"),
        ("F.mse_loss(target=b, reduction='sum', input=a)", "F.mse_loss(a, b, reduction='sum')"),
        ("F.cross_entropy(a, weight=w, target=b)", "F.cross_entropy(a, b, weight=w)"),
        ("torch.argmax(input=torch.exp(input=a), dim=1)", "torch.argmax(torch.exp(a), dim=1)"),
        ("torch.save(f=path, obj=state)", "torch.save(state, path)"),
        ("torch.save(state, f=path)", "torch.save(state, path)"),
        ("torch.cat(tensors=[a, b], dim=0)", "torch.cat([a, b], dim=0)"),
        ("optim.SGD(lr=0.1, params=p)", "optim.SGD(p, lr=0.1)"),
        ("optim.lr_scheduler.StepLR(optimizer=o, step_size=3)", "optim.lr_scheduler.StepLR(o, step_size=3)"),
        ("data.DataLoader(dataset=d, shuffle=True)", "data.DataLoader(d, shuffle=True)"),
        ("model.load_state_dict(state_dict=s, strict=False)", "model.load_state_dict(s, strict=False)"),
    ],
)
def test_it_stands_in_its_place(line: str, meant: str) -> None:
    assert read(line) == meant


@pytest.mark.parametrize(
    "line",
    [
        "torch.where(mask, input=a, other=b)",
        "torch.searchsorted(sorted_sequence=s, input=a)",
        "F.cosine_embedding_loss(a, input2=b, target=c)",
        "F.mse_loss(*pair, target=b)",
        "torch.distributed.all_gather(tensor_list=parts, tensor=a)",
        "torch.nn.utils.vector_to_parameters(vec=v, parameters=p)",
        "optim.lr_scheduler.ChainedScheduler(schedulers=s, optimizer=o)",
        "F.mse_loss(target=b, **rest)",
        "torch.nn.Linear(in_features=3, out_features=4)",
        "train(input=a, target=b)",
        "helper.mse_loss(input=a, target=b)",
        "data.DataLoader(d, batch_size=3, sampler=s)",
    ],
)
def test_all_else_stays(line: str) -> None:
    assert read(line) == line


def test_another_function_of_the_name_is_left_alone() -> None:
    imports = "import torch\ntry:\n    import torch.nn.functional as F\nexcept ImportError:\n    from own import F\n"
    assert read("F.mse_loss(input=a, target=b)", imports) == "F.mse_loss(input=a, target=b)"
    assert read("F.mse_loss(input=a, target=b)", "from . import F, torch\n") == "F.mse_loss(input=a, target=b)"


def test_a_loss_held_in_a_name_is_called_so_too() -> None:
    held = f"{IMPORTS}criterion = nn.MSELoss()\n"
    assert read("criterion(target=b, input=a)", held) == "criterion(a, b)"
    either = f"{held}criterion = OwnLoss()\n"
    assert read("criterion(target=b, input=a)", either) == "criterion(target=b, input=a)"
    of_more = f"{IMPORTS}criterion = nn.CosineEmbeddingLoss()\n"
    assert read("criterion(a, b, target=c)", of_more) == "criterion(a, b, target=c)"
    unpacked = f"{held}model, criterion = build()\n"
    assert read("criterion(target=b, input=a)", unpacked) == "criterion(target=b, input=a)"
    assert read("self.loss(input=a, target=b)", f"{IMPORTS}self.loss = nn.L1Loss()\n") == "self.loss(a, b)"


def test_a_call_over_many_lines_or_deep_within_is_found() -> None:
    assert read("x = y + [\n  F.mse_loss(\n    input=a,\n    target=b,\n  )]") == "x = y + [F.mse_loss(a, b)]"
    inner = "def f():\n    from torch.nn import functional as G; return G.mse_loss(input=a, target=b)"
    assert "G.mse_loss(a, b)" in read(inner)
    assert isinstance(parse("deep.py", f"{IMPORTS}{'+'.join(['F.relu(input=a)'] * 900)}\n".encode()), Source)
