"""What a run of a graph may take: files of strangers can double a tensor forty times, and loop for ever."""

from __future__ import annotations

from pyapp.engine.budget import Budget, current, half_of_memory

LOOP_LIMIT = 1_000_000  # steps of all loops of a run


class RunBudget(Budget):
    """The memory and the steps of loops of one run."""

    __slots__ = ("step_limit", "steps")

    def __init__(self, memory_limit: int | None, loop_limit: int) -> None:
        super().__init__(half_of_memory() if memory_limit is None else memory_limit)
        self.steps, self.step_limit = 0, loop_limit


def count_step() -> None:
    """One more step of a loop. ValueError where the run has made as many as it may."""
    budget = current()
    if isinstance(budget, RunBudget):
        if budget.steps >= budget.step_limit:
            raise ValueError(
                f"the loops of this run made {budget.steps:,} steps, as many as they may; if you trust the file, raise "
                "its loop_limit: onnx.load(file, loop_limit=steps)"
            )
        budget.steps += 1
