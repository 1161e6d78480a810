"""I2_S, the type of BitNet's matrices in GGUF files of bitnet.cpp (https://github.com/microsoft/BitNet).

A matrix (N, K), of K = 128 n numbers -1, 0 and 1, one factor for all: of 128 numbers, number 32 k + i is in the k-th
highest two bits of byte i, plus one; after the N K / 4 bytes is the factor in float32. Source: quantize_i2_s of
src/ggml-bitnet-mad.cpp, as processors of x86 store it. The code of the type is 36, which llama.cpp no longer uses.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pyapp.engine.lazy import np
from pyapp.formats.finite import check_finite

from .checkpoint import Weight, expect, flat_shape
from .numbers import Integers

if TYPE_CHECKING:
    from pyapp.engine.blocks.layout import Array
    from pyapp.formats import Checkpoint

I2_S = "ggml_type_36"
RUN = 32  # bytes that have 128 numbers


def weights(checkpoint: Checkpoint) -> list[Weight]:
    """The matrices of this type."""
    found = []
    for name, info in checkpoint.tensors.items():
        if info.dtype == I2_S:
            fits = len(info.shape) == 2 and info.numel > 0 and info.shape[1] % (4 * RUN) == 0
            expect(fits and info.nbytes >= info.numel // 4 + 4, checkpoint, name, "are not a matrix in I2_S")
            found.append(Weight(name, info.shape, "float16", (name,), partial(_integers, checkpoint, name)))
    return found


def _integers(checkpoint: Checkpoint, name: str) -> Integers:
    shape = flat_shape(checkpoint.tensors[name].shape)
    data = np.frombuffer(checkpoint.read_bytes(name), np.uint8)
    count = shape[0] * shape[1] // 4
    factor = data[count : count + 4].tobytes()
    check_finite(factor, "float32", f"{name} (factor)", checkpoint.source.name)
    packed = data[:count].reshape(shape[0], -1, 1, RUN)
    shifts = np.array([6, 4, 2, 0], np.uint8)[:, None]

    def codes(first: int, rows: int) -> Array:
        found = packed[first : first + rows] >> shifts & np.uint8(3)  # (rows, K / 128, 4, 32)
        expect(found.max(initial=0) < 3, checkpoint, name, "have numbers other than -1, 0 and 1")
        return found.reshape(rows, shape[1])

    scales = np.broadcast_to(np.frombuffer(factor, "<f4"), (shape[0], 1))
    return Integers(shape, codes, 0, 2, scales, 1, shape[1], halves=True)
