"""Names that older programs call: kernels by torch's own names, constructors of tensors, modules of devices."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from typing import Any


def wave(P: Any, *shape: int) -> Any:
    return P.arange(float(math.prod(shape))).reshape(shape).sin()


def _module(P: Any, name: str) -> Any:
    return importlib.import_module(f"{P.__name__}.{name}")


def _sparse(P: Any) -> Any:
    x = P.sparse.FloatTensor(P.LongTensor([[0, 1, 1], [2, 0, 2]]), P.FloatTensor([3, 4, 5]), P.Size([2, 3]))
    return x.to_dense(), isinstance(x, P.sparse.FloatTensor), isinstance(x, P.sparse.DoubleTensor)


def _divergences(P: Any) -> Any:
    d, a, b = P.distributions, P.tensor([1.0, 2.0]), P.tensor([2.0, 0.5])
    one, other = P.tensor([[2.0, 0.5], [0.5, 1.0]]), P.tensor([[1.0, 0.2], [0.2, 1.0]])
    return (
        d.kl_divergence(d.HalfCauchy(a), d.HalfCauchy(b)),
        d.kl_divergence(d.InverseGamma(a, b), d.InverseGamma(b, a)),
        d.kl_divergence(d.Wishart(P.tensor(4.0), one), d.Wishart(P.tensor(5.0), other)),
    )


def _kept_mode(P: Any) -> Any:
    before = P.get_deterministic_debug_mode()
    found = []
    for mode in ("default", "warn", "error", 1):
        P.set_deterministic_debug_mode(mode)
        found.append(P.get_deterministic_debug_mode())
    P.set_deterministic_debug_mode(before)
    return tuple(found)


OLD_CALLS: dict[str, Callable[[Any], Any]] = {
    "conv_tbc": lambda P: P.conv_tbc(wave(P, 5, 2, 3), wave(P, 3, 3, 4), wave(P, 4), 1),
    "convolution": lambda P: P.convolution(
        wave(P, 1, 2, 4, 4), wave(P, 4, 1, 3, 3), None, [1, 1], [1, 1], [1, 1], False, [0, 0], 2
    ),
    "convolution, transposed": lambda P: P.convolution(
        wave(P, 1, 3, 4), wave(P, 3, 2, 3), wave(P, 2), [2], [1], [1], True, [1], 1
    ),
    "grid_sampler": lambda P: P.grid_sampler(wave(P, 1, 2, 4, 4), wave(P, 1, 3, 3, 2), 0, 1, False),
    "affine_grid_generator": lambda P: P.affine_grid_generator(wave(P, 1, 2, 3), [1, 2, 3, 4], False),
    "norm_except_dim": lambda P: tuple(P.norm_except_dim(wave(P, 2, 3, 4), 2, dim) for dim in (0, 1, -1)),
    "native_layer_norm": lambda P: P.native_layer_norm(wave(P, 2, 3, 4), [3, 4], None, None, 1e-5),
    "native_group_norm": lambda P: P.native_group_norm(
        wave(P, 2, 4, 3, 1), wave(P, 4), wave(P, 4), 2, 4, 3, 2, 1e-5
    ),
    "nn.grad of an input": lambda P: _module(P, "nn.grad").conv2d_input(
        (1, 2, 4, 4), wave(P, 3, 2, 3, 3), wave(P, 1, 3, 4, 4), padding=1
    ),
    "nn.grad of a weight": lambda P: _module(P, "nn.grad").conv1d_weight(
        wave(P, 2, 2, 6), (4, 1, 3), wave(P, 2, 4, 2), stride=2, groups=2
    ),
    "sparse.FloatTensor": _sparse,
    "sparse zeros": lambda P: (P.zeros(2, 3, layout=P.sparse_coo).is_sparse, P.zeros(2, layout=P.strided).is_sparse),
    "sparse random numbers": lambda P: P.randn(3, layout=P.sparse_coo),
    "a sparse window": lambda P: P.signal.windows.hann(3, layout=P.sparse_coo),
    "divergences": _divergences,
    "deterministic modes": _kept_mode,
    "a deterministic mode that is none": lambda P: P.set_deterministic_debug_mode("often"),
    "fork": lambda P: P.jit.wait(P.jit.fork(lambda a: a + 1, 2)),
    "device modules": lambda P: (P.get_device_module("cpu").device_count(), P.cpu.is_available()),
    "settings of layers": lambda P: (
        P.nn.Conv2d(1, 1, 1).output_padding, P.nn.RNN(2, 2).mode, P.nn.ReLU6().max_val, P.nn.ZeroPad2d(1).value,
    ),
    "clip_grad_norm": lambda P: P.nn.utils.clip_grad_norm([], 1.0),
}  # fmt: skip
