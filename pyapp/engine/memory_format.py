"""torch's names for orders of elements in memory. New tensors are dense and row-major (contiguous_format, strided).
Functions accept the other formats without effect; only `is_contiguous` tests the given format.
"""

from __future__ import annotations


class _Named:
    """A constant with torch's name."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"pyapp.{self.name}"

    def __reduce__(self) -> str:
        return self.name


class memory_format(_Named):
    """The order of dims in memory."""


class layout(_Named):
    """How elements are kept: strided, or with the indices of those that are not 0 (ops/sparse/layouts.py)."""


contiguous_format = memory_format("contiguous_format")
channels_last = memory_format("channels_last")
channels_last_3d = memory_format("channels_last_3d")
preserve_format = memory_format("preserve_format")
strided = layout("strided")
sparse_coo = layout("sparse_coo")
sparse_csr = layout("sparse_csr")
sparse_csc = layout("sparse_csc")


__top_level__ = [
    "channels_last", "channels_last_3d", "contiguous_format", "layout", "memory_format", "preserve_format",
    "sparse_coo", "sparse_csc", "sparse_csr", "strided",
]  # fmt: skip
