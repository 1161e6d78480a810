"""Calls from code written for torch: its names of arguments, `device=` and `requires_grad=`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import Tensor

X = pyapp.tensor([[1.0, -2.0, 3.0], [4.0, 5.0, -6.0]])
V = pyapp.tensor([1.0, 2.0, 3.0])
PLACES = pyapp.tensor([[0, 2, 1], [1, 1, 0]])
B = X[None]

# The call by names, and the same call by position.
CALLS: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "exp": (lambda: pyapp.exp(input=X), lambda: X.exp()),
    "sum": (lambda: pyapp.sum(input=X, dim=1), lambda: X.sum(1)),
    "softmax": (lambda: pyapp.softmax(input=X, dim=1), lambda: X.softmax(1)),
    "add": (lambda: pyapp.add(input=X, other=X, alpha=2), lambda: X * 3),
    "matmul": (lambda: pyapp.matmul(X, other=X.mT), lambda: X @ X.mT),
    "mul": (lambda: X.mul(other=V), lambda: X * V),
    "maximum": (lambda: pyapp.maximum(X, other=-X), lambda: X.abs()),
    "max": (lambda: pyapp.max(input=X, other=-X), lambda: X.abs()),
    "argmax": (lambda: pyapp.argmax(input=X, dim=1), lambda: X.argmax(1)),
    "flatten": (lambda: pyapp.flatten(input=X, start_dim=0), lambda: X.flatten()),
    "reshape": (lambda: pyapp.reshape(input=X, shape=(3, 2)), lambda: X.reshape(3, 2)),
    "permute": (lambda: pyapp.permute(input=X, dims=(1, 0)), lambda: X.mT),
    "flip": (lambda: X.flip(dims=(0,)), lambda: X.flip(0)),
    "tile": (lambda: pyapp.tile(X, dims=(2, 1)), lambda: X.tile(2, 1)),
    "split": (lambda: pyapp.split(tensor=X, split_size_or_sections=1)[1], lambda: X[1:]),
    "gather": (lambda: pyapp.gather(input=X, dim=1, index=PLACES), lambda: X.gather(1, PLACES)),
    "scatter_add": (lambda: X.scatter_add(dim=1, index=PLACES, src=X), lambda: X.scatter_add(1, PLACES, X)),
    "cumprod": (lambda: X.cumprod(0, dtype=pyapp.float64), lambda: X.double().cumprod(0)),
    "mm": (lambda: pyapp.mm(input=X, mat2=X.mT), lambda: X @ X.mT),
    "mv": (lambda: pyapp.mv(input=X, vec=V), lambda: X @ V),
    "dot": (lambda: pyapp.dot(input=V, tensor=V), lambda: V @ V),
    "outer": (lambda: pyapp.outer(input=V, vec2=V), lambda: V[:, None] * V),
    "bmm": (lambda: pyapp.bmm(input=B, mat2=B.mT), lambda: B @ B.mT),
    "addmm": (lambda: pyapp.addmm(input=X, mat1=X @ X.mT, mat2=X, beta=2), lambda: X @ X.mT @ X + 2 * X),
    "logit": (lambda: pyapp.logit(input=V / 4, eps=0.1), lambda: (V / 4).logit(0.1)),
    "norm": (lambda: pyapp.linalg.norm(input=X, dim=1), lambda: pyapp.linalg.norm(X, dim=1)),
    "solve": (lambda: pyapp.linalg.solve(A=pyapp.eye(2), B=X), lambda: X),
    "rfft": (lambda: pyapp.fft.rfft(input=X, n=4), lambda: pyapp.fft.rfft(X, 4)),
    "arange": (lambda: pyapp.arange(end=3), lambda: PLACES[0].sort().values),
    "zeros": (lambda: pyapp.zeros(size=(2, 3)), lambda: X * 0),
    "ones_like": (lambda: pyapp.ones_like(input=X, device="cpu"), lambda: X * 0 + 1),
    "new_ones": (lambda: PLACES.new_ones(2, device="cpu", dtype=pyapp.float32), lambda: pyapp.ones(2)),
    "to": (lambda: X.to("cpu", pyapp.float64, non_blocking=True), lambda: X.double()),
    "bernoulli": (lambda: pyapp.bernoulli(X, p=1.0), lambda: X * 0 + 1),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("recorded", [True, False])
def test_arguments_by_name(name: str, recorded: bool) -> None:
    by_name, by_position = CALLS[name]
    with pyapp.set_grad_enabled(recorded):
        found, expected = by_name(), by_position()
    assert found.dtype is expected.dtype
    np.testing.assert_array_equal(found.numpy(), expected.numpy())


MAKERS: dict[str, Callable[..., Tensor]] = {
    "zeros": lambda **more: pyapp.zeros(2, 3, **more),
    "zeros_like": lambda **more: pyapp.zeros_like(X, **more),
    "full_like": lambda **more: pyapp.full_like(X, 2, **more),
    "arange": lambda **more: pyapp.arange(3.0, **more),
    "linspace": lambda **more: pyapp.linspace(0, 1, 3, **more),
    "eye": lambda **more: pyapp.eye(3, **more),
    "rand": lambda **more: pyapp.rand(2, 3, **more),
    "randn": lambda **more: pyapp.randn(size=(2, 3), **more),
    "rand_like": lambda **more: pyapp.rand_like(X, **more),
    "randn_like": lambda **more: pyapp.randn_like(input=X, **more),
    "new_full": lambda **more: X.new_full((2,), 3, **more),
}


@pytest.mark.parametrize("name", MAKERS)
def test_makers_take_device_and_requires_grad(name: str) -> None:
    made = MAKERS[name](device="cpu", dtype=pyapp.float64, requires_grad=True)
    assert made.requires_grad and made.dtype is pyapp.float64 and made.device.type == "cpu"
    assert not MAKERS[name](device=pyapp.device("cpu")).requires_grad
    with pytest.raises(ValueError, match="there is no device"):
        MAKERS[name](device="cuda")


def test_integers_take_a_device() -> None:
    generator = pyapp.Generator(device="cpu").manual_seed(3)
    assert pyapp.randint(0, 5, (2,), generator=generator, device="cpu").dtype is pyapp.int64
    assert pyapp.randperm(4, device="cpu").sort().values.tolist() == [0, 1, 2, 3]


def test_a_missing_first_argument_is_told() -> None:
    with pytest.raises(TypeError, match="exp: expects 'input' first, got nothing"):
        pyapp.exp()
    with pytest.raises(TypeError, match="argmax: expects 'input' first, got dim"):
        pyapp.argmax(dim=1)
    with pytest.raises(TypeError, match="mm: expects 'input' first"):
        pyapp.mm(mat2=X)


def test_where_takes_a_mask() -> None:
    with pytest.raises(TypeError, match="where: .* the condition is a tensor of bools"):
        pyapp.where(PLACES, X, X)


WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "a dim that is none": (lambda: X.sum("rows"), "sum: a dim is an integer, not 'rows'"),
    "dims where one is taken": (lambda: X.cumsum((0, 1)), r"cumsum: a dim is an integer, not \(0, 1\)"),
    "a dim with a fraction": (lambda: X.mean(0.5), "mean: a dim is an integer, not 0.5"),
    "a size that is none": (lambda: pyapp.zeros("3"), "a size is an integer"),
    "a size with a fraction": (lambda: pyapp.zeros(3, 1.5), "a size is an integer"),
    "bits of floats": (lambda: X & 1, r"bitwise_and: takes integers or bools, not float32\[2, 3\] on cpu and 1"),
    "nothing in a product": (lambda: pyapp.matmul(X, None), "matmul: takes two tensors, got float32.* and None"),
    "nothing in a sum": (lambda: pyapp.add(None, X), "add: expects a tensor, got None"),
    "a limit that is a text": (lambda: X.clamp("low"), "clamp: cannot combine float32.* with str"),
    "a number among tensors": (lambda: pyapp.isclose(X, 2), "isclose: takes two tensors, got float32.* and 2"),
    "dtypes of a convolution": (
        lambda: pyapp.conv1d(B, pyapp.ones(1, 2, 2, dtype="float64")),
        r"Input type .*: float32\[1, 2, 3\] on cpu, weight float64\[1, 2, 2\] on cpu and bias None differ in dtype",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments_are_named(name: str) -> None:
    call, message = WRONG[name]
    with pytest.raises(TypeError, match=message):
        call()


def test_a_source_that_is_too_small_is_named() -> None:
    with pytest.raises(ValueError, match=r"scatter: the source float32\[1, 3\] on cpu does not cover the index int64"):
        X.scatter(1, PLACES, X[:1])


def test_sizes_may_be_tensors_and_numpys_numbers() -> None:
    assert pyapp.zeros(np.int64(2), pyapp.tensor(3)).shape == (2, 3)
    assert X.sum(np.int64(1)).shape == (2,)
