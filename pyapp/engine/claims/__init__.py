"""Claims: the ops, dtypes and layouts that the kernels of native/kernels.h compute, by family.

Calls that a claim refuses run by the op's definition, or by NumPy on the CPU. A claim works for every device that has
its kernels. The files that are not imported here serve neither a story nor a transcript: each is imported when one of
its ops is first called (_index.py, by `python -m scripts.op_index`).
"""

from ..op import LATE_CLAIMS
from ._index import LATE

LATE_CLAIMS.update((name, f"{__name__}.{module}") for module, names in LATE.items() for name in names.split())

from . import (  # noqa: E402, F401
    attention,
    convolution,
    elementwise,
    embedding,
    indexing,
    int8_attention,
    linear,
    normalization,
    reduce,
    reordering,
    sampling,
    selection,
    spectrum,
)
