"""torch's names for orders of elements in memory. What is asked for an order by `memory_format` gives it: `to`,
`contiguous`, `clone`, `resize_`, and the functions that make tensors. Copies, functions of single elements and
`zeros_like` with its kin keep the order of their argument, as in torch (preserve_format). Convolutions, pools and
normalisations read any order, and give row-major results (contiguous_format), where torch keeps channels_last.
"""

from __future__ import annotations

from typing import Any


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
jagged = layout("jagged")  # of nested tensors (nested.py)
sparse_coo = layout("sparse_coo")
sparse_csr = layout("sparse_csr")
sparse_csc = layout("sparse_csc")


def order_of(name: str, format: Any, ndim: int) -> tuple[int, ...] | None:
    """The order of dims in memory, the outermost first; None where it is row-major. TypeError for what is no memory
    format, RuntimeError for a number of dims that it does not have.
    """
    if format is None or format is contiguous_format or format is preserve_format:
        return None
    if not isinstance(format, memory_format):
        raise TypeError(f"{name}: memory_format is one of torch's, such as channels_last, not {format!r}")
    dims = 5 if format is channels_last_3d else 4
    if ndim != dims:
        raise RuntimeError(f"{name}: {format.name} is the order of {dims} dims, the tensor has {ndim}")
    return (0, *range(2, dims), 1)


__top_level__ = [
    "channels_last", "channels_last_3d", "contiguous_format", "layout", "memory_format", "preserve_format",
    "jagged", "sparse_coo", "sparse_csc", "sparse_csr", "strided",
]  # fmt: skip
