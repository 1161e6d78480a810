"""BitNet b1.58 (Ma et al. 2024, arXiv 2402.17764): matrices of the numbers -1, 0 and 1 with one factor each.

Of a layer: weight (N / 4, K) uint8, where row i + k N / 4 of N rows is in bits 2 k and 2 k + 1 of row i, and
weight_scale (1,), the factor, or its inverse where `linear_class` is "bitlinear". Source: transformers'
integrations/bitnet.py. Matrices with rows of 256 n numbers stay in blocks, whose factor is rounded to float16. With
`quantization_mode` "online" matrices are floats that the model rounds (pyapp.models.bitnet).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from pyapp.engine.lazy import np
from pyapp.errors import ModelError

from .checkpoint import Weight, expect_tensor, floats, whole_numbers
from .numbers import Integers

if TYPE_CHECKING:
    from pyapp.engine.blocks.layout import Array
    from pyapp.formats import Checkpoint

PACKED = 4  # numbers of a byte


def problem(given: Mapping[str, Any]) -> str | None:
    """What in the configuration is not read."""
    return None  # the architecture says (pyapp.models.bitnet.Config)


def details(given: Mapping[str, Any]) -> list[str]:
    """The configuration in words."""
    return ["-1, 0 and 1"]


def weights(checkpoint: Checkpoint, given: Mapping[str, Any], dtype: str) -> tuple[list[Weight], list[str]]:
    """The quantised matrices, and the tensors that are not read."""
    inverse, found = given.get("linear_class", "bitlinear") == "bitlinear", []
    for name, info in checkpoint.tensors.items():
        if name.endswith(".weight") and info.dtype == "uint8" and len(info.shape) == 2:
            kinds = ("float32", "bfloat16", "float16")
            scale = expect_tensor(checkpoint, name, f"{name}_scale", kinds, (1,), (1, 1), ())
            shape = PACKED * info.shape[0], info.shape[1]
            read = partial(_integers, checkpoint, name, scale, shape, inverse)
            found.append(Weight(name, shape, dtype, (name, scale), read))
    return found, []


def _integers(checkpoint: Checkpoint, name: str, scale: str, shape: tuple[int, int], inverse: bool) -> Integers:
    packed = whole_numbers(checkpoint, name)  # (N / 4, K)
    factor = floats(checkpoint, scale).reshape(1, 1)
    factor = 1 / factor if inverse else factor

    def codes(first: int, count: int) -> Array:
        place, row = np.divmod(np.arange(first, first + count), len(packed))
        found = packed[row] >> (2 * place).astype(np.uint8)[:, None] & np.uint8(3)
        if found.max(initial=0) > 2:
            raise ModelError(
                f"the packed matrix {name!r:.120} has numbers other than -1, 0 and 1", where=checkpoint.source.name
            )
        return found

    scales = np.broadcast_to(factor, (shape[0], 1))
    return Integers(shape, codes, 0, 2, scales, 1, shape[1], halves=True)
