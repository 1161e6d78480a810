"""Policy gradients, Q-learning with a replay memory and a target, distributions of actions and of matrices."""

import collections
import math

import torch
import torch.nn as nn
from torch.distributions import (
    Bernoulli,
    Beta,
    Categorical,
    Dirichlet,
    Gamma,
    Independent,
    Laplace,
    LKJCholesky,
    MixtureSameFamily,
    MultivariateNormal,
    Normal,
    Poisson,
    StudentT,
    TanhTransform,
    TransformedDistribution,
    Wishart,
    kl_divergence,
)

Tr = collections.namedtuple("Tr", "s a r n d")


def env(s, a):
    s2 = torch.tensor([s[0] + 0.1 * s[1], s[1] + 0.2 * (a - 0.5)])
    return s2, -float(s2.abs().sum()), bool(s2.abs().max() > 1.0)


def main(fill):
    out = []
    pi = nn.Sequential(nn.Linear(2, 8), nn.ReLU(inplace=True), nn.Linear(8, 2))
    fill(pi)
    opt = torch.optim.Adam(pi.parameters(), 1e-2)
    for ep in range(3):
        s = torch.tensor([0.1, -0.1])
        lps, rs, ents = [], [], []
        for t in range(8):
            d = Categorical(logits=pi(s))
            a = torch.tensor((t * 3 + ep) % 2)
            lps.append(d.log_prob(a))
            ents.append(d.entropy())
            s, r, done = env(s, a.item())
            rs.append(r)
            if done:
                break
        R, rets = 0.0, collections.deque()
        for r in rs[::-1]:
            R = r + 0.99 * R
            rets.appendleft(R)
        rets = torch.tensor(rets)
        rets = (rets - rets.mean()) / (rets.std() + 1e-8)
        loss = (
            torch.cat([(-lp * R).unsqueeze(0) for lp, R in zip(lps, rets, strict=False)]).sum()
            - 0.01 * torch.stack(ents).mean()
        )
        opt.zero_grad()
        loss.backward()
        opt.step()
        out.append(loss.item())
    q, tq = nn.Linear(2, 2), nn.Linear(2, 2)
    fill(q)
    tq.load_state_dict(q.state_dict())
    o = torch.optim.RMSprop(q.parameters(), 0.01)
    mem = collections.deque(maxlen=10)
    for i in range(14):
        s = torch.tensor([math.sin(i), math.cos(i)])
        n, r, d = env(s, i % 2)
        mem.append(Tr(s, torch.tensor([[i % 2]]), torch.tensor([r]), None if d else n, d))
    for i in range(3):
        B = Tr(*zip(*list(mem)[i : i + 6], strict=False))
        nf = torch.tensor(tuple(s is not None for s in B.n), dtype=torch.bool)
        S = torch.stack(B.s)
        A = torch.cat(B.a)
        r = torch.cat(B.r)
        V = torch.zeros(6)
        if nf.any():
            with torch.no_grad():
                V[nf] = tq(torch.stack([s for s in B.n if s is not None])).max(1).values
        loss = nn.SmoothL1Loss()(q(S).gather(1, A), (V * 0.9 + r).unsqueeze(1))
        o.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(q.parameters(), 0.1)
        o.step()
        out.append(loss.item())
        sd, qd = tq.state_dict(), q.state_dict()
        for k in qd:
            sd[k] = qd[k] * 0.5 + sd[k] * 0.5
        tq.load_state_dict(sd)
    mu = torch.tensor([[0.2, -0.3]], requires_grad=True)
    ls = torch.zeros(1, 2, requires_grad=True)
    base = Independent(Normal(mu, ls.exp()), 1)
    d = TransformedDistribution(base, [TanhTransform(cache_size=1)])
    a = torch.tensor([[0.3, -0.5]])
    lp = d.log_prob(a)
    lp.sum().backward()
    out += [lp.item(), *mu.grad.flatten().tolist(), *ls.grad.flatten().tolist()]
    ratio = torch.tensor([0.7, 1.1, 1.5], requires_grad=True)
    adv = torch.tensor([1.0, -1.0, 2.0])
    loss = -torch.min(ratio * adv, ratio.clamp(0.8, 1.2) * adv).mean()
    loss.backward()
    out += [loss.item(), *ratio.grad.tolist()]
    adv, last = torch.zeros(5), 0.0
    rw = torch.arange(5.0) / 5
    vs = torch.linspace(1, 0, 6)
    dn = torch.tensor([0, 0, 1, 0, 0.0])
    for t in reversed(range(5)):
        delta = rw[t] + 0.99 * vs[t + 1] * (1 - dn[t]) - vs[t]
        adv[t] = last = delta + 0.99 * 0.95 * (1 - dn[t]) * last
    out += adv.tolist()
    for D, v in [
        (Beta(2.0, torch.tensor([0.5, 3.0])), torch.tensor([0.2, 0.7])),
        (Bernoulli(logits=torch.tensor([0.3])), torch.ones(1)),
        (Dirichlet(torch.tensor([1.0, 2.0, 3.0])), torch.tensor([0.2, 0.3, 0.5])),
        (Gamma(2.0, torch.tensor(3.0)), torch.tensor(0.4)),
        (StudentT(3.0), torch.tensor(0.5)),
        (Laplace(0.0, 2.0), torch.tensor(1.0)),
        (MultivariateNormal(torch.zeros(2), torch.tensor([[2.0, 0.5], [0.5, 1.0]])), torch.ones(2)),
        (
            MixtureSameFamily(Categorical(torch.ones(2)), Normal(torch.tensor([0.0, 1.0]), torch.ones(2))),
            torch.tensor(0.3),
        ),
        (Poisson(3.0), torch.tensor(2.0)),
        (Wishart(torch.tensor(4.0), covariance_matrix=torch.eye(2) * 2), torch.tensor([[2.0, 0.3], [0.3, 1.0]])),
        (LKJCholesky(3, 0.7), torch.linalg.cholesky(torch.tensor([[1.0, 0.2, 0.1], [0.2, 1.0, 0.3], [0.1, 0.3, 1.0]]))),
    ]:
        out.append(D.log_prob(v).sum().item())
        for n in ("mean", "variance", "entropy", "mode"):
            try:
                z = getattr(D, n)
                z = z() if callable(z) else z
                out.append(z.sum().item())
            except NotImplementedError:
                out.append(-7.0)
    out.append(
        kl_divergence(
            Independent(Normal(torch.zeros(2), torch.ones(2)), 1),
            Independent(Normal(torch.ones(2), torch.ones(2) * 2), 1),
        ).item()
    )
    out += list(Wishart(torch.tensor(4.0), torch.eye(2)).rsample((3,)).shape) + list(LKJCholesky(3).sample((2,)).shape)
    return [float(x) for x in out]
