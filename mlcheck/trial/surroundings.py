"""What a result was obtained with: versions, hardware, the commit, the packages and how they are pinned."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path

import torch

from mlcheck.core.cores import cores
from mlcheck.core.git import asked
from mlcheck.core.pins import pins, same_version
from mlcheck.trial.packages import imported_packages

_GIB = 1 << 30


def machine() -> dict[str, str]:
    """Versions and hardware, and the commit of the folder that the program runs in."""
    found = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": version("numpy"),
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU",
        "cores": str(cores()),
        "cpu threads": str(torch.get_num_threads()),
        "memory": _memory(),
        "platform": platform.platform(),
        **_gpus(),
        "commit": _commit(),
    }
    return {name: value for name, value in found.items() if value}


def packages(entry: str = "") -> dict[str, str]:
    """The packages that the program imports, and those that another machine may get in another version.

    A project pins in the folder that the program runs in or in one above it, as far as the repository goes.
    """
    imported = imported_packages(entry)
    pinned = {name: pin for folder in reversed(_up_to_repository()) for name, pin in pins(folder).items()}
    loose = [name for name in imported if name not in pinned]
    other = [
        f"{name} {imported[name]}, where {file} says {wanted}"
        for name, (wanted, file) in pinned.items()
        if wanted and name in imported and not same_version(wanted, imported[name])
    ]
    found = {
        "packages": ", ".join(f"{name} {number}" for name, number in imported.items()),
        "packages not pinned": ", ".join(loose),
        "packages pinned otherwise": "; ".join(other),
    }
    return {name: value for name, value in found.items() if value}


def _memory() -> str:
    try:
        return f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / _GIB:.0f} GiB"
    except (AttributeError, OSError, ValueError):
        return ""


def _gpus() -> dict[str, str]:
    if not torch.cuda.is_available():
        return {}
    sizes = [torch.cuda.get_device_properties(index).total_memory / _GIB for index in range(torch.cuda.device_count())]
    return {
        "GPUs": f"{len(sizes)}, with {' and '.join(dict.fromkeys(f'{size:.0f} GiB' for size in sizes))}",
        "CUDA": str(torch.version.cuda or ""),
        "cuDNN": str(torch.backends.cudnn.version() or ""),  # type: ignore[no-untyped-call]
        "driver": _driver(),
    }


def _driver() -> str:
    """NVIDIA's, as its own tool tells it; empty where there is none."""
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.partition("\n")[0].strip()


def _commit() -> str:
    """The commit of the user's repository, marked when files differ from it; empty outside one."""
    head = asked("rev-parse", "--short=12", "HEAD")
    return f"{head}, with changes" if head and asked("status", "--porcelain", "--untracked-files=no") else head


def _up_to_repository() -> list[Path]:
    """The working directory and the folders above it, up to the root of its repository; it alone outside of one."""
    here = Path.cwd()
    places = [here, *here.parents]
    root = next((number for number, place in enumerate(places) if (place / ".git").exists()), 0)
    return places[: root + 1]
