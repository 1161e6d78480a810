"""The ops, by family. Importing this package attaches them to Tensor; those in LATER when they are first asked for: the
page writes a story without them.
"""

import importlib
from typing import Any

from ..tensor import Tensor
from .attention import attention, cache_write, cached_attention, cached_self_attention, causal_mask, rope, rope_table
from .conv import (
    avg_pool1d,
    avg_pool2d,
    conv1d,
    conv2d,
    conv3d,
    max_pool1d,
    max_pool2d,
)
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
from .loss import SampleBuffers, cross_entropy, embedding, sample
from .matmul import bmm, linear, matmul
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
    "Generator", "SampleBuffers", "abs", "add", "all", "amax", "amin", "any", "arange", "argmax", "argmin",
    "argsort", "attention", "bmm", "broadcast_to", "cache_write", "cached_attention", "cached_self_attention",
    "cat", "causal_mask", "ceil", "chunk", "clamp", "cos", "cross_entropy", "cumsum", "default_generator", "div",
    "embedding", "empty", "empty_like", "exp", "expand", "eye", "flatten", "flip", "floor", "from_numpy", "full",
    "full_like", "gather", "index_select", "isfinite", "isinf", "isnan", "layer_norm", "linear", "linspace", "log",
    "log_softmax", "logsumexp", "manual_seed", "masked_fill", "matmul", "max", "maximum", "mean", "min", "minimum",
    "mul", "multinomial", "narrow", "neg", "ones", "ones_like", "permute", "pow", "rand", "rand_like", "randint",
    "randn", "randn_like", "randperm", "relu", "repeat", "reshape", "rms_norm", "rope", "rope_table", "round",
    "rsqrt", "sample", "scatter", "scatter_add", "sigmoid", "sign", "silu", "silu_mul", "sin", "softmax", "sort",
    "split", "sqrt", "squeeze", "stack", "std", "sub", "sum", "tanh", "tensor", "topk", "transpose", "tril", "triu",
    "unsqueeze", "var", "where", "zeros", "zeros_like",
    "acos", "acosh", "addcdiv", "addcmul", "addmm", "aminmax", "asin", "asinh", "atan", "atan2", "atanh",
    "avg_pool1d", "avg_pool2d", "baddbmm", "bitwise_left_shift", "bitwise_right_shift", "broadcast_tensors",
    "cholesky", "conv1d", "conv2d", "conv3d", "cosh", "count_nonzero", "cummax", "cummin", "cumprod", "det", "diag",
    "diag_embed", "diagonal", "digamma", "dot", "einsum", "elu", "erf", "erfinv", "exp2", "expm1", "fmod", "frac",
    "gelu", "hardtanh", "hstack", "hypot", "index_add", "inverse", "kthvalue", "leaky_relu", "lerp", "lgamma",
    "log10", "log2", "logaddexp", "logical_xor", "masked_select", "max_pool1d", "max_pool2d", "median", "meshgrid",
    "mish", "mm", "movedim", "mv", "nan_to_num", "nanmean", "nansum", "nonzero", "norm", "outer", "pad", "prod",
    "quantile", "repeat_interleave", "roll", "signbit", "sinh", "slogdet", "softplus", "solve", "solve_triangular",
    "svd", "swapaxes", "swapdims", "take_along_dim", "tan", "tile", "trace", "trunc", "unbind", "unflatten",
    "unfold", "unique", "var_mean", "vstack",
]  # fmt: skip

# Ops by the module that has them, imported when first asked for.
_MODULES: dict[str, tuple[str, ...]] = {
}  # fmt: skip
LATER = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(importlib.import_module(f".{LATER[name]}", __name__), name)
    globals()[name] = found
    return found


def _method(self: Tensor, name: str) -> Any:
    """A method that comes with a module that is not imported yet."""
    module = LATER.get(name.rstrip("_"))
    if module is not None and not name.startswith("_"):
        importlib.import_module(f".{module}", __name__)
        for kind in type(self).__mro__:
            if name in kind.__dict__:
                return object.__getattribute__(self, name)
    raise AttributeError(f"'Tensor' object has no attribute {name!r}")


Tensor.__getattr__ = _method  # type: ignore[method-assign]
