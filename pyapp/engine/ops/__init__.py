"""The ops, by family. Importing this package attaches them to Tensor."""

from .attention import attention, cache_write, cached_attention, cached_self_attention, causal_mask, rope, rope_table
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
from .loss import SampleBuffers, cross_entropy, embedding, sample
from .matmul import bmm, linear, matmul
from .norm import layer_norm, log_softmax, rms_norm, softmax
from .random import Generator, default_generator, manual_seed, multinomial, rand, rand_like, randint, randn, randn_like, randperm
from .reduce import all, amax, amin, any, argmax, argmin, argsort, cumsum, logsumexp, max, mean, min, sort, std, sum, topk, var
from .view import broadcast_to, cat, chunk, expand, flatten, flip, narrow, permute, repeat, reshape, split, squeeze, stack, transpose, unsqueeze

__all__ = [name for name in dir() if not name.startswith("_")]
