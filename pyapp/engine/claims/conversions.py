"""The kernels that convert dense tensors between float32 and the 16-bit floats."""

from __future__ import annotations

from ..dtype import bfloat16, float16, float32
from ..launch import KERNELS

WIDENING = {float16: KERNELS["f16_to_f32"], bfloat16: KERNELS["bf16_to_f32"]}  # to float32, by the dtype of the source
NARROWING = {float16: KERNELS["f32_to_f16"], bfloat16: KERNELS["f32_to_bf16"]}  # from float32, by that of the result
CONVERSIONS = {(kind, float32): kernel for kind, kernel in WIDENING.items()} | {
    (float32, kind): kernel for kind, kernel in NARROWING.items()
}
