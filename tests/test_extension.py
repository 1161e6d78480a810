"""Ops and kernels from outside the package: the worked example, natively and (where its side module was built) in the
page; errors of kernels that do not fit.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import Tensor, extension, tensor
from pyapp.autograd import gradcheck, gradgradcheck
from pyapp.engine.op import OPS
from pyapp.errors import KernelError

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "fused_rms_norm"
IN_BROWSER = sys.platform == "emscripten"


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    if IN_BROWSER and not extension.side_module_path(EXAMPLE / "rms_norm.c").is_file():
        pytest.skip("the example's side module was not built")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))  # compiled here and now
        spec = importlib.util.spec_from_file_location("fused_rms_norm", EXAMPLE / "fused_rms_norm.py")
        assert spec and spec.loader
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module


def inputs(dtype: str = "float32", *shape: int) -> list[Tensor]:
    random = np.random.RandomState(3)
    shape = shape or (2, 3, 20)
    arrays = [random.randn(*shape), random.randn(*shape), random.rand(shape[-1]) + 0.5]
    return [tensor(a.astype(np.float64), dtype=dtype, requires_grad=True) for a in arrays]


def test_the_kernels_agree_with_the_definition(example: ModuleType) -> None:
    found, expected = inputs(), inputs()
    calls = []
    kernel = example.KERNELS.add_rms_norm_backward
    example.KERNELS.add_rms_norm_backward = lambda *args: calls.append(kernel(*args))
    y, z = example.add_rms_norm(*found), example.add_rms_norm.definition(*expected)
    np.testing.assert_allclose(y.detach().numpy(), z.detach().numpy(), rtol=2e-5, atol=2e-6)
    weights = pyapp.arange(y.numel(), dtype="float32").reshape(y.shape)
    (y * weights).sum().backward()
    (z * weights).sum().backward()
    assert len(calls) == 1
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-4, atol=1e-4)


def test_what_the_kernels_do_not_take_runs_by_the_definition(example: ModuleType) -> None:
    assert gradcheck(example.add_rms_norm, inputs("float64", 2, 5))
    assert gradgradcheck(example.add_rms_norm, inputs("float64", 2, 4))
    x, residual, weight = inputs()
    turned = example.add_rms_norm(x.transpose(0, 1), residual.transpose(0, 1), weight, epsilon=1e-3)
    plain = example.add_rms_norm(x, residual, weight, epsilon=1e-3)
    np.testing.assert_allclose(turned.transpose(0, 1).detach().numpy(), plain.detach().numpy(), rtol=2e-5, atol=1e-6)
    assert example.add_rms_norm(*inputs("float32", 0, 4)).shape == (0, 4)


def test_the_gradient_of_the_gradient(example: ModuleType) -> None:
    """float32, where the kernel has the first gradient: the second comes from the definition."""
    x, residual, weight = inputs("float32", 2, 4)
    (first,) = pyapp.grad(example.add_rms_norm(x, residual, weight).square().sum(), x, create_graph=True)
    (second,) = pyapp.grad(first.square().sum(), x)
    X, R, W = (t.detach().to("float64").requires_grad_() for t in (x, residual, weight))
    (first64,) = pyapp.grad(example.add_rms_norm(X, R, W).square().sum(), X, create_graph=True)
    (second64,) = pyapp.grad(first64.square().sum(), X)
    np.testing.assert_allclose(second.numpy(), second64.numpy(), rtol=1e-3, atol=1e-3)


def test_graphs_replay_foreign_kernels(example: ModuleType) -> None:
    x, residual, weight = (t.detach() for t in inputs())
    with pyapp.no_grad():
        graph = pyapp.capture(lambda: example.add_rms_norm((x + residual).exp(), residual, weight) + x)
        assert "4 kernels" in repr(graph)
        x.copy_(x * 2)
        found = graph.replay().numpy().copy()
        expected = example.add_rms_norm.definition((x + residual).exp(), residual, weight) + x
    np.testing.assert_allclose(found, expected.numpy(), rtol=1e-4, atol=1e-5)


def test_arguments_that_do_not_fit(example: ModuleType) -> None:
    kernel = example.KERNELS.add_rms_norm
    x, residual, weight = (t.detach() for t in inputs("float32", 4, 4))
    y = pyapp.empty(4, 4)
    with pytest.raises(
        TypeError, match=r"add_rms_norm takes \(y x residual weight \| rows columns \| epsilon\), got 2"
    ):
        kernel(y, x)
    with pytest.raises(TypeError, match="residual must be a tensor, got None"):
        kernel(y, x, None, weight, 4, 4, 1e-5)
    with pytest.raises(ValueError, match=r"x, float32\[4, 4\].*is not dense"):
        kernel(y, x.T, residual, weight, 4, 4, 1e-5)
    with pytest.raises(AttributeError, match="no kernel 'other'"):
        _ = example.KERNELS.other


def test_names_of_the_package_are_not_taken(example: ModuleType) -> None:
    def softmax(x: Tensor) -> Tensor:
        return x

    with pytest.raises(ValueError, match="'softmax' in pyapp.engine.ops.norm"):
        extension.op()(softmax)
    assert OPS["softmax"].module == "pyapp.engine.ops.norm"
    assert OPS["example::add_rms_norm"] is example.add_rms_norm


def test_an_op_without_a_kernel_works_everywhere() -> None:
    @extension.op(vjp=lambda g, y, x, k: (g * k * (x * k).cos(),), name="test::wave")
    def wave(x: Tensor, k: float) -> Tensor:
        return (x * k).sin()

    x = tensor([0.1, 2.0], dtype="float64", requires_grad=True)
    assert gradcheck(lambda x: wave(x, k=3.0), x) and gradgradcheck(lambda x: wave(x, 3.0), x)


SOURCES = {
    "syntax": ("int broken(void) { return 0 }", "it does not compile"),
    "name": ("int other(void) { return 0; }", "there is no function 'broken'"),
}


@pytest.mark.native_only
@pytest.mark.parametrize("name", SOURCES)
def test_sources_that_are_wrong(name: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    source = tmp_path / "broken.c"
    text, message = SOURCES[name]
    source.write_text(text)
    with pytest.raises(KernelError, match=message):
        extension.load(source, broken="||")


@pytest.mark.native_only
def test_statuses_and_compilers(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    source = tmp_path / "seven.c"
    source.write_text("int seven(void *x) { return x ? 0 : 7; }\n")
    seven = extension.load(source, seven="x? | |").seven
    seven(pyapp.zeros(1))
    with pytest.raises(KernelError, match="kernel seven of seven-.*: status 7"):
        seven(None)
    source.write_text("int seven(void) { return 0; }\n")
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(KernelError, match="no-such-compiler was not found"):
        extension.load(source, seven="| |")
    with pytest.raises(KernelError, match="the source is not there"):
        extension.load(tmp_path / "gone.c")
