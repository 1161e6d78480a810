"""Calls in which pyapp once differed from torch in random programs: writes in place through views, functions of
functions, linear algebra, losses. Each case is `function(P)` for P = pyapp or torch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .cases_samples import ramp


def written(P: Any, write: Any, *shape: int, order: tuple[int, ...] = ()) -> Any:
    """A tensor after `write(tensor, leaf)`, whether it requires a gradient, and the leaf's gradient."""
    leaf = ramp(P, *shape).requires_grad_()
    y = (leaf * 2).permute(order).clone() if order else leaf * 2
    given = write(y, leaf)
    (y * y * ramp(P, *y.shape)).sum().backward()
    return y, y.requires_grad, leaf.grad, *(() if given is None else (given,))


def windows(y: Any, leaf: Any) -> Any:
    parts = y.unfold(0, 2, 3)
    parts[0] = leaf[:2].flip(0)
    parts.mul_(3)
    return parts


def inner_part(y: Any, leaf: Any) -> Any:
    """A part of the memory, taken of a view that begins later."""
    part = y[1:].as_strided((2, 2), (2, 1))
    whole = y.view(-1)
    part.mul_(leaf[0])
    return part * whole[2]


def part_of_elsewhere(y: Any, leaf: Any) -> Any:
    """A part of the memory outside of the view that it is taken of."""
    row = y.t()[1:]
    row.add_(1)
    part = row.t().as_strided((2, 3), (3, 1), 0)
    part.mul_(leaf[0, 1])
    return part * row[0, 0]


def compared_part(y: Any, leaf: Any) -> Any:
    y[1:].ge_(1)
    return y[:2]


def real(P: Any, *tensors: Any) -> Any:
    return tuple(P.view_as_real(x) for x in tensors)


def sum_of_logarithms(P: Any) -> Any:
    a = P.view_as_complex(ramp(P, 4, 2) * 0.3).requires_grad_()
    y = P.logaddexp(a, P.view_as_complex(ramp(P, 4, 2).flip(0) * 0.2))
    y.abs().sum().backward()
    return real(P, y.detach(), a.grad)


def detached(P: Any, function: Any) -> Any:
    y = function(P.ones(2, 3, requires_grad=True))
    y.detach_().add_(1)
    return y, y.requires_grad


def held(P: Any) -> Any:
    whole = ramp(P, 4).requires_grad_() * 2
    whole[1:].detach_()
    return whole


def without_the_product(P: Any, name: str, *shapes: tuple[int, ...]) -> Any:
    x, a, b = (ramp(P, *shape) for shape in shapes)
    return getattr(P, name)(x, a.fill_(float("nan")), b, beta=0.5, alpha=0)


def transforms_of_classes(P: Any) -> Any:
    """Functions that give integers and bools beside floats."""

    def both(x: Any) -> Any:
        return x.argmax(-1), x * x, x > 0

    x = ramp(P, 2, 3)
    return (*P.func.jvp(both, (x,), (x + 1,))[1], *P.func.jacfwd(both)(x), *P.func.linearize(both, x)[1](x + 2))


def learnt_slopes(P: Any, order: bool = False) -> Any:
    """The Jacobians of a learnt network at seven places, and their gradients; with `order` those of the gradients."""
    net = P.nn.Sequential(P.nn.Linear(3, 4), P.nn.Tanh(), P.nn.Linear(4, 2))
    for each in net.parameters():
        each.data.copy_(ramp(P, *each.shape) * 0.1)
    x = (ramp(P, 3, 7) * 0.2).requires_grad_()
    slopes = P.func.vmap(P.func.jacrev(net), in_dims=1, out_dims=-1)(x)
    leaves = [*net.parameters()][:3] + [x]
    found = P.autograd.grad((slopes**2).sum(), leaves, create_graph=order)
    return found if order is False else P.autograd.grad(sum((g**2).sum() for g in found), leaves)


def slopes_of_a_loss(P: Any) -> Any:
    """The gradients of a mean over the examples, at weights that are given."""
    net = P.nn.Linear(3, 2)
    weights = {"weight": ramp(P, 2, 3) * 0.3, "bias": ramp(P, 2)}
    times = P.tensor([1.0, 2.0, 0.5, 1.0, 1.0, 3.0, 2.0])

    def loss(weights: Any, x: Any) -> Any:
        one = P.func.vmap(lambda row, by: P.func.functional_call(net, weights, (row,)).sin() * by)
        return one(x, times).mean()

    found = P.func.grad(loss, argnums=(0, 1))(weights, ramp(P, 7, 3) * 0.1)
    return found[0]["weight"], found[0]["bias"], found[1]


def orthonormal(P: Any, way: str, *shape: int, complex: bool = False) -> Any:
    """A matrix that a map of the parameter alone keeps orthonormal, a value assigned to it, and its gradient."""
    layer = P.nn.Module()
    value = ramp(P, *shape, dtype="float64") * 0.3 + P.eye(*shape, dtype=P.float64)
    layer.weight = P.nn.Parameter(P.complex(value, value.flip(0)) if complex else value)
    P.nn.utils.parametrizations.orthogonal(layer, "weight", way, use_trivialization=False)
    if way == "householder":
        layer.weight = layer.weight.detach() * 1
    found = P.view_as_real(layer.weight) if complex else layer.weight
    (found * ramp(P, *found.shape)).sum().backward()
    gradient = layer.parametrizations.weight.original.grad
    return found, P.view_as_real(gradient) if complex else gradient, sorted(layer.state_dict())


def clipped_by_count(P: Any) -> Any:
    parameters = [P.nn.Parameter(P.zeros(2)) for _ in range(3)]
    for each, gradient in zip(parameters, ([3.0, 4.0], [0.0, 0.0], [0.0, -1.0]), strict=True):
        each.grad = P.tensor(gradient)
    return P.nn.utils.clip_grad_norm_(parameters, 1.0, norm_type=0), *(each.grad for each in parameters)


def masks(P: Any) -> Any:
    """Of one pruning and the next one: the first one stays as it was."""
    layer, prune = P.nn.Linear(3, 4), P.nn.utils.prune
    layer.weight.data.copy_(ramp(P, 4, 3) + P.arange(12.0).reshape(4, 3) * 0.01)
    first = prune.l1_unstructured(layer, "weight", 3).weight_mask
    return first, prune.l1_unstructured(layer, "weight", 4).weight_mask


def order(P: Any, *results: Any) -> Any:
    """Tensors and their strides."""
    return tuple((x, x.stride()) for x in results)


def turned(P: Any, *shape: int) -> Any:
    """A tensor whose last dim is the outermost in memory."""
    return ramp(P, shape[-1], *shape[:-1]).movedim(0, -1)


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "a comparison in place": lambda P: written(P, lambda y, _: y.lt_(2).sum(), 5),
    "a comparison of a part": lambda P: written(P, compared_part, 4),
    "logical ops in place": lambda P: written(P, lambda y, leaf: y.logical_and_(leaf).logical_not_()[0], 5),
    "a write through windows": lambda P: written(P, windows, 8),
    "a write through overlapping memory": lambda P: written(P, lambda y, _: y.t()[1:].unfold(0, 1, 1).zero_(), 3, 2),
    "a write through a part of the memory": lambda P: written(P, inner_part, 6),
    "the same of a turned matrix": lambda P: written(
        P, lambda y, leaf: y.as_strided((2, 2), (3, 1), 1).copy_(leaf[:2, :2]), 3, 4, order=(1, 0)
    ),
    "a write elsewhere in the memory": lambda P: written(P, part_of_elsewhere, 3, 3),
    "a write to one of repeated rows": lambda P: written(
        P, lambda y, leaf: y.expand(2, 3, 3)[0].t()[1:].mul_(leaf[1]).add_(leaf[0, 0]), 3, 3
    ),
    "scattered in the memory of a turned matrix": lambda P: ramp(P, 3, 4).t().as_strided_scatter(
        ramp(P, 2, 2), (2, 2), (4, 1), 1
    ),
    "detached results of rolls": lambda P: detached(P, lambda x: P.roll(x, 1)),
    "detached windows": lambda P: detached(P, lambda x: P.nn.functional.unfold(x[None, None], (1, 1))),
    "a detached view": held,
    "a product that does not count": lambda P: without_the_product(P, "addmm", (2, 2), (2, 3), (3, 2)),
    "the same of a vector": lambda P: without_the_product(P, "addmv", (2,), (2, 3), (3,)),
    "the same of batches": lambda P: without_the_product(P, "baddbmm", (1, 2, 2), (1, 2, 3), (1, 3, 2)),
    "the same summed": lambda P: without_the_product(P, "addbmm", (2, 2), (2, 2, 3), (2, 3, 2)),
    "one class of one example": lambda P: (
        P.nn.functional.cross_entropy(ramp(P, 3), P.tensor([1])),
        P.nn.functional.cross_entropy(ramp(P, 3), P.tensor([1]), weight=P.arange(3.0), reduction="none"),
        P.nn.functional.nll_loss(ramp(P, 3), P.tensor([2]), reduction="sum"),
    ),
    "two classes of one example": lambda P: P.nn.functional.nll_loss(ramp(P, 3), P.tensor([1, 2])),
    "logarithms of complex sums": sum_of_logarithms,
    "logarithms of sums of integers": lambda P: P.logaddexp(P.tensor([1]), P.tensor([2])),
    "factors of complex nothing": lambda P: real(P, *P.linalg.lu(P.ones(0, 2, 3, dtype=P.complex64))),
    "pivots of complex nothing": lambda P: P.linalg.lu_factor(P.ones(2, 0, 3, dtype=P.complex64))[1],
    "transforms of classes": transforms_of_classes,
    "rows of classes": lambda P: P.func.jacrev(lambda x: x.argmax(-1))(ramp(P, 2, 3)),
    "gradients of classes": lambda P: P.func.vjp(lambda x: (x, x > 0), ramp(P, 3)),
    "gradients of learnt slopes": learnt_slopes,
    "their gradients": lambda P: learnt_slopes(P, True),
    "gradients of a loss of examples": slopes_of_a_loss,
    "reflections alone": lambda P: orthonormal(P, "householder", 4, 3),
    "reflections of a wide matrix": lambda P: orthonormal(P, "householder", 2, 3),
    "rotations alone": lambda P: orthonormal(P, "cayley", 3, 2),
    "complex rotations": lambda P: orthonormal(P, "cayley", 3, 3, complex=True),
    "complex exponentials": lambda P: orthonormal(P, "matrix_exp", 3, 2, complex=True),
    "gradients clipped by their number": clipped_by_count,
    "masks of two prunings": masks,
    "a mode in a corner": lambda P: (
        P.distributions.Dirichlet(P.tensor([[0.2, 0.5, 0.9], [0.5, 2.0, 3.0]])).mode,
        P.distributions.Beta(P.tensor([0.5, 2.0]), P.tensor([0.7, 1.5])).mode,
    ),
    "transforms in a row": lambda P: repr(
        P.distributions.ComposeTransform([P.distributions.ExpTransform(), P.distributions.AffineTransform(0.0, 2.0)])
    ),
    "the order of sums of products": lambda P: order(
        P,
        P.einsum("ij,jk->ki", ramp(P, 2, 3), ramp(P, 3, 4)),
        P.einsum("bij,bjk->kbi", ramp(P, 2, 3, 4), ramp(P, 2, 4, 5)),
        P.einsum("abj,jc->bac", ramp(P, 2, 3, 4), ramp(P, 4, 5)),
        P.einsum("...ij,...kj->...ki", ramp(P, 2, 3, 4), ramp(P, 5, 4)),
        P.einsum("bij->jb", ramp(P, 2, 3, 4)),
        P.einsum("i,j->ji", ramp(P, 2), ramp(P, 3)),
        P.einsum("zaj,zjcd->zcda", ramp(P, 2, 3, 4), ramp(P, 2, 4, 5, 3)),
    ),
    "the order of turned tensors": lambda P: order(
        P,
        P.renorm(turned(P, 3, 4), 2, 0, 1.0),
        P.nn.functional.interpolate(turned(P, 2, 3, 4), scale_factor=2, mode="linear"),
        P.nn.functional.interpolate(ramp(P, 2, 3, 4, 5).transpose(2, 3), scale_factor=2, mode="bicubic"),
        turned(P, 2, 3, 4).double() @ turned(P, 2, 3, 4).double().mT,
    ),
    "without writes": lambda P: P.func.functionalize(lambda x: (x * 1).add_(2))(ramp(P, 3)),
}  # fmt: skip
