"""The ops, by family. Importing this package attaches them to Tensor; those in LATER when they are first asked for: the
page writes a story without them.
"""

import importlib
from typing import Any

from ..tensor import Tensor
from .attention import (
    attention,
    cache_write,
    cached_attention,
    cached_self_attention,
    causal_mask,
    cross_attention,
    rope,
    rope_table,
)
from .conv import conv1d, conv2d, conv3d
from .create import (
    arange,
    empty,
    empty_like,
    eye,
    from_numpy,
    full,
    full_like,
    linspace,
    ones,
    ones_like,
    tensor,
    zeros,
    zeros_like,
)
from .elementwise import (
    abs,
    add,
    ceil,
    clamp,
    cos,
    div,
    exp,
    floor,
    isfinite,
    isinf,
    isnan,
    log,
    masked_fill,
    maximum,
    minimum,
    mul,
    neg,
    pow,
    relu,
    round,
    rsqrt,
    sigmoid,
    sign,
    silu,
    silu_mul,
    sin,
    sqrt,
    sub,
    tanh,
    where,
)
from .index import gather, index_select, scatter, scatter_add, tril, triu
from .linalg import (
    addmm,
    baddbmm,
    cholesky,
    det,
    dot,
    einsum,
    inverse,
    mm,
    mv,
    outer,
    slogdet,
    solve,
    solve_triangular,
    svd,
    trace,
)
from .loss import SampleBuffers, cross_entropy, embedding, peak, sample
from .matmul import bmm, linear, matmul
from .methods import METHODS
from .norm import layer_norm, log_softmax, rms_norm, softmax
from .random import (
    Generator,
    default_generator,
    manual_seed,
    multinomial,
    rand,
    rand_like,
    randint,
    randn,
    randn_like,
    randperm,
)
from .rearrange import (
    broadcast_tensors,
    diag,
    diag_embed,
    diagonal,
    hstack,
    index_add,
    masked_select,
    meshgrid,
    movedim,
    nonzero,
    pad,
    repeat_interleave,
    roll,
    swapaxes,
    swapdims,
    take_along_dim,
    tile,
    unbind,
    unflatten,
    unfold,
    vstack,
)
from .reduce import (
    all,
    amax,
    amin,
    any,
    argmax,
    argmin,
    argsort,
    cumsum,
    logsumexp,
    max,
    mean,
    min,
    sort,
    std,
    sum,
    topk,
    var,
)
from .special import (
    acos,
    acosh,
    addcdiv,
    addcmul,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    bitwise_left_shift,
    bitwise_right_shift,
    cosh,
    digamma,
    elu,
    erf,
    erfinv,
    exp2,
    expm1,
    fmod,
    frac,
    gelu,
    hardtanh,
    hypot,
    leaky_relu,
    lerp,
    lgamma,
    log2,
    log10,
    logaddexp,
    logical_xor,
    mish,
    nan_to_num,
    signbit,
    sinh,
    softplus,
    tan,
    trunc,
)
from .statistics import (
    aminmax,
    count_nonzero,
    cummax,
    cummin,
    cumprod,
    kthvalue,
    median,
    nanmean,
    nansum,
    norm,
    prod,
    quantile,
    unique,
    var_mean,
)
from .view import (
    broadcast_to,
    cat,
    chunk,
    expand,
    flatten,
    flip,
    narrow,
    permute,
    repeat,
    reshape,
    split,
    squeeze,
    stack,
    transpose,
    unsqueeze,
)

__all__ = [
    "Generator",
    "SampleBuffers",
    "abs",
    "acos",
    "acosh",
    "add",
    "addcdiv",
    "addcmul",
    "addmm",
    "all",
    "amax",
    "amin",
    "aminmax",
    "any",
    "arange",
    "argmax",
    "argmin",
    "argsort",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "attention",
    "baddbmm",
    "bitwise_left_shift",
    "bitwise_right_shift",
    "bmm",
    "broadcast_tensors",
    "broadcast_to",
    "cache_write",
    "cached_attention",
    "cached_self_attention",
    "cat",
    "causal_mask",
    "ceil",
    "cholesky",
    "chunk",
    "clamp",
    "conv1d",
    "conv2d",
    "conv3d",
    "cos",
    "cosh",
    "count_nonzero",
    "cross_attention",
    "cross_entropy",
    "cummax",
    "cummin",
    "cumprod",
    "cumsum",
    "default_generator",
    "det",
    "diag",
    "diag_embed",
    "diagonal",
    "digamma",
    "div",
    "dot",
    "einsum",
    "elu",
    "embedding",
    "empty",
    "empty_like",
    "erf",
    "erfinv",
    "exp",
    "exp2",
    "expand",
    "expm1",
    "eye",
    "flatten",
    "flip",
    "floor",
    "fmod",
    "frac",
    "from_numpy",
    "full",
    "full_like",
    "gather",
    "gelu",
    "hardtanh",
    "hstack",
    "hypot",
    "index_add",
    "index_select",
    "inverse",
    "isfinite",
    "isinf",
    "isnan",
    "kthvalue",
    "layer_norm",
    "leaky_relu",
    "lerp",
    "lgamma",
    "linear",
    "linspace",
    "log",
    "log2",
    "log10",
    "log_softmax",
    "logaddexp",
    "logical_xor",
    "logsumexp",
    "manual_seed",
    "masked_fill",
    "masked_select",
    "matmul",
    "max",
    "maximum",
    "mean",
    "median",
    "meshgrid",
    "min",
    "minimum",
    "mish",
    "mm",
    "movedim",
    "mul",
    "multinomial",
    "mv",
    "nan_to_num",
    "nanmean",
    "nansum",
    "narrow",
    "neg",
    "nonzero",
    "norm",
    "ones",
    "ones_like",
    "outer",
    "pad",
    "peak",
    "permute",
    "pow",
    "prod",
    "quantile",
    "rand",
    "rand_like",
    "randint",
    "randn",
    "randn_like",
    "randperm",
    "relu",
    "repeat",
    "repeat_interleave",
    "reshape",
    "rms_norm",
    "roll",
    "rope",
    "rope_table",
    "round",
    "rsqrt",
    "sample",
    "scatter",
    "scatter_add",
    "sigmoid",
    "sign",
    "signbit",
    "silu",
    "silu_mul",
    "sin",
    "sinh",
    "slogdet",
    "softmax",
    "softplus",
    "solve",
    "solve_triangular",
    "sort",
    "split",
    "sqrt",
    "squeeze",
    "stack",
    "std",
    "sub",
    "sum",
    "svd",
    "swapaxes",
    "swapdims",
    "take_along_dim",
    "tan",
    "tanh",
    "tensor",
    "tile",
    "topk",
    "trace",
    "transpose",
    "tril",
    "triu",
    "trunc",
    "unbind",
    "unflatten",
    "unfold",
    "unique",
    "unsqueeze",
    "var",
    "var_mean",
    "vstack",
    "where",
    "zeros",
    "zeros_like",
]  # fmt: skip

# Ops by the module that has them, imported when first asked for.
_MODULES: dict[str, list[str]] = {
    "activations": """
        celu glu gumbel_softmax hardshrink hardsigmoid hardswish logsigmoid one_hot prelu relu6 rrelu selu
        softmin softshrink softsign tanhshrink threshold
    """.split(),
    "conv": "conv_transpose1d conv_transpose2d conv_transpose3d".split(),
    "decompose": "cross matrix_exp matrix_power pinv qr".split(),
    "elementwise_more": """
        absolute allclose clamp_max clamp_min clip copysign deg2rad dist equal erfc float_power fmax fmin frexp
        gcd heaviside isclose isneginf isposinf lcm ldexp logaddexp2 logit nextafter polygamma positive rad2deg
        rsub sgn sinc square true_divide xlogy
    """.split(),
    "gamma": "gradient i0 igamma igammac isreal mvlgamma".split(),
    "fourier": """
        bartlett_window blackman_window complex_abs complex_mul hamming_window hann_window istft stft
        view_as_real
    """.split(),
    "index_more": """
        bincount bucketize diagonal_scatter histc index_copy index_fill index_put isin logcumsumexp masked_scatter
        mode msort nanmedian nanquantile scatter_reduce searchsorted select_scatter slice_scatter std_mean take
        unique_consecutive
    """.split(),
    "named": """
        addbmm addmv addr argwhere as_tensor asarray broadcast_shapes can_cast cumulative_trapezoid finfo
        get_default_dtype iinfo inference_mode initial_seed inner is_complex is_floating_point is_nonzero is_tensor
        logdet promote_types result_type seed select unravel_index
        bitwise_and bitwise_not bitwise_or bitwise_xor clone detach eq floor_divide ge gt le log1p logical_and
        logical_not logical_or lt ne numel reciprocal remainder t
        arccos arccosh arcsin arcsinh arctan arctan2 arctanh chain_matmul divide fix ger greater greater_equal less
        less_equal multiply negative not_equal row_stack subtract trapz vdot
        double dtype e float half inf int long nan newaxis pi short
    """.split(),
    "ported": """
        constant_pad_nd dsplit empty_permuted empty_strided fill frobenius_norm frombuffer histogram index_reduce
        is_same_size kaiser_window narrow_copy nuclear_norm pinverse put range
    """.split(),
    "normalization": "batch_norm group_norm instance_norm local_response_norm normalize renorm".split(),
    "pool": """
        adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d
        adaptive_max_pool3d avg_pool1d avg_pool2d avg_pool3d fractional_max_pool2d fractional_max_pool3d lp_pool1d
        lp_pool2d lp_pool3d max_pool1d max_pool2d max_pool3d max_unpool1d max_unpool2d max_unpool3d
    """.split(),
    "random_more": "bernoulli normal randint_like".split(),
    "resample": "affine_grid channel_shuffle grid_sample interpolate pixel_shuffle pixel_unshuffle".split(),
    "scaled_attention": "scaled_dot_product_attention".split(),
    "shape_more": """
        as_strided atleast_1d atleast_2d atleast_3d block_diag cartesian_prod cdist column_stack combinations
        concat concatenate corrcoef cov diagflat diff dstack fliplr flipud hsplit kron logspace moveaxis pdist
        ravel rot90 scalar_tensor tensor_split tensordot trapezoid tril_indices triu_indices vander vsplit
    """.split(),
}
LATER = {name: module for module, names in _MODULES.items() for name in names}
_METHODS = {name: module for module, names in METHODS.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(importlib.import_module(f".{LATER[name]}", __name__), name)
    globals()[name] = found
    return found


def _method(self: Tensor, name: str) -> Any:
    """A method that comes with a module that is not imported yet."""
    module = module_of_method(name)
    if module is None:
        raise AttributeError(f"'Tensor' object has no attribute {name!r}")
    importlib.import_module(f".{module}", __name__)
    return object.__getattribute__(self, name)


def module_of_method(name: str) -> str | None:
    """Which of the modules that are imported later has a method of Tensor."""
    return _METHODS.get(name) or LATER.get(name.removesuffix("_"))


Tensor.__getattr__ = _method  # type: ignore[method-assign]
