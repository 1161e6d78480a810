"""Random calls and random programs on a card and on the CPU: results, gradients and errors have to be the same.

python -m tests.cuda.fuzz calls 0 2000 [--device cuda:0] [--only attention,sort]
python -m tests.cuda.fuzz programs 0 500

A call is an op of CALLS with random shapes (none, one, odd, prime, many), dtypes and options, on tensors that lie
anyhow in their memory: from any element on, transposed, with gaps, expanded. A program is one of
tests/engine/random_programs.py. Without a card they run in the emulator, whose fresh memory is NaN, and which notices
writes outside of a block of memory. A seed that is told runs alone by `calls SEED 1`.
"""

from __future__ import annotations

import argparse
import random
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import pyapp
from pyapp import Tensor, ops
from pyapp.engine import quant
from pyapp.engine.device import as_device
from pyapp.nn import functional as F
from tests.engine import random_programs

from . import emulated

SIZES = (1, 2, 3, 4, 5, 7, 8, 13, 16, 17, 31, 32, 33, 37, 63, 64, 65, 67, 96, 100, 127, 128, 129, 131, 256, 257, 300)
MOST = 20_000  # elements of an input
FLOATS = ("float32", "float16", "bfloat16", "float64")
WHOLE = ("int64", "int32", "int16", "int8", "uint8", "bool")
CLOSE = {"float32": 2e-4, "float16": 4e-3, "bfloat16": 3e-2, "float64": 1e-9, "complex64": 2e-4, "complex128": 1e-9}
SEEDED = 1 << 20

Call = tuple[Callable[..., Any], list["Laid"]]


class Laid:
    """An input: the numbers in memory, and the views that make a tensor of them."""

    def __init__(self, base: np.ndarray, dtype: str, view: Callable[[Tensor], Tensor], learns: bool = False) -> None:
        self.base, self.dtype, self.view, self.learns = base, dtype, view, learns

    def on(self, device: str) -> tuple[Tensor, Tensor]:
        """The memory as a tensor, which has the gradient, and what a call gets."""
        base = pyapp.tensor(self.base).to(self.dtype).to(device)
        if self.learns:
            base.requires_grad_()
        return base, self.view(base)


class Draw(random.Random):
    """What a call is drawn with."""

    def size(self, most: int = MOST, none: bool = True) -> int:
        if none and self.random() < 0.03:
            return 0
        return self.choice([n for n in SIZES if n <= most] or [1])

    def shape(self, rank: int, most: int = MOST) -> tuple[int, ...]:
        found: list[int] = []
        for _ in range(rank):
            found.append(self.size(most))
            most //= max(found[-1], 1)
        self.shuffle(found)
        return tuple(found)

    def floats(self, share: float = 0.5) -> str:
        return "float32" if self.random() < share else self.choice(FLOATS)

    def dtype(self) -> str:
        return self.choice(FLOATS + WHOLE) if self.random() < 0.6 else self.floats()

    def numbers(self, shape: tuple[int, ...], dtype: str) -> np.ndarray:
        own = np.random.default_rng(self.randrange(SEEDED))
        if dtype == "bool":
            return own.random(shape) < 0.5
        if "int" in dtype:
            return own.integers(0 if dtype == "uint8" else -9, 10, shape)
        values = own.standard_normal(shape)
        if dtype.startswith("complex"):
            return values + 1j * own.standard_normal(shape)
        return values.round(1) if self.random() < 0.1 else values  # with equal numbers

    def laid(self, shape: tuple[int, ...], dtype: str = "float32", learns: bool | None = None) -> Laid:
        """Numbers that lie anyhow."""
        if learns is None:
            learns = dtype in FLOATS and self.random() < 0.7
        kind = self.choice(("plain", "plain", "offset", "turned", "gaps", "wide", "expanded", "flipped"))
        rank = len(shape)
        if kind == "offset":
            before, size = self.choice((1, 2, 3, 4, 5, 7, 8)), int(np.prod(shape, dtype=np.int64))
            base = self.numbers((size + before + 3,), dtype)
            return Laid(base, dtype, lambda x: x[before : before + size].view(shape), learns)
        if kind == "turned" and rank > 1:
            order = self.sample(range(rank), rank)
            back = [order.index(i) for i in range(rank)]
            return Laid(self.numbers(tuple(shape[i] for i in order), dtype), dtype, lambda x: x.permute(back), learns)
        if kind == "gaps" and rank:
            dim = self.randrange(rank)
            step, start = self.choice(((2, 0), (2, 1), (3, 2)))
            base_shape = tuple(n * step if i == dim else n for i, n in enumerate(shape))
            where = tuple(slice(start, None, step) if i == dim else slice(None) for i in range(rank))
            return Laid(self.numbers(base_shape, dtype), dtype, lambda x: x[where], learns)
        if kind == "wide" and rank:
            before, behind = self.choice((0, 1, 3, 4, 8)), self.choice((0, 1, 2, 4, 8))
            base = self.numbers((*shape[:-1], shape[-1] + before + behind), dtype)
            return Laid(base, dtype, lambda x: x[..., before : before + shape[-1]], learns)
        if kind == "expanded" and rank:
            dim = self.randrange(rank)
            base = self.numbers(tuple(1 if i == dim else n for i, n in enumerate(shape)), dtype)
            return Laid(base, dtype, lambda x: x.expand(shape), learns)
        return Laid(self.numbers(shape, dtype), dtype, lambda x: x, learns)

    def places(self, shape: tuple[int, ...], count: int, least: int = 0, dtype: str = "int64") -> Laid:
        """Indices of `count` elements."""
        own = np.random.default_rng(self.randrange(SEEDED))
        base = own.integers(least, max(count, 1), shape)
        found = self.laid(shape, dtype)
        plain = Laid(base, dtype, lambda x: x)
        if found.base.shape == shape:
            return plain
        found.base = own.integers(least, max(count, 1), found.base.shape)
        return found


UNARY = random_programs.UNARY + [
    "tan", "asin", "acos", "asinh", "acosh", "atanh", "log", "log2", "log10", "rsqrt", "erfc", "erfinv", "lgamma",
    "digamma", "isnan", "isinf", "signbit", "sinc", "i0", "logit", "round", "bitwise_not", "nan_to_num",
]  # fmt: skip


def unary(r: Draw) -> Call:
    dtype = r.dtype()
    if r.random() < 0.1:
        dtype = "complex64"
    name = r.choice(UNARY)
    return (lambda x: getattr(x, name)()), [r.laid(r.shape(r.randint(0, 4)), dtype)]


def activation(r: Draw) -> Call:
    name = r.choice(random_programs.ACTIVATIONS)
    return (lambda x: getattr(F, name)(x)), [r.laid(r.shape(r.randint(1, 3)), r.floats())]


def broadcast_pair(r: Draw, rank: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    shape = r.shape(rank)
    one, two = (tuple(1 if r.random() < 0.25 else n for n in shape) for _ in range(2))
    return one, two[r.randint(0, rank) :] if r.random() < 0.2 else two


def binary(r: Draw) -> Call:
    name = r.choice([*random_programs.BINARY, *random_programs.OF_TENSORS, "floor_divide", "pow", "bitwise_xor"])
    one, two = broadcast_pair(r, r.randint(0, 4))
    first = r.dtype()
    second = first if r.random() < 0.7 else r.dtype()
    return (lambda x, y: getattr(pyapp, name)(x, y)), [r.laid(one, first), r.laid(two, second)]


def where(r: Draw) -> Call:
    one, two = broadcast_pair(r, r.randint(1, 3))
    dtype = r.dtype()
    return pyapp.where, [r.laid(one, "bool"), r.laid(two, dtype), r.laid(one, dtype)]


def cast(r: Draw) -> Call:
    to = r.choice(FLOATS + WHOLE)
    return (lambda x: x.to(to)), [r.laid(r.shape(r.randint(0, 3)), r.dtype())]


def copied(r: Draw) -> Call:
    shape, dtype, other = r.shape(r.randint(1, 4)), r.dtype(), r.dtype()

    def write(x: Tensor, y: Tensor) -> Tensor:
        made = pyapp.zeros(*reversed(shape), dtype=x.dtype, device=x.device).permute(*reversed(range(len(shape))))
        made.copy_(y)
        made[..., ::2] += x[..., ::2]
        return made.contiguous()

    return write, [r.laid(shape, dtype), r.laid(shape, other)]


def joined(r: Draw) -> Call:
    rank = r.randint(1, 3)
    shape, dim, dtype = r.shape(rank, MOST // 4), r.randrange(rank), r.dtype()
    parts = [tuple(r.size(64) if i == dim else n for i, n in enumerate(shape)) for _ in range(r.randint(1, 3))]
    return (lambda *parts: pyapp.cat(parts, dim)), [r.laid(part, dtype) for part in parts]


def reduced(r: Draw) -> Call:
    rank = r.randint(1, 4)
    shape, keep = r.shape(rank), r.random() < 0.5
    name = r.choice("sum mean prod amax amin any all logsumexp var std argmax argmin count_nonzero norm nansum".split())
    dims: Any = r.randrange(rank) if name in ("prod", "argmax", "argmin") else tuple(
        sorted(r.sample(range(rank), r.randint(1, rank)))
    )  # fmt: skip
    options = {} if name in ("count_nonzero",) else {"keepdim": keep}
    return (lambda x: getattr(x, name)(dim=dims, **options)), [r.laid(shape, r.dtype())]


def rows(r: Draw) -> Call:
    """Softmax and norms."""
    shape = (*r.shape(r.randint(0, 2), 100), r.choice((*SIZES, 511, 1023, 1024, 1025, 2049, 4099)))
    dtype = r.floats()
    name = r.choice(("softmax", "log_softmax", "layer_norm", "rms_norm", "normalize", "softmax of columns"))
    x = r.laid(shape, dtype)
    if name in ("layer_norm", "rms_norm"):
        weights = [r.laid(shape[-1:], dtype) for _ in range(r.randint(0, 1 + (name == "layer_norm")))]
        return (lambda x, *own: getattr(F, name)(x, shape[-1:], *own)), [x, *weights]
    if name == "softmax of columns":
        return (lambda x: x.softmax(0)), [x]
    return (lambda x: getattr(F, name)(x, dim=-1)), [x]


def channel_norms(r: Draw) -> Call:
    groups = r.choice((1, 2, 3, 4))
    channels = groups * r.choice((1, 2, 3, 5, 8))
    shape = (r.size(5, False), channels, *r.shape(r.randint(1, 2), 300))
    dtype = r.floats()
    own = [r.laid((channels,), dtype) for _ in range(2)]
    name = r.choice(("group", "batch", "instance"))
    if name == "group":
        return (lambda x, w, b: F.group_norm(x, groups, w, b)), [r.laid(shape, dtype), *own]
    if name == "batch":
        return (lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True)), [r.laid(shape, dtype), *own]
    return (lambda x, w, b: F.instance_norm(x, weight=w, bias=b)), [r.laid(shape, dtype), *own]


def product(r: Draw) -> Call:
    dtype = r.choice((*FLOATS, "int64", "int32", "bool")) if r.random() < 0.6 else "float32"
    m, k, n = (r.size(257) for _ in range(3))
    if m * k > MOST or k * n > MOST:
        k = r.size(70)
    lead = r.shape(r.randint(0, 2), 6)
    first, second = lead, lead
    if r.random() < 0.3:
        first, second = broadcast_pair(r, len(lead)) if not lead else (tuple(1 for _ in lead), lead)
    if r.random() < 0.3:
        second = ()
    return (lambda a, b: a @ b), [r.laid((*first, m, k), dtype), r.laid((*second, k, n), dtype)]


def linear(r: Draw) -> Call:
    dtype, inputs, outputs = r.floats(), r.size(300), r.size(257)
    lead = r.choice(((), (1,), (2,), (7,), (8,), (9,), (31,), (33,), (65,), (2, 5), (3, 1, 4)))
    x, w = r.laid((*lead, inputs), dtype), r.laid((outputs, inputs), dtype)
    if dtype == "float32" and r.random() < 0.4:  # weights of 16 bits
        w = r.laid((outputs, inputs), r.choice(("float16", "bfloat16")), learns=False)
        return (lambda x, w: ops.linear(x, w)), [x, w]
    bias = [r.laid((outputs,), dtype)] if r.random() < 0.5 else []
    return (lambda *given: F.linear(*given)), [x, w, *bias]


def block_linear(r: Draw) -> Call:
    kind = r.choice(("q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q2_K", "q3_K", "q4_K", "q5_K", "q6_K"))
    inputs, outputs = 256 * r.randint(1, 3) if "K" in kind else 32 * r.randint(1, 12), r.size(100, False)
    count = r.choice((1, 1, 2, 5, 8, 9, 16, 17, 32, 33, 65))
    weight = quant.quantize(pyapp.tensor(r.numbers((outputs, inputs), "float32").astype(np.float32)), kind)

    def call(x: Tensor) -> Any:
        return F.linear(x, weight.to(x.device)), quant.dequantize(weight.to(x.device))

    return call, [r.laid((count, inputs), "float32", learns=False)]


def attention(r: Draw) -> Call:
    dtype = r.choice(("float32", "float32", "float16", "bfloat16", "float64"))
    head, batch, kv = r.choice((1, 2, 4, 8, 16, 24, 32, 40, 64, 65, 72, 80, 96, 128)), r.randint(1, 2), r.randint(1, 3)
    heads = kv * r.choice((1, 1, 2, 3))
    tokens, keys = r.choice((1, 2, 5, 17, 33, 64, 65, 70, 130)), r.choice((1, 2, 5, 17, 33, 64, 65, 70, 130))
    options: dict[str, Any] = {}
    extra: list[Laid] = []
    share = r.random()
    if share < 0.3:
        options["is_causal"] = True
    elif share < 0.6:
        shape = r.choice(((tokens, keys), (batch, 1, tokens, keys), (batch, heads, tokens, keys), (1, 1, 1, keys)))
        extra.append(r.laid(shape, r.choice(("bool", dtype))))
    if r.random() < 0.2:
        options["softcap"] = 2.0
    if heads != kv:
        options["enable_gqa"] = True
    if r.random() < 0.3:
        options["scale"] = 0.3

    def call(q: Tensor, k: Tensor, v: Tensor, *mask: Tensor) -> Tensor:
        own = dict(options, **({"attn_mask": mask[0]} if mask else {}))
        return F.scaled_dot_product_attention(q, k, v, **own)

    def sequence(count: int, own: int) -> Laid:
        found = r.laid((batch, own, count, head), dtype)
        if r.random() < 0.4:
            base = r.numbers((batch, count, own, head), dtype)
            found = Laid(base, dtype, lambda x: x.transpose(1, 2), found.learns)
        return found

    return call, [sequence(tokens, heads), sequence(keys, kv), sequence(keys, kv), *extra]


def scanned(r: Draw) -> Call:
    rank = r.randint(1, 3)
    dim = r.randrange(rank)
    name = r.choice(("cumsum", "cumprod", "logcumsumexp", "cummax", "cummin"))
    many = r.choice((*SIZES, 1000, 1025, 4097))
    shape = tuple(many if i == dim else r.size(20) for i in range(rank))
    return (lambda x: getattr(x, name)(dim)), [r.laid(shape, r.dtype() if name != "logcumsumexp" else r.floats())]


def sorted_rows(r: Draw) -> Call:
    rank = r.randint(1, 3)
    dim, many = r.randrange(rank), r.choice((*SIZES, 1000, 1025, 4097))
    shape = tuple(many if i == dim else r.size(10) for i in range(rank))
    name, down = r.choice(("sort", "argsort", "topk", "kthvalue", "median", "unique")), r.random() < 0.5
    k = r.randint(1, max(many, 1))
    x = r.laid(shape, r.dtype(), learns=False)
    if name == "topk":
        return (lambda x: x.topk(k, dim, largest=down).values), [x]
    if name == "kthvalue":
        return (lambda x: x.kthvalue(k, dim).values), [x]
    if name == "median":
        return (lambda x: x.median(dim).values), [x]
    if name == "unique":
        return (lambda x: x.unique()), [x]
    if name == "argsort":
        return (lambda x: x.argsort(dim, descending=down, stable=True)), [x]
    return (lambda x: tuple(x.sort(dim=dim, descending=down, stable=True))), [x]


def gathered(r: Draw) -> Call:
    rank = r.randint(1, 3)
    dim, shape = r.randrange(rank), r.shape(rank, 4000)
    count = r.size(100)
    dtype = r.dtype()
    name = r.choice(("gather", "index_select", "scatter_add", "index_add", "index_copy", "take", "scatter_reduce"))
    bad = -1 if r.random() < 0.1 else 0  # for some an error
    size = shape[dim]
    of = tuple(r.randint(0, n) if i != dim else count for i, n in enumerate(shape))
    if name == "gather":
        return (lambda x, i: x.gather(dim, i)), [r.laid(shape, dtype), r.places(of, size, bad)]
    if name in ("scatter_add", "scatter_reduce"):
        given = [r.laid(shape, dtype), r.places(of, size, bad), r.laid(of, dtype)]
        kind = r.choice(("sum", "prod", "amax", "amin", "mean"))
        if name == "scatter_add":
            return (lambda x, i, y: x.scatter_add(dim, i, y)), given
        return (lambda x, i, y: x.scatter_reduce(dim, i, y, kind, include_self=bool(count % 2))), given
    if name == "take":
        return (lambda x, i: x.take(i)), [r.laid(shape, dtype), r.places((count,), int(np.prod(shape)), bad)]
    if name == "index_select":
        return (lambda x, i: x.index_select(dim, i)), [r.laid(shape, dtype), r.places((count,), size, bad)]
    source = tuple(count if i == dim else n for i, n in enumerate(shape))
    if name == "index_copy":
        count = min(count, size)
        source = tuple(count if i == dim else n for i, n in enumerate(shape))
        places = Laid(np.random.default_rng(r.randrange(SEEDED)).permutation(size)[:count], "int64", lambda x: x)
        return (lambda x, i, y: x.index_copy(dim, i, y)), [r.laid(shape, dtype), places, r.laid(source, dtype)]
    return (lambda x, i, y: x.index_add(dim, i, y)), [
        r.laid(shape, dtype), r.places((count,), size, bad), r.laid(source, dtype),
    ]  # fmt: skip


def indexed(r: Draw) -> Call:
    shape, dtype = r.shape(3, 6000), r.dtype()
    count = r.size(40)
    kind = r.choice(("one", "two", "apart", "put", "added", "mask"))
    first, last = (r.places((count,), shape[i], -shape[i]) for i in (0, 2))
    if kind == "one":
        return (lambda x, i: x[:, :, i]), [r.laid(shape, dtype), last]
    if kind == "two":
        return (lambda x, i, j: x[i, 1:, j]), [r.laid(shape, dtype), first, last]
    if kind == "apart":
        return (lambda x, i, j: x[i[:, None], :, j]), [r.laid(shape, dtype), first, last]
    if kind == "mask":
        return (lambda x, m: x[m]), [r.laid(shape, dtype), r.laid(shape, "bool")]
    value = r.laid((count, shape[1]), dtype, learns=False)

    def put(x: Tensor, i: Tensor, y: Tensor) -> Tensor:
        made = x.clone()
        if kind == "added":
            made[..., 0].index_put_((i,), y, accumulate=True)
        else:
            made[i] = y[:1, :, None].expand(1, shape[1], shape[2]) if count else y[:, :, None]
        return made

    return put, [r.laid(shape, dtype), first, value]


def embedded(r: Draw) -> Call:
    count, size, dtype = r.size(100, False), r.size(200), r.floats()
    places = r.places(r.shape(r.randint(1, 2), 60), count)
    if r.random() < 0.3:
        mode = r.choice(("sum", "mean", "max"))
        of = r.places((r.size(20), r.size(9)), count)
        return (lambda i, w: F.embedding_bag(i, w, mode=mode)), [of, r.laid((count, size), dtype)]
    return (lambda i, w: F.embedding(i, w)), [places, r.laid((count, size), dtype)]


def losses(r: Draw) -> Call:
    many, classes, dtype = r.size(80), r.choice((*SIZES, 1000, 4097)), r.floats()
    ignored, how = r.choice((-100, 0)), r.choice(("mean", "sum", "none"))
    smooth = r.choice((0.0, 0.0, 0.2))
    x, y = r.laid((many, classes), dtype), r.places((many,), classes)
    if r.random() < 0.3:
        plane = r.shape(2, 30)
        x, y = r.laid((2, min(classes, 64), *plane), dtype), r.places((2, *plane), min(classes, 64))
    if r.random() < 0.3:
        return (lambda x, y: F.nll_loss(x, y, ignore_index=ignored, reduction=how)), [x, y]
    return (lambda x, y: F.cross_entropy(x, y, ignore_index=ignored, reduction=how, label_smoothing=smooth)), [x, y]


def convolution(r: Draw) -> Call:
    rank, groups = r.choice((1, 2, 2, 3)), r.choice((1, 1, 2, 3))
    inputs, outputs = groups * r.randint(1, 5), groups * r.randint(1, 6)
    if r.random() < 0.3:
        groups = inputs
        outputs = inputs * r.randint(1, 2)
    kernel = tuple(r.randint(1, 4) for _ in range(rank))
    picture = tuple(r.choice((1, 4, 5, 9, 16, 17)) for _ in range(rank)) if rank < 3 else (5, 6, 7)
    options = {"stride": r.randint(1, 3), "padding": r.randint(0, 2), "dilation": r.randint(1, 2), "groups": groups}
    dtype, turned = r.floats(0.7), r.random() < 0.3
    x = r.laid((r.size(3), inputs, *picture), dtype)
    if turned:
        w = r.laid((inputs, max(outputs // groups, 1), *kernel), dtype)
        return (lambda x, w: getattr(F, f"conv_transpose{rank}d")(x, w, **options)), [x, w]
    w, b = r.laid((outputs, inputs // groups, *kernel), dtype), r.laid((outputs,), dtype)
    return (lambda x, w, b: getattr(F, f"conv{rank}d")(x, w, b, **options)), [x, w, b]


def pooled(r: Draw) -> Call:
    rank = r.choice((1, 2, 2, 3))
    kernel = r.randint(1, 4)
    options = {"stride": r.randint(1, 3), "padding": r.randint(0, kernel // 2), "ceil_mode": r.random() < 0.5}
    shape = (r.size(3), r.size(9, False), *(r.choice((4, 5, 7, 12, 17)) for _ in range(rank)))
    x, kind = r.laid(shape, r.floats(0.7)), r.choice(("max", "avg", "adaptive"))
    if kind == "adaptive":
        name, to = r.choice(("adaptive_avg_pool", "adaptive_max_pool")), r.randint(1, 5)
        return (lambda x: getattr(F, f"{name}{rank}d")(x, to)), [x]
    return (lambda x: getattr(F, f"{kind}_pool{rank}d")(x, kernel, **options)), [x]


def resized(r: Draw) -> Call:
    shape, to = (
        (r.randint(1, 2), r.randint(1, 4), r.randint(1, 20), r.randint(1, 20)),
        (r.randint(1, 30), r.randint(1, 30)),
    )
    mode, corners = r.choice(("nearest", "bilinear", "bicubic", "area", "nearest-exact")), r.random() < 0.5
    options: dict[str, Any] = {"align_corners": corners} if mode in ("bilinear", "bicubic") else {}
    if not corners and options and r.random() < 0.5:
        options["antialias"] = True
    return (lambda x: F.interpolate(x, to, mode=mode, **options)), [r.laid(shape, r.floats(0.8))]


def sampled_grid(r: Draw) -> Call:
    batch, channels = r.randint(1, 2), r.randint(1, 9)
    options = {
        "mode": r.choice(("bilinear", "nearest")), "padding_mode": r.choice(("zeros", "border", "reflection")),
        "align_corners": r.random() < 0.5,
    }  # fmt: skip
    x = r.laid((batch, channels, r.randint(1, 20), r.randint(1, 20)))
    grid = r.laid((batch, r.randint(1, 9), r.randint(1, 9), 2))
    return (lambda x, grid: F.grid_sample(x, grid, **options)), [x, grid]


def transform(r: Draw) -> Call:
    n, lead = r.choice((1, 2, 3, 5, 7, 8, 11, 13, 17, 30, 64, 97, 128, 210, 1024, 1009, 4096, 5000)), r.shape(1, 4)
    name = r.choice(("fft", "ifft", "rfft", "irfft"))
    norm = r.choice(("backward", "ortho", "forward"))
    to = r.choice((None, None, r.randint(1, 200)))
    dtype = "complex64" if name in ("fft", "ifft", "irfft") and r.random() < 0.7 else "float32"
    return (lambda x: getattr(pyapp.fft, name)(x, n=to, norm=norm)), [r.laid((*lead, n), dtype, learns=False)]


def algebra(r: Draw) -> Call:
    n, lead, dtype = (
        r.choice((1, 2, 3, 5, 16, 17, 32, 33, 40, 65)),
        r.shape(r.randint(0, 1), 3),
        r.choice(("float32", "float64")),
    )
    name = r.choice(("cholesky", "solve", "inv", "det", "qr", "triangular", "eigvalsh", "svdvals"))
    eye = np.eye(n) * 3 * n**0.5
    x = r.laid((*lead, n, n), dtype)
    more = r.laid((*lead, n, r.size(40, False)), dtype)

    def square(a: Tensor) -> Tensor:
        return a + pyapp.tensor(eye).to(a.dtype).to(a.device)

    if name == "cholesky":
        return (lambda a: pyapp.linalg.cholesky(a @ a.mT + square(a * 0))), [x]
    if name == "solve":
        return (lambda a, b: pyapp.linalg.solve(square(a), b)), [x, more]
    if name == "triangular":
        upper = r.random() < 0.5
        return (lambda a, b: pyapp.linalg.solve_triangular(square(a), b, upper=upper)), [x, more]
    if name == "qr":
        return (lambda a: pyapp.linalg.qr(square(a)).R.abs()), [x]
    if name == "eigvalsh":
        return (lambda a: pyapp.linalg.eigvalsh(a + a.mT)), [x]
    return (lambda a: getattr(pyapp.linalg, name)(square(a))), [x]


def distances(r: Draw) -> Call:
    size = r.size(70)
    p = r.choice((1.0, 2.0, float("inf"), 3.0, 0.0))
    dtype = r.floats(0.8)
    return (lambda a, b: pyapp.cdist(a, b, p)), [r.laid((r.size(70), size), dtype), r.laid((r.size(70), size), dtype)]


def triangles(r: Draw) -> Call:
    name, k = r.choice(("tril", "triu")), r.randint(-5, 5)
    return (lambda x: getattr(x, name)(k)), [r.laid(r.shape(r.randint(2, 3)), r.dtype())]


def special(r: Draw) -> Call:
    name = r.choice(("igamma", "igammac", "zeta"))
    one, two = broadcast_pair(r, 2)
    return (lambda x, y: getattr(pyapp.special, {"igamma": "gammainc", "igammac": "gammaincc", "zeta": "zeta"}[name])(
        x.abs() + 1.1, y.abs() + 0.1)), [r.laid(one, learns=False), r.laid(two, learns=False)]  # fmt: skip


def many_rows(r: Draw) -> Call:
    """More than 65,535 rows, which a grid's second dim could not have."""
    count, size = r.choice((65_536, 65_537, 70_001)), r.choice((1, 2, 3))
    name = r.choice(("softmax", "sum", "mean", "amax", "layer_norm", "sort", "cumsum", "gather", "matmul", "bmm"))
    x = r.laid((count, size), "float32", learns=name not in ("sort",))
    if name == "layer_norm":
        return (lambda x: F.layer_norm(x, (size,))), [x]
    if name == "sort":
        return (lambda x: tuple(x.sort(-1, stable=True))), [x]
    if name == "gather":
        return (lambda x, i: x.gather(1, i)), [x, r.places((count, 1), size)]
    if name == "matmul":
        return (lambda x, y: x @ y), [x, r.laid((size, 2))]
    if name == "bmm":
        return (lambda x: x[:, :, None] @ x[:, None]), [x]
    return (lambda x: getattr(x, name)(-1)), [x]


CALLS: dict[str, Callable[[Draw], Call]] = {
    call.__name__: call
    for call in (
        unary, activation, binary, where, cast, copied, joined, reduced, rows, channel_norms, product, linear,
        block_linear, attention, scanned, sorted_rows, gathered, indexed, embedded, losses, convolution, pooled,
        resized, sampled_grid, transform, algebra, distances, triangles, special, many_rows,
    )
}  # fmt: skip


def flat(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    return [x for part in value for x in flat(part)] if isinstance(value, (list, tuple)) else []


def run(call: Call, device: str) -> list[tuple[str, Tensor]] | Exception:
    """Results and gradients on the CPU; or the error."""
    function, inputs = call
    try:
        made = [one.on(device) for one in inputs]
        results = flat(function(*(x for _, x in made)))
        told = [(f"result {i}", x.detach().cpu()) for i, x in enumerate(results)]
        first = next((x for x in results if x.requires_grad and x.is_floating_point() and x.numel()), None)
        if first is not None:
            weights = np.random.default_rng(first.numel()).standard_normal(tuple(first.shape))
            (first * pyapp.tensor(np.asarray(weights)).to(first.dtype).to(device)).sum().backward()
        told += [(f"gradient {i}", x.grad.cpu()) for i, (x, _) in enumerate(made) if x.grad is not None]
        synchronize = getattr(as_device(device).backend, "synchronize", None)
        if synchronize is not None:  # what a kernel has found wrong
            synchronize()
        return told
    except Exception as error:
        return error


def array_of(x: Tensor) -> np.ndarray:
    return np.asarray(x.contiguous().numpy(), np.complex128 if x.dtype.is_complex else np.float64)


def _kinds(error: Any) -> set[type]:
    """Python's own errors that it is; a kernel's come later than the CPU's, with fewer words."""
    kinds = {kind for kind in type(error).__mro__ if kind.__module__ == "builtins"}
    return kinds - {Exception, BaseException, object}


def different(found: Any, expected: Any, near: float) -> str:
    """What is otherwise than on the CPU; "" for nothing."""
    if isinstance(expected, Exception) or isinstance(found, Exception):
        if _kinds(expected) & _kinds(found):
            return ""
        told = [f"{type(x).__name__}: {x}" if isinstance(x, Exception) else "works" for x in (found, expected)]
        return f"{told[0]}; on the CPU {told[1]}"
    if [name for name, _ in found] != [name for name, _ in expected]:
        return f"{[name for name, _ in found]}, on the CPU {[name for name, _ in expected]}"
    for (name, ours), (_, theirs) in zip(found, expected, strict=True):
        if ours.dtype is not theirs.dtype or ours.shape != theirs.shape:
            return f"{name} is {ours.dtype}{list(ours.shape)}, on the CPU {theirs.dtype}{list(theirs.shape)}"
        one, two = array_of(ours), array_of(theirs)
        own = str(theirs.dtype).split(".")[-1]
        if own not in CLOSE:
            if not (one == two).all():
                return f"{name} ({own}{list(one.shape)}): {(one != two).sum()} of {one.size} differ"
            continue
        finite = np.abs(two[np.isfinite(two)])
        close = max(near, CLOSE[own])
        least = 0.3 if name.startswith("gradient") else 0.01  # sums of numbers around 1 that may be 0
        with np.errstate(invalid="ignore"):
            same = np.isclose(one, two, rtol=close, atol=close * float(finite.max(initial=least)), equal_nan=True)
        if not same.all():
            at = tuple(int(i) for i in np.argwhere(~same)[0])
            return (
                f"{name} ({own}{list(one.shape)}): {(~same).sum()} of {one.size} differ, at {at} {one[at]}, {two[at]}"
            )
    return ""


def compare_call(seed: int, only: list[str], device: str) -> str:
    """What a call of this seed shows."""
    r = Draw(seed)
    name = r.choice(only)
    call = CALLS[name](r)
    near = max((CLOSE.get(x.dtype, 0) for x in call[1]), default=0)
    expected = run(call, "cpu")
    told = different(run(call, device), expected, near)
    if not told:
        return ""
    shapes = ", ".join(f"{x.dtype}{list(x.view(pyapp.tensor(x.base)).shape)}" for x in call[1])
    return f"{name}({shapes}): {told}"


def compare_program(seed: int, device: str) -> str:
    """What a program of this seed shows. What the CPU refuses is left out."""
    program = random_programs.Program(seed, pyapp)
    if not program.fits():
        return ""
    given = program.lines, program.inputs, program.names
    try:
        expected = random_programs.results(pyapp, *given)
    except RuntimeError:
        return ""
    pyapp.set_default_device(device)
    try:
        found = random_programs.results(pyapp, *given)
    except Exception as error:
        return f"{type(error).__name__}: {error}\n" + "\n".join(program.lines)
    finally:
        pyapp.set_default_device(None)
    if expected.keys() != found.keys():
        return f"results: {sorted(expected.keys() ^ found.keys())}\n" + "\n".join(program.lines)
    kinds = {kind for kind, _, _ in expected.values()} & CLOSE.keys()  # float64 may come from one of them
    near = max((random_programs.TOLERANCE.get(kind, random_programs.USUAL) for kind in kinds), default=0)
    for name in expected:
        told = random_programs.difference(expected[name], found[name], near)
        if told:
            return f"{name}: {told}\n" + "\n".join(program.lines)
    return ""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=("calls", "programs"))
    parser.add_argument("first", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("--device", default=emulated.DEVICE)
    parser.add_argument("--only", default=",".join(CALLS))
    chosen = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    wrong = 0
    for seed in range(chosen.first, chosen.first + chosen.count):
        if chosen.kind == "calls":
            told = compare_call(seed, chosen.only.split(","), chosen.device)
        else:
            told = compare_program(seed, chosen.device)
        if chosen.device == emulated.DEVICE:
            emulated.check()
        if told:
            wrong += 1
            print(f"{seed}: {told}", flush=True)
    print(f"{chosen.count} {chosen.kind}, {wrong} differ", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
