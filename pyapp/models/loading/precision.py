"""The type of a model's matrices where speed counts more than the last digits: 8-bit blocks for floating point."""

from __future__ import annotations

from pyapp.formats import ByteSource, Checkpoint, open_checkpoint

QUICK = "q8_0"
# Smaller models are quick enough in the precision of their file.
SMALLEST = 8 << 20  # bytes of the file


def quick_dtype(source: ByteSource) -> str | None:
    """ "q8_0" for a file whose matrices are in floating point, so that they are quantised while they are read; None for
    a small file, and for one that is quantised already. Reads the header only. FileFormatError for a damaged file.
    """
    if source.size < SMALLEST:
        return None
    checkpoint: Checkpoint = open_checkpoint(source)
    sizes = {True: 0, False: 0}  # bytes of matrices in floating point, and of others
    for info in checkpoint.tensors.values():
        if len(info.shape) == 2:
            sizes[info.dtype in ("float32", "float16", "bfloat16", "float64")] += info.nbytes
    return QUICK if sizes[True] > sizes[False] else None
