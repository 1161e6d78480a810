"""What torch.utils has that makes sense here: `benchmark`, `data`, `checkpoint`, `dlpack`, `flop_counter`, `hooks`,
`model_zoo`, `tensorboard` and `_pytree`."""

from __future__ import annotations

from pyapp.engine.lazy import late_names

__getattr__ = late_names(
    __name__, {},
    ("_pytree", "benchmark", "checkpoint", "data", "dlpack", "flop_counter", "hooks", "model_zoo", "tensorboard"),
)  # fmt: skip
