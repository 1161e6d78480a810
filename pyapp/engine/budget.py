"""A limit to the memory that a piece of work may take, for work that strangers wrote: it is checked before memory is
taken, so that a graph which doubles a tensor forty times stops with an error, not with the machine.

Counted are the blocks of tensors above 4 KiB in the process's memory, from their birth to their end; `check` is for
what other libraries are about to take.
"""

from __future__ import annotations

import functools
import os
from typing import Any

from .native import IN_BROWSER
from .thread_local import ThreadLocal, Users

BROWSER = 2 << 30  # bytes: half of what a tab's 32-bit addresses span
UNKNOWN = 4 << 30  # bytes, where the system does not tell how much memory it has


class OverBudget(MemoryError):
    """More memory is wanted than a budget allows."""


class Budget:
    """`limit` bytes, of which `used` are taken."""

    __slots__ = ("limit", "pools", "used")

    def __init__(self, limit: int) -> None:
        self.limit, self.used = limit, 0
        self.pools: dict[Any, BudgetPool] = {}  # by the pools that they take from

    def check(self, nbytes: int) -> None:
        """OverBudget where there is no room for so many bytes more."""
        if self.used + nbytes > self.limit:
            used = f"; {self.used:,} are in use" if self.used else ""
            raise OverBudget(f"it needs {nbytes:,} bytes, of {self.limit:,} that it may take{used}")

    def over(self, pool: Any) -> BudgetPool:
        """A device's pool whose blocks count."""
        return self.pools.get(pool) or self.pools.setdefault(pool, BudgetPool(pool, self))


class BudgetPool:
    """Takes blocks from a pool, and counts them until they come back."""

    __slots__ = ("budget", "device", "key", "limit", "pool")

    def __init__(self, pool: Any, budget: Budget) -> None:
        self.pool, self.budget = pool, budget
        self.device, self.key, self.limit = pool.device, pool.key, pool.limit

    def take(self, capacity: int) -> Any:
        self.budget.check(capacity)
        address = self.pool.take(capacity)
        self.budget.used += capacity
        return address

    def give(self, address: Any, capacity: int) -> None:
        self.budget.used -= capacity
        self.pool.give(address, capacity)


class _Current(ThreadLocal):
    budget: Budget | None = None


_current = _Current()
BUDGETS = Users()  # threads that work within a budget


def current() -> Budget | None:
    """The budget of this thread's work."""
    return _current.budget if BUDGETS.count else None


class within:
    """A context in which this thread's new tensors count against the budget."""

    __slots__ = ("before", "budget")

    def __init__(self, budget: Budget) -> None:
        self.budget = budget

    def __enter__(self) -> None:
        self.before, _current.budget = _current.budget, self.budget
        BUDGETS.add(1)

    def __exit__(self, *_: object) -> None:
        BUDGETS.add(-1)
        _current.budget = self.before


@functools.cache
def half_of_memory() -> int:
    """Half of the machine's memory in bytes; in the browser 2 GiB."""
    if IN_BROWSER:
        return BROWSER
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf
        return UNKNOWN
