"""Attention of several texts with a mask each, natively; the page does without this code."""

from __future__ import annotations

from ..launch import Part, launch_all
from ..tensor import Tensor, empty_contiguous, make
from .attention import _MASKED, _attention_workspace, _masked_dims, _unfolded

_MOST_ENTRIES = 64


def _heads_as_entries(x: Tensor) -> Tensor:
    """The first entry of x (B, T, H, D) as (H, T, 1, D)."""
    shape, strides = (x.shape[2], x.shape[1], 1, x.shape[3]), (x.strides[2], x.strides[1], x.shape[3], 1)
    return make(x.storage, shape, strides, x.dtype, x.offset)


def by_entries(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor, before: int, after: int, scale: float, softcap: float | None
) -> Tensor | None:
    """Where the heads lie like batch entries, as in torch's layout and in caches, but share the mask of their entry: a
    record for each entry, instead of copies of keys and values. None where that is not so."""
    batch, tokens, heads, _ = q.shape
    if batch > _MOST_ENTRIES or heads == 1:
        return None
    if heads != k.shape[2] or q.device.backend.own_workspaces or any(x.strides[3] != 1 for x in (q, k, v)):
        return None
    if all(x.strides[2] == x.shape[3] for x in (q, k, v)):
        return None  # which the kernel reads as they are
    ours = tuple(_heads_as_entries(x) for x in (q, k, v))
    own_q, own_k, own_v = ours
    one = make(mask.storage, (1, *mask.shape[1:]), mask.strides, mask.dtype, mask.offset)
    y = empty_contiguous((batch * heads, tokens, 1, v.shape[3]), q.dtype, q.device)
    workspace, workers = _attention_workspace(own_q, own_k, own_v, softcap, backward=False)
    dims = _masked_dims(own_q, own_k, own_v, one, before, after, workers, scale, softcap)
    steps = [x.strides[0] * x.dtype.itemsize for x in (q, k, v, mask)]
    each = y.nbytes // batch
    launch_all(
        q.numel() * k.shape[1] >> 10,
        *[
            (
                _MASKED, Part(y, i * each), *[Part(x, i * step) for x, step in zip((*ours, mask), steps, strict=True)],
                workspace, *dims, scale, softcap or 0.0,
            )
            for i in range(batch)
        ],
    )  # fmt: skip
    return _unfolded(y, heads)
