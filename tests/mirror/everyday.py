"""What programs for torch do on cards all the time, on a device and on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import Tensor, distributions, nn
from pyapp.nn import functional as F
from tests.engine.test_fused import normal

INDEX = pyapp.tensor([[1, 2, 0, 1], [0, 0, 1, 2], [2, 1, 0, 0]])


def _write_views(x: Tensor) -> Tensor:
    y = x * 1
    y[0].mul_(2)
    y[:, 1] = 3.0
    y.t()[2:].add_(x.t()[2:])
    return y


def _of_many_dims(x: Tensor, p: Tensor) -> Tensor:
    """Copies, sums and writes of views with more dims than a kernel's record."""
    turned = x.permute(7, 2, 0, 5, 1, 4, 6, 3)  # (2, 2, 2, 3, 3, 2, 2, 1)
    y = turned.clone()
    y.transpose(0, 1)[:, :, :, :, 1:].add_(p.reshape(3, 1, 2, 1, 1)[1:, :, :, :, :].transpose(0, 1))
    y.transpose(1, 6).copy_(turned.transpose(1, 6) * 2 + y.transpose(1, 6))
    return y.double().movedim(0, 5).float() + (turned > 0).movedim(0, 5)


def _drawn(draw: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """With a seed: the same numbers on every device."""

    def run(*inputs: Tensor) -> Tensor:
        pyapp.manual_seed(3)
        return draw(*inputs)

    return run


def _of(name: str, *args: Any, **options: Any) -> Callable[..., Any]:
    """A method of the first tensor, with tensors among the arguments on its device."""

    def run(x: Tensor, *others: Tensor) -> Any:
        there = [a.to(x.device) if isinstance(a, Tensor) else a for a in args]
        found = getattr(x, name)(*others, *there, **options)
        return found[0] if isinstance(found, tuple) else found

    return run


X, P = normal(3, 4), normal(3, 4, seed=1)
TIED = pyapp.tensor([[1.0, 2.0, 2.0, 0.0, 1.0], [3.0, 3.0, 3.0, 1.0, 1.0], [5.0, 4.0, 3.0, 2.0, 1.0]])
CLASSES, PIECES = pyapp.tensor([2, 0, -100, 1, 1]), nn.LinearCrossEntropyOptions(batch_chunk_size=2)
# (function, tensors): the results are floats, whose gradients are compared too, or integers.
CASES: dict[str, tuple[Callable[..., Any], list[Tensor]]] = {
    "median": (_of("median"), [X]),
    "median_dim": (_of("median", 1), [X]),
    "nanmedian": (_of("nanmedian"), [X]),
    "nanmedian_dim": (_of("nanmedian", 0, True), [X]),
    "kthvalue": (_of("kthvalue", 2), [X]),
    "mode": (_of("mode"), [TIED]),
    "mode_first_dim": (lambda x: x.mode(0, True)[0], [TIED]),
    "mode_indices": (lambda x: x.mode(1)[1], [TIED]),
    "quantile": (_of("quantile", 0.3, 1), [X]),
    "nanquantile": (_of("nanquantile", 0.4, 1), [X]),
    "clamp_to_tensors": (lambda x, low: x.clamp(low, low + 1), [X, P]),
    "clamp_integers": (lambda x: (x * 4).long().clamp(0, 2), [X]),
    "scatter_amax": (_of("scatter_reduce", 1, INDEX, P, "amax"), [X]),
    "scatter_amin_alone": (_of("scatter_reduce", 1, INDEX, P, "amin", include_self=False), [X]),
    "scatter_prod": (_of("scatter_reduce", 0, INDEX, P, "prod"), [X]),
    "scatter_mean": (_of("scatter_reduce", 1, INDEX, P, "mean"), [X]),
    "read_a_mask": (lambda x: x[x > 0], [X]),
    "read_rows_by_a_mask": (lambda x: x[:, 1:][x[:, 0] > -10], [X]),
    "read_nothing": (lambda x: x[x > 100], [X]),
    "write_by_a_mask": (lambda x, p: (x * 1).index_put((x > 0,), p.exp()[x > 0]), [X, P]),
    "masked_select": (lambda x: x.masked_select(x < 0.5), [X]),
    "masked_scatter": (lambda x, p: x.masked_scatter(x > 0, p), [X, P]),
    "nonzero": (lambda x: (x > 0).nonzero(), [X]),
    "write_views": (_write_views, [X]),
    "fold": (lambda x: F.fold(F.unfold(x, 3, stride=2, padding=1), 6, 3, stride=2, padding=1), [normal(2, 3, 6, 6)]),
    "matrix_by_vector": (lambda a, b: a @ b, [X, normal(4)]),
    "vector_by_matrices": (lambda a, b: a @ b, [normal(4), normal(2, 4, 5)]),
    "vector_by_vector": (lambda a, b: a @ b, [normal(4), normal(4, seed=2)]),
    "matrix_by_vector_in_float64": (lambda a, b: a.double() @ b.double(), [X, normal(4)]),
    "affine_grid": (lambda x: F.affine_grid(x, (2, 3, 4, 5)), [normal(2, 2, 3)]),
    "vander": (lambda x: pyapp.vander(x, 3), [normal(4)]),
    "scatter": (lambda x, p: x.scatter(1, INDEX.to(x.device), p), [X, P]),
    "bernoulli": (_drawn(lambda x: pyapp.bernoulli(x.sigmoid())), [X]),
    "gumbel_softmax": (_drawn(lambda x: F.gumbel_softmax(x)), [X]),
    "rrelu": (_drawn(lambda x: F.rrelu(x, training=True)), [X]),
    "fractional_max_pool": (_drawn(lambda x: F.fractional_max_pool2d(x, 2, output_size=3)), [normal(2, 3, 8, 8)]),
    "draw_normal": (_drawn(lambda x, p: distributions.Normal(x, p.exp()).rsample()), [X, P]),
    "draw_normal_of_a_number": (_drawn(lambda x: distributions.Normal(x, 2.0).rsample()), [X]),
    "draw_uniform": (_drawn(lambda x: distributions.Uniform(x, x + 1).rsample()), [X]),
    "draw_bernoulli": (_drawn(lambda x: distributions.Bernoulli(logits=x).sample()), [X]),
    "draw_gamma": (_drawn(lambda x: distributions.Gamma(x.exp(), 2.0).sample()), [X]),
    "draw_student": (_drawn(lambda x: distributions.StudentT(x.exp() + 1).rsample()), [X]),
    "log_prob_of_normal": (lambda x, p: distributions.Normal(x, 2.0).log_prob(p), [X, P]),
    "linear_cross_entropy": (
        lambda x, w: F.linear_cross_entropy(x, w, CLASSES.to(x.device), options=PIECES), [normal(5, 4), X]
    ),
    "many_dims": (_of_many_dims, [normal(2, 3, 2, 1, 2, 3, 2, 2), normal(3, 2)]),
    "rows_of_blocks": (lambda x: F.embedding(INDEX.to(x.device), x.detach().to("q8_0")), [normal(4, 32)]),
    "whole_numbers": (lambda x: pyapp.atan2(x.long(), 2 - x.long()) * x.long().isfinite() + x.bool().isnan(), [X]),
    "as_strided": (lambda x: x.as_strided((3, 2), (2, 3), 1), [X]),
    "mvlgamma": (lambda x: pyapp.mvlgamma(x.abs() + 3, 2), [X]),
}  # fmt: skip


def check(device: str, name: str) -> None:
    """The same results and gradients there as on the CPU."""
    function, inputs = CASES[name]
    found = []
    for place in ("cpu", device):
        leaves = [x.detach().clone().to(place).requires_grad_() for x in inputs]
        y = function(*leaves)
        assert y.device == place
        if y.requires_grad:
            (y * normal(*y.shape or (1,), seed=9).reshape(y.shape).to(place)).sum().backward()
        found.append([y.detach(), *(x.grad for x in leaves if x.grad is not None)])
    assert len(found[0]) == len(found[1])
    for ours, theirs in zip(*found, strict=True):
        assert ours.dtype is theirs.dtype and ours.shape == theirs.shape
        np.testing.assert_allclose(theirs.cpu().numpy(), ours.numpy(), rtol=2e-5, atol=2e-5)


def check_numbers_of_the_cpu(device: str) -> None:
    """Zero-dimensional tensors of the CPU count as numbers beside tensors of another device; others are refused."""
    two = pyapp.tensor(2.0)
    taken: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
        "mul": lambda x, s: x * s, "first": lambda x, s: s - x, "pow": lambda x, s: x.abs() ** s,
        "compare": lambda x, s: x < s, "where": lambda x, s: pyapp.where(x > 0, x, s),
        "clamp": lambda x, s: x.clamp(-s, s), "masked_fill": lambda x, s: x.masked_fill(x > 0, s),
        "lerp": lambda x, s: pyapp.lerp(x, x + 1, s), "addcmul": lambda x, s: pyapp.addcmul(x, x, s),
        "alpha": lambda x, s: pyapp.add(x, s, alpha=3), "sum": lambda x, s: x.sum() + s,
        "out": lambda x, s: pyapp.add(x, s, out=pyapp.empty(3, 4, device=x.device)),
        "in place": lambda x, s: x.clone().mul_(s).sub_(s).clamp_(max=s), "half": lambda x, s: x.half() / s,
    }  # fmt: skip
    for name, function in taken.items():
        expected, found = function(X, two), function(X.to(device), two)
        assert found.device == device and found.dtype is expected.dtype, name
        np.testing.assert_allclose(found.cpu().numpy(), expected.numpy(), rtol=1e-3 if name == "half" else 1e-6)
    written = X.clone().to(device)
    written[written > 0] = two
    np.testing.assert_array_equal(written.cpu().numpy(), X.masked_fill(X > 0, 2.0).numpy())
    x, scale = X.to(device).requires_grad_(), pyapp.tensor(2.0, requires_grad=True)
    (x * scale).sum().backward()
    assert scale.grad is not None and scale.grad.device == "cpu" and x.grad is not None and x.grad.device == device
    np.testing.assert_allclose(scale.grad.item(), X.sum().item(), rtol=1e-5)
    there, vector = X.to(device), normal(4)
    for refused in (
        lambda: there * vector, lambda: there + pyapp.ones(1), lambda: vector * there.sum(),
        lambda: vector.clone().add_(there.sum()), lambda: two.clone().mul_(there.sum()),
        lambda: pyapp.stack([there.sum(), two]), lambda: there.clone().add_(vector),
        lambda: pyapp.where(vector > 0, there, there), lambda: there @ vector,
    ):  # fmt: skip
        with pytest.raises(RuntimeError, match=rf"cpu and {device}.*move them to one"):
            refused()
