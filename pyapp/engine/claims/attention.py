"""Rotary positions, caches of keys and values, and attention with its gradients."""

from __future__ import annotations

from importlib import import_module
from math import inf
from typing import Any

from .. import dtype as _dtype
from ..device import Device
from ..element_types import CODES
from ..launch import KERNELS as K
from ..launch import Part, launch_all
from ..native import IN_BROWSER, get_num_threads
from ..op import OPS, claims
from ..operands import dense, is_plain
from ..ops.elementwise.select import where
from ..ops.kv_cache import check_write
from ..shape import contiguous_strides
from ..storage import Storage
from ..tensor import Tensor, empty_contiguous, make
from .layouts import row_major, rows_of

_F32 = _dtype.float32
_I32 = _dtype.int32

_ROPE, _CACHE_WRITE, _ATTENTION = K["rope_f32"], K["cache_write"], K["cached_attention"]
_ROTATE_AND_WRITE = K["rotate_and_write"]
_CACHE_TYPES = (_F32, _dtype.float16, _dtype.uint8)


def _heads(x: Tensor) -> Tensor:
    """x (..., T, H, D) itself if each token's heads are dense and its texts follow one another, else a dense copy."""
    if x.strides[-1] == 1 and x.strides[-2] == x._shape[-1]:
        if len(x._shape) == 3 or (len(x._shape) == 4 and x.strides[0] == x._shape[1] * x.strides[1]):
            return x
    return row_major(x)


def _are_caches(keys: Tensor, values: Tensor) -> bool:
    """Whether kernels take these two, which have one shape and dtype."""
    known = keys.dtype in _CACHE_TYPES or (keys.dtype is _dtype.bfloat16 and keys.device.backend.bfloat16_caches)
    return known and keys.is_contiguous() and values.is_contiguous()


def _starts(position: Tensor) -> Tensor:
    """The positions, dense."""
    return position if position.strides == (1,) else dense(position)


def _cache_sizes(cache: Tensor, block_table: Tensor | None) -> tuple[tuple[int, int, int], tuple[int, int]]:
    """(texts, KV, capacity), (parts, blocks) of a cache (KV, capacity, ...), (B, KV, capacity, ...), or (blocks, KV,
    capacity, ...) with a block table.
    """
    kv_heads, capacity = cache._shape[-3:-1]
    if block_table is not None:
        return (block_table._shape[0], kv_heads, capacity), (block_table._shape[1], cache._shape[0])
    return ((cache._shape[0] if len(cache._shape) == 4 else 1), kv_heads, capacity), (1, 0)


def _table(block_table: Tensor | None) -> Tensor | None:
    """A block table as kernels take it."""
    return None if block_table is None else dense(block_table)


def _of_heads(values: Tensor | None) -> Tensor | None:
    """Slopes as kernels take them."""
    return None if values is None else dense(values.detach().to(_F32))


@claims("_rope")
def _rope(x: Tensor, table: Tensor, position: Tensor | None, interleaved: bool) -> Any:
    """x (T, H, D), or (B, T, H, D) with one record for each batch entry."""
    if x.dtype is not _F32 or len(x._shape) not in (3, 4):
        return NotImplemented
    if not is_plain(table) or (position is not None and position.dtype is not _I32):
        return NotImplemented
    if x.strides[-1] != 1 or x.strides[-2] != x._shape[-1]:
        x = dense(x)
    tokens, heads, size = x._shape[-3:]
    texts, each, step = 1, tokens * heads * size, x.strides[0]
    if position is not None and position.numel() > 1:  # a position for each token
        position, texts, tokens = dense(position), tokens, 1
    y = empty_contiguous(x._shape, _F32, x.device)
    for i in range(x._shape[0] if len(x._shape) == 4 else 1):
        at = position if position is None or len(position._shape) == 1 else Part(position, 4 * i * texts)
        _ROPE.launch(
            each >> 10, Part(y, 4 * i * each), Part(x, 4 * i * step), table, at,
            texts, tokens, heads, size, 2 * table._shape[1], heads * size, x.strides[-3], table._shape[0],
            int(interleaved),
        )  # fmt: skip
    return y


@claims("cache_write")
def _cache_write(cache: Tensor, x: Tensor, position: Tensor, block_table: Tensor | None = None) -> Any:
    if not _are_caches(cache, cache) or x.dtype is not _F32 or position.dtype is not _I32:
        return NotImplemented
    check_write(cache, x, position, block_table)
    x = _heads(x)
    tokens, heads, size = x._shape[-3:]
    (texts, _, capacity), paging = _cache_sizes(cache, block_table)
    _CACHE_WRITE.launch(
        x.numel() >> 10, cache, x, _starts(position), _table(block_table), texts, tokens, heads, size, capacity,
        x.strides[-3], CODES[cache.dtype], *paging,
    )  # fmt: skip
    cache._storage.version += 1
    return cache


@claims("_cached_attention")
def _cached_attention(
    q: Tensor, k_cache: Tensor, v_cache: Tensor, position: Tensor, scale: float, window: int | None,
    softcap: float | None, slopes: Tensor | None, sinks: Tensor | None, block_table: Tensor | None,
) -> Any:  # fmt: skip
    if not (q.dtype is _F32 and _are_caches(k_cache, v_cache) and position.dtype is _I32):
        return NotImplemented
    q = _heads(q)
    tokens, heads, size = q._shape[-3:]
    (texts, kv_heads, capacity), paging = _cache_sizes(k_cache, block_table)
    y = empty_contiguous(q._shape, _F32, q.device)
    _ATTENTION.launch(
        texts * tokens * heads * size * 256 >> 10, y, q, k_cache, v_cache, _starts(position), _of_heads(slopes),
        _of_heads(sinks), _table(block_table), texts, tokens, heads, kv_heads, size, capacity, heads * size,
        q.strides[-3], 1, window or 0, CODES[k_cache.dtype], *paging, scale, softcap or 0.0,
    )  # fmt: skip
    return y


_constants: dict[tuple[int, int, Device], Tensor] = {}


def _constant(value: int, device: Device, count: int = 1) -> Tensor:
    """A constant int32 (count,) for kernels."""
    found = _constants.get((value, count, device))
    if found is None:
        if len(_constants) > 4096:
            _constants.clear()
        found = make(Storage.outside_graphs(4 * count, device), (count,), (1,), _I32)
        found.assign_constants((value,) * count)
        _constants[value, count, device] = found  # now, as other threads may take it
    return found


@claims("_cross_attention")
def _cross_attention(q: Tensor, keys: Tensor, values: Tensor, scale: float) -> Any:
    """As attention over a full cache in which every row attends to all keys. More rows than keys take
    several records.
    """
    if not (q.dtype is _F32 and keys.dtype.is_floating_point and _are_caches(keys, values)):
        return NotImplemented
    q = _heads(q)
    tokens, heads, size = q._shape
    kv_heads, length, _ = keys._shape
    y = empty_contiguous(q._shape, _F32, q.device)
    for first in range(0, tokens, length):
        count = min(length, tokens - first)
        _ATTENTION.launch(count * heads * size * length >> 9,
            Part(y, 4 * first * heads * size), Part(q, 4 * first * q.strides[0]), keys, values,
            _constant(length - count, q.device), None, None, None, 1, count, heads, kv_heads, size, length,
            heads * size, q.strides[0], 0, 0, CODES[keys.dtype], 1, 0, scale, 0.0,
        )  # fmt: skip
    return y


@claims("_cached_self_attention")
def _cached_self_attention(
    qkv: Tensor, table: Tensor | None, position: Tensor, keys: Tensor, values: Tensor, size: int, interleaved: bool,
    scale: float, window: int | None, softcap: float | None, slopes: Tensor | None, sinks: Tensor | None,
    block_table: Tensor | None,
) -> Any:  # fmt: skip
    """Several records in one call: rotate q and k, write k and v into the cache, attend."""
    if not (qkv.dtype is _F32 and _are_caches(keys, values) and position.dtype is _I32):
        return NotImplemented
    if table is not None and not is_plain(table):
        return NotImplemented
    lead = qkv._shape[:-1]
    qkv, rows, width, stride = rows_of(qkv)
    position, slopes, sinks = _starts(position), _of_heads(slopes), _of_heads(sinks)
    (texts, kv_heads, capacity), paging = _cache_sizes(keys, block_table)
    blocks = _table(block_table)
    tokens, heads, code = rows // max(texts, 1), width // size - 2 * kv_heads, CODES[keys.dtype]
    y = empty_contiguous((*lead, heads * size), _F32, qkv.device)
    angles, rotated = (0, 0) if table is None else (table._shape[0], 2 * table._shape[1])
    if _ROTATE_AND_WRITE.name in qkv.device.backend.kernels:
        written: list[tuple[Any, ...]] = [
            (
                _ROTATE_AND_WRITE, qkv, table, position, keys, values, blocks, texts, tokens, heads, kv_heads, size,
                capacity, stride, rotated, angles, int(interleaved), code, *paging,
            )
        ]  # fmt: skip
    else:
        new_keys = Part(qkv, heads * size * 4)
        new_values = Part(new_keys, kv_heads * size * 4)
        written = [
            (
                _CACHE_WRITE, cache, new, position, blocks, texts, tokens, kv_heads, size, capacity, stride, code,
                *paging,
            )
            for cache, new in ((keys, new_keys), (values, new_values))
        ]  # fmt: skip
        if table is not None:
            rotation = (
                _ROPE, qkv, qkv, table, position, texts, tokens, heads + kv_heads, size, rotated, stride, stride,
                angles, int(interleaved),
            )  # fmt: skip
            written.insert(0, rotation)
    attention = (
        _ATTENTION, y, qkv, keys, values, position, slopes, sinks, blocks, texts, tokens, heads, kv_heads, size,
        capacity, heads * size, stride, 1, window or 0, code, *paging, scale, softcap or 0.0,
    )  # fmt: skip
    launch_all(rows * heads * size >> 2, *written, attention)
    qkv._storage.version += 1
    keys._storage.version += 1
    values._storage.version += 1
    return y


_MASKED, _MASKED_BACKWARD = K["masked_attention"], K["masked_attention_backward"]
_PAIRS, _PAIR_ROWS = K["masked_attention_pairs"], 256
_MASKED_TYPES = (_F32, _dtype.float16, _dtype.bfloat16)
_MASK_TYPES = (*_MASKED_TYPES, _dtype.bool_)


def _sequences(x: Tensor) -> Tensor:
    """x (B, T, H, D) itself if each token's heads are dense, else a dense copy."""
    return x if x.strides[3] == 1 and x.strides[2] == x._shape[3] else dense(x)


def _turned(x: Tensor) -> Tensor:
    """x (B, T, H, D) as (B, H, T, D), or the reverse."""
    shape, strides = ((y[0], y[2], y[1], y[3]) for y in (x._shape, x.strides))
    return make(x._storage, shape, strides, x.dtype, x.offset)


def _folded(x: Tensor) -> Tensor | None:
    """x (B, T, H, D) as (B H, T, 1, D), where its heads lie like batch entries, as in torch's layout; else None."""
    batch, tokens, heads, size = x._shape
    if (size != 1 and x.strides[3] != 1) or (batch != 1 and x.strides[0] != heads * x.strides[2]):
        return None
    return make(x._storage, (batch * heads, tokens, 1, size), (x.strides[2], x.strides[1], size, 1), x.dtype, x.offset)


def _unfolded(x: Tensor, heads: int) -> Tensor:
    """The reverse of _folded for a dense x."""
    entries, tokens, _, size = x._shape
    shape, strides = (entries // heads, tokens, heads, size), (heads * tokens * size, size, tokens * size, 1)
    return make(x._storage, shape, strides, x.dtype, x.offset)


def _folded_mask(mask: Tensor, batch: int, heads: int) -> Tensor | None:
    """A mask (B or 1, H or 1, T or 1, S or 1) as (B H or 1, 1, ...), or None."""
    entries, own, *rest = mask._shape
    steps = mask.strides
    if own == 1 and (entries == 1 or heads == 1):
        return mask
    if entries != batch or own != heads or (batch != 1 and steps[0] != heads * steps[1]):
        return None
    return make(
        mask._storage, (batch * heads, 1, *rest), (steps[1], steps[1], *steps[2:]), mask.dtype, mask.offset
    )  # fmt: skip


def _all_folded(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor | None] | None:
    """q, k, v and the mask with heads as batch entries, where that saves dense copies; else None."""
    heads = q._shape[2]
    if heads != k._shape[2] or heads == 1 or all(x.strides[2] == x._shape[3] for x in (q, k, v)):
        return None
    own = None if mask is None else _folded_mask(mask, q._shape[0], heads)
    folded = _folded(q), _folded(k), _folded(v)
    if folded[0] is None or folded[1] is None or folded[2] is None or (own is None and mask is not None):
        return None
    return folded[0], folded[1], folded[2], own


def _attention_workspace(
    q: Tensor, k: Tensor, v: Tensor, softcap: float | None, backward: bool
) -> tuple[Tensor | Storage, int]:
    """The memory that masked_attention works in (see kernels.h), and for how many workers: a record
    is cut into two chunks for each thread. Forward, several may share one head's rows.
    """
    if q.device.backend.own_workspaces:
        return q, 1  # which is not written to
    units = k._shape[0] * k._shape[2]
    if not backward:
        units *= -(-q._shape[1] * (q._shape[2] // k._shape[2]) // 48)
    workers = min(units, 2 * get_num_threads())
    keys, width = -(-k._shape[1] // 24) * 24, -(-max(q._shape[3], v._shape[3]) // 16) * 16
    rows = 96 if softcap is None else 144
    return Storage(4 * workers * (4 * (keys + 48) * width + rows * keys), q.device), workers


def _kept_behind(q: Tensor, v: Tensor) -> tuple[int, int] | None:
    """The bytes of a result, and of what its kernel keeps after it for the gradient (native/cuda/attention_train.cu);
    None where it keeps nothing."""
    if not q.device.backend.keeps_softmax or q.dtype is _F32 or max(q._shape[3], v._shape[3]) > 256:
        return None
    queries = q._shape[0] * q._shape[1] * q._shape[2]
    return -(-2 * queries * v._shape[3] // 16) * 16, 8 * queries


def _by_pairs(q: Tensor, k: Tensor, v: Tensor) -> bool:
    """Whether masked_attention_pairs takes it, without a mask: 16 bits, heads of 128 that begin where 16 bytes do, and
    enough rows."""
    least = q.device.backend.attention_pairs
    return (
        0 < least <= q._shape[0] * q._shape[2] * -(-q._shape[1] // _PAIR_ROWS)
        and q._shape[3] == v._shape[3] == 128
        and q.dtype is not _F32
        and all(
            (x._storage.address.value + 2 * x.offset) % 16 == 0 and x.strides[0] % 8 == x.strides[1] % 8 == 0
            for x in (q, k, v)
        )
    )


def _sight(q: Tensor, k: Tensor, causal: bool) -> tuple[int, int]:
    """The number of keys to which each row attends, before and after its position."""
    tokens, keys = q._shape[1], k._shape[1]
    return tokens, keys - tokens if causal else keys


@claims("_attention")
def _whole_attention(q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float) -> Any:
    return _masked_attention(q, k, v, None, *_sight(q, k, causal), scale)


@claims("attention_backward")
def _attention_backward(g: Tensor, y: Tensor, q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float) -> Any:
    return _masked_attention_backward(g, y, q, k, v, None, *_sight(q, k, causal), scale)


def _takes_mask(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, softcap: float | None) -> bool:
    return (
        (softcap is None or not IN_BROWSER or q.device.backend.own_workspaces)  # the page's library has no room for it
        and q.dtype is k.dtype is v.dtype
        and q.dtype in _MASKED_TYPES
        and (mask is None or mask.dtype in _MASK_TYPES)
        and 0 not in q._shape + k._shape + v._shape
    )


def _masked_dims(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, before: int, after: int, workers: int, scale: float,
    softcap: float | None,
) -> tuple[int, ...]:  # fmt: skip
    batch, tokens, heads, size = q._shape
    steps: tuple[int, ...] = (0, 0, 0, 0)
    if mask is None:
        mask_type = _F32
    else:
        mask_type = mask.dtype
        steps = tuple(0 if n == 1 else step for n, step in zip(mask._shape, mask.strides, strict=True))
    return (
        batch, tokens, k._shape[1], heads, k._shape[2], size, v._shape[3],
        *q.strides[:2], *k.strides[:2], *v.strides[:2], min(before, tokens), min(after, k._shape[1]),
        CODES[q.dtype], CODES[mask_type], *steps, workers,
        mask is None and not softcap and scale > 0,
    )  # fmt: skip


_FEW = 24  # rows of a kv head: with so few, the kernel that packs keys and values spends its time on that


def _capacity(x: Tensor) -> int:
    """The rows between the heads of keys or values (B, S, KV, D) that lie as in a cache (B, KV, capacity, D), as those
    of torch's layout do; 0 where they lie otherwise."""
    (batch, length, heads, size), (entry, row, head, element) = x._shape, x.strides
    if element != 1 or row != size:
        return 0
    capacity = head // size if heads > 1 else entry // size if batch > 1 else length
    if (heads > 1 and head != capacity * size) or (batch > 1 and entry != heads * capacity * size):
        return 0
    return capacity if capacity >= length else 0


def _of_few_rows(q: Tensor, k: Tensor, v: Tensor, before: int, after: int, scale: float) -> Tensor | None:
    """Attention of few rows to many keys, which the kernel for caches reads where they lie; None where it cannot."""
    batch, tokens, heads, size = q._shape
    keys, kv_heads = k._shape[1], k._shape[2]
    rows = tokens * (heads // kv_heads)
    if (
        rows > _FEW
        or tokens > keys
        or before < tokens - 1
        or k._shape != v._shape
        or q.dtype is not _F32
        or size > 1024
    ):
        return None
    causal = after < keys - 1
    if q.device.backend.own_workspaces or (causal and after != keys - tokens):
        return None
    capacity = _capacity(k)
    if not capacity or _capacity(v) != capacity:
        return None
    folded = None
    if tokens == 1:  # the heads of all batch entries
        q = q if q.strides[2:] == (size, 1) and (batch == 1 or q.strides[0] == heads * size) else dense(q)
        texts, own, kv = 1, batch * heads, batch * kv_heads
    else:
        folded = _folded(q) if heads == kv_heads else None
        texts, own, kv = (batch * heads, 1, 1) if folded is not None else (batch, heads, kv_heads)
        q = dense(q if folded is None else folded)
    y = empty_contiguous(q._shape, _F32, q.device)
    _ATTENTION.launch(
        q.numel() * keys >> 9, y, q, k, v, _constant(keys - tokens, q.device, texts), None, None, None, texts, tokens,
        own, kv, size, capacity, own * size, own * size, int(causal), 0, CODES[_F32], 1, 0, scale, 0.0,
    )  # fmt: skip
    return y if folded is None else _unfolded(y, heads)


def _of_one_row(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, scale: float) -> Tensor:
    """Attention of one masked row (B, 1, H, D) of each entry, as in a cache of padded texts: by products that read keys
    and values where they lie."""
    (batch, _, heads, size), kv_heads = q._shape, k._shape[2]
    rows = (q * scale).reshape(batch, kv_heads, heads // kv_heads, size)
    scores = OPS["matmul"].forward(rows, k.permute(0, 2, 3, 1))  # (B, KV, G, S)
    of_heads = (kv_heads, heads // kv_heads) if mask._shape[1] != 1 else (1, 1)
    mask = mask.reshape(mask._shape[0], *of_heads, mask._shape[3])
    scores = where(mask, scores, -inf) if mask.dtype is _dtype.bool_ else scores + mask
    y = OPS["matmul"].forward(scores.softmax(-1), v.permute(0, 2, 1, 3))  # (B, KV, G, Dv)
    blind = scores.amax(-1, True) == -inf
    return where(blind, 0.0, y).reshape(batch, 1, heads, v._shape[3])


@claims("_masked_attention")
def _masked_attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, before: int, after: int, scale: float,
    softcap: float | None = None,
) -> Any:  # fmt: skip
    if not _takes_mask(q, k, v, mask, softcap):
        return NotImplemented
    if mask is None and softcap is None:
        few = _of_few_rows(q, k, v, before, after, scale)
        if few is not None:
            return few
    if mask is not None and mask._shape[1] == 1 and not IN_BROWSER:
        entries = import_module(".entry_masks", __package__).by_entries(q, k, v, mask, before, after, scale, softcap)
        if entries is not None:
            return entries
    whole = before >= 0 and after >= k._shape[1] - 1
    if mask is not None and q._shape[1] == 1 and whole and q.dtype is _F32 and softcap is None:
        by_products = IN_BROWSER or q._shape[2] != k._shape[2]  # else the kernel reads keys and values where they lie
        if by_products and mask.dtype in (_dtype.bool_, _F32) and not q.device.backend.own_workspaces:
            return _of_one_row(q, k, v, mask, scale)
    folded = _all_folded(q, k, v, mask)
    if folded is not None:
        return _unfolded(_masked_attention(*folded, before, after, scale, softcap), q._shape[2])
    q, k, v = _sequences(q), _sequences(k), _sequences(v)
    shape = (*q._shape[:3], v._shape[3])
    workspace: Any
    behind = _kept_behind(q, v)
    if behind is None:
        y = empty_contiguous(shape, q.dtype, q.device)
        workspace, workers = _attention_workspace(q, k, v, softcap, backward=False)
    else:
        y = make(Storage(sum(behind), q.device), shape, contiguous_strides(shape), q.dtype)
        workspace, workers = Part(y, behind[0]), 2
    dims = _masked_dims(q, k, v, mask, before, after, workers, scale, softcap)
    kernel = _PAIRS if dims[-1] and _by_pairs(q, k, v) else _MASKED
    kernel.launch(q.numel() * k._shape[1] >> 10, y, q, k, v, mask, workspace, *dims, scale, softcap or 0.0)
    return y


@claims("masked_attention_backward")
def _masked_attention_backward(
    g: Tensor, y: Tensor, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, before: int, after: int, scale: float,
    softcap: float | None = None,
) -> Any:  # fmt: skip
    if g.dtype is not q.dtype or not _takes_mask(q, k, v, mask, softcap) or (mask is not None and mask.requires_grad):
        return NotImplemented
    folded = _all_folded(q, k, v, mask)
    if folded is not None:
        own, heads = _folded(_turned(dense(_turned(g)))), q._shape[2]
        grads = _masked_attention_backward(own, y, *folded, before, after, scale, softcap)
        return tuple(_unfolded(x, heads) for x in grads)
    q, k, v, g = _sequences(q), _sequences(k), _sequences(v), dense(g)
    grad_q = empty_contiguous(q._shape, q.dtype, q.device)
    grad_kv = empty_contiguous((k.numel() + v.numel(),), q.dtype, q.device)
    workspace: Any
    behind = _kept_behind(q, v)
    if behind is not None and y.offset == 0 and y._storage.nbytes == sum(behind):
        workspace, workers = Part(y, behind[0]), 2
    else:
        workspace, workers = _attention_workspace(q, k, v, softcap, backward=True)
    dims = _masked_dims(q, k, v, mask, before, after, workers, scale, softcap)
    _MASKED_BACKWARD.launch(
        q.numel() * k._shape[1] >> 9, grad_q, grad_kv, q, k, v, g, mask, workspace, *dims, scale, softcap or 0.0
    )
    memory = grad_kv._storage
    grad_k = make(memory, k._shape, contiguous_strides(k._shape), q.dtype)
    return grad_q, grad_k, make(memory, v._shape, contiguous_strides(v._shape), q.dtype, k.numel())
