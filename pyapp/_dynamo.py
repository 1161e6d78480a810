"""torch._dynamo's names that training scripts use: settings of torch.compile, which have no effect here, and what
pyapp.compiler has too.
"""

from types import SimpleNamespace
from typing import Any

from .compiler import allow_in_graph, disable, is_compiling, reset
from .engine.tensor import Tensor

config = SimpleNamespace(  # torch's defaults
    accumulated_cache_size_limit=256, accumulated_recompile_limit=256, cache_size_limit=8, recompile_limit=8,
    capture_dynamic_output_shape_ops=False, capture_scalar_outputs=False, compiled_autograd=False, optimize_ddp=True,
    suppress_errors=False, verbose=False,
)  # fmt: skip


def mark_dynamic(t: Tensor, index: Any, **_: Any) -> None:
    """Says that a size changes from call to call. `compile` records each size by itself."""


mark_static = maybe_mark_dynamic = mark_dynamic

__all__ = [
    "allow_in_graph", "config", "disable", "is_compiling", "mark_dynamic", "mark_static", "maybe_mark_dynamic", "reset",
]  # fmt: skip
