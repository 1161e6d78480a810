"""Which module of ops has a public function or a method of Tensor. Generated: python -m scripts.op_index."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .activated_products import linear_activated as linear_activated
    from .activation import celu as celu
    from .activation import elu as elu
    from .activation import gelu as gelu
    from .activation import glu as glu
    from .activation import hardsigmoid as hardsigmoid
    from .activation import hardswish as hardswish
    from .activation import hardtanh as hardtanh
    from .activation import leaky_relu as leaky_relu
    from .activation import logit as logit
    from .activation import logsigmoid as logsigmoid
    from .activation import mish as mish
    from .activation import relu as relu
    from .activation import relu6 as relu6
    from .activation import selu as selu
    from .activation import sigmoid as sigmoid
    from .activation import silu as silu
    from .activation import silu_mul as silu_mul
    from .activation import softplus as softplus
    from .activation import softsign as softsign
    from .activation import tanhshrink as tanhshrink
    from .channel_norms import group_norm as group_norm
    from .channel_norms import local_response_norm as local_response_norm
    from .channels_last import avg_pool2d_channels_last as avg_pool2d_channels_last
    from .channels_last import conv2d_channels_last as conv2d_channels_last
    from .channels_last import expanded_depthwise_conv2d_channels_last as expanded_depthwise_conv2d_channels_last
    from .channels_last import max_pool2d_channels_last as max_pool2d_channels_last
    from .channels_last import pack_convolution_weight as pack_convolution_weight
    from .complex_numbers import adjoint as adjoint
    from .complex_numbers import angle as angle
    from .complex_numbers import conj as conj
    from .complex_numbers import conj_physical as conj_physical
    from .complex_numbers import imag as imag
    from .complex_numbers import isreal as isreal
    from .complex_numbers import polar as polar
    from .complex_numbers import real as real
    from .complex_numbers import sgn as sgn
    from .complex_numbers import view_as_complex as view_as_complex
    from .complex_numbers import view_as_real as view_as_real
    from .conv import conv1d as conv1d
    from .conv import conv2d as conv2d
    from .conv import conv3d as conv3d
    from .conv import conv_transpose1d as conv_transpose1d
    from .conv import conv_transpose2d as conv_transpose2d
    from .conv import conv_transpose3d as conv_transpose3d
    from .counting import bincount as bincount
    from .counting import histc as histc
    from .counting import histogram as histogram
    from .counting import histogramdd as histogramdd
    from .counting import isin as isin
    from .counting import unique as unique
    from .counting import unique_consecutive as unique_consecutive
    from .covariance import corrcoef as corrcoef
    from .covariance import cov as cov
    from .create import arange as arange
    from .create import as_tensor as as_tensor
    from .create import empty as empty
    from .create import empty_like as empty_like
    from .create import eye as eye
    from .create import fill as fill
    from .create import from_numpy as from_numpy
    from .create import full as full
    from .create import full_like as full_like
    from .create import ones as ones
    from .create import ones_like as ones_like
    from .create import range as range
    from .create import scalar_tensor as scalar_tensor
    from .create import tensor as tensor
    from .create import zeros as zeros
    from .create import zeros_like as zeros_like
    from .cross_entropy_loss import cross_entropy as cross_entropy
    from .diagonals import block_diag as block_diag
    from .diagonals import diag as diag
    from .diagonals import diag_embed as diag_embed
    from .diagonals import diagflat as diagflat
    from .diagonals import diagonal as diagonal
    from .diagonals import trace as trace
    from .diagonals import tril as tril
    from .diagonals import tril_indices as tril_indices
    from .diagonals import triu as triu
    from .diagonals import triu_indices as triu_indices
    from .differences import cumulative_trapezoid as cumulative_trapezoid
    from .differences import diff as diff
    from .differences import gradient as gradient
    from .differences import trapezoid as trapezoid
    from .distances import cdist as cdist
    from .distances import dist as dist
    from .distances import pdist as pdist
    from .dlpack import from_dlpack as from_dlpack
    from .dtype_limits import finfo as finfo
    from .dtype_limits import iinfo as iinfo
    from .elementwise.arithmetic import abs as abs
    from .elementwise.arithmetic import add as add
    from .elementwise.arithmetic import copysign as copysign
    from .elementwise.arithmetic import div as div
    from .elementwise.arithmetic import float_power as float_power
    from .elementwise.arithmetic import floor_divide as floor_divide
    from .elementwise.arithmetic import fmod as fmod
    from .elementwise.arithmetic import gcd as gcd
    from .elementwise.arithmetic import lcm as lcm
    from .elementwise.arithmetic import mul as mul
    from .elementwise.arithmetic import nan_to_num as nan_to_num
    from .elementwise.arithmetic import neg as neg
    from .elementwise.arithmetic import nextafter as nextafter
    from .elementwise.arithmetic import positive as positive
    from .elementwise.arithmetic import pow as pow
    from .elementwise.arithmetic import reciprocal as reciprocal
    from .elementwise.arithmetic import remainder as remainder
    from .elementwise.arithmetic import rsqrt as rsqrt
    from .elementwise.arithmetic import rsub as rsub
    from .elementwise.arithmetic import sign as sign
    from .elementwise.arithmetic import signbit as signbit
    from .elementwise.arithmetic import sqrt as sqrt
    from .elementwise.arithmetic import square as square
    from .elementwise.arithmetic import sub as sub
    from .elementwise.bessel import i0 as i0
    from .elementwise.bitwise import bitwise_and as bitwise_and
    from .elementwise.bitwise import bitwise_left_shift as bitwise_left_shift
    from .elementwise.bitwise import bitwise_not as bitwise_not
    from .elementwise.bitwise import bitwise_or as bitwise_or
    from .elementwise.bitwise import bitwise_right_shift as bitwise_right_shift
    from .elementwise.bitwise import bitwise_xor as bitwise_xor
    from .elementwise.blending import addcdiv as addcdiv
    from .elementwise.blending import addcmul as addcmul
    from .elementwise.blending import lerp as lerp
    from .elementwise.cast import clone as clone
    from .elementwise.compare import allclose as allclose
    from .elementwise.compare import eq as eq
    from .elementwise.compare import equal as equal
    from .elementwise.compare import fmax as fmax
    from .elementwise.compare import fmin as fmin
    from .elementwise.compare import ge as ge
    from .elementwise.compare import gt as gt
    from .elementwise.compare import isclose as isclose
    from .elementwise.compare import isfinite as isfinite
    from .elementwise.compare import isinf as isinf
    from .elementwise.compare import isnan as isnan
    from .elementwise.compare import isneginf as isneginf
    from .elementwise.compare import isposinf as isposinf
    from .elementwise.compare import le as le
    from .elementwise.compare import lt as lt
    from .elementwise.compare import maximum as maximum
    from .elementwise.compare import minimum as minimum
    from .elementwise.compare import ne as ne
    from .elementwise.exponential import exp as exp
    from .elementwise.exponential import exp2 as exp2
    from .elementwise.exponential import expm1 as expm1
    from .elementwise.exponential import frexp as frexp
    from .elementwise.exponential import ldexp as ldexp
    from .elementwise.exponential import log as log
    from .elementwise.exponential import log1p as log1p
    from .elementwise.exponential import log2 as log2
    from .elementwise.exponential import log10 as log10
    from .elementwise.exponential import logaddexp as logaddexp
    from .elementwise.exponential import logaddexp2 as logaddexp2
    from .elementwise.exponential import xlogy as xlogy
    from .elementwise.incomplete_gamma import igamma as igamma
    from .elementwise.incomplete_gamma import igammac as igammac
    from .elementwise.incomplete_gamma import mvlgamma as mvlgamma
    from .elementwise.limits import clamp as clamp
    from .elementwise.limits import clamp_max as clamp_max
    from .elementwise.limits import clamp_min as clamp_min
    from .elementwise.limits import clip as clip
    from .elementwise.logical import logical_and as logical_and
    from .elementwise.logical import logical_not as logical_not
    from .elementwise.logical import logical_or as logical_or
    from .elementwise.logical import logical_xor as logical_xor
    from .elementwise.rounding import ceil as ceil
    from .elementwise.rounding import floor as floor
    from .elementwise.rounding import frac as frac
    from .elementwise.rounding import round as round
    from .elementwise.rounding import trunc as trunc
    from .elementwise.select import heaviside as heaviside
    from .elementwise.select import masked_fill as masked_fill
    from .elementwise.select import where as where
    from .elementwise.special import digamma as digamma
    from .elementwise.special import erf as erf
    from .elementwise.special import erfc as erfc
    from .elementwise.special import erfinv as erfinv
    from .elementwise.special import lgamma as lgamma
    from .elementwise.special import polygamma as polygamma
    from .elementwise.special import trigamma as trigamma
    from .elementwise.trigonometry import acos as acos
    from .elementwise.trigonometry import acosh as acosh
    from .elementwise.trigonometry import asin as asin
    from .elementwise.trigonometry import asinh as asinh
    from .elementwise.trigonometry import atan as atan
    from .elementwise.trigonometry import atan2 as atan2
    from .elementwise.trigonometry import atanh as atanh
    from .elementwise.trigonometry import cos as cos
    from .elementwise.trigonometry import cosh as cosh
    from .elementwise.trigonometry import deg2rad as deg2rad
    from .elementwise.trigonometry import hypot as hypot
    from .elementwise.trigonometry import rad2deg as rad2deg
    from .elementwise.trigonometry import sin as sin
    from .elementwise.trigonometry import sinc as sinc
    from .elementwise.trigonometry import sinh as sinh
    from .elementwise.trigonometry import tan as tan
    from .elementwise.trigonometry import tanh as tanh
    from .embedding_lookup import embedding as embedding
    from .embedding_lookup import one_hot as one_hot
    from .fake_quantization import fake_quantize_per_channel_affine as fake_quantize_per_channel_affine
    from .fake_quantization import fake_quantize_per_tensor_affine as fake_quantize_per_tensor_affine
    from .fourier import bartlett_window as bartlett_window
    from .fourier import blackman_window as blackman_window
    from .fourier import hamming_window as hamming_window
    from .fourier import hann_window as hann_window
    from .fourier import istft as istft
    from .fourier import kaiser_window as kaiser_window
    from .fourier import stft as stft
    from .full_attention import attention as attention
    from .full_attention import causal_mask as causal_mask
    from .full_attention import cross_attention as cross_attention
    from .grids import cartesian_prod as cartesian_prod
    from .grids import combinations as combinations
    from .grids import meshgrid as meshgrid
    from .index import select as select
    from .indexer import indexed_places as indexed_places
    from .kv_cache import cache_write as cache_write
    from .kv_cache import cached_attention as cached_attention
    from .kv_cache import cached_self_attention as cached_self_attention
    from .linalg.determinant import det as det
    from .linalg.determinant import logdet as logdet
    from .linalg.determinant import slogdet as slogdet
    from .linalg.einsum import einsum as einsum
    from .linalg.einsum import tensordot as tensordot
    from .linalg.factor import cholesky as cholesky
    from .linalg.factor import geqrf as geqrf
    from .linalg.factor import lu_solve as lu_solve
    from .linalg.factor import lu_unpack as lu_unpack
    from .linalg.factor import orgqr as orgqr
    from .linalg.factor import ormqr as ormqr
    from .linalg.factor import qr as qr
    from .linalg.lobpcg import lobpcg as lobpcg
    from .linalg.low_rank import pca_lowrank as pca_lowrank
    from .linalg.low_rank import svd_lowrank as svd_lowrank
    from .linalg.matrix_functions import matrix_exp as matrix_exp
    from .linalg.matrix_functions import matrix_power as matrix_power
    from .linalg.norms import nuclear_norm as nuclear_norm
    from .linalg.products import addbmm as addbmm
    from .linalg.products import addmm as addmm
    from .linalg.products import addmv as addmv
    from .linalg.products import addr as addr
    from .linalg.products import baddbmm as baddbmm
    from .linalg.products import bmm as bmm
    from .linalg.products import cross as cross
    from .linalg.products import dot as dot
    from .linalg.products import inner as inner
    from .linalg.products import kron as kron
    from .linalg.products import linear as linear
    from .linalg.products import matmul as matmul
    from .linalg.products import mm as mm
    from .linalg.products import mv as mv
    from .linalg.products import outer as outer
    from .linalg.products import vander as vander
    from .linalg.products import vdot as vdot
    from .linalg.solve import cholesky_inverse as cholesky_inverse
    from .linalg.solve import cholesky_solve as cholesky_solve
    from .linalg.solve import inverse as inverse
    from .linalg.solve import pinv as pinv
    from .linalg.solve import pinverse as pinverse
    from .linalg.solve import solve as solve
    from .linalg.solve import solve_triangular as solve_triangular
    from .linalg.solve import triangular_solve as triangular_solve
    from .linalg.svd import svd as svd
    from .memory import asarray as asarray
    from .memory import empty_permuted as empty_permuted
    from .memory import empty_strided as empty_strided
    from .memory import from_file as from_file
    from .memory import frombuffer as frombuffer
    from .normalization import layer_norm as layer_norm
    from .normalization import normalize as normalize
    from .normalization import rms_norm as rms_norm
    from .norms import frobenius_norm as frobenius_norm
    from .norms import norm as norm
    from .norms import renorm as renorm
    from .order_statistics import kthvalue as kthvalue
    from .order_statistics import median as median
    from .order_statistics import mode as mode
    from .order_statistics import nanmedian as nanmedian
    from .order_statistics import nanquantile as nanquantile
    from .order_statistics import quantile as quantile
    from .padding import constant_pad_nd as constant_pad_nd
    from .padding import pad as pad
    from .pool import adaptive_avg_pool1d as adaptive_avg_pool1d
    from .pool import adaptive_avg_pool2d as adaptive_avg_pool2d
    from .pool import adaptive_avg_pool3d as adaptive_avg_pool3d
    from .pool import adaptive_max_pool1d as adaptive_max_pool1d
    from .pool import adaptive_max_pool2d as adaptive_max_pool2d
    from .pool import adaptive_max_pool3d as adaptive_max_pool3d
    from .pool import avg_pool1d as avg_pool1d
    from .pool import avg_pool2d as avg_pool2d
    from .pool import avg_pool3d as avg_pool3d
    from .pool import fractional_max_pool2d as fractional_max_pool2d
    from .pool import fractional_max_pool3d as fractional_max_pool3d
    from .pool import lp_pool1d as lp_pool1d
    from .pool import lp_pool2d as lp_pool2d
    from .pool import lp_pool3d as lp_pool3d
    from .pool import max_pool1d as max_pool1d
    from .pool import max_pool2d as max_pool2d
    from .pool import max_pool3d as max_pool3d
    from .pool import max_unpool1d as max_unpool1d
    from .pool import max_unpool2d as max_unpool2d
    from .pool import max_unpool3d as max_unpool3d
    from .products import cumprod as cumprod
    from .products import prod as prod
    from .promotion import can_cast as can_cast
    from .promotion import is_complex as is_complex
    from .promotion import is_floating_point as is_floating_point
    from .promotion import is_signed as is_signed
    from .promotion import promote_types as promote_types
    from .promotion import result_type as result_type
    from .random import Generator as Generator
    from .random import bernoulli as bernoulli
    from .random import binomial as binomial
    from .random import default_generator as default_generator
    from .random import initial_seed as initial_seed
    from .random import manual_seed as manual_seed
    from .random import multinomial as multinomial
    from .random import normal as normal
    from .random import poisson as poisson
    from .random import rand as rand
    from .random import rand_like as rand_like
    from .random import randint as randint
    from .random import randint_like as randint_like
    from .random import randn as randn
    from .random import randn_like as randn_like
    from .random import randperm as randperm
    from .random import seed as seed
    from .rectifiers import prelu as prelu
    from .rectifiers import rrelu as rrelu
    from .recurrences import linear_scan as linear_scan
    from .reduce import all as all
    from .reduce import amax as amax
    from .reduce import amin as amin
    from .reduce import aminmax as aminmax
    from .reduce import any as any
    from .reduce import argmax as argmax
    from .reduce import argmin as argmin
    from .reduce import count_nonzero as count_nonzero
    from .reduce import max as max
    from .reduce import mean as mean
    from .reduce import min as min
    from .reduce import nanmean as nanmean
    from .reduce import nansum as nansum
    from .reduce import std as std
    from .reduce import std_mean as std_mean
    from .reduce import sum as sum
    from .reduce import var as var
    from .reduce import var_mean as var_mean
    from .reordering import flip as flip
    from .reordering import fliplr as fliplr
    from .reordering import flipud as flipud
    from .reordering import roll as roll
    from .reordering import rot90 as rot90
    from .repeating import repeat as repeat
    from .repeating import repeat_interleave as repeat_interleave
    from .repeating import tile as tile
    from .resample import affine_grid as affine_grid
    from .resample import channel_shuffle as channel_shuffle
    from .resample import grid_sample as grid_sample
    from .resample import interpolate as interpolate
    from .resample import pixel_shuffle as pixel_shuffle
    from .resample import pixel_unshuffle as pixel_unshuffle
    from .rotary import rope as rope
    from .rotary import rope_table as rope_table
    from .running_statistics import batch_norm as batch_norm
    from .running_statistics import instance_norm as instance_norm
    from .sampling import SampleBuffers as SampleBuffers
    from .sampling import peak as peak
    from .sampling import sample as sample
    from .sampling import start_sample as start_sample
    from .scans import cummax as cummax
    from .scans import cummin as cummin
    from .scans import cumsum as cumsum
    from .scattering import as_strided_scatter as as_strided_scatter
    from .scattering import diagonal_scatter as diagonal_scatter
    from .scattering import index_add as index_add
    from .scattering import index_copy as index_copy
    from .scattering import index_fill as index_fill
    from .scattering import index_put as index_put
    from .scattering import index_reduce as index_reduce
    from .scattering import masked_scatter as masked_scatter
    from .scattering import put as put
    from .scattering import scatter as scatter
    from .scattering import scatter_add as scatter_add
    from .scattering import scatter_reduce as scatter_reduce
    from .scattering import segment_reduce as segment_reduce
    from .scattering import select_scatter as select_scatter
    from .scattering import slice_scatter as slice_scatter
    from .sdpa import scaled_dot_product_attention as scaled_dot_product_attention
    from .selection import argwhere as argwhere
    from .selection import gather as gather
    from .selection import index_select as index_select
    from .selection import masked_select as masked_select
    from .selection import nonzero as nonzero
    from .selection import nonzero_static as nonzero_static
    from .selection import take as take
    from .selection import take_along_dim as take_along_dim
    from .selection import unravel_index as unravel_index
    from .shrinking import hardshrink as hardshrink
    from .shrinking import softshrink as softshrink
    from .shrinking import threshold as threshold
    from .sliding_windows import unfold as unfold
    from .softmaxes import gumbel_softmax as gumbel_softmax
    from .softmaxes import log_softmax as log_softmax
    from .softmaxes import logcumsumexp as logcumsumexp
    from .softmaxes import logsumexp as logsumexp
    from .softmaxes import softmax as softmax
    from .softmaxes import softmin as softmin
    from .sorted_search import bucketize as bucketize
    from .sorted_search import searchsorted as searchsorted
    from .sorting import argsort as argsort
    from .sorting import msort as msort
    from .sorting import sort as sort
    from .sorting import topk as topk
    from .spacing import linspace as linspace
    from .spacing import logspace as logspace
    from .sparse.creation import sparse_coo_tensor as sparse_coo_tensor
    from .sparse.creation import sparse_csc_tensor as sparse_csc_tensor
    from .sparse.creation import sparse_csr_tensor as sparse_csr_tensor
    from .sparse.products import spmm as spmm
    from .splitting import chunk as chunk
    from .splitting import dsplit as dsplit
    from .splitting import hsplit as hsplit
    from .splitting import split as split
    from .splitting import split_with_sizes as split_with_sizes
    from .splitting import tensor_split as tensor_split
    from .splitting import unbind as unbind
    from .splitting import unsafe_chunk as unsafe_chunk
    from .splitting import unsafe_split as unsafe_split
    from .splitting import unsafe_split_with_sizes as unsafe_split_with_sizes
    from .splitting import vsplit as vsplit
    from .stacking import cat as cat
    from .stacking import column_stack as column_stack
    from .stacking import dstack as dstack
    from .stacking import hstack as hstack
    from .stacking import stack as stack
    from .stacking import vstack as vstack
    from .token_masks import token_mask as token_mask
    from .torch_answers import dequantize as dequantize
    from .torch_answers import get_device as get_device
    from .torch_answers import is_same_size as is_same_size
    from .torch_internals import affine_grid_generator as affine_grid_generator
    from .torch_internals import conv_tbc as conv_tbc
    from .torch_internals import convolution as convolution
    from .torch_internals import grid_sampler as grid_sampler
    from .torch_internals import native_group_norm as native_group_norm
    from .torch_internals import native_layer_norm as native_layer_norm
    from .torch_internals import norm_except_dim as norm_except_dim
    from .torch_synonyms import broadcast_shapes as broadcast_shapes
    from .torch_synonyms import chain_matmul as chain_matmul
    from .torch_synonyms import detach as detach
    from .torch_synonyms import inference_mode as inference_mode
    from .torch_synonyms import is_nonzero as is_nonzero
    from .torch_synonyms import is_tensor as is_tensor
    from .torch_synonyms import numel as numel
    from .view import as_strided as as_strided
    from .view import atleast_1d as atleast_1d
    from .view import atleast_2d as atleast_2d
    from .view import atleast_3d as atleast_3d
    from .view import broadcast_tensors as broadcast_tensors
    from .view import broadcast_to as broadcast_to
    from .view import expand as expand
    from .view import flatten as flatten
    from .view import movedim as movedim
    from .view import narrow as narrow
    from .view import narrow_copy as narrow_copy
    from .view import permute as permute
    from .view import ravel as ravel
    from .view import reshape as reshape
    from .view import squeeze as squeeze
    from .view import swapaxes as swapaxes
    from .view import t as t
    from .view import transpose as transpose
    from .view import unflatten as unflatten
    from .view import unsqueeze as unsqueeze

FUNCTION_MODULES: dict[str, str] = {
    "Generator": "random",
    "SampleBuffers": "sampling",
    "abs": "elementwise.arithmetic",
    "absolute": "elementwise.arithmetic",
    "acos": "elementwise.trigonometry",
    "acosh": "elementwise.trigonometry",
    "adaptive_avg_pool1d": "pool",
    "adaptive_avg_pool2d": "pool",
    "adaptive_avg_pool3d": "pool",
    "adaptive_max_pool1d": "pool",
    "adaptive_max_pool2d": "pool",
    "adaptive_max_pool3d": "pool",
    "add": "elementwise.arithmetic",
    "addbmm": "linalg.products",
    "addcdiv": "elementwise.blending",
    "addcmul": "elementwise.blending",
    "addmm": "linalg.products",
    "addmv": "linalg.products",
    "addr": "linalg.products",
    "adjoint": "complex_numbers",
    "affine_grid": "resample",
    "affine_grid_generator": "torch_internals",
    "all": "reduce",
    "allclose": "elementwise.compare",
    "amax": "reduce",
    "amin": "reduce",
    "aminmax": "reduce",
    "angle": "complex_numbers",
    "any": "reduce",
    "arange": "create",
    "arccos": "elementwise.trigonometry",
    "arccosh": "elementwise.trigonometry",
    "arcsin": "elementwise.trigonometry",
    "arcsinh": "elementwise.trigonometry",
    "arctan": "elementwise.trigonometry",
    "arctan2": "elementwise.trigonometry",
    "arctanh": "elementwise.trigonometry",
    "argmax": "reduce",
    "argmin": "reduce",
    "argsort": "sorting",
    "argwhere": "selection",
    "as_strided": "view",
    "as_strided_scatter": "scattering",
    "as_tensor": "create",
    "asarray": "memory",
    "asin": "elementwise.trigonometry",
    "asinh": "elementwise.trigonometry",
    "atan": "elementwise.trigonometry",
    "atan2": "elementwise.trigonometry",
    "atanh": "elementwise.trigonometry",
    "atleast_1d": "view",
    "atleast_2d": "view",
    "atleast_3d": "view",
    "attention": "full_attention",
    "avg_pool1d": "pool",
    "avg_pool2d": "pool",
    "avg_pool2d_channels_last": "channels_last",
    "avg_pool3d": "pool",
    "baddbmm": "linalg.products",
    "bartlett_window": "fourier",
    "batch_norm": "running_statistics",
    "bernoulli": "random",
    "bincount": "counting",
    "binomial": "random",
    "bitwise_and": "elementwise.bitwise",
    "bitwise_left_shift": "elementwise.bitwise",
    "bitwise_not": "elementwise.bitwise",
    "bitwise_or": "elementwise.bitwise",
    "bitwise_right_shift": "elementwise.bitwise",
    "bitwise_xor": "elementwise.bitwise",
    "blackman_window": "fourier",
    "block_diag": "diagonals",
    "bmm": "linalg.products",
    "broadcast_shapes": "torch_synonyms",
    "broadcast_tensors": "view",
    "broadcast_to": "view",
    "bucketize": "sorted_search",
    "cache_write": "kv_cache",
    "cached_attention": "kv_cache",
    "cached_self_attention": "kv_cache",
    "can_cast": "promotion",
    "cartesian_prod": "grids",
    "cat": "stacking",
    "causal_mask": "full_attention",
    "cdist": "distances",
    "cdouble": "torch_synonyms",
    "ceil": "elementwise.rounding",
    "celu": "activation",
    "cfloat": "torch_synonyms",
    "chain_matmul": "torch_synonyms",
    "channel_shuffle": "resample",
    "cholesky": "linalg.factor",
    "cholesky_inverse": "linalg.solve",
    "cholesky_solve": "linalg.solve",
    "chunk": "splitting",
    "clamp": "elementwise.limits",
    "clamp_max": "elementwise.limits",
    "clamp_min": "elementwise.limits",
    "clip": "elementwise.limits",
    "clone": "elementwise.cast",
    "column_stack": "stacking",
    "combinations": "grids",
    "complex": "complex_numbers",
    "concat": "stacking",
    "concatenate": "stacking",
    "conj": "complex_numbers",
    "conj_physical": "complex_numbers",
    "constant_pad_nd": "padding",
    "conv1d": "conv",
    "conv2d": "conv",
    "conv2d_channels_last": "channels_last",
    "conv3d": "conv",
    "conv_tbc": "torch_internals",
    "conv_transpose1d": "conv",
    "conv_transpose2d": "conv",
    "conv_transpose3d": "conv",
    "convolution": "torch_internals",
    "copysign": "elementwise.arithmetic",
    "corrcoef": "covariance",
    "cos": "elementwise.trigonometry",
    "cosh": "elementwise.trigonometry",
    "count_nonzero": "reduce",
    "cov": "covariance",
    "cross": "linalg.products",
    "cross_attention": "full_attention",
    "cross_entropy": "cross_entropy_loss",
    "cummax": "scans",
    "cummin": "scans",
    "cumprod": "products",
    "cumsum": "scans",
    "cumulative_trapezoid": "differences",
    "default_generator": "random",
    "deg2rad": "elementwise.trigonometry",
    "dequantize": "torch_answers",
    "det": "linalg.determinant",
    "detach": "torch_synonyms",
    "diag": "diagonals",
    "diag_embed": "diagonals",
    "diagflat": "diagonals",
    "diagonal": "diagonals",
    "diagonal_scatter": "scattering",
    "diff": "differences",
    "digamma": "elementwise.special",
    "dist": "distances",
    "div": "elementwise.arithmetic",
    "divide": "elementwise.arithmetic",
    "dot": "linalg.products",
    "double": "torch_synonyms",
    "dsmm": "sparse.products",
    "dsplit": "splitting",
    "dstack": "stacking",
    "dtype": "torch_synonyms",
    "e": "torch_synonyms",
    "einsum": "linalg.einsum",
    "elu": "activation",
    "embedding": "embedding_lookup",
    "empty": "create",
    "empty_like": "create",
    "empty_permuted": "memory",
    "empty_strided": "memory",
    "eq": "elementwise.compare",
    "equal": "elementwise.compare",
    "erf": "elementwise.special",
    "erfc": "elementwise.special",
    "erfinv": "elementwise.special",
    "exp": "elementwise.exponential",
    "exp2": "elementwise.exponential",
    "expand": "view",
    "expanded_depthwise_conv2d_channels_last": "channels_last",
    "expm1": "elementwise.exponential",
    "eye": "create",
    "fake_quantize_per_channel_affine": "fake_quantization",
    "fake_quantize_per_tensor_affine": "fake_quantization",
    "fill": "create",
    "finfo": "dtype_limits",
    "fix": "elementwise.rounding",
    "flatten": "view",
    "flip": "reordering",
    "fliplr": "reordering",
    "flipud": "reordering",
    "float": "torch_synonyms",
    "float_power": "elementwise.arithmetic",
    "floor": "elementwise.rounding",
    "floor_divide": "elementwise.arithmetic",
    "fmax": "elementwise.compare",
    "fmin": "elementwise.compare",
    "fmod": "elementwise.arithmetic",
    "frac": "elementwise.rounding",
    "fractional_max_pool2d": "pool",
    "fractional_max_pool3d": "pool",
    "frexp": "elementwise.exponential",
    "frobenius_norm": "norms",
    "from_dlpack": "dlpack",
    "from_file": "memory",
    "from_numpy": "create",
    "frombuffer": "memory",
    "full": "create",
    "full_like": "create",
    "gather": "selection",
    "gcd": "elementwise.arithmetic",
    "ge": "elementwise.compare",
    "gelu": "activation",
    "geqrf": "linalg.factor",
    "ger": "linalg.products",
    "get_default_dtype": "torch_synonyms",
    "get_device": "torch_answers",
    "glu": "activation",
    "gradient": "differences",
    "greater": "elementwise.compare",
    "greater_equal": "elementwise.compare",
    "grid_sample": "resample",
    "grid_sampler": "torch_internals",
    "group_norm": "channel_norms",
    "gt": "elementwise.compare",
    "gumbel_softmax": "softmaxes",
    "half": "torch_synonyms",
    "hamming_window": "fourier",
    "hann_window": "fourier",
    "hardshrink": "shrinking",
    "hardsigmoid": "activation",
    "hardswish": "activation",
    "hardtanh": "activation",
    "heaviside": "elementwise.select",
    "histc": "counting",
    "histogram": "counting",
    "histogramdd": "counting",
    "hsplit": "splitting",
    "hstack": "stacking",
    "hypot": "elementwise.trigonometry",
    "i0": "elementwise.bessel",
    "igamma": "elementwise.incomplete_gamma",
    "igammac": "elementwise.incomplete_gamma",
    "iinfo": "dtype_limits",
    "imag": "complex_numbers",
    "index_add": "scattering",
    "index_copy": "scattering",
    "index_fill": "scattering",
    "index_put": "scattering",
    "index_reduce": "scattering",
    "index_select": "selection",
    "indexed_places": "indexer",
    "inf": "torch_synonyms",
    "inference_mode": "torch_synonyms",
    "initial_seed": "random",
    "inner": "linalg.products",
    "instance_norm": "running_statistics",
    "int": "torch_synonyms",
    "interpolate": "resample",
    "inverse": "linalg.solve",
    "is_complex": "promotion",
    "is_conj": "complex_numbers",
    "is_floating_point": "promotion",
    "is_inference": "torch_answers",
    "is_neg": "complex_numbers",
    "is_nonzero": "torch_synonyms",
    "is_same_size": "torch_answers",
    "is_signed": "promotion",
    "is_tensor": "torch_synonyms",
    "isclose": "elementwise.compare",
    "isfinite": "elementwise.compare",
    "isin": "counting",
    "isinf": "elementwise.compare",
    "isnan": "elementwise.compare",
    "isneginf": "elementwise.compare",
    "isposinf": "elementwise.compare",
    "isreal": "complex_numbers",
    "istft": "fourier",
    "kaiser_window": "fourier",
    "kron": "linalg.products",
    "kthvalue": "order_statistics",
    "layer_norm": "normalization",
    "lcm": "elementwise.arithmetic",
    "ldexp": "elementwise.exponential",
    "le": "elementwise.compare",
    "leaky_relu": "activation",
    "lerp": "elementwise.blending",
    "less": "elementwise.compare",
    "less_equal": "elementwise.compare",
    "lgamma": "elementwise.special",
    "linear": "linalg.products",
    "linear_activated": "activated_products",
    "linear_scan": "recurrences",
    "linspace": "spacing",
    "lobpcg": "linalg.lobpcg",
    "local_response_norm": "channel_norms",
    "log": "elementwise.exponential",
    "log10": "elementwise.exponential",
    "log1p": "elementwise.exponential",
    "log2": "elementwise.exponential",
    "log_softmax": "softmaxes",
    "logaddexp": "elementwise.exponential",
    "logaddexp2": "elementwise.exponential",
    "logcumsumexp": "softmaxes",
    "logdet": "linalg.determinant",
    "logical_and": "elementwise.logical",
    "logical_not": "elementwise.logical",
    "logical_or": "elementwise.logical",
    "logical_xor": "elementwise.logical",
    "logit": "activation",
    "logsigmoid": "activation",
    "logspace": "spacing",
    "logsumexp": "softmaxes",
    "long": "torch_synonyms",
    "lp_pool1d": "pool",
    "lp_pool2d": "pool",
    "lp_pool3d": "pool",
    "lt": "elementwise.compare",
    "lu": "linalg.factor",
    "lu_solve": "linalg.factor",
    "lu_unpack": "linalg.factor",
    "manual_seed": "random",
    "masked_fill": "elementwise.select",
    "masked_scatter": "scattering",
    "masked_select": "selection",
    "matmul": "linalg.products",
    "matrix_exp": "linalg.matrix_functions",
    "matrix_power": "linalg.matrix_functions",
    "max": "reduce",
    "max_pool1d": "pool",
    "max_pool2d": "pool",
    "max_pool2d_channels_last": "channels_last",
    "max_pool3d": "pool",
    "max_unpool1d": "pool",
    "max_unpool2d": "pool",
    "max_unpool3d": "pool",
    "maximum": "elementwise.compare",
    "mean": "reduce",
    "median": "order_statistics",
    "meshgrid": "grids",
    "min": "reduce",
    "minimum": "elementwise.compare",
    "mish": "activation",
    "mm": "linalg.products",
    "mode": "order_statistics",
    "moveaxis": "view",
    "movedim": "view",
    "msort": "sorting",
    "mul": "elementwise.arithmetic",
    "multinomial": "random",
    "multiply": "elementwise.arithmetic",
    "mv": "linalg.products",
    "mvlgamma": "elementwise.incomplete_gamma",
    "nan": "torch_synonyms",
    "nan_to_num": "elementwise.arithmetic",
    "nanmean": "reduce",
    "nanmedian": "order_statistics",
    "nanquantile": "order_statistics",
    "nansum": "reduce",
    "narrow": "view",
    "narrow_copy": "view",
    "native_group_norm": "torch_internals",
    "native_layer_norm": "torch_internals",
    "ne": "elementwise.compare",
    "neg": "elementwise.arithmetic",
    "negative": "elementwise.arithmetic",
    "newaxis": "torch_synonyms",
    "nextafter": "elementwise.arithmetic",
    "nonzero": "selection",
    "nonzero_static": "selection",
    "norm": "norms",
    "norm_except_dim": "torch_internals",
    "normal": "random",
    "normalize": "normalization",
    "not_equal": "elementwise.compare",
    "nuclear_norm": "linalg.norms",
    "numel": "torch_synonyms",
    "one_hot": "embedding_lookup",
    "ones": "create",
    "ones_like": "create",
    "orgqr": "linalg.factor",
    "ormqr": "linalg.factor",
    "outer": "linalg.products",
    "pack_convolution_weight": "channels_last",
    "pad": "padding",
    "pca_lowrank": "linalg.low_rank",
    "pdist": "distances",
    "peak": "sampling",
    "permute": "view",
    "pi": "torch_synonyms",
    "pinv": "linalg.solve",
    "pinverse": "linalg.solve",
    "pixel_shuffle": "resample",
    "pixel_unshuffle": "resample",
    "poisson": "random",
    "polar": "complex_numbers",
    "polygamma": "elementwise.special",
    "positive": "elementwise.arithmetic",
    "pow": "elementwise.arithmetic",
    "prelu": "rectifiers",
    "prod": "products",
    "promote_types": "promotion",
    "put": "scattering",
    "qr": "linalg.factor",
    "quantile": "order_statistics",
    "rad2deg": "elementwise.trigonometry",
    "rand": "random",
    "rand_like": "random",
    "randint": "random",
    "randint_like": "random",
    "randn": "random",
    "randn_like": "random",
    "randperm": "random",
    "range": "create",
    "ravel": "view",
    "real": "complex_numbers",
    "reciprocal": "elementwise.arithmetic",
    "relu": "activation",
    "relu6": "activation",
    "remainder": "elementwise.arithmetic",
    "renorm": "norms",
    "repeat": "repeating",
    "repeat_interleave": "repeating",
    "reshape": "view",
    "resolve_conj": "complex_numbers",
    "resolve_neg": "complex_numbers",
    "result_type": "promotion",
    "rms_norm": "normalization",
    "roll": "reordering",
    "rope": "rotary",
    "rope_table": "rotary",
    "rot90": "reordering",
    "round": "elementwise.rounding",
    "row_stack": "stacking",
    "rrelu": "rectifiers",
    "rsqrt": "elementwise.arithmetic",
    "rsub": "elementwise.arithmetic",
    "sample": "sampling",
    "scalar_tensor": "create",
    "scaled_dot_product_attention": "sdpa",
    "scatter": "scattering",
    "scatter_add": "scattering",
    "scatter_reduce": "scattering",
    "searchsorted": "sorted_search",
    "seed": "random",
    "segment_reduce": "scattering",
    "select": "index",
    "select_scatter": "scattering",
    "selu": "activation",
    "sgn": "complex_numbers",
    "short": "torch_synonyms",
    "sigmoid": "activation",
    "sign": "elementwise.arithmetic",
    "signbit": "elementwise.arithmetic",
    "silu": "activation",
    "silu_mul": "activation",
    "sin": "elementwise.trigonometry",
    "sinc": "elementwise.trigonometry",
    "sinh": "elementwise.trigonometry",
    "slice_scatter": "scattering",
    "slogdet": "linalg.determinant",
    "softmax": "softmaxes",
    "softmin": "softmaxes",
    "softplus": "activation",
    "softshrink": "shrinking",
    "softsign": "activation",
    "solve": "linalg.solve",
    "solve_triangular": "linalg.solve",
    "sort": "sorting",
    "sparse_coo_tensor": "sparse.creation",
    "sparse_csc_tensor": "sparse.creation",
    "sparse_csr_tensor": "sparse.creation",
    "split": "splitting",
    "split_with_sizes": "splitting",
    "spmm": "sparse.products",
    "sqrt": "elementwise.arithmetic",
    "square": "elementwise.arithmetic",
    "squeeze": "view",
    "stack": "stacking",
    "start_sample": "sampling",
    "std": "reduce",
    "std_mean": "reduce",
    "stft": "fourier",
    "sub": "elementwise.arithmetic",
    "subtract": "elementwise.arithmetic",
    "sum": "reduce",
    "svd": "linalg.svd",
    "svd_lowrank": "linalg.low_rank",
    "swapaxes": "view",
    "swapdims": "view",
    "t": "view",
    "take": "selection",
    "take_along_dim": "selection",
    "tan": "elementwise.trigonometry",
    "tanh": "elementwise.trigonometry",
    "tanhshrink": "activation",
    "tensor": "create",
    "tensor_split": "splitting",
    "tensordot": "linalg.einsum",
    "threshold": "shrinking",
    "tile": "repeating",
    "token_mask": "token_masks",
    "topk": "sorting",
    "trace": "diagonals",
    "transpose": "view",
    "trapezoid": "differences",
    "trapz": "differences",
    "triangular_solve": "linalg.solve",
    "trigamma": "elementwise.special",
    "tril": "diagonals",
    "tril_indices": "diagonals",
    "triu": "diagonals",
    "triu_indices": "diagonals",
    "true_divide": "elementwise.arithmetic",
    "trunc": "elementwise.rounding",
    "unbind": "splitting",
    "unflatten": "view",
    "unfold": "sliding_windows",
    "unique": "counting",
    "unique_consecutive": "counting",
    "unravel_index": "selection",
    "unsafe_chunk": "splitting",
    "unsafe_split": "splitting",
    "unsafe_split_with_sizes": "splitting",
    "unsqueeze": "view",
    "vander": "linalg.products",
    "var": "reduce",
    "var_mean": "reduce",
    "vdot": "linalg.products",
    "view_as_complex": "complex_numbers",
    "view_as_real": "complex_numbers",
    "vsplit": "splitting",
    "vstack": "stacking",
    "where": "elementwise.select",
    "xlogy": "elementwise.exponential",
    "zeros": "create",
    "zeros_like": "create",
}
METHOD_MODULES: dict[str, str] = {
    "H": "complex_numbers",
    "T": "view",
    "__abs__": "operators",
    "__add__": "operators",
    "__and__": "operators",
    "__delitem__": "index",
    "__dlpack__": "dlpack",
    "__dlpack_device__": "dlpack",
    "__eq__": "operators",
    "__floordiv__": "operators",
    "__ge__": "operators",
    "__getitem__": "index",
    "__gt__": "operators",
    "__iadd__": "operators",
    "__iand__": "operators",
    "__ifloordiv__": "operators",
    "__ilshift__": "operators",
    "__imod__": "operators",
    "__imul__": "operators",
    "__invert__": "operators",
    "__ior__": "operators",
    "__ipow__": "operators",
    "__irshift__": "operators",
    "__isub__": "operators",
    "__itruediv__": "operators",
    "__ixor__": "operators",
    "__le__": "operators",
    "__lshift__": "operators",
    "__lt__": "operators",
    "__matmul__": "linalg.products",
    "__mod__": "operators",
    "__mul__": "operators",
    "__ne__": "operators",
    "__neg__": "operators",
    "__or__": "operators",
    "__pos__": "operators",
    "__pow__": "operators",
    "__radd__": "operators",
    "__rand__": "operators",
    "__reversed__": "reordering",
    "__rfloordiv__": "operators",
    "__rlshift__": "operators",
    "__rmod__": "operators",
    "__rmul__": "operators",
    "__ror__": "operators",
    "__rpow__": "operators",
    "__rrshift__": "operators",
    "__rshift__": "operators",
    "__rsub__": "operators",
    "__rtruediv__": "operators",
    "__rxor__": "operators",
    "__setitem__": "index",
    "__sub__": "operators",
    "__truediv__": "operators",
    "__xor__": "operators",
    "_accumulate": "index",
    "_coalesced_": "sparse.creation",
    "_indices": "sparse.creation",
    "_nnz": "sparse.creation",
    "_row_major": "elementwise.cast",
    "_values": "sparse.creation",
    "abs": "elementwise.arithmetic",
    "abs_": "elementwise.arithmetic",
    "absolute": "elementwise.arithmetic",
    "absolute_": "elementwise.arithmetic",
    "acos": "elementwise.trigonometry",
    "acos_": "elementwise.trigonometry",
    "acosh": "elementwise.trigonometry",
    "acosh_": "elementwise.trigonometry",
    "add": "elementwise.arithmetic",
    "add_": "elementwise.arithmetic",
    "addbmm": "linalg.products",
    "addbmm_": "linalg.products",
    "addcdiv": "elementwise.blending",
    "addcdiv_": "elementwise.blending",
    "addcmul": "elementwise.blending",
    "addcmul_": "elementwise.blending",
    "addmm": "linalg.products",
    "addmm_": "linalg.products",
    "addmv": "linalg.products",
    "addmv_": "linalg.products",
    "addr": "linalg.products",
    "addr_": "linalg.products",
    "adjoint": "complex_numbers",
    "all": "reduce",
    "allclose": "elementwise.compare",
    "amax": "reduce",
    "amin": "reduce",
    "aminmax": "reduce",
    "angle": "complex_numbers",
    "any": "reduce",
    "apply_": "torch_answers",
    "arccos": "elementwise.trigonometry",
    "arccos_": "elementwise.trigonometry",
    "arccosh": "elementwise.trigonometry",
    "arccosh_": "elementwise.trigonometry",
    "arcsin": "elementwise.trigonometry",
    "arcsin_": "elementwise.trigonometry",
    "arcsinh": "elementwise.trigonometry",
    "arcsinh_": "elementwise.trigonometry",
    "arctan": "elementwise.trigonometry",
    "arctan2": "elementwise.trigonometry",
    "arctan2_": "elementwise.trigonometry",
    "arctan_": "elementwise.trigonometry",
    "arctanh": "elementwise.trigonometry",
    "arctanh_": "elementwise.trigonometry",
    "argmax": "reduce",
    "argmin": "reduce",
    "argsort": "sorting",
    "argwhere": "selection",
    "as_strided": "view",
    "as_strided_": "view",
    "as_strided_scatter": "scattering",
    "as_subclass": "torch_answers",
    "asin": "elementwise.trigonometry",
    "asin_": "elementwise.trigonometry",
    "asinh": "elementwise.trigonometry",
    "asinh_": "elementwise.trigonometry",
    "atan": "elementwise.trigonometry",
    "atan2": "elementwise.trigonometry",
    "atan2_": "elementwise.trigonometry",
    "atan_": "elementwise.trigonometry",
    "atanh": "elementwise.trigonometry",
    "atanh_": "elementwise.trigonometry",
    "baddbmm": "linalg.products",
    "baddbmm_": "linalg.products",
    "bernoulli": "random",
    "bernoulli_": "random",
    "bfloat16": "elementwise.cast",
    "bincount": "counting",
    "bitwise_and": "elementwise.bitwise",
    "bitwise_and_": "elementwise.bitwise",
    "bitwise_left_shift": "elementwise.bitwise",
    "bitwise_left_shift_": "elementwise.bitwise",
    "bitwise_not": "elementwise.bitwise",
    "bitwise_not_": "elementwise.bitwise",
    "bitwise_or": "elementwise.bitwise",
    "bitwise_or_": "elementwise.bitwise",
    "bitwise_right_shift": "elementwise.bitwise",
    "bitwise_right_shift_": "elementwise.bitwise",
    "bitwise_xor": "elementwise.bitwise",
    "bitwise_xor_": "elementwise.bitwise",
    "bmm": "linalg.products",
    "bool": "elementwise.cast",
    "broadcast_to": "view",
    "byte": "elementwise.cast",
    "cauchy_": "random",
    "ccol_indices": "sparse.creation",
    "cdouble": "elementwise.cast",
    "ceil": "elementwise.rounding",
    "ceil_": "elementwise.rounding",
    "cfloat": "elementwise.cast",
    "char": "elementwise.cast",
    "cholesky": "linalg.factor",
    "cholesky_inverse": "linalg.solve",
    "cholesky_solve": "linalg.solve",
    "chunk": "splitting",
    "clamp": "elementwise.limits",
    "clamp_": "elementwise.limits",
    "clamp_max": "elementwise.limits",
    "clamp_max_": "elementwise.limits",
    "clamp_min": "elementwise.limits",
    "clamp_min_": "elementwise.limits",
    "clip": "elementwise.limits",
    "clip_": "elementwise.limits",
    "clone": "elementwise.cast",
    "coalesce": "sparse.creation",
    "col_indices": "sparse.creation",
    "conj": "complex_numbers",
    "conj_physical": "complex_numbers",
    "conj_physical_": "complex_numbers",
    "contiguous": "elementwise.cast",
    "copy_": "index",
    "copysign": "elementwise.arithmetic",
    "copysign_": "elementwise.arithmetic",
    "corrcoef": "covariance",
    "cos": "elementwise.trigonometry",
    "cos_": "elementwise.trigonometry",
    "cosh": "elementwise.trigonometry",
    "cosh_": "elementwise.trigonometry",
    "count_nonzero": "reduce",
    "cov": "covariance",
    "cpu": "elementwise.cast",
    "cross": "linalg.products",
    "crow_indices": "sparse.creation",
    "cuda": "elementwise.cast",
    "cummax": "scans",
    "cummin": "scans",
    "cumprod": "products",
    "cumprod_": "products",
    "cumsum": "scans",
    "cumsum_": "scans",
    "deg2rad": "elementwise.trigonometry",
    "deg2rad_": "elementwise.trigonometry",
    "dense_dim": "sparse.creation",
    "dequantize": "torch_answers",
    "det": "linalg.determinant",
    "detach_": "torch_synonyms",
    "diag": "diagonals",
    "diag_embed": "diagonals",
    "diagflat": "diagonals",
    "diagonal": "diagonals",
    "diagonal_scatter": "scattering",
    "diff": "differences",
    "digamma": "elementwise.special",
    "digamma_": "elementwise.special",
    "dim_order": "torch_answers",
    "dist": "distances",
    "div": "elementwise.arithmetic",
    "div_": "elementwise.arithmetic",
    "divide": "elementwise.arithmetic",
    "divide_": "elementwise.arithmetic",
    "dot": "linalg.products",
    "double": "elementwise.cast",
    "dsplit": "splitting",
    "elu": "activation",
    "elu_": "activation",
    "eq": "elementwise.compare",
    "eq_": "elementwise.compare",
    "equal": "elementwise.compare",
    "erf": "elementwise.special",
    "erf_": "elementwise.special",
    "erfc": "elementwise.special",
    "erfc_": "elementwise.special",
    "erfinv": "elementwise.special",
    "erfinv_": "elementwise.special",
    "exp": "elementwise.exponential",
    "exp2": "elementwise.exponential",
    "exp2_": "elementwise.exponential",
    "exp_": "elementwise.exponential",
    "expand": "view",
    "expand_as": "view",
    "expm1": "elementwise.exponential",
    "expm1_": "elementwise.exponential",
    "exponential_": "random",
    "fill_": "index",
    "fill_diagonal_": "diagonals",
    "fix": "elementwise.rounding",
    "fix_": "elementwise.rounding",
    "flatten": "view",
    "flip": "reordering",
    "fliplr": "reordering",
    "flipud": "reordering",
    "float": "elementwise.cast",
    "float_power": "elementwise.arithmetic",
    "float_power_": "elementwise.arithmetic",
    "floor": "elementwise.rounding",
    "floor_": "elementwise.rounding",
    "floor_divide": "elementwise.arithmetic",
    "floor_divide_": "elementwise.arithmetic",
    "fmax": "elementwise.compare",
    "fmin": "elementwise.compare",
    "fmod": "elementwise.arithmetic",
    "fmod_": "elementwise.arithmetic",
    "frac": "elementwise.rounding",
    "frac_": "elementwise.rounding",
    "frexp": "elementwise.exponential",
    "gather": "selection",
    "gcd": "elementwise.arithmetic",
    "gcd_": "elementwise.arithmetic",
    "ge": "elementwise.compare",
    "ge_": "elementwise.compare",
    "gelu": "activation",
    "geometric_": "random",
    "geqrf": "linalg.factor",
    "ger": "linalg.products",
    "get_device": "torch_answers",
    "grad_fn": "tensor_graph",
    "greater": "elementwise.compare",
    "greater_": "elementwise.compare",
    "greater_equal": "elementwise.compare",
    "greater_equal_": "elementwise.compare",
    "gt": "elementwise.compare",
    "gt_": "elementwise.compare",
    "half": "elementwise.cast",
    "hardshrink": "shrinking",
    "hardtanh": "activation",
    "hardtanh_": "activation",
    "heaviside": "elementwise.select",
    "heaviside_": "elementwise.select",
    "histc": "counting",
    "histogram": "counting",
    "hsplit": "splitting",
    "hypot": "elementwise.trigonometry",
    "hypot_": "elementwise.trigonometry",
    "i0": "elementwise.bessel",
    "i0_": "elementwise.bessel",
    "igamma": "elementwise.incomplete_gamma",
    "igamma_": "elementwise.incomplete_gamma",
    "igammac": "elementwise.incomplete_gamma",
    "igammac_": "elementwise.incomplete_gamma",
    "imag": "complex_numbers",
    "index_add": "scattering",
    "index_add_": "scattering",
    "index_copy": "scattering",
    "index_copy_": "scattering",
    "index_fill": "scattering",
    "index_fill_": "scattering",
    "index_put": "scattering",
    "index_put_": "scattering",
    "index_reduce": "scattering",
    "index_reduce_": "scattering",
    "index_select": "selection",
    "indices": "sparse.creation",
    "inner": "linalg.products",
    "int": "elementwise.cast",
    "inverse": "linalg.solve",
    "is_coalesced": "sparse.creation",
    "is_complex": "promotion",
    "is_conj": "complex_numbers",
    "is_cpu": "torch_answers",
    "is_cuda": "torch_answers",
    "is_floating_point": "promotion",
    "is_inference": "torch_answers",
    "is_meta": "torch_answers",
    "is_mps": "torch_answers",
    "is_neg": "complex_numbers",
    "is_nested": "torch_answers",
    "is_nonzero": "torch_synonyms",
    "is_pinned": "torch_answers",
    "is_quantized": "torch_answers",
    "is_same_size": "torch_answers",
    "is_set_to": "memory",
    "is_shared": "torch_answers",
    "is_signed": "promotion",
    "is_sparse": "sparse.creation",
    "is_sparse_csr": "sparse.creation",
    "isclose": "elementwise.compare",
    "isfinite": "elementwise.compare",
    "isinf": "elementwise.compare",
    "isnan": "elementwise.compare",
    "isneginf": "elementwise.compare",
    "isposinf": "elementwise.compare",
    "isreal": "complex_numbers",
    "istft": "fourier",
    "itemsize": "torch_answers",
    "kron": "linalg.products",
    "kthvalue": "order_statistics",
    "layout": "torch_answers",
    "lcm": "elementwise.arithmetic",
    "lcm_": "elementwise.arithmetic",
    "ldexp": "elementwise.exponential",
    "ldexp_": "elementwise.exponential",
    "le": "elementwise.compare",
    "le_": "elementwise.compare",
    "leaky_relu": "activation",
    "leaky_relu_": "activation",
    "lerp": "elementwise.blending",
    "lerp_": "elementwise.blending",
    "less": "elementwise.compare",
    "less_": "elementwise.compare",
    "less_equal": "elementwise.compare",
    "less_equal_": "elementwise.compare",
    "lgamma": "elementwise.special",
    "lgamma_": "elementwise.special",
    "log": "elementwise.exponential",
    "log10": "elementwise.exponential",
    "log10_": "elementwise.exponential",
    "log1p": "elementwise.exponential",
    "log1p_": "elementwise.exponential",
    "log2": "elementwise.exponential",
    "log2_": "elementwise.exponential",
    "log_": "elementwise.exponential",
    "log_normal_": "random",
    "log_softmax": "softmaxes",
    "logaddexp": "elementwise.exponential",
    "logaddexp2": "elementwise.exponential",
    "logaddexp_": "elementwise.exponential",
    "logcumsumexp": "softmaxes",
    "logdet": "linalg.determinant",
    "logical_and": "elementwise.logical",
    "logical_and_": "elementwise.logical",
    "logical_not": "elementwise.logical",
    "logical_not_": "elementwise.logical",
    "logical_or": "elementwise.logical",
    "logical_or_": "elementwise.logical",
    "logical_xor": "elementwise.logical",
    "logical_xor_": "elementwise.logical",
    "logit": "activation",
    "logit_": "activation",
    "logsumexp": "softmaxes",
    "long": "elementwise.cast",
    "lt": "elementwise.compare",
    "lt_": "elementwise.compare",
    "lu": "linalg.factor",
    "lu_solve": "linalg.factor",
    "mH": "complex_numbers",
    "mT": "view",
    "map2_": "torch_answers",
    "map_": "torch_answers",
    "masked_fill": "elementwise.select",
    "masked_fill_": "elementwise.select",
    "masked_scatter": "scattering",
    "masked_scatter_": "scattering",
    "masked_select": "selection",
    "matmul": "linalg.products",
    "matrix_exp": "linalg.matrix_functions",
    "matrix_power": "linalg.matrix_functions",
    "max": "reduce",
    "maximum": "elementwise.compare",
    "mean": "reduce",
    "median": "order_statistics",
    "min": "reduce",
    "minimum": "elementwise.compare",
    "mish": "activation",
    "mm": "linalg.products",
    "mode": "order_statistics",
    "moveaxis": "view",
    "movedim": "view",
    "msort": "sorting",
    "mul": "elementwise.arithmetic",
    "mul_": "elementwise.arithmetic",
    "multinomial": "random",
    "multiply": "elementwise.arithmetic",
    "multiply_": "elementwise.arithmetic",
    "mv": "linalg.products",
    "mvlgamma": "elementwise.incomplete_gamma",
    "mvlgamma_": "elementwise.incomplete_gamma",
    "name": "torch_answers",
    "nan_to_num": "elementwise.arithmetic",
    "nan_to_num_": "elementwise.arithmetic",
    "nanmean": "reduce",
    "nanmedian": "order_statistics",
    "nanquantile": "order_statistics",
    "nansum": "reduce",
    "narrow": "view",
    "narrow_copy": "view",
    "ndimension": "torch_synonyms",
    "ne": "elementwise.compare",
    "ne_": "elementwise.compare",
    "neg": "elementwise.arithmetic",
    "neg_": "elementwise.arithmetic",
    "negative": "elementwise.arithmetic",
    "negative_": "elementwise.arithmetic",
    "nelement": "torch_synonyms",
    "new": "memory",
    "new_empty": "create",
    "new_empty_strided": "memory",
    "new_full": "create",
    "new_ones": "create",
    "new_tensor": "create",
    "new_zeros": "create",
    "nextafter": "elementwise.arithmetic",
    "nextafter_": "elementwise.arithmetic",
    "nonzero": "selection",
    "nonzero_static": "selection",
    "norm": "norms",
    "normal_": "random",
    "not_equal": "elementwise.compare",
    "not_equal_": "elementwise.compare",
    "orgqr": "linalg.factor",
    "ormqr": "linalg.factor",
    "outer": "linalg.products",
    "output_nr": "torch_answers",
    "permute": "view",
    "pin_memory": "torch_answers",
    "pinv": "linalg.solve",
    "pinverse": "linalg.solve",
    "polygamma": "elementwise.special",
    "polygamma_": "elementwise.special",
    "positive": "elementwise.arithmetic",
    "pow": "elementwise.arithmetic",
    "pow_": "elementwise.arithmetic",
    "prod": "products",
    "put": "scattering",
    "put_": "scattering",
    "qr": "linalg.factor",
    "quantile": "order_statistics",
    "rad2deg": "elementwise.trigonometry",
    "rad2deg_": "elementwise.trigonometry",
    "random_": "random_integers",
    "ravel": "view",
    "real": "complex_numbers",
    "reciprocal": "elementwise.arithmetic",
    "reciprocal_": "elementwise.arithmetic",
    "record_stream": "memory",
    "register_hook": "tensor_graph",
    "register_post_accumulate_grad_hook": "tensor_graph",
    "relu": "activation",
    "relu_": "activation",
    "remainder": "elementwise.arithmetic",
    "remainder_": "elementwise.arithmetic",
    "renorm": "norms",
    "renorm_": "norms",
    "repeat": "repeating",
    "repeat_interleave": "repeating",
    "reshape": "view",
    "reshape_as": "view",
    "resize_": "memory",
    "resize_as_": "memory",
    "resolve_conj": "complex_numbers",
    "resolve_neg": "complex_numbers",
    "retain_grad": "tensor_graph",
    "retains_grad": "tensor_graph",
    "roll": "reordering",
    "rot90": "reordering",
    "round": "elementwise.rounding",
    "round_": "elementwise.rounding",
    "row_indices": "sparse.creation",
    "rsqrt": "elementwise.arithmetic",
    "rsqrt_": "elementwise.arithmetic",
    "scatter": "scattering",
    "scatter_": "scattering",
    "scatter_add": "scattering",
    "scatter_add_": "scattering",
    "scatter_reduce": "scattering",
    "scatter_reduce_": "scattering",
    "select": "index",
    "select_scatter": "scattering",
    "set_": "memory",
    "sgn": "complex_numbers",
    "sgn_": "complex_numbers",
    "share_memory_": "torch_answers",
    "short": "elementwise.cast",
    "sigmoid": "activation",
    "sigmoid_": "activation",
    "sign": "elementwise.arithmetic",
    "sign_": "elementwise.arithmetic",
    "signbit": "elementwise.arithmetic",
    "silu": "activation",
    "silu_": "activation",
    "sin": "elementwise.trigonometry",
    "sin_": "elementwise.trigonometry",
    "sinc": "elementwise.trigonometry",
    "sinc_": "elementwise.trigonometry",
    "sinh": "elementwise.trigonometry",
    "sinh_": "elementwise.trigonometry",
    "slice_scatter": "scattering",
    "slogdet": "linalg.determinant",
    "softmax": "softmaxes",
    "softplus": "activation",
    "sort": "sorting",
    "sparse_dim": "sparse.creation",
    "sparse_mask": "sparse.creation",
    "split": "splitting",
    "split_with_sizes": "splitting",
    "sqrt": "elementwise.arithmetic",
    "sqrt_": "elementwise.arithmetic",
    "square": "elementwise.arithmetic",
    "square_": "elementwise.arithmetic",
    "squeeze": "view",
    "squeeze_": "view",
    "std": "reduce",
    "stft": "fourier",
    "storage": "memory",
    "storage_offset": "memory",
    "sub": "elementwise.arithmetic",
    "sub_": "elementwise.arithmetic",
    "subtract": "elementwise.arithmetic",
    "subtract_": "elementwise.arithmetic",
    "sum": "reduce",
    "sum_to_size": "reduce",
    "svd": "linalg.svd",
    "swapaxes": "view",
    "swapaxes_": "view",
    "swapdims": "view",
    "swapdims_": "view",
    "t": "view",
    "t_": "view",
    "take": "selection",
    "take_along_dim": "selection",
    "tan": "elementwise.trigonometry",
    "tan_": "elementwise.trigonometry",
    "tanh": "elementwise.trigonometry",
    "tanh_": "elementwise.trigonometry",
    "tensor_split": "splitting",
    "tile": "repeating",
    "to": "elementwise.cast",
    "to_dense": "sparse.creation",
    "to_sparse": "sparse.creation",
    "to_sparse_coo": "sparse.creation",
    "to_sparse_csc": "sparse.creation",
    "to_sparse_csr": "sparse.creation",
    "topk": "sorting",
    "trace": "diagonals",
    "transpose": "view",
    "transpose_": "view",
    "triangular_solve": "linalg.solve",
    "trigamma": "elementwise.special",
    "tril": "diagonals",
    "tril_": "diagonals",
    "triu": "diagonals",
    "triu_": "diagonals",
    "true_divide": "elementwise.arithmetic",
    "true_divide_": "elementwise.arithmetic",
    "trunc": "elementwise.rounding",
    "trunc_": "elementwise.rounding",
    "type": "elementwise.cast",
    "type_as": "promotion",
    "unbind": "splitting",
    "unflatten": "view",
    "unfold": "sliding_windows",
    "uniform_": "random",
    "unique": "counting",
    "unique_consecutive": "counting",
    "unsafe_chunk": "splitting",
    "unsafe_split": "splitting",
    "unsafe_split_with_sizes": "splitting",
    "unsqueeze": "view",
    "unsqueeze_": "view",
    "untyped_storage": "memory",
    "values": "sparse.creation",
    "var": "reduce",
    "vdot": "linalg.products",
    "view": "view",
    "view_as": "view",
    "vsplit": "splitting",
    "where": "elementwise.select",
    "xlogy": "elementwise.exponential",
    "xlogy_": "elementwise.exponential",
    "zero_": "index",
}
OP_MODULES: dict[str, str] = {
    "_above": "shrinking",
    "_add_windows": "sliding_windows",
    "_advance_states": "recurrences",
    "_airy": "elementwise.airy",
    "_as_strided": "view",
    "_attention": "full_attention",
    "_batch_norm": "running_statistics",
    "_bessel": "elementwise.bessel",
    "_bessel_second_kind": "elementwise.bessel_second_kind",
    "_cache_rows": "kv_cache",
    "_cached_attention": "kv_cache",
    "_cached_self_attention": "kv_cache",
    "_cat": "stacking",
    "_channel_norm": "channel_norms",
    "_cholesky_solve": "linalg.solve",
    "_chosen_eigenpairs": "linalg.lobpcg",
    "_clamp": "elementwise.limits",
    "_convolution": "conv",
    "_convolution_channels_last": "channels_last",
    "_convolution_transpose": "conv",
    "_count_nonzero": "norms",
    "_cross": "linalg.products",
    "_cross_attention": "full_attention",
    "_cross_entropy": "cross_entropy_loss",
    "_cross_entropy_planes": "cross_entropy_loss",
    "_cross_entropy_rows": "cross_entropy_loss",
    "_ctc": "ctc",
    "_ctc_gradient": "ctc",
    "_cylinder_bessel": "elementwise.bessel",
    "_dft": "fourier",
    "_diagonal": "diagonals",
    "_direction_of_det": "linalg.determinant",
    "_distances": "distances",
    "_eig": "linalg.eigen",
    "_eigh": "linalg.eigen",
    "_embedding": "embedding_lookup",
    "_embedding_bag": "embedding_lookup",
    "_erfcx": "elementwise.special",
    "_euclidean": "norms",
    "_exchanges_of_lu": "linalg.factor",
    "_expand": "view",
    "_expanded_depthwise_channels_last": "channels_last",
    "_exponent": "elementwise.exponential",
    "_fake_quantized": "fake_quantization",
    "_first_indices": "sorting",
    "_flip": "reordering",
    "_further_columns": "linalg.svd",
    "_grid_sample": "resample",
    "_gru_cell": "recurrent",
    "_hard_shrunk": "shrinking",
    "_imag": "complex_numbers",
    "_index_add": "scattering",
    "_index_select": "selection",
    "_index_view": "index",
    "_indexed_places": "indexer",
    "_int8_attention": "int8_attention",
    "_int8_linear": "int8_product",
    "_irdft": "fourier",
    "_lerp_of_alike": "elementwise.blending",
    "_linear": "linalg.products",
    "_linear_activated": "activated_products",
    "_log_abs_det": "linalg.determinant",
    "_log_mel": "spectrum",
    "_logit": "activation",
    "_lstm_cell": "recurrent",
    "_lu_square": "linalg.factor",
    "_mantissa": "elementwise.exponential",
    "_masked_attention": "full_attention",
    "_max_of_windows": "pool",
    "_mean": "reduce",
    "_mean_of_windows": "pool",
    "_median_of_all": "order_statistics",
    "_modified_bessel_second_kind": "elementwise.bessel_second_kind",
    "_move": "elementwise.cast",
    "_multiply_along": "fourier",
    "_narrow": "view",
    "_ndtri": "elementwise.special",
    "_nll_loss": "cross_entropy_loss",
    "_normalized_heads": "normalization",
    "_offset_rms_norm": "normalization",
    "_one_hot": "embedding_lookup",
    "_p_norm": "norms",
    "_pack_keys_int8": "int8_attention",
    "_pack_values_int8": "int8_attention",
    "_packed_convolution_weight": "channels_last",
    "_pad": "padding",
    "_pad_with_own": "padding",
    "_peak": "sampling",
    "_permute": "view",
    "_pinv": "linalg.solve",
    "_place_view": "view",
    "_places_of_max": "pool",
    "_polygamma": "elementwise.special",
    "_pool_channels_last": "channels_last",
    "_power_spectrum": "spectrum",
    "_prelu": "rectifiers",
    "_prod": "products",
    "_products_of_rows": "sparse.products",
    "_put": "index",
    "_qr": "linalg.factor",
    "_rdft": "fourier",
    "_rdft_whole": "fourier",
    "_real": "complex_numbers",
    "_resampled": "resample",
    "_resampled_bytes": "resample",
    "_reshape": "view",
    "_rms_norm": "normalization",
    "_roll": "reordering",
    "_root": "reduce",
    "_rope": "rotary",
    "_rows_for_sparse_gradient": "sparse.table_rows",
    "_running_places": "scans",
    "_sample": "sampling",
    "_scaled_bessel": "elementwise.bessel",
    "_scatter_extreme": "scattering",
    "_sign_and_log_of_det": "linalg.determinant",
    "_soft_shrunk": "shrinking",
    "_solve": "linalg.solve",
    "_solve_triangular": "linalg.solve",
    "_sparse_product": "sparse.products",
    "_spread": "view",
    "_stack": "stacking",
    "_strided": "view",
    "_svd": "linalg.svd",
    "_svdvals": "linalg.svd",
    "_take": "index",
    "_take_back": "index",
    "_token_mask": "token_masks",
    "_unbounded": "reduce",
    "_variance": "reduce",
    "_view_as_complex": "complex_numbers",
    "_view_as_real": "complex_numbers",
    "_weighted_cross_entropy": "cross_entropy_loss",
    "_where": "elementwise.select",
    "_windows": "sliding_windows",
    "_without_nan": "reduce",
    "_without_slope": "resample",
    "_write": "index",
    "_zeta": "elementwise.special",
    "abs": "elementwise.arithmetic",
    "acos": "elementwise.trigonometry",
    "acosh": "elementwise.trigonometry",
    "adafactor_step": "optimizer_steps",
    "adamw_step": "optimizer_steps",
    "add": "elementwise.arithmetic",
    "all": "reduce",
    "amax": "reduce",
    "amin": "reduce",
    "angle": "complex_numbers",
    "any": "reduce",
    "argmax": "reduce",
    "argmin": "reduce",
    "argsort": "sorting",
    "asin": "elementwise.trigonometry",
    "asinh": "elementwise.trigonometry",
    "atan": "elementwise.trigonometry",
    "atan2": "elementwise.trigonometry",
    "atanh": "elementwise.trigonometry",
    "attention_backward": "full_attention",
    "bitwise_and": "elementwise.bitwise",
    "bitwise_left_shift": "elementwise.bitwise",
    "bitwise_not": "elementwise.bitwise",
    "bitwise_or": "elementwise.bitwise",
    "bitwise_right_shift": "elementwise.bitwise",
    "bitwise_xor": "elementwise.bitwise",
    "cache_write": "kv_cache",
    "cast": "elementwise.cast",
    "ceil": "elementwise.rounding",
    "celu": "activation",
    "channel_norm_backward": "channel_norms",
    "cholesky": "linalg.factor",
    "clone": "elementwise.cast",
    "computed_elements": "element_updates",
    "conj_physical": "complex_numbers",
    "contiguous": "elementwise.cast",
    "convolution_backward": "conv",
    "convolution_transpose_backward": "conv",
    "copysign": "elementwise.arithmetic",
    "cos": "elementwise.trigonometry",
    "cosh": "elementwise.trigonometry",
    "cross_entropy_backward": "cross_entropy_loss",
    "cross_entropy_planes_backward": "cross_entropy_loss",
    "cross_entropy_rows_backward": "cross_entropy_loss",
    "cumprod": "products",
    "cumsum": "scans",
    "deg2rad": "elementwise.trigonometry",
    "det": "linalg.determinant",
    "digamma": "elementwise.special",
    "distances_backward": "distances",
    "div": "elementwise.arithmetic",
    "elu": "activation",
    "embedding_backward": "embedding_lookup",
    "eq": "elementwise.compare",
    "erf": "elementwise.special",
    "erfc": "elementwise.special",
    "erfinv": "elementwise.special",
    "exp": "elementwise.exponential",
    "exp2": "elementwise.exponential",
    "expm1": "elementwise.exponential",
    "floor": "elementwise.rounding",
    "floor_divide": "elementwise.arithmetic",
    "fmax": "elementwise.compare",
    "fmin": "elementwise.compare",
    "fmod": "elementwise.arithmetic",
    "found_extreme": "reduce",
    "frac": "elementwise.rounding",
    "gather": "selection",
    "gcd": "elementwise.arithmetic",
    "ge": "elementwise.compare",
    "gelu": "activation",
    "gelu_backward": "activation",
    "glu": "activation",
    "grid_sample_backward": "resample",
    "gru_cell_backward": "recurrent",
    "gru_steps": "recurrent",
    "gru_steps_backward": "recurrent",
    "gt": "elementwise.compare",
    "hardsigmoid": "activation",
    "hardswish": "activation",
    "hardtanh": "activation",
    "hypot": "elementwise.trigonometry",
    "igamma": "elementwise.incomplete_gamma",
    "igammac": "elementwise.incomplete_gamma",
    "inverse": "linalg.solve",
    "isfinite": "elementwise.compare",
    "isinf": "elementwise.compare",
    "isnan": "elementwise.compare",
    "isneginf": "elementwise.compare",
    "isposinf": "elementwise.compare",
    "layer_norm": "normalization",
    "layer_norm_backward": "normalization",
    "lcm": "elementwise.arithmetic",
    "ldexp": "elementwise.exponential",
    "le": "elementwise.compare",
    "leaky_relu": "activation",
    "lgamma": "elementwise.special",
    "linear_scan": "recurrences",
    "log": "elementwise.exponential",
    "log10": "elementwise.exponential",
    "log1p": "elementwise.exponential",
    "log2": "elementwise.exponential",
    "log_softmax": "softmaxes",
    "log_softmax_backward": "softmaxes",
    "logaddexp": "elementwise.exponential",
    "logcumsumexp": "softmaxes",
    "logical_and": "elementwise.logical",
    "logical_not": "elementwise.logical",
    "logical_or": "elementwise.logical",
    "logical_xor": "elementwise.logical",
    "logsigmoid": "activation",
    "logsumexp": "softmaxes",
    "lstm_cell_backward": "recurrent",
    "lstm_steps": "recurrent",
    "lstm_steps_backward": "recurrent",
    "lt": "elementwise.compare",
    "masked_attention_backward": "full_attention",
    "masked_fill": "elementwise.select",
    "matmul": "linalg.products",
    "matrix_exp": "linalg.matrix_functions",
    "max_of_windows_backward": "pool",
    "maximum": "elementwise.compare",
    "mean": "reduce",
    "mean_of_windows_backward": "pool",
    "minimum": "elementwise.compare",
    "mish": "activation",
    "mul": "elementwise.arithmetic",
    "muon_step": "optimizer_steps",
    "nan_to_num": "elementwise.arithmetic",
    "ne": "elementwise.compare",
    "neg": "elementwise.arithmetic",
    "nextafter": "elementwise.arithmetic",
    "nll_loss_backward": "cross_entropy_loss",
    "optimizer_steps": "optimizer_steps",
    "pow": "elementwise.arithmetic",
    "rad2deg": "elementwise.trigonometry",
    "reciprocal": "elementwise.arithmetic",
    "relu": "activation",
    "remainder": "elementwise.arithmetic",
    "rms_norm_backward": "normalization",
    "rnn_steps": "recurrent",
    "rnn_steps_backward": "recurrent",
    "round": "elementwise.rounding",
    "rsqrt": "elementwise.arithmetic",
    "scale_all": "optimizer_steps",
    "scatter": "scattering",
    "scatter_add": "scattering",
    "sgn": "complex_numbers",
    "sigmoid": "activation",
    "sign": "elementwise.arithmetic",
    "signbit": "elementwise.arithmetic",
    "silu": "activation",
    "silu_backward": "activation",
    "silu_mul": "activation",
    "silu_mul_backward": "activation",
    "sin": "elementwise.trigonometry",
    "sinc": "elementwise.trigonometry",
    "sinh": "elementwise.trigonometry",
    "softmax": "softmaxes",
    "softmax_backward": "softmaxes",
    "softplus": "activation",
    "sqrt": "elementwise.arithmetic",
    "square": "elementwise.arithmetic",
    "sub": "elementwise.arithmetic",
    "sum": "reduce",
    "sum_squares": "norms",
    "sums_of_squares": "optimizer_steps",
    "tan": "elementwise.trigonometry",
    "tanh": "elementwise.trigonometry",
    "trigamma": "elementwise.special",
    "tril": "diagonals",
    "triu": "diagonals",
    "trunc": "elementwise.rounding",
    "update_elements": "element_updates",
    "var": "reduce",
    "weighted_cross_entropy_backward": "cross_entropy_loss",
    "xlogy": "elementwise.exponential",
}
