"""Which functions return a new tensor on the same memory, and which the tensor itself, as in torch."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import pyapp
from pyapp import Tensor

Give = Callable[[Tensor], Tensor]

VIEWS: dict[str, Give] = {
    "reshape": lambda x: x.reshape(x.shape),
    "reshape_as": lambda x: x.reshape_as(x),
    "view": lambda x: x.view(x.shape),
    "squeeze": lambda x: x.squeeze(),
    "squeeze of a dim": lambda x: x.squeeze(0),
    "squeeze of dims": lambda x: x.squeeze((0,)),
    "expand": lambda x: x.expand(x.shape),
    "expand_as": lambda x: x.expand_as(x),
    "broadcast_to": lambda x: x.broadcast_to(x.shape),
    "permute": lambda x: x.permute(tuple(range(x.ndim))),
    "transpose": lambda x: x.transpose(0, 0),
    "T": lambda x: x.T.T,
    "unflatten": lambda x: x.unflatten(0, x.shape[:1]) if x.ndim else x.view(()),
    "ravel": lambda x: x.ravel() if x.ndim == 1 else x.view(x.shape),
    "t": lambda x: x.t() if x.ndim < 2 else x.view(x.shape),
    "meshgrid": lambda x: pyapp.meshgrid(x)[0] if x.ndim == 1 else x.view(x.shape),
    "einsum": lambda x: pyapp.einsum("...->...", x),
    "detach": lambda x: x.detach(),
    "Variable": lambda x: pyapp.autograd.Variable(x),
}
THEMSELVES: dict[str, Give] = {
    "contiguous": lambda x: x.contiguous(),
    "to": lambda x: x.to(x.dtype),
    "float": lambda x: x.float(),
    "cpu": lambda x: x.cpu(),
    "positive": lambda x: x.positive(),
    "sum_to_size": lambda x: x.sum_to_size(x.shape),
    "broadcast_tensors": lambda x: pyapp.broadcast_tensors(x, x)[0],
    "flatten of one dim": lambda x: x.flatten() if x.ndim == 1 else x,
    "atleast_1d": lambda x: pyapp.atleast_1d(x) if x.ndim else x,
}
SHAPES: list[tuple[int, ...]] = [(), (3,), (2, 3)]


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_of_the_same_shape_is_a_tensor_of_its_own(name: str) -> None:
    for shape in SHAPES:
        x = pyapp.ones(shape)
        y = VIEWS[name](x)
        assert y is not x and y.data_ptr() == x.data_ptr() and y.shape == shape
        y.unsqueeze_(0)
        assert x.shape == shape
        VIEWS[name](x).requires_grad_()
        assert not x.requires_grad
        VIEWS[name](x).mul_(2.0)
        assert x.sum().item() == 2 * x.numel()


@pytest.mark.parametrize("name", THEMSELVES)
def test_what_changes_nothing_gives_the_tensor_itself(name: str) -> None:
    for shape in SHAPES:
        x = pyapp.ones(shape)
        assert THEMSELVES[name](x) is x


def test_shuffles_have_memory_of_their_own() -> None:
    x = pyapp.zeros(1, 4, 1, 1)
    functional = pyapp.nn.functional
    for y in (functional.pixel_shuffle(x, 1), functional.pixel_unshuffle(x, 1), functional.channel_shuffle(x, 1)):
        y.add_(1.0)
    assert x.sum().item() == 0


def test_views_of_the_same_shape_pass_gradients_on() -> None:
    x = pyapp.ones(2, 3, requires_grad=True)
    y = (x * 2.0).reshape(2, 3).expand(2, 3).squeeze()
    y.mul_(3.0)
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [[6.0] * 3] * 2


def test_expand_refuses_a_new_dim_without_a_size() -> None:
    with pytest.raises(ValueError, match=r"expand: \(-1,\)"):
        pyapp.tensor(1.0).expand(-1)


def test_numbers_beside_tensors_choose_a_view_first() -> None:
    """As in torch, whose order of the dims is not NumPy's; also of memory with gaps and with gradients."""
    i, mask = pyapp.tensor([1, 0, -1]), pyapp.tensor([True, False, True, True, False])
    for whole in (pyapp.randn(5, 6, 4), pyapp.randn(6, 5, 4).transpose(0, 1)):
        x = whole.requires_grad_()
        for found, expected in (
            (x[i, 0], x[:, 0][i]), (x[0, i], x[0][i]), (x[0, :, i], x[0].T[i].T), (x[i, 1:3, 2], x[:, 1:3, 2][i]),
            (x[mask, 1], x[:, 1][mask]), (x[i, 0, i], x[:, 0][i, i]), (x[[0, 1], 2], x[:, 2][:2]),
            (x[:, 1, 2][i], x[:, 1, 2].contiguous()[i]), (x[0, 0, 0].expand(3)[i], x[0, 0, 0].repeat(3)),
        ):  # fmt: skip
            assert found.tolist() == expected.tolist()
            slopes = [pyapp.autograd.grad((y * y).sum(), x)[0].tolist() for y in (found, expected)]
            assert slopes[0] == slopes[1]
        with pytest.raises(IndexError, match="index 7 is out of"):
            x[:, 0, 0][pyapp.tensor([7])]
        with pytest.raises(IndexError, match="index 9 is out of"):
            x[i, 9]


def test_a_window_far_from_the_next_is_an_array() -> None:
    """NumPy takes no stride of 2**66 bytes, though a dim of one element never goes on."""
    x = pyapp.arange(6.0).reshape(2, 3)
    assert x.unfold(0, 2, 2**62).numpy().tolist() == [[[0, 3], [1, 4], [2, 5]]]
    assert x.as_strided((1, 1), (2**62, 2**62)).tolist() == [[0]]


def test_lists_beside_tensors_choose_elements() -> None:
    x = pyapp.arange(6.0).reshape(2, 3)
    rows = pyapp.tensor([1, 0, 0])
    assert x[rows, [1, 1, -1]].tolist() == [4.0, 1.0, 2.0]
    assert x[[1, 0, 0], pyapp.tensor([1, 1, -1])].tolist() == [4.0, 1.0, 2.0]
    assert x[rows, [False, True, False]].tolist() == [4.0, 1.0, 1.0]
    x[pyapp.arange(2), [0, 2]] = -1.0
    x[pyapp.arange(2), [1, 1]] += 10.0
    assert x.tolist() == [[-1.0, 11.0, 2.0], [3.0, 14.0, -1.0]]
    x[pyapp.tensor([True, False]), [0]] = 7.0
    assert x[0, 0].item() == 7.0


def test_a_part_of_what_is_expanded_may_be_written() -> None:
    x = pyapp.zeros(2, 1).expand(2, 3)
    x[0, :1] = 4.0
    assert x.tolist() == [[4.0] * 3, [0.0] * 3]
    with pytest.raises(RuntimeError, match="is expanded"):
        x[0] = 1.0


def test_windows_of_no_elements() -> None:
    x = pyapp.arange(12.0).reshape(3, 4).requires_grad_()
    windows = x.unfold(1, 0, 2)
    assert windows.shape == (3, 3, 0)
    windows.sum().backward()
    assert x.grad is not None and not x.grad.any()


def test_results_are_contiguous() -> None:
    x = pyapp.rand(3, 2, 3, dtype=pyapp.float64)
    for found in (
        pyapp.nn.functional.conv1d(x, pyapp.ones(2, 2, 2, dtype=pyapp.float64), padding=1),
        pyapp.quantile(x, 0.5, dim=0, keepdim=True),
        x.to(pyapp.complex64).index_select(2, pyapp.tensor([0, 0])),
    ):
        assert found.is_contiguous()
