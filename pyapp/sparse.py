"""Sparse tensors, by torch.sparse's names. `pyapp.sparse_coo_tensor` and `Tensor.to_sparse` make them."""

from __future__ import annotations

from typing import Any

from .engine.declare import publish
from .engine.dtype import DType
from .engine.ops.sparse.creation import sparse_coo_tensor
from .engine.ops.sparse.layouts import SparseTensor
from .engine.ops.sparse.products import addmm, sampled_addmm, spdiags
from .engine.ops.sparse.products import matmul as mm
from .engine.ops.sparse.reductions import log_softmax, softmax
from .engine.ops.sparse.reductions import total as sum
from .engine.tensor import Tensor
from .engine.typed_tensors import typed_of

__all__ = ["addmm", "log_softmax", "mm", "sampled_addmm", "softmax", "spdiags", "sum"]
publish(globals(), __all__)
__all__ += ["SparseTensor"]


def _made(args: tuple[Any, ...], kind: DType) -> Tensor:
    """sparse.FloatTensor(indices, values, size); of sizes alone a tensor of zeros."""
    if args and not isinstance(args[0], Tensor):
        return sparse_coo_tensor(
            tuple(args[0]) if len(args) == 1 and not isinstance(args[0], int) else args, dtype=kind
        )
    return sparse_coo_tensor(*args, dtype=kind)


globals().update(typed_of(__name__, _made, lambda x: isinstance(x, SparseTensor), "Sparse tensors"))
