"""What a worker process of a DataLoader knows of itself."""

from __future__ import annotations

from typing import Any

from pyapp.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """A worker's number from 0 (`id`) of `num_workers`, the seed of its random numbers, and its copy of the dataset."""

    id: int
    num_workers: int
    seed: int
    dataset: Any


class _Here:
    worker: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """The worker process that this code runs in; None in the main process. An IterableDataset takes its share of the
    examples by it, because every worker iterates over a copy of the dataset.
    """
    return _Here.worker


def set_worker_info(info: WorkerInfo) -> None:
    """Declares this process a worker."""
    _Here.worker = info
