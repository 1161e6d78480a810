"""keras.ops' functions of layers: pools, convolutions, normalisation, attention, losses. Channels come last."""

from __future__ import annotations

from math import exp, log1p, sqrt
from typing import Any

from ..engine import Tensor, as_dtype, ops
from ..engine.ops.dtype_limits import iinfo
from ..nn import functional as F
from ..train.floats import floatx
from . import losses
from .arguments import as_floats, as_tensor, axes_of, channels_last, dim_of, is_channels_first
from .masking import exclude

__all__ = [
    "adaptive_average_pool", "adaptive_max_pool", "average_pool", "batch_normalization", "binary_crossentropy",
    "categorical_crossentropy", "conv", "conv_transpose", "ctc_decode", "ctc_loss", "depth_to_space", "depthwise_conv",
    "dot_product_attention", "fold", "gelu", "layer_normalization", "max_pool", "moments", "multi_hot",
    "normalize", "one_hot", "psnr", "rms_normalization", "separable_conv", "space_to_depth",
    "sparse_categorical_crossentropy", "unfold",
]  # fmt: skip

EPSILON = 1e-7
_CONVOLVE = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}


def _each(value: Any, dims: int) -> tuple[int, ...]:
    """A number for each dim: the same for all, or those given. ValueError for another number of them."""
    found = (value,) * dims if isinstance(value, int) else tuple(value)
    if len(found) != dims:
        raise ValueError(f"{value!r:.60} is not an integer, nor {dims} of them, one for each dim")
    return found


def same_padding(size: int, window: int, stride: int, dilation: int = 1) -> tuple[int, int]:
    """(before, after) that "same" pads: the output has ceil(size / stride) steps."""
    total = max((-(-size // stride) - 1) * stride + (window - 1) * dilation + 1 - size, 0)
    return total // 2, total - total // 2


def _sides(x: Tensor, window: Any, strides: Any, dilation: Any, padding: str) -> list[int]:
    """What the padding adds to the dims of x (B, C, …) before and after, as `pad` takes it; empty where nothing."""
    padding = padding.lower() if isinstance(padding, str) else padding
    if padding not in ("same", "valid"):
        raise ValueError(f"padding is same or valid, not {padding!r:.40}")
    found: list[int] = []
    if padding == "same":
        for size, w, s, d in zip(x.shape[2:], window, strides, dilation, strict=True):
            found = [*same_padding(size, w, s, d), *found]
    return found if any(found) else []


def largest_of_windows(x: Tensor, window: tuple[int, ...], strides: tuple[int, ...], padding: str) -> Tensor:
    """x (B, C, …) → (B, C, …)."""
    sides = _sides(x, window, strides, (1,) * len(window), padding)
    pool: Any = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}[len(window)]
    if sides:
        x = F.pad(x, sides, value=float("-inf") if x.dtype.is_floating_point else iinfo(x.dtype).min)
    found: Tensor = pool(x, window, strides)
    return found


def mean_of_windows(x: Tensor, window: tuple[int, ...], strides: tuple[int, ...], padding: str) -> Tensor:
    """x (B, C, …) → (B, C, …), of what lies inside; of whole numbers without the fractions."""
    sides = _sides(x, window, strides, (1,) * len(window), padding)
    pool: Any = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}[len(window)]
    values = as_floats(x)
    found: Tensor = pool(F.pad(values, sides) if sides else values, window, strides)
    if sides:
        inside = ops.ones((1, 1, *x.shape[2:]), dtype=values.dtype, device=x.device)
        found = found / pool(F.pad(inside, sides), window, strides)
    return found.to(x.dtype)


def _pooled(of_windows: Any, inputs: Tensor, pool_size: Any, strides: Any, padding: str) -> Tensor:
    window = _each(pool_size, inputs.ndim - 2)
    steps = window if strides is None else _each(strides, inputs.ndim - 2)
    found: Tensor = of_windows(inputs.movedim(-1, 1), window, steps, padding)
    return found.movedim(1, -1)


@channels_last(1)
def max_pool(
    inputs: Tensor, pool_size: Any, strides: Any = None, padding: str = "valid", data_format: Any = None
) -> Tensor:
    """The largest of each window of inputs (B, …, C)."""
    return _pooled(largest_of_windows, inputs, pool_size, strides, padding)


@channels_last(1)
def average_pool(
    inputs: Tensor, pool_size: Any, strides: Any = None, padding: str = "valid", data_format: Any = None
) -> Tensor:
    """The mean of each window of inputs (B, …, C), of what lies inside."""
    return _pooled(mean_of_windows, inputs, pool_size, strides, padding)


@channels_last(1)
def conv(
    inputs: Tensor, kernel: Tensor, strides: Any = 1, padding: str = "valid", data_format: Any = None,
    dilation_rate: Any = 1,
) -> Tensor:  # fmt: skip
    """A convolution of inputs (B, …, C) with a kernel (window…, C / groups, filters)."""
    dims = inputs.ndim - 2
    steps, dilation = _each(strides, dims), _each(dilation_rate, dims)
    x = inputs.movedim(-1, 1)
    weight = kernel.permute(dims + 1, dims, *range(dims))
    x = F.pad(x, _sides(x, kernel.shape[:dims], steps, dilation, padding))
    return _CONVOLVE[dims](x, weight, None, steps, 0, dilation, x.shape[1] // kernel.shape[dims]).movedim(1, -1)


@channels_last(1)
def depthwise_conv(
    inputs: Tensor, kernel: Tensor, strides: Any = 1, padding: str = "valid", data_format: Any = None,
    dilation_rate: Any = 1,
) -> Tensor:  # fmt: skip
    """Each channel with kernels of its own, (window…, C, multiplier)."""
    dims = inputs.ndim - 2
    channels, multiplier = kernel.shape[-2:]
    return conv(
        inputs, kernel.reshape(*kernel.shape[:dims], 1, channels * multiplier), strides, padding, None, dilation_rate
    )


@channels_last(1)
def separable_conv(
    inputs: Tensor, depthwise_kernel: Tensor, pointwise_kernel: Tensor, strides: Any = 1, padding: str = "valid",
    data_format: Any = None, dilation_rate: Any = 1,
) -> Tensor:  # fmt: skip
    """depthwise_conv, then a convolution of window 1."""
    found = depthwise_conv(inputs, depthwise_kernel, strides, padding, None, dilation_rate)
    return conv(found, pointwise_kernel)


@channels_last(1)
def conv_transpose(
    inputs: Tensor, kernel: Tensor, strides: Any = 1, padding: str = "valid", output_padding: Any = None,
    data_format: Any = None, dilation_rate: Any = 1,
) -> Tensor:  # fmt: skip
    """The transpose of a convolution, with a kernel (window…, filters, C). `output_padding` lengthens the result beyond
    what the window reaches."""
    dims = inputs.ndim - 2
    steps, dilation = _each(strides, dims), _each(dilation_rate, dims)
    more = (None,) * dims if output_padding is None else _each(output_padding, dims)
    transposed: Any = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}[dims]
    x = inputs.movedim(-1, 1)
    y = transposed(x, kernel.permute(dims + 1, dims, *range(dims)), None, steps, 0, 0, 1, dilation)
    every = enumerate(zip(x.shape[2:], kernel.shape[:dims], steps, dilation, more, strict=True), 2)
    for dim, (size, window, stride, spread, further) in every:
        reach = (window - 1) * spread + 1
        if padding.lower() == "same":  # what stands around the stretched input before the window runs over it
            around = (stride + reach if further is None else reach + reach % 2 + further) - 2
            before = min((around + 1) // 2, reach - 1)
        else:
            around = 2 * (reach - 1) + (max(stride - reach, 0) if further is None else further)
            before = reach - 1
        start, whole = reach - 1 - before, (size - 1) * stride + 2 + around - reach
        missing = start + whole - y.shape[dim]
        y = F.pad(y, [0, 0] * (y.ndim - 1 - dim) + [0, missing]) if missing > 0 else y
        y = y.narrow(dim, start, whole)
    return y.movedim(1, -1)


def gelu(x: Tensor, approximate: bool = True) -> Tensor:
    """x times the normal distribution's share below it. Here, unlike in an activation, tanh is the default."""
    return F.gelu(as_tensor(x), approximate="tanh" if approximate else "none")


def normalize(x: Tensor, axis: Any = -1, order: float = 2, epsilon: float | None = None) -> Tensor:
    """x divided by its norm along an axis."""
    x = as_tensor(x)
    x = x if x.dtype.is_floating_point or x.dtype.is_complex else x.to(floatx())
    return F.normalize(x, order, axis, EPSILON if epsilon is None else epsilon)


def layer_normalization(
    x: Tensor, gamma: Any = None, beta: Any = None, axis: Any = -1, epsilon: float | None = None
) -> Tensor:
    """(x - mean) / deviation along the axes, times gamma, plus beta."""
    axes = tuple(axes_of(axis, x))
    spread = x.var(axes, correction=0, keepdim=True) + (EPSILON if epsilon is None else epsilon)
    found = (x - x.mean(axes, True)) / spread.sqrt()
    found = found if gamma is None else found * _along(gamma, axes, x)
    return found if beta is None else found + _along(beta, axes, x)


def _along(weight: Any, axes: tuple[int, ...], x: Tensor) -> Tensor:
    """A weight for the places of some axes, in the shape in which it meets x."""
    given = as_tensor(weight)
    if given.ndim != len(axes):
        return given
    return given.reshape(*(x.shape[k] if k in axes else 1 for k in range(x.ndim)))


def rms_normalization(x: Tensor, scale: Any = None, axis: Any = -1, epsilon: float | None = None) -> Tensor:
    """x divided by the root of the mean of its squares along the axes, times `scale`."""
    axes = tuple(axes_of(axis, x))
    found = x * (x.square().mean(axes, True) + (EPSILON if epsilon is None else epsilon)).rsqrt()
    return found if scale is None else found * _along(scale, axes, x)


def batch_normalization(
    x: Tensor, mean: Tensor, variance: Tensor, axis: int, offset: Any = None, scale: Any = None, epsilon: float = 1e-3
) -> Tensor:
    """(x - mean) / deviation, with numbers for each place of an axis."""
    shape = [-1 if dim == dim_of(axis, x.ndim) else 1 for dim in range(x.ndim)]
    mean, variance = (ops.as_tensor(part).to(x.dtype) for part in (mean, variance))
    offset, scale = (None if part is None else ops.as_tensor(part).to(x.dtype) for part in (offset, scale))
    found = (x - mean.reshape(shape)) * (variance.reshape(shape) + epsilon).rsqrt()
    found = found if scale is None else found * scale.reshape(shape)
    return found if offset is None else found + offset.reshape(shape)


def dot_product_attention(
    query: Tensor, key: Tensor, value: Tensor, bias: Any = None, mask: Any = None, scale: float | None = None,
    is_causal: bool = False, flash_attention: bool | None = None, attn_logits_soft_cap: float | None = None,
) -> Tensor:  # fmt: skip
    """Attention of (B, T, heads, D) to keys and values (B, S, kv heads, D). `attn_logits_soft_cap` c bends scores to
    c tanh(score / c). `flash_attention` names a way to compute, not a result."""
    groups = query.shape[2] // key.shape[2]
    q, k, v = (x.transpose(1, 2) for x in (query, key, value))  # (B, heads, T, D)
    if groups > 1:
        k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
    scores = q @ k.mT * (1 / sqrt(query.shape[-1]) if scale is None else scale)
    if bias is not None:
        scores = scores + bias
    if attn_logits_soft_cap is not None:
        scores = (scores / attn_logits_soft_cap).tanh() * attn_logits_soft_cap
    seen = None if mask is None else mask.to("bool")
    if is_causal:
        rows, columns = (ops.arange(n, device=query.device) for n in scores.shape[-2:])
        causal = columns <= rows.unsqueeze(-1)
        seen = causal if seen is None else seen & causal
    scores = exclude(scores, seen)  # a query that sees nothing gets the mean, as in Keras
    return (scores.softmax(-1) @ v).transpose(1, 2)


def binary_crossentropy(target: Tensor, output: Tensor, from_logits: bool = False) -> Tensor:
    """-log of the probability of each label."""
    target, output = as_tensor(target), as_tensor(output)
    if from_logits:
        return F.binary_cross_entropy_with_logits(output, target.to(output.dtype), reduction="none")
    p, t = output.clamp(1e-7, 1 - 1e-7), target.to(output.dtype)
    return -(t * p.log() + (1 - t) * (1 - p).log())


def categorical_crossentropy(target: Tensor, output: Tensor, from_logits: bool = False, axis: int = -1) -> Tensor:
    """-log of the probability of one-hot labels."""
    return losses.categorical_crossentropy(as_tensor(target), output, from_logits, axis=axis)


def sparse_categorical_crossentropy(
    target: Tensor, output: Tensor, from_logits: bool = False, axis: int = -1
) -> Tensor:
    """-log of the probability of class numbers."""
    return losses.sparse_categorical_crossentropy(as_tensor(target), output, from_logits, axis=axis)


def psnr(x1: Tensor, x2: Tensor, max_val: float) -> Tensor:
    """The ratio of the largest signal to the noise, in decibels."""
    return 20 * ops.log10(ops.full((), float(max_val))) - 10 * (x1 - x2).square().mean().log10()


def _check_block(name: str, block_size: Any) -> None:
    if not isinstance(block_size, int) or block_size < 2:
        raise ValueError(f"{name}: block_size is a whole number from 2, not {block_size!r:.40}")


def depth_to_space(x: Tensor, block_size: int, data_format: str = "channels_last") -> Tensor:
    """(B, H, W, n² C) -> (B, H n, W n, C): each pixel becomes a block of n x n. With the channels first they are
    counted as (C, n, n), not (n, n, C), as Keras does it."""
    _check_block("depth_to_space", block_size)
    n = block_size
    if is_channels_first("depth_to_space", data_format):
        return F.pixel_shuffle(x, n)
    batch, height, width, channels = x.shape
    found = x.reshape(batch, height, width, n, n, channels // n**2).permute(0, 1, 3, 2, 4, 5)
    return found.reshape(batch, height * n, width * n, channels // n**2)


def space_to_depth(x: Tensor, block_size: int, data_format: str = "channels_last") -> Tensor:
    """The inverse of depth_to_space: (B, H n, W n, C) -> (B, H, W, n² C)."""
    _check_block("space_to_depth", block_size)
    n = block_size
    if is_channels_first("space_to_depth", data_format):
        return F.pixel_unshuffle(x, n)
    batch, height, width, channels = x.shape
    found = x.reshape(batch, height // n, n, width // n, n, channels).permute(0, 1, 3, 2, 4, 5)
    return found.reshape(batch, height // n, width // n, n * n * channels)


def _adaptive(kind: str, inputs: Tensor, output_size: Any) -> Tensor:
    dims = inputs.ndim - 2
    if dims not in (1, 2, 3):
        raise ValueError(f"adaptive_{kind}_pool: takes inputs (B, …, C) with 1 to 3 dims between, got {inputs.shape}")
    pool = getattr(F, f"adaptive_{'avg' if kind == 'average' else kind}_pool{dims}d")
    found: Tensor = pool(inputs.movedim(-1, 1), _each(output_size, dims))
    return found.movedim(1, -1)


@channels_last(1)
def adaptive_average_pool(inputs: Tensor, output_size: Any, data_format: Any = None) -> Tensor:
    """The means of as many equal windows of inputs (B, …, C) as `output_size` says."""
    return _adaptive("average", inputs, output_size)


@channels_last(1)
def adaptive_max_pool(inputs: Tensor, output_size: Any, data_format: Any = None) -> Tensor:
    """The largest of as many equal windows of inputs (B, …, C) as `output_size` says."""
    return _adaptive("max", inputs, output_size)


def unfold(x: Tensor, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Tensor:
    """The windows of x (B, C, H, W) as columns (B, C * window, count)."""
    return F.unfold(x, kernel_size, dilation, padding, stride)


def fold(x: Tensor, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Tensor:
    """Windows as columns (B, C * window, count), added up in pictures (B, C, H, W) of output_size."""
    return F.fold(x, output_size, kernel_size, dilation, padding, stride)


def moments(x: Tensor, axes: Any, keepdims: bool = False, synchronized: bool = False) -> tuple[Tensor, Tensor]:
    """The mean and the variance along the axes, of this process. Those of float16 are computed in float32, and cut to
    the largest number there is."""
    if synchronized:
        raise NotImplementedError("moments: synchronized=True adds up over processes; use pyapp.distributed")
    if x.dtype.name == "float16":
        limit = 65504.0
        found = moments(x.to("float32"), axes, keepdims)
        return found[0].clamp(-limit, limit).to("float16"), found[1].clamp(-limit, limit).to("float16")
    along = tuple(axes_of(axes, x))
    mean = x.mean(along, True)
    variance = (x - mean).square().mean(along, keepdims)
    return (mean if keepdims else x.mean(along)), variance


def _no_sparse(name: str, sparse: bool) -> None:
    if sparse:
        raise NotImplementedError(f"{name}: there are no sparse tensors; leave `sparse` out")


def one_hot(x: Any, num_classes: int, axis: int = -1, dtype: Any = None, sparse: bool = False) -> Tensor:
    """1 at the number of each class, 0 at the others, along a new axis; zeros for numbers that are not a class."""
    _no_sparse("one_hot", sparse)
    ids = as_tensor(x).to("int64")
    found = (ids.unsqueeze(-1) == ops.arange(num_classes, device=ids.device)).to(as_dtype(dtype or floatx()))
    return found if axis == -1 else found.movedim(-1, axis)


def multi_hot(
    inputs: Any, num_classes: int | None = None, axis: int = -1, dtype: Any = None, sparse: bool = False
) -> Tensor:
    """1 at the numbers of each row's classes: (…, n) -> (…, num_classes)."""
    _no_sparse("multi_hot", sparse)
    if num_classes is None:
        raise ValueError("multi_hot: needs num_classes")
    ids = as_tensor(inputs)
    found = one_hot(ids, num_classes, axis, dtype)
    return found.amax(1 if ids.ndim > 1 else 0)


def ctc_loss(target: Any, output: Any, target_length: Any, output_length: Any, mask_index: int = 0) -> Tensor:
    """The loss (B,) of labels (B, N) under logits (B, T, classes) by connectionist temporal classification (Graves et
    al. 2006); `mask_index` is the blank."""
    logits = as_tensor(output)
    log_probabilities = logits.log_softmax(-1).transpose(0, 1)  # (T, B, classes)
    return F.ctc_loss(
        log_probabilities, as_tensor(target).to("int64"), as_tensor(output_length).to("int64"),
        as_tensor(target_length).to("int64"), mask_index, "none",
    )  # fmt: skip


def ctc_decode(
    inputs: Any, sequence_lengths: Any, strategy: str = "greedy", beam_width: int = 100, top_paths: int = 1,
    merge_repeated: bool = True, mask_index: int = 0,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """(labels (paths, B, T) int32, filled up with -1, and their scores) of logits (B, T, classes): the best class of
    each step (greedy; the score is minus the sum of the best logits, (B, 1)), or the best labellings among
    `beam_width` (beam_search; their log probabilities, (B, paths))."""
    logits, lengths = as_tensor(inputs), [int(n) for n in as_tensor(sequence_lengths).tolist()]
    batch, steps, classes = logits.shape
    if len(lengths) != batch or any(not 0 <= n <= steps for n in lengths):
        raise ValueError(f"ctc_decode: takes a length from 0 to {steps} for each of {batch} sequences, got {lengths}")
    blank = mask_index % classes
    if strategy == "greedy":
        best, ids = logits.max(-1)  # (B, T)
        place = logits.device
        seen = ops.arange(steps, device=place) < ops.tensor(lengths, device=place).unsqueeze(-1)
        score = -(best * seen).sum(-1, True)
        found: list[list[Any]] = [
            [_collapsed(row[:n], blank, merge_repeated) for row, n in zip(ids.tolist(), lengths, strict=True)]
        ]
    elif strategy == "beam_search":
        rows = logits.log_softmax(-1).tolist()
        paths = [_beams(row[:n], blank, beam_width, top_paths) for row, n in zip(rows, lengths, strict=True)]
        found = [[paths[b][k][0] for b in range(batch)] for k in range(top_paths)]
        score = ops.tensor([[one[1] for one in row] for row in paths], logits.dtype, logits.device)
    else:
        raise ValueError(f"ctc_decode: strategy is greedy or beam_search, not {strategy!r:.40}")
    filled = [[list(row) + [-1] * (steps - len(row)) for row in path] for path in found]
    return ops.tensor(filled, "int32", logits.device).reshape(len(found), batch, steps), score


def _collapsed(row: list[int], blank: int, merge: bool) -> list[int]:
    """The classes of the steps without blanks, and without repetitions."""
    kept = [k for i, k in enumerate(row) if not (merge and i and row[i - 1] == k)]
    return [k for k in kept if k != blank]


def _beams(rows: list[list[float]], blank: int, width: int, count: int) -> list[tuple[tuple[int, ...], float]]:
    """The `count` likeliest labellings of log probabilities (T, classes), by a search over prefixes."""
    infinite = float("-inf")
    beams: dict[tuple[int, ...], tuple[float, float]] = {(): (0.0, infinite)}  # ending in a blank, or in a label
    for row in rows:
        following: dict[tuple[int, ...], tuple[float, float]] = {}

        def add(prefix: tuple[int, ...], ends: int, score: float, into: Any = following) -> None:
            both = list(into.get(prefix, (infinite, infinite)))
            both[ends] = _log_sum(both[ends], score)
            into[prefix] = (both[0], both[1])

        for prefix, (silent, sounding) in beams.items():
            either = _log_sum(silent, sounding)
            for label, score in enumerate(row):
                if label == blank:
                    add(prefix, 0, either + score)
                elif prefix and prefix[-1] == label:
                    add(prefix, 1, sounding + score)
                    add((*prefix, label), 1, silent + score)
                else:
                    add((*prefix, label), 1, either + score)
        beams = dict(sorted(following.items(), key=lambda item: -_log_sum(*item[1]))[:width])
    best = sorted(((prefix, _log_sum(*both)) for prefix, both in beams.items()), key=lambda item: -item[1])[:count]
    return best + [((), infinite)] * (count - len(best))


def _log_sum(a: float, b: float) -> float:
    larger, smaller = max(a, b), min(a, b)
    return larger if smaller == float("-inf") else larger + log1p(exp(smaller - larger))
