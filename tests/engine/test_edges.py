"""Cases in which a simple definition differs from torch: equal elements, limits, bools, dtypes that NumPy lacks."""

from __future__ import annotations

import math
import warnings
from typing import Any

import pytest

import pyapp
from pyapp import nn, tensor
from pyapp.engine import quant
from tests.hostile import peak_memory
from tests.together import check_each

np = pytest.importorskip("numpy")


def slopes(function: Any, *values: float) -> list[float]:
    x = tensor(list(values), requires_grad=True)
    function(x).sum().backward()
    assert x.grad is not None
    return list(x.grad.tolist())


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float8_e5m2"])
def test_picking_keeps_the_bits(dtype: str) -> None:
    x = tensor([0.25, -0.5, 1.5, 0.75]).to(dtype)
    index = tensor([2, 0, 0])
    assert x.gather(0, index).to("float32").tolist() == [1.5, 0.25, 0.25]
    if dtype != "float8_e5m2":
        assert x.sort()[0].to("float32").tolist() == [-0.5, 0.25, 0.75, 1.5]
        assert x.topk(2)[0].to("float32").tolist() == [1.5, 0.75]
        assert x.median().to("float32").item() == 0.25
        assert x.cummax(0)[0].to("float32").tolist() == [0.25, 0.25, 1.5, 1.5]
        assert x.mode()[0].to("float32").item() == -0.5


def test_slopes_at_the_limits() -> None:
    f = nn.functional
    assert slopes(lambda x: x.clamp(-1, 1), -2.0, -1.0, 0.0, 1.0, 2.0) == [0, 0, 1, 0, 0]
    assert slopes(f.hardtanh, -2.0, -1.0, 0.0, 1.0, 2.0) == [0, 0, 1, 0, 0]
    assert slopes(f.hardtanh, float("nan"), float("inf"), -float("inf")) == [1, 0, 0]
    assert slopes(f.relu6, 0.0, 3.0, 6.0) == [0, 1, 0]
    assert slopes(f.hardswish, -3.0, 0.0, 3.0) == [0, 0.5, 1]
    assert slopes(f.elu, -0.0, 0.0, 1.0) == [1, 1, 1]
    assert slopes(lambda x: pyapp.fmax(x, x.detach()), 2.0) == [0.5]


def test_infinities_in_logsumexp() -> None:
    """The values and the gradients of torch."""
    inf, nan = math.inf, math.nan
    rows = [[1.0, 1, -inf], [-inf, -inf, -inf], [inf, 1, 2], [nan, 1, 2], [3e38, -3e38, 0]]
    for keepdim in (False, True):
        x = tensor(rows, requires_grad=True)
        y = x.logsumexp(1, keepdim)
        y.sum().backward()
        assert x.grad is not None
        np.testing.assert_allclose(y.detach().reshape(-1).numpy(), [1 + math.log(2), -inf, inf, nan, 3e38], rtol=1e-6)
        expected = [[0.5, 0.5, 0], [nan, nan, nan], [nan, 0, 0], [nan, nan, nan], [1, 0, 0]]
        np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-6)


def test_a_clamp_by_tensors_has_gradients() -> None:
    x, low, high = (tensor(v, requires_grad=True) for v in ([0.0, 2.0, 5.0], [1.0, 1.0, 1.0], [3.0, 3.0, 3.0]))
    (x.clamp(low, high) * tensor([1.0, 10.0, 100.0])).sum().backward()
    assert [t.grad.tolist() for t in (x, low, high) if t.grad is not None] == [[0, 10, 0], [1, 0, 0], [0, 0, 100]]


def test_bools_are_not_numbers_everywhere() -> None:
    mask = tensor([True, False])
    for refused in (lambda: 1 - mask, lambda: mask.relu(), lambda: mask.argmax(), lambda: -mask):
        with pytest.raises(TypeError, match="bool"):
            refused()
    assert (mask.square().dtype, mask.sign().dtype) == (pyapp.int64, pyapp.bool)
    assert pyapp.diff(mask).tolist() == [True]
    assert tensor([0, 3], dtype="uint8").any().dtype is pyapp.uint8
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert pyapp.histc(mask.to("float32"), 2).tolist() == [1, 1]
        assert mask.histc(2).shape == (2,)


def test_dtypes_that_do_not_meet() -> None:
    with pytest.raises(TypeError, match=r"matmul: .* same dtype: float32\[2, 2\] on cpu and float16"):
        pyapp.ones(2, 2) @ pyapp.ones(2, 2, dtype="float16")
    with pytest.raises(TypeError, match="heaviside"):
        pyapp.heaviside(tensor([1.0]), tensor([1]))
    assert pyapp.ldexp(tensor([1.0], dtype="float16"), tensor([3])).dtype is pyapp.float16
    assert pyapp.zeros(2).masked_fill(tensor([True, False]), 3).dtype is pyapp.float32
    assert tensor([1, 2]).masked_fill(tensor([True, False]), 3.0).dtype is pyapp.int64


def test_names_of_functions_dtypes_and_constants() -> None:
    x = tensor([[1.0, 2.0], [3.0, 4.0]])
    assert pyapp.eq(x, x).all() and pyapp.clone(x).tolist() == x.tolist()
    assert pyapp.multiply(x, x).tolist() == x.multiply(x).tolist() == [[1, 4], [9, 16]]
    assert x.select(1, -1).tolist() == [2, 4] and pyapp.t(x).tolist() == [[1, 3], [2, 4]]
    assert pyapp.inner(x, x).tolist() == [[5, 11], [11, 25]]
    assert pyapp.addmv(tensor([1.0, 1.0]), x, tensor([1.0, 1.0]), alpha=2).tolist() == [7, 15]
    assert (pyapp.long, pyapp.float, pyapp.half) == (pyapp.int64, pyapp.float32, pyapp.float16)
    assert (pyapp.finfo(pyapp.float16).max, pyapp.finfo("bfloat16").eps) == (65504, 2**-7)
    assert (pyapp.iinfo("int8").min, pyapp.iinfo("uint32").max) == (-128, 2**32 - 1)
    assert pyapp.promote_types("int8", "uint8") is pyapp.int16 and pyapp.result_type(x, 1.0) is pyapp.float32
    assert not pyapp.can_cast("float32", "int64") and pyapp.as_tensor(x) is x
    assert x.type_as(tensor([1])).dtype is pyapp.int64 and x.new_tensor([1]).dtype is pyapp.float32
    assert [p.tolist() for p in pyapp.unravel_index(tensor([5]), (2, 3))] == [[1], [2]]
    with pyapp.inference_mode():
        assert not (tensor([1.0], requires_grad=True) * 2).requires_grad
    with pytest.raises(AttributeError, match="no_such_name"):
        pyapp.no_such_name  # noqa: B018
    y = tensor([0.5])
    assert y.asin_() is y and y.atan2_(y) is y


def test_printing_has_torchs_options() -> None:
    x = tensor([1.5, 100.123])
    try:
        pyapp.set_printoptions(precision=2, sci_mode=True)
        assert repr(x) == "tensor([1.50e+00, 1.00e+02])"
        pyapp.set_printoptions(sci_mode=False)
        assert repr(tensor([1.5e-7, 100.123])) == "tensor([  0.00, 100.12])"
        pyapp.set_printoptions(profile="full")
        assert "..." not in repr(pyapp.arange(2000))
        with pytest.raises(ValueError, match="profile"):
            pyapp.set_printoptions(profile="long")
        with pytest.raises(TypeError, match="'digits'"):
            pyapp.set_printoptions(digits=2)
    finally:
        pyapp.set_printoptions(profile="default")
    assert repr(x) == "tensor([  1.5000, 100.1230])"


@pytest.mark.parametrize("ids", ["int32", "int64"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_an_embeddings_rows(dtype: str, ids: str) -> None:
    """With a kernel or without one: half types give float32 rows."""
    weight = pyapp.tensor([[0.5, -2], [3, 1], [7, 0.25]], dtype=dtype)
    rows = pyapp.embedding(weight, pyapp.tensor([2, 0, 2], dtype=ids))
    assert rows.dtype is (pyapp.float64 if dtype == "float64" else pyapp.float32)
    assert rows.tolist() == [[7, 0.25], [0.5, -2], [7, 0.25]]


def test_an_embeddings_gradient_is_as_exact_as_its_dtype() -> None:
    weight = pyapp.ones(2, 1, dtype=pyapp.float64).requires_grad_()
    (pyapp.embedding(weight, pyapp.tensor([0, 0])) * (1 / 3)).sum().backward()
    assert weight.grad is not None and weight.grad.tolist() == [[2 / 3], [0]]


# -- sizes, memory and dtypes that once went wrong


@pytest.mark.parametrize(
    "size,dtype", [((2**62,), "float32"), ((2**62,), "int32"), ((2**63, 2), "uint8"), ((2**32, 2**30), "float32")]
)
def test_sizes_that_no_memory_holds(size: tuple[int, ...], dtype: str) -> None:
    with pytest.raises(MemoryError, match="cannot allocate"):
        pyapp.empty(*size, dtype=dtype)


def test_what_says_where_elements_lie_cannot_be_assigned() -> None:
    x = pyapp.zeros(2, 3)
    for name, value in (("shape", (30, 30)), ("strides", (9, 9)), ("dtype", pyapp.float64), ("storage", None)):
        with pytest.raises(AttributeError, match=f"a tensor's {name} cannot be assigned"):
            setattr(x, name, value)
    with pytest.raises(ValueError, match="not negative"):
        x.resize_(-1)


def test_a_view_of_the_elements_keeps_their_memory() -> None:
    x = pyapp.full((1000,), 3.0)
    view = x.data_view()
    del x
    _ = [pyapp.full((1000,), 7.0) for _ in range(4)]
    assert list(view) == [3.0] * 1000


def test_a_small_float_without_dims_keeps_its_memory() -> None:
    x = pyapp.tensor(2.0).to(pyapp.float8_e4m3fn)
    _ = [pyapp.rand(3) for _ in range(100)]
    assert float(x.float()) == 2.0


def test_block_formats_have_memory() -> None:
    q = quant.quantize(pyapp.ones(8, 64), "q8_0")
    for made in (pyapp.zeros(8, 64, dtype="q8_0"), pyapp.zeros_like(q), q.new_zeros(8, 64)):
        assert made.dtype is pyapp.as_dtype("q8_0") and made.nbytes == q.nbytes
        assert made.to("float32").tolist() == [[0.0] * 64] * 8
    assert pyapp.empty_like(q).nbytes == q.nbytes
    assert pyapp.ones(8, 64).to("q8_0").to("float32")[0, 0].item() == pytest.approx(1, abs=1e-3)
    for wrong in (
        lambda: q.as_strided((80000, 64), (64, 1)), lambda: q.resize_(800, 640), lambda: quant.empty((-8, 64), "q8_0"),
        lambda: quant.from_groups(b"", b"", (1, 1), 0),
    ):  # fmt: skip
        with pytest.raises((TypeError, ValueError)):
            wrong()


def test_errors_about_block_formats_name_the_packed_tensor() -> None:
    q = quant.quantize(pyapp.ones(8, 64), "q8_0")
    assert nn.functional.linear(pyapp.ones(2, 64, dtype="float64"), q).dtype is pyapp.float64
    with pytest.raises(TypeError, match="the weight q8_0.* convert x to float32"):
        nn.functional.linear(pyapp.ones(2, 64, dtype="int32"), q)
    for call in (
        lambda: pyapp.eye(64, dtype="q8_0"), lambda: pyapp.arange(64, dtype="q8_0"),
        lambda: q.masked_fill(pyapp.tensor(True), 0.0), lambda: pyapp.randint(0, 5, (8, 64), dtype="q8_0"),
    ):  # fmt: skip
        with pytest.raises(TypeError, match="q8_0"):
            call()


def test_integers_stay_whole_where_a_fraction_is_filled_in() -> None:
    x = pyapp.tensor([16777217, 2147483647, 5])
    assert x.masked_fill(pyapp.tensor([False, False, True]), 2.5).tolist() == [16777217, 2147483647, 2]


def test_results_have_the_dtype_that_was_asked_for() -> None:
    x = pyapp.ones(3)
    assert pyapp.cumsum(x, 0, dtype=pyapp.int16).dtype is pyapp.cumprod(x, 0, dtype=pyapp.int16).dtype is pyapp.int16
    assert pyapp.prod(x, dtype=pyapp.uint8).dtype is pyapp.uint8
    assert pyapp.tensor([1e8, 1.0, -1e8]).sum(dtype=pyapp.float64).item() == 1.0
    assert pyapp.ones(5000, dtype=pyapp.float16).cumsum(0)[-1].item() == 5000


def test_arguments_that_are_no_numbers_of_ours() -> None:
    with pytest.raises(TypeError, match="complex"):
        pyapp.tensor(1 + 2j, dtype="float32")
    for draw in (lambda: pyapp.rand(3, dtype=pyapp.int64), lambda: pyapp.randn_like(pyapp.arange(3))):
        with pytest.raises(TypeError, match="randint"):
            draw()
    with pytest.raises(ValueError, match="not negative"):
        pyapp.normal(0.0, -1.0, (2,))
    with pytest.raises(TypeError, match="get_state"):
        pyapp.Generator().set_state(b"xx")  # type: ignore[arg-type]


def test_names_and_forms_of_torch() -> None:
    x = pyapp.tensor([1.0, 2.0, 4.0])
    assert pyapp.var_mean(x, unbiased=False)[0].item() == pytest.approx(14 / 9)
    assert pyapp.std_mean(x, unbiased=False)[0].item() == pytest.approx((14 / 9) ** 0.5)
    assert x.broadcast_to(2, 3).tolist() == x.broadcast_to((2, 3)).tolist() == [[1.0, 2.0, 4.0]] * 2
    assert pyapp.tensor(3.0).transpose(0, -1).item() == 3.0


def test_memory_is_exchanged_by_dlpack() -> None:
    x = pyapp.arange(6.0).reshape(2, 3)
    seen = np.from_dlpack(x.t())
    assert seen.tolist() == [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]
    x[0, 1] = 9.0
    assert seen[1, 0] == 9.0
    array = np.zeros(3)
    pyapp.from_dlpack(array).add_(1.0)
    assert array.tolist() == [1.0, 1.0, 1.0]
    assert pyapp.utils.dlpack.from_dlpack(x).data_ptr() == x.data_ptr()
    for y in (x.clone().requires_grad_(), x.bfloat16()):
        with pytest.raises(BufferError):
            np.from_dlpack(y)
    with pytest.raises(TypeError, match="__dlpack__"):
        pyapp.from_dlpack([1.0])


def test_lists_that_are_nested_too_deep() -> None:
    deep: Any = []
    for _ in range(5000):
        deep = [deep]
    for data in (deep, [1, deep]):
        with pytest.raises(ValueError, match="nested"):
            tensor(data)
    with pytest.raises(ValueError, match="dimension"):
        pyapp.ones(2)[deep]
    for make in (pyapp.zeros, pyapp.ones, pyapp.ones(2).reshape, pyapp.ones(2).expand):
        with pytest.raises(TypeError, match="a size is an integer"):
            make(deep)


@pytest.mark.parametrize("largest", [True, False])
def test_the_slope_of_an_extreme_that_is_nan(largest: bool) -> None:
    nan, name = math.nan, "max" if largest else "min"
    for values, whole in (
        ([1.0, nan, 3.0], [0, 1, 0]), ([nan, nan, 1.0], [0.5, 0.5, 0]), ([math.inf, 1.0, nan], [0, 0, 1]),
    ):  # fmt: skip
        assert slopes(lambda x: getattr(x, name)(), *values) == whole
        assert slopes(lambda x: x.norm(math.inf if largest else -math.inf), *values) == [0, 0, 0]
    assert slopes(lambda x: getattr(x, name)(), 2.0, 2.0) == [0.5, 0.5]


def test_the_slope_of_a_product_that_is_not_finite() -> None:
    nan, inf = math.nan, math.inf
    for values, expected in (
        ([1.0, nan, 3.0], [nan, nan, nan]), ([nan], [nan]), ([0.0, nan, 2.0], [nan, 0, nan]),
        ([inf, inf, 1.0], [nan, nan, inf]), ([0.0, 2.0, 3.0], [6, 0, 0]),
    ):  # fmt: skip
        for product in (lambda x: x.prod(), lambda x: x.prod(0)):
            np.testing.assert_array_equal(slopes(product, *values), expected)


@pytest.mark.parametrize(
    ("a", "x", "expected"),
    [  # by mpmath
        (1e30, 1e30, 0.5), (1e308, 1e308, 0.5), (1e10, 1e10, 0.500001329807601339), (2e4, 1.9e4, 3.23687464361859e-13),
        (1e4, 9700.0, 0.0012341755844684919966), (1e4, 10400.0, 0.99996111982942601179), (1e4, 1e30, 1.0),
        (1e30, 1e4, 0.0), (9999.0, 9999.0, 0.50132987483543325),
    ],
)  # fmt: skip
def test_incomplete_gamma_functions_of_large_arguments(a: float, x: float, expected: float) -> None:
    given = [tensor(value, dtype=pyapp.float64) for value in (a, x)]
    assert pyapp.special.gammainc(*given).item() == pytest.approx(expected, rel=1e-9)
    assert pyapp.special.gammaincc(*given).item() == pytest.approx(1 - expected, rel=1e-10, abs=1e-15)


@pytest.mark.parametrize("what", ["stride", "dilation"])
@pytest.mark.parametrize("value", [0, -1, 2**31, 2**63])
def test_convolutions_refuse_distances(what: str, value: int) -> None:
    """As torch does, before gigabytes are allocated."""
    f = nn.functional
    for call in (f.conv1d, f.conv_transpose1d):
        with pytest.raises(ValueError, match=f"a {what} is at least 1"):
            call(pyapp.ones(1, 1, 3), pyapp.ones(1, 1, 2), **{what: value})


def test_results_that_no_memory_holds_are_refused_at_once() -> None:
    f = nn.functional
    x = pyapp.ones(1, 1, 8, 8)
    with pytest.raises(MemoryError, match="847,660,528 rows"):
        pyapp.combinations(pyapp.arange(40), 10)
    for call in (
        lambda: f.adaptive_max_pool2d(x, 1 << 31),
        lambda: f.adaptive_avg_pool2d(x, (1 << 31) - 1),
        lambda: pyapp.einsum("a,b,c,d,e,f", *(pyapp.ones(100_000) for _ in range(6))),
    ):
        with pytest.raises(MemoryError):
            call()
    for call in (
        lambda: pyapp.arange(1 << 62), lambda: pyapp.eye(1 << 40), lambda: pyapp.zeros(3).repeat_interleave(1 << 62),
        lambda: f.one_hot(pyapp.tensor([1 << 62])), lambda: f.interpolate(x, scale_factor=2.0**62),
    ):  # fmt: skip
        with pytest.raises(MemoryError, match=r"[a-z_]+: (?!array is too big|Unable)"):
            call()
    with peak_memory(1 << 22):  # nothing is made on the way
        with pytest.raises(MemoryError, match="[0-9],[0-9]{3} bytes"):
            f.pad(x, (1 << 40, 0), "replicate")
        with pytest.raises(MemoryError, match="[0-9],[0-9]{3} bytes"):
            pyapp.ones(1 << 12, 1).repeat_interleave(1 << 45, 1)
        with pytest.raises(ValueError, match="the window does not fit win_length 1073741824, n_fft 4"):
            pyapp.stft(x[0, 0, 0], 4, win_length=1 << 30, return_complex=True)
    with pytest.raises(ValueError, match="dimension"):
        pyapp.mvlgamma(pyapp.tensor([1e9]), 10**9)
    with pytest.raises(ValueError, match="order"):
        pyapp.special.polygamma(10**9, pyapp.tensor([1.0]))


def test_floats_are_no_sizes() -> None:
    """A layout of floats would be found again for the same sizes as integers."""
    x = pyapp.zeros(3, 4)
    for view in (
        lambda: x.narrow(0, 1, 1.0), lambda: x.narrow(0, 1.0, 1), lambda: x.diagonal(2.0), lambda: x.unfold(0, 2.0, 1),
        lambda: x.unfold(0, 2, 1.0), lambda: x.split([1.0, 2.0]), lambda: x.diag(1.0), lambda: pyapp.zeros(7.0),
    ):  # fmt: skip
        with pytest.raises(TypeError):
            view()
    with pytest.raises(TypeError):
        pyapp.Tensor.from_buffer(bytes(44), (11.0,), "float32")
    assert pyapp.ones(11).sum().item() == 11 and pyapp.ones(np.int64(7)).shape == (7,)


def test_mvlgamma_of_a_large_dimension() -> None:
    p, x = 3000, 2000.0
    expected = p * (p - 1) / 4 * math.log(math.pi) + sum(math.lgamma(x - j / 2) for j in range(p))
    assert pyapp.mvlgamma(pyapp.tensor([x], dtype=pyapp.float64), p).item() == pytest.approx(expected, rel=1e-12)


def test_sizes_are_checked_before_the_work() -> None:
    with pytest.raises(MemoryError, match="tensor_split: 1,099,511,627,776 sections of 4"):
        pyapp.ones(4).tensor_split(2**40)
    with pytest.raises(MemoryError):
        pyapp.nn.functional.affine_grid(pyapp.ones(1, 2, 3), (1, 1, 2**31, 2**31))
    for shape, kind in (((3, 5), "q4_0"), ((3, 40), "q5_1"), ((3, 100), "q4_K")):
        with pytest.raises(ValueError, match="whole blocks"):
            pyapp.zeros(*shape, dtype=kind)
    assert pyapp.zeros(3, 5, dtype="q8_0").to("float32").tolist() == [[0.0] * 5] * 3


@pytest.mark.filterwarnings("error")
def test_numbers_beyond_a_dtype_become_infinite_without_a_warning() -> None:
    for x in (
        tensor([1e10], dtype="float16"), tensor(np.array([1e300]), dtype="float32"), pyapp.logspace(400, 400, 1),
        pyapp.linspace(1e6, 1e6, 1, dtype="float16"), pyapp.arange(1e5, 2e5, 1e5, dtype="float16"),
    ):  # fmt: skip
        assert x.tolist() == [math.inf]


@pytest.mark.parametrize("value", [0.5, -0.5, float("nan"), 256])
def test_bools_are_true_of_every_number_but_zero(value: float) -> None:
    """However the number comes into the tensor; as in torch."""
    x = pyapp.zeros(3, dtype=pyapp.bool)
    written = x.clone()
    written[1] = value
    assert written.tolist() == [False, True, False]
    assert x.clone().fill_(value).tolist() == pyapp.full_like(x, value).tolist() == [True] * 3
    assert pyapp.zeros(2, 3, dtype=pyapp.bool).T.fill_(value).all()
    assert nn.functional.pad(x, (1, 1), value=value).tolist() == [True, False, False, False, True]
    assert pyapp.full((2,), -0.0, dtype=pyapp.bool).tolist() == [False, False]


def test_dims_of_a_number_are_checked() -> None:
    one = tensor(1.0)
    for name in ("argmax", "argmin", "median", "nanmedian", "cummax", "cummin"):
        with pytest.raises(IndexError, match="dim 1 is out of range"):
            getattr(one, name)(1)
        getattr(one, name)(-1)


def test_searchsorted_of_no_rows() -> None:
    found = pyapp.searchsorted(pyapp.zeros(0, 3), pyapp.zeros(0, 2))
    assert found.shape == (0, 2) and found.dtype == pyapp.int64
    rows = tensor([[[1.0, 3.0], [2.0, 4.0]]])
    assert pyapp.searchsorted(rows, tensor([[[3.0, 0.0, 9.0], [3.0, 4.0, 5.0]]])).tolist() == [[[1, 0, 2], [1, 1, 2]]]


def test_hypot_of_integers_is_of_floats() -> None:
    found = pyapp.hypot(pyapp.tensor([1, 3]), pyapp.tensor([1, 4]))
    assert found.dtype is pyapp.float32 and pyapp.allclose(found, pyapp.tensor([2.0**0.5, 5.0]))
    with pytest.raises(TypeError, match="does not go into int64"):
        pyapp.tensor([3]).hypot_(pyapp.tensor([4]))


def test_small_integers_as_offsets() -> None:
    """Sizes are computed with Python's integers: those of NumPy and of tensors would wrap at 127 here."""
    x = pyapp.arange(100.0)
    for offset in (np.int8(100), pyapp.tensor(100, dtype="int8"), pyapp.tensor([-100], dtype="int16")):
        wide = pyapp.diag(x, diagonal=offset)
        assert wide.shape == pyapp.diagflat(x, offset).shape == pyapp.diag_embed(x, offset).shape == (200, 200)
        assert wide.sum().item() == x.sum().item() == pyapp.diag(wide, offset).sum().item()


def test_small_integers_as_other_arguments() -> None:
    x = pyapp.arange(240.0).reshape(120, 2)
    pictures = pyapp.arange(512.0).reshape(1, 128, 2, 2)
    calls: list[tuple[Any, Any, int]] = [
        (pyapp.roll, x, 100), (pyapp.roll, x, -128), (pyapp.tril, x, -128), (pyapp.triu, x, -100),
        (pyapp.histc, x, 127), (pyapp.mvlgamma, x + 100, 100), (pyapp.nn.functional.pixel_shuffle, pictures, 8),
        (pyapp.nn.functional.local_response_norm, pictures, 5),
        (lambda x, n: pyapp.var(x, 0, correction=n), x, -100), (lambda x, n: pyapp.cov(x.T, correction=n), x, 100),
        (lambda x, n: pyapp.roll(x, (n, 1), (0, 1)), x, 100),
    ]  # fmt: skip

    def check(call: Any, x: Any, number: int) -> None:
        expected = call(x, number).numpy()
        for small in (np.int8(number), pyapp.tensor(number, dtype="int8"), pyapp.tensor([number], dtype="int8")):
            np.testing.assert_array_equal(call(x, small).numpy(), expected)

    check_each(check, calls)
    np.testing.assert_array_equal(
        pyapp.roll(x, pyapp.tensor([3, 1]), (0, 1)).numpy(), pyapp.roll(x, (3, 1), (0, 1)).numpy()
    )


def test_more_dims_and_choices_than_there_are() -> None:
    a, b = pyapp.ones(2, 3), pyapp.ones(3, 2)
    for dims in (3, -1, 2**63 - 1, ([5], [0]), ([1], [-3])):
        with pytest.raises((ValueError, IndexError), match="tensordot"):
            pyapp.tensordot(a, b, dims)
    assert pyapp.combinations(pyapp.ones(2), 2**32).shape == (0, 2**32)
    with pytest.raises(TypeError, match="is_contiguous: memory_format is one of torch's, not int"):
        a.is_contiguous(3)


@pytest.mark.parametrize("reduce", ["sum", "mean", "prod", "amax"])
def test_a_repeated_index_reduces_as_its_copy(reduce: str) -> None:
    """Whole rows, all of their columns or the first ones; with and without what was there."""
    rows, x = pyapp.tensor([2, 0, 2, 2])[:, None], pyapp.arange(12.0).reshape(3, 4) + 1
    for columns in (4, 3):
        source = (pyapp.arange(4.0 * columns).reshape(4, columns) - 5.5) / 3
        for include in (True, False):
            found, slopes = [], []
            for index in (rows.expand(4, columns), rows.expand(4, columns).contiguous()):
                a, b = x.clone().requires_grad_(), source.clone().requires_grad_()
                found.append(a.scatter_reduce(0, index, b, reduce, include_self=include))
                slopes.append([g.tolist() for g in pyapp.autograd.grad((found[-1] ** 2).sum(), (a, b))])
            assert found[0].tolist() == found[1].tolist() and slopes[0] == slopes[1]
            assert found[0][1].tolist() == x[1].tolist() and found[0][:, columns:].tolist() == x[:, columns:].tolist()
