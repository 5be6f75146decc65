"""Finds devices that several workers of a grid take at the same time."""

from __future__ import annotations

from collections.abc import Iterator

import yaml

from mlcheck.core.finding import Finding
from mlcheck.experiment.grid import Grid

LOOKS_AT = "grid"


def check(grid: Grid) -> Iterator[Finding]:
    items = grid.resource.value if isinstance(grid.resource, yaml.SequenceNode) else []
    workers = [item for item in items if isinstance(item, yaml.ScalarNode)]
    taken: dict[str, str] = {}
    for worker in workers:
        devices = [part.strip() for part in worker.value.split(",")]
        twice = [device for device in devices if device in taken or devices.count(device) > 1]
        if twice:
            device = twice[0]
            other = taken.get(device, worker.value)
            together = "runs two tasks at a time" if other == worker.value else f"is also taken by `{other}`"
            yield Finding(
                f"the device {device} {together}",
                grid.at(worker),
                help="name it once, unless both tasks fit its memory and leave it time",
            )
        taken.update({device: worker.value for device in devices if device not in taken})
