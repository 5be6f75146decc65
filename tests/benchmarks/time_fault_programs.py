"""Training programs that lose their time to one thing each, and some that lose none. Each function is an entry point.

Nothing here takes longer than it says by a fixed share of a machine: what computes is real computing, what waits
really waits for a disk, a socket or a lock.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import socket
import tempfile
import threading
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

_FEATURES = 256
_MANY = 100_000
_CHUNK = 2 << 20
_CHUNKS = 64


def network(width: int = 1024, layers: int = 4) -> nn.Module:
    """A step on 64 samples takes some tens of milliseconds on one core."""
    inner = [part for _ in range(layers) for part in (nn.Linear(width, width), nn.ReLU())]
    return nn.Sequential(nn.Linear(_FEATURES, width), nn.ReLU(), *inner, nn.Linear(width, 10))


class Samples(Dataset[tuple[Tensor, int]]):
    """Samples made by `work(index)`, which is where a fault sits."""

    def __init__(self, work: Callable[[int], object] | None = None, size: int = _MANY) -> None:
        self.size = size
        self.work = work
        self.rows = torch.randn(512, _FEATURES)

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        if self.work is not None:
            self.work(index)
        return self.rows[index % 512], index % 10


def program(loader: DataLoader[Any], model: nn.Module | None = None, step: Any = None) -> dict[str, Any]:
    model = model or network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    criterion = nn.CrossEntropyLoss()

    def plain_step(batch: Any) -> Tensor:
        inputs, labels = batch
        optimizer.zero_grad()
        loss = criterion(model(inputs), labels)
        loss.backward()
        optimizer.step()
        return loss.detach()

    train_step = (lambda batch: step(model, optimizer, criterion, batch)) if step else plain_step
    return {"model": model, "optimizer": optimizer, "train_loader": loader, "train_step": train_step}


def decode(rounds: int) -> None:
    """What a decoder does: it computes, and lets other threads run meanwhile."""
    text = os.urandom(4096) * 16
    for _ in range(rounds):
        zlib.decompress(zlib.compress(text, 6))


def cpu_heavy_transform() -> dict[str, Any]:
    def augment(_: int) -> None:
        total = 0
        for value in range(60_000):
            total += value * value % 7

    return program(DataLoader(Samples(augment), batch_size=32, num_workers=1))


def cold_disk() -> dict[str, Any]:
    """Every sample is read past the page cache, as from a set that is larger than memory."""
    path = Path(tempfile.mkdtemp()) / "samples.bin"
    with open(path, "wb") as file:
        file.writelines(os.urandom(_CHUNK) for _ in range(_CHUNKS))
        file.flush()
        os.fsync(file.fileno())

    def read(index: int) -> bytes:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
            return os.pread(descriptor, _CHUNK, (index * 37 % _CHUNKS) * _CHUNK)
        finally:
            os.close(descriptor)

    return program(DataLoader(Samples(read), batch_size=32, num_workers=1))


class Storage:
    """A server on this machine's loopback that answers a sample after 8 ms, as one far away would."""

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = self._server.getsockname()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            connection, _ = self._server.accept()
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    @staticmethod
    def _answer(connection: socket.socket) -> None:
        wait = threading.Event()
        with connection:
            while connection.recv(64):
                wait.wait(0.008)
                connection.sendall(b"x" * 4096)


def slow_remote() -> dict[str, Any]:
    address = Storage().address
    connections: dict[int, socket.socket] = {}

    def download(index: int) -> bytes:
        if os.getpid() not in connections:
            connections[os.getpid()] = socket.create_connection(address, timeout=30)
        connection = connections[os.getpid()]
        connection.sendall(f"GET {index}".encode())
        left = 4096
        while left:
            left -= len(connection.recv(left))
        return b""

    return program(DataLoader(Samples(download), batch_size=32, num_workers=2))


def lock_in_getitem() -> dict[str, Any]:
    """One archive for all workers, which only one at a time may open."""
    lock = multiprocessing.Lock()

    def read(_: int) -> None:
        with lock:
            decode(10)

    return program(DataLoader(Samples(read), batch_size=32, num_workers=4))


def pad_and_join(samples: list[tuple[Tensor, int]]) -> tuple[Tensor, Tensor]:
    """Builds the batch number by number."""
    rows = []
    for row, _ in samples:
        values = row.tolist()
        for _ in range(12):
            values = [float(value) for value in values]
        rows.append(values)
    return torch.tensor(rows), torch.tensor([label for _, label in samples])


def huge_collate() -> dict[str, Any]:
    loader = DataLoader(Samples(), batch_size=512, num_workers=1, collate_fn=pad_and_join)
    return program(loader, network(256, 1))


def heavy_decode_without_workers() -> dict[str, Any]:
    return program(DataLoader(Samples(lambda _: decode(6)), batch_size=32, num_workers=0))


class Record:
    """A sample as an object of its own class, with its text in pieces."""

    def __init__(self, row: Tensor, label: int, tokens: list[str]) -> None:
        self.row, self.label, self.tokens = row, label, tokens


class Texts(Samples):
    def __init__(self) -> None:
        super().__init__()
        self.tokens = [[f"{row}-{word}" for word in range(1000)] for row in range(512)]

    def __getitem__(self, index: int) -> Any:
        return Record(self.rows[index % 512], index % 10, self.tokens[index % 512])


def as_records(samples: list[Record]) -> list[Record]:
    """A batch of Python objects, which a worker pickles and the trainer unpickles one by one."""
    return list(samples)


def pickled_batches() -> dict[str, Any]:
    def step(model: nn.Module, optimizer: Any, criterion: Any, batch: Any) -> Tensor:
        optimizer.zero_grad()
        rows = torch.stack([record.row for record in batch])
        loss = criterion(model(rows), torch.tensor([record.label for record in batch]))
        loss.backward()
        optimizer.step()
        return loss.detach()

    loader = DataLoader(Texts(), batch_size=512, num_workers=2, collate_fn=as_records)
    return program(loader, network(128, 1), step)


def workers_fight_for_cores() -> dict[str, Any]:
    """Eight workers that could keep up with a step on all cores, if they did not take them from it."""
    cores = len(os.sched_getaffinity(0))
    torch.set_num_threads(cores)
    samples = Samples(lambda _: decode(cores))
    return program(DataLoader(samples, batch_size=128, num_workers=4 * cores), network(1536, 4))


def tiny_batches() -> dict[str, Any]:
    return program(DataLoader(Samples(), batch_size=2, num_workers=0), network(64, 10))


def item_every_step() -> dict[str, Any]:
    """Reads its loss, its hits and the norm of its gradients back at every step."""
    history: list[tuple[float, float]] = []
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    def step(model: nn.Module, optimizer: Any, criterion: Any, batch: Any) -> float:
        inputs, labels = (part.to(device) for part in batch)
        optimizer.zero_grad()
        scores = model(inputs)
        loss = criterion(scores, labels)
        loss.backward()
        optimizer.step()
        history.append((loss.item(), (scores.argmax(1) == labels).float().mean().item()))
        return history[-1][0]

    return program(DataLoader(Samples(), batch_size=256, num_workers=0), step=step)


class Recurrent(nn.Module):
    """A recurrence written out in Python, a number of small operations for every time step."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(_FEATURES, 16), nn.Linear(16, 10)
        self.decay = nn.Parameter(torch.full((16,), 0.9))

    def forward(self, inputs: Tensor) -> Tensor:
        state = torch.zeros(len(inputs), 16)
        driven = self.first(inputs)
        for _ in range(400):
            state = torch.tanh(state * self.decay + driven)
        return self.last(state)


def python_overhead() -> dict[str, Any]:
    return program(DataLoader(Samples(), batch_size=16, num_workers=0), Recurrent())


def noisy_neighbour() -> dict[str, Any]:
    """Its worker just keeps up; the kit burns the machine's cores meanwhile."""
    torch.set_num_threads(1)
    return program(DataLoader(Samples(lambda _: decode(2)), batch_size=64, num_workers=1))


def clean_compute() -> dict[str, Any]:
    return program(DataLoader(Samples(), batch_size=256, num_workers=0))


def clean_workers() -> dict[str, Any]:
    """Two workers that read ahead what the model takes long to learn from."""
    loader = DataLoader(Samples(lambda index: zlib.crc32(b"x" * 2000)), batch_size=256, num_workers=1)
    return program(loader)


def clean_records() -> dict[str, Any]:
    """A custom collate, a file that is in the page cache, and one number read back a step."""
    path = Path(tempfile.mkdtemp()) / "rows.json"
    path.write_text(json.dumps([[index, index % 10] for index in range(1000)]))

    def step(model: nn.Module, optimizer: Any, criterion: Any, batch: Any) -> float:
        inputs, labels = batch
        optimizer.zero_grad()
        loss = criterion(model(inputs), labels)
        loss.backward()
        optimizer.step()
        return float(loss.item())

    def read(_: int) -> int:
        with open(path, "rb") as file:
            return len(file.read(64))

    return program(DataLoader(Samples(read), batch_size=256, num_workers=0), step=step)
