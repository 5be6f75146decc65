"""A small program that can be probed."""

import pytest

ENTRY = """\
import torch
from torch import nn

def build():
    torch.manual_seed(0)
    model = nn.Linear(4, 3)
    data = [(torch.randn(8, 4), torch.randint(3, (8,))) for _ in range(3)]
    return model, torch.optim.Adam(model.parameters()), nn.CrossEntropyLoss(), data
"""


@pytest.fixture
def entry() -> str:
    """Source of a module with a function `build`."""
    return ENTRY
