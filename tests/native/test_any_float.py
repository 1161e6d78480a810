"""softmax, normalize and cross_entropy of every float type, with their gradients, against float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.native.checks import normal, run_checked
from tests.native.kernels import BAD_ARGUMENT, INDEX_RANGE, OK, TYPES, Kernels, from_bf16, to_bf16, unaligned

FLOATS = ("float32", "float16", "bfloat16", "float64")
TOLERANCE = {"float32": 2e-6, "float16": 2e-3, "bfloat16": 1.6e-2, "float64": 1e-12}
EVERY_FLOAT = pytest.mark.parametrize("name", FLOATS)


def encode(x: np.ndarray, name: str) -> np.ndarray:
    """Values of a float type as the kernels want them, off alignment; bfloat16 as its bits."""
    return unaligned(to_bf16(x) if name == "bfloat16" else x.astype(name))


def decode(x: np.ndarray, name: str) -> np.ndarray:
    return (from_bf16(x) if name == "bfloat16" else x).astype(np.float64)


def wide(name: str) -> Any:
    """The dtype of sums, statistics and losses."""
    return np.float64 if name == "float64" else np.float32


def close(found: np.ndarray, exact: np.ndarray, name: str, size: float = 1.0) -> None:
    np.testing.assert_allclose(found, exact, rtol=2 * TOLERANCE[name], atol=size * TOLERANCE[name])


# ---- softmax

LINES = [(0, 3, 2), (1, 1, 1), (3, 5, 1), (2, 33, 1), (2, 300, 1), (2, 7, 3), (3, 20, 33), (1, 2, 16), (2, 64, 5)]


def exact_softmax(x: np.ndarray, log: int) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        centred = x - x.max(1, keepdims=True)
        e = np.exp(centred)
        return centred - np.log(e.sum(1, keepdims=True)) if log else e / e.sum(1, keepdims=True)


@EVERY_FLOAT
@pytest.mark.parametrize("log", [0, 1])
@pytest.mark.parametrize("shape", LINES)
def test_softmax_and_its_gradient(kernels: Kernels, shape: tuple[int, int, int], log: int, name: str) -> None:
    x, g = encode(normal(*shape, seed=1) * 4, name), encode(normal(*shape, seed=2), name)
    y, grad = np.full_like(x, 7), np.full_like(x, 7)
    sizes: dict[str, Any] = dict(zip(("outer", "count", "inner"), shape, strict=True)) | {"log": log}
    sizes["type"] = TYPES[name]
    run_checked(kernels, "softmax", "y", y=y, x=x, **sizes)
    if not x.size:
        return
    close(decode(y, name), exact_softmax(decode(x, name), log), name, 4.0 if log else 1.0)
    run_checked(kernels, "softmax_backward", "grad_x", grad_x=grad, y=y, grad_y=g, **sizes)
    out, slope = decode(y, name), decode(g, name)
    if log:
        expected = slope - np.exp(out) * slope.sum(1, keepdims=True)
    else:
        expected = out * (slope - (out * slope).sum(1, keepdims=True))
    close(decode(grad, name), expected, name, np.sqrt(shape[1]))


@EVERY_FLOAT
@pytest.mark.parametrize("inner", [1, 3])
def test_softmax_of_masked_rows(kernels: Kernels, name: str, inner: int) -> None:
    """-inf weighs nothing; a row of -inf alone is NaN, and so is a row that holds NaN."""
    x = normal(3, 40, inner).astype(np.float64)
    x[0, 5:], x[1], x[2, 39] = -np.inf, -np.inf, np.nan
    coded = encode(np.nan_to_num(x, nan=0, neginf=-np.inf), name)
    coded[2, 39] = np.array([np.nan], np.float32).view(np.uint32)[0] >> 16 if name == "bfloat16" else np.nan
    y = np.zeros_like(coded)
    run_checked(kernels, "softmax", "y", y=y, x=coded, outer=3, count=40, inner=inner, type=TYPES[name])
    found = decode(y, name)
    assert (found[0, 5:] == 0).all() and np.isnan(found[1:]).all()
    close(found[0].sum(0), np.ones(inner), name, 4.0)


def test_float64_keeps_its_digits(kernels: Kernels) -> None:
    x = normal(4, 1000).astype(np.float64) * 100
    y = np.zeros_like(x)
    run_checked(kernels, "softmax", "y", y=y, x=x, outer=4, count=1000, inner=1, log=1, type=TYPES["float64"])
    np.testing.assert_allclose(y, exact_softmax(x, 1), rtol=1e-14, atol=1e-13)


# ---- normalization


class Rows:
    """One way in which the elements of x (shape) make rows: dims of the kernel, and how NumPy sees them."""

    def __init__(self, kind: str, shape: tuple[int, ...], groups: int = 1) -> None:
        self.kind, self.shape = kind, shape
        columns = int(np.prod(shape[1:]))
        each = int(np.prod(shape[2:]))
        self.weights = shape[1]
        self.channel = (1, shape[1], *(1,) * (len(shape) - 2))
        if kind in ("layer", "rms"):
            self.axes: tuple[int, ...] = (1,)
            self.view: tuple[int, ...] = (shape[0], columns)
            self.weights, self.channel = columns, (1, *shape[1:])
            self.dims = {"rows": shape[0], "segments": 1, "length": columns, "row_stride": columns}
            self.dims |= {"weight_period": 1, "weight_element": 1, "centred": int(kind == "layer")}
        elif kind == "group":
            self.axes, self.view = (2,), (shape[0], groups, columns // groups)
            rows = shape[0] * groups
            self.dims = {"rows": rows, "segments": shape[1] // groups, "length": each, "row_stride": columns // groups}
            self.dims |= {"segment_stride": each, "weight_period": groups, "weight_row": shape[1] // groups}
            self.dims |= {"weight_segment": 1, "centred": 1}
        else:
            self.axes, self.view = (0, 2), (shape[0], shape[1], each)
            self.dims = {"rows": shape[1], "segments": shape[0], "length": each, "row_stride": each}
            self.dims |= {"segment_stride": columns, "weight_period": shape[1], "weight_row": 1, "centred": 1}

    def __str__(self) -> str:
        return f"{self.kind}{self.shape}"


WAYS = [
    Rows("layer", (3, 1)), Rows("layer", (5, 33)), Rows("rms", (4, 70)), Rows("layer", (2, 700)),
    Rows("group", (2, 6, 5, 3), 2), Rows("group", (3, 8, 40), 8), Rows("batch", (4, 5, 7)), Rows("batch", (2, 3, 50)),
    Rows("batch", (130, 71, 1)),
]  # fmt: skip


def exact_normalize(way: Rows, x: np.ndarray, epsilon: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(u, mean, variance), u in x's shape."""
    v = x.reshape(way.view)
    mean = v.mean(way.axes, keepdims=True) if way.dims["centred"] else np.zeros((1,) * v.ndim)
    variance = ((v - mean) ** 2).mean(way.axes, keepdims=True)
    mean = np.broadcast_to(mean, variance.shape)
    return ((v - mean) / np.sqrt(variance + epsilon)).reshape(x.shape), mean.reshape(-1), variance.reshape(-1)


@EVERY_FLOAT
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("way", WAYS, ids=str)
def test_normalize_and_its_gradients(kernels: Kernels, way: Rows, affine: bool, name: str) -> None:
    x, g = encode(normal(*way.shape, seed=1) * 3 + 1, name), encode(normal(*way.shape, seed=2), name)
    weight, bias = (encode(normal(way.weights, seed=s) + 1, name) for s in (3, 4))
    y, grad_x = np.full_like(x, 7), np.full_like(x, 7)
    statistics = np.full((way.dims["rows"], 3), 7, wide(name))
    types = {"type": TYPES[name], "weight_type": TYPES[name]}
    hidden = {"epsilon": np.float32(1e-5), "epsilon_rest": 1e-5 - float(np.float32(1e-5))}
    given: dict[str, Any] = way.dims | types | hidden | {"x": x}
    if affine:
        given["weight"] = weight
    both = {"bias": bias} if affine else {}
    run_checked(kernels, "normalize", "y", "statistics", y=y, statistics=statistics, **given, **both)
    value = decode(x, name)
    u, mean, variance = exact_normalize(way, value, 1e-5)
    w = decode(weight, name).reshape(way.channel) if affine else np.ones((1,) * x.ndim)
    b = decode(bias, name).reshape(way.channel) if affine else np.zeros((1,) * x.ndim)
    close(decode(y, name), u * w + b, name, 4.0)
    fine = "float64" if name == "float64" else "float32"
    exact = np.stack([mean, variance, 1 / np.sqrt(variance + 1e-5)], 1)
    np.testing.assert_allclose(statistics, exact, rtol=20 * TOLERANCE[fine], atol=10 * TOLERANCE[fine])
    given["statistics"] = statistics
    run_checked(kernels, "normalize_backward", "grad_x", grad_x=grad_x, grad_y=g, **given)
    slope = decode(g, name)
    v, h = u.reshape(way.view), (slope * w).reshape(way.view)
    average = h.mean(way.axes, keepdims=True) if way.dims["centred"] else 0.0
    inverse = 1 / np.sqrt(((value.reshape(way.view) - 0) ** 2).mean(way.axes, keepdims=True) + 1e-5)
    if way.dims["centred"]:
        inverse = 1 / np.sqrt(value.reshape(way.view).var(way.axes, keepdims=True) + 1e-5)
    expected = inverse * (h - average - v * (h * v).mean(way.axes, keepdims=True))
    close(decode(grad_x, name), expected.reshape(x.shape), name, 20 * float(inverse.max()))
    if not affine:
        return
    sums = {"grad_weight": np.full(way.weights, 7, wide(name)), "grad_bias": np.full(way.weights, 7, wide(name))}
    dims = {k: n for k, n in way.dims.items() if k != "centred"} | {"type": TYPES[name], "weights": way.weights}
    run_checked(
        kernels, "normalize_weights_backward", *sums, **sums, x=x, statistics=statistics, grad_y=g, **dims
    )  # fmt: skip
    over = tuple(i for i, n in enumerate(way.channel) if n == 1)
    size = float(np.sqrt(x.size / way.weights)) * 10
    for found, exact in ((sums["grad_weight"], slope * u), (sums["grad_bias"], slope)):
        total = exact.sum(over).reshape(-1) if len(way.channel) == x.ndim else exact.sum(0).reshape(-1)
        np.testing.assert_allclose(found, total, rtol=20 * TOLERANCE[fine], atol=size * TOLERANCE[fine])


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
@pytest.mark.parametrize("centred", [0, 1])
def test_squares_of_halves_do_not_overflow(kernels: Kernels, name: str, centred: int) -> None:
    x = encode(np.where(np.arange(600) % 2, 6e4, -6e4).reshape(2, 300), name)
    y = np.zeros_like(x)
    dims = {"rows": 2, "segments": 1, "length": 300, "row_stride": 300, "weight_period": 1, "centred": centred}
    types: dict[str, Any] = {"type": TYPES[name], "weight_type": TYPES["float32"], "epsilon": 1e-5}
    run_checked(kernels, "normalize", "y", y=y, x=x, **dims, **types)
    np.testing.assert_allclose(np.abs(decode(y, name)), np.ones((2, 300)), rtol=1e-3)


def test_weights_may_have_another_type(kernels: Kernels) -> None:
    x, weight = encode(normal(3, 20), "bfloat16"), normal(20, seed=4)
    y = np.zeros_like(x)
    dims = {"rows": 3, "segments": 1, "length": 20, "row_stride": 20, "weight_element": 1, "centred": 1}
    types: dict[str, Any] = {"type": TYPES["bfloat16"], "weight_type": TYPES["float32"], "epsilon": 1e-5}
    run_checked(kernels, "normalize", "y", y=y, x=x, weight=weight, **dims, **types)
    u = exact_normalize(Rows("layer", (3, 20)), decode(x, "bfloat16"), 1e-5)[0]
    close(decode(y, "bfloat16"), u * weight, "bfloat16", 2.0)
    types["weight_type"] = TYPES["float64"]
    assert kernels.run("normalize", y=y, x=x, weight=weight, **dims, **types) == BAD_ARGUMENT


# ---- cross entropy


def exact_entropy(
    x: np.ndarray, targets: np.ndarray, weights: np.ndarray | None, smoothing: float, ignored: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(loss, weight, gradient of its row's loss) of each row."""
    rows, columns = x.shape
    logs = exact_softmax(x, 1)
    w = np.ones(columns) if weights is None else weights.astype(np.float64)
    loss, own, grad = np.zeros(rows), np.zeros(rows), np.zeros(x.shape)
    for row, target in enumerate(targets):
        if target == ignored:
            continue
        share = np.full(columns, smoothing / columns) * w
        share[target] += (1 - smoothing) * w[target]
        loss[row], own[row] = -(share * logs[row]).sum(), w[target]
        grad[row] = np.exp(logs[row]) * share.sum() - share
    return loss, own, grad


@EVERY_FLOAT
@pytest.mark.parametrize("integer", ["int32", "int64"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("columns", [1, 5, 40, 301])
def test_cross_entropy(
    kernels: Kernels, columns: int, weighted: bool, smoothing: float, integer: str, name: str
) -> None:
    smoothing = float(np.float32(smoothing))
    x = encode(normal(6, columns, seed=1) * 3, name)
    targets = np.random.default_rng(2).integers(0, columns, 6).astype(integer)
    targets[2] = -100
    weights = np.abs(normal(columns, seed=3)).astype(wide(name)) if weighted else None
    slopes: np.ndarray = normal(6, seed=4).astype(wide(name))
    loss, own, grad = np.full(6, 7, wide(name)), np.full(6, 7, wide(name)), np.full_like(x, 7)
    given: dict[str, Any] = {"rows": 6, "columns": columns, "ignore_index": -100, "type": TYPES[name]}
    given |= {"target_type": TYPES[integer], "smoothing": smoothing, "logits": x, "targets": targets}
    if weights is not None:
        given["class_weights"] = weights
    run_checked(kernels, "cross_entropy", "loss", "weights", loss=loss, weights=own, **given)
    exact_loss, exact_own, exact_grad = exact_entropy(decode(x, name), targets, weights, smoothing, -100)
    fine = "float64" if name == "float64" else "float32"
    np.testing.assert_allclose(loss, exact_loss, rtol=10 * TOLERANCE[fine], atol=10 * TOLERANCE[fine])
    np.testing.assert_allclose(own, exact_own, rtol=TOLERANCE[fine])
    run_checked(kernels, "cross_entropy_backward", "grad_logits", grad_logits=grad, grad_loss=slopes, **given)
    close(decode(grad, name), exact_grad * slopes[:, None], name, 2.0)


@pytest.mark.parametrize("target", [2**32, 2**32 - 100, -1, 7, -(2**63)])
def test_wide_targets_are_not_narrowed(kernels: Kernels, target: int) -> None:
    x, loss = normal(2, 7), np.zeros(2, np.float32)
    given: dict[str, Any] = {"rows": 2, "columns": 7, "ignore_index": -100, "type": TYPES["float32"]}
    given |= {"target_type": TYPES["int64"], "logits": x, "targets": np.array([1, target], np.int64)}
    assert kernels.run("cross_entropy", loss=loss, **given) == INDEX_RANGE
    assert (loss == 0).all()


@pytest.mark.parametrize("kernel", ["softmax", "softmax_backward", "normalize", "normalize_backward", "cross_entropy"])
def test_other_types_are_refused(kernels: Kernels, kernel: str) -> None:
    sizes = dict.fromkeys(("outer", "count", "inner", "rows", "columns", "segments", "length"), 1)
    names = {
        "softmax": ("outer", "count", "inner"), "softmax_backward": ("outer", "count", "inner"),
        "cross_entropy": ("rows", "columns"),
    }.get(kernel, ("rows", "segments", "length"))  # fmt: skip
    sizes = {name: sizes[name] for name in names} | {"type": TYPES["int32"]}
    assert kernels.run(kernel, **sizes) == BAD_ARGUMENT
    assert kernels.run(kernel, **(sizes | {names[0]: 0})) == OK
