"""Complex numbers against torch's golden values and gradients, and what belongs to them beside functions."""

from __future__ import annotations

import copy
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import tensor
from pyapp.autograd import gradcheck, gradgradcheck
from tests.together import check_each, fewer_in_browser

from .complex_cases import CASES, REFUSED, array_of, gradients, inputs, run

GOLDEN = np.load(Path(__file__).with_name("golden_complex.npz"))
INDEX: dict[str, Any] = json.loads(GOLDEN["index"].tobytes())


def name_of(x: Any) -> str:
    return x.dtype.name if hasattr(x, "dtype") else type(x).__name__


def _places() -> dict[str, int]:
    """Where the numbers of each case begin."""
    found, at = {}, 0
    for case, entry in INDEX.items():
        found[case] = at
        if not isinstance(entry, str):
            shapes = [shape for shape, _, _ in entry[0]] + [shape for shape in entry[1] if shape is not None]
            at += sum(int(np.prod(shape)) for shape in shapes)
    assert at == len(GOLDEN["values"])
    return found


PLACES, VALUES = _places(), GOLDEN["values"]


def check(case: str) -> None:
    entry, at = INDEX[case], PLACES[case]
    tensors = inputs(pyapp, True)
    results = run(case, tensors)
    if isinstance(entry, str):
        assert results[0].name == entry
        return
    narrow = run(case, inputs(pyapp, False))
    for y, z, (shape, wide_name, narrow_name) in zip(results, narrow, entry[0], strict=True):
        assert (name_of(y), name_of(z)) == (wide_name, narrow_name)
        size = int(np.prod(shape))
        expected = VALUES[at : at + size].reshape(shape)
        at += size
        for found, tolerance in ((y, 1e-6), (z, 1e-4)):
            np.testing.assert_allclose(array_of(found), expected, rtol=10 * tolerance, atol=tolerance)
    for g, shape in zip(gradients(pyapp, results, tensors), entry[1], strict=True):
        if shape is None:
            assert g is None or not array_of(g).round(8).any()
            continue
        size = int(np.prod(shape))
        np.testing.assert_allclose(array_of(g), VALUES[at : at + size].reshape(shape), rtol=1e-5, atol=2e-5)
        at += size


@pytest.mark.parametrize("part", range(6))
def test_values_and_gradients_are_torchs(part: int) -> None:
    check_each(check, [(case,) for case in fewer_in_browser(CASES[part::6])])


def test_what_complex_numbers_do_not_have_is_refused() -> None:
    def refuse(case: str) -> None:
        with pytest.raises((RuntimeError, TypeError, ValueError)):
            run(case, inputs(pyapp, True))

    check_each(refuse, [(case,) for case in REFUSED])
    with pytest.raises(TypeError, match="lt: takes real numbers, not complex64.2. on cpu, .*use abs"):
        assert tensor([1j, 2]) < tensor([1j, 2])


def test_the_parts_are_views() -> None:
    z = pyapp.zeros(2, 3, dtype=pyapp.complex64)
    z.real = tensor([[1.0, 2, 3], [4, 5, 6]])
    z.imag[:, 1] = 7
    assert z.tolist() == [[1, 2 + 7j, 3], [4, 5 + 7j, 6]]
    pairs = pyapp.view_as_real(z.mT)
    assert pairs.shape == (3, 2, 2) and pairs.strides == (2, 6, 1) and pairs._storage is z._storage
    pairs[0, 1, 1] = -1
    assert z[1, 0].item() == 4 - 1j and pyapp.view_as_complex(pairs).tolist() == z.mT.tolist()
    with pytest.raises(RuntimeError, match="contiguous"):
        pyapp.view_as_complex(pyapp.zeros(2, 3).mT)
    assert z.real.is_floating_point() and pyapp.zeros(1).real.dtype is pyapp.float32


def test_writes_through_views_have_gradients() -> None:
    z = tensor([1 + 2j, 3 - 1j], requires_grad=True)
    y = z * 1
    y.mul_(1j)
    y.real.mul_(2)
    y.imag.add_(1)
    y[0] = y[1] * 2
    y.abs().sum().backward()
    assert z.grad is not None
    np.testing.assert_allclose(z.grad.numpy(), [0, 2.6832816 - 2.6832816j], rtol=1e-6)


def test_gradients_of_parts_begin_at_any_place() -> None:
    """The gradient that cat gives begins at an odd place."""
    x, weights = pyapp.ones(3, requires_grad=True), pyapp.arange(1.0, 8.0)
    joined = pyapp.cat((pyapp.ones(1), pyapp.view_as_real(pyapp.complex(x, x)).reshape(-1)))
    (joined * weights).sum().backward()
    assert x.grad.tolist() == [2.0 + 3.0, 4.0 + 5.0, 6.0 + 7.0]


def test_numbers_promote_as_in_torch() -> None:
    kinds = {"float64": "complex128", "float32": "complex64", "bfloat16": "complex64", "int64": "complex64"}
    for name, kind in kinds.items():
        assert (pyapp.ones(2, dtype=name) * 1j).dtype.name == (1j - pyapp.ones(2, dtype=name)).dtype.name == kind
        assert (pyapp.ones(2, dtype=name) * tensor(1j)).dtype.name == kind
        assert pyapp.promote_types(name, "complex64").name == ("complex128" if name == "float64" else "complex64")
    with pytest.raises(RuntimeError, match="is complex and does not go into"):
        pyapp.zeros(2).fill_(1j)
    with pytest.raises(TypeError, match="does not go into"):
        pyapp.zeros(2).mul_(1j)
    assert pyapp.complex64.to_real() is pyapp.float32 and pyapp.float64.to_complex() is pyapp.complex128
    assert pyapp.cfloat is pyapp.complex64 and pyapp.as_dtype(complex) is pyapp.complex128


def test_conversions() -> None:
    z = tensor([1 + 2j, 3 - 1j])
    assert z.float().tolist() == [1, 3] and z.to(pyapp.complex128).to(pyapp.bfloat16).tolist() == [1, 3]
    assert tensor([0j, 1j]).bool().tolist() == [False, True]
    assert complex(z[0]) == 1 + 2j and float(tensor(2 + 0j)) == 2
    with pytest.raises(RuntimeError, match="imaginary part"):
        float(z[0])
    assert pyapp.from_numpy(z.numpy())._storage.address == z._storage.address and np.asarray(z).dtype == "complex64"
    assert z.view(pyapp.float32).tolist() == [1, 2, 3, -1]
    assert pickle.loads(pickle.dumps(z)).tolist() == copy.deepcopy(z).tolist() == z.tolist()


SHOWN = {
    "tensor([1.+2.j, 3.-1.j])": [1 + 2j, 3 - 1j],
    "tensor(1.5000-2.j)": 1.5 - 2j,
    "tensor([nan+0.j, 1.+infj])": [complex("nan"), complex("1+infj")],
    "tensor([[ 1.5000e+00+2.j, -3.0000e+05-1.j],\n        [ 0.0000e+00+0.j,  0.0000e+00+1.j]])": [
        [1.5 + 2j, -3e5 - 1j], [0, 1j]
    ],
    "tensor([0.1235-1.0000e-09j, 0.1235-1.0000e-09j, 0.1235-1.0000e-09j,\n"
    "        0.1235-1.0000e-09j])": [0.123456 - 1e-9j] * 4,
}  # fmt: skip


def test_tensors_are_shown_as_by_torch() -> None:
    for text, numbers in SHOWN.items():
        assert repr(tensor(numbers)) == text
    assert repr(tensor([1j], dtype="complex128")) == "tensor([0.+1.j], dtype=pyapp.complex128)"
    assert repr(pyapp.zeros(0, dtype="complex64")) == "tensor([], dtype=pyapp.complex64)"


def test_random_numbers() -> None:
    generator = pyapp.Generator(1)
    z = pyapp.randn(20000, dtype="complex64", generator=generator)
    assert abs(z.real.var().item() - 0.5) < 0.02 and abs(z.imag.var().item() - 0.5) < 0.02
    assert abs(z.var().item() - 1) < 0.03 and abs(complex((z.real * z.imag).mean())) < 0.02
    uniform = pyapp.zeros(2000, dtype="complex128").uniform_(-1, 2, generator)
    assert -1 <= uniform.imag.amin() < -0.9 and 1.9 < uniform.real.amax() < 2


def test_gradcheck_takes_complex_inputs() -> None:
    z = pyapp.randn(3, dtype="complex128", generator=pyapp.Generator(2)).requires_grad_()
    x = pyapp.rand(3, dtype="float64", generator=pyapp.Generator(3)).requires_grad_()
    assert gradcheck(lambda z, x: (z * x).exp() + z.conj() * x, [z, x])
    assert gradgradcheck(lambda z, x: (z * z.conj() * x).abs(), [z, x])

    class Wrong(pyapp.autograd.Function):
        @staticmethod
        def forward(ctx: Any, z: Any) -> Any:
            return z.conj() * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2

    with pytest.raises(RuntimeError, match="gradcheck"):
        gradcheck(Wrong.apply, [z])


# After four steps from 1+2j, 3-1j and 0.1+0.2j with the loss |p - (0.5+1j)|² + 0.3 Re p: torch's parameters.
STEPPED = {
    "SGD": (
        {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1},
        [0.10219 + 0.58915j, -0.59124 + 1.6293j, 0.41423 + 1.21324j],
    ),
    "Adam": ({"lr": 0.1, "weight_decay": 0.1}, [0.60762 + 1.60367j, 2.60105 - 0.60155j, 0.43382 + 0.5938j]),
    "AdamW": ({"lr": 0.1, "amsgrad": True}, [0.60469 + 1.59667j, 2.58972 - 0.59813j, 0.44238 + 0.59303j]),
    "RMSprop": (
        {"lr": 0.1, "centered": True, "momentum": 0.5},
        [0.55783 + 1.06459j, -0.07844 + 1.499j, 0.09206 + 0.81261j],
    ),
    "Adagrad": (
        {"lr": 0.1, "initial_accumulator_value": 0.1},
        [0.74962 + 1.73819j, 2.72707 - 0.72907j, 0.28873 + 0.45669j],
    ),
    "Adadelta": ({"lr": 1.0}, [0.987 + 1.98698j, 2.98696 - 0.98697j, 0.11291 + 0.21301j]),
    "Adamax": ({"lr": 0.1}, [0.64732 + 1.63097j, 2.6115 - 0.61538j, 0.38356 + 0.56138j]),
    "NAdam": ({"lr": 0.1}, [0.69916 + 1.68772j, 2.67601 - 0.67819j, 0.33454 + 0.50713j]),
    "RAdam": ({"lr": 0.1}, [0.55984 + 1.32283j, 1.2055 + 0.35434j, 0.26929 + 0.74174j]),
    "ASGD": ({"lr": 0.1}, [0.61622 + 1.40955j, 1.43539 + 0.1808j, 0.24759 + 0.6723j]),
    "Rprop": ({"lr": 0.1}, [0.4632 + 1.4632j, 2.4632 - 0.4632j, 0.464 + 0.7368j]),
}


@pytest.mark.parametrize("name", STEPPED)
def test_optimisers_step_complex_parameters(name: str) -> None:
    settings, expected = STEPPED[name]
    p = pyapp.nn.Parameter(tensor([1 + 2j, 3 - 1j, 0.1 + 0.2j]))
    optimizer = getattr(pyapp.optim, name)([p], **settings)
    for _ in range(4):
        optimizer.zero_grad()
        ((p - (0.5 + 1j)).abs() ** 2 + p.real * 0.3).sum().backward()
        optimizer.step()
    np.testing.assert_allclose(p.detach().numpy(), expected, rtol=1e-4)


def test_layers_have_complex_parameters() -> None:
    layer = pyapp.nn.Linear(3, 2, dtype=pyapp.complex64)
    z = pyapp.randn(4, 3, dtype="complex64", generator=pyapp.Generator(4))
    y = layer(z)
    np.testing.assert_allclose(
        array_of(y), z.numpy() @ array_of(layer.weight).T + array_of(layer.bias), rtol=1e-5, atol=1e-5
    )
    other = pyapp.nn.Linear(3, 2, dtype=pyapp.complex64)
    other.load_state_dict(layer.state_dict())
    assert pyapp.equal(other(z), y)
    assert layer.double().weight.dtype is pyapp.complex64 and layer.to("complex128").weight.dtype is pyapp.complex128
    with pytest.raises(TypeError, match="LBFGS takes dense floating-point"):
        pyapp.optim.LBFGS(layer.parameters())


def test_a_loss_is_real() -> None:
    z = tensor([1j, 2], requires_grad=True)
    with pytest.raises(RuntimeError, match="a complex number needs a gradient argument"):
        (z * z).sum().backward()
    (z * z).sum().backward(tensor(1 + 0j))
    assert z.grad is not None and z.grad.tolist() == [-2j, 4]
