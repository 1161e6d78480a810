"""Claims: which ops, dtypes and layouts the kernels of native/kernels.h take, by family.

What is refused here runs by its definition, or by NumPy on the CPU. A claim serves every device that has its kernels.
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
    reduce,
    reordering,
    sampling,
    selection,
    spectrum,
)
