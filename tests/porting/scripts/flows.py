"""Models of densities: flows of transforms, score matching with moving averages, an energy model with
Langevin steps, a neural differential equation with its adjoint, and mixtures."""

import copy
import math
from collections.abc import Sequence

import torch
import torch.distributions as D
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions import constraints
from torch.distributions.transforms import (
    AffineTransform,
    ComposeTransform,
    ExpTransform,
    SigmoidTransform,
    StickBreakingTransform,
    Transform,
)


def drawn(*shape, seed=0.0):
    count = math.prod(shape)
    return torch.sin(torch.arange(1.0, count + 1) * (1.7 + seed)).reshape(shape)


class Coupling(Transform):
    domain = constraints.independent(constraints.real, 1)
    codomain = constraints.independent(constraints.real, 1)
    bijective = True

    def __init__(self, net, flip):
        super().__init__(cache_size=0)
        self.net, self.flip = net, flip

    def _parts(self, x):
        a, b = x.chunk(2, dim=-1)
        return (b, a) if self.flip else (a, b)

    def _join(self, a, b):
        return torch.cat((b, a) if self.flip else (a, b), dim=-1)

    def _call(self, x):
        a, b = self._parts(x)
        shift, scale = self.net(a).chunk(2, -1)
        return self._join(a, b * torch.exp(torch.tanh(scale)) + shift)

    def _inverse(self, y):
        a, b = self._parts(y)
        shift, scale = self.net(a).chunk(2, -1)
        return self._join(a, (b - shift) * torch.exp(-torch.tanh(scale)))

    def log_abs_det_jacobian(self, x, y):
        a, _ = self._parts(x)
        return torch.tanh(self.net(a).chunk(2, -1)[1]).sum(-1)


def flow(fill):
    nets = nn.ModuleList([nn.Sequential(nn.Linear(1, 8), nn.LogSigmoid(), nn.Linear(8, 2)) for _ in range(3)])
    fill(nets)
    loc, raw = nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(3))

    def density():
        tril = torch.zeros(2, 2).index_put((torch.tensor([0, 1, 1]), torch.tensor([0, 0, 1])), raw)
        tril = tril + torch.diag_embed(F.softplus(torch.diagonal(tril)) + 0.3)
        base = D.MultivariateNormal(loc, scale_tril=tril.tril())
        return D.TransformedDistribution(base, [Coupling(net, i % 2 == 1) for i, net in enumerate(nets)])

    data = torch.stack([drawn(16), drawn(16) ** 2 - 0.5 + 0.1 * drawn(16, seed=0.4)], 1)
    optimizer = torch.optim.Adam([*nets.parameters(), loc, raw], lr=0.02, weight_decay=1e-4)
    found = []
    for _ in range(4):
        loss = -density().log_prob(data).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    chain = ComposeTransform([AffineTransform(0.5, 2.0), SigmoidTransform(), ExpTransform()])
    x = drawn(5)
    sticks = StickBreakingTransform()(x)
    assert torch.allclose(chain.inv(chain(x)), x, atol=1e-5)
    return [*found, chain.log_abs_det_jacobian(x, chain(x)).sum().item(), *sticks.tolist()]


class EMA(nn.Module):
    def __init__(self, model, decay):
        super().__init__()
        self.register_buffer("count", torch.tensor(0, dtype=torch.int))
        self.shadow = copy.deepcopy(model).eval().requires_grad_(False)
        self.decay = decay

    @torch.no_grad()
    def update(self, model):
        self.count += 1
        decay = min(self.decay, (1 + self.count.item()) / (10 + self.count.item()))
        for ours, theirs in zip(self.shadow.state_dict().values(), model.state_dict().values(), strict=False):
            if ours.dtype.is_floating_point:
                ours.copy_(ours * decay + (1 - decay) * theirs)


class Score(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("frequencies", torch.exp(torch.linspace(0, 2, 4)))
        self.time, self.film = nn.Linear(8, 8), nn.Linear(8, 16)
        self.first, self.last = nn.utils.spectral_norm(nn.Linear(2, 8), n_power_iterations=1), nn.Linear(8, 2)
        self.norm = nn.RMSNorm(8, elementwise_affine=False)

    def forward(self, x, t):
        angles = t[:, None] * self.frequencies[None]
        h = F.silu(self.time(torch.cat([angles.sin(), angles.cos()], -1)))
        gamma, beta = self.film(h).tensor_split(2, dim=1)
        return self.last(torch.addcmul(beta, self.norm(self.first(x)), 1 + gamma).relu())


def diffusion(fill):
    torch.manual_seed(0)
    net = Score()
    for buffer in (net.first.weight_u, net.first.weight_v):
        buffer.copy_(F.normalize(torch.ones_like(buffer), dim=0))
    fill(net)
    ema = EMA(net, 0.95)
    betas = torch.linspace(1e-3, 0.3, 10)
    kept = torch.cumprod(1 - betas, 0)
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.02, betas=(0.9, 0.99), capturable=False)
    data, found = drawn(12, 2), []
    for step in range(4):
        t = (torch.arange(12) + step) % 10
        noise = drawn(12, 2, seed=0.1 * step)
        noisy = kept[t].sqrt()[:, None] * data + (1 - kept[t]).sqrt()[:, None] * noise
        weight = torch.minimum(kept[t] / (1 - kept[t]), torch.tensor(5.0))
        loss = (weight * F.mse_loss(net(noisy, t.float()), noise, reduction="none").mean(1)).mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        ema.update(net)
        found.append(loss.item())
    x = drawn(3, 2, seed=0.9)
    for i in reversed(range(0, 10, 3)):
        eps = ema.shadow(x, torch.full((3,), float(i)))
        clean = (x - (1 - kept[i]).sqrt() * eps) / kept[i].sqrt()
        before = kept[i - 3] if i >= 3 else torch.ones(())
        x = before.sqrt() * clean.clamp(-2, 2) + (1 - before).sqrt() * eps
    return [*found, *x.flatten().tolist(), ema.count.item()]


def energy(fill):
    net = nn.Sequential(nn.Linear(2, 8), nn.Softplus(), nn.Linear(8, 1))
    fill(net)
    x = drawn(6, 2).requires_grad_()
    chain, found = x, []
    for step in range(3):  # Langevin steps that keep their graph
        (g,) = torch.autograd.grad(net(chain).sum(), chain, create_graph=True)
        chain = chain - 0.1 * g + 0.02 * drawn(6, 2, seed=step)
    loss = net(drawn(6, 2, seed=0.3)).mean() - net(chain).mean()
    loss.backward()
    found += [
        loss.item(),
        x.grad.norm().item(),
        *(p.grad.norm().item() for p in net.parameters() if p.grad is not None),
    ]
    hutchinson = torch.func.jvp(
        lambda a: torch.func.grad(lambda b: net(b).sum())(a), (x.detach(),), (torch.ones_like(x),)
    )
    return [*found, (hutchinson[1] * torch.ones_like(x)).sum().item()]


class Adjoint(torch.autograd.Function):
    """dx/dt = f(x) by Runge and Kutta; its gradient integrates backwards."""

    @staticmethod
    def forward(ctx, x, steps, func, *params):
        with torch.no_grad():
            for _ in range(steps):
                x = runge_kutta(func, x, 0.1)
        ctx.func, ctx.steps = func, steps
        ctx.save_for_backward(x, *params)
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        x, *params = ctx.saved_tensors
        totals = [torch.zeros_like(p) for p in params]
        for _ in range(ctx.steps):
            with torch.no_grad():
                x = runge_kutta(ctx.func, x, -0.1)
            with torch.enable_grad():
                again = x.detach().requires_grad_(True)
                ahead = runge_kutta(ctx.func, again, 0.1)
                g, *own = torch.autograd.grad(ahead, (again, *params), g)
            totals = [a + b for a, b in zip(totals, own, strict=False)]
        return g, None, None, *totals


def runge_kutta(func, x, h):
    k1 = func(x)
    k2 = func(x + h / 2 * k1)
    k3 = func(x + h / 2 * k2)
    return x + h / 6 * (k1 + 2 * k2 + 2 * k3 + func(x + h * k3))


def equation(fill):
    func = nn.Sequential(nn.Linear(2, 6), nn.Tanh(), nn.Linear(6, 2))
    fill(func)
    x = drawn(4, 2).requires_grad_()
    y = Adjoint.apply(x, 5, func, *func.parameters())
    y.square().sum().backward()
    found = [y.sum().item(), *x.grad[0].tolist(), *(p.grad.sum().item() for p in func.parameters())]
    func.zero_grad()
    direct = x.detach().requires_grad_()
    z = direct
    for _ in range(5):
        z = runge_kutta(func, z, 0.1)
    z.square().sum().backward()
    assert torch.allclose(direct.grad, x.grad, atol=1e-4)
    return found


def mixtures():
    weights, means = nn.Parameter(torch.zeros(3)), nn.Parameter(torch.tensor([[-1.0, 0], [0, 1], [1, -1]]))
    scales = nn.Parameter(torch.zeros(3, 2))
    data = drawn(20, 2)
    optimizer = torch.optim.Adamax([weights, means, scales], lr=0.05)
    found: Sequence[float] = []
    for _ in range(4):
        parts = D.Independent(D.StudentT(5.0, means, F.softplus(scales) + 0.1), 1)
        mixture = D.MixtureSameFamily(D.Categorical(logits=weights), parts)
        prior = D.Dirichlet(torch.full((3,), 2.0)).log_prob(weights.softmax(0))
        loss = -mixture.log_prob(data).mean() - 0.01 * prior
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found = [*found, loss.item()]
    a, b = D.Gamma(torch.tensor([2.0, 3.0]), 1.5), D.Gamma(torch.tensor([1.0, 2.5]), 2.0)
    low = D.LowRankMultivariateNormal(torch.zeros(3), drawn(3, 2), torch.ones(3))
    count, hidden = D.NegativeBinomial(torch.tensor(3.0), probs=torch.tensor(0.4)), D.HalfNormal(torch.tensor(1.5))
    return [
        *found, mixture.mean.sum().item(), mixture.variance.sum().item(), D.kl_divergence(a, b).sum().item(),
        low.log_prob(drawn(3)).item(), low.entropy().item(), count.log_prob(torch.tensor(2.0)).item(),
        hidden.cdf(torch.tensor(0.7)).item(), hidden.icdf(torch.tensor(0.2)).item(), a.entropy().sum().item(),
        D.Wishart(torch.tensor(4.0), torch.eye(2)).log_prob(torch.eye(2) * 2).item(),
        D.Poisson(3.0).log_prob(torch.tensor(4.0)).item(),
        D.RelaxedBernoulli(torch.tensor(0.7), logits=torch.tensor(0.3)).log_prob(torch.tensor(0.6)).item(),
        D.VonMises(torch.tensor(0.5), torch.tensor(2.0)).log_prob(torch.tensor(1.0)).item(), D.Weibull(2.0,
        1.5).mean.item(),
        D.Kumaraswamy(torch.tensor(2.0), torch.tensor(3.0)).log_prob(torch.tensor(0.4)).item(),
        D.ContinuousBernoulli(torch.tensor(0.3)).entropy().item(), D.Pareto(1.0, 3.0).variance.item(),
        D.LKJCholesky(3, torch.tensor(1.5)).log_prob(torch.eye(3)).item(), D.FisherSnedecor(3.0, 8.0).mean.item(),
    ]  # fmt: skip


def main(fill):
    return flow(fill) + diffusion(fill) + energy(fill) + equation(fill) + mixtures()
