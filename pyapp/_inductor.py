"""torch._inductor: settings of the compiler of torch, which have no effect here."""

from types import SimpleNamespace

config = SimpleNamespace(  # torch's defaults
    coordinate_descent_tuning=False, epilogue_fusion=True, fx_graph_cache=True, max_autotune=False,
    triton=SimpleNamespace(cudagraphs=False, unique_kernel_names=True),
)  # fmt: skip

__all__ = ["config"]
