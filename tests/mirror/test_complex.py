"""Complex numbers on a device whose memory the host cannot see, where they are computed by real ops of their parts."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp.engine import capture
from tests.engine.complex_cases import CASES, array_of, inputs, run
from tests.together import check_each, fewer_in_browser

from . import device as _device  # noqa: F401 (registers the mirror)

DEVICE = "mirror"
ELSEWHERE = ("fft(", "fft2(", "fftn(", "linalg", "window")  # what runs on the host alone


def test_values_are_those_of_the_cpu() -> None:
    here = inputs(pyapp, False)
    there = {name: x if name == "P" else x.detach().to(DEVICE) for name, x in here.items()}
    computed = []

    def check(case: str) -> None:
        expected = run(case, here)
        try:
            with pyapp.device(DEVICE):  # where a case makes tensors
                found = run(case, there)
        except NotImplementedError as error:
            assert "has no kernel for" in str(error) and "runs on the host" in str(error)
            return
        for y, wanted in zip(found, expected, strict=True):
            if isinstance(y, pyapp.Tensor):
                assert y.device == DEVICE
                np.testing.assert_allclose(array_of(y.cpu()), array_of(wanted), rtol=1e-4, atol=1e-4)
        computed.append(case)

    tensors = re.compile(r"\b[zwavmnbshp]\b|P\.tensor\(")
    cases = [c for c in CASES if not any(word in c for word in ELSEWHERE) and tensors.search(c)]
    chosen = fewer_in_browser(cases)
    check_each(check, [(case,) for case in chosen])
    assert len(computed) > 0.85 * len(chosen)


def test_what_needs_indices_and_gradients() -> None:
    def look(z: Any, x: Any, index: Any) -> Any:
        y = z.gather(1, index) * x + z.index_select(1, index[0])
        y = y + z.scatter_add(1, index, z) + z[:, index[1]].tril()
        y[y.real > 0] = 1j
        return pyapp.where(x > 0, y.exp(), y.tanh()).abs().sum()

    results = []
    for device in ("cpu", DEVICE):
        generator = pyapp.Generator(3)
        z = pyapp.randn(2, 3, dtype="complex64", generator=generator).to(device).requires_grad_()
        x = pyapp.randn(2, 3, generator=generator).to(device).requires_grad_()
        look(z, x, pyapp.tensor([[2, 0, 1], [0, 0, 2]]).to(device)).backward()
        assert z.grad is not None and x.grad is not None and z.grad.device == device
        results.append((z.grad.cpu().numpy(), x.grad.cpu().numpy()))
    for found, expected in zip(*results, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_what_has_no_kernel_is_named() -> None:
    with pytest.raises(NotImplementedError, match=f"{DEVICE} has no kernel for 'acosh' .* it runs on the host"):
        pyapp.ones(2, dtype="complex64").to(DEVICE).acosh()


def test_a_graph_computes_by_parts() -> None:
    x = pyapp.randn(3, 3, dtype="complex64", generator=pyapp.Generator(2))
    graph = capture(lambda: (x @ x * 2 + x.exp()).conj() / x)
    x.mul_(1j)
    graph.replay()
    np.testing.assert_allclose(graph.outputs.numpy(), ((x @ x * 2 + x.exp()).conj() / x).numpy(), rtol=1e-4, atol=1e-5)


def test_indices_of_tensors_without_dims() -> None:
    z, row = pyapp.tensor(0.5 - 1j), pyapp.tensor([0.5 - 1j, 2j])
    place = pyapp.zeros((), dtype="int64")
    calls: list[Any] = [
        lambda z, row, place: z.gather(-1, place),
        lambda z, row, place: z.gather(0, place[None]),
        lambda z, row, place: row.gather(0, place),
        lambda z, row, place: z.scatter(-1, place, z * 2),
        lambda z, row, place: z.scatter(0, place, 3.0),
        lambda z, row, place: z.scatter_add(-1, place, z * 2),
        lambda z, row, place: row.scatter_add(0, place, z * 2),
    ]
    for call in calls:
        expected, found = (call(*(t.to(where) for t in (z, row, place))) for where in ("cpu", DEVICE))
        assert found.shape == expected.shape and found.device == DEVICE
        np.testing.assert_array_equal(array_of(found.cpu()), array_of(expected))


def test_copies_of_parts() -> None:
    for device in ("cpu", DEVICE):
        z = pyapp.tensor(1 + 2j, device=device)
        real = z.to(pyapp.float32)
        real += 5
        assert real.tolist() == 6 and z.tolist() == 1 + 2j
