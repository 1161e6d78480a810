"""Make one batch: look the examples up and combine them. The loader's process and its workers use the same code."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

from .collating import default_collate
from .dataset import IterableDataset, rows_of


class EndOfStream(Exception):
    """An IterableDataset has no further examples."""


class Fetcher:
    """Makes the batches of one pass over a dataset. `batch_size` counts for streams alone, and None there means single
    examples; `batched` says whether a key is a list of indices or one index.
    """

    def __init__(
        self, dataset: Any, collate_fn: Callable[[Any], Any], batched: bool, batch_size: int | None, drop_last: bool
    ) -> None:
        self.dataset, self.collate_fn = dataset, collate_fn
        self.batched, self.batch_size, self.drop_last = batched, batch_size, drop_last
        self.examples = iter(dataset) if isinstance(dataset, IterableDataset) else None
        self.many = getattr(dataset, "__getitems__", None)
        # A batch of rows of tensors is one selection from each, without the examples.
        self.rows = rows_of(dataset) if batched and collate_fn is default_collate else None

    def __call__(self, key: Any) -> Any:
        """The batch of a list of indices, or of one index; of a stream (key None) the next one. EndOfStream. An error
        gets a note of the indices.
        """
        if self.examples is not None:
            return self.collate_fn(self._next(self.examples))
        try:
            return self._of(key)
        except Exception as error:
            error.add_note(f"DataLoader: it was making the batch of {f'indices {key}':.200}")
            raise

    def _of(self, key: Any) -> Any:
        if not self.batched:
            return self.collate_fn(self.dataset[key])
        if self.rows is not None and len(key) > 1 and {*map(type, key)} == {int}:
            return self.rows(key)
        return self.collate_fn(self.many(key) if self.many else [self.dataset[index] for index in key])

    def _next(self, examples: Any) -> Any:
        if self.batch_size is None:
            for example in examples:
                return example
            raise EndOfStream
        batch = list(islice(examples, self.batch_size))
        if not batch or (self.drop_last and len(batch) < self.batch_size):
            raise EndOfStream
        return batch
