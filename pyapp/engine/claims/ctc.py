"""Connectionist temporal classification (native/ctc.c)."""

from __future__ import annotations

from typing import Any

from ..dtype import float32
from ..launch import KERNELS
from ..native import get_num_threads
from ..op import claims
from ..operands import dense
from ..storage import Storage
from ..tensor import Tensor, empty_contiguous

_CTC = KERNELS["ctc_f32"]


def _launch(gradient: Tensor | None, log_probs: Tensor, *rest: Any) -> Tensor:
    """The losses (N,); writes d loss / d log_probs into `gradient` (T, N, C) if there is one."""
    labels, input_lengths, target_lengths, blank = rest
    steps, count, classes = log_probs._shape
    longest, device = labels.shape[1], log_probs.device
    own = device.backend.own_workspaces
    workspaces = 1 if own else min(count, get_num_threads())
    room = (steps + 7) * (_up(2 * longest + 1) + 32)  # floats of one sample's workspace
    _CTC.launch(
        steps * count * (2 * longest + 1) >> 4, losses := empty_contiguous((count,), float32, device), gradient,
        dense(log_probs), dense(labels), dense(input_lengths), dense(target_lengths),
        log_probs if own else Storage(4 * room * workspaces, device), steps, count, classes, longest, blank, room,
        workspaces,
    )  # fmt: skip
    return losses


def _up(size: int) -> int:
    """The next multiple of 16."""
    return (size + 15) // 16 * 16


@claims("_ctc")
def _ctc(log_probs: Tensor, *rest: Any) -> Any:
    return _launch(None, log_probs, *rest) if log_probs.dtype is float32 else NotImplemented


@claims("_ctc_gradient")
def _ctc_gradient(log_probs: Tensor, *rest: Any) -> Any:
    if log_probs.dtype is not float32:
        return NotImplemented
    gradient = empty_contiguous(log_probs._shape, float32, log_probs.device)
    _launch(gradient, log_probs, *rest)
    return gradient
