"""DataLoader: the batches of a dataset."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from ...engine.ops.random import Generator
from .collating import default_collate, default_convert
from .datasets import IterableDataset
from .samplers import BatchSampler, RandomSampler, SequentialSampler


def get_worker_info() -> None:
    """None: this is the main process."""


class DataLoader:
    """Batches of `batch_size` examples, made by `collate_fn`; with `batch_size=None` single examples. `shuffle` draws a
    new order for each pass from `generator`, or the default one.

    `num_workers` and related settings are accepted with a warning, without effect: batches are made in this process.
    """

    def __init__(
        self, dataset: Any, batch_size: int | None = 1, shuffle: bool | None = None,
        sampler: Any = None, batch_sampler: Any = None, num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None, pin_memory: bool = False, drop_last: bool = False,
        timeout: float = 0, worker_init_fn: Any = None, multiprocessing_context: Any = None,
        generator: Generator | None = None, *, prefetch_factor: int | None = None, persistent_workers: bool = False,
        pin_memory_device: str = "", in_order: bool = True,
    ) -> None:  # fmt: skip
        streams = isinstance(dataset, IterableDataset)
        self._check(streams, batch_size, shuffle, sampler, batch_sampler, drop_last)
        if num_workers:
            warnings.warn(f"DataLoader: num_workers={num_workers}: batches are made in this process", stacklevel=2)
        self.dataset, self.num_workers, self.generator = dataset, 0, generator
        self.pin_memory, self.drop_last, self.timeout = pin_memory, drop_last, timeout
        self.batch_size = None if batch_sampler is not None else batch_size
        if sampler is None and not streams:
            sampler = RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)
        self.sampler: Any = sampler
        self.batch_sampler: Any = batch_sampler
        if batch_sampler is None and batch_size is not None and not streams:
            self.batch_sampler = BatchSampler(self.sampler, batch_size, drop_last)
        usual = default_convert if batch_size is None and batch_sampler is None else default_collate
        self.collate_fn: Callable[[Any], Any] = collate_fn or usual

    @staticmethod
    def _check(
        streams: bool, batch_size: int | None, shuffle: Any, sampler: Any, batch_sampler: Any, drop_last: bool
    ) -> None:
        """ValueError for settings that exclude each other."""
        if streams and (shuffle or sampler is not None or batch_sampler is not None):
            raise ValueError("DataLoader: an IterableDataset has its own order: no shuffle, sampler or batch_sampler")
        if sampler is not None and shuffle:
            raise ValueError("DataLoader: a sampler and shuffle exclude each other")
        if batch_sampler is not None and (batch_size != 1 or shuffle or sampler is not None or drop_last):
            raise ValueError("DataLoader: a batch_sampler excludes batch_size, shuffle, sampler and drop_last")
        if batch_size is None and drop_last:
            raise ValueError("DataLoader: batch_size=None, so there is no batch that drop_last could leave out")
        if batch_size is not None and (not isinstance(batch_size, int) or batch_size <= 0):
            raise ValueError(f"DataLoader: batch_size is a positive integer or None, not {batch_size!r}")

    def __iter__(self) -> Iterator[Any]:
        if isinstance(self.dataset, IterableDataset):
            yield from self._stream()
        elif self.batch_sampler is None:
            for index in self.sampler:
                yield self.collate_fn(self.dataset[index])
        else:
            fetch = getattr(self.dataset, "__getitems__", None)
            for indices in self.batch_sampler:
                yield self.collate_fn(fetch(indices) if fetch else [self.dataset[index] for index in indices])

    def _stream(self) -> Iterator[Any]:
        examples = iter(self.dataset)
        if self.batch_size is None:
            yield from map(self.collate_fn, examples)
            return
        while batch := list(islice(examples, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield self.collate_fn(batch)

    def __len__(self) -> int:
        """The number of batches of a pass. TypeError if the dataset has no length."""
        if self.batch_sampler is not None:
            return len(self.batch_sampler)
        whole: Any = self.dataset if isinstance(self.dataset, IterableDataset) else self.sampler
        count = len(whole)
        if self.batch_size is None or not isinstance(self.dataset, IterableDataset):
            return count
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)
