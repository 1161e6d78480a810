"""python -m bench.op_ratios [REGEX] [--runs 7]

Times common ops beside torch's, forward and backward, on one thread: the processor's time of a call, medians of samples
taken in turn. Prints the largest ratio of ours to torch's first. Needs torch.
"""

from __future__ import annotations

import argparse
import os
import re
import time
from collections.abc import Callable
from statistics import median
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

SAMPLE_SECONDS = 0.01  # a sample repeats its call for at least this long
Case = tuple[Callable[..., Any], tuple[Any, ...]]


def _cell(kind: str) -> Callable[..., Any]:
    """A step of a recurrent cell, by its weights."""

    def call(P: Any, x: Any, h: Any, of_input: Any, of_hidden: Any) -> Any:
        cell = getattr(P.nn, kind)(x.shape[1], h.shape[1], bias=False, dtype=x.dtype)
        state = (h, h) if kind == "LSTMCell" else h
        return P.func.functional_call(cell, {"weight_ih": of_input, "weight_hh": of_hidden}, (x, state))

    return call


def _cases() -> dict[str, Case]:
    """Each op by a name: the call, which takes a package and tensors; and the tensors, as arrays of NumPy. Those of
    floats get gradients where the op has one."""
    import numpy as np

    rng = np.random.default_rng(0)

    def f(*shape: int) -> Any:
        return rng.standard_normal(shape, dtype="float32")

    def u(*shape: int) -> Any:
        return rng.random(shape, dtype="float32") * 0.9 + 0.05

    def i(high: int, *shape: int) -> Any:
        return rng.integers(0, high, shape)

    m, s, v = f(512, 512), f(8), f(1 << 20)
    image, positive = f(4, 32, 56, 56), u(1 << 20)
    found: dict[str, Case] = {}
    for name in (
        "exp log1p expm1 log log2 log10 exp2 sin cos tan tanh sinh cosh asinh atan erf erfc sqrt rsqrt reciprocal abs "
        "neg square sign floor round trunc frac sigmoid relu cumsum sort argsort sum mean std var prod amax argmax "
        "logsumexp norm softmax log_softmax isnan isfinite nonzero flip median topk any all cummax logit erfinv acosh "
        "asin acos atanh lgamma digamma"
    ).split():
        values = positive + 1 if name == "acosh" else positive if name in (
            "log1p log log2 log10 sqrt rsqrt reciprocal logit erfinv asin acos atanh lgamma digamma prod"
        ).split() else v  # fmt: skip
        rest: tuple[Any, ...] = {
            "cumsum": (0,), "softmax": (-1,), "log_softmax": (-1,), "logsumexp": (-1,), "flip": (0,), "topk": (10,),
            "cummax": (0,),
        }.get(name, ())  # fmt: skip
        found[name] = (lambda P, x, name=name, rest=rest: getattr(x, name)(*rest), (values,))
    for name in "sum mean amax argmax softmax log_softmax cumsum std sort logsumexp median".split():
        for dim in (0, 1):
            found[f"{name} 512x512 dim {dim}"] = (lambda P, x, name=name, dim=dim: getattr(x, name)(dim), (m,))
    activations = (
        "elu gelu silu softplus mish leaky_relu hardswish selu celu softsign tanhshrink hardtanh logsigmoid relu6"
    )
    for name in activations.split():
        found[name] = (lambda P, x, name=name: getattr(P.nn.functional, name)(x), (v,))
    for name in "add mul div sub maximum pow atan2 fmod remainder eq lt hypot".split():
        found[f"{name} 1M"] = (lambda P, x, y, name=name: getattr(P, name)(x, y), (positive, u(1 << 20)))
        found[f"{name} 8"] = (lambda P, x, y, name=name: getattr(P, name)(x, y), (u(8), u(8)))
    integers = i(1000, 1 << 20)
    found |= {
        "clamp int64": (lambda P, x: x.clamp(10, 500), (integers,)),
        "clamp int32": (lambda P, x: x.clamp(10, 500), (integers.astype("int32"),)),
        "add int64": (lambda P, x: x + 3, (integers,)),
        "mul int32": (lambda P, x: x * 3, (integers.astype("int32"),)),
        "floor_divide int64": (lambda P, x: x // 3, (integers,)),
        "remainder int64": (lambda P, x: x % 3, (integers,)),
        "eq int64": (lambda P, x: x == 3, (integers,)),
        "sum int64": (lambda P, x: x.sum(), (integers,)),
        "sum bool": (lambda P, x: (x > 0).sum(), (v,)),
        "abs int32": (lambda P, x: x.abs(), (integers.astype("int32"),)),
        "unique": (lambda P, x: P.unique(x), (integers,)),
        "unique 1000": (lambda P, x: P.unique(x), (i(100, 1000),)),
        "unique inverse counts": (
            lambda P, x: P.unique(x, return_inverse=True, return_counts=True),
            (i(1000, 100000),),
        ),
        "bincount": (lambda P, x: P.bincount(x), (integers,)),
        "histc": (lambda P, x: P.histc(x, 100), (v,)),
        "one_hot": (lambda P, x: P.nn.functional.one_hot(x, 100), (i(100, 1000),)),
        "isin": (lambda P, x, y: P.isin(x, y), (i(1000, 100000), i(1000, 10))),
        "searchsorted": (lambda P, x, y: P.searchsorted(x, y), (np.sort(f(1000)), f(100000))),
        "bucketize": (lambda P, x, y: P.bucketize(y, x), (np.sort(f(1000)), f(100000))),
        "cast int64 float": (lambda P, x: x.float(), (integers,)),
        "cast float int64": (lambda P, x: x.long(), (v,)),
        "cast float bf16": (lambda P, x: x.bfloat16(), (v,)),
        "cast float half": (lambda P, x: x.half(), (v,)),
        "cast float double": (lambda P, x: x.double(), (v,)),
        "where": (lambda P, x, y: P.where(x > 0, x, y), (m, f(512, 512))),
        "masked_fill": (lambda P, x: x.masked_fill(x > 0, 0.0), (m,)),
        "masked_select": (lambda P, x: x[x > 0], (m,)),
        "gather": (lambda P, x, y: x.gather(1, y), (m, i(512, 512, 512))),
        "scatter_add": (lambda P, x, y: P.zeros(512, 512).scatter_add(1, y, x), (m, i(512, 512, 512))),
        "scatter_add columns": (lambda P, x, y: x.scatter_add(0, y, x), (m, i(512, 512, 512))),
        "scatter_reduce amax": (lambda P, x, y: x.scatter_reduce(1, y, x, "amax"), (m, i(512, 512, 512))),
        "index_reduce": (lambda P, x, y: x.index_reduce(0, y, x, "amax"), (m, i(512, 512))),
        "gather expanded": (lambda P, x, y: x.gather(0, y[:, None].expand(-1, 64)), (f(2000, 64), i(2000, 20000))),
        "scatter_add expanded": (
            lambda P, x, y: P.zeros(2000, 64).scatter_add(0, y[:, None].expand(-1, 64), x),
            (f(20000, 64), i(2000, 20000)),
        ),
        "index_select": (lambda P, x, y: x.index_select(0, y), (m, i(512, 512))),
        "index rows": (lambda P, x, y: x[y], (m, i(512, 512))),
        "index_add": (lambda P, x, y: x.index_add(0, y, x), (m, i(512, 512))),
        "take_along_dim": (lambda P, x, y: P.take_along_dim(x, y, 1), (m, i(512, 512, 512))),
        "cat": (lambda P, x, y: P.cat([x, y], 1), (m, m)),
        "stack": (lambda P, x, y: P.stack([x, y], 1), (m, m)),
        "chunk": (lambda P, x: [y * 2 for y in x.chunk(4, 1)][0], (m,)),
        "transpose copy": (lambda P, x: x.t().contiguous(), (f(1024, 1024),)),
        "permute copy": (lambda P, x: x.permute(0, 2, 3, 1).contiguous(), (image,)),
        "roll": (lambda P, x: x.roll(3, 1), (m,)),
        "tril": (lambda P, x: x.tril(), (m,)),
        "repeat": (lambda P, x: x.repeat(2, 2), (m,)),
        "repeat_interleave": (lambda P, x: x.repeat_interleave(2, 1), (m,)),
        "pad": (lambda P, x: P.nn.functional.pad(x, (1, 1, 1, 1)), (image,)),
        "pad reflect": (lambda P, x: P.nn.functional.pad(x, (1, 1, 1, 1), mode="reflect"), (image,)),
        "unfold": (lambda P, x: P.nn.functional.unfold(x, 3, padding=1), (image,)),
        "fold": (lambda P, x: P.nn.functional.fold(x, (56, 56), 3, padding=1), (f(4, 288, 3136),)),
        "diff": (lambda P, x: x.diff(), (m,)),
        "outer": (lambda P, x: P.outer(x, x), (f(512),)),
        "lerp": (lambda P, x, y: P.lerp(x, y, 0.3), (m, m)),
        "addcmul": (lambda P, x, y: P.addcmul(x, x, y, value=0.3), (m, m)),
        "add row": (lambda P, x, y: x + y, (m, f(512))),
        "add column": (lambda P, x, y: x + y, (m, f(512, 1))),
        "pow 2": (lambda P, x: x**2, (v,)),
        "pow 3": (lambda P, x: x**3, (v,)),
        "pow 0.5": (lambda P, x: x**0.5, (positive,)),
        "pow 1.7": (lambda P, x: x**1.7, (positive,)),
        "dropout": (lambda P, x: P.nn.functional.dropout(x, 0.1), (v,)),
        "normalize": (lambda P, x: P.nn.functional.normalize(x, dim=1), (m,)),
        "cosine_similarity": (lambda P, x, y: P.nn.functional.cosine_similarity(x, y), (m, f(512, 512))),
        "pairwise_distance": (lambda P, x, y: P.nn.functional.pairwise_distance(x, y), (m, f(512, 512))),
        "cdist": (lambda P, x, y: P.cdist(x, y), (f(256, 64), f(256, 64))),
        "cdist 1": (lambda P, x, y: P.cdist(x, y, 1), (f(256, 64), f(256, 64))),
        "pdist": (lambda P, x: P.pdist(x), (f(256, 64),)),
        "layer_norm": (lambda P, x: P.nn.functional.layer_norm(x, (512,)), (m,)),
        "rms_norm": (lambda P, x: P.nn.functional.rms_norm(x, (512,)), (m,)),
        "batch_norm": (lambda P, x: P.nn.functional.batch_norm(x, None, None, training=True), (image,)),
        "group_norm": (lambda P, x: P.nn.functional.group_norm(x, 8), (image,)),
        "instance_norm": (lambda P, x: P.nn.functional.instance_norm(x), (image,)),
        "local_response_norm": (lambda P, x: P.nn.functional.local_response_norm(x, 5), (image,)),
        "max_pool2d": (lambda P, x: P.nn.functional.max_pool2d(x, 2), (image,)),
        "avg_pool2d": (lambda P, x: P.nn.functional.avg_pool2d(x, 2), (image,)),
        "adaptive_avg_pool2d": (lambda P, x: P.nn.functional.adaptive_avg_pool2d(x, 7), (image,)),
        "adaptive_max_pool2d": (lambda P, x: P.nn.functional.adaptive_max_pool2d(x, 7), (image,)),
        "conv1d": (lambda P, x, w: P.nn.functional.conv1d(x, w, padding=1), (f(4, 64, 512), f(64, 64, 3))),
        "conv2d": (lambda P, x, w: P.nn.functional.conv2d(x, w, padding=1), (image, f(32, 32, 3, 3))),
        "conv3d": (lambda P, x, w: P.nn.functional.conv3d(x, w, padding=1), (f(1, 16, 8, 28, 28), f(16, 16, 3, 3, 3))),
        "conv_transpose2d": (
            lambda P, x, w: P.nn.functional.conv_transpose2d(x, w, stride=2),
            (f(2, 32, 28, 28), f(32, 16, 3, 3)),
        ),
        "interpolate nearest": (lambda P, x: P.nn.functional.interpolate(x, scale_factor=2), (image,)),
        "interpolate bilinear": (
            lambda P, x: P.nn.functional.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False),
            (image,),
        ),
        "grid_sample": (
            lambda P, x, g: P.nn.functional.grid_sample(x, g, align_corners=False),
            (image, (f(4, 56, 56, 2) * 0.5)),
        ),
        "grid_sample border": (
            lambda P, x, g: P.nn.functional.grid_sample(x, g, padding_mode="border", align_corners=True),
            (image, (f(4, 56, 56, 2) * 0.5)),
        ),
        "grid_sample nearest": (
            lambda P, x, g: P.nn.functional.grid_sample(x, g, mode="nearest", align_corners=False),
            (image, (f(4, 56, 56, 2) * 0.5)),
        ),
        "grid_sample 3d": (
            lambda P, x, g: P.nn.functional.grid_sample(x, g, align_corners=False),
            (f(1, 16, 16, 28, 28), (f(1, 16, 28, 28, 3) * 0.5)),
        ),
        "affine_grid": (
            lambda P, x: P.nn.functional.affine_grid(x, (4, 3, 56, 56), align_corners=False),
            (f(4, 2, 3),),
        ),
        "pixel_shuffle": (lambda P, x: P.nn.functional.pixel_shuffle(x, 2), (image,)),
        "embedding": (lambda P, x, w: P.nn.functional.embedding(x, w), (i(5000, 32, 64), f(5000, 128))),
        "embedding_bag mean": (lambda P, x, w: P.nn.functional.embedding_bag(x, w), (i(5000, 256, 32), f(5000, 128))),
        "embedding_bag sum": (
            lambda P, x, w: P.nn.functional.embedding_bag(x, w, mode="sum"),
            (i(5000, 256, 32), f(5000, 128)),
        ),
        "embedding_bag max": (
            lambda P, x, w: P.nn.functional.embedding_bag(x, w, mode="max"),
            (i(5000, 256, 32), f(5000, 128)),
        ),
        "embedding_bag offsets": (
            lambda P, x, o, w: P.nn.functional.embedding_bag(x, w, o, mode="mean"),
            (i(5000, 8192), np.arange(0, 8192, 32), f(5000, 128)),
        ),
        "nll_loss": (lambda P, x, t: P.nn.functional.nll_loss(x, t), (f(64, 10), i(10, 64))),
        "nll_loss 4096x1000": (lambda P, x, t: P.nn.functional.nll_loss(x, t), (f(4096, 1000), i(1000, 4096))),
        "cross_entropy": (lambda P, x, t: P.nn.functional.cross_entropy(x, t), (f(64, 10), i(10, 64))),
        "cross_entropy 512x5000": (lambda P, x, t: P.nn.functional.cross_entropy(x, t), (f(512, 5000), i(5000, 512))),
        "cross_entropy smoothed": (
            lambda P, x, t: P.nn.functional.cross_entropy(x, t, label_smoothing=0.1),
            (f(64, 1000), i(1000, 64)),
        ),
        "cross_entropy image": (
            lambda P, x, t: P.nn.functional.cross_entropy(x, t),
            (f(2, 21, 64, 64), i(21, 2, 64, 64)),
        ),
        "mse_loss": (lambda P, x, y: P.nn.functional.mse_loss(x, y), (m, f(512, 512))),
        "mse_loss 8": (lambda P, x, y: P.nn.functional.mse_loss(x, y), (s, f(8))),
        "l1_loss": (lambda P, x, y: P.nn.functional.l1_loss(x, y), (m, f(512, 512))),
        "smooth_l1_loss": (lambda P, x, y: P.nn.functional.smooth_l1_loss(x, y), (m, f(512, 512))),
        "huber_loss": (lambda P, x, y: P.nn.functional.huber_loss(x, y), (m, f(512, 512))),
        "kl_div": (lambda P, x, y: P.nn.functional.kl_div(x, y, reduction="batchmean"), (m, u(512, 512))),
        "binary_cross_entropy": (
            lambda P, x, y: P.nn.functional.binary_cross_entropy(x, y),
            (u(512, 512), u(512, 512)),
        ),
        "bce with logits": (lambda P, x, y: P.nn.functional.binary_cross_entropy_with_logits(x, y), (m, u(512, 512))),
        "cosine_embedding_loss": (
            lambda P, x, y, t: P.nn.functional.cosine_embedding_loss(x, y, t * 2 - 1),
            (m, f(512, 512), i(2, 512)),
        ),
        "triplet_margin_loss": (
            lambda P, x, y, z: P.nn.functional.triplet_margin_loss(x, y, z),
            (m, f(512, 512), f(512, 512)),
        ),
        "margin_ranking_loss": (
            lambda P, x, y, t: P.nn.functional.margin_ranking_loss(x, y, t * 2 - 1),
            (f(512), f(512), i(2, 512)),
        ),
        "multi_margin_loss": (lambda P, x, t: P.nn.functional.multi_margin_loss(x, t), (f(64, 100), i(100, 64))),
        "gaussian_nll_loss": (
            lambda P, x, y, z: P.nn.functional.gaussian_nll_loss(x, y, z),
            (m, f(512, 512), u(512, 512)),
        ),
        "poisson_nll_loss": (lambda P, x, y: P.nn.functional.poisson_nll_loss(x, y), (m, u(512, 512))),
        "matmul 512": (lambda P, x, y: x @ y, (m, f(512, 512))),
        "matmul 512 bf16": (lambda P, x, y: x.bfloat16() @ y.bfloat16(), (m, f(512, 512))),
        "matmul 2048 bf16": (lambda P, x, y: x.bfloat16() @ y.bfloat16(), (f(2048, 2048), f(2048, 2048))),
        "matmul 512 half": (lambda P, x, y: x.half() @ y.half(), (m, f(512, 512))),
        "matmul 512 double": (lambda P, x, y: x @ y, (m.astype("float64"), f(512, 512).astype("float64"))),
        "matmul 8": (lambda P, x, y: x @ y, (f(8, 8), f(8, 8))),
        "matmul vector": (lambda P, x, y: x @ y, (f(1024, 1024), f(1024))),
        "bmm": (lambda P, x, y: P.bmm(x, y), (f(32, 64, 64), f(32, 64, 64))),
        "bmm small": (lambda P, x, y: P.bmm(x, y), (f(512, 8, 8), f(512, 8, 8))),
        "einsum": (lambda P, x, y: P.einsum("bij,bkj->bik", x, y), (f(32, 64, 64), f(32, 64, 64))),
        "linear": (lambda P, x, w, b: P.nn.functional.linear(x, w, b), (f(128, 512), f(512, 512), f(512))),
        "linear bf16": (lambda P, x, w: P.nn.functional.linear(x.bfloat16(), w.bfloat16()), (f(128, 512), f(512, 512))),
        "bilinear": (lambda P, x, y, w: P.nn.functional.bilinear(x, y, w), (f(64, 32), f(64, 32), f(16, 32, 32))),
        "attention": (
            lambda P, q, k, w: P.nn.functional.scaled_dot_product_attention(q, k, w),
            tuple(f(2, 8, 128, 64) for _ in range(3)),
        ),
        "attention of a row": (
            lambda P, q, k, w, b: P.nn.functional.scaled_dot_product_attention(q, k, w, b > 0),
            (f(2, 8, 1, 64), f(2, 8, 256, 64), f(2, 8, 256, 64), u(2, 1, 1, 256)),
        ),
        "conv2d small": (
            lambda P, x, w, b: P.nn.functional.conv2d(x, w, b, padding=1),
            (f(1, 16, 8, 8), f(16, 16, 3, 3), f(16)),
        ),
        "conv1d small": (
            lambda P, x, w, b: P.nn.functional.conv1d(x, w, b, padding=1),
            (f(1, 16, 32), f(16, 16, 3), f(16)),
        ),
        "batch_norm small": (
            lambda P, x, m, v, w, b: P.nn.functional.batch_norm(x, m.detach(), v.detach(), w, b),
            (f(1, 16, 8, 8), f(16), u(16), f(16), f(16)),
        ),
        "interpolate small": (lambda P, x: P.nn.functional.interpolate(x, scale_factor=2), (f(1, 16, 8, 8),)),
        "gru_cell": (_cell("GRUCell"), (f(8, 32), f(8, 64), f(192, 32), f(192, 64))),
        "lstm_cell double": (
            _cell("LSTMCell"),
            tuple(a.astype("float64") for a in (f(8, 32), f(8, 64), f(256, 32), f(256, 64))),
        ),
        "gru_cell double": (
            _cell("GRUCell"),
            tuple(a.astype("float64") for a in (f(8, 32), f(8, 64), f(192, 32), f(192, 64))),
        ),
        "prelu": (lambda P, x, w: P.nn.functional.prelu(x, w), (m, f(1))),
        "transposed to half": (lambda P, x: x.t().half(), (m,)),
        "transposed in place": (lambda P, x: x.detach().t().mul_(1.0), (m,)),
        "any bf16 rows": (lambda P, x: x.bfloat16().any(1), (m,)),
        "pow 2 bf16": (lambda P, x: x.bfloat16() ** 2, (m,)),
        "cross_entropy weights": (
            lambda P, x, t, w: P.nn.functional.cross_entropy(x, t, w.detach()),
            (f(16, 10), i(10, 16), u(10)),
        ),
        "unbind": (lambda P, x: x.unbind(), (f(256, 64),)),
        "var": (lambda P, x: x.var(), (s,)),
        "fft 1024": (lambda P, x: P.fft.fft(x), (f(64, 1024),)),
        "fft 1000": (lambda P, x: P.fft.fft(x), (f(64, 1000),)),
        "fft 1009": (lambda P, x: P.fft.fft(x), (f(64, 1009),)),
        "fft complex": (lambda P, x: P.fft.fft(P.complex(x, x)), (f(64, 1024),)),
        "fft 8": (lambda P, x: P.fft.fft(x), (f(8),)),
        "fft 1M": (lambda P, x: P.fft.fft(x), (v,)),
        "ifft": (lambda P, x: P.fft.ifft(x), (f(64, 1024),)),
        "rfft": (lambda P, x: P.fft.rfft(x), (f(64, 1024),)),
        "rfft 400": (lambda P, x: P.fft.rfft(x), (f(300, 400),)),
        "irfft": (lambda P, x: P.fft.irfft(P.fft.rfft(x)), (f(64, 1024),)),
        "fft2": (lambda P, x: P.fft.fft2(x), (f(4, 128, 128),)),
        "rfft2": (lambda P, x: P.fft.rfft2(x), (f(4, 128, 128),)),
        "fft2 512": (lambda P, x: P.fft.fft2(x), (m,)),
        "stft": (
            lambda P, x, w: P.stft(x, 400, 160, window=w, return_complex=True).abs(),
            (f(1, 48000), np.hanning(400).astype("float32")),
        ),
        "fftshift": (lambda P, x: P.fft.fftshift(x), (m,)),
        "hann_window": (lambda P: P.hann_window(400), ()),
        "lstsq": (lambda P, x, y: P.linalg.lstsq(x, y).solution, (f(256, 64), f(256, 4))),
        "solve": (lambda P, x, y: P.linalg.solve(x, y), (f(128, 128), f(128, 4))),
        "inv": (lambda P, x: P.linalg.inv(x), (f(128, 128),)),
        "det": (lambda P, x: P.linalg.det(x), (f(64, 64),)),
        "cholesky": (lambda P, x: P.linalg.cholesky(x @ x.mT + 200 * P.eye(128)), (f(128, 128),)),
        "qr": (lambda P, x: P.linalg.qr(x)[0], (f(128, 64),)),
        "svd": (lambda P, x: P.linalg.svdvals(x), (f(128, 64),)),
        "eigh": (lambda P, x: P.linalg.eigvalsh(x + x.mT), (f(128, 128),)),
        "pinv": (lambda P, x: P.linalg.pinv(x), (f(128, 64),)),
        "matrix_exp": (lambda P, x: P.matrix_exp(x), (f(64, 64) * 0.1,)),
        "inv batch": (lambda P, x: P.linalg.inv(x), (f(512, 4, 4),)),
        "vector_norm": (lambda P, x: P.linalg.vector_norm(x, dim=1), (m,)),
        "norm 1": (lambda P, x: P.norm(x, p=1), (m,)),
        "cross": (lambda P, x, y: P.linalg.cross(x, y), (f(10000, 3), f(10000, 3))),
        "cov": (lambda P, x: P.cov(x), (f(64, 1000),)),
        "corrcoef": (lambda P, x: P.corrcoef(x), (f(64, 1000),)),
        "randperm": (lambda P: P.randperm(10000), ()),
        "randperm 1M": (lambda P: P.randperm(1 << 20), ()),
        "rand": (lambda P: P.rand(1 << 20), ()),
        "randn": (lambda P: P.randn(1 << 20), ()),
        "randint": (lambda P: P.randint(0, 100, (1 << 20,)), ()),
        "bernoulli": (lambda P, x: P.bernoulli(x), (positive,)),
        "multinomial": (lambda P, x: P.multinomial(x, 10), (u(64, 1000),)),
        "exponential": (lambda P: P.empty(1 << 20).exponential_(), ()),
        "arange": (lambda P: P.arange(1 << 20), ()),
        "linspace": (lambda P: P.linspace(0, 1, 1 << 20), ()),
        "zeros": (lambda P: P.zeros(1 << 20), ()),
        "full 8": (lambda P: P.full((8,), 2.0), ()),
        "tensor list": (lambda P: P.tensor([1.0, 2.0, 3.0]), ()),
        "eye": (lambda P: P.eye(512), ()),
        "meshgrid": (lambda P, x, y: P.stack(P.meshgrid(x, y, indexing="ij")), (f(512), f(512))),
        "kthvalue": (lambda P, x: x.kthvalue(100, 1)[0], (m,)),
        "quantile": (lambda P, x: P.quantile(x, 0.3, 1), (m,)),
        "topk rows": (lambda P, x: x.topk(10, 1)[0], (m,)),
        "mode": (lambda P, x: x.mode(1)[0], (i(20, 512, 512),)),
        "logcumsumexp": (lambda P, x: x.logcumsumexp(1), (m,)),
        "cumprod": (lambda P, x: x.cumprod(1), (u(512, 512),)),
        "trapezoid": (lambda P, x: P.trapezoid(x), (m,)),
        "nan_to_num": (lambda P, x: x.nan_to_num(), (m,)),
        "clamp": (lambda P, x: x.clamp(-1, 1), (v,)),
        "clamp min": (lambda P, x: x.clamp(min=0.1), (v,)),
        "log_softmax small": (lambda P, x: x.log_softmax(-1), (f(8, 10),)),
        "softmax small": (lambda P, x: x.softmax(-1), (f(8, 10),)),
        "sum 8": (lambda P, x: x.sum(), (s,)),
        "exp 8": (lambda P, x: x.exp(), (s,)),
        "nonzero of a mask": (lambda P, x: (x > 0).nonzero(), (m,)),
        "randint 8": (lambda P: P.randint(0, 100, (8,)), ()),
        "choice of four": (lambda P, x: P.multinomial(x, 1, True), (u(1, 4),)),
        "add double": (lambda P, x, y: x + y, (m.astype("float64"), f(512, 512).astype("float64"))),
        "exp of a slice": (lambda P, x: x[:, :256].exp(), (m,)),
        "div 8x8": (lambda P, x, y: x / y, (f(8, 8), u(8, 8))),
        "norm 8": (lambda P, x: x.norm(), (s,)),
        "chain of six": (lambda P, x, y: ((x * y).tanh() + 1.0).exp().mean(), (f(8, 8), f(8, 8))),
        "item": (lambda P, x: x[0].item(), (s,)),
        "view 8": (lambda P, x: x.view(2, 4), (s,)),
        "slice 8": (lambda P, x: x[2:5], (s,)),
        "relu 8": (lambda P, x: x.relu(), (s,)),
        "max_pool2d int64": (lambda P, x: P.nn.functional.max_pool2d(x, 2), (i(100, 4, 32, 56, 56),)),
        "max_pool1d double": (lambda P, x: P.nn.functional.max_pool1d(x, 3), (m.astype("float64"),)),
        "flip bytes": (lambda P, x: x.flip(1), (i(100, 1024, 1024).astype("uint8"),)),
        "flip int64": (lambda P, x: x.flip(1), (i(100, 512, 512),)),
        "transpose copy half": (lambda P, x: x.half().t().contiguous(), (m,)),
        "transpose copy bytes": (lambda P, x: x.t().contiguous(), (i(100, 1024, 1024).astype("uint8"),)),
        "any int64": (lambda P, x: (x > 1000).any() | (x * 0).any(), (integers,)),
        "amax double": (lambda P, x: x.amax(1), (m.astype("float64"),)),
        "sum columns double": (lambda P, x: x.sum(0), (m.astype("float64"),)),
        "sum columns int64": (lambda P, x: x.sum(0), (i(100, 512, 512),)),
        "max bf16": (lambda P, x: x.bfloat16().max(), (m,)),
        "scatter int64": (lambda P, x, y: x.scatter(1, y, x), (i(100, 512, 512), i(512, 512, 512))),
        "scatter_add double": (lambda P, x, y: x.scatter_add(1, y, x), (m.astype("float64"), i(512, 512, 512))),
        "add in place int64": (lambda P, x: x.add_(0), (integers,)),
        "relu in place": (lambda P, x: P.nn.functional.relu(x * 1.0, inplace=True), (m,)),
        "batch_norm rows": (lambda P, x: P.nn.functional.batch_norm(x, None, None, training=True), (f(32, 64),)),
        "batch_norm small maps": (
            lambda P, x: P.nn.functional.batch_norm(x, None, None, training=True),
            (f(64, 128, 2, 2),),
        ),
        "group_norm rows": (lambda P, x: P.nn.functional.group_norm(x, 4), (f(8, 8),)),
        "cross_entropy none": (
            lambda P, x, t: P.nn.functional.cross_entropy(x, t, reduction="none"),
            (f(256, 256), i(256, 256)),
        ),
        "topk int64": (lambda P, x: x.topk(4, 1)[0], (i(1000, 256, 256),)),
        "expand": (lambda P, x: x.expand(2, 256, 256), (f(256, 256),)),
        "embedding bf16": (
            lambda P, x, w: P.nn.functional.embedding(x, w.bfloat16()),
            (i(256, 256), f(256, 256)),
        ),
        "layer_norm bf16": (lambda P, x: P.nn.functional.layer_norm(x.bfloat16(), (512,)), (m,)),
        "layer_norm bf16 large": (lambda P, x: P.nn.functional.layer_norm(x.bfloat16(), (2048,)), (f(2048, 2048),)),
        "sum columns bf16": (lambda P, x: x.bfloat16().sum(0), (f(2048, 2048),)),
        "i0": (lambda P, x: P.i0(x), (m,)),
        "i1": (lambda P, x: P.special.i1(x), (m,)),
        "bessel_j0": (lambda P, x: P.special.bessel_j0(x), (m,)),
        "ndtri": (lambda P, x: P.special.ndtri(x), (u(512, 512),)),
        "lu_factor 64": (lambda P, x: P.linalg.lu_factor(x)[0], (f(64, 64),)),
        "lu_factor 512": (lambda P, x: P.linalg.lu_factor(x)[0], (m,)),
        "attention of few": (lambda P, x: P.nn.functional.scaled_dot_product_attention(x, x, x), (f(2, 4, 8),)),
        "points": (lambda P, x, y: x[y, y], (f(8, 8), i(8, 8))),
        "equal 8": (lambda P, x: P.equal(x, x), (s,)),
        "tensor of a number": (lambda P: P.tensor(3.0), ()),
        "batch_norm bf16": (
            lambda P, x, w, b: P.nn.functional.batch_norm(
                x.bfloat16(), None, None, w.bfloat16(), b.bfloat16(), training=True
            ),
            (m, f(512), f(512)),
        ),
        "rows of a list": (lambda P, x: x.bfloat16()[[0, 2, 3]], (m,)),
        "solve_triangular": (
            lambda P, x, y: P.linalg.solve_triangular(x + 32 * P.eye(256), y, upper=False),
            (f(256, 256), f(256, 256)),
        ),
        "lerp weights": (lambda P, x, y, w: P.lerp(x, y, w), (m, f(512, 512), u(512, 512))),
        "regression": (
            lambda P, x, y, w, b: ((x.detach() * w + b - y.detach()) ** 2).mean(),
            (f(10, 1), f(10, 1), f(1), f(1)),
        ),
        "bce with logits small": (lambda P, x, y: P.nn.functional.binary_cross_entropy_with_logits(x, y), (s, u(8))),
        "multinomial replaced": (lambda P, x: P.multinomial(x, 1, True), (u(32, 8),)),
        "add in place alpha": (lambda P, x, y: x.detach().add_(y.detach(), alpha=0.1), (s, f(8))),
        "rows of a column": (lambda P, x, y: x[y, 0], (f(60, 4), i(60, 40))),
        "multinomial of one": (lambda P, x: P.multinomial(x, 1), (u(8),)),
        "scatter_reduce mean expanded": (
            lambda P, x, y: P.zeros(2000, 64).scatter_reduce(
                0, y[:, None].expand(-1, 64), x, "mean", include_self=False
            ),
            (f(20000, 64), i(2000, 20000)),
        ),
        "pad_sequence": (
            lambda P, x: P.nn.utils.rnn.pad_sequence([x[: 5 + k] for k in range(50)], batch_first=True),
            (f(60),),
        ),
        "uniform in place": (lambda P, x: x.detach().uniform_(-1, 1), (m,)),
        "vmap of grad": (
            lambda P, x, w: P.func.vmap(P.func.grad(lambda a, b: (a @ b).square()), (None, 0))(w.detach(), x.detach()),
            (f(32, 10), f(10)),
        ),
        "complex mul": (lambda P, x, y: P.complex(x, y) * P.complex(y, x), (m, m)),
        "complex abs": (lambda P, x, y: P.complex(x, y).abs(), (m, m)),
        "complex matmul": (lambda P, x, y: (P.complex(x, y) @ P.complex(y, x)).real, (f(128, 128), f(128, 128))),
    }
    return found


def _first_floats(y: Any) -> Any:
    while isinstance(y, (tuple, list)):
        y = y[0]
    return y


def _sample(call: Callable[[], Any]) -> float:
    """Microseconds of the processor for a call."""
    count, start = 0, time.process_time()
    while (spent := time.process_time() - start) < SAMPLE_SECONDS or not count:
        call()
        count += 1
    return 1e6 * spent / count


def _calls(P: Any, case: Case) -> dict[str, Callable[[], Any]]:
    call, arrays = case
    plain = [P.from_numpy(a.copy()) for a in arrays]

    def forward() -> None:
        with P.no_grad():
            call(P, *plain)

    calls: dict[str, Callable[[], Any]] = {"forward": forward}
    leaves = [P.from_numpy(a.copy()).requires_grad_() if a.dtype.kind == "f" else P.from_numpy(a) for a in arrays]
    y = _first_floats(call(P, *leaves))
    if getattr(y, "requires_grad", False):
        g = P.ones_like(y.detach())
        wanted = [x for x in leaves if x.requires_grad]

        def both() -> None:
            P.autograd.grad(_first_floats(call(P, *leaves)), wanted, g, allow_unused=True)

        calls["and backward"] = both
    return calls


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("only", nargs="?", default="", help="ops whose name this regular expression finds")
    parser.add_argument("--runs", type=int, default=7, help="samples of each figure")
    arguments = parser.parse_args()
    import torch

    import pyapp

    pyapp.set_num_threads(1)
    torch.set_num_threads(1)
    rows = []
    for name, case in _cases().items():
        if not re.search(arguments.only, name):
            continue
        try:
            ours, theirs = _calls(pyapp, case), _calls(torch, case)
            for way in ours.keys() & theirs.keys():
                samples: tuple[list[float], list[float]] = ([], [])
                for turn in range(arguments.runs + 1):
                    a, b = _sample(ours[way]), _sample(theirs[way])
                    if turn:  # the first warms up
                        samples[0].append(a)
                        samples[1].append(b)
                a, b = median(samples[0]), median(samples[1])
                rows.append((a / b, f"{name}, {way}", a, b))
        except Exception as error:
            print(f"{name}: {type(error).__name__}: {error}")
    for ratio, name, a, b in sorted(rows, reverse=True):
        print(f"{ratio:6.2f}  {name:42} {a:12.1f} us, torch {b:12.1f} us")


if __name__ == "__main__":
    main()
