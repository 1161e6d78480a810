"""The text of a sparse tensor, as torch prints it."""

from __future__ import annotations

from ...display import annotated, numbers, of_graph
from ...dtype import Default, bool_, complex64, int64
from ...memory_format import sparse_coo, sparse_csc
from ...tensor import Tensor
from .layouts import SparseTensor, count_of


def _part(name: str, x: Tensor) -> str:
    start = f"{name}=tensor("
    size = "" if x.numel() else f", size={tuple(x.shape)}"
    return f"{start}{numbers(x, 7 + len(start))}{size})"


def sparse_repr(x: SparseTensor) -> str:
    """tensor(indices=tensor(…), values=tensor(…), size=(…), nnz=…, layout=…)."""
    if x.pointers is None:
        parts = [_part("indices", x.places)]
    else:
        lines, others, row = ("ccol", "row", 0) if x.layout is sparse_csc else ("crow", "col", 1)
        parts = [_part(f"{lines}_indices", x.pointers), _part(f"{others}_indices", x.places[row])]
    notes = [f"size={tuple(x.shape)}", f"nnz={count_of(x)}"]
    if x.dtype not in (Default.dtype, int64, bool_, complex64):
        notes.append(f"dtype={x.dtype!r}")
    if x.device.type != "cpu":
        notes.insert(0, f"device='{x.device}'")
    notes.append(f"layout={x.layout!r}")
    text = (",\n" + " " * 7).join([*parts, _part("values", x.elements)])
    return annotated(f"tensor({text}", notes + of_graph(x), x.layout is sparse_coo)
