"""keras.mixed_precision: policies under the names of Keras 2, and `LossScaleOptimizer`."""

from .config import dtype_policy, set_dtype_policy
from .dtype_policies import DTypePolicy
from .optimizers import LossScaleOptimizer

__all__ = [
    "DTypePolicy", "LossScaleOptimizer", "Policy", "dtype_policy", "global_policy", "set_dtype_policy",
    "set_global_policy",
]  # fmt: skip

global_policy, set_global_policy, Policy = dtype_policy, set_dtype_policy, DTypePolicy
