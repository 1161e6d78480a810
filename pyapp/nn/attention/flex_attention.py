"""torch.nn.attention.flex_attention: attention whose scores a function changes, and whose pairs a function chooses.

The functions get all indices at once, as tensors that broadcast to (B, H, Q, K), where torch calls them for each pair
of a query and a key through vmap: what they compute elementwise, and what they look up by index, is the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from pyapp.engine import Tensor, bool_, int32, ops
from pyapp.engine.user_errors import describe
from pyapp.errors import ArgumentError, UnsupportedValueError

__all__ = [
    "AuxOutput", "AuxRequest", "BlockMask", "and_masks", "create_block_mask", "create_mask", "flex_attention",
    "noop_mask", "or_masks",
]  # fmt: skip

MaskMod = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]  # (batch, head, query, key) → bools
ScoreMod = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]  # (score, batch, head, query, key) → scores
BLOCK = 128  # queries and keys of a block, as torch's default


class AuxRequest(NamedTuple):
    """What flex_attention also returns: logarithms of the sums of exponentials, the largest scores."""

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """What was asked for: (B, H, Q), float32; None for the rest."""

    lse: Tensor | None = None
    max_scores: Tensor | None = None


def noop_mask(batch: Tensor, head: Tensor, token_q: Tensor, token_kv: Tensor) -> Tensor:
    """A mask function that leaves nothing out."""
    return batch.new_ones((), dtype=bool_)


def and_masks(*mask_mods: MaskMod) -> MaskMod:
    """A mask function of the pairs that all the functions choose."""
    _all_functions(mask_mods)

    def both(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        found = b.new_ones((), dtype=bool_)
        for mask_mod in mask_mods:
            found = found & mask_mod(b, h, q, k)
        return found

    return both


def or_masks(*mask_mods: MaskMod) -> MaskMod:
    """A mask function of the pairs that at least one of the functions chooses."""
    _all_functions(mask_mods)

    def either(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        found = b.new_zeros((), dtype=bool_)
        for mask_mod in mask_mods:
            found = found | mask_mod(b, h, q, k)
        return found

    return either


def _all_functions(mask_mods: tuple[Any, ...]) -> None:
    if not all(callable(mask_mod) for mask_mod in mask_mods):
        raise RuntimeError(f"and_masks and or_masks take functions, got {', '.join(map(describe, mask_mods))}")


def _indices(b: int, h: int, q: int, k: int, device: Any) -> list[Tensor]:
    """The indices of batch, head, query and key: (B, 1, 1, 1), (1, H, 1, 1), (1, 1, Q, 1), (1, 1, 1, K)."""
    return [
        ops.arange(n, device=device).reshape([-1 if i == j else 1 for j in range(4)])
        for i, n in enumerate((b, h, q, k))
    ]


def _mask(mask_mod: MaskMod, b: int, h: int, q: int, k: int, device: Any) -> Tensor:
    found = mask_mod(*_indices(b, h, q, k, device))
    if not isinstance(found, Tensor) or found.dtype is not bool_:
        raise ArgumentError(f"flex_attention: a mask function gives bools, got {describe(found)}")
    return found.expand(b, h, q, k)


def create_mask(
    mod_fn: Any,
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: Any = None,
) -> Tensor:
    """The pairs that a mask function of four arguments chooses, or that a score function of five does not set to -inf:
    bools (B, H, Q_LEN, KV_LEN); None for B and H counts as 1.
    """
    sizes = B or 1, H or 1, Q_LEN, KV_LEN
    if _arguments(mod_fn) == 4:
        return _mask(mod_fn, *sizes, device).contiguous()
    scores = mod_fn(ops.zeros(*sizes, device=device), *_indices(*sizes, device)).expand(*sizes)
    return scores.isneginf().logical_not()


def _arguments(function: Any) -> int:
    """How many arguments without defaults a function takes."""
    code = getattr(function, "__code__", None)
    if code is None:
        return 4
    return int(code.co_argcount - len(getattr(function, "__defaults__", None) or ()))


class BlockMask:
    """The pairs of queries and keys that a mask function chooses, and the blocks that hold such pairs.

    flex_attention calls the function again, with what it refers to at that time; the blocks (`kv_num_blocks`,
    `kv_indices`, those without gaps in `full_kv_num_blocks`, `full_kv_indices`) are computed when they are read.
    """

    def __init__(
        self, mask_mod: MaskMod, batch: int, heads: int, seq_lengths: tuple[int, int], block_size: tuple[int, int],
        device: Any = None,
    ) -> None:  # fmt: skip
        self.mask_mod, self.seq_lengths, self.BLOCK_SIZE = mask_mod, seq_lengths, block_size
        self._leading, self._device = (batch, heads), device

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(B, H, queries, keys)."""
        return (*self._leading, *self.seq_lengths)

    def _counts(self) -> tuple[Tensor, Tensor]:
        """Blocks (B, H, rows, columns) with some pairs but not all; those with all."""
        mask = _mask(self.mask_mod, *self._leading, *self.seq_lengths, self._device)
        rows, columns = (math.ceil(n / size) for n, size in zip(self.seq_lengths, self.BLOCK_SIZE, strict=True))
        below = rows * self.BLOCK_SIZE[0] - self.seq_lengths[0]
        right = columns * self.BLOCK_SIZE[1] - self.seq_lengths[1]
        padded = ops.pad(mask.to(int32), (0, right, 0, below))
        found = padded.reshape(*self._leading, rows, self.BLOCK_SIZE[0], columns, self.BLOCK_SIZE[1]).sum((3, 5))
        full = found == self.BLOCK_SIZE[0] * self.BLOCK_SIZE[1]
        return (found > 0) & ~full, full

    @staticmethod
    def _ordered(blocks: Tensor) -> tuple[Tensor, Tensor]:
        """How many blocks each row has, and their columns, which come first."""
        return blocks.sum(-1).to(int32), blocks.to(int32).argsort(dim=-1, descending=True, stable=True).to(int32)

    @property
    def kv_num_blocks(self) -> Tensor:
        """Blocks with gaps of each row: int32 (B, H, rows)."""
        return self._ordered(self._counts()[0])[0]

    @property
    def kv_indices(self) -> Tensor:
        """Their columns, before the others: int32 (B, H, rows, columns)."""
        return self._ordered(self._counts()[0])[1]

    @property
    def full_kv_num_blocks(self) -> Tensor:
        """Blocks without gaps of each row: int32 (B, H, rows)."""
        return self._ordered(self._counts()[1])[0]

    @property
    def full_kv_indices(self) -> Tensor:
        """Their columns, before the others: int32 (B, H, rows, columns)."""
        return self._ordered(self._counts()[1])[1]

    def to_dense(self) -> Tensor:
        """1 for each block that holds a pair: int32 (B, H, rows, columns)."""
        some, full = self._counts()
        return (some | full).to(int32)

    def numel(self) -> int:
        """The number of pairs, chosen or not."""
        return math.prod(self.shape)

    def sparsity(self) -> float:
        """The part of the blocks, in per cent, that holds no chosen pair."""
        return 100 * (1 - float(self.to_dense().float().mean()))

    def to(self, device: Any) -> BlockMask:
        """The mask with its blocks on another device."""
        return BlockMask(self.mask_mod, *self._leading, self.seq_lengths, self.BLOCK_SIZE, device)

    def __repr__(self) -> str:
        return f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%)"


def create_block_mask(
    mask_mod: MaskMod, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = None,
    BLOCK_SIZE: int | tuple[int, int] = BLOCK, _compile: bool = False, **settings: Any,
) -> BlockMask:  # fmt: skip
    """The BlockMask of `mask_mod(batch, head, query, key)`. B and H None: the same for all, shape 1. `settings` of
    torch's kernels have no effect.
    """
    size = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else tuple(BLOCK_SIZE)
    if Q_LEN < 1 or KV_LEN < 1 or len(size) != 2 or min(size) < 1:
        raise ArgumentError(f"create_block_mask: no mask of {Q_LEN} queries and {KV_LEN} keys in blocks of {size}")
    if _arguments(mask_mod) != 4:
        raise AssertionError("create_block_mask: takes a function of the indices of batch, head, query and key")
    return BlockMask(mask_mod, B or 1, H or 1, (Q_LEN, KV_LEN), size, device)


def flex_attention(
    query: Tensor, key: Tensor, value: Tensor, score_mod: ScoreMod | None = None, block_mask: BlockMask | None = None,
    scale: float | None = None, enable_gqa: bool = False, return_lse: bool = False, kernel_options: Any = None, *,
    return_aux: AuxRequest | None = None,
) -> Any:  # fmt: skip
    """softmax(score_mod(query @ key.T * scale)) @ value over the pairs of `block_mask`: query (B, H, Q, E), key
    (B, H, K, E), value (B, H, K, V) → (B, H, Q, V). Queries without a key get 0. `scale` is 1 / sqrt(E) by default.
    With `enable_gqa`, H is a multiple of the heads of key and value.

    (output, logarithms of the sums of exponentials (B, H, Q)) with `return_lse`; (output, AuxOutput) with `return_aux`.
    `kernel_options` has no effect.
    """
    if query.ndim != 4 or key.ndim != 4 or value.ndim != 4:
        shapes = ", ".join(map(describe, (query, key, value)))
        raise UnsupportedValueError(f"flex_attention: query, key and value have 4 dims each, got {shapes}")
    heads, shared = query.shape[1], key.shape[1]
    if value.shape[1] != shared or heads % shared or (heads != shared and not enable_gqa):
        raise ArgumentError(
            f"flex_attention: {heads} heads of queries, {shared} of keys, {value.shape[1]} of values; with "
            "enable_gqa=True the first may be a multiple of the others"
        )
    if heads != shared:
        key, value = (x.repeat_interleave(heads // shared, 1) for x in (key, value))
    sizes = query.shape[0], heads, query.shape[2], key.shape[2]
    kind = "float64" if query.dtype.name == "float64" else "float32"
    scores = (query @ key.transpose(-2, -1)).to(kind) * (query.shape[3] ** -0.5 if scale is None else scale)
    if score_mod is not None:
        scores = score_mod(scores, *_indices(*sizes, query.device)).to(kind)
    if block_mask is not None:
        wrong = block_mask.seq_lengths != sizes[2:] or any(
            own not in (1, n) for own, n in zip(block_mask.shape[:2], sizes[:2], strict=True)
        )
        if wrong:
            raise ArgumentError(f"flex_attention: block_mask is for {block_mask.shape}, the scores are {sizes}")
        chosen = _mask(block_mask.mask_mod, *block_mask.shape, query.device)
        scores = scores.masked_fill(chosen.logical_not(), -math.inf)  # (B, H, Q, K)
    empty = (scores == -math.inf).all(-1, keepdim=True)  # (B, H, Q, 1)
    chances = ops.softmax(scores.masked_fill(empty, 0.0), -1).masked_fill(empty, 0.0)
    output = chances.to(query.dtype) @ value
    if return_aux is not None:
        lse = scores.logsumexp(-1) if return_aux.lse else None
        return output, AuxOutput(lse, scores.amax(-1) if return_aux.max_scores else None)
    return (output, scores.logsumexp(-1)) if return_lse else output
