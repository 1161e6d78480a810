"""Ops and kernels from outside the package: the complete example, natively and (if its side module was built) in the
page; errors of kernels that do not fit.
"""

from __future__ import annotations

import importlib
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
from pyapp.engine import quant
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

    with pytest.raises(ValueError, match="'softmax' in pyapp.engine.ops.softmaxes"):
        extension.op()(softmax)
    importlib.import_module("pyapp.engine.ops.softmaxes")  # which may not have been needed so far
    assert OPS["softmax"].module == "pyapp.engine.ops.softmaxes"
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
    with pytest.raises(KernelError, match="there is no such source file"):
        extension.load(tmp_path / "gone.c")


# -- arguments that would write beyond a tensor's memory


def kernel_of(tmp_path: Path, monkeypatch: Any, text: str, signature: str, name: str = "f") -> Any:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    source = tmp_path / f"{name}.c"
    source.write_text("#include <stdint.h>\n" + text)
    return getattr(extension.load(source, **{name: signature}), name)


FILL = "int f(float *y, const int32_t *ids, void *raw, intptr_t n, float value) {\n return 0; }\n"


@pytest.mark.native_only
def test_dtypes_are_those_of_the_c_function(tmp_path: Path, monkeypatch: Any) -> None:
    kernel = kernel_of(tmp_path, monkeypatch, FILL, "y ids raw | n | value")
    y, ids, raw = pyapp.zeros(4), pyapp.zeros(4, dtype="int32"), pyapp.zeros(4, dtype="bool")
    kernel(y, ids, raw, 4, 1.0)
    with pytest.raises(TypeError, match=r"kernel f: y must be float32, got float16\[4\]"):
        kernel(y.half(), ids, raw, 4, 1.0)
    with pytest.raises(TypeError, match=r"kernel f: ids must be int32, got int64\[4\]"):
        kernel(y, ids.long(), raw, 4, 1.0)
    with pytest.raises(TypeError, match="dequantize it first"):
        kernel(y, ids, quant.quantize(pyapp.zeros(8, 32), "q8_0"), 4, 1.0)


@pytest.mark.native_only
def test_dtypes_of_the_signature_go_first(tmp_path: Path, monkeypatch: Any) -> None:
    text = "typedef float number;\nint f(number *y, const uint16_t *x) {\n return 0; }\n"
    with pytest.raises(ValueError, match="y points to 'number', whose dtype is not known: write it as 'y:float32'"):
        kernel_of(tmp_path, monkeypatch, text, "y x | |")
    kernel = kernel_of(tmp_path, monkeypatch, text, "y:float32 x:bfloat16 | |")
    kernel(pyapp.zeros(1), pyapp.zeros(1, dtype="bfloat16"))
    with pytest.raises(TypeError, match="x must be bfloat16, got float16"):
        kernel(pyapp.zeros(1), pyapp.zeros(1, dtype="float16"))
    kernel_of(tmp_path, monkeypatch, text, "y:any x | |")(pyapp.zeros(1, dtype="int8"), pyapp.zeros(1).half())
    with pytest.raises(ValueError, match="y has the unknown dtype 'float33'"):
        kernel_of(tmp_path, monkeypatch, text, "y:float33 x | |")


@pytest.mark.native_only
def test_a_library_without_its_source_takes_float32(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    source = tmp_path / "f.c"
    source.write_text("int f(float *y) {\n return 0; }\n")
    kernel = extension.load(extension.build(source), f="y | |").f
    kernel(pyapp.zeros(1))
    with pytest.raises(TypeError, match="y must be float32, got float64"):
        kernel(pyapp.zeros(1).double())


@pytest.mark.native_only
@pytest.mark.parametrize(
    "signature,message",
    [
        ("y ids | n | value", "argument 3 is a size, but the C function takes 'void \\*'"),
        ("y ids raw n | | value", "argument 4 is a tensor, but the C function takes 'intptr_t'"),
        ("y ids raw | n value |", "argument 5 is a size, but the C function takes 'float'"),
        ("y ids raw | n |", "the C function takes 5 arguments, the signature"),
    ],
)
def test_signatures_that_are_not_the_functions(tmp_path: Path, monkeypatch: Any, signature: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        kernel_of(tmp_path, monkeypatch, FILL, signature)


@pytest.mark.native_only
def test_sizes_and_numbers(tmp_path: Path, monkeypatch: Any) -> None:
    kernel = kernel_of(tmp_path, monkeypatch, FILL, "y ids raw | n | value")
    tensors = pyapp.zeros(4), pyapp.zeros(4, dtype="int32"), pyapp.zeros(4)
    for size in (2**63, 2**64, -(2**63) - 1):
        with pytest.raises(ValueError, match="n is .*, which an intptr_t cannot hold"):
            kernel(*tensors, size, 1.0)
    kernel(*tensors, 2**63 - 1, 1)
    with pytest.raises(TypeError, match="n must be a whole number, got 4.0"):
        kernel(*tensors, 4.0, 1.0)
    with pytest.raises(TypeError, match="value must be a number, got 'x'"):
        kernel(*tensors, 4, "x")


def checked_op(name: str, vjp: Any) -> Any:
    return extension.op(vjp=vjp, name=f"test::{name}")(lambda x, y: x * y)


@pytest.mark.parametrize(
    "name,found,error,message",
    [
        ("shape", lambda g, y: (g.sum(), None), ValueError, r"gradient 1 is float32\[\].*argument 1 is float32\[3\]"),
        ("many", lambda g, y: (g, g, g), ValueError, "its gradient returned 3 gradients for 2 arguments"),
        ("none", lambda g, y: None, TypeError, "its gradient returned None; it must return a tuple"),
        ("alone", lambda g, y: g, TypeError, "it must return a tuple, aligned with its arguments"),
        ("number", lambda g, y: (1.0, None), TypeError, "gradient 1 is 1.0, expected a tensor or None"),
    ],
)
def test_gradients_that_are_none(name: str, found: Any, error: type[Exception], message: str) -> None:
    made = checked_op(name, lambda g, y, *args: found(g, y))
    x = tensor([1.0, 2.0, 3.0], requires_grad=True)
    with pytest.raises(error, match=message):
        made(x, tensor([1.0, 2.0, 3.0])).sum().backward()


def test_a_kernel_that_returns_nothing() -> None:
    made = checked_op("nothing", None)
    made.kernel("cpu")(lambda x, y: None)
    with pytest.raises(TypeError, match="its cpu kernel returned None; it must return a tensor, or NotImplemented"):
        made(tensor([1.0]), tensor([2.0]))
    made.kernel("cpu")(lambda x, y: NotImplemented)
    assert made(tensor([3.0]), tensor([2.0])).item() == 6


# -- compilers and folders


@pytest.mark.native_only
@pytest.mark.parametrize(
    "variable,value,message",
    [
        ("CC", "cc 'x", "CC: .*No closing quotation"),
        ("CFLAGS", '"', "CFLAGS: "),
        ("CC", "  ", "it names no compiler"),
        ("CC", "/", "the compiler / does not run"),
    ],
)
def test_odd_compilers(tmp_path: Path, monkeypatch: Any, variable: str, value: str, message: str) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(KernelError, match=message):
        kernel_of(tmp_path, monkeypatch, FILL, "y ids raw | n | value")


@pytest.mark.native_only
def test_a_source_that_is_called_like_an_option(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    Path("-x.c").write_text("int f(void) {\n return 0; }\n")
    extension.load("-x.c", f="| |").f()


@pytest.mark.native_only
def test_a_cache_that_cannot_be_written_to(tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    source = tmp_path / "f.c"
    source.write_text("int f(void) {\n return 0; }\n")
    library = extension.build(source)
    assert library.is_file() and extension.build(source) == library
    extension.load(source, f="| |").f()
    monkeypatch.setattr(extension, "_folder", None)
    monkeypatch.setattr(extension.tempfile, "tempdir", str(tmp_path / "gone"))
    with pytest.raises(KernelError, match="the cache cannot be written to .*Set XDG_CACHE_HOME"):
        extension.build(source)
