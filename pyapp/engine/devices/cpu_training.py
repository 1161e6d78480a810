"""The CPU's kernels of training: whole-sequence attention, the loss, and fused gradients. Where a kernel does not take
a dtype, and for second order, gradients come from definitions.
"""

from __future__ import annotations

from typing import Any

from .. import dtype as _dtype
from ..autograd import STATE
from ..launch import KERNELS, launch
from ..native import get_num_threads
from ..op import OPS
from ..ops.base import definition_gradient, dense, is_plain
from ..storage import Storage
from ..tensor import Tensor, empty_contiguous
from .cpu import claims

_F32 = _dtype.float32
_I32 = _dtype.int32
K = KERNELS

_numpy_d_embedding = OPS["_embedding"].vjp


@OPS["_embedding"].gradient
def _d_embedding(g: Tensor, _: Any, weight: Tensor, ids: Tensor) -> Any:
    assert _numpy_d_embedding is not None
    if STATE.enabled or not (g.dtype is weight.dtype is _F32) or ids.dtype is not _I32:
        return _numpy_d_embedding(g, _, weight, ids)
    g, ids = dense(g), dense(ids)
    grad = empty_contiguous(weight.shape)
    launch(
        K["embedding_backward_f32"],
        g.numel() >> 10,
        grad.address,
        g.address,
        ids.address,
        ids.numel(),
        weight.shape[1],
        weight.shape[0],
    )
    return (grad,)


@OPS["_rms_norm"].gradient
def _d_rms_norm(g: Tensor, _: Any, x: Tensor, weight: Tensor, epsilon: float) -> Any:
    if STATE.enabled or not (x.dtype is weight.dtype is g.dtype is _F32):
        return definition_gradient(OPS["_rms_norm"], g, x, weight, epsilon)
    x, weight, g = dense(x), dense(weight), dense(g)
    grad_x, grad_weight = empty_contiguous(x.shape), empty_contiguous(weight.shape)
    columns = x.shape[-1]
    launch(
        K["rms_norm_backward_f32"],
        x.numel() >> 9,
        grad_x.address,
        grad_weight.address,
        x.address,
        weight.address,
        g.address,
        x.numel() // columns,
        columns,
        epsilon,
    )
    return grad_x, grad_weight


@OPS["silu_mul"].gradient
def _d_silu_mul(g: Tensor, _: Any, x: Tensor) -> Any:
    if STATE.enabled or not (x.dtype is g.dtype is _F32):
        return definition_gradient(OPS["silu_mul"], g, x)
    x, g = dense(x), dense(g)
    half = g.shape[-1]
    grad_x = empty_contiguous(x.shape)
    launch(
        K["silu_mul_backward_f32"],
        g.numel() >> 7,
        grad_x.address,
        x.address,
        g.address,
        g.numel() // max(half, 1),
        half,
    )
    return (grad_x,)


_ATTENTION_TRAIN, _ATTENTION_TRAIN_BACKWARD = K["attention_train_f32"], K["attention_train_backward_f32"]


def _sequences(x: Tensor) -> Tensor:
    """x (B, T, H, D) itself where each token's heads lie densely, else a dense copy."""
    return x if x.strides[3] == 1 and x.strides[2] == x.shape[3] else dense(x)


def _attention_workspace(q: Tensor, k: Tensor, backward: bool) -> tuple[Storage, int]:
    """The memory that attention_train works in (see kernels.h), and for how many workers: a record is cut into two
    chunks for each thread. Forward, several may share one head's rows.
    """
    units = k.shape[0] * k.shape[2]
    if not backward:
        units *= -(-q.shape[1] * (q.shape[2] // k.shape[2]) // 48)
    workers = min(units, 2 * get_num_threads())
    keys, width = -(-k.shape[1] // 24) * 24, -(-q.shape[3] // 16) * 16
    return Storage(4 * workers * (4 * (keys + 48) * width + 96 * keys)), workers


def _attention_dims(q: Tensor, k: Tensor, v: Tensor) -> tuple[int, ...]:
    batch, tokens, heads, size = q.shape
    return (batch, tokens, k.shape[1], heads, k.shape[2], size, *q.strides[:2], *k.strides[:2], *v.strides[:2])


def _takes_attention(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> bool:
    return (
        q.dtype is k.dtype is v.dtype is _F32
        and not (causal and q.shape[1] > k.shape[1])
        and 0 not in q.shape + k.shape
    )


@claims("_attention")
def _whole_attention(q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float) -> Any:
    if not _takes_attention(q, k, v, causal):
        return NotImplemented
    q, k, v = _sequences(q), _sequences(k), _sequences(v)
    y = empty_contiguous(q.shape)
    workspace, workers = _attention_workspace(q, k, backward=False)
    launch(
        _ATTENTION_TRAIN,
        q.numel() * k.shape[1] >> 10,
        y.address,
        q.address,
        k.address,
        v.address,
        workspace.address,
        *_attention_dims(q, k, v),
        int(causal),
        workers,
        scale,
    )
    return y


@OPS["_attention"].gradient
def _d_attention(g: Tensor, _: Any, q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float) -> Any:
    if STATE.enabled or g.dtype is not _F32 or not _takes_attention(q, k, v, causal):
        return definition_gradient(OPS["_attention"], g, q, k, v, causal, scale)
    q, k, v, g = _sequences(q), _sequences(k), _sequences(v), dense(g)
    grads = empty_contiguous(q.shape), empty_contiguous(k.shape), empty_contiguous(v.shape)
    workspace, workers = _attention_workspace(q, k, backward=True)
    launch(
        _ATTENTION_TRAIN_BACKWARD,
        q.numel() * k.shape[1] >> 9,
        *(grad.address for grad in grads),
        q.address,
        k.address,
        v.address,
        g.address,
        workspace.address,
        *_attention_dims(q, k, v),
        int(causal),
        workers,
        scale,
    )
    return grads


# ---- losses


@claims("_cross_entropy")
def _cross_entropy(logits: Tensor, targets: Tensor, ignore_index: int) -> Any:
    if not is_plain(logits):
        return NotImplemented
    rows, columns = logits.shape
    loss = empty_contiguous((rows,))
    targets = dense(targets.to(_I32))
    launch(
        K["cross_entropy_f32"],
        logits.numel() >> 7,
        loss.address,
        0,
        logits.address,
        targets.address,
        rows,
        columns,
        ignore_index,
        1.0,
    )
    return loss.sum() / _kept(targets, ignore_index)


def _kept(targets: Tensor, ignore_index: int) -> float:
    """How many targets count; NaN for none, so that the mean is NaN as in torch."""
    return float((targets != ignore_index).sum().item()) or float("nan")


@OPS["_cross_entropy"].gradient
def _d_cross_entropy(g: Tensor, _: Any, logits: Tensor, targets: Tensor, ignore_index: int) -> Any:
    if STATE.enabled or not is_plain(logits):
        return definition_gradient(OPS["_cross_entropy"], g, logits, targets, ignore_index)
    rows, columns = logits.shape
    loss, gradient = empty_contiguous((rows,)), empty_contiguous(logits.shape)
    targets = dense(targets.to(_I32))
    scale = float(g.item()) / _kept(targets, ignore_index)
    launch(
        K["cross_entropy_f32"], logits.numel() >> 7, loss.address, gradient.address, logits.address, targets.address,
        rows, columns, ignore_index, scale,
    )  # fmt: skip
    return (gradient,)
