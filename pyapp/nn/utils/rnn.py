"""Sequences of different lengths: padded to one tensor, or packed so that recurrent layers skip the padding."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ...engine import Tensor
from ...engine.lazy import np
from ...engine.ops import cat, from_numpy
from ...engine.ops.scattering import index_copy
from ...engine.user_errors import describe
from ...errors import ArgumentError


class PackedSequence(NamedTuple):
    """Sequences stored step by step in `data` (all elements, ...). The first `batch_sizes[0]` rows (int64) are the
    first steps, the next `batch_sizes[1]` the second, and so on; the longest sequence comes first. `sorted_indices`
    (B,) is the permutation that sorted the sequences, `unsorted_indices` its inverse; None if they were sorted already.
    """

    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None = None
    unsorted_indices: Tensor | None = None

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """The data in another dtype or on another device."""
        return self._replace(data=self.data.to(*args, **kwargs))

    def float(self) -> PackedSequence:
        """The data in float32."""
        return self.to("float32")

    def double(self) -> PackedSequence:
        """The data in float64."""
        return self.to("float64")

    def cpu(self) -> PackedSequence:
        """The data on the CPU."""
        return self.to("cpu")

    def cuda(self, device: Any = "cuda") -> PackedSequence:
        """The data on a CUDA device."""
        return self.to(device)

    @property
    def is_cuda(self) -> bool:
        return self.data.device.type == "cuda"


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The inverse of a permutation (N,); None for None."""
    if permutation is None:
        return None
    return permutation.argsort(stable=True)


def _lengths_of(lengths: Any, count: int) -> Any:
    found = np.asarray(lengths.tolist() if isinstance(lengths, Tensor) else lengths, dtype=np.int64).reshape(-1)
    if found.shape != (count,) or (count and found.min() < 1):
        raise ArgumentError(f"pack_padded_sequence: lengths are {count} numbers of at least 1, got {found.tolist()}")
    return found


def _places(sizes: Any, batch: int) -> Any:
    """The positions of the elements of packed data in (T * B) rows, int64."""
    return np.concatenate([t * batch + np.arange(n, dtype=np.int64) for t, n in enumerate(sizes)])


def pack_padded_sequence(
    input: Tensor, lengths: Tensor | Sequence[int], batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Packs input (T, B, ...), or (B, T, ...) with `batch_first`; sequence b has lengths[b] steps. ValueError if the
    lengths increase, unless `enforce_sorted` is False.
    """
    if input.ndim < 2:
        raise ArgumentError(f"pack_padded_sequence: takes (T, B, ...), got {describe(input)}")
    x = input.transpose(0, 1) if batch_first else input
    steps, batch = x.shape[:2]
    counts = _lengths_of(lengths, batch)
    if not batch or counts.max() > steps:
        raise ArgumentError(f"pack_padded_sequence: lengths {counts.tolist()} do not fit {describe(input)}")
    order: Tensor | None = None
    if not enforce_sorted:
        found = np.argsort(-counts, kind="stable").astype(np.int64)
        order, counts = from_numpy(found).to(x.device), counts[found]
        x = x.index_select(1, order)
    elif (np.diff(counts) > 0).any():
        raise ArgumentError(
            f"pack_padded_sequence: lengths {counts.tolist()} must not increase; sort the sequences by "
            "length, or give enforce_sorted=False"
        )
    sizes = (counts[None, :] > np.arange(counts[0], dtype=np.int64)[:, None]).sum(1).astype(np.int64)
    rows = x.reshape(steps * batch, *x.shape[2:])
    data = rows.index_select(0, from_numpy(_places(sizes, batch)).to(x.device))
    return PackedSequence(data, from_numpy(sizes), order, invert_permutation(order))


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Tensor, Tensor]:
    """The sequences (T, B, ...), or (B, T, ...), padded with `padding_value`, and their lengths (B,), int64, in the
    order in which they were packed. `total_length`: T, if it must be more than the longest length.
    """
    sizes = np.asarray(sequence.batch_sizes.tolist(), dtype=np.int64)
    batch, steps = int(sizes[0]), len(sizes)
    if total_length is not None:
        if total_length < steps:
            raise ArgumentError(f"pad_packed_sequence: total_length {total_length} is below the longest, {steps}")
        steps = total_length
    data = sequence.data
    empty = data.new_full((steps * batch, *data.shape[1:]), padding_value)
    rows = index_copy(empty, 0, from_numpy(_places(sizes, batch)).to(data.device), data)
    padded = rows.reshape(steps, batch, *data.shape[1:])
    lengths = from_numpy((sizes[None, :] > np.arange(batch)[:, None]).sum(1).astype(np.int64))
    if sequence.unsorted_indices is not None:
        padded = padded.index_select(1, sequence.unsorted_indices)
        lengths = lengths.index_select(0, sequence.unsorted_indices.to(lengths.device))
    return padded.transpose(0, 1) if batch_first else padded, lengths


def pad_sequence(
    sequences: Iterable[Tensor], batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> Tensor:
    """Tensors (L, ...) of different L as one (T, B, ...), or (B, T, ...), padded with `padding_value`."""
    every = list(sequences)
    if not every or any(x.ndim < 1 or x.shape[1:] != every[0].shape[1:] for x in every):
        raise ArgumentError(f"pad_sequence: tensors may differ in their first dim, not so {list(map(describe, every))}")
    if padding_side not in ("right", "left"):
        raise ArgumentError(f"pad_sequence: padding_side is 'right' or 'left', not {padding_side!r}")
    sizes = np.array([x.shape[0] for x in every], np.intp)  # as np.repeat takes them
    batch, steps, ends = len(every), int(sizes.max()), sizes.cumsum()
    data = cat(every)  # (sum of L, ...)
    row = np.repeat(np.arange(batch), sizes)
    step = np.arange(ends[-1]) - np.repeat(ends - (sizes if padding_side == "right" else steps), sizes)
    places = row * steps + step if batch_first else step * batch + row
    shape = (batch, steps) if batch_first else (steps, batch)
    empty = data.new_full((batch * steps, *data.shape[1:]), padding_value)
    index = from_numpy(places.astype(np.int64)).to(data.device)
    return index_copy(empty, 0, index, data).reshape(*shape, *data.shape[1:])


def unpad_sequence(padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False) -> list[Tensor]:
    """The sequences (L, ...) of a tensor that was padded on the right."""
    x = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    return [x[i, : int(n)] for i, n in enumerate(lengths.tolist())]


def pack_sequence(sequences: Iterable[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Packs tensors (L, ...); see pack_padded_sequence."""
    every = list(sequences)
    return pack_padded_sequence(pad_sequence(every), [x.shape[0] for x in every], enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The sequences (L, ...) in the order in which they were packed."""
    return unpad_sequence(*pad_packed_sequence(packed_sequences, batch_first=True), batch_first=True)
