"""Datasets: examples by index, or one after another."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, Generic, TypeVar

from ...engine.ops import stack, tensor
from ...engine.ops.random import Generator, randperm
from ...engine.tensor import Tensor
from ...engine.user_errors import describe
from ...errors import AssertedError

Example = TypeVar("Example", covariant=True)


class Dataset(Generic[Example]):
    """Base of datasets with examples by index: a subclass defines `__getitem__` and `__len__`. `+` joins two
    datasets.
    """

    def __getitem__(self, index: Any) -> Example:
        raise NotImplementedError(f"{type(self).__name__} has no __getitem__()")

    def __add__(self, other: Dataset[Any]) -> ConcatDataset:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[Example]):
    """Base of datasets with examples one after another: a subclass defines `__iter__`."""

    def __iter__(self) -> Iterator[Example]:
        raise NotImplementedError(f"{type(self).__name__} has no __iter__()")

    def __add__(self, other: Dataset[Any]) -> Any:
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """The rows of tensors of equal length, as tuples."""

    def __init__(self, *tensors: Tensor) -> None:
        if not tensors or any(t.shape[0] != tensors[0].shape[0] for t in tensors):
            raise AssertedError(
                "Size mismatch between tensors: TensorDataset: takes tensors of one length, got "
                f"{', '.join(map(describe, tensors))}"
            )
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self) -> int:
        return int(self.tensors[0].shape[0])


def rows_of(dataset: Any) -> Callable[[Sequence[int]], list[Tensor]] | None:
    """What gives the batch of some indices of a TensorDataset, or of a Subset of one: the rows of each tensor. None for
    other datasets, and for tensors whose rows cannot be selected at once.
    """
    if type(dataset) is Subset:
        inner, places = rows_of(dataset.dataset), dataset.indices
        return None if inner is None else lambda indices: inner([int(places[i]) for i in indices])
    if type(dataset) is not TensorDataset or any(t.dtype.is_quantized or not t.shape[0] for t in dataset.tensors):
        return None
    size = len(dataset)

    def rows(indices: Sequence[int]) -> list[Tensor]:
        if not -size <= min(indices) <= max(indices) < size:
            return [stack([t[i] for i in indices]) for t in dataset.tensors]  # whose error names the index
        which = tensor([i + size if i < 0 else i for i in indices], dtype="int64")
        return [t.index_select(0, which.to(t.device)) for t in dataset.tensors]

    return rows


class StackDataset(Dataset[Any]):
    """The examples of several datasets together: in tuples, or by name."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if bool(args) == bool(kwargs):
            raise ValueError("StackDataset: takes datasets, either all by name or none")
        self.datasets: Any = kwargs or args
        self._every = list(kwargs.values() or args)
        if any(len(d) != len(self._every[0]) for d in self._every):
            raise ValueError(f"StackDataset: the datasets have the lengths {[len(d) for d in self._every]}")

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, dict):
            return {name: dataset[index] for name, dataset in self.datasets.items()}
        return tuple(dataset[index] for dataset in self.datasets)

    def __len__(self) -> int:
        return len(self._every[0])


class ConcatDataset(Dataset[Any]):
    """Several datasets one after another."""

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        if not self.datasets or any(isinstance(d, IterableDataset) for d in self.datasets):
            raise ValueError("ConcatDataset: takes at least one dataset, each of which has a length")
        self.cumulative_sizes = list(accumulate(len(d) for d in self.datasets))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> Any:
        at = index + len(self) if index < 0 else index
        if not 0 <= at < len(self):
            raise IndexError(f"ConcatDataset: {index} is outside of {len(self)} examples")
        which = bisect_right(self.cumulative_sizes, at)
        return self.datasets[which][at - (self.cumulative_sizes[which - 1] if which else 0)]


class ChainDataset(IterableDataset[Any]):
    """Several IterableDatasets one after another."""

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)

    def __iter__(self) -> Iterator[Any]:
        for dataset in self.datasets:
            yield from dataset

    def __len__(self) -> int:
        return sum(len(dataset) for dataset in self.datasets)


class Subset(Dataset[Any]):
    """The examples of a set at some indices."""

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset, self.indices = dataset, indices

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices: Sequence[int]) -> Any:
        """The examples at several indices, by the dataset's own `__getitems__` where it has one."""
        every = getattr(self.dataset, "__getitems__", None)
        places = [self.indices[i] for i in indices]
        return [self.dataset[i] for i in places] if every is None else every(places)

    def __len__(self) -> int:
        return len(self.indices)


def random_split(dataset: Any, lengths: Sequence[float], generator: Generator | None = None) -> list[Subset]:
    """Random disjoint parts of a dataset: of given lengths, or of fractions that add up to 1 (examples left over by
    rounding go to the first parts, one each). ValueError if the lengths do not add up.
    """
    sizes = list(lengths)
    if any(isinstance(size, float) for size in sizes) and math.isclose(sum(sizes), 1) and sum(sizes) <= 1.0000001:
        if any(not 0 <= size <= 1 for size in sizes):
            raise ValueError(f"random_split: fractions lie between 0 and 1, got {sizes}")
        sizes = [math.floor(len(dataset) * size) for size in sizes]
        for i in range(len(dataset) - int(sum(sizes))):
            sizes[i % len(sizes)] += 1
    if sum(sizes) != len(dataset):
        raise ValueError(f"random_split: the lengths {list(lengths)} do not add up to {len(dataset)}")
    order = randperm(len(dataset), generator=generator).tolist()
    ends = list(accumulate(int(size) for size in sizes))
    return [Subset(dataset, order[end - int(size) : end]) for size, end in zip(sizes, ends, strict=True)]
