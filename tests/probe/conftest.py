"""Makes `probe_programs` importable from the tests beside it, and keeps torch to one thread and one seed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))


from process_modes import modes_put_back
from processor_clock import by_the_processor


@pytest.fixture(autouse=True)
def steady() -> Iterator[None]:
    with modes_put_back(), by_the_processor():
        torch.set_num_threads(1)
        torch.manual_seed(0)
        yield
