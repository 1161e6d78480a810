"""Attention of several texts with a mask each, natively; the page does without this code."""

from __future__ import annotations

from ..launch import Part, launch_all
from ..tensor import Tensor, empty_contiguous, make
from .attention import _MASKED, _attention_workspace, _masked_dims, _unfolded

_MOST_ENTRIES = 64


def _heads_as_entries(x: Tensor, kv_heads: int) -> Tensor:
    """The first entry of x (B, T, H, D) as (KV, T, H / KV, D)."""
    group = x._shape[2] // kv_heads
    shape, strides = (kv_heads, x._shape[1], group, x._shape[3]), (group * x.strides[2], x.strides[1], x._shape[3], 1)
    return make(x._storage, shape, strides, x.dtype, x.offset)


def by_entries(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor, before: int, after: int, scale: float, softcap: float | None
) -> Tensor | None:
    """Where the heads lie like batch entries, as in torch's layout and in caches, but share the mask of their entry: a
    record for each entry, instead of copies of keys and values. None where that is not so."""
    (batch, tokens, heads, _), kv_heads = q._shape, k._shape[2]
    grouped = heads != kv_heads
    if batch > _MOST_ENTRIES or heads == 1 or (grouped and (tokens != 1 or q.strides[2] != q._shape[3])):
        return None
    if q.device.backend.own_workspaces or any(x.strides[3] != 1 for x in (q, k, v)):
        return None
    if all(x.strides[2] == x._shape[3] for x in (q, k, v)) or (mask._shape[0] == 1 and not grouped):
        return None  # which the kernel reads as they are, or in one record
    ours = tuple(_heads_as_entries(x, kv_heads) for x in (q, k, v))
    own_q, own_k, own_v = ours
    one = make(mask._storage, (1, *mask._shape[1:]), mask.strides, mask.dtype, mask.offset)
    y = empty_contiguous((batch * kv_heads, tokens, heads // kv_heads, v._shape[3]), q.dtype, q.device)
    workspace, workers = _attention_workspace(own_q, own_k, own_v, softcap, backward=False)
    dims = _masked_dims(own_q, own_k, own_v, one, before, after, workers, scale, softcap)
    steps = [0 if x._shape[0] == 1 else x.strides[0] * x.dtype.itemsize for x in (q, k, v, mask)]
    each = y.nbytes // batch
    launch_all(
        q.numel() * k._shape[1] >> 10,
        *[
            (
                _MASKED, Part(y, i * each), *[Part(x, i * step) for x, step in zip((*ours, mask), steps, strict=True)],
                workspace, *dims, scale, softcap or 0.0,
            )
            for i in range(batch)
        ],
    )  # fmt: skip
    return y.reshape(batch, 1, heads, v._shape[3]) if grouped else _unfolded(y, heads)
