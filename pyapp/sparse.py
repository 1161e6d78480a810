"""Sparse tensors, by torch.sparse's names. `pyapp.sparse_coo_tensor` and `Tensor.to_sparse` make them."""

from __future__ import annotations

from .engine.declare import publish
from .engine.ops.sparse.layouts import SparseTensor
from .engine.ops.sparse.products import addmm, sampled_addmm, spdiags
from .engine.ops.sparse.products import matmul as mm
from .engine.ops.sparse.reductions import log_softmax, softmax
from .engine.ops.sparse.reductions import total as sum

__all__ = ["addmm", "log_softmax", "mm", "sampled_addmm", "softmax", "spdiags", "sum"]
publish(globals(), __all__)
__all__ += ["SparseTensor"]
