"""A user's program, which `make lint` gives to mypy: the types that public names have for users. Nothing runs it."""

from collections.abc import Iterator
from typing import Any, assert_type

import pyapp
from pyapp import Tensor, keras, nn, optim
from pyapp.nn import functional as F
from pyapp.optim.adam import AdamW


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 4)
        self.scale = nn.Parameter(pyapp.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.linear(x))
        assert_type(y, Tensor)
        return y * self.scale


@pyapp.no_grad()
def largest(x: Tensor) -> int:
    values, places = x.max(dim=1)
    assert_type((values, places), tuple[Tensor, Tensor])
    return int(places[0].item())


x = pyapp.randn((2, 8), requires_grad=True)
assert_type(x, Tensor)
assert_type(x.shape, pyapp.Size)
assert_type(x.shape[0], int)
assert_type(x.shape[1:].numel(), int)
assert_type(x.size(0), int)
assert_type(x.clone().float().max(), Tensor)
assert_type(pyapp.matmul(x, x.T), Tensor)
assert_type(pyapp.where(x > 0, x, 0.0), Tensor)
assert_type(pyapp.softmax(input=x, dim=-1), Tensor)
assert_type(pyapp.add(x, x, out=pyapp.empty(2, 8)), Tensor)
assert_type(pyapp.linalg.svd(x)[0], Tensor)
assert_type(pyapp.cuda.is_available(), bool)
assert_type(pyapp.float32, pyapp.DType)
assert_type(largest(x), int)

model = Net().to("cpu").train()
assert_type(model, Net)
assert_type(model.linear.weight, Tensor)
assert_type(model.parameters(), Iterator[Tensor])
assert_type(nn.utils.clip_grad_norm_(model.parameters(), 1.0), Tensor)
assert_type(nn.SiLU(), nn.SiLU)
assert_type(F.cross_entropy(x, x), Tensor)
optimizer = optim.AdamW(model.parameters(), lr=1e-3)
assert_type(optimizer, AdamW)
assert_type(optimizer.zero_grad(), None)

assert_type(pyapp.dtype, type[pyapp.DType])
assert_type(keras.ops.matmul(x, x), Any)
optimizers: type[optim.Optimizer] = optim.SGD
layers: type[keras.layers.Layer] = keras.layers.Dense
metrics: type[keras.metrics.Metric] = keras.metrics.Mean

dense = keras.Sequential([keras.layers.Dense(4, activation="relu")])
assert_type(dense.fit(x, x).history, dict[str, list[Any]])

pyapp.sigmod(x)  # type: ignore[attr-defined]
nn.Linaer(1, 2)  # type: ignore[attr-defined]
