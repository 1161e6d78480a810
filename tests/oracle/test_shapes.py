"""Views, joins, indices and writes over drawn shapes; and what both must refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, basic_indices

from .compare import DTYPES, LAYOUTS, agree, check_error, numbers, outcome, pyapp, to_pyapp, to_torch, torch

FEW = settings(max_examples=12, phases=[Phase.generate])
SHAPES = array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=4)
DTYPE = st.sampled_from(DTYPES)
LAYOUT = st.sampled_from(LAYOUTS)

SHAPED: dict[str, Callable[[Any, Any, int, int], Any]] = {
    "transpose": lambda P, x, a, b: x.transpose(a, b),
    "movedim": lambda P, x, a, b: P.movedim(x, a, b),
    "flatten": lambda P, x, a, b: x.flatten(min(a, b), max(a, b)),
    "unsqueeze": lambda P, x, a, b: x.unsqueeze(a).squeeze(b),
    "reshape": lambda P, x, a, b: x.transpose(a, b).reshape(-1),
    "expand": lambda P, x, a, b: x.expand(2, *x.shape),
    "repeat": lambda P, x, a, b: x.repeat(*(1 + (i in (a, b)) for i in range(x.ndim))),
    "tile": lambda P, x, a, b: P.tile(x, (2, 1)),
    "flip": lambda P, x, a, b: x.flip(a),
    "roll": lambda P, x, a, b: x.roll((1, -2), (a, b)),
    "cat": lambda P, x, a, b: P.cat([x, x.flip(a), x], a),
    "stack": lambda P, x, a, b: P.stack([x, x], a),
    "split": lambda P, x, a, b: x.split(2, a),
    "chunk": lambda P, x, a, b: x.chunk(3, a),
    "unbind": lambda P, x, a, b: x.unbind(a),
    "tril": lambda P, x, a, b: (x if x.ndim > 1 else x.unsqueeze(0)).tril(a - b),
    "diagonal": lambda P, x, a, b: x.diagonal(1, a, b) if a != b else x,
    "narrow": lambda P, x, a, b: x.narrow(a, 0, x.shape[a] // 2),
    "select": lambda P, x, a, b: x.select(a, 0) if x.shape[a] else x,
    "tensor_split": lambda P, x, a, b: x.tensor_split(3, a),
    "repeat_interleave": lambda P, x, a, b: P.repeat_interleave(x, 2, a),
    "rot90": lambda P, x, a, b: P.rot90(x, 1, (a, b)) if a != b else x,
    "unfold": lambda P, x, a, b: x.unfold(a, 2, 1) if x.shape[a] > 1 else x,
    "pad": lambda P, x, a, b: P.nn.functional.pad(x, (1, 2), value=1),
    "argwhere": lambda P, x, a, b: P.argwhere(x),
    "sum_of_view": lambda P, x, a, b: (x.transpose(a, b)[..., ::2] * 2).contiguous(),
}


@pytest.mark.parametrize("name", SHAPED)
@given(data=st.data(), shape=SHAPES, dtype=DTYPE, layout=LAYOUT)
@FEW
def test_shapes(name: str, data: Any, shape: tuple[int, ...], dtype: str, layout: str) -> None:
    a, b = (data.draw(st.integers(0, len(shape) - 1)) for _ in "ab")
    function = SHAPED[name]
    agree(lambda P, x: function(P, x, a, b), [(numbers(shape, dtype), dtype)], layout, dtype == "float64")


@given(data=st.data(), shape=SHAPES, dtype=DTYPE, layout=LAYOUT)
@settings(max_examples=150, phases=[Phase.generate])
def test_basic_indices(data: Any, shape: tuple[int, ...], dtype: str, layout: str) -> None:
    index = data.draw(basic_indices(shape, allow_newaxis=True))
    entries = index if isinstance(index, tuple) else (index,)
    if any(isinstance(e, slice) and e.step is not None and e.step < 0 for e in entries):
        return  # torch has none
    agree(lambda P, x: x[index], [(numbers(shape, dtype), dtype)], layout, dtype == "float64")
    agree(lambda P, x: written(x, index, 1), [(numbers(shape, dtype), dtype)])


def written(x: Any, index: Any, value: Any) -> Any:
    x = x.clone()
    x[index] = value
    return x


@given(data=st.data(), shape=array_shapes(min_dims=2, max_dims=4, min_side=1, max_side=4), dtype=DTYPE, layout=LAYOUT)
@settings(max_examples=150, phases=[Phase.generate])
def test_advanced_indices(data: Any, shape: tuple[int, ...], dtype: str, layout: str) -> None:
    """Vectors and matrices of integers, masks, slices, ints and None, mixed."""
    kinds = data.draw(
        st.lists(st.sampled_from(["slice", "int", "ids", "mask", "none"]), min_size=1, max_size=len(shape))
    )
    entries: list[Any] = []
    dim, count = 0, data.draw(st.integers(1, 3))
    random = np.random.RandomState(count)
    for kind in kinds:
        if kind == "none":
            entries.append(None)
            continue
        if dim >= len(shape):
            break
        size = shape[dim]
        if kind == "ids":
            entries.append(random.randint(-size, size, count))
        elif kind == "mask":
            mask = np.zeros(size, bool)
            mask[random.randint(0, size)] = True  # one: it meets any number of ids
            entries.append(mask)
        else:
            entries.append(slice(0, None, 2) if kind == "slice" else int(random.randint(-size, size)))
        dim += 1

    def at(P: Any) -> tuple[Any, ...]:
        made = torch.from_numpy if P is torch else pyapp.from_numpy
        return tuple(made(e.copy()) if isinstance(e, np.ndarray) else e for e in entries)

    array = [(numbers(shape, dtype), dtype)]
    agree(lambda P, x: x[at(P)], array, layout, dtype == "float64")
    agree(lambda P, x: written(x, at(P), 1), array)


@pytest.mark.parametrize(
    "name",
    ["gather", "scatter", "scatter_add", "index_select", "index_add", "take_along_dim", "masked_select", "index_copy"],
)
@given(data=st.data(), shape=array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=4), dtype=DTYPE, layout=LAYOUT)
@FEW
def test_by_index(name: str, data: Any, shape: tuple[int, ...], dtype: str, layout: str) -> None:
    dim = data.draw(st.integers(0, len(shape) - 1))
    random = np.random.RandomState(dim)
    wide = random.randint(0, shape[dim], shape)
    if name in ("scatter", "index_copy"):  # each place once: which of equals wins is not told
        order = np.argsort(random.rand(*shape), axis=dim)
        wide = order
    vector = np.asarray(wide.reshape(-1)[: shape[dim]] if name != "index_copy" else random.permutation(shape[dim]))
    calls: dict[str, Callable[..., Any]] = {
        "gather": lambda P, x, s, i, v: x.gather(dim, i),
        "scatter": lambda P, x, s, i, v: x.scatter(dim, i, s),
        "scatter_add": lambda P, x, s, i, v: x.scatter_add(dim, i, s),
        "index_select": lambda P, x, s, i, v: x.index_select(dim, v),
        "index_add": lambda P, x, s, i, v: x.index_add(dim, v, s),
        "take_along_dim": lambda P, x, s, i, v: P.take_along_dim(x, i, dim),
        "masked_select": lambda P, x, s, i, v: x.masked_select(i > 0),
        "index_copy": lambda P, x, s, i, v: x.index_copy(dim, v, s),
    }
    if len(vector) != shape[dim]:
        return
    operands = [
        (numbers(shape, dtype), dtype), (numbers(shape, dtype, 1), dtype), (wide.astype(np.int64), "int64"),
        (vector.astype(np.int64), "int64"),
    ]  # fmt: skip
    agree(calls[name], operands, layout, dtype == "float64")


REFUSED: dict[str, Callable[[Any, Any], Any]] = {
    "view": lambda P, x: x.transpose(0, 1).view(-1),
    "reshape": lambda P, x: x.reshape(5, -1),
    "transpose": lambda P, x: x.transpose(0, 2),
    "index": lambda P, x: x[2],
    "index_many": lambda P, x: x[0, 0, 0],
    "index_ids": lambda P, x: x[P.tensor([0, 2])],
    "index_negative": lambda P, x: x[P.tensor([-3])],
    "index_mask": lambda P, x: x[P.tensor([True, False, True])],
    "index_float": lambda P, x: x[P.tensor([0.0])],
    "setitem": lambda P, x: x.__setitem__(0, P.zeros(2)),
    "gather_range": lambda P, x: x.gather(0, P.tensor([[0, 1, 2]])),
    "gather_rank": lambda P, x: x.gather(0, P.tensor([0])),
    "scatter_range": lambda P, x: x.scatter(1, P.tensor([[3]]), 1.0),
    "index_select": lambda P, x: x.index_select(1, P.tensor([3])),
    "index_select_negative": lambda P, x: x.index_select(1, P.tensor([-1])),
    "embedding": lambda P, x: P.nn.functional.embedding(P.tensor([2]), x),
    "embedding_negative": lambda P, x: P.nn.functional.embedding(P.tensor([-1]), x),
    "one_hot": lambda P, x: P.nn.functional.one_hot(P.tensor([3]), 3),
    "cross_entropy": lambda P, x: P.nn.functional.cross_entropy(x, P.tensor([0, 3])),
    "nll": lambda P, x: P.nn.functional.nll_loss(x, P.tensor([0, -1])),
    "cat": lambda P, x: P.cat([x, P.zeros(2, 2)], 0),
    "cat_nothing": lambda P, x: P.cat([]),
    "stack": lambda P, x: P.stack([x, P.zeros(2, 2)]),
    "add": lambda P, x: x + P.zeros(2),
    "add_in_place": lambda P, x: P.zeros(3).add_(x),
    "divide_integers_in_place": lambda P, x: P.tensor([1, 2]).div_(2),
    "matmul": lambda P, x: x @ x,
    "mm": lambda P, x: P.mm(x, P.zeros(3)),
    "bmm": lambda P, x: P.bmm(x, x),
    "linear": lambda P, x: P.nn.functional.linear(x, P.zeros(2, 2)),
    "conv1d": lambda P, x: P.nn.functional.conv1d(x, P.zeros(1, 3, 1)),
    "conv2d_groups": lambda P, x: P.nn.functional.conv2d(P.zeros(1, 3, 4, 4), P.zeros(2, 1, 2, 2), groups=2),
    "layer_norm": lambda P, x: P.nn.functional.layer_norm(x, (2,)),
    "softmax": lambda P, x: x.softmax(2),
    "sum": lambda P, x: x.sum(2),
    "sum_twice": lambda P, x: x.sum((0, 0)),
    "max_nothing": lambda P, x: P.zeros(0).max(),
    "argmax_nothing": lambda P, x: P.zeros(0).argmax(),
    "topk": lambda P, x: x.topk(4),
    "expand": lambda P, x: x.expand(2, 4),
    "squeeze": lambda P, x: x.squeeze(2),
    "permute": lambda P, x: x.permute(0, 0),
    "split": lambda P, x: x.split([1, 1], 1),
    "narrow": lambda P, x: x.narrow(1, 2, 2),
    "chunk": lambda P, x: x.chunk(0),
    "roll": lambda P, x: x.roll((1, 2), 0),
    "einsum": lambda P, x: P.einsum("ij,jk->ik", x, x),
    "item": lambda P, x: x.item(),
    "truth": lambda P, x: bool(x),
    "float_index": lambda P, x: [1, 2][P.tensor(1.5)],
    "len": lambda P, x: len(P.tensor(1.0)),
    "iterate": lambda P, x: list(P.tensor(1.0)),
    "full_of_negative": lambda P, x: P.zeros(-1),
    "arange": lambda P, x: P.arange(0, 5, -1),
    "arange_0": lambda P, x: P.arange(0, 5, 0),
    "linspace": lambda P, x: P.linspace(0, 1, -1),
    "eye": lambda P, x: P.eye(-1),
    "tensor_uneven": lambda P, x: P.tensor([[1, 2], [3]]),
    "tensor_text": lambda P, x: P.tensor("text"),
    "backward_twice": lambda P, x: [y.backward() for y in [x.requires_grad_().exp().sum()] * 2],
    "backward_many": lambda P, x: x.requires_grad_().exp().backward(),
    "grad_of_integers": lambda P, x: P.tensor([1]).requires_grad_(),
    "leaf_in_place": lambda P, x: x.requires_grad_().add_(1),
    "version": lambda P, x: saved_and_changed(x),
    "numpy_of_a_graph": lambda P, x: x.requires_grad_().exp().numpy(),
    "multinomial": lambda P, x: P.multinomial(P.tensor([0.5, 0.5]), 3),
    "bernoulli": lambda P, x: P.bernoulli(x + 2),
    "cholesky": lambda P, x: P.linalg.cholesky(-P.eye(2)),
    "inverse": lambda P, x: P.linalg.inv(P.zeros(2, 2)),
    "searchsorted": lambda P, x: P.searchsorted(x, P.zeros(3, 1)),
    "pad": lambda P, x: P.nn.functional.pad(x[None], (3, 0), mode="reflect"),
    "max_pool": lambda P, x: P.nn.functional.max_pool1d(x[None], 2, padding=2),
    "interpolate": lambda P, x: P.nn.functional.interpolate(x[None], size=3, scale_factor=2.0),
    "attention": lambda P, x: P.nn.functional.scaled_dot_product_attention(x[None], P.zeros(1, 2, 4), x[None]),
    "dropout": lambda P, x: P.nn.functional.dropout(x, 1.5),
}


def saved_and_changed(x: Any) -> None:
    y = x.requires_grad_() * 1
    z = y.exp().sum() + (y * y).sum()
    y.add_(1)
    z.backward()


@pytest.mark.parametrize("name", REFUSED)
def test_refused_by_both(name: str) -> None:
    array = numbers((2, 3), "float32")
    _, theirs = outcome(lambda: REFUSED[name](torch, to_torch(array, "float32")))
    assert theirs is not None, "torch takes this: the case is wrong"
    _, ours = outcome(lambda: REFUSED[name](pyapp, to_pyapp(array, "float32")))
    check_error(ours, theirs)
