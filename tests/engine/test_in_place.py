"""Writes in place under autograd: refused writes, second derivatives, tensors that change their shape in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import Tensor, tensor
from pyapp.autograd import grad, gradcheck, gradgradcheck
from tests.together import check_each, fewer_in_browser

from .leaves import leaf64


def test_in_place_writes_that_gradients_cannot_bear_are_refused() -> None:
    x = leaf64(1, 2)
    with pytest.raises(RuntimeError, match="a view of a leaf"):
        x[0].mul_(2)
    y = x.exp()
    y.mul_(2)  # exp needs its result
    with pytest.raises(RuntimeError, match="'exp'.*changed in place"):
        y.sum().backward()
    with pytest.raises(RuntimeError, match="expanded"):
        pyapp.zeros(1).expand(3).fill_(1)
    with pytest.raises(TypeError, match="add_.*float32"):
        pyapp.tensor([1, 2]).add_(0.5)


OTHERS: dict[str, Callable[[Tensor], Any]] = {
    "a tensor": lambda x: pyapp.full_like(x, 0.3) + x * 0.1,
    "itself": lambda x: x,
    "a number": lambda x: 1.5,
    "an integer": lambda x: 3,
    "a row": lambda x: x[0].clone(),
    "a column": lambda x: x[:, :1].clone(),
    "the matrix turned": lambda x: (x * 0.5).mT.contiguous().mT,
    "one element": lambda x: pyapp.tensor(2.0),
    "integers": lambda x: pyapp.ones(x.shape, dtype="int64") * 2,
    "beyond float32": lambda x: 1e300,
    "rows of its own memory": lambda x: x[0],
}


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("name", ["add", "sub", "mul", "div"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_written_in_place_as_out_of_place(name: str, other: str, dtype: str) -> None:
    start = (pyapp.arange(12.0).reshape(3, 4) + 1).to(dtype)
    for x in (start.clone(), start.mT.clone().mT, pyapp.stack([start, start], -1)[..., 0]):
        expected = getattr(x, name)(OTHERS[other](x)).to(dtype)
        version = x._version
        assert getattr(x, name + "_")(OTHERS[other](x)) is x and x._version > version
        np.testing.assert_array_equal(x.numpy(), expected.numpy())


FUNCTIONS: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(
        "abs acos asin atan ceil cos cosh digamma erf erfc exp exp2 expm1 floor frac lgamma log log10 log1p log2 neg "
        "reciprocal relu round rsqrt sigmoid sign sin sinc sinh sqrt square tan tanh trunc".split(), ()
    ),
    "clamp": (-0.5, 0.4), "clip": (0.1,), "clamp_min": (0.2,), "clamp_max": (0.3,),
}  # fmt: skip
LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "dense": lambda whole: whole[:3, :4].clone(), "rows": lambda whole: whole[1:4], "turned": lambda whole: whole.mT,
    "columns": lambda whole: whole[:, 1:4], "every other": lambda whole: whole[::2, ::2],
    "none": lambda whole: whole[:0]
}  # fmt: skip


def test_functions_written_in_place() -> None:
    """They write what the out-of-place form gives, to the bit, and nothing beside it."""

    def agrees(name: str, layout: str, dtype: str) -> None:
        whole = (pyapp.arange(30.0).reshape(5, 6) / 13 - 1.1).to(dtype)
        x = LAYOUTS[layout](whole)
        with np.errstate(all="ignore"):
            expected, version = getattr(x, name)(*FUNCTIONS[name]), x._version
            places = LAYOUTS[layout](pyapp.arange(30).reshape(5, 6)).reshape(-1).tolist() if layout != "dense" else []
            left = [v for k, v in enumerate(whole.reshape(-1).tolist()) if k not in places]
            assert getattr(x, name + "_")(*FUNCTIONS[name]) is x and x._version > version
        np.testing.assert_array_equal(x.float().numpy(), expected.to(dtype).float().numpy())
        assert [v for k, v in enumerate(whole.reshape(-1).tolist()) if k not in places] == left

    cases = [(n, layout, t) for n in FUNCTIONS for layout in LAYOUTS for t in ("float32", "float16", "float64")]
    check_each(agrees, fewer_in_browser(cases, 5))


BLENDS: dict[str, Callable[..., Any]] = {
    "add": lambda call, y, z: call(y, alpha=-0.3), "sub": lambda call, y, z: call(y, alpha=2),
    "lerp": lambda call, y, z: call(y, 0.3), "lerp_back": lambda call, y, z: call(y, weight=0.75),
    "addcmul": lambda call, y, z: call(y, z, value=0.4), "addcdiv": lambda call, y, z: call(y, z + 3),
}  # fmt: skip


def test_blends_written_in_place() -> None:
    """To the bit what the out-of-place form gives, with tensors of their own, of the same memory and beside it."""

    def agrees(name: str, layout: str, dtype: str) -> None:
        whole = (pyapp.arange(30.0).reshape(5, 6) / 13 - 1.1).to(dtype)
        y, z = (whole.clone() * 0.7).requires_grad_(False), whole.flip(0)
        x = LAYOUTS[layout](whole)
        given = {"own": (x, x), "beside": (LAYOUTS[layout](whole.roll(1, 0)), LAYOUTS[layout](z))}
        for others in ((LAYOUTS[layout](y), LAYOUTS[layout](z)), *given.values()):
            op = name.removesuffix("_back")
            expected, version = BLENDS[name](getattr(x, op), *others), x._version
            assert BLENDS[name](getattr(x, op + "_"), *others) is x and x._version > version
            np.testing.assert_array_equal(x.float().numpy(), expected.float().numpy())

    cases = [(n, layout, t) for n in BLENDS for layout in LAYOUTS for t in ("float32", "float16", "float64")]
    check_each(agrees, fewer_in_browser(cases, 5))
    rows = pyapp.arange(10.0)
    rows[:-1].add_(rows[1:], alpha=2)  # what it reads is written before it
    assert rows.tolist() == [2, 5, 8, 11, 14, 17, 20, 23, 26, 9]


def test_limits_in_place() -> None:
    x = tensor([-2.0, 0.5, 3.0])
    assert x.clone().clamp_(max=1, min=-1).tolist() == [-1, 0.5, 1]
    assert x.clone().clamp_(tensor([0.0, 1.0, 2.0])).tolist() == [0, 1, 3]
    assert x.clone().clamp_(1e300).tolist() == x.clamp(1e300).tolist() == [float("inf")] * 3
    assert x.clone().clamp_(-1e300, 1e300).tolist() == x.tolist()
    assert x.double().clamp_(-1e300, 2.5).tolist() == [-2, 0.5, 2.5]
    assert all(v != v for v in x.clone().clamp_(0.0, float("nan")).tolist())
    assert tensor([1, 5]).clamp_(2, 3).tolist() == [2, 3] and tensor([True]).to("int8").relu_().tolist() == [1]
    before = x.tolist()
    with pytest.raises(ValueError, match="give min, max or both"):
        x.clamp_()
    with pytest.raises(TypeError):
        x.clamp_(0.0, wrong=1.0)
    with pytest.raises(TypeError, match=r"clamp_.*float32"):
        tensor([1, 2]).clamp_(0.5)
    with pytest.raises(RuntimeError, match="expanded"):
        x[:1].expand(3).relu_()
    assert x.tolist() == before
    leaf = leaf64(1, 2)
    with pytest.raises(RuntimeError, match="a leaf"):
        leaf.clamp_(0.0, 1.0)
    y = leaf * 2
    y.clamp_(-0.5, 0.5)
    inside = (leaf.detach() * 2).abs() <= 0.5
    np.testing.assert_array_equal(grad(y.sum(), leaf)[0].numpy(), inside.numpy() * 2.0)


def test_operators_of_shifts_write_into_the_tensor() -> None:
    x = pyapp.arange(4)
    part = x[1:]
    part <<= 2
    x >>= 1
    assert x.tolist() == [0, 2, 4, 6] and part.tolist() == [2, 4, 6]


def test_what_overlaps_is_read_before_it_is_written() -> None:
    x = pyapp.arange(5.0)
    x[1:].add_(x[:-1])
    assert x.tolist() == [0, 1, 3, 5, 7]
    x[:].mul_(x.data[1])  # one element of the same memory by another storage
    assert x.tolist() == [0, 1, 3, 5, 7]
    with pytest.raises(RuntimeError, match="expanded"):
        pyapp.ones(1).expand(3).add_(1)
    with pytest.raises(ValueError, match="does not fit"):
        pyapp.ones(3).add_(pyapp.ones(2, 3))
    with pytest.raises(ValueError, match="add_.*broadcast"):
        pyapp.ones(3).add_(pyapp.ones(2))


def test_writes_in_place_are_replayed() -> None:
    x, y = pyapp.ones(4), pyapp.full((4,), 2.0)
    graph = pyapp.capture(lambda: x.mul_(y).add_(1.0))
    x.copy_(pyapp.ones(4))
    graph.replay()
    graph.replay()
    assert x.tolist() == [7, 7, 7, 7]


def test_second_order_through_in_place() -> None:
    def f(x: Tensor, w: Tensor) -> Tensor:
        y = pyapp.zeros(2, 2, dtype="float64")
        y[0] = x * w
        y[:, 1].mul_(w[0]).sin_()
        y += x
        return y * y

    assert gradcheck(f, (leaf64(0.4, -1.1), leaf64(0.7, 0.2)))
    assert gradgradcheck(f, (leaf64(0.4, -1.1), leaf64(0.7, 0.2)))
    for name in ("sigmoid", "tanh", "exp", "relu", "leaky_relu", "neg"):  # of which gradients may read the result
        assert gradgradcheck(lambda x, name=name: getattr(x * 1.5, name + "_")() ** 2, leaf64(0.4, -1.1)), name


def test_direct_writes_have_the_gradients_of_the_others() -> None:
    """A kernel writes into the tensor itself where the gradient reads no argument; its views follow."""

    def run(write: Callable[[Tensor, Tensor], Tensor]) -> list[Any]:
        x, w = (tensor([[0.3, -1.2], [0.5, 2.0]], requires_grad=True) for _ in range(2))
        y = x * 2
        row = y[1]
        y.retain_grad()
        loss = (write(y, w) * row).sum()
        loss.backward()
        return [loss.item(), y.grad.tolist(), x.grad.tolist(), None if w.grad is None else w.grad.tolist()]

    writes: dict[str, Any] = {
        "add": (lambda y, w: y.add_(w), lambda y, w: y.copy_(y + w)),
        "add itself": (lambda y, w: y.add_(y), lambda y, w: y.copy_(y + y)),
        "add turned": (lambda y, w: y.add_(y.mT), lambda y, w: y.copy_(y + y.mT)),
        "sub row": (lambda y, w: y.sub_(w[0]), lambda y, w: y.copy_(y - w[0])),
        "relu": (lambda y, w: pyapp.nn.functional.relu(y, inplace=True), lambda y, w: y.copy_(y.relu())),
    }  # fmt: skip
    for name, (direct, copied) in writes.items():
        assert run(direct) == run(copied), name


def test_second_order_through_rows() -> None:
    w, ids = tensor([[0.3, 1.2], [0.5, -1.0]], dtype="float64", requires_grad=True), tensor([1, 0, 1])
    assert gradgradcheck(lambda w: w[ids].sin(), w)
    assert gradgradcheck(lambda w: w.gather(0, ids.reshape(1, 3)[:, :2]).exp(), w)
    W = tensor([[0.3, 1.2], [0.5, -1.0]], requires_grad=True)
    (first,) = grad(pyapp.embedding(W, ids).sin().sum(), W, create_graph=True)
    (second,) = grad(first.sum(), W)
    expected = -np.sin(W.detach().numpy()) * np.array([[1], [2]])
    np.testing.assert_allclose(second.numpy(), expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("call", "changed", "allowed"),
    [
        (lambda x, c: pyapp.where(x > 0, c, x), "c", True),
        (lambda x, c: x * c, "x", True),
        (lambda x, c: x * c, "c", False),
        (lambda x, c: x / c, "x", True),
        (lambda x, c: c / x, "x", False),
        (lambda x, c: x @ c, "x", True),
        (lambda x, c: x @ c, "c", False),
        (lambda x, c: pyapp.nn.functional.linear(x, c), "x", True),
        (lambda x, c: pyapp.nn.functional.linear(x, c), "c", False),
        (lambda x, c: pyapp.lerp(x, c, 0.3), "x", True),
        (lambda x, c: pyapp.lerp(x, c, 0.3), "c", True),
        (lambda x, c: pyapp.lerp(c, c, x), "c", False),
        (lambda x, c: x % c, "x", True),
        (lambda x, c: pyapp.fmod(x, c), "c", True),
        (lambda x, c: c % x, "c", False),
        (lambda x, c: pyapp.copysign(x, c), "c", True),
        (lambda x, c: pyapp.copysign(x, c), "x", False),
        (lambda x, c: pyapp.nn.functional.conv1d(x.unsqueeze(0), pyapp.ones(2, 3, 2), c[0, :2]), "c", True),
        (lambda x, c: pyapp.nn.functional.conv1d(x.unsqueeze(0), c.unsqueeze(-1)), "c", False),
        (lambda x, c: pyapp.nn.functional.group_norm(x.unsqueeze(0), 3, None, c[0]), "c", True),
        (lambda x, c: pyapp.linalg.eigvalsh(x @ x.mT) + 0 * c, "x", False),  # the product reads it
    ],
)
def test_only_what_a_gradient_reads_must_not_change(call: Any, changed: str, allowed: bool) -> None:
    """As in torch, the gradient of a product with a constant needs the constant only."""
    leaf, constant = pyapp.rand(3, 3).requires_grad_(), pyapp.rand(3, 3) + 1
    x = leaf * 1
    y = call(x, constant)
    (x if changed == "x" else constant).add_(1.0)
    if allowed:
        y.sum().backward()
        assert leaf.grad is not None
    else:
        with pytest.raises(RuntimeError, match="changed in place"):
            y.sum().backward()


@pytest.mark.parametrize("name", ["elu", "celu", "selu", "silu", "gelu", "softplus", "leaky_relu"])
def test_results_of_activations_may_be_written(name: str) -> None:
    """As a residual is added to them."""
    made = []
    for in_place in (False, True):
        leaf = pyapp.tensor([-2.0, -0.5, 0.0, 0.5, 2.0]).requires_grad_()
        y = getattr(pyapp.nn.functional, name)(leaf * 1)
        y = y.mul_(3) if in_place else y * 3
        y.sum().backward()
        made.append(leaf.grad)
    assert pyapp.equal(*made)


def test_gradients_go_through_the_shapes_that_tensors_had() -> None:
    """A tensor that takes another shape in place after it went into something, and was written through a view."""

    def written(x: Tensor) -> Tensor:
        x[0] += 1
        return x

    def through_view(x: Tensor) -> Tensor:
        view = x.view(-1)
        view[0] = 5.0
        x.t_()
        view[1] *= 2
        return (x**2).sum() + view.sum()

    cases: dict[str, tuple[Callable[[Tensor], Tensor], list[float]]] = {
        "a sum": (lambda x: (x.sum(0), x.squeeze_())[0].sum() + (x**3).sum(), [4.0, 13.0]),
        "a write": (lambda x: (written(x).squeeze_() ** 2).sum(), [4.0, 4.0]),
        "copies": (lambda x: (written(x.repeat(2, 1)).squeeze_() ** 2).sum(), [6.0, 8.0]),
        "a view": (through_view, [0.0, 18.0]),
    }
    for name, (compute, expected) in cases.items():
        leaf = pyapp.tensor([[1.0], [2.0]]).requires_grad_()
        compute(leaf * 1).backward()
        assert leaf.grad is not None and leaf.grad.flatten().tolist() == expected, name


def test_the_view_that_a_tensor_becomes_is_known() -> None:
    x = pyapp.arange(6.0).reshape(2, 3)
    before = x._version
    assert x.t_() is x and x.shape == (3, 2) and x.strides == (1, 3) and x._version == before + 1
    leaf = pyapp.ones(2, 3, requires_grad=True)
    with pytest.raises(RuntimeError, match="t_: a leaf .*cannot write in place into a leaf"):
        leaf.t_()
    with pyapp.no_grad():
        leaf.t_()
    assert leaf.is_leaf and leaf.shape == (3, 2)
    kept = (leaf * 2).exp()
    kept.unsqueeze_(0)  # exp needs its result as it was
    with pytest.raises(RuntimeError, match="'exp'.*changed in place"):
        kept.sum().backward()


def test_data_that_overlaps_is_copied_first() -> None:
    x = pyapp.arange(5.0)
    x[1:].copy_(x.data[:-1])  # the same memory by another storage
    assert x.tolist() == [0, 0, 1, 2, 3]
    y = pyapp.ones(4)
    for _ in range(3):
        y.data = y.data
    assert y._storage.owner is not None and y._storage.owner.owner is None  # no chain of owners
    kept = pyapp.arange(3.0).data  # outlives the tensor that it showed
    assert [pyapp.zeros(3).sum().item() for _ in range(3)] == [0, 0, 0] and kept.tolist() == [0, 1, 2]


def test_what_is_assigned_wrongly_is_named() -> None:
    x = pyapp.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"grad: the gradient has the shape \(2,\), the tensor \(3,\)"):
        x.grad = pyapp.ones(2)
    with pytest.raises(RuntimeError, match="grad: the gradient has the dtype .*float64"):
        x.grad = pyapp.ones(3, dtype="float64")
    with pytest.raises(RuntimeError, match="computed from others.*detach"):
        (x * 2).requires_grad = True
    with pytest.raises(RuntimeError, match=r"numpy: Can't call .*\.detach\(\)\.numpy\(\)"):
        x.numpy()


def test_diagonals_are_filled_as_in_torch() -> None:
    assert pyapp.zeros(5, 2).fill_diagonal_(1, wrap=True).tolist() == [[1, 0], [0, 1], [0, 0], [1, 0], [0, 1]]
    assert pyapp.zeros(2, 4).fill_diagonal_(1, wrap=True).tolist() == [[1, 0, 0, 0], [0, 1, 0, 0]]
    assert pyapp.zeros(3, 3, 3).fill_diagonal_(2).nonzero().tolist() == [[0, 0, 0], [1, 1, 1], [2, 2, 2]]
    x = pyapp.ones(3, 3, requires_grad=True)
    (x * 2).fill_diagonal_(5).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [[0, 2, 2], [2, 0, 2], [2, 2, 0]]
    with pytest.raises(RuntimeError, match="fill_diagonal_: takes a matrix"):
        pyapp.zeros(2, 3, 3).fill_diagonal_(1)


def test_a_view_of_a_leaf_that_is_a_view_is_not_written() -> None:
    """A leaf may show memory of another tensor, as after reshape; its views are refused, as in torch."""
    base = pyapp.arange(6.0)
    x = base.reshape(2, 3).requires_grad_()
    for write in (lambda: x[0].zero_(), lambda: x.view(6).add_(1), lambda: x.zero_(), lambda: x.__setitem__(0, 1)):
        with pytest.raises(RuntimeError, match="a view of a leaf"):
            write()
    assert x.is_leaf and x.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    with pyapp.no_grad():
        x[0].zero_()
    y = x * 1
    y[0].mul_(2)
    y.sum().backward()
    assert x.grad is not None and x.grad.tolist() == [[2.0] * 3, [1.0] * 3]


def test_gradients_of_reductions_into_places_keep_16_bits() -> None:
    for kind, reduce in (("bfloat16", "amax"), ("float16", "amin"), ("bfloat16", "prod"), ("float16", "mean")):
        x = pyapp.ones(3, dtype=kind).requires_grad_()
        y = pyapp.tensor([1.0, 2.0, 3.0]).to(kind).requires_grad_()
        found = x.scatter_reduce(0, pyapp.tensor([0, 0, 1]), y, reduce, include_self=False)
        found.sum().backward()
        assert x.grad.dtype is y.grad.dtype is x.dtype


@pytest.mark.parametrize("reduce", ["sum", "mean", "prod", "amax", "amin"])
def test_elements_that_do_not_count_may_be_nan(reduce: str) -> None:
    """Without include_self what was there has no part in the result, nor in the gradient."""
    x = pyapp.tensor([float("nan"), float("inf"), 3.0]).requires_grad_()
    found = x.scatter_reduce(0, pyapp.tensor([0, 1]), pyapp.tensor([4.0, 5.0]), reduce, include_self=False)
    assert found.tolist() == [4.0, 5.0, 3.0]
    found.backward(pyapp.tensor([float("inf"), 1.0, 1.0]))
    assert x.grad is not None and x.grad.tolist() == [0.0, 0.0, 1.0]


def test_places_of_a_single_number_in_every_float_type() -> None:
    """A tensor without dims is written too: in 16 bits the writes of scatter and gather's gradient were lost."""
    at = pyapp.tensor([0])
    for kind in ("float32", "float64", "float16", "bfloat16"):
        one, none = pyapp.ones(1, dtype=kind), pyapp.zeros((), dtype=kind)
        found = [
            none.scatter_add(0, at, one), none.scatter(0, at, one), none.scatter_reduce(0, at, one, "amax"),
            none.index_add(0, at, one), none.index_copy(0, at, one), none.put(at, one),
        ]  # fmt: skip
        assert [x.item() for x in found] == [1.0] * 6, kind
        x = none.clone().requires_grad_()
        x.gather(0, at).sum().backward()
        assert x.grad.item() == 1.0, kind


def test_a_product_with_zeros_has_a_gradient() -> None:
    """That of a factor 0 is the product of the others; values from torch."""
    at = pyapp.tensor([0, 0, 1, 2, 2, 3, 3])
    for include_self, own, others in (
        (True, [0, 0, 0, 0], [8, 0, 0, 45, 0, 0, 0]), (False, [0, 0, 0, 0], [4, 0, 2, 15, 0, 0, 8])
    ):  # fmt: skip
        a = pyapp.tensor([2.0, 0.0, 3.0, 0.0], requires_grad=True)
        b = pyapp.tensor([0.0, 4.0, 0.0, 0.0, 5.0, 2.0, 0.0], requires_grad=True)
        found = a.scatter_reduce(0, at, b, "prod", include_self=include_self)
        (found * pyapp.tensor([1.0, 2.0, 3.0, 4.0])).sum().backward()
        assert a.grad.tolist() == own and b.grad.tolist() == others


def test_index_fill_counts_a_place_once() -> None:
    value = pyapp.tensor(2.0, requires_grad=True)
    filled = pyapp.ones(3, 3).index_fill(1, pyapp.tensor([0, 0, 2]), value)
    (filled * pyapp.arange(9.0).reshape(3, 3)).sum().backward()
    assert filled.tolist() == [[2.0, 1.0, 2.0]] * 3 and value.grad.item() == 24.0
