"""Functions with gradients of their own: double backward, setup_context, in-place, several outputs, forward mode and
vmap, checks against finite differences, and hooks of the graph."""

import math

import torch
from torch import nn
from torch.autograd import Function, forward_ad, gradcheck, gradgradcheck
from torch.autograd.functional import hvp, jacobian
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, stack_module_state, vjp, vmap


class Softer(Function):
    """log(1 + exp(beta x)) / beta, whose backward is differentiable."""

    @staticmethod
    def forward(ctx, x, beta):
        ctx.save_for_backward(x)
        ctx.beta = beta
        return torch.log1p(torch.exp(x * beta)) / beta

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output * torch.sigmoid(x * ctx.beta), None


class Swish(Function):
    """The new form, with forward mode and vmap."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        s = torch.sigmoid(x)
        return x * s, s

    @staticmethod
    def setup_context(ctx, inputs, output):
        (x,) = inputs
        _, s = output
        ctx.mark_non_differentiable(s)
        ctx.save_for_backward(x, s)
        ctx.save_for_forward(x, s)

    @staticmethod
    def backward(ctx, g, _):
        x, s = ctx.saved_tensors
        return g * (s + x * s * (1 - s))

    @staticmethod
    def jvp(ctx, t):
        x, s = ctx.saved_tensors
        return t * (s + x * s * (1 - s)), None


class Clamped(Function):
    """A straight-through estimator, in place."""

    @staticmethod
    def forward(ctx, x, low, high):
        ctx.mark_dirty(x)
        return x.clamp_(low, high)

    @staticmethod
    def backward(ctx, g):
        assert ctx.needs_input_grad == (True, False, False)
        return g, None, None


class Divide(Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(a, b)
        return torch.div(a, b, rounding_mode="floor"), torch.fmod(a, b), a / b

    @staticmethod
    def backward(ctx, g_floor, g_rest, g_quotient):
        a, b = ctx.saved_tensors
        assert g_floor is None and g_rest is None
        return g_quotient / b, -g_quotient * a / b**2


def checked():
    x = torch.linspace(-1.5, 2, 6, dtype=torch.double).requires_grad_()
    assert gradcheck(Softer.apply, (x, 2.0)) and gradgradcheck(lambda a: Softer.apply(a, 2.0), (x,))
    assert gradcheck(lambda a: Swish.apply(a)[0], (x,), eps=1e-6, atol=1e-4, check_forward_ad=False)
    y = Softer.apply(x, 3.0)
    (g,) = torch.autograd.grad(y.pow(2).sum(), x, create_graph=True)
    (gg,) = torch.autograd.grad(g.mul(torch.arange(6.0, dtype=torch.double)).sum(), x, create_graph=True)
    gg.norm().backward(inputs=[x])
    a = torch.tensor([3.0, -5.0, 7.5], requires_grad=True)
    b = torch.tensor([2.0, 3.0, -2.0], requires_grad=True)
    floor, rest, quotient = Divide.apply(a, b)
    quotient.sum().backward()
    z = torch.tensor([-2.0, 0.1, 5.0], requires_grad=True)
    clamped = Clamped.apply(z * 1.0, -1.0, 1.0)
    clamped.square().sum().backward()
    return [*x.grad.tolist(), *floor.tolist(), *rest.tolist(), *a.grad.tolist(), *b.grad.tolist(), *z.grad.tolist()]


def of_functions():
    x = torch.tensor([0.5, -1.0, 2.0])
    v = torch.tensor([1.0, 0.5, -0.25])
    values, tangents = jvp(lambda a: Swish.apply(a)[0].cumsum(0), (x,), (v,))
    rows = vmap(jacrev(lambda a: a.sin() * a.sum()), in_dims=0, out_dims=0)(torch.stack([x, v]))
    second = hessian(lambda a: torch.logsumexp(a * a, 0))(x)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, v)
        primal, tangent = forward_ad.unpack_dual(torch.linalg.vector_norm(dual, ord=3) * dual.prod())
    out, pull = vjp(lambda a, b: (a @ b, a * b), x, v)
    left, right = pull((torch.tensor(2.0), torch.ones(3)))
    whole = jacfwd(lambda a: torch.stack([a[0] * a[1], a[1] ** a[2].abs(), a.prod()]), randomness="same")(x.abs())
    _, product = hvp(lambda a: (a**4).sum() * a[0], x, v)
    matrix = jacobian(lambda a: torch.outer(a, a.exp()), x, vectorize=True, create_graph=False)
    return [
        *values.tolist(), *tangents.tolist(), rows.sum().item(), *second.flatten().tolist(), primal.item(),
        tangent.item(), out[0].item(), *left.tolist(), *right.tolist(), *whole.flatten().tolist(), *product.tolist(),
        matrix.sum().item(), matrix.shape[1],
    ]  # fmt: skip


def of_examples(fill):
    """Gradients of each example, clipped as in private training; an ensemble in one call."""
    model = nn.Sequential(nn.Linear(3, 6), nn.Softplus(beta=2, threshold=15), nn.Linear(6, 2))
    fill(model)
    params = {k: v.detach() for k, v in model.named_parameters()}
    x = torch.sin(torch.arange(12.0)).view(4, 3)
    y = torch.tensor([0, 1, 1, 0])

    def loss(params, sample, target):
        logits = functional_call(model, params, (sample.unsqueeze(0),))
        return nn.functional.cross_entropy(logits, target.unsqueeze(0))

    each = vmap(grad(loss), in_dims=(None, 0, 0), chunk_size=2)(params, x, y)
    norms = torch.stack([g.flatten(1).norm(dim=1) for g in each.values()]).norm(dim=0)
    factor = (0.5 / norms).clamp(max=1.0)
    private = {k: torch.einsum("b,b...->...", factor, g) / len(x) for k, g in each.items()}
    models = [nn.Linear(3, 2) for _ in range(3)]
    for i, one in enumerate(models):
        fill(one)
        with torch.no_grad():
            one.weight.mul_(i + 1)
    stacked, buffers = stack_module_state(models)
    skeleton = nn.Linear(3, 2, device="meta")
    answers = vmap(lambda p, b, a: functional_call(skeleton, (p, b), (a,)), (0, 0, None))(stacked, buffers, x)
    kernel = torch.stack([torch.einsum("na,ma->nm", g.flatten(1), g.flatten(1)) for g in each.values()]).sum(0)
    return [*norms.tolist(), *(g.sum().item() for g in private.values()), *answers.std(0).flatten().tolist(),
            *torch.linalg.eigvalsh(kernel).tolist()[1:]]  # fmt: skip


def of_graphs():
    seen = []
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = x.exp()
    y.retain_grad()
    handle = y.register_hook(lambda g: g * 2)
    x.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.sum().item()))
    node = y.grad_fn
    node.register_hook(lambda inputs, outputs: seen.append(len(inputs)))
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.double(), lambda t: t.float()):
        z = (y * y.sin()).sum()
    z.backward(retain_graph=True)
    handle.remove()
    z.backward()
    with torch.autograd.set_detect_anomaly(True, check_nan=True):
        try:
            torch.sqrt(x * 0 - 1).sum().backward()
        except RuntimeError as error:
            seen.append(float("nan" in str(error).lower()))
    with torch.autograd.graph.save_on_cpu(pin_memory=False):
        (x.tanh() ** 2).sum().backward()
    assert not torch.isnan(x.grad).any() and math.isfinite(seen[0])
    return [*seen, *x.grad.tolist(), *y.grad.tolist()]


def main(fill):
    return checked() + of_functions() + of_examples(fill) + of_graphs()
