"""Calls with sparse tensors. `make_golden_sparse.py` records what torch gives; `test_sparse.py` compares."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# (indices, values, size): with equal indices, and not in order; a hybrid tensor; one without elements.
MATRIX = ([[1, 0, 1, 0, 1], [2, 0, 0, 3, 2]], [3.0, -4.0, 5.0, 0.5, 1.5], (2, 4))
OTHER = ([[0, 1, 1], [3, 0, 1]], [2.0, -1.0, 4.0], (2, 4))
TALL = ([[3, 0, 2], [1, 2, 0]], [2.0, 1.0, -3.0], (4, 3))
HYBRID = ([[1, 0, 1], [2, 1, 2]], [[1.0, 2.0], [-3.0, 4.0], [0.5, 6.0]], (2, 3, 2))
BATCH = ([[0, 1, 1], [1, 0, 1], [2, 3, 0]], [1.0, 2.0, 3.0], (2, 2, 4))
NONE: Any = ([[], []], [], (2, 4))
SPARSE = {"a": MATRIX, "b": OTHER, "c": TALL, "h": HYBRID, "s": BATCH, "z": NONE}

Call = Callable[[Any, dict[str, Any]], Any]

CASES: dict[str, Call] = {
    "coalesce": lambda t, x: x["a"].coalesce(),
    "to_dense": lambda t, x: x["h"].to_dense(),
    "no elements": lambda t, x: x["z"] @ x["w"],
    "add": lambda t, x: x["a"].coalesce() + x["b"].coalesce(),
    "sub": lambda t, x: t.sub(x["a"], x["b"], alpha=3),
    "dense + sparse": lambda t, x: x["d"] + x["a"],
    "mul": lambda t, x: x["a"] * x["b"],
    "mul dense": lambda t, x: x["a"] * x["d"],
    "mul number": lambda t, x: 2 * x["h"],
    "div": lambda t, x: x["a"] / 4,
    "neg": lambda t, x: -x["a"],
    "abs": lambda t, x: abs(x["a"]),
    "pow": lambda t, x: x["a"] ** 3,
    "tanh": lambda t, x: x["a"].coalesce().tanh(),
    "sum": lambda t, x: x["h"].sum(),
    "sum of a dim": lambda t, x: t.sparse.sum(x["a"], 0),
    "sum of a dense dim": lambda t, x: t.sparse.sum(x["h"], 2),
    "sum of sparse dims": lambda t, x: t.sparse.sum(x["h"], (0, 1)),
    "softmax": lambda t, x: t.sparse.softmax(x["a"].coalesce(), 1),
    "log_softmax": lambda t, x: t.sparse.log_softmax(x["a"].coalesce(), 0),
    "softmax of a dense dim": lambda t, x: t.sparse.softmax(x["h"].coalesce(), 2),
    "mm": lambda t, x: t.sparse.mm(x["a"], x["w"]),
    "matmul": lambda t, x: x["a"] @ x["w"],
    "mv": lambda t, x: x["a"] @ x["w"][:, 0],
    "dense @ sparse": lambda t, x: x["d"] @ x["c"],
    "sparse @ sparse": lambda t, x: t.sparse.mm(x["a"], x["c"]),
    "addmm": lambda t, x: t.sparse.addmm(x["e"], x["a"], x["w"], beta=2, alpha=-0.5),
    "bmm": lambda t, x: t.bmm(x["s"], t.stack([x["w"], x["w"]])),
    "linear": lambda t, x: t.nn.functional.linear(x["d"], x["b"]),
    "csr": lambda t, x: x["a"].to_sparse_csr(),
    "csr @ dense": lambda t, x: x["a"].to_sparse_csr() @ x["w"],
    "csr starts": lambda t, x: x["c"].to_sparse_csr().crow_indices(),
    "csr columns": lambda t, x: x["c"].to_sparse_csr().col_indices(),
    "csr transposed": lambda t, x: x["c"].to_sparse_csr().t(),
    "csc": lambda t, x: x["c"].to_sparse_csc(),
    "csc rows": lambda t, x: x["c"].to_sparse_csc().row_indices(),
    "csr of parts": lambda t, x: t.sparse_csr_tensor([0, 1, 3], [2, 0, 2], x["w"][:3, 0], (2, 3)),
    "sampled_addmm": lambda t, x: t.sparse.sampled_addmm(x["b"].to_sparse_csr(), x["e"], x["f"], beta=0.5, alpha=2.0),
    "sparse_mask": lambda t, x: x["d"].sparse_mask(x["a"].coalesce()),
    "sparse_mask of a sparse one": lambda t, x: x["a"].sparse_mask(x["b"].coalesce()),
    "to_sparse": lambda t, x: x["d"].to_sparse(),
    "to_sparse of a dim": lambda t, x: x["d"].to_sparse(1),
    "index_select": lambda t, x: x["a"].index_select(1, t.tensor([2, 0, 2])),
    "index_select of a dense dim": lambda t, x: x["h"].index_select(2, t.tensor([1])),
    "select": lambda t, x: x["a"].coalesce()[1],
    "select an element": lambda t, x: x["h"][1, 2],
    "cat": lambda t, x: t.cat([x["a"], x["b"]], 1),
    "cat of a dense dim": lambda t, x: t.cat([x["h"], x["h"]], 2),
    "stack": lambda t, x: t.stack([x["a"], x["b"]], 1),
    "transpose": lambda t, x: x["a"].coalesce().t(),
    "permute": lambda t, x: x["h"].permute(1, 0, 2),
    "unsqueeze": lambda t, x: x["a"].unsqueeze(0),
    "values": lambda t, x: x["a"].coalesce().values(),
    "values of a leaf": lambda t, x: t.sparse_coo_tensor([[0, 1], [2, 0]], x["e"], (2, 3, 2)) * 2,
    "half": lambda t, x: x["a"].coalesce().half(),
    "norm": lambda t, x: x["a"].coalesce().values().norm(),
    "spdiags": lambda t, x: t.sparse.spdiags(x["d"], t.tensor([1, -1]), (4, 4)),
}

# Calls that torch refuses with a RuntimeError, a TypeError or an IndexError.
WRONG: dict[str, Callable[[Any, Any], Any]] = {
    "sizes": lambda t, a: a @ t.ones(3, 2),
    "dtypes": lambda t, a: a @ t.ones(4, 2, dtype=t.float64),
    "values before coalesce": lambda t, a: a.values(),
    "indices before coalesce": lambda t, a: a.indices(),
    "values of a dense one": lambda t, a: t.ones(2).values(),
    "a number of values": lambda t, a: t.sparse_coo_tensor([[0, 1]], [1.0, 2.0, 3.0], (3,)),
    "dims of the size": lambda t, a: t.sparse_coo_tensor([[0, 1], [1, 1]], [1.0, 2.0], (3,)),
    "an index outside": lambda t, a: t.sparse_coo_tensor([[0, 5]], [1.0, 2.0], (3,), check_invariants=True),
    "an index below 0": lambda t, a: t.sparse_coo_tensor([[0, -1]], [1.0, 2.0], (3,), check_invariants=True),
    "no form": lambda t, a: a.exp(),
    "a view": lambda t, a: a.view(8),
    "numpy": lambda t, a: a.numpy(),
    "one number plus": lambda t, a: a + 1,
    "cat with a dense one": lambda t, a: t.cat([a, t.ones(2, 4)]),
    "select outside": lambda t, a: a[5],
    "row starts of COO": lambda t, a: a.crow_indices(),
    "sparse and dense dims": lambda t, a: t.ones(2, 2, 2).to_sparse(2).permute(2, 0, 1),
    "starts that descend": lambda t, a: t.sparse_csr_tensor(
        [0, 2, 1], [0, 1], [1.0, 2.0], (2, 2), check_invariants=True
    ),
    "division": lambda t, a: a / a,
    "sparse gradients": lambda t, a: _step(t, "Adam", {}),
    "weight decay": lambda t, a: _step(t, "Adagrad", {"weight_decay": 0.1}),
    "a maximum": lambda t, a: t.nn.EmbeddingBag(4, 2, mode="max", sparse=True)(t.tensor([[1, 2]])),
}


def _step(t: Any, optimizer: str, settings: dict[str, Any]) -> None:
    layer = t.nn.Embedding(4, 2, sparse=True)
    layer(t.tensor([1])).sum().backward()
    getattr(t.optim, optimizer)(layer.parameters(), **settings).step()


# Embeddings with sparse gradients: the weight after some steps. (the layer's settings, the optimiser, its settings)
STEPS: dict[str, tuple[dict[str, Any], str, dict[str, Any]]] = {
    "SparseAdam": ({}, "SparseAdam", {"lr": 0.05}),
    "SGD": ({"padding_idx": 2}, "SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    "Adagrad": ({"mode": "mean"}, "Adagrad", {"lr": 0.1, "lr_decay": 0.1}),
    "bags": ({"mode": "sum", "padding_idx": 0}, "SparseAdam", {"lr": 0.1, "maximize": True}),
}


def inputs(t: Any) -> dict[str, Any]:
    """Leaves by name: sparse ones, and dense d (2, 4), w (4, 2), e (2, 2), f (2, 4)."""
    found: dict[str, Any] = {
        "d": [[1.0, 0.0, -2.0, 3.0], [0.0, 0.5, 4.0, -1.0]],
        "w": [[1.0, 2.0], [0.5, -1.0], [3.0, -2.0], [4.0, 0.25]],
        "e": [[1.0, -1.0], [2.0, 0.5]],
        "f": [[0.5, 1.0, -2.0, 1.0], [2.0, 3.0, 1.0, -1.0]],
    }
    made = {name: t.tensor(values, requires_grad=True) for name, values in found.items()}
    for name, (indices, values, size) in SPARSE.items():
        places = t.tensor(indices, dtype=t.int64)
        numbers = t.tensor(values, dtype=t.float32)
        made[name] = t.sparse_coo_tensor(places, numbers, size, requires_grad=True)
    return made


def told(t: Any, call: Call) -> dict[str, Any]:
    """What a call gives: layout, shape, dtype, elements; and the gradients of the sum of their squares, by input."""
    x = inputs(t)
    y = call(t, x)
    dense = y.to_dense()
    found = {
        "layout": str(y.layout).partition(".")[2], "shape": list(y.shape), "dtype": str(y.dtype).partition(".")[2],
        "elements": dense.detach().float().tolist(), "gradients": {},
    }  # fmt: skip
    if dense.requires_grad and found["layout"] in ("strided", "sparse_coo"):
        try:
            (dense * dense).sum().backward()
        except (NotImplementedError, RuntimeError):
            if t.__name__ == "pyapp":
                raise
            return {**found, "gradients": None}  # torch has none
        for name, leaf in x.items():
            if leaf.grad is not None:
                kept = leaf.grad.to_dense()
                if leaf.layout is not t.strided:  # torch's are sometimes those of all elements
                    kept = kept * (leaf.detach().coalesce().abs().to_dense() != 0)
                found["gradients"][name] = kept.tolist()
    return found


def trained(t: Any, layer: dict[str, Any], optimizer: str, settings: dict[str, Any]) -> Any:
    """The weight (6, 3) after four steps."""
    kind = t.nn.EmbeddingBag if "mode" in layer else t.nn.Embedding
    weight = (t.arange(18, dtype=t.float32) / 7 - 1).reshape(6, 3)
    model = kind(6, 3, sparse=True, _weight=weight, **layer)
    steps = getattr(t.optim, optimizer)(model.parameters(), **settings)
    for ids in ([[0, 2, 2]], [[5, 1, 2]], [[2, 0, 0]], [[1, 1, 4]]):
        steps.zero_grad()
        y = model(t.tensor(ids))
        (y * y).sum().backward()
        assert model.weight.grad.is_sparse
        steps.step()
    return model.weight.detach().tolist()
