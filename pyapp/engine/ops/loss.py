"""Embedding look-up, cross entropy, sampling."""

from __future__ import annotations

from math import inf
from typing import Any

from .. import dtype as _dtype
from ..autograd import STATE
from ..launch import KERNELS, launch, launch_all
from ..lazy import np
from ..op import describe, op, primitive
from ..tensor import Tensor, adopt_array, empty_contiguous
from .base import array_of, computed, dense, tensor_of

_SAMPLE = KERNELS["sample_f32"]
_ARGMAX = KERNELS["argmax_f32"]
_CROSS_ENTROPY = KERNELS["cross_entropy_f32"]


def _d_embedding(g: Tensor, _: Any, weight: Tensor, ids: Tensor) -> Any:
    """Rows of the gradient added up by id, sorted first: np.add.at on rows is ten times slower."""
    if STATE.enabled:  # a gradient that is differentiated again
        from .rearrange import index_add

        rows = g.reshape(-1, weight.shape[1])
        return (index_add(rows.new_zeros(weight.shape), 0, ids.reshape(-1), rows).to(weight.dtype),)
    flat = array_of(g).reshape(-1, weight.shape[1])
    order = np.argsort(ids.array().reshape(-1), kind="stable")
    sorted_ids = ids.array().reshape(-1)[order]
    whole = np.zeros(weight.shape, flat.dtype)
    if len(order):
        starts = np.flatnonzero(np.r_[True, sorted_ids[1:] != sorted_ids[:-1]])
        whole[sorted_ids[starts]] = np.add.reduceat(flat[order], starts, axis=0)
    return (tensor_of(whole, weight.dtype),)


@primitive(vjp=_d_embedding, saves="none", name="_embedding", method=False)
def _embedding(weight: Tensor, ids: Tensor) -> Tensor:
    computed("embedding")
    if weight.dtype.is_quantized:
        from ..quant import dequantize

        weight = dequantize(weight)
    array = ids.array()
    if array.size and (array.min() < 0 or array.max() >= weight.shape[0]):
        raise IndexError(f"embedding: ids {array.min()} .. {array.max()} are outside 0 .. {weight.shape[0] - 1}")
    rows = adopt_array(weight.array()[array], weight.dtype)
    return rows.to(_dtype.float32) if weight.dtype.itemsize == 2 else rows


def embedding(weight: Tensor, ids: Tensor) -> Tensor:
    """Rows of weight (V, D) by integer ids (...) → (..., D). float16, bfloat16 and block formats give float32 rows."""
    if ids.dtype.category != 1 or weight.ndim != 2:
        raise TypeError(f"embedding: takes a weight (V, D) and integer ids, got {describe(weight)} and {describe(ids)}")
    return _embedding(weight, ids)


@op()
def _cross_entropy(logits: Tensor, targets: Tensor, ignore_index: int) -> Tensor:
    """Mean of -log softmax(logits)[target] over rows that are not ignored."""
    kept = targets != ignore_index
    safe = targets.masked_fill(targets == ignore_index, 0).to(_dtype.int64)
    rows = -logits.log_softmax(-1).gather(1, safe.unsqueeze(1)).squeeze(1)
    return (rows * kept.to(rows.dtype)).sum() / kept.to(rows.dtype).sum()


def cross_entropy(logits: Tensor, targets: Tensor, ignore_index: int = -100) -> Tensor:
    """Mean negative log-likelihood in nats.

    logits (..., C), integer targets (...). NaN when every target is ignored, as in torch.
    """
    if logits.shape[:-1] != targets.shape:
        raise ValueError(f"cross_entropy: targets {describe(targets)} do not fit logits {describe(logits)}")
    return _cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1), ignore_index)


def _checked_logits(name: str, logits: Tensor) -> Tensor:
    if logits.dtype is not _dtype.float32 or len(logits.shape) != 1 or not logits.shape[0]:
        raise ValueError(f"{name}: takes logits (V,) in float32, got {describe(logits)}")
    return dense(logits)


def peak(logits: Tensor) -> tuple[int, float]:
    """Of logits (V,) float32: where the first of the largest is, and log(sum(exp(logits))); -inf where all are -inf."""
    logits = _checked_logits("peak", logits)
    size = logits.shape[0]
    place, loss = empty_contiguous((1,), _dtype.int32), empty_contiguous((1,), _dtype.float32)
    launch_all(
        size >> 7,
        (_ARGMAX, place.address, logits.address, 1, size, size),
        (_CROSS_ENTROPY, loss.address, 0, logits.address, place.address, 1, size, -1, 1.0),
    )  # -log(softmax) of the largest is what the sum adds to it
    index = place.data_view()[0]
    largest = logits.data_view()[index]
    return index, largest if largest == -inf else largest + loss.data_view()[0]


class SampleBuffers:
    """What `sample` writes: made once for a vocabulary."""

    __slots__ = ("candidates", "token", "token_view", "uniform", "uniform_view")

    def __init__(self, vocabulary: int) -> None:
        self.token = empty_contiguous((1,), _dtype.int32)
        self.uniform = empty_contiguous((1,), _dtype.float32)
        self.candidates = empty_contiguous((2 * vocabulary,), _dtype.int32)
        self.token_view = self.token.data_view()
        self.uniform_view = self.uniform.data_view()


def sample(
    logits: Tensor,
    buffers: SampleBuffers,
    uniform: float = 0.0,
    temperature: float = 0.0,
    top_k: int = 0,
    top_p: float = 1.0,
    min_p: float = 0.0,
    penalty: float = 1.0,
    history: Tensor | None = None,
    history_count: int = 0,
) -> int:
    """Draws a token id from logits (V,) float32: penalty of the int32 ids in history, temperature, top-k, top-p, min-p,
    in that order.

    `uniform` in [0, 1) decides; temperature 0 is argmax. KernelError for NaN logits.
    """
    logits = _checked_logits("sample", logits)
    vocabulary = logits.shape[0]
    if buffers.candidates.shape[0] < 2 * vocabulary:
        raise ValueError(f"sample: the buffers were made for {buffers.candidates.shape[0] // 2} of {vocabulary} logits")
    if history_count and (history is None or history.dtype is not _dtype.int32 or history.numel() < history_count):
        raise ValueError(f"sample: the history is {history_count} int32 ids, got {describe(history)}")
    buffers.uniform_view[0] = uniform
    launch(
        _SAMPLE, vocabulary >> 9, buffers.token.address, logits.address, history.address if history is not None else 0,
        buffers.uniform.address, buffers.candidates.address, vocabulary, history_count, top_k,
        temperature, top_p, min_p, penalty,
    )  # fmt: skip
    return buffers.token_view[0]
