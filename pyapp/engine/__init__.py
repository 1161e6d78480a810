"""Tensors, autograd, ops and launch records; knows nothing above it."""

from . import claims as _claims  # noqa: F401 (what kernels take)
from . import ops, quant
from .autograd import enable_grad, grad, is_grad_enabled, no_grad, set_grad_enabled
from .device import Device
from .device import Device as device
from .dtype import (
    DType,
    as_dtype,
    bfloat16,
    bool_,
    complex64,
    complex128,
    float8_e4m3fn,
    float8_e5m2,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    q4_0,
    q4_K,
    q6_K,
    q8_0,
    q8_group,
    uint8,
    uint16,
    uint32,
    uint64,
)
from .launch import Graph, capture
from .native import flush_denormals, get_num_threads, instruction_set, set_num_threads
from .op import Op, op, primitive
from .tensor import Tensor

__all__ = [
    "DType",
    "Device",
    "Graph",
    "Op",
    "Tensor",
    "as_dtype",
    "bfloat16",
    "bool_",
    "capture",
    "complex64",
    "complex128",
    "device",
    "enable_grad",
    "float8_e4m3fn",
    "float8_e5m2",
    "float16",
    "float32",
    "float64",
    "flush_denormals",
    "get_num_threads",
    "grad",
    "instruction_set",
    "int8",
    "int16",
    "int32",
    "int64",
    "is_grad_enabled",
    "no_grad",
    "op",
    "ops",
    "primitive",
    "q4_0",
    "q4_K",
    "q6_K",
    "q8_0",
    "q8_group",
    "quant",
    "set_grad_enabled",
    "set_num_threads",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]  # fmt: skip
