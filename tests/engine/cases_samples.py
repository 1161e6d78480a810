"""Calls in which pyapp once differed from torch on the samples that torch tests its own ops with
(tests/oracle/test_samples.py). Each case is `function(P)` for P = pyapp or torch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def ramp(P: Any, *shape: int, dtype: str = "float32") -> Any:
    """Different numbers in no order."""
    count = 1
    for size in shape:
        count *= size
    return P.tensor([(i * 7 + 3) % 11 - 4 for i in range(count)], dtype=getattr(P, dtype)).reshape(shape)


def gradient(function: Callable[[Any], Any], x: Any) -> Any:
    function(x.requires_grad_()).sum().backward()
    return x.grad


def largest_step(P: Any) -> Any:
    """The parameter after LBFGS has looked for the largest value of a curve."""
    x = P.nn.Parameter(P.tensor([0.2, -0.5]))
    optimizer = P.optim.LBFGS([x], lr=0.5, maximize=True, line_search_fn="strong_wolfe")

    def closure() -> Any:
        optimizer.zero_grad()
        value = -((x - P.tensor([1.0, 2.0])) ** 4).sum()
        value.backward()
        return value

    optimizer.step(closure)
    return x.detach()


def empty_batch(P: Any) -> Any:
    norm = P.nn.BatchNorm1d(3)
    return norm(P.zeros(0, 3, 4)), norm.running_var, norm.num_batches_tracked


def halves(P: Any, dtype: str) -> Any:
    F, kind = P.nn.functional, getattr(P, dtype)
    table = ramp(P, 5, 2).to(kind)
    bags = F.embedding_bag(P.tensor([[1, 2], [0, 4]]), table, mode="sum")
    return P.nn.Embedding.from_pretrained(table)(P.tensor([[1], [3]])), F.embedding(P.tensor(2), table), bags


SAMPLES: dict[str, Callable[[Any], Any]] = {
    "integers at equal distances": lambda P: (
        P.linspace(4.3, -3, 6, dtype=P.int64), P.logspace(0.7, 2.5, 4, dtype=P.int64)
    ),
    "vectors at equal distances": lambda P: P.linspace(P.tensor([1.0]), P.tensor([2.0]), 3),
    "the next bfloat16": lambda P: P.nextafter(P.tensor(1.0, dtype=P.bfloat16), P.tensor(2.0, dtype=P.bfloat16)),
    "normal numbers in half": lambda P: (
        P.normal(P.ones(2, dtype=P.float16), P.zeros(2, dtype=P.float16)), P.normal(2.5, P.zeros(2, dtype=P.bfloat16))
    ),
    "nuclear norm of complex numbers": lambda P: P.norm(P.complex(ramp(P, 3, 3), ramp(P, 3, 3) * 0.5 + 1), "nuc"),
    "rows in float16": lambda P: halves(P, "float16"), "rows in bfloat16": lambda P: halves(P, "bfloat16"),
    "pinv of one triangle": lambda P: P.linalg.pinv(ramp(P, 4, 4, dtype="float64"), hermitian=True),
    "log_ndtr of bytes": lambda P: P.special.log_ndtr(P.tensor([5, 1], dtype=P.uint8)),
    "replicate what is cut": lambda P: P.nn.functional.pad(ramp(P, 1, 1, 3, 4), (-4, 5, 2, -1), "replicate"),
    "replicate and cut": lambda P: gradient(
        lambda x: P.nn.functional.pad(x, (5, -4), "replicate") * P.arange(1.0, 5.0), ramp(P, 1, 2, 3)
    ),
    "a dim of 1 in tensordot": lambda P: P.tensordot(ramp(P, 2, 1, 3), ramp(P, 3, 4, 2), dims=[[1, 2], [1, 0]]),
    "einsum of bytes": lambda P: P.einsum("...ik, ...j -> ij", ramp(P, 1, 2, 3).to(P.uint8), P.ones(3, dtype=P.uint8)),
    "gather of nothing": lambda P: P.gather(ramp(P, 5), 0, P.zeros(2, 0, dtype=P.int64)),
    "index_reduce without dims": lambda P: P.index_reduce(
        P.tensor(2.0), 0, P.tensor([0]), P.tensor(3.0), "prod", include_self=True
    ),
    "scatter_reduce of bools": lambda P: (
        P.scatter_reduce(P.tensor([True, False]), 0, P.tensor([0]), P.tensor([False]), "amin"),
        P.scatter_reduce(P.tensor([True, False]), 0, P.tensor([0]), P.tensor([False]), "amax", include_self=False),
        P.scatter_reduce(P.tensor([True, False]), 0, P.tensor([1, 1]), P.tensor([True, True]), "sum"),
    ),
    "addr of bools": lambda P: P.addr(
        P.tensor([[True, False]]), P.tensor([True]), P.tensor([False, True]), beta=1, alpha=2
    ),
    "clamp_max of bools": lambda P: (
        P.clamp_max(P.tensor([True, False]), P.tensor(False)), P.clamp_min(P.tensor([False]), P.tensor(True))
    ),
    "cov by weights": lambda P: P.cov(
        ramp(P, 2, 4, dtype="float16"), fweights=P.tensor([1, 2, 0, 1]), aweights=P.tensor([0.5, 1.0, 2.0, 1.0])
    ),
    "cov of complex numbers by weights": lambda P: P.cov(
        P.complex(ramp(P, 2, 3), ramp(P, 2, 3) + 1), aweights=P.tensor([0.5, 1.0, 2.0])
    ).abs(),
    "cov by negative weights": lambda P: P.cov(ramp(P, 2, 3), fweights=P.tensor([1, -1, 1])),
    "cov by too few weights": lambda P: P.cov(ramp(P, 2, 3), aweights=P.tensor([1.0])),
    "no difference": lambda P: P.diff(ramp(P, 3), n=0, prepend=ramp(P, 2)),
    "a negative difference": lambda P: P.diff(ramp(P, 3), n=-1),
    "a dim twice": lambda P: P.gradient(ramp(P, 3, 3), dim=(1, 1)),
    "flipud without dims": lambda P: P.flipud(P.tensor(1.0)),
    "a negative tolerance": lambda P: P.isclose(P.tensor(1.0), P.tensor(1.0), rtol=-0.1),
    "multinomial of integers": lambda P: P.multinomial(P.tensor([1, 2]), 1),
    "multinomial of 3 dims": lambda P: P.multinomial(P.ones(1, 2, 3), 2),
    "a count in the graph": lambda P: float(ramp(P, 3).requires_grad_().norm(0).requires_grad),
    "reflectors of a wide matrix": lambda P: P.ormqr(
        ramp(P, 2, 5) * 0.1, P.tensor([0.5, 1.5]), ramp(P, 2, 5), transpose=True
    ),
    "residuals of complex numbers": lambda P: P.linalg.lstsq(
        P.complex(ramp(P, 2, 3), ramp(P, 2, 3)), P.complex(ramp(P, 2, 3), ramp(P, 2, 3)), driver="gels"
    ).residuals,
    "margins of integers": lambda P: P.nn.functional.margin_ranking_loss(
        P.tensor([1, 5]), P.tensor([3, 2]), P.tensor([1, -1])
    ),
    "one target in a list": lambda P: P.nn.functional.multi_margin_loss(ramp(P, 5), P.tensor([1])),
    "a variance for all rows": lambda P: P.nn.functional.gaussian_nll_loss(
        ramp(P, 4, 3), ramp(P, 4, 3) + 1, P.tensor([[0.5, 1.0, 2.0]])
    ),
    "a batch of ignored targets": lambda P: gradient(
        lambda x: P.nn.functional.cross_entropy(x, P.tensor([1, 1]), ignore_index=1, label_smoothing=0.1), ramp(P, 2, 3)
    ),
    "an empty batch": empty_batch, "the largest value": largest_step,
    **{
        f"{mode} bytes, {size}, antialias {antialias}": lambda P, mode=mode, size=size, antialias=antialias: (
            P.nn.functional.interpolate(
                (ramp(P, 1, 2, 9, 11) * 25 + 120).to(P.uint8), size, mode=mode, antialias=antialias
            )
        )
        for mode, size, antialias in (
            ("bilinear", (5, 4), False), ("bilinear", (13, 16), True), ("bicubic", (5, 4), True),
            ("bicubic", (13, 16), False),
        )
    },
}  # fmt: skip
