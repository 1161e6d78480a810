# All that pyapp has, most of it imported on first use. Generated: python -m scripts.top_index.

import builtins
from collections.abc import Callable, Sequence
from typing import Any, Literal, overload

from . import accelerator as accelerator
from . import adapters as adapters
from . import amp as amp
from . import ao as ao
from . import audio as audio
from . import autograd as autograd
from . import backends as backends
from . import browser as browser
from . import browser_models as browser_models
from . import browser_tasks as browser_tasks
from . import cli as cli
from . import compiler as compiler
from . import control_flow as control_flow
from . import cpu as cpu
from . import cuda as cuda
from . import dataclass as dataclass
from . import datasets as datasets
from . import distributed as distributed
from . import distributions as distributions
from . import engine as engine
from . import errors as errors
from . import events as events
from . import export as export
from . import extension as extension
from . import extension_arguments as extension_arguments
from . import extension_cuda as extension_cuda
from . import fft as fft
from . import foreach as foreach
from . import formats as formats
from . import func as func
from . import functional as functional
from . import futures as futures
from . import fx as fx
from . import hub as hub
from . import interrupts as interrupts
from . import jit as jit
from . import keras as keras
from . import lab as lab
from . import late_linalg as late_linalg
from . import late_parts as late_parts
from . import library as library
from . import linalg as linalg
from . import masked as masked
from . import models as models
from . import mps as mps
from . import multiprocessing as multiprocessing
from . import nested as nested
from . import nn as nn
from . import onnx as onnx
from . import optim as optim
from . import overrides as overrides
from . import profiler as profiler
from . import quantization as quantization
from . import quasirandom as quasirandom
from . import random as random
from . import recipes as recipes
from . import return_types as return_types
from . import serialization as serialization
from . import serve as serve
from . import settings as settings
from . import signal as signal
from . import sparse as sparse
from . import special as special
from . import storage as storage
from . import tasks as tasks
from . import testing as testing
from . import text as text
from . import traced_numbers as traced_numbers
from . import train as train
from . import types as types
from . import utils as utils
from . import version as version
from . import vision as vision
from . import webgpu as webgpu
from . import xpu as xpu
from .amp.autocast_mode import autocast as autocast
from .amp.grad_scaler import GradScaler as GradScaler
from .ao.tensors import quantize_per_channel as quantize_per_channel
from .ao.tensors import quantize_per_tensor as quantize_per_tensor
from .ao.tensors import quantize_per_tensor_dynamic as quantize_per_tensor_dynamic
from .ao.types import per_channel_affine as per_channel_affine
from .ao.types import per_channel_affine_float_qparams as per_channel_affine_float_qparams
from .ao.types import per_channel_symmetric as per_channel_symmetric
from .ao.types import per_tensor_affine as per_tensor_affine
from .ao.types import per_tensor_symmetric as per_tensor_symmetric
from .ao.types import qint8 as qint8
from .ao.types import qint32 as qint32
from .ao.types import quint4x2 as quint4x2
from .ao.types import quint8 as quint8
from .compiler import compile as compile
from .control_flow import cond as cond
from .control_flow import while_loop as while_loop
from .engine import Device as Device
from .engine import DType as DType
from .engine import Graph as Graph
from .engine import Op as Op
from .engine import Tensor as Tensor
from .engine import as_dtype as as_dtype
from .engine import bfloat16 as bfloat16
from .engine import bool_ as bool_
from .engine import capture as capture
from .engine import complex64 as complex64
from .engine import complex128 as complex128
from .engine import device as device
from .engine import enable_grad as enable_grad
from .engine import float8_e4m3fn as float8_e4m3fn
from .engine import float8_e5m2 as float8_e5m2
from .engine import float16 as float16
from .engine import float32 as float32
from .engine import float64 as float64
from .engine import flush_denormals as flush_denormals
from .engine import get_num_threads as get_num_threads
from .engine import grad as grad
from .engine import instruction_set as instruction_set
from .engine import int8 as int8
from .engine import int16 as int16
from .engine import int32 as int32
from .engine import int64 as int64
from .engine import is_grad_enabled as is_grad_enabled
from .engine import no_grad as no_grad
from .engine import op as op
from .engine import ops as ops
from .engine import primitive as primitive
from .engine import q4_0 as q4_0
from .engine import q4_K as q4_K
from .engine import q6_K as q6_K
from .engine import q8_0 as q8_0
from .engine import q8_group as q8_group
from .engine import quant as quant
from .engine import set_grad_enabled as set_grad_enabled
from .engine import set_num_threads as set_num_threads
from .engine import uint8 as uint8
from .engine import uint16 as uint16
from .engine import uint32 as uint32
from .engine import uint64 as uint64
from .engine.display import set_printoptions as set_printoptions
from .engine.dtype import set_default_dtype as set_default_dtype
from .engine.memory_format import channels_last as channels_last
from .engine.memory_format import channels_last_3d as channels_last_3d
from .engine.memory_format import contiguous_format as contiguous_format
from .engine.memory_format import jagged as jagged
from .engine.memory_format import layout as layout
from .engine.memory_format import memory_format as memory_format
from .engine.memory_format import preserve_format as preserve_format
from .engine.memory_format import sparse_coo as sparse_coo
from .engine.memory_format import sparse_csc as sparse_csc
from .engine.memory_format import sparse_csr as sparse_csr
from .engine.memory_format import strided as strided
from .engine.ops.counting import Histogram, HistogramOfPoints
from .engine.ops.dtype_limits import finfo as finfo
from .engine.ops.dtype_limits import iinfo as iinfo
from .engine.ops.elementwise.exponential import Frexp
from .engine.ops.linalg.determinant import LogDeterminant
from .engine.ops.linalg.factor import LU, QR, Geqrf, LUFactor, LUFactorEx
from .engine.ops.linalg.solve import TriangularSolve
from .engine.ops.linalg.svd import SVD
from .engine.ops.random import Generator as Generator
from .engine.ops.reduce import Extremes
from .engine.ops.sampling import SampleBuffers as SampleBuffers
from .engine.ops.sparse.layouts import SparseTensor
from .engine.return_types import Found
from .engine.shape import Size as Size
from .engine.untyped_storage import UntypedStorage as UntypedStorage
from .formats.torch_files import load as load
from .formats.torch_files import save as save
from .func import vmap as vmap
from .futures import Future as Future
from .nn.functional import alpha_dropout as alpha_dropout
from .nn.functional import bilinear as bilinear
from .nn.functional import binary_cross_entropy_with_logits as binary_cross_entropy_with_logits
from .nn.functional import celu_ as celu_
from .nn.functional import cosine_embedding_loss as cosine_embedding_loss
from .nn.functional import cosine_similarity as cosine_similarity
from .nn.functional import ctc_loss as ctc_loss
from .nn.functional import dropout as dropout
from .nn.functional import embedding_bag as embedding_bag
from .nn.functional import feature_alpha_dropout as feature_alpha_dropout
from .nn.functional import hinge_embedding_loss as hinge_embedding_loss
from .nn.functional import kl_div as kl_div
from .nn.functional import margin_ranking_loss as margin_ranking_loss
from .nn.functional import pairwise_distance as pairwise_distance
from .nn.functional import poisson_nll_loss as poisson_nll_loss
from .nn.functional import relu_ as relu_
from .nn.functional import rrelu_ as rrelu_
from .nn.functional import selu_ as selu_
from .nn.functional import threshold_ as threshold_
from .nn.functional import triplet_margin_loss as triplet_margin_loss
from .random import get_rng_state as get_rng_state
from .random import set_rng_state as set_rng_state
from .settings import OutOfMemoryError as OutOfMemoryError
from .settings import are_deterministic_algorithms_enabled as are_deterministic_algorithms_enabled
from .settings import get_autocast_cpu_dtype as get_autocast_cpu_dtype
from .settings import get_autocast_dtype as get_autocast_dtype
from .settings import get_autocast_gpu_dtype as get_autocast_gpu_dtype
from .settings import get_default_device as get_default_device
from .settings import get_deterministic_debug_mode as get_deterministic_debug_mode
from .settings import get_device_module as get_device_module
from .settings import get_float32_matmul_precision as get_float32_matmul_precision
from .settings import get_num_interop_threads as get_num_interop_threads
from .settings import is_anomaly_check_nan_enabled as is_anomaly_check_nan_enabled
from .settings import is_anomaly_enabled as is_anomaly_enabled
from .settings import is_autocast_cpu_enabled as is_autocast_cpu_enabled
from .settings import is_autocast_enabled as is_autocast_enabled
from .settings import is_deterministic_algorithms_warn_only_enabled as is_deterministic_algorithms_warn_only_enabled
from .settings import is_inference_mode_enabled as is_inference_mode_enabled
from .settings import is_storage as is_storage
from .settings import set_anomaly_enabled as set_anomaly_enabled
from .settings import set_default_device as set_default_device
from .settings import set_default_tensor_type as set_default_tensor_type
from .settings import set_deterministic_debug_mode as set_deterministic_debug_mode
from .settings import set_float32_matmul_precision as set_float32_matmul_precision
from .settings import set_flush_denormal as set_flush_denormal
from .settings import set_num_interop_threads as set_num_interop_threads
from .settings import typename as typename
from .settings import use_deterministic_algorithms as use_deterministic_algorithms
from .tasks.pipelines import pipeline as pipeline
from .traced_numbers import SymBool as SymBool
from .traced_numbers import SymFloat as SymFloat
from .traced_numbers import SymInt as SymInt
from .traced_numbers import _assert as _assert
from .traced_numbers import _assert_async as _assert_async
from .traced_numbers import _check as _check
from .traced_numbers import _check_index as _check_index
from .traced_numbers import _check_is_size as _check_is_size
from .traced_numbers import _check_type as _check_type
from .traced_numbers import _check_value as _check_value
from .traced_numbers import _check_with as _check_with
from .traced_numbers import _shape_as_tensor as _shape_as_tensor
from .traced_numbers import sym_float as sym_float
from .traced_numbers import sym_int as sym_int
from .traced_numbers import sym_ite as sym_ite
from .traced_numbers import sym_max as sym_max
from .traced_numbers import sym_min as sym_min
from .traced_numbers import sym_not as sym_not

__version__: builtins.str
bool: DType
BFloat16Tensor: builtins.type[Tensor]
BoolTensor: builtins.type[Tensor]
ByteTensor: builtins.type[Tensor]
CharTensor: builtins.type[Tensor]
DoubleTensor: builtins.type[Tensor]
FloatTensor: builtins.type[Tensor]
HalfTensor: builtins.type[Tensor]
IntTensor: builtins.type[Tensor]
LongTensor: builtins.type[Tensor]
ShortTensor: builtins.type[Tensor]

def abs(input: Tensor, *, out: Any = ...) -> Tensor: ...
def absolute(input: Tensor, *, out: Any = ...) -> Tensor: ...
def acos(input: Tensor, *, out: Any = ...) -> Tensor: ...
def acosh(input: Tensor, *, out: Any = ...) -> Tensor: ...
def adaptive_avg_pool1d(input: Tensor, output_size: Any, *, out: Any = ...) -> Tensor: ...
def adaptive_avg_pool2d(input: Tensor, output_size: Any, *, out: Any = ...) -> Tensor: ...
def adaptive_avg_pool3d(input: Tensor, output_size: Any, *, out: Any = ...) -> Tensor: ...
def adaptive_max_pool1d(input: Tensor, output_size: Any, return_indices: builtins.bool = ...) -> Any: ...
def adaptive_max_pool2d(input: Tensor, output_size: Any, return_indices: builtins.bool = ...) -> Any: ...
def adaptive_max_pool3d(input: Tensor, output_size: Any, return_indices: builtins.bool = ...) -> Any: ...
def add(input: Tensor, other: Any, alpha: builtins.float = ..., *, out: Any = ...) -> Tensor: ...
def addbmm(
    input: Tensor,
    batch1: Tensor,
    batch2: Tensor,
    *,
    beta: builtins.float = ...,
    alpha: builtins.float = ...,
    out: Any = ...,
) -> Tensor: ...
def addcdiv(
    input: Tensor, tensor1: Tensor, tensor2: Tensor, value: builtins.float = ..., *, out: Any = ...
) -> Tensor: ...
def addcmul(
    input: Tensor, tensor1: Tensor, tensor2: Tensor, value: builtins.float = ..., *, out: Any = ...
) -> Tensor: ...
def addmm(
    input: Tensor,
    mat1: Tensor,
    mat2: Tensor,
    beta: builtins.float = ...,
    alpha: builtins.float = ...,
    *,
    out: Any = ...,
) -> Tensor: ...
def addmv(
    input: Tensor, mat: Tensor, vec: Tensor, *, beta: builtins.float = ..., alpha: builtins.float = ..., out: Any = ...
) -> Tensor: ...
def addr(
    input: Tensor,
    vec1: Tensor,
    vec2: Tensor,
    *,
    beta: builtins.float = ...,
    alpha: builtins.float = ...,
    out: Any = ...,
) -> Tensor: ...
def adjoint(input: Tensor, *, out: Any = ...) -> Tensor: ...
def affine_grid(
    theta: Tensor, size: Sequence[builtins.int], align_corners: builtins.bool | None = ..., *, out: Any = ...
) -> Tensor: ...
def affine_grid_generator(
    theta: Tensor, size: Sequence[builtins.int], align_corners: builtins.bool, *, out: Any = ...
) -> Tensor: ...
def all(input: Tensor, dim: Any = ..., keepdim: builtins.bool = ..., *, out: Any = ...) -> Tensor: ...
def allclose(
    input: Tensor, other: Tensor, rtol: builtins.float = ..., atol: builtins.float = ..., equal_nan: builtins.bool = ...
) -> builtins.bool: ...
def amax(input: Tensor, dim: Any = ..., keepdim: builtins.bool = ..., *, out: Any = ...) -> Tensor: ...
def amin(input: Tensor, dim: Any = ..., keepdim: builtins.bool = ..., *, out: Any = ...) -> Tensor: ...
def aminmax(input: Tensor, dim: Any = ..., keepdim: builtins.bool = ...) -> Extremes: ...
def angle(input: Tensor, *, out: Any = ...) -> Tensor: ...
def any(input: Tensor, dim: Any = ..., keepdim: builtins.bool = ..., *, out: Any = ...) -> Tensor: ...
def arange(
    start: Any = ...,
    end: Any = ...,
    step: Any = ...,
    dtype: Any = ...,
    device: Any = ...,
    requires_grad: builtins.bool = ...,
    *,
    out: Any = ...,
    layout: Any = ...,
    memory_format: Any = ...,
    pin_memory: Any = ...,
) -> Tensor: ...
def arccos(input: Tensor, *, out: Any = ...) -> Tensor: ...
def arccosh(input: Tensor, *, out: Any = ...) -> Tensor: ...
def arcsin(input: Tensor, *, out: Any = ...) -> Tensor: ...
def arcsinh(input: Tensor, *, out: Any = ...) -> Tensor: ...
def arctan(input: Tensor, *, out: Any = ...) -> Tensor: ...
def arctan2(input: Tensor, other: Any, *, out: Any = ...) -> Tensor: ...
def arctanh(input: Tensor, *, out: Any = ...) -> Tensor: ...
def argmax(
    input: Tensor, dim: builtins.int | None = ..., keepdim: builtins.bool = ..., *, out: Any = ...
) -> Tensor: ...
def argmin(
    input: Tensor, dim: builtins.int | None = ..., keepdim: builtins.bool = ..., *, out: Any = ...
) -> Tensor: ...
def argsort(
    input: Tensor, dim: builtins.int = ..., descending: builtins.bool = ..., stable: Any = ..., *, out: Any = ...
) -> Tensor: ...
def argwhere(input: Tensor, *, out: Any = ...) -> Tensor: ...
def as_strided(
    input: Tensor,
    size: Sequence[builtins.int],
    stride: Sequence[builtins.int],
    storage_offset: builtins.int | None = ...,
    *,
    out: Any = ...,
) -> Tensor: ...
def as_strided_scatter(
    input: Tensor,
    src: Tensor,
    size: Sequence[builtins.int],
    stride: Sequence[builtins.int],
    storage_offset: builtins.int | None = ...,
    *,
    out: Any = ...,
) -> Tensor: ...
def as_tensor(data: Any, dtype: Any = ..., device: Any = ..., *, out: Any = ...) -> Tensor: ...
def asarray(
    obj: Any,
    *,
    dtype: Any = ...,
    device: Any = ...,
    copy: builtins.bool | None = ...,
    requires_grad: builtins.bool = ...,
    out: Any = ...,
) -> Tensor: ...
def asin(input: Tensor, *, out: Any = ...) -> Tensor: ...
def asinh(input: Tensor, *, out: Any = ...) -> Tensor: ...
def atan(input: Tensor, *, out: Any = ...) -> Tensor: ...
def atan2(input: Tensor, other: Any, *, out: Any = ...) -> Tensor: ...
def atanh(input: Tensor, *, out: Any = ...) -> Tensor: ...
def atleast_1d(*tensors: Any) -> Any: ...
def atleast_2d(*tensors: Any) -> Any: ...
def atleast_3d(*tensors: Any) -> Any: ...
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    causal: builtins.bool = ...,
    scale: builtins.float | None = ...,
    window: builtins.int | builtins.tuple[builtins.int, builtins.int] | None = ...,
    softcap: builtins.float | None = ...,
    slopes: Tensor | None = ...,
    mask: Tensor | None = ...,
    sinks: Tensor | None = ...,
    *,
    out: Any = ...,
) -> Tensor: ...
def avg_pool1d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = ...,
    padding: Any = ...,
    ceil_mode: builtins.bool = ...,
    count_include_pad: builtins.bool = ...,
    *,
    out: Any = ...,
) -> Tensor: ...
def avg_pool2d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = ...,
    padding: Any = ...,
    ceil_mode: builtins.bool = ...,
    count_include_pad: builtins.bool = ...,
    divisor_override: builtins.int | None = ...,
    *,
    out: Any = ...,
) -> Tensor: ...
def avg_pool2d_channels_last(
    input: Tensor,
    kernel_size: Any,
    stride: Any = ...,
    padding: Any = ...,
    count_include_pad: builtins.bool = ...,
    *,
    out: Any = ...,
) -> Tensor: ...
def avg_pool3d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = ...,
    padding: Any = ...,
    ceil_mode: builtins.bool = ...,
    count_include_pad: builtins.bool = ...,
    divisor_override: builtins.int | None = ...,
    *,
    out: Any = ...,
) -> Tensor: ...
def baddbmm(
    input: Tensor,
    batch1: Tensor,
    batch2: Tensor,
    beta: builtins.float = ...,
    alpha: builtins.float = ...,
    *,
    out: Any = ...,
) -> Tensor: ...
def bartlett_window(
    window_length: builtins.int,
    periodic: builtins.bool = ...,
    *,
    dtype: Any = ...,
    device: Any = ...,
    out: Any = ...,
    requires_grad: builtins.bool = ...,
    layout: Any = ...,
    memory_format: Any = ...,
    pin_memory: Any = ...,
) -> Tensor: ...
def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = ...,
    bias: Tensor | None = ...,
    training: builtins.bool = ...,
    momentum: builtins.float = ...,
    eps: builtins.float = ...,
    *,
    out: Any = ...,
) -> Tensor: ...
def bernoulli(
    input: Tensor, p: builtins.float | None = ..., *, generator: Generator | None = ..., out: Any = ...
) -> Tensor: ...
def bincount(
    input: Tensor, weights: Tensor | None = ..., minlength: builtins.int = ..., *, out: Any = ...
) -> Tensor: ...
def binomial(count: Tensor, prob: Tensor, generator: Generator | None = ..., *, out: Any = ...) -> Tensor: ...
def bitwise_and(input: Tensor, other: Any, *, out: Any = ...) -> Tensor: ...
def bitwise_left_shift(input: Tensor, other: Any, *, out: Any = ...) -> Tensor: ...
def bitwise_not(input: Tensor, *, out: Any = ...) -> Tensor: ...
def bitwise_or(input: Tensor, other: Any, *, out: Any = ...) -> Tensor: ...
def bitwise_right_shift(input: Tensor, other: Any, *, out: Any = ...) -> Tensor: ...
def bitwise_xor(input: Tensor, other: Any, *, out: Any = ...) -> Tensor: ...
def blackman_window(
    window_length: builtins.int,
    periodic: builtins.bool = ...,
    *,
    dtype: Any = ...,
    device: Any = ...,
    out: Any = ...,
    requires_grad: builtins.bool = ...,
    layout: Any = ...,
    memory_format: Any = ...,
    pin_memory: Any = ...,
) -> Tensor: ...
def block_diag(*tensors: Tensor, out: Any = ...) -> Tensor: ...
def bmm(input: Tensor, mat2: Tensor, *, out: Any = ...) -> Tensor: ...
def broadcast_shapes(*shapes: Any) -> Any: ...
def broadcast_tensors(*tensors: Tensor) -> builtins.tuple[Tensor, ...]: ...
def broadcast_to(input: Tensor, *size: Any, out: Any = ...) -> Tensor: ...
def bucketize(
    input: Any, boundaries: Tensor, *, out_int32: builtins.bool = ..., right: builtins.bool = ..., out: Any = ...
) -> Tensor: ...
def cache_write(
    cache: Tensor, x: Tensor, position: Tensor, block_table: Tensor | None = ..., *, out: Any = ...
) -> Tensor: ...
def cached_attention(
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    position: Tensor,
    scale: builtins.float | None = ...,
    window: builtins.int | None = ...,
    softcap: builtins.float | None = ...,
    slopes: Tensor | None = ...,
    block_table: Tensor | None = ...,
    sinks: Tensor | None = ...,
    *,
    out: Any = ...,
) -> Tensor: ...
def cached_self_attention(
    qkv: Tensor,
    table: Tensor | None,
    position: Tensor,
    keys: Tensor,
    values: Tensor,
    interleaved: builtins.bool = ...,
    scale: builtins.float | None = ...,
    window: builtins.int | None = ...,
    softcap: builtins.float | None = ...,
    slopes: Tensor | None = ...,
    head_dim: builtins.int | None = ...,
    block_table: Tensor | None = ...,
    sinks: Tensor | None = ...,
    *,
    out: Any = ...,
) -> Tensor: ...
def can_cast(from_: Any, to: Any) -> builtins.bool: ...
def cartesian_prod(*tensors: Tensor, out: Any = ...) -> Tensor: ...
def cat(tensors: Sequence[Tensor], dim: builtins.int = ..., *, out: Any = ...) -> Tensor: ...
def causal_mask(tokens: builtins.int, keys: builtins.int, *, out: Any = ...) -> Tensor: ...
def cdist(
    x1: Tensor, x2: Tensor, p: builtins.float = ..., compute_mode: builtins.str = ..., *, out: Any = ...
) -> Tensor: ...

cdouble: DType

def ceil(input: Tensor, *, out: Any = ...) -> Tensor: ...
def celu(input: Tensor, alpha: builtins.float = ..., *, out: Any = ...) -> Tensor: ...

cfloat: DType

def chain_matmul(*matrices: Tensor, out: Any = ...) -> Tensor: ...
def channel_shuffle(input: Tensor, groups: builtins.int, *, out: Any = ...) -> Tensor: ...
def cholesky(input: Tensor, upper: Any = ..., *, out: Any = ...) -> Tensor: ...
def cholesky_inverse(input: Tensor, upper: builtins.bool = ..., *, out: Any = ...) -> Tensor: ...
def cholesky_solve(input: Tensor, L: Tensor, upper: builtins.bool = ..., *, out: Any = ...) -> Tensor: ...
def chunk(input: Tensor, chunks: builtins.int, dim: builtins.int = ...) -> builtins.tuple[Tensor, ...]: ...
def clamp(input: Tensor, min: Any = ..., max: Any = ..., *, out: Any = ...) -> Tensor: ...
def clamp_max(input: Tensor, max: Any, *, out: Any = ...) -> Tensor: ...
def clamp_min(input: Tensor, min: Any, *, out: Any = ...) -> Tensor: ...
def clip(input: Tensor, min: Any = ..., max: Any = ..., *, out: Any = ...) -> Tensor: ...
def clone(input: Tensor, memory_format: Any = ..., *, out: Any = ...) -> Tensor: ...
def column_stack(tensors: Sequence[Tensor], *, out: Any = ...) -> Tensor: ...
def combinations(
    input: Tensor, r: builtins.int = ..., with_replacement: builtins.bool = ..., *, out: Any = ...
) -> Tensor: ...
def complex(real: Tensor, imag: Tensor, *, out: Any = ...) -> Tensor: ...
def concat(tensors: Sequence[Tensor], dim: builtins.int = ..., *, out: Any = ...) -> Tensor: ...
def concatenate(tensors: Sequence[Tensor], dim: builtins.int = ..., *, out: Any = ...) -> Tensor: ...
def conj(input: Tensor, *, out: Any = ...) -> Tensor: ...
def conj_physical(input: Tensor, *, out: Any = ...) -> Tensor: ...
def constant_pad_nd(
    input: Tensor, pad: Sequence[builtins.int], value: builtins.float = ..., *, out: Any = ...
) -> Tensor: ...
def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = ...,
    stride: Any = ...,
    padding: Any = ...,
    dilation: Any = ...,
    groups: builtins.int = ...,
    *,
    out: Any = ...,
) -> Tensor: ...
def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = ...,
    stride: Any = ...,
    padding: Any = ...,
    dilation: Any = ...,
    groups: builtins.int = ...,
    *,
    out: Any = ...,
) -> Tensor: ...
def conv2d_channels_last(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = ...,
    stride: Any = ...,
    padding: Any = ...,
    dilation: Any = ...,
    groups: builtins.int = ...,
    residual: Tensor | None = ...,
    low: builtins.float = ...,
    high: builtins.float = ...,
    packed: Tensor | None = ...,
    *,
    out: Any = ...,
) -> Tensor: ...
def conv3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = ...,
    stride: Any = ...,
    padding: Any = ...,
    dilation: Any = ...,
    groups: builtins.int = ...,
    *,
    out: Any = ...,
) -> Tensor: ...
def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: builtins.int = ..., *, out: Any = ...) -> Tensor: ...
def conv_transpose1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = ...,
    stride: Any = ...,
    padding: Any = ...,
    output_padding: Any = ...,
    groups: builtins.int = ...,
    dilation: Any = ...,
    *,
    out: Any = ...,
) -> Tensor: ...
def conv_transpose2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = ...,
    stride: Any = ...,
    padding: Any = ...,
    output_padding: Any = ...,
    groups: builtins.int = ...,
    dilation: Any = ...,
    *,
    out: Any = ...,
) -> Tensor: ...
def conv_transpose3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = ...,
    stride: Any = ...,
    padding: Any = ...,
    output_padding: Any = ...,
    groups: builtins.int = ...,
    dilation: Any = ...,
    *,
    out: Any = ...,
) -> Tensor: ...
def convolution(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[builtins.int],
    padding: Sequence[builtins.int],
    dilation: Sequence[builtins.int],
    transposed: builtins.bool,
    output_padding: Sequence[builtins.int],
    groups: builtins.int,
    *,
    out: Any = ...,
) -> Tensor: ...
def copysign(input: Tensor, other: Any, *, out: Any = ...) -> Tensor: ...
def corrcoef(input: Tensor, *, out: Any = ...) -> Tensor: ...
def cos(input: Tensor, *, out: Any = ...) -> Tensor: ...
def cosh(input: Tensor, *, out: Any = ...) -> Tensor: ...
def count_nonzero(input: Tensor, dim: Any = ..., *, out: Any = ...) -> Tensor: ...
def cov(
    input: Tensor,
    *,
    correction: builtins.int = ...,
    fweights: Tensor | None = ...,
    aweights: Tensor | None = ...,
    out: Any = ...,
) -> Tensor: ...
def cross(input: Tensor, other: Tensor, dim: builtins.int | None = ..., *, out: Any = ...) -> Tensor: ...
def cross_attention(
    q: Tensor, keys: Tensor, values: Tensor, scale: builtins.float | None = ..., *, out: Any = ...
) -> Tensor: ...
def cross_entropy(
    logits: Tensor, targets: Tensor, ignore_index: builtins.int = ..., wide: builtins.bool = ..., *, out: Any = ...
) -> Tensor: ...
def cummax(input: Tensor, dim: builtins.int) -> Found: ...
def cummin(input: Tensor, dim: builtins.int) -> Found: ...
def cumprod(input: Tensor, dim: builtins.int, dtype: Any = ..., *, out: Any = ...) -> Tensor: ...
def cumsum(input: Tensor, dim: builtins.int, dtype: Any = ..., *, out: Any = ...) -> Tensor: ...
def cumulative_trapezoid(
    y: Tensor, x: Tensor | None = ..., *, dx: builtins.float = ..., dim: builtins.int = ..., out: Any = ...
) -> Tensor: ...

default_generator: Generator

def deg2rad(input: Tensor, *, out: Any = ...) -> Tensor: ...
def dequantize(input: Tensor, *, out: Any = ...) -> Tensor: ...
def det(input: Tensor, *, out: Any = ...) -> Tensor: ...
def detach(input: Tensor, *, out: Any = ...) -> Tensor: ...
def diag(input: Tensor, diagonal: builtins.int = ..., *, out: Any = ...) -> Tensor: ...
def diag_embed(
    input: Tensor, offset: builtins.int = ..., dim1: builtins.int = ..., dim2: builtins.int = ..., *, out: Any = ...
) -> Tensor: ...
def diagflat(input: Tensor, offset: builtins.int = ..., *, out: Any = ...) -> Tensor: ...
def diagonal(
    input: Tensor, offset: builtins.int = ..., dim1: builtins.int = ..., dim2: builtins.int = ..., *, out: Any = ...
) -> Tensor: ...
def diagonal_scatter(
    input: Tensor,
    src: Tensor,
    offset: builtins.int = ...,
    dim1: builtins.int = ...,
    dim2: builtins.int = ...,
    *,
    out: Any = ...,
) -> Tensor: ...
def diff(
    input: Tensor,
    n: builtins.int = ...,
    dim: builtins.int = ...,
    prepend: Tensor | None = ...,
    append: Tensor | None = ...,
    *,
    out: Any = ...,
) -> Tensor: ...
def digamma(input: Tensor, *, out: Any = ...) -> Tensor: ...
def dist(input: Tensor, other: Tensor, p: builtins.float = ..., *, out: Any = ...) -> Tensor: ...
def div(input: Tensor, other: Any, rounding_mode: builtins.str | None = ..., *, out: Any = ...) -> Tensor: ...
def divide(input: Tensor, other: Any, rounding_mode: builtins.str | None = ..., *, out: Any = ...) -> Tensor: ...
def dot(input: Tensor, tensor: Tensor, *, out: Any = ...) -> Tensor: ...

double: DType

def dsmm(input: Tensor, mat2: Tensor, *, out: Any = ...) -> Tensor: ...
def dsplit(input: Tensor, indices_or_sections: Any) -> builtins.tuple[Tensor, ...]: ...
def dstack(tensors: Sequence[Tensor], *, out: Any = ...) -> Tensor: ...

dtype = DType
e: builtins.float

def einsum(equation: Any, *operands: Any, out: Any = ...) -> Tensor: ...
def elu(input: Tensor, alpha: builtins.float = ..., *, out: Any = ...) -> Tensor: ...
def embedding(weight: Tensor, ids: Tensor, *, out: Any = ...) -> Tensor: ...
def empty(
    *sizes: Any,
    size: Any = ...,
    dtype: Any = ...,
    device: Any = ...,
    requires_grad: builtins.bool = ...,
    out: Any = ...,
    layout: Any = ...,
    memory_format: Any = ...,
    pin_memory: Any = ...,
) -> Tensor: ...
def empty_like(
    input: Tensor,
    dtype: Any = ...,
    device: Any = ...,
    requires_grad: builtins.bool = ...,
    *,
    out: Any = ...,
    layout: Any = ...,
    memory_format: Any = ...,
    pin_memory: Any = ...,
) -> Tensor: ...
def empty_permuted(
    size: Any,
    physical_layout: Sequence[builtins.int],
    *,
    dtype: Any = ...,
    device: Any = ...,
    requires_grad: builtins.bool = ...,
    layout: Any = ...,
    pin_memory: builtins.bool = ...,
    out: Any = ...,
) -> Tensor: ...
def empty_strided(
    size: Any,
    stride: Any,
    *,
    dtype: Any = ...,
    device: Any = ...,
    requires_grad: builtins.bool = ...,
    layout: Any = ...,
    pin_memory: builtins.bool = ...,
    out: Any = ...,
) -> Tensor: ...
def eq(input: Tensor, other: Any, *, out: Any = ...) -> Tensor: ...
def equal(input: Tensor, other: Tensor) -> builtins.bool: ...
def erf(input: Tensor, *, out: Any = ...) -> Tensor: ...
def erfc(input: Tensor, *, out: Any = ...) -> Tensor: ...
def erfinv(input: Tensor, *, out: Any = ...) -> Tensor: ...
def exp(input: Tensor, *, out: Any = ...) -> Tensor: ...
def exp2(input: Tensor, *, out: Any = ...) -> Tensor: ...
def expand(input: Tensor, *shape: Any, out: Any = ...) -> Tensor: ...
def expanded_depthwise_conv2d_channels_last(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    depth_weight: Tensor,
    depth_bias: Tensor | None,
    stride: Any = ...,
    padding: Any = ...,
    depth_stride: Any = ...,
    depth_padding: Any = ...,
    low: builtins.float = ...,
    high: builtins.float = ...,
    depth_low: builtins.float = ...,
    depth_high: builtins.float = ...,
    packed: Tensor | None = ...,
    depth_packed: Tensor | None = ...,
    *,
    out: Any = ...,
) -> Tensor: ...
def expm1(input: Tensor, *, out: Any = ...) -> Tensor: ...
def eye(
    n: builtins.int,
    m: builtins.int | None = ...,
    dtype: Any = ...,
    device: Any = ...,
    requires_grad: builtins.bool = ...,
    *,
    out: Any = ...,
    layout: Any = ...,
    memory_format: Any = ...,
    pin_memory: Any = ...,
) -> Tensor: ...
def fake_quantize_per_channel_affine(
    input: Tensor,
    scale: Tensor,
    zero_point: Tensor,
    axis: builtins.int,
    quant_min: builtins.int,
    quant_max: builtins.int,
    *,
    out: Any = ...,
) -> Tensor: ...
def fake_quantize_per_tensor_affine(
    input: Tensor, scale: Any, zero_point: Any, quant_min: builtins.int, quant_max: builtins.int, *, out: Any = ...
) -> Tensor: ...
def fill(input: Tensor, value: Any, *, out: Any = ...) -> Tensor: ...
def fix(input: Tensor, *, out: Any = ...) -> Tensor: ...
def flatten(input: Tensor, start_dim: builtins.int = ..., end_dim: builtins.int = ..., *, out: Any = ...) -> Tensor: ...
def flip(input: Tensor, *along: Any, dims: Any = ..., out: Any = ...) -> Tensor: ...
def fliplr(input: Tensor, *, out: Any = ...) -> Tensor: ...
def flipud(input: Tensor, *, out: Any = ...) -> Tensor: ...

float: DType

def float_power(input: Tensor, exponent: Any, *, out: Any = ...) -> Tensor: ...
def floor(input: Tensor, *, out: Any = ...) -> Tensor: ...
def floor_divide(input: Tensor, other: Any, *, out: Any = ...) -> Tensor: ...
def fmax(input: Tensor, other: Tensor, *, out: Any = ...) -> Tensor: ...
def fmin(input: Tensor, other: Tensor, *, out: Any = ...) -> Tensor: ...
def fmod(input: Tensor, other: Any, *, out: Any = ...) -> Tensor: ...
def frac(input: Tensor, *, out: Any = ...) -> Tensor: ...
def fractional_max_pool2d(
    input: Tensor,
    kernel_size: Any,
    output_size: Any = ...,
    output_ratio: Any = ...,
    return_indices: builtins.bool = ...,
    _random_samples: Tensor | None = ...,
) -> Any: ...
def fractional_max_pool3d(
    input: Tensor,
    kernel_size: Any,
    output_size: Any = ...,
    output_ratio: Any = ...,
    return_indices: builtins.bool = ...,
    _random_samples: Tensor | None = ...,
) -> Any: ...
def frexp(input: Tensor) -> Frexp: ...
def frobenius_norm(input: Tensor, dim: Any = ..., keepdim: builtins.bool = ..., *, out: Any = ...) -> Tensor: ...
def from_dlpack(ext_tensor: Any, *, out: Any = ...) -> Tensor: ...
def from_file(
    filename: builtins.str,
    shared: builtins.bool | None = ...,
    size: builtins.int = ...,
    *,
    dtype: Any = ...,
    layout: Any = ...,
    device: Any = ...,
    pin_memory: builtins.bool = ...,
    out: Any = ...,
) -> Tensor: ...
def from_numpy(array: Any, *, out: Any = ...) -> Tensor: ...
def frombuffer(
    buffer: Any,
    *,
    dtype: Any,
    count: builtins.int = ...,
    offset: builtins.int = ...,
    requires_grad: builtins.bool = ...,
    out: Any = ...,
) -> Tensor: ...
def full(
    size: Any,
    fill_value: Any,
    dtype: Any = ...,
    device: Any = ...,
    requires_grad: builtins.bool = ...,
    *,
    out: Any = ...,
    layout: Any = ...,
    memory_format: Any = ...,
    pin_memory: Any = ...,
) -> Tensor: ...
def full_like(
    input: Tensor,
    fill_value: Any,
    dtype: Any = ...,
    device: Any = ...,
    requires_grad: builtins.bool = ...,
    *,
    out: Any = ...,
    layout: Any = ...,
    memory_format: Any = ...,
    pin_memory: Any = ...,
) -> Tensor: ...
def gather(
    input: Tensor, dim: builtins.int, index: Tensor, sparse_grad: builtins.bool = ..., *, out: Any = ...
) -> Tensor: ...
def gcd(input: Tensor, other: Any, *, out: Any = ...) -> Tensor: ...
def ge(input: Tensor, other: Any, *, out: Any = ...) -> Tensor: ...
def gelu(input: Tensor, approximate: builtins.str = ..., *, out: Any = ...) -> Tensor: ...
def geqrf(input: Tensor) -> Geqrf: ...
def ger(input: Tensor, vec2: Tensor, *, out: Any = ...) -> Tensor: ...
def get_default_dtype() -> DType: ...
def get_device(input: Tensor) -> builtins.int | None: ...
def glu(input: Tensor, dim: builtins.int = ..., *, out: Any = ...) -> Tensor: ...
def gradient(
    input: Tensor, *, spacing: Any = ..., dim: Any = ..., edge_order: builtins.int = ...
) -> builtins.tuple[Tensor, ...]: ...
def greater(input: Tensor, other: Any, *, out: Any = ...) -> Tensor: ...
def greater_equal(input: Tensor, other: Any, *, out: Any = ...) -> Tensor: ...
def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: builtins.str = ...,
    padding_mode: builtins.str = ...,
    align_corners: builtins.bool | None = ...,
    *,
    out: Any = ...,
) -> Tensor: ...
def grid_sampler(
    input: Tensor,
    grid: Tensor,
    interpolation_mode: builtins.int,
    padding_mode: builtins.int,
    align_corners: builtins.bool,
    *,
    out: Any = ...,
) -> Tensor: ...
def group_norm(
    input: Tensor,
    num_groups: builtins.int,
    weight: Tensor | None = ...,
    bias: Tensor | None = ...,
    eps: builtins.float = ...,
    *,
    out: Any = ...,
) -> Tensor: ...
def gt(input: Tensor, other: Any, *, out: Any = ...) -> Tensor: ...
def gumbel_softmax(
    logits: Tensor,
    tau: builtins.float = ...,
    hard: builtins.bool = ...,
    dim: builtins.int = ...,
    *,
    generator: Any = ...,
    out: Any = ...,
) -> Tensor: ...

half: DType

def hamming_window(
    window_length: builtins.int,
    periodic: builtins.bool = ...,
    alpha: builtins.float = ...,
    beta: builtins.float = ...,
    *,
    dtype: Any = ...,
    device: Any = ...,
    out: Any = ...,
    requires_grad: builtins.bool = ...,
    layout: Any = ...,
    memory_format: Any = ...,
    pin_memory: Any = ...,
) -> Tensor: ...
def hann_window(
    window_length: builtins.int,
    periodic: builtins.bool = ...,
    *,
    dtype: Any = ...,
    device: Any = ...,
    out: Any = ...,
    requires_grad: builtins.bool = ...,
    layout: Any = ...,
    memory_format: Any = ...,
    pin_memory: Any = ...,
) -> Tensor: ...
def hardshrink(input: Tensor, lambd: builtins.float = ..., *, out: Any = ...) -> Tensor: ...
def hardsigmoid(input: Tensor, *, out: Any = ...) -> Tensor: ...
def hardswish(input: Tensor, *, out: Any = ...) -> Tensor: ...
def hardtanh(
    input: Tensor, min_val: builtins.float = ..., max_val: builtins.float = ..., *, out: Any = ...
) -> Tensor: ...
def heaviside(input: Tensor, values: Tensor, *, out: Any = ...) -> Tensor: ...
def histc(
    input: Tensor, bins: builtins.int = ..., min: builtins.float = ..., max: builtins.float = ..., *, out: Any = ...
) -> Tensor: ...
def histogram(
    input: Tensor,
    bins: Any,
    *,
    range: Sequence[builtins.float] | None = ...,
    weight: Tensor | None = ...,
    density: builtins.bool = ...,
) -> Histogram: ...
def histogramdd(
    input: Tensor,
    bins: Any,
    *,
    range: Sequence[builtins.float] | None = ...,
    weight: Tensor | None = ...,
    density: builtins.bool = ...,
) -> HistogramOfPoints: ...
def hsplit(input: Tensor, indices_or_sections: Any) -> builtins.tuple[Tensor, ...]: ...
def hstack(tensors: Sequence[Tensor], *, out: Any = ...) -> Tensor: ...
def hypot(input: Tensor, other: Any, *, out: Any = ...) -> Tensor: ...
def i0(input: Tensor, *, out: Any = ...) -> Tensor: ...
def igamma(input: Tensor, other: Any, *, out: Any = ...) -> Tensor: ...
def igammac(input: Tensor, other: Any, *, out: Any = ...) -> Tensor: ...
def imag(input: Tensor, *, out: Any = ...) -> Tensor: ...
def index_add(
    input: Tensor, dim: builtins.int, index: Tensor, source: Tensor, alpha: builtins.float = ..., *, out: Any = ...
) -> Tensor: ...
def index_copy(input: Tensor, dim: builtins.int, index: Tensor, source: Tensor, *, out: Any = ...) -> Tensor: ...
def index_fill(input: Tensor, dim: builtins.int, index: Tensor, value: Any, *, out: Any = ...) -> Tensor: ...
def index_put(
    input: Tensor, indices: Sequence[Tensor], values: Tensor, accumulate: builtins.bool = ..., *, out: Any = ...
) -> Tensor: ...
def index_reduce(
    input: Tensor,
    dim: builtins.int,
    index: Tensor,
    source: Tensor,
    reduce: builtins.str,
    *,
    include_self: builtins.bool = ...,
    out: Any = ...,
) -> Tensor: ...
def index_select(input: Tensor, dim: builtins.int, index: Tensor, *, out: Any = ...) -> Tensor: ...
def indexed_places(
    q: Tensor,
    weights: Tensor,
    keys: Tensor,
    position: Tensor,
    count: builtins.int,
    block_table: Tensor | None = ...,
    *,
    out: Any = ...,
) -> Tensor: ...

inf: builtins.float

def inference_mode(mode: Any = ...) -> Any: ...
def initial_seed() -> builtins.int: ...
def inner(input: Tensor, other: Tensor, *, out: Any = ...) -> Tensor: ...
def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = ...,
    running_var: Tensor | None = ...,
    weight: Tensor | None = ...,
    bias: Tensor | None = ...,
    use_input_stats: builtins.bool = ...,
    momentum: builtins.float = ...,
    eps: builtins.float = ...,
    *,
    out: Any = ...,
) -> Tensor: ...

int: DType

def interpolate(
    input: Tensor,
    size: Any = ...,
    scale_factor: Any = ...,
    mode: builtins.str = ...,
    align_corners: builtins.bool | None = ...,
    recompute_scale_factor: builtins.bool | None = ...,
    antialias: builtins.bool = ...,
    *,
    out: Any = ...,
) -> Tensor: ...
def inverse(input: Tensor, *, out: Any = ...) -> Tensor: ...
def is_complex(input: Tensor) -> builtins.bool: ...
def is_conj(input: Tensor) -> builtins.bool: ...
def is_floating_point(input: Tensor) -> builtins.bool: ...
def is_inference(input: Tensor, *_: Any) -> builtins.bool: ...
def is_neg(input: Tensor) -> builtins.bool: ...
def is_nonzero(input: Tensor) -> builtins.bool: ...
def is_same_size(input: Tensor, other: Tensor) -> builtins.bool: ...
def is_signed(input: Tensor) -> builtins.bool: ...
def is_tensor(obj: Any) -> builtins.bool: ...
def isclose(
    input: Tensor,
    other: Tensor,
    rtol: builtins.float = ...,
    atol: builtins.float = ...,
    equal_nan: builtins.bool = ...,
    *,
    out: Any = ...,
) -> Tensor: ...
def isfinite(input: Tensor, *, out: Any = ...) -> Tensor: ...
def isin(
    elements: Tensor,
    test_elements: Any,
    *,
    assume_unique: builtins.bool = ...,
    invert: builtins.bool = ...,
    out: Any = ...,
) -> Tensor: ...
def isinf(input: Tensor, *, out: Any = ...) -> Tensor: ...
def isnan(input: Tensor, *, out: Any = ...) -> Tensor: ...
def isneginf(input: Tensor, *, out: Any = ...) -> Tensor: ...
def isposinf(input: Tensor, *, out: Any = ...) -> Tensor: ...
def isreal(input: Tensor, *, out: Any = ...) -> Tensor: ...
def istft(
    input: Tensor,
    n_fft: builtins.int,
    hop_length: builtins.int | None = ...,
    win_length: builtins.int | None = ...,
    window: Tensor | None = ...,
    center: builtins.bool = ...,
    normalized: builtins.bool = ...,
    onesided: builtins.bool | None = ...,
    length: builtins.int | None = ...,
    return_complex: builtins.bool = ...,
    *,
    out: Any = ...,
) -> Tensor: ...
def kaiser_window(
    window_length: builtins.int,
    periodic: builtins.bool = ...,
    beta: builtins.float = ...,
    *,
    dtype: Any = ...,
    device: Any = ...,
    layout: Any = ...,
    requires_grad: builtins.bool = ...,
    out: Any = ...,
) -> Tensor: ...
def kron(input: Tensor, other: Tensor, *, out: Any = ...) -> Tensor: ...
def kthvalue(input: Tensor, k: builtins.int, dim: builtins.int = ..., keepdim: builtins.bool = ...) -> Found: ...
def layer_norm(
    input: Tensor,
    normalized_shape: Any,
    weight: Any = ...,
    bias: Any = ...,
    eps: builtins.float = ...,
    *,
    out: Any = ...,
) -> Tensor: ...
def lcm(input: Tensor, other: Any, *, out: Any = ...) -> Tensor: ...
def ldexp(input: Tensor, other: Tensor, *, out: Any = ...) -> Tensor: ...
def le(input: Tensor, other: Any, *, out: Any = ...) -> Tensor: ...
def leaky_relu(input: Tensor, negative_slope: builtins.float = ..., *, out: Any = ...) -> Tensor: ...
def lerp(input: Tensor, end: Tensor, weight: Any, *, out: Any = ...) -> Tensor: ...
def less(input: Tensor, other: Any, *, out: Any = ...) -> Tensor: ...
def less_equal(input: Tensor, other: Any, *, out: Any = ...) -> Tensor: ...
def lgamma(input: Tensor, *, out: Any = ...) -> Tensor: ...
def linear(
    input: Tensor, weight: Tensor, bias: Tensor | None = ..., residual: Tensor | None = ..., *, out: Any = ...
) -> Tensor: ...
def linear_activated(
    input: Tensor, weight: Tensor, bias: Tensor | None = ..., activation: builtins.str = ..., *, out: Any = ...
) -> Tensor: ...
def linear_scan(
    input: Tensor, other: Tensor, start: Tensor | None = ..., reverse: builtins.bool = ..., *, out: Any = ...
) -> Tensor: ...
def linspace(
    start: builtins.float,
    end: builtins.float,
    steps: builtins.int,
    dtype: Any = ...,
    device: Any = ...,
    requires_grad: builtins.bool = ...,
    *,
    out: Any = ...,
    layout: Any = ...,
    memory_format: Any = ...,
    pin_memory: Any = ...,
) -> Tensor: ...
def lobpcg(
    A: Tensor,
    k: builtins.int | None = ...,
    B: Tensor | None = ...,
    X: Tensor | None = ...,
    n: builtins.int | None = ...,
    iK: Tensor | None = ...,
    niter: builtins.int | None = ...,
    tol: builtins.float | None = ...,
    largest: builtins.bool | None = ...,
    method: builtins.str | None = ...,
    tracker: Callable[[Any], Any] | None = ...,
    ortho_iparams: Any = ...,
    ortho_fparams: Any = ...,
    ortho_bparams: Any = ...,
) -> builtins.tuple[Tensor, Tensor]: ...
def local_response_norm(
    input: Tensor,
    size: builtins.int,
    alpha: builtins.float = ...,
    beta: builtins.float = ...,
    k: builtins.float = ...,
    *,
    out: Any = ...,
) -> Tensor: ...
def log(input: Tensor, *, out: Any = ...) -> Tensor: ...
def log10(input: Tensor, *, out: Any = ...) -> Tensor: ...
def log1p(input: Tensor, *, out: Any = ...) -> Tensor: ...
def log2(input: Tensor, *, out: Any = ...) -> Tensor: ...
def log_softmax(input: Tensor, dim: builtins.int = ..., dtype: Any = ..., *, out: Any = ...) -> Tensor: ...
def logaddexp(input: Tensor, other: Any, *, out: Any = ...) -> Tensor: ...
def logaddexp2(input: Tensor, other: Tensor, *, out: Any = ...) -> Tensor: ...
def logcumsumexp(input: Tensor, dim: builtins.int, *, out: Any = ...) -> Tensor: ...
def logdet(input: Tensor, *, out: Any = ...) -> Tensor: ...
def logical_and(input: Tensor, other: Any, *, out: Any = ...) -> Tensor: ...
def logical_not(input: Tensor, *, out: Any = ...) -> Tensor: ...
def logical_or(input: Tensor, other: Any, *, out: Any = ...) -> Tensor: ...
def logical_xor(input: Tensor, other: Any, *, out: Any = ...) -> Tensor: ...
def logit(input: Tensor, eps: builtins.float | None = ..., *, out: Any = ...) -> Tensor: ...
def logsigmoid(input: Tensor, *, out: Any = ...) -> Tensor: ...
def logspace(
    start: builtins.float,
    end: builtins.float,
    steps: builtins.int,
    base: builtins.float = ...,
    dtype: Any = ...,
    *,
    out: Any = ...,
    device: Any = ...,
    requires_grad: builtins.bool = ...,
    layout: Any = ...,
    memory_format: Any = ...,
    pin_memory: Any = ...,
) -> Tensor: ...
def logsumexp(input: Tensor, dim: Any, keepdim: builtins.bool = ..., *, out: Any = ...) -> Tensor: ...

long: DType

def lp_pool1d(
    input: Tensor,
    norm_type: builtins.float,
    kernel_size: Any,
    stride: Any = ...,
    ceil_mode: builtins.bool = ...,
    *,
    out: Any = ...,
) -> Tensor: ...
def lp_pool2d(
    input: Tensor,
    norm_type: builtins.float,
    kernel_size: Any,
    stride: Any = ...,
    ceil_mode: builtins.bool = ...,
    *,
    out: Any = ...,
) -> Tensor: ...
def lp_pool3d(
    input: Tensor,
    norm_type: builtins.float,
    kernel_size: Any,
    stride: Any = ...,
    ceil_mode: builtins.bool = ...,
    *,
    out: Any = ...,
) -> Tensor: ...
def lt(input: Tensor, other: Any, *, out: Any = ...) -> Tensor: ...
def lu(A: Tensor, pivot: builtins.bool = ..., get_infos: builtins.bool = ...) -> LUFactor | LUFactorEx: ...
def lu_solve(other: Tensor, LU_data: Tensor, LU_pivots: Tensor, *, out: Any = ...) -> Tensor: ...
def lu_unpack(
    LU_data: Tensor, LU_pivots: Tensor, unpack_data: builtins.bool = ..., unpack_pivots: builtins.bool = ...
) -> LU: ...
def manual_seed(seed: builtins.int) -> Generator: ...
def masked_fill(input: Tensor, mask: Tensor, value: Any, *, out: Any = ...) -> Tensor: ...
def masked_scatter(input: Tensor, mask: Tensor, source: Tensor, *, out: Any = ...) -> Tensor: ...
def masked_select(input: Tensor, mask: Tensor, *, out: Any = ...) -> Tensor: ...
def matmul(input: Tensor, other: Tensor, *, out: Any = ...) -> Tensor: ...
def matrix_exp(input: Tensor, *, out: Any = ...) -> Tensor: ...
def matrix_power(input: Tensor, n: builtins.int, *, out: Any = ...) -> Tensor: ...
@overload
def max(input: Tensor) -> Tensor: ...
@overload
def max(input: Tensor, other: Tensor) -> Tensor: ...
@overload
def max(input: Tensor, dim: builtins.int, keepdim: builtins.bool = ...) -> Found: ...
def max_pool1d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = ...,
    padding: Any = ...,
    dilation: Any = ...,
    ceil_mode: builtins.bool = ...,
    return_indices: builtins.bool = ...,
) -> Any: ...
def max_pool2d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = ...,
    padding: Any = ...,
    dilation: Any = ...,
    ceil_mode: builtins.bool = ...,
    return_indices: builtins.bool = ...,
) -> Any: ...
def max_pool2d_channels_last(
    input: Tensor, kernel_size: Any, stride: Any = ..., padding: Any = ..., *, out: Any = ...
) -> Tensor: ...
def max_pool3d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = ...,
    padding: Any = ...,
    dilation: Any = ...,
    ceil_mode: builtins.bool = ...,
    return_indices: builtins.bool = ...,
) -> Any: ...
def max_unpool1d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Any,
    stride: Any = ...,
    padding: Any = ...,
    output_size: Any = ...,
    *,
    out: Any = ...,
) -> Tensor: ...
def max_unpool2d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Any,
    stride: Any = ...,
    padding: Any = ...,
    output_size: Any = ...,
    *,
    out: Any = ...,
) -> Tensor: ...
def max_unpool3d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Any,
    stride: Any = ...,
    padding: Any = ...,
    output_size: Any = ...,
    *,
    out: Any = ...,
) -> Tensor: ...
def maximum(input: Tensor, other: Any, *, out: Any = ...) -> Tensor: ...
def mean(
    input: Tensor, dim: Any = ..., keepdim: builtins.bool = ..., dtype: Any = ..., axis: Any = ..., *, out: Any = ...
) -> Tensor: ...
@overload
def median(input: Tensor) -> Tensor: ...
@overload
def median(input: Tensor, dim: builtins.int, keepdim: builtins.bool = ...) -> Found: ...
def meshgrid(*tensors: Any, indexing: builtins.str = ...) -> builtins.tuple[Tensor, ...]: ...
@overload
def min(input: Tensor) -> Tensor: ...
@overload
def min(input: Tensor, other: Tensor) -> Tensor: ...
@overload
def min(input: Tensor, dim: builtins.int, keepdim: builtins.bool = ...) -> Found: ...
def minimum(input: Tensor, other: Any, *, out: Any = ...) -> Tensor: ...
def mish(input: Tensor, *, out: Any = ...) -> Tensor: ...
def mm(input: Tensor, mat2: Tensor, *, out: Any = ...) -> Tensor: ...
def mode(input: Tensor, dim: builtins.int = ..., keepdim: builtins.bool = ...) -> Found: ...
def moveaxis(
    input: Tensor,
    source: builtins.int | Sequence[builtins.int],
    destination: builtins.int | Sequence[builtins.int],
    *,
    out: Any = ...,
) -> Tensor: ...
def movedim(
    input: Tensor,
    source: builtins.int | Sequence[builtins.int],
    destination: builtins.int | Sequence[builtins.int],
    *,
    out: Any = ...,
) -> Tensor: ...
def msort(input: Tensor, *, out: Any = ...) -> Tensor: ...
def mul(input: Tensor, other: Any, *, out: Any = ...) -> Tensor: ...
def multinomial(
    input: Tensor,
    num_samples: builtins.int,
    replacement: builtins.bool = ...,
    generator: Generator | None = ...,
    *,
    out: Any = ...,
) -> Tensor: ...
def multiply(input: Tensor, other: Any, *, out: Any = ...) -> Tensor: ...
def mv(input: Tensor, vec: Tensor, *, out: Any = ...) -> Tensor: ...
def mvlgamma(input: Tensor, p: builtins.int, *, out: Any = ...) -> Tensor: ...

nan: builtins.float

def nan_to_num(
    input: Tensor,
    nan: builtins.float | None = ...,
    posinf: builtins.float | None = ...,
    neginf: builtins.float | None = ...,
    *,
    out: Any = ...,
) -> Tensor: ...
def nanmean(
    input: Tensor, dim: Any = ..., keepdim: builtins.bool = ..., *, dtype: Any = ..., out: Any = ...
) -> Tensor: ...
@overload
def nanmedian(input: Tensor) -> Tensor: ...
@overload
def nanmedian(input: Tensor, dim: builtins.int, keepdim: builtins.bool = ...) -> Found: ...
def nanquantile(
    input: Tensor,
    q: Any,
    dim: builtins.int | None = ...,
    keepdim: builtins.bool = ...,
    *,
    interpolation: builtins.str = ...,
    out: Any = ...,
) -> Tensor: ...
def nansum(
    input: Tensor, dim: Any = ..., keepdim: builtins.bool = ..., *, dtype: Any = ..., out: Any = ...
) -> Tensor: ...
def narrow(
    input: Tensor, dim: builtins.int, start: builtins.int, length: builtins.int, *, out: Any = ...
) -> Tensor: ...
def narrow_copy(
    input: Tensor, dim: builtins.int, start: builtins.int, length: builtins.int, *, out: Any = ...
) -> Tensor: ...
def native_group_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    N: builtins.int,
    C: builtins.int,
    HxW: builtins.int,
    group: builtins.int,
    eps: builtins.float,
) -> builtins.tuple[Tensor, Tensor, Tensor]: ...
def native_layer_norm(
    input: Tensor,
    normalized_shape: Sequence[builtins.int],
    weight: Tensor | None,
    bias: Tensor | None,
    eps: builtins.float,
) -> builtins.tuple[Tensor, Tensor, Tensor]: ...
def ne(input: Tensor, other: Any, *, out: Any = ...) -> Tensor: ...
def neg(input: Tensor, *, out: Any = ...) -> Tensor: ...
def negative(input: Tensor, *, out: Any = ...) -> Tensor: ...

newaxis: Any

def nextafter(input: Tensor, other: Any, *, out: Any = ...) -> Tensor: ...
@overload
def nonzero(input: Tensor, as_tuple: Literal[False] = ...) -> Tensor: ...
@overload
def nonzero(input: Tensor, as_tuple: Literal[True]) -> builtins.tuple[Tensor, ...]: ...
def nonzero_static(input: Tensor, *, size: builtins.int, fill_value: builtins.int = ..., out: Any = ...) -> Tensor: ...
def norm(
    input: Tensor, p: Any = ..., dim: Any = ..., keepdim: builtins.bool = ..., dtype: Any = ..., *, out: Any = ...
) -> Tensor: ...
def norm_except_dim(v: Tensor, pow: builtins.int = ..., dim: builtins.int = ..., *, out: Any = ...) -> Tensor: ...
def normal(
    mean: Any,
    std: Any = ...,
    size: Any = ...,
    *,
    generator: Generator | None = ...,
    dtype: Any = ...,
    out: Any = ...,
    device: Any = ...,
    requires_grad: builtins.bool = ...,
    layout: Any = ...,
    memory_format: Any = ...,
    pin_memory: Any = ...,
) -> Tensor: ...
def normalize(
    input: Tensor, p: builtins.float = ..., dim: builtins.int = ..., eps: builtins.float = ..., *, out: Any = ...
) -> Tensor: ...
def not_equal(input: Tensor, other: Any, *, out: Any = ...) -> Tensor: ...
def nuclear_norm(input: Tensor, dim: Any = ..., keepdim: builtins.bool = ..., *, out: Any = ...) -> Tensor: ...
def numel(input: Tensor) -> builtins.int: ...
def one_hot(input: Tensor, num_classes: builtins.int = ..., *, out: Any = ...) -> Tensor: ...
def ones(
    *sizes: Any,
    size: Any = ...,
    dtype: Any = ...,
    device: Any = ...,
    requires_grad: builtins.bool = ...,
    out: Any = ...,
    layout: Any = ...,
    memory_format: Any = ...,
    pin_memory: Any = ...,
) -> Tensor: ...
def ones_like(
    input: Tensor,
    dtype: Any = ...,
    device: Any = ...,
    requires_grad: builtins.bool = ...,
    *,
    out: Any = ...,
    layout: Any = ...,
    memory_format: Any = ...,
    pin_memory: Any = ...,
) -> Tensor: ...
def orgqr(input: Tensor, tau: Tensor, *, out: Any = ...) -> Tensor: ...
def ormqr(
    input: Tensor,
    tau: Tensor,
    other: Tensor,
    left: builtins.bool = ...,
    transpose: builtins.bool = ...,
    *,
    out: Any = ...,
) -> Tensor: ...
def outer(input: Tensor, vec2: Tensor, *, out: Any = ...) -> Tensor: ...
def pack_convolution_weight(weight: Tensor, groups: builtins.int = ..., *, out: Any = ...) -> Tensor: ...
def pad(
    input: Tensor,
    pad: Sequence[builtins.int],
    mode: builtins.str = ...,
    value: builtins.float | None = ...,
    *,
    out: Any = ...,
) -> Tensor: ...
def pca_lowrank(
    A: Tensor, q: builtins.int | None = ..., center: builtins.bool = ..., niter: builtins.int = ...
) -> SVD: ...
def pdist(input: Tensor, p: builtins.float = ..., *, out: Any = ...) -> Tensor: ...
def peak(logits: Tensor) -> builtins.tuple[builtins.int, builtins.float]: ...
def permute(input: Tensor, *order: Any, dims: Any = ..., out: Any = ...) -> Tensor: ...

pi: builtins.float

def pinv(
    input: Tensor, rcond: Any = ..., hermitian: builtins.bool = ..., *, atol: Any = ..., rtol: Any = ..., out: Any = ...
) -> Tensor: ...
def pinverse(input: Tensor, rcond: builtins.float = ..., *, out: Any = ...) -> Tensor: ...
def pixel_shuffle(input: Tensor, upscale_factor: builtins.int, *, out: Any = ...) -> Tensor: ...
def pixel_unshuffle(input: Tensor, downscale_factor: builtins.int, *, out: Any = ...) -> Tensor: ...
def poisson(input: Tensor, generator: Generator | None = ..., *, out: Any = ...) -> Tensor: ...
def polar(abs: Tensor, angle: Tensor, *, out: Any = ...) -> Tensor: ...
def polygamma(n: builtins.int, x: Tensor, *, out: Any = ...) -> Tensor: ...
def positive(input: Tensor, *, out: Any = ...) -> Tensor: ...
def pow(input: Any, exponent: Any, *, out: Any = ...) -> Tensor: ...
def prelu(input: Tensor, weight: Tensor, *, out: Any = ...) -> Tensor: ...
def prod(
    input: Tensor, dim: builtins.int | None = ..., keepdim: builtins.bool = ..., dtype: Any = ..., *, out: Any = ...
) -> Tensor: ...
def promote_types(type1: Any, type2: Any) -> DType: ...
def put(input: Tensor, index: Tensor, source: Tensor, accumulate: builtins.bool = ..., *, out: Any = ...) -> Tensor: ...
def qr(input: Tensor, some: builtins.bool | builtins.str = ...) -> QR: ...
def quantile(
    input: Tensor,
    q: Any,
    dim: builtins.int | None = ...,
    keepdim: builtins.bool = ...,
    interpolation: builtins.str = ...,
    *,
    out: Any = ...,
) -> Tensor: ...
def rad2deg(input: Tensor, *, out: Any = ...) -> Tensor: ...
def rand(
    *sizes: Any,
    size: Any = ...,
    generator: Generator | None = ...,
    dtype: Any = ...,
    device: Any = ...,
    requires_grad: builtins.bool = ...,
    out: Any = ...,
    layout: Any = ...,
    memory_format: Any = ...,
    pin_memory: Any = ...,
) -> Tensor: ...
def rand_like(
    input: Tensor,
    *,
    generator: Generator | None = ...,
    dtype: Any = ...,
    device: Any = ...,
    requires_grad: builtins.bool = ...,
    out: Any = ...,
    layout: Any = ...,
    memory_format: Any = ...,
    pin_memory: Any = ...,
) -> Tensor: ...
def randint(
    low: builtins.int = ...,
    high: Any = ...,
    size: Any = ...,
    generator: Generator | None = ...,
    dtype: Any = ...,
    device: Any = ...,
    requires_grad: builtins.bool = ...,
    *,
    out: Any = ...,
    layout: Any = ...,
    memory_format: Any = ...,
    pin_memory: Any = ...,
) -> Tensor: ...
def randint_like(
    input: Tensor,
    low: builtins.int,
    high: builtins.int | None = ...,
    *,
    dtype: Any = ...,
    generator: Generator | None = ...,
    out: Any = ...,
    device: Any = ...,
    requires_grad: builtins.bool = ...,
    layout: Any = ...,
    memory_format: Any = ...,
    pin_memory: Any = ...,
) -> Tensor: ...
def randn(
    *sizes: Any,
    size: Any = ...,
    generator: Generator | None = ...,
    dtype: Any = ...,
    device: Any = ...,
    requires_grad: builtins.bool = ...,
    out: Any = ...,
    layout: Any = ...,
    memory_format: Any = ...,
    pin_memory: Any = ...,
) -> Tensor: ...
def randn_like(
    input: Tensor,
    *,
    generator: Generator | None = ...,
    dtype: Any = ...,
    device: Any = ...,
    requires_grad: builtins.bool = ...,
    out: Any = ...,
    layout: Any = ...,
    memory_format: Any = ...,
    pin_memory: Any = ...,
) -> Tensor: ...
def randperm(
    n: builtins.int,
    generator: Generator | None = ...,
    dtype: Any = ...,
    device: Any = ...,
    *,
    out: Any = ...,
    requires_grad: builtins.bool = ...,
    layout: Any = ...,
    memory_format: Any = ...,
    pin_memory: Any = ...,
) -> Tensor: ...
def range(
    start: builtins.float = ...,
    end: builtins.float | None = ...,
    step: builtins.float = ...,
    *,
    dtype: Any = ...,
    device: Any = ...,
    requires_grad: builtins.bool = ...,
    out: Any = ...,
) -> Tensor: ...
def ravel(input: Tensor, *, out: Any = ...) -> Tensor: ...
def real(input: Tensor, *, out: Any = ...) -> Tensor: ...
def reciprocal(input: Tensor, *, out: Any = ...) -> Tensor: ...
def relu(input: Tensor, *, out: Any = ...) -> Tensor: ...
def relu6(input: Tensor, *, out: Any = ...) -> Tensor: ...
def remainder(input: Tensor, other: Any, *, out: Any = ...) -> Tensor: ...
def renorm(
    input: Tensor, p: builtins.float, dim: builtins.int, maxnorm: builtins.float, *, out: Any = ...
) -> Tensor: ...
def repeat(input: Tensor, *times: Any, out: Any = ...) -> Tensor: ...
def repeat_interleave(
    input: Tensor,
    repeats: builtins.int | Tensor | None = ...,
    dim: builtins.int | None = ...,
    *,
    output_size: builtins.int | None = ...,
    out: Any = ...,
) -> Tensor: ...
def reshape(input: Tensor, *shape: Any, out: Any = ...) -> Tensor: ...
def resolve_conj(input: Tensor, *, out: Any = ...) -> Tensor: ...
def resolve_neg(input: Tensor, *, out: Any = ...) -> Tensor: ...
def result_type(tensor1: Any, tensor2: Any) -> DType: ...
def rms_norm(
    input: Tensor, normalized_shape: Any, weight: Any = ..., eps: builtins.float | None = ..., *, out: Any = ...
) -> Tensor: ...
def roll(
    input: Tensor,
    shifts: builtins.int | Sequence[builtins.int],
    dims: builtins.int | Sequence[builtins.int] | None = ...,
    *,
    out: Any = ...,
) -> Tensor: ...
def rope(
    input: Tensor, table: Tensor, position: Tensor | None = ..., interleaved: builtins.bool = ..., *, out: Any = ...
) -> Tensor: ...
def rope_table(
    positions: builtins.int, head_dim: builtins.int, theta: builtins.float = ..., *, out: Any = ...
) -> Tensor: ...
def rot90(input: Tensor, k: builtins.int = ..., dims: Sequence[builtins.int] = ..., *, out: Any = ...) -> Tensor: ...
def round(input: Tensor, decimals: builtins.int = ..., *, out: Any = ...) -> Tensor: ...
def row_stack(tensors: Sequence[Tensor], *, out: Any = ...) -> Tensor: ...
def rrelu(
    input: Tensor,
    lower: builtins.float = ...,
    upper: builtins.float = ...,
    training: builtins.bool = ...,
    *,
    generator: Any = ...,
    out: Any = ...,
) -> Tensor: ...
def rsqrt(input: Tensor, *, out: Any = ...) -> Tensor: ...
def rsub(input: Tensor, other: Any, alpha: builtins.float = ..., *, out: Any = ...) -> Tensor: ...
def sample(logits: Tensor, buffers: SampleBuffers, *settings: Any, **named: Any) -> builtins.int: ...
def scalar_tensor(
    value: Any,
    dtype: Any = ...,
    *,
    out: Any = ...,
    device: Any = ...,
    requires_grad: builtins.bool = ...,
    layout: Any = ...,
    memory_format: Any = ...,
    pin_memory: Any = ...,
) -> Tensor: ...
def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = ...,
    dropout_p: builtins.float = ...,
    is_causal: builtins.bool = ...,
    scale: builtins.float | None = ...,
    enable_gqa: builtins.bool = ...,
    *,
    softcap: builtins.float | None = ...,
    window: builtins.int | builtins.tuple[builtins.int, builtins.int] | None = ...,
    generator: Any = ...,
    out: Any = ...,
) -> Tensor: ...
def scatter(
    input: Tensor,
    dim: builtins.int,
    index: Tensor,
    src: Any = ...,
    value: Any = ...,
    reduce: builtins.str | None = ...,
    *,
    out: Any = ...,
) -> Tensor: ...
def scatter_add(input: Tensor, dim: builtins.int, index: Tensor, src: Tensor, *, out: Any = ...) -> Tensor: ...
def scatter_reduce(
    input: Tensor,
    dim: builtins.int,
    index: Tensor,
    src: Tensor,
    reduce: builtins.str,
    *,
    include_self: builtins.bool = ...,
    out: Any = ...,
) -> Tensor: ...
def searchsorted(
    sorted_sequence: Tensor,
    values: Any,
    *,
    out_int32: builtins.bool = ...,
    right: builtins.bool = ...,
    side: builtins.str | None = ...,
    sorter: Tensor | None = ...,
    out: Any = ...,
) -> Tensor: ...
def seed() -> builtins.int: ...
def segment_reduce(
    data: Tensor,
    reduce: builtins.str,
    *,
    lengths: Tensor | None = ...,
    offsets: Tensor | None = ...,
    axis: builtins.int = ...,
    unsafe: builtins.bool = ...,
    initial: builtins.float | None = ...,
    out: Any = ...,
) -> Tensor: ...
def select(input: Tensor, dim: builtins.int, index: builtins.int, *, out: Any = ...) -> Tensor: ...
def select_scatter(input: Tensor, src: Tensor, dim: builtins.int, index: builtins.int, *, out: Any = ...) -> Tensor: ...
def selu(input: Tensor, *, out: Any = ...) -> Tensor: ...
def sgn(input: Tensor, *, out: Any = ...) -> Tensor: ...

short: DType

def sigmoid(input: Tensor, *, out: Any = ...) -> Tensor: ...
def sign(input: Tensor, *, out: Any = ...) -> Tensor: ...
def signbit(input: Tensor, *, out: Any = ...) -> Tensor: ...
def silu(input: Tensor, *, out: Any = ...) -> Tensor: ...
def silu_mul(input: Tensor, *, out: Any = ...) -> Tensor: ...
def sin(input: Tensor, *, out: Any = ...) -> Tensor: ...
def sinc(input: Tensor, *, out: Any = ...) -> Tensor: ...
def sinh(input: Tensor, *, out: Any = ...) -> Tensor: ...
def slice_scatter(
    input: Tensor,
    src: Tensor,
    dim: builtins.int = ...,
    start: builtins.int | None = ...,
    end: builtins.int | None = ...,
    step: builtins.int = ...,
    *,
    out: Any = ...,
) -> Tensor: ...
def slogdet(input: Tensor) -> LogDeterminant: ...
def softmax(input: Tensor, dim: builtins.int = ..., dtype: Any = ..., *, out: Any = ...) -> Tensor: ...
def softmin(input: Tensor, dim: builtins.int = ..., *, out: Any = ...) -> Tensor: ...
def softplus(
    input: Tensor, beta: builtins.float = ..., threshold: builtins.float = ..., *, out: Any = ...
) -> Tensor: ...
def softshrink(input: Tensor, lambd: builtins.float = ..., *, out: Any = ...) -> Tensor: ...
def softsign(input: Tensor, *, out: Any = ...) -> Tensor: ...
def solve(A: Tensor, B: Tensor, *, left: builtins.bool = ..., out: Any = ...) -> Tensor: ...
def solve_triangular(
    A: Tensor,
    B: Tensor,
    *,
    upper: builtins.bool,
    left: builtins.bool = ...,
    unitriangular: builtins.bool = ...,
    out: Any = ...,
) -> Tensor: ...
def sort(
    input: Tensor, dim: builtins.int = ..., descending: builtins.bool = ..., stable: builtins.bool = ...
) -> Found: ...
def sparse_coo_tensor(
    indices: Any = ...,
    values: Any = ...,
    size: Any = ...,
    *,
    dtype: Any = ...,
    device: Any = ...,
    requires_grad: builtins.bool = ...,
    check_invariants: builtins.bool | None = ...,
    is_coalesced: builtins.bool | None = ...,
    layout: Any = ...,
    memory_format: Any = ...,
    pin_memory: Any = ...,
) -> SparseTensor: ...
def sparse_csc_tensor(
    ccol_indices: Any,
    row_indices: Any,
    values: Any,
    size: Any = ...,
    *,
    dtype: Any = ...,
    device: Any = ...,
    requires_grad: builtins.bool = ...,
    check_invariants: builtins.bool | None = ...,
    layout: Any = ...,
    memory_format: Any = ...,
    pin_memory: Any = ...,
) -> SparseTensor: ...
def sparse_csr_tensor(
    crow_indices: Any,
    col_indices: Any,
    values: Any,
    size: Any = ...,
    *,
    dtype: Any = ...,
    device: Any = ...,
    requires_grad: builtins.bool = ...,
    check_invariants: builtins.bool | None = ...,
    layout: Any = ...,
    memory_format: Any = ...,
    pin_memory: Any = ...,
) -> SparseTensor: ...
def split(
    tensor: Tensor, split_size_or_sections: builtins.int | Sequence[builtins.int], dim: builtins.int = ...
) -> builtins.tuple[Tensor, ...]: ...
def split_with_sizes(
    input: Tensor, split_sizes: Sequence[builtins.int], dim: builtins.int = ...
) -> builtins.tuple[Tensor, ...]: ...
def spmm(input: Tensor, mat2: Tensor, *, out: Any = ...) -> Tensor: ...
def sqrt(input: Tensor, *, out: Any = ...) -> Tensor: ...
def square(input: Tensor, *, out: Any = ...) -> Tensor: ...
def squeeze(input: Tensor, dim: builtins.int | Sequence[builtins.int] | None = ..., *, out: Any = ...) -> Tensor: ...
def stack(tensors: Sequence[Tensor], dim: builtins.int = ..., *, out: Any = ...) -> Tensor: ...
def start_sample(
    logits: Tensor,
    buffers: SampleBuffers,
    uniform: builtins.float = ...,
    temperature: builtins.float = ...,
    top_k: builtins.int = ...,
    top_p: builtins.float = ...,
    min_p: builtins.float = ...,
    typical: builtins.float = ...,
    penalty: builtins.float = ...,
    history: Tensor | None = ...,
    history_count: builtins.int = ...,
) -> None: ...
def std(
    input: Tensor,
    dim: Any = ...,
    correction: builtins.int | None = ...,
    keepdim: builtins.bool = ...,
    *,
    unbiased: builtins.bool | None = ...,
    out: Any = ...,
) -> Tensor: ...
def std_mean(
    input: Tensor,
    dim: Any = ...,
    correction: builtins.int | None = ...,
    keepdim: builtins.bool = ...,
    *,
    unbiased: builtins.bool | None = ...,
) -> builtins.tuple[Tensor, Tensor]: ...
def stft(
    input: Tensor,
    n_fft: builtins.int,
    hop_length: builtins.int | None = ...,
    win_length: builtins.int | None = ...,
    window: Tensor | None = ...,
    center: builtins.bool = ...,
    pad_mode: builtins.str = ...,
    normalized: builtins.bool = ...,
    onesided: builtins.bool | None = ...,
    return_complex: builtins.bool | None = ...,
    *,
    out: Any = ...,
) -> Tensor: ...
def sub(input: Tensor, other: Any, alpha: builtins.float = ..., *, out: Any = ...) -> Tensor: ...
def subtract(input: Tensor, other: Any, alpha: builtins.float = ..., *, out: Any = ...) -> Tensor: ...
def sum(
    input: Tensor, dim: Any = ..., keepdim: builtins.bool = ..., dtype: Any = ..., axis: Any = ..., *, out: Any = ...
) -> Tensor: ...
def svd(input: Tensor, some: builtins.bool = ..., compute_uv: builtins.bool = ...) -> SVD: ...
def svd_lowrank(
    A: Tensor, q: builtins.int | None = ..., niter: builtins.int | None = ..., M: Tensor | None = ...
) -> SVD: ...
def swapaxes(input: Tensor, axis0: builtins.int, axis1: builtins.int, *, out: Any = ...) -> Tensor: ...
def swapdims(input: Tensor, dim0: builtins.int, dim1: builtins.int, *, out: Any = ...) -> Tensor: ...
def t(input: Tensor, *, out: Any = ...) -> Tensor: ...
def take(input: Tensor, index: Tensor, *, out: Any = ...) -> Tensor: ...
def take_along_dim(input: Tensor, indices: Tensor, dim: builtins.int | None = ..., *, out: Any = ...) -> Tensor: ...
def tan(input: Tensor, *, out: Any = ...) -> Tensor: ...
def tanh(input: Tensor, *, out: Any = ...) -> Tensor: ...
def tanhshrink(input: Tensor, *, out: Any = ...) -> Tensor: ...
def tensor(
    data: Any,
    dtype: Any = ...,
    device: Any = ...,
    requires_grad: builtins.bool = ...,
    *,
    out: Any = ...,
    layout: Any = ...,
    memory_format: Any = ...,
    pin_memory: Any = ...,
) -> Tensor: ...
def tensor_split(input: Tensor, indices_or_sections: Any, dim: builtins.int = ...) -> builtins.tuple[Tensor, ...]: ...
def tensordot(input: Tensor, other: Tensor, dims: Any = ..., *, out: Any = ...) -> Tensor: ...
def threshold(input: Tensor, threshold: builtins.float, value: builtins.float, *, out: Any = ...) -> Tensor: ...
def tile(input: Tensor, *times: Any, dims: Any = ..., out: Any = ...) -> Tensor: ...
def token_mask(
    table: Tensor,
    columns_of: Tensor,
    distance: Tensor,
    bytes_: Tensor,
    offsets: Tensor,
    state: builtins.int,
    budget: builtins.int,
    *,
    out: Any = ...,
) -> Tensor: ...
def topk(
    input: Tensor, k: builtins.int, dim: builtins.int = ..., largest: builtins.bool = ..., sorted: builtins.bool = ...
) -> Found: ...
def trace(input: Tensor, *, out: Any = ...) -> Tensor: ...
def transpose(input: Tensor, dim0: builtins.int, dim1: builtins.int, *, out: Any = ...) -> Tensor: ...
def trapezoid(
    y: Tensor, x: Tensor | None = ..., dx: builtins.float = ..., dim: builtins.int = ..., *, out: Any = ...
) -> Tensor: ...
def trapz(
    y: Tensor, x: Tensor | None = ..., dx: builtins.float = ..., dim: builtins.int = ..., *, out: Any = ...
) -> Tensor: ...
def triangular_solve(
    other: Tensor,
    A: Tensor,
    upper: builtins.bool = ...,
    transpose: builtins.bool = ...,
    unitriangular: builtins.bool = ...,
) -> TriangularSolve: ...
def trigamma(input: Tensor, *, out: Any = ...) -> Tensor: ...
def tril(input: Tensor, diagonal: builtins.int = ..., *, out: Any = ...) -> Tensor: ...
def tril_indices(
    row: builtins.int,
    col: builtins.int,
    offset: builtins.int = ...,
    *,
    dtype: Any = ...,
    out: Any = ...,
    device: Any = ...,
    requires_grad: builtins.bool = ...,
    layout: Any = ...,
    memory_format: Any = ...,
    pin_memory: Any = ...,
) -> Tensor: ...
def triu(input: Tensor, diagonal: builtins.int = ..., *, out: Any = ...) -> Tensor: ...
def triu_indices(
    row: builtins.int,
    col: builtins.int,
    offset: builtins.int = ...,
    *,
    dtype: Any = ...,
    out: Any = ...,
    device: Any = ...,
    requires_grad: builtins.bool = ...,
    layout: Any = ...,
    memory_format: Any = ...,
    pin_memory: Any = ...,
) -> Tensor: ...
def true_divide(input: Tensor, other: Any, rounding_mode: builtins.str | None = ..., *, out: Any = ...) -> Tensor: ...
def trunc(input: Tensor, *, out: Any = ...) -> Tensor: ...
def unbind(input: Tensor, dim: builtins.int = ...) -> builtins.tuple[Tensor, ...]: ...
def unflatten(input: Tensor, dim: builtins.int, sizes: Sequence[builtins.int], *, out: Any = ...) -> Tensor: ...
def unfold(
    input: Tensor, dimension: builtins.int, size: builtins.int, step: builtins.int, *, out: Any = ...
) -> Tensor: ...
def unique(
    input: Tensor,
    sorted: builtins.bool = ...,
    return_inverse: builtins.bool = ...,
    return_counts: builtins.bool = ...,
    dim: builtins.int | None = ...,
) -> Any: ...
def unique_consecutive(
    input: Tensor,
    return_inverse: builtins.bool = ...,
    return_counts: builtins.bool = ...,
    dim: builtins.int | None = ...,
) -> Any: ...
def unravel_index(indices: Tensor, shape: Any) -> builtins.tuple[Tensor, ...]: ...
def unsafe_chunk(input: Tensor, chunks: builtins.int, dim: builtins.int = ...) -> builtins.tuple[Tensor, ...]: ...
def unsafe_split(input: Tensor, split_size: Any, dim: builtins.int = ...) -> builtins.tuple[Tensor, ...]: ...
def unsafe_split_with_sizes(
    input: Tensor, split_sizes: Sequence[builtins.int], dim: builtins.int = ...
) -> builtins.tuple[Tensor, ...]: ...
def unsqueeze(input: Tensor, dim: builtins.int, *, out: Any = ...) -> Tensor: ...
def vander(
    input: Tensor, N: builtins.int | None = ..., increasing: builtins.bool = ..., *, out: Any = ...
) -> Tensor: ...
def var(
    input: Tensor,
    dim: Any = ...,
    correction: builtins.int | None = ...,
    keepdim: builtins.bool = ...,
    unbiased: builtins.bool | None = ...,
    *,
    out: Any = ...,
) -> Tensor: ...
def var_mean(
    input: Tensor,
    dim: Any = ...,
    correction: builtins.int | None = ...,
    keepdim: builtins.bool = ...,
    *,
    unbiased: builtins.bool | None = ...,
) -> builtins.tuple[Tensor, Tensor]: ...
def vdot(input: Tensor, other: Tensor, *, out: Any = ...) -> Tensor: ...
def view_as_complex(input: Tensor, *, out: Any = ...) -> Tensor: ...
def view_as_real(input: Tensor, *, out: Any = ...) -> Tensor: ...
def vsplit(input: Tensor, indices_or_sections: Any) -> builtins.tuple[Tensor, ...]: ...
def vstack(tensors: Sequence[Tensor], *, out: Any = ...) -> Tensor: ...
@overload
def where(condition: Tensor) -> builtins.tuple[Tensor, ...]: ...
@overload
def where(condition: Tensor, input: Any, other: Any, *, out: Any = ...) -> Tensor: ...
def xlogy(input: Any, other: Any, *, out: Any = ...) -> Tensor: ...
def zeros(
    *sizes: Any,
    size: Any = ...,
    dtype: Any = ...,
    device: Any = ...,
    requires_grad: builtins.bool = ...,
    out: Any = ...,
    layout: Any = ...,
    memory_format: Any = ...,
    pin_memory: Any = ...,
) -> Tensor: ...
def zeros_like(
    input: Tensor,
    dtype: Any = ...,
    device: Any = ...,
    requires_grad: builtins.bool = ...,
    *,
    out: Any = ...,
    layout: Any = ...,
    memory_format: Any = ...,
    pin_memory: Any = ...,
) -> Tensor: ...

abs_: Callable[..., Tensor]
absolute_: Callable[..., Tensor]
acos_: Callable[..., Tensor]
acosh_: Callable[..., Tensor]
add_: Callable[..., Tensor]
addbmm_: Callable[..., Tensor]
addcdiv_: Callable[..., Tensor]
addcmul_: Callable[..., Tensor]
addmm_: Callable[..., Tensor]
addmv_: Callable[..., Tensor]
addr_: Callable[..., Tensor]
apply_: Callable[..., Tensor]
arccos_: Callable[..., Tensor]
arccosh_: Callable[..., Tensor]
arcsin_: Callable[..., Tensor]
arcsinh_: Callable[..., Tensor]
arctan2_: Callable[..., Tensor]
arctan_: Callable[..., Tensor]
arctanh_: Callable[..., Tensor]
as_strided_: Callable[..., Tensor]
asin_: Callable[..., Tensor]
asinh_: Callable[..., Tensor]
atan2_: Callable[..., Tensor]
atan_: Callable[..., Tensor]
atanh_: Callable[..., Tensor]
baddbmm_: Callable[..., Tensor]
bernoulli_: Callable[..., Tensor]
bitwise_and_: Callable[..., Tensor]
bitwise_left_shift_: Callable[..., Tensor]
bitwise_not_: Callable[..., Tensor]
bitwise_or_: Callable[..., Tensor]
bitwise_right_shift_: Callable[..., Tensor]
bitwise_xor_: Callable[..., Tensor]
cauchy_: Callable[..., Tensor]
ceil_: Callable[..., Tensor]
clamp_: Callable[..., Tensor]
clamp_max_: Callable[..., Tensor]
clamp_min_: Callable[..., Tensor]
clip_: Callable[..., Tensor]
conj_physical_: Callable[..., Tensor]
copy_: Callable[..., Tensor]
copysign_: Callable[..., Tensor]
cos_: Callable[..., Tensor]
cosh_: Callable[..., Tensor]
cumprod_: Callable[..., Tensor]
cumsum_: Callable[..., Tensor]
deg2rad_: Callable[..., Tensor]
detach_: Callable[..., Tensor]
digamma_: Callable[..., Tensor]
div_: Callable[..., Tensor]
divide_: Callable[..., Tensor]
elu_: Callable[..., Tensor]
eq_: Callable[..., Tensor]
erf_: Callable[..., Tensor]
erfc_: Callable[..., Tensor]
erfinv_: Callable[..., Tensor]
exp2_: Callable[..., Tensor]
exp_: Callable[..., Tensor]
expm1_: Callable[..., Tensor]
exponential_: Callable[..., Tensor]
fill_: Callable[..., Tensor]
fill_diagonal_: Callable[..., Tensor]
fix_: Callable[..., Tensor]
float_power_: Callable[..., Tensor]
floor_: Callable[..., Tensor]
floor_divide_: Callable[..., Tensor]
fmod_: Callable[..., Tensor]
frac_: Callable[..., Tensor]
gcd_: Callable[..., Tensor]
ge_: Callable[..., Tensor]
geometric_: Callable[..., Tensor]
greater_: Callable[..., Tensor]
greater_equal_: Callable[..., Tensor]
gt_: Callable[..., Tensor]
hardtanh_: Callable[..., Tensor]
heaviside_: Callable[..., Tensor]
hypot_: Callable[..., Tensor]
i0_: Callable[..., Tensor]
igamma_: Callable[..., Tensor]
igammac_: Callable[..., Tensor]
index_add_: Callable[..., Tensor]
index_copy_: Callable[..., Tensor]
index_fill_: Callable[..., Tensor]
index_put_: Callable[..., Tensor]
index_reduce_: Callable[..., Tensor]
lcm_: Callable[..., Tensor]
ldexp_: Callable[..., Tensor]
le_: Callable[..., Tensor]
leaky_relu_: Callable[..., Tensor]
lerp_: Callable[..., Tensor]
less_: Callable[..., Tensor]
less_equal_: Callable[..., Tensor]
lgamma_: Callable[..., Tensor]
log10_: Callable[..., Tensor]
log1p_: Callable[..., Tensor]
log2_: Callable[..., Tensor]
log_: Callable[..., Tensor]
log_normal_: Callable[..., Tensor]
logaddexp_: Callable[..., Tensor]
logical_and_: Callable[..., Tensor]
logical_not_: Callable[..., Tensor]
logical_or_: Callable[..., Tensor]
logical_xor_: Callable[..., Tensor]
logit_: Callable[..., Tensor]
lt_: Callable[..., Tensor]
map2_: Callable[..., Tensor]
map_: Callable[..., Tensor]
masked_fill_: Callable[..., Tensor]
masked_scatter_: Callable[..., Tensor]
mul_: Callable[..., Tensor]
multiply_: Callable[..., Tensor]
mvlgamma_: Callable[..., Tensor]
nan_to_num_: Callable[..., Tensor]
ne_: Callable[..., Tensor]
neg_: Callable[..., Tensor]
negative_: Callable[..., Tensor]
nextafter_: Callable[..., Tensor]
normal_: Callable[..., Tensor]
not_equal_: Callable[..., Tensor]
polygamma_: Callable[..., Tensor]
pow_: Callable[..., Tensor]
put_: Callable[..., Tensor]
rad2deg_: Callable[..., Tensor]
random_: Callable[..., Tensor]
reciprocal_: Callable[..., Tensor]
remainder_: Callable[..., Tensor]
renorm_: Callable[..., Tensor]
resize_: Callable[..., Tensor]
resize_as_: Callable[..., Tensor]
round_: Callable[..., Tensor]
rsqrt_: Callable[..., Tensor]
scatter_: Callable[..., Tensor]
scatter_add_: Callable[..., Tensor]
scatter_reduce_: Callable[..., Tensor]
set_: Callable[..., Tensor]
sgn_: Callable[..., Tensor]
share_memory_: Callable[..., Tensor]
sigmoid_: Callable[..., Tensor]
sign_: Callable[..., Tensor]
silu_: Callable[..., Tensor]
sin_: Callable[..., Tensor]
sinc_: Callable[..., Tensor]
sinh_: Callable[..., Tensor]
sqrt_: Callable[..., Tensor]
square_: Callable[..., Tensor]
squeeze_: Callable[..., Tensor]
sub_: Callable[..., Tensor]
subtract_: Callable[..., Tensor]
swapaxes_: Callable[..., Tensor]
swapdims_: Callable[..., Tensor]
t_: Callable[..., Tensor]
tan_: Callable[..., Tensor]
tanh_: Callable[..., Tensor]
transpose_: Callable[..., Tensor]
tril_: Callable[..., Tensor]
triu_: Callable[..., Tensor]
true_divide_: Callable[..., Tensor]
trunc_: Callable[..., Tensor]
uniform_: Callable[..., Tensor]
unsqueeze_: Callable[..., Tensor]
xlogy_: Callable[..., Tensor]
zero_: Callable[..., Tensor]
