"""DataLoader: the batches of a dataset."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import repeat
from typing import Any

from ...engine.native import IN_BROWSER
from ...engine.ops.random import Generator, randint
from .collating import default_collate, default_convert
from .dataset import IterableDataset
from .fetching import EndOfStream, Fetcher
from .sampler import BatchSampler, RandomSampler, SequentialSampler

_FIXED = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")


class DataLoader:
    """Batches of `batch_size` examples, made by `collate_fn`; with `batch_size=None` single examples. `shuffle` draws a
    new order for each pass from `generator`, or the default one.

    With `num_workers` processes each makes every n-th batch, `prefetch_factor` of them ahead (2 by default); the order
    is that of the sampler, or with `in_order=False` that of their completion. Tensors and arrays arrive through shared
    memory. Each pass draws a base seed from `generator`: worker k seeds the random numbers of pyapp, Python and NumPy
    by it and k, then calls `worker_init_fn(k)`; `get_worker_info()` says which worker it is. An IterableDataset is
    copied to each worker and takes its share by that. An error in a worker is raised here, with its traceback there as
    the cause; RuntimeError after `timeout` seconds (0: none) without a batch, or if a worker dies. Processes start with
    each pass, and end with it unless `persistent_workers`; `multiprocessing_context` is a start method or a context.

    A browser tab has no processes: there batches are made one after another when they are asked for, whatever
    `num_workers` says, and `get_worker_info()` is None. `pin_memory` has no effect: no device of pyapp copies from
    pinned memory.
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
        self._check_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        if multiprocessing_context is not None and not num_workers:
            raise ValueError("DataLoader: multiprocessing_context is for num_workers above 0")
        self.dataset, self.num_workers, self.generator = dataset, num_workers, generator
        self.pin_memory, self.drop_last, self.timeout = pin_memory, drop_last, timeout
        self.worker_init_fn, self.multiprocessing_context = worker_init_fn, multiprocessing_context
        self.prefetch_factor = 2 if num_workers and prefetch_factor is None else prefetch_factor
        self.persistent_workers, self.in_order = persistent_workers, in_order
        self._workers: Any = None  # those that persist
        self.batch_size = None if batch_sampler is not None else batch_size
        if sampler is None and not streams:
            sampler = RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)
        self.sampler: Any = sampler
        self.batch_sampler: Any = batch_sampler
        if batch_sampler is None and batch_size is not None and not streams:
            self.batch_sampler = BatchSampler(self.sampler, batch_size, drop_last)
        usual = default_convert if batch_size is None and batch_sampler is None else default_collate
        self.collate_fn: Callable[[Any], Any] = collate_fn or usual
        self._made = True

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _FIXED and self.__dict__.get("_made", False):
            raise ValueError(f"DataLoader: {name} is set when the loader is made; make another one")
        super().__setattr__(name, value)

    @staticmethod
    def _check(
        streams: bool, batch_size: int | None, shuffle: Any, sampler: Any, batch_sampler: Any, drop_last: bool
    ) -> None:
        """ValueError for settings that exclude each other."""
        if streams and (shuffle or sampler is not None or batch_sampler is not None):
            raise ValueError("DataLoader: an IterableDataset has its own order: no shuffle, sampler or batch_sampler")
        if sampler is not None and shuffle:
            raise ValueError("DataLoader: sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None and (batch_size != 1 or shuffle or sampler is not None or drop_last):
            raise ValueError(
                "DataLoader: batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and "
                "drop_last"
            )
        if batch_size is None and drop_last:
            raise ValueError("DataLoader: batch_size=None, so there is no batch that drop_last could leave out")
        if batch_size is not None and (not isinstance(batch_size, int) or batch_size <= 0):
            raise ValueError(
                f"DataLoader: batch_size should be a positive integer value, or None, but got {batch_size!r}"
            )

    @staticmethod
    def _check_workers(num_workers: Any, timeout: Any, prefetch_factor: Any, persistent_workers: bool) -> None:
        if not isinstance(num_workers, int) or num_workers < 0:
            raise ValueError(f"DataLoader: num_workers is a number of processes, 0 or more, not {num_workers!r}")
        if timeout < 0:
            raise ValueError(f"DataLoader: timeout is a number of seconds, 0 or more, not {timeout!r}")
        if not num_workers and (prefetch_factor is not None or persistent_workers):
            raise ValueError("DataLoader: prefetch_factor and persistent_workers need num_workers of 1 or more")
        if prefetch_factor is not None and (not isinstance(prefetch_factor, int) or prefetch_factor < 1):
            raise ValueError(f"DataLoader: prefetch_factor is a number of batches, 1 or more, not {prefetch_factor!r}")

    def __iter__(self) -> Iterator[Any]:
        # The seed is drawn without workers too, so that the order of examples does not depend on their number.
        base_seed = int(randint(0, (1 << 63) - 1, (), generator=self.generator))
        batched = self.batch_sampler is not None
        new_fetcher = partial(
            Fetcher, collate_fn=self.collate_fn, batched=batched, batch_size=self.batch_size, drop_last=self.drop_last
        )
        keys = self.batch_sampler if batched else self.sampler
        if isinstance(self.dataset, IterableDataset):
            keys = repeat(None)
        if not self.num_workers or IN_BROWSER:
            return _batches_here(new_fetcher(self.dataset), iter(keys))
        return self._batches_of_workers(new_fetcher, iter(keys), base_seed)

    def _batches_of_workers(
        self, new_fetcher: Callable[[Any], Fetcher], keys: Iterator[Any], base_seed: int
    ) -> Iterator[Any]:
        from .workers import Workers  # multiprocessing, which a browser lacks

        workers = self._workers or Workers(
            self.num_workers, self.dataset, new_fetcher, self.worker_init_fn, self.multiprocessing_context,
            base_seed, self.timeout,
        )  # fmt: skip
        self._workers = workers if self.persistent_workers else None
        end_pass = getattr(self.dataset, "end_pass", None)  # a dataset that counts its passes counts in copies there
        if end_pass is not None:
            end_pass()
        try:
            yield from workers.batches(keys, self.prefetch_factor or 2, self.in_order)
        except GeneratorExit:  # the rest of the pass is not wanted: persistent workers go on with the next
            raise
        except BaseException:
            self._workers = None
            raise
        finally:
            if self._workers is not workers:
                workers.close()

    def __len__(self) -> int:
        """The number of batches of a pass. TypeError if the dataset has no length."""
        if self.batch_sampler is not None:
            return len(self.batch_sampler)
        whole: Any = self.dataset if isinstance(self.dataset, IterableDataset) else self.sampler
        count = len(whole)
        if self.batch_size is None or not isinstance(self.dataset, IterableDataset):
            return count
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)


def _batches_here(fetch: Fetcher, keys: Iterator[Any]) -> Iterator[Any]:
    """The batches, made one after another in this process."""
    for key in keys:
        try:
            batch = fetch(key)
        except EndOfStream:
            return
        yield batch
