"""PipelineStage: a part of a model in one process, between those of the processes before and after it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

from ...engine import Tensor
from ...engine.autograd import backward as run_backward
from ...engine.dtype import DTYPES, int64
from ...engine.grad_mode import STATE
from ...engine.ops import empty, tensor, zeros_like
from ...engine.processes.collectives import TAGS
from ...engine.processes.communicator import Work
from ...engine.processes.group import ProcessGroup, group_or_world
from ...engine.user_errors import describe
from ...errors import ArgumentError, ProcessError
from ...nn.distributed_data_parallel import DistributedDataParallel
from ...nn.module import Module

__all__ = ["PipelineStage"]

_HEADER = 128  # numbers that say which tensors come: how many, then of each its dtype, whether it has a gradient, dims
_KINDS = list(DTYPES)
_FIRST_TAG = TAGS // 2  # so that few users' own messages have the same
_MOST = (TAGS - _FIRST_TAG) // 2


def header_of(tensors: Sequence[Tensor]) -> Tensor:
    """(_HEADER,) int64: what the receiver must know of tensors."""
    numbers = [len(tensors)]
    for x in tensors:
        numbers += [_KINDS.index(x.dtype.name), int(x.requires_grad), x.ndim, *x.shape]
    if len(numbers) > _HEADER:
        raise ArgumentError(f"PipelineStage: {len(tensors)} tensors are too many to go from one stage to the next")
    return tensor(numbers + [0] * (_HEADER - len(numbers)), dtype=int64)


def read_header(header: Tensor, device: Any) -> list[Tensor]:
    """Tensors for what comes, whose memory is not written yet."""
    count, *numbers = header.tolist()
    found, at = [], 0
    for _ in range(count):
        kind, flag, ndim = numbers[at : at + 3]
        shape = numbers[at + 3 : at + 3 + ndim]
        at += 3 + ndim
        found.append(empty(*shape, dtype=_KINDS[kind], device=device).requires_grad_(bool(flag)))
    return found


class PipelineStage:
    """Stage `stage_index` of `num_stages` of a model: `submodule`, which has the tensors that the stage before gives as
    its arguments, and gives one tensor or several. The stages of a group are at the ranks 0, 1 …, 0, 1 …

    `device` is that of the submodule; `input_args` and `output_args` are accepted as in torch, and not needed: each
    message says what comes. Stages in one process hand their tensors over without messages.
    """

    def __init__(
        self, submodule: Module, stage_index: int, num_stages: int, device: Any = None, input_args: Any = None,
        output_args: Any = None, group: ProcessGroup | None = None,
    ) -> None:  # fmt: skip
        if not isinstance(submodule, Module):
            raise TypeError(f"PipelineStage: takes a Module, not {describe(submodule)}")
        if not 0 <= stage_index < num_stages <= _MOST:
            raise ArgumentError(f"PipelineStage: there is no stage {stage_index} of {num_stages}")
        self.submod, self.stage_index, self.num_stages = submodule, stage_index, num_stages
        self.device, self.group = device, group_or_world(group)
        self.group_rank, self.group_size = self.group.rank(), self.group.size()
        if num_stages % self.group_size:
            raise ArgumentError(f"PipelineStage: {num_stages} stages are not equally many for {self.group_size} ranks")
        if stage_index % self.group_size != self.group_rank:
            raise ArgumentError(
                f"PipelineStage: stage {stage_index} is that of rank {stage_index % self.group_size} of "
                f"{self.group_size}, this is rank {self.group_rank}"
            )
        self._clear()

    def _clear(self) -> None:
        """Forgets what a step has left."""
        self.outputs: list[Any] = []  # of the last stage, in the order of the microbatches
        self.sent: list[Work] = []
        self._inputs: dict[int, list[Tensor]] = {}  # by microbatch: what came, with its gradients
        self._given: dict[int, list[Tensor]] = {}  # what was computed
        self._handed: dict[tuple[str, int], list[Tensor]] = {}  # by another stage of this process

    @property
    def is_first(self) -> bool:
        """Whether the batch comes here."""
        return self.stage_index == 0

    @property
    def is_last(self) -> bool:
        """Whether the loss is computed here."""
        return self.stage_index == self.num_stages - 1

    # -- messages

    def _send(self, what: str, tensors: Sequence[Tensor], stage: int, microbatch: int, here: dict[int, Any]) -> None:
        """Begins to send tensors to another stage: "forward" with a header, "backward" without."""
        plain = [x.detach().contiguous() for x in tensors]
        if stage in here:
            given = [x.requires_grad_(y.requires_grad) for x, y in zip(plain, tensors, strict=True)]
            here[stage]._handed[what, microbatch] = given
            return
        caller, to, tag = self.group.member(), stage % self.group_size, _tag(what, stage)
        if what == "forward":
            self.sent.append(caller.send(header_of(tensors), to, tag))
        with caller.beside(plain):
            self.sent += [caller.send(x, to, tag) for x in plain]

    def _receive(self, what: str, tensors: list[Tensor] | None, stage: int, microbatch: int) -> list[Tensor]:
        """The tensors that another stage sends, into `tensors`, or what the header says."""
        if (what, microbatch) in self._handed:
            return self._handed.pop((what, microbatch))
        caller, source, tag = self.group.member(), stage % self.group_size, _tag(what, self.stage_index)
        if source == self.group_rank:
            raise ProcessError(
                f"stage {self.stage_index} waits for stage {stage}, which is in this process and not in the schedule",
                where="PipelineStage", hint="Give the schedule all stages of the process",
            )  # fmt: skip
        if tensors is None:
            header = empty(_HEADER, dtype=int64)
            caller.receive(header, source, tag).wait()
            tensors = read_header(header, self.device)
        plain = [x.detach() for x in tensors]
        with caller.beside(plain):
            works = [caller.receive(x, source, tag) for x in plain]
        for work in works:
            work.wait()
        return tensors

    # -- one microbatch

    def forward_one_chunk(
        self, microbatch: int, args: tuple[Any, ...], kwargs: dict[str, Any], here: dict[int, PipelineStage]
    ) -> Any:  # fmt: skip
        """Computes a microbatch, of which the first stage has the arguments, and sends what it gives on."""
        given: Sequence[Any] = args
        if not self.is_first:
            given = self._receive("forward", None, self.stage_index - 1, microbatch)
            if not STATE.enabled:
                given = [x.detach() for x in given]
            self._inputs[microbatch] = [x for x in given if x.requires_grad]
        output = self.submod(*given, **kwargs)
        if self.is_last:
            self.outputs.append(output)
            return output
        tensors = list(output) if isinstance(output, (list, tuple)) else [output]
        for x in tensors:
            if not isinstance(x, Tensor) or not x.dense or x.dtype.is_quantized:
                raise ArgumentError(
                    f"PipelineStage: stage {self.stage_index} gives {describe(x)}; only dense tensors go to the next"
                )
        if STATE.enabled:
            self._given[microbatch] = [x for x in tensors if x.requires_grad]
        self._send("forward", tensors, self.stage_index + 1, microbatch, here)
        return output

    def backward_one_chunk(
        self, microbatch: int, loss: Tensor | None, is_final: bool, here: dict[int, PipelineStage]
    ) -> None:  # fmt: skip
        """The gradients of a microbatch: from its loss in the last stage, else from those that the next one sends.
        `is_final`: those of all other microbatches are there, so that replicas may average them."""
        model = self.submod
        waits = isinstance(model, DistributedDataParallel) and not is_final
        with model.no_sync() if waits else nullcontext():
            if loss is not None:
                loss.backward()
            else:
                outputs = self._given.pop(microbatch, [])
                blank = [empty(*x.shape, dtype=x.dtype, device=x.device) for x in outputs]
                gradients = self._receive("backward", blank, self.stage_index + 1, microbatch)
                if outputs:
                    run_backward(outputs, gradients)
        if not self.is_first:
            inputs = self._inputs.pop(microbatch, [])
            found = [zeros_like(x) if x.grad is None else x.grad for x in inputs]
            self._send("backward", found, self.stage_index - 1, microbatch, here)


def _tag(what: str, stage: int) -> int:
    """The tag of messages to a stage."""
    return _FIRST_TAG + 2 * stage + (what == "backward")
