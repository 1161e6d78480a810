"""Rows of a table whose gradient is sparse: nn.Embedding(sparse=True)."""

from __future__ import annotations

from typing import Any

from ...dtype import int64
from ...op import op
from ...tensor import Tensor
from ..counting import bincount
from ..embedding_lookup import embedding
from .layouts import sparse


def _d_rows(g: Tensor, _: Any, weight: Tensor, ids: Tensor, padding: int | None, by_frequency: bool) -> Any:
    places, rows = ids.to(int64).reshape(1, ids.numel()), g.reshape(ids.numel(), weight._shape[1])  # (1, N), (N, D)
    if by_frequency:
        counts = bincount(places[0], minlength=weight._shape[0]).index_select(0, places[0])  # (N,)
        rows = rows / counts.to(rows.dtype).unsqueeze(1)
    if padding is not None:
        kept = (places[0] != padding).nonzero().squeeze(1)
        places, rows = places.index_select(1, kept), rows.index_select(0, kept)
    return sparse(places, rows.to(weight.dtype), weight._shape), None


@op(vjp=_d_rows, saves="none", name="_rows_for_sparse_gradient")
def _rows(weight: Tensor, ids: Tensor, padding: int | None, by_frequency: bool) -> Tensor:
    return embedding(weight, ids)


def rows_for_sparse_gradient(weight: Tensor, ids: Tensor, padding_idx: int | None, by_frequency: bool) -> Tensor:
    """embedding(weight, ids). The gradient of the weight is a sparse tensor of the rows that were looked up, but
    `padding_idx`; `by_frequency`: each divided by the count of its id.
    """
    padding = None if padding_idx is None else padding_idx % weight._shape[0]
    found: Tensor = _rows(weight, ids, padding, by_frequency)
    return found
