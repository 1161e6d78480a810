"""keras.mixed_precision: float32 is the only policy. `LossScaleOptimizer` is there."""

from .config import dtype_policy, set_dtype_policy
from .optimizers import LossScaleOptimizer

__all__ = ["LossScaleOptimizer", "dtype_policy", "global_policy", "set_dtype_policy", "set_global_policy"]

global_policy, set_global_policy = dtype_policy, set_dtype_policy
