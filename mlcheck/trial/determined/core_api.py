"""Stands in for `determined.core`, to which a training loop of one's own reports; off the cluster nobody listens."""

from __future__ import annotations

import enum
import shutil
import uuid
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Self

from mlcheck.trial.determined.distributed import DistributedContext as OneProcess

_LENGTH = 100


class PreemptMode(enum.Enum):
    WorkersAskChief = "WORKERS_ASK_CHIEF"
    ChiefOnly = "CHIEF_ONLY"
    WorkersAskMaster = "WORKERS_ASK_MASTER"


class TensorboardMode(enum.Enum):
    AUTO = "AUTO"
    MANUAL = "MANUAL"


class EarlyExitReason(enum.Enum):
    INVALID_HP = "EXITED_REASON_INVALID_HP"


class DistributedContext(OneProcess):
    """As the launchers make it: of one process, since mlcheck starts but one."""

    @classmethod
    def from_torch_distributed(cls, chief_ip: str | None = None) -> Self:  # noqa: ARG003 - there is no other process
        return cls()


class TrainContext:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def report_training_metrics(
        self, steps_completed: int, metrics: Mapping[str, Any], batch_metrics: list[dict[str, Any]] | None = None
    ) -> None: ...

    def report_validation_metrics(self, steps_completed: int, metrics: Mapping[str, Any]) -> None: ...

    def report_metrics(self, group: str, steps_completed: int, metrics: Mapping[str, Any]) -> None: ...

    def report_progress(self, progress: float) -> None: ...

    def report_early_exit(self, reason: EarlyExitReason) -> None: ...

    def set_status(self, status: str) -> None: ...

    def get_experiment_best_validation(self) -> float | None:
        return None

    def get_tensorboard_path(self) -> Path:
        return self._folder

    def upload_tensorboard_files(self, *_: Any) -> None: ...


class CheckpointContext:
    """Keeps what is stored until the program ends."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextmanager
    def store_path(self, metadata: Mapping[str, Any] | None = None, *, shard: bool = False) -> Iterator[Any]:  # noqa: ARG002 - nobody reads it
        storage_id = str(uuid.uuid4())
        (self._folder / storage_id).mkdir()
        yield self._folder / storage_id, storage_id

    @contextmanager
    def restore_path(self, storage_id: str) -> Iterator[Path]:
        if not (self._folder / storage_id).is_dir():
            raise FileNotFoundError(f"there is no checkpoint {storage_id!r} here: it is on the cluster")
        yield self._folder / storage_id

    def upload(self, ckpt_dir: str | Path, metadata: Mapping[str, Any] | None = None, *, shard: bool = False) -> str:
        with self.store_path(metadata, shard=shard) as (path, storage_id):
            shutil.copytree(ckpt_dir, path, dirs_exist_ok=True)
        return str(storage_id)

    def download(self, storage_id: str, ckpt_dir: str | Path) -> None:
        with self.restore_path(storage_id) as path:
            shutil.copytree(path, ckpt_dir, dirs_exist_ok=True)

    def delete(self, storage_id: str) -> None:
        shutil.rmtree(self._folder / storage_id, ignore_errors=True)


class PreemptContext:
    def should_preempt(self, auto_ack: bool = True) -> bool:  # noqa: ARG002 - nobody preempts
        return False

    def acknowledge_preemption_signal(self) -> None: ...


class SearcherOperation:
    def __init__(self, length: int) -> None:
        self.length = length

    def report_progress(self, length: float) -> None: ...

    def report_completed(self, searcher_metric: float) -> None: ...


class SearcherContext:
    """One operation as long as the config says, or long enough to watch the loop."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        told = (config.get("searcher") or {}).get("max_length")
        counts = [*told.values()] if isinstance(told, Mapping) else [told]
        self._length = next((count for count in counts if isinstance(count, int) and count > 0), _LENGTH)

    def operations(
        self,
        searcher_mode: Any = None,  # noqa: ARG002 - one process
        auto_ack: bool = True,  # noqa: ARG002 - nobody to tell
    ) -> Iterator[SearcherOperation]:
        yield SearcherOperation(self._length)


class ProfilerContext:
    def on(self, sampling_interval: float = 1, samples_per_report: int = 10) -> None: ...

    def off(self) -> None: ...


class Context:
    """What `determined.core.init()` returns."""

    def __init__(self, distributed: OneProcess, config: Mapping[str, Any]) -> None:
        folder = Path(mkdtemp())
        self._remove = weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self.distributed = distributed
        self.train = TrainContext(folder)
        self.checkpoint = CheckpointContext(folder)
        self.preempt = PreemptContext()
        self.searcher = SearcherContext(config)
        self.profiler = ProfilerContext()

    def start(self) -> None: ...

    def close(self) -> None:
        self._remove()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
