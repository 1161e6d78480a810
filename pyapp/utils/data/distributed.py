"""The part of a dataset that a process reads, by torch.utils.data.distributed's name."""

from __future__ import annotations

from collections.abc import Iterator, Sized

from ...engine.ops.random import Generator, randperm
from ...engine.processes.group import world
from .sampler import Sampler

__all__ = ["DistributedSampler"]


class DistributedSampler(Sampler[int]):
    """Every `num_replicas`-th index from `rank` on, of all indices in random order (`shuffle`), which is the same in
    all processes: it depends on `seed` and on the epoch, which `set_epoch` says.

    All processes get the same number of indices: with `drop_last` the last ones are left out, else some come twice.
    """

    def __init__(
        self, dataset: Sized, num_replicas: int | None = None, rank: int | None = None, shuffle: bool = True,
        seed: int = 0, drop_last: bool = False,
    ) -> None:  # fmt: skip
        self.num_replicas = world().size() if num_replicas is None else num_replicas
        self.rank = world().rank() if rank is None else rank
        if self.num_replicas < 1 or not 0 <= self.rank < self.num_replicas:
            raise ValueError(f"DistributedSampler: there is no rank {self.rank} among {self.num_replicas}")
        self.dataset, self.shuffle, self.seed, self.drop_last = dataset, shuffle, seed, drop_last
        self.epoch = 0

    @property
    def num_samples(self) -> int:
        """The number of indices of each process."""
        count = len(self.dataset)
        return count // self.num_replicas if self.drop_last else -(-count // self.num_replicas)

    @property
    def total_size(self) -> int:
        return self.num_samples * self.num_replicas

    def set_epoch(self, epoch: int) -> None:
        """Chooses the order of the next pass."""
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        count = len(self.dataset)
        if self.shuffle:
            order: list[int] = randperm(count, generator=Generator().manual_seed(self.seed + self.epoch)).tolist()
        else:
            order = list(range(count))
        for place in range(self.rank, self.total_size, self.num_replicas):
            yield order[place % count]

    def __len__(self) -> int:
        return self.num_samples
