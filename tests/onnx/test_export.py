"""Modules written as ONNX files compute the same when they are read again; tests/oracle runs them by onnxruntime."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import Tensor, nn, no_grad, randn, tensor
from pyapp.errors import ModelError
from pyapp.nn import functional as F
from pyapp.onnx import export, load
from tests.together import check_each


class Pictures(nn.Module):
    """Convolutions, pools, normalisation."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8)
        self.depthwise, self.up = nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.ConvTranspose2d(8, 4, 3, 2, 1, 1)
        self.group, self.out = nn.GroupNorm(2, 4), nn.Linear(4, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.norm(self.first(x))), 2)
        x = F.avg_pool2d(F.silu(self.depthwise(x)), 2, 1, 1)
        x = self.group(F.leaky_relu(self.up(x), 0.1))
        return self.out(F.adaptive_avg_pool2d(x, 1).flatten(1)).log_softmax(-1)


class Texts(nn.Module):
    """Embeddings, attention, a recurrent layer, whole numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.block = nn.Embedding(50, 32), nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
        self.norm, self.lstm = nn.LayerNorm(32), nn.LSTM(32, 16, batch_first=True)

    def forward(self, ids: Tensor) -> dict[str, Tensor]:
        x = self.norm(self.block(self.table(ids)))
        y, _ = self.lstm(x)
        return {"part": x[:, -1, ::2], "best": y.amax(1), "count": (ids > 3).sum(-1), "running": x.cumsum(1)[:, 1:3]}


def _indexed(x: Tensor, at: Tensor) -> list[Tensor]:
    """Indexing by numbers that depend on the input, from -4 to -1: x (4, 5, 4), at (4,)."""
    return [
        x[at], x[:, at.reshape(2, 2)], x[:, at, at], x[at, :, at.unsqueeze(1)], x.index_fill(1, at, 2.0),
        x.index_copy(2, at + 4, x * 2), x.index_put((at, at), x[0, 0, :].unsqueeze(1).expand(4, 4)),
        x.index_add(0, at + 4, x), x.scatter_reduce(1, (at + 4).reshape(1, 4, 1).expand(4, 4, 4), x, "amax"),
        x.isfinite(),
    ]  # fmt: skip


def _written(x: Tensor) -> Tensor:
    """Writes in place: into a tensor, rows, columns, through a view, where a mask says, into a constant; x (4, 4)."""
    y = x * 1
    y += x.flip(0)
    y[:, 1] = 0.5
    y[2] *= 3
    y[y > 1] = 7.0
    y.relu_().mul_(2).masked_fill_(x > 0, 1.5)
    y[x[0].argsort()] = x
    y.t()[0] += y[3]
    z = pyapp.zeros(4, 4)
    z[1:3, ::2] = y[:2, :2]
    z[0].copy_(x[1])
    return y + z


def _stale(x: Tensor) -> Tensor:
    """Reads a view after a write into its base."""
    y = x * 1
    part = y[1:]
    y.add_(1.0)
    return part * 2


FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {
    "activations": (
        lambda x: F.gelu(x) + F.elu(x) + F.hardswish(x) + F.mish(x) + F.softplus(x) + x.sigmoid().tanh(),
        (3, 4),
    ),
    "elementary": (lambda x: (x.abs() + 1).log() + x.exp().rsqrt() + x.erf() * x.sin() - x.floor() % 3, (3, 4)),
    "reductions": (
        lambda x: x.std(-1, keepdim=True) + x.mean(0) + x.amax((0, 1)) + x.logsumexp(-1, keepdim=True),
        (3, 4),
    ),
    "moves": (lambda x: pyapp.cat([x.flip(0), x.t().roll(1, 0).t(), x.unfold(1, 2, 1).sum(-1)], 1), (3, 4)),
    "choices": (lambda x: pyapp.where(x > 0, x, x * 2).clamp(-1, 1.5) + (x == x.amax()).float(), (3, 4)),
    "places": (
        lambda x: (
            x.gather(1, x.argsort(1)[:, :2] if False else tensor([[0, 1], [2, 3], [1, 0]])) + x.argmax(1, keepdim=True)
        ),
        (3, 4),
    ),
    "writes": (_written, (4, 4)),
    "sorted": (lambda x: {"a": x.sort(-1, True)[0], "b": x.topk(2, 0, False)[1], "c": x.argsort(0)}, (3, 4)),
    "indexed": (lambda x: dict(enumerate(_indexed(x, x[0, 0].argsort() - 4))), (4, 5, 4)),
    "angles": (lambda x: pyapp.atan2(x.round(), x.flip(0)) + pyapp.hypot(x, x + 1) + x.frac() + x.fmod(0.7), (3, 4)),
    "numbers": (lambda x: F.one_hot(x.argmax(1), 5) + (x[:, :1] > 0).long().bitwise_left_shift(2), (3, 4)),
    "triangles": (lambda x: x.tril() @ x.triu(1).t() + x.diagonal().sum(), (4, 4)),
    "padding": (lambda x: F.pad(x, (1, 2), value=3.0).softmax(0), (3, 4)),
    "attention": (lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True), (2, 2, 5, 4)),
    "views": (lambda x: x.expand(2, 3, 4)[:, None, 1:, ::2].permute(3, 0, 1, 2).reshape(2, -1), (3, 4)),
}


def written(module: Any, inputs: Any, **settings: Any) -> bytes:
    file = io.BytesIO()
    export(module, inputs, file, **settings)
    return file.getvalue()


def check(name: str, module: Any, *inputs: Tensor) -> None:
    with no_grad():
        wanted = module(*inputs)
        found = load(written(module, inputs))(*inputs)
    wanted = list(wanted.values()) if isinstance(wanted, dict) else [wanted]
    for own, other in zip(found if isinstance(found, tuple) else (found,), wanted, strict=True):
        assert own.dtype is other.dtype
        np.testing.assert_allclose(own.numpy(), other.numpy(), rtol=1e-4, atol=1e-5)


def modules() -> list[tuple[Any, ...]]:
    pyapp.manual_seed(0)
    made: list[tuple[Any, ...]] = [
        ("pictures", Pictures().eval(), randn(2, 3, 16, 16)),
        ("texts", Texts().eval(), tensor(np.random.RandomState(0).randint(0, 50, (2, 6)))),
    ]
    return made + [(name, function, randn(*shape)) for name, (function, shape) in FUNCTIONS.items()]


def test_what_is_read_again_computes_the_same() -> None:
    check_each(check, modules())


def test_names_and_parameters() -> None:
    layer = nn.Linear(4, 3)
    module = load(written(layer, randn(2, 4), input_names=["in"], output_names=["out"]))
    assert [i.name for i in module.inputs] == ["in"] and [o.name for o in module.outputs] == ["out"]
    assert sorted(module.state_dict()) == ["bias", "weight"] and layer.weight.requires_grad
    assert module.inputs[0].type.shape == (2, 4)


def test_layers_become_their_operators() -> None:
    for affine in (False, True):
        module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4, affine=affine), nn.ReLU6())
        module(randn(2, 3, 6, 6))  # statistics
        x = randn(1, 3, 6, 6) * 9
        file = written(module.eval(), x)
        for name, count in ((b"BatchNormalization", 1), (b"Clip", 1), (b"Where", 0), (b"Mul", 0)):
            assert (file.count(name) > 0) == count, name
        check("conv, norm, limits", module, x)


def test_quantised_weights_become_float32() -> None:
    model = nn.Sequential(nn.Linear(32, 16))
    nn.quantize(model, "q8_0")
    x = randn(2, 32)
    with no_grad():
        np.testing.assert_allclose(load(written(model, x))(x).numpy(), model(x).numpy(), atol=0.05)


def test_what_cannot_be_written() -> None:
    for function, message in (
        (lambda x: x.lgamma(), "'lgamma' cannot be written"),
        (_stale, "through another one"),
        (lambda x: 3, "gives int"),
        (lambda x: pyapp.view_as_real(pyapp.complex(x, x)), "complex numbers"),
        (lambda x: x[x > 0], "by bools"),
    ):
        with pytest.raises((ModelError, TypeError), match=message):
            written(function, randn(3))
    assert float(tensor(2.0) + 1) == 3.0  # ops are as they were
