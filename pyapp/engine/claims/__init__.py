"""Claims: the ops, dtypes and layouts that the kernels of native/kernels.h compute, by family.

Calls that a claim refuses run by the op's definition, or by NumPy on the CPU. A claim works for every device that has
its kernels.
"""

from . import (  # noqa: F401
    attention,
    convolution,
    element_updates,
    elementwise,
    embedding,
    indexing,
    int8_attention,
    linear,
    losses,
    normalization,
    optimizer_steps,
    pooling,
    reduce,
    reordering,
    sampling,
    selection,
    spectrum,
)
