"""In which order a process computes the microbatches of its stages: GPipe (Huang et al. 2019, arXiv 1811.06965), one
forward and one backward pass in turn (Narayanan et al. 2019, PipeDream), and the same with several stages for each
process (Narayanan et al. 2021, arXiv 2104.04473).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ...engine import Tensor, no_grad
from ...engine.user_errors import describe
from ...errors import ArgumentError
from .microbatch import TensorChunkSpec, chunks_of, merged, split_inputs
from .stage import PipelineStage

__all__ = ["Schedule1F1B", "ScheduleGPipe", "ScheduleInterleaved1F1B", "ScheduleLoopedBFS"]

Action = tuple[str, int, int]  # "forward" or "backward", the number among this process's stages, the microbatch


class _Schedule(ABC):
    """Runs the stages of this process. `loss_fn(output, target)` is the loss of a microbatch, its mean; with
    `scale_grads` gradients are those of the mean over all microbatches, else of the sum.

    `args_chunk_spec`, `kwargs_chunk_spec` and `output_merge_spec` have a TensorChunkSpec for each argument and output:
    the dim of the batch, by default the first.
    """

    def __init__(
        self, stages: Sequence[PipelineStage], n_microbatches: int, loss_fn: Callable[..., Tensor] | None,
        args_chunk_spec: Sequence[Any] | None, kwargs_chunk_spec: Mapping[str, Any] | None, output_merge_spec: Any,
        scale_grads: bool,
    ) -> None:  # fmt: skip
        name = type(self).__name__
        if not stages or not all(isinstance(stage, PipelineStage) for stage in stages):
            raise TypeError(f"{name}: takes PipelineStages, not {describe(stages)}")
        if not isinstance(n_microbatches, int) or n_microbatches < 1:
            raise ArgumentError(f"{name}: n_microbatches is {n_microbatches!r:.40}, expected a number from 1 on")
        self.stages, self.count, self.loss_fn = list(stages), n_microbatches, loss_fn
        self.specs, self.merge, self.scales = (args_chunk_spec, kwargs_chunk_spec), output_merge_spec, scale_grads
        first = self.stages[0]
        wanted = [*range(first.group_rank, first.num_stages, first.group_size)]
        if [stage.stage_index for stage in self.stages] != wanted:
            raise ArgumentError(
                f"{name}: takes the stages {wanted} of this process, in this order, not "
                f"{[stage.stage_index for stage in self.stages]}"
            )

    @abstractmethod
    def order(self) -> Iterator[Action]:
        """What this process does, one after the other."""

    def step(
        self, *args: Any, target: Any = None, losses: list[Tensor] | None = None, return_outputs: bool = True,
        **kwargs: Any,
    ) -> Any:  # fmt: skip
        """One batch through all stages, and back if there is a `loss_fn`; all processes call it. The process of the
        first stage gives the arguments, that of the last one `target`, and gets the output of the whole batch and, in
        `losses`, the loss of each microbatch. The others get None. Keyword arguments go to the stages of a process.
        """
        return self._run(args, kwargs, target, losses, self.loss_fn is not None, return_outputs)

    def eval(
        self, *args: Any, target: Any = None, losses: list[Tensor] | None = None, return_outputs: bool = True,
        **kwargs: Any,
    ) -> Any:  # fmt: skip
        """As `step`, without gradients."""
        with no_grad():
            return self._run(args, kwargs, target, losses, False, return_outputs)

    def _run(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], target: Any, losses: list[Tensor] | None, learns: bool,
        return_outputs: bool,
    ) -> Any:  # fmt: skip
        last = next((stage for stage in self.stages if stage.is_last), None)
        is_first = any(stage.is_first for stage in self.stages)
        if args and not is_first:
            raise ArgumentError(f"{type(self).__name__}: the first stage, in another process, gets the batch")
        inputs = split_inputs(args, kwargs, self.count, self.specs[0] if is_first else None, self.specs[1])
        has_loss = last is not None and self.loss_fn is not None and (learns or target is not None)
        targets = chunks_of(target, self.count, TensorChunkSpec(0), "target") if has_loss else [None] * self.count
        here = {stage.stage_index: stage for stage in self.stages}
        found: list[Tensor] = []
        for stage in self.stages:
            stage._clear()
        try:
            for what, number, microbatch in self.order():
                stage = self.stages[number]
                if what == "forward":
                    output = stage.forward_one_chunk(microbatch, *inputs[microbatch], here)
                    if stage.is_last and has_loss:
                        found.append(self._loss(output, targets[microbatch]))
                elif learns:
                    loss = None
                    if stage.is_last:
                        loss = found[microbatch] / self.count if self.scales else found[microbatch]
                        found[microbatch] = found[microbatch].detach()
                    stage.backward_one_chunk(microbatch, loss, microbatch == self.count - 1, here)
                    del loss
            for stage in self.stages:
                for work in stage.sent:
                    work.wait()
            if losses is not None:
                losses[:] = [loss.detach() for loss in found]
            return merged(last.outputs, self.merge) if last is not None and return_outputs else None
        finally:
            for stage in self.stages:
                stage._clear()

    def _loss(self, output: Any, target: Any) -> Tensor:
        assert self.loss_fn is not None
        loss = self.loss_fn(output, target)
        if not isinstance(loss, Tensor) or loss.numel() != 1:
            raise ArgumentError(f"{type(self).__name__}: loss_fn gives one number, not {describe(loss)}")
        return loss


class _OneStage(_Schedule):
    def __init__(
        self, stage: PipelineStage, n_microbatches: int, loss_fn: Callable[..., Tensor] | None = None,
        args_chunk_spec: Sequence[Any] | None = None, kwargs_chunk_spec: Mapping[str, Any] | None = None,
        output_merge_spec: Any = None, scale_grads: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(
            [stage], n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec, scale_grads
        )  # fmt: skip


class _SeveralStages(_Schedule):
    def __init__(
        self, stages: Sequence[PipelineStage], n_microbatches: int, loss_fn: Callable[..., Tensor] | None = None,
        args_chunk_spec: Sequence[Any] | None = None, kwargs_chunk_spec: Mapping[str, Any] | None = None,
        output_merge_spec: Any = None, scale_grads: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(
            stages, n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec, scale_grads
        )  # fmt: skip


def _all_forward_then_back(stages: int, count: int) -> Iterator[Action]:
    yield from (("forward", stage, i) for stage in range(stages) for i in range(count))
    yield from (("backward", stage, i) for stage in reversed(range(stages)) for i in range(count))


class ScheduleGPipe(_OneStage):
    """All microbatches forward, then all back: a process keeps what backward needs of all of them."""

    def order(self) -> Iterator[Action]:
        return _all_forward_then_back(1, self.count)


class Schedule1F1B(_OneStage):
    """Forward and backward in turn, as soon as the first microbatch is through: stage i of n keeps what backward needs
    of n - i microbatches."""

    def order(self) -> Iterator[Action]:
        (stage,) = self.stages
        ahead = min(self.count, stage.num_stages - stage.stage_index)
        yield from (("forward", 0, i) for i in range(ahead))
        for i in range(self.count):
            yield "backward", 0, i
            if ahead + i < self.count:
                yield "forward", 0, ahead + i


class ScheduleLoopedBFS(_SeveralStages):
    """Several stages for each process: all microbatches through one of them, then through the next."""

    def order(self) -> Iterator[Action]:
        return _all_forward_then_back(len(self.stages), self.count)


class ScheduleInterleaved1F1B(_SeveralStages):
    """Several stages for each process, forward and backward in turn: processes wait less than with one stage each. The
    number of microbatches is a multiple of that of the processes."""

    def order(self) -> Iterator[Action]:
        first = self.stages[0]
        ranks, rank, own = first.group_size, first.group_rank, len(self.stages)
        if self.count % ranks:
            raise ArgumentError(
                f"ScheduleInterleaved1F1B: {self.count} microbatches are not a multiple of {ranks} processes"
            )
        total = self.count * own

        def action(what: str, k: int) -> Action:
            """Number k of the passes of this process: a microbatch for each rank through a stage, then the next."""
            stage = k % (ranks * own) // ranks
            return what, stage if what == "forward" else own - 1 - stage, k // (ranks * own) * ranks + k % ranks

        ahead = min(total, 2 * (ranks - rank - 1) + (own - 1) * ranks + 1)
        yield from (action("forward", k) for k in range(ahead))
        for k in range(total):
            yield action("backward", k)
            if ahead + k < total:
                yield action("forward", ahead + k)
