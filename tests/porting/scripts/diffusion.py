"""A diffusion UNet, a graph network by index_add and scatter_reduce, an autoencoder, a codebook, losses."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class TimeEmb(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.d = d

    def forward(self, t):
        h = self.d // 2
        f = torch.exp(-math.log(10000) * torch.arange(h, device=t.device) / (h - 1))
        a = t[:, None].float() * f[None]
        return torch.cat([a.sin(), a.cos()], dim=-1)


class Res(nn.Module):
    def __init__(self, i, o, t):
        super().__init__()
        self.c1 = nn.Conv2d(i, o, 3, padding=1, padding_mode="circular")
        self.n1 = nn.GroupNorm(2, i)
        self.n2 = nn.GroupNorm(2, o)
        self.c2 = nn.Conv2d(o, o, 3, padding="same", bias=False)
        self.t = nn.Linear(t, 2 * o)
        self.s = nn.Conv2d(i, o, 1) if i != o else nn.Identity()

    def forward(self, x, t):
        h = self.c1(F.silu(self.n1(x)))
        sc, sh = self.t(F.silu(t))[..., None, None].chunk(2, 1)
        h = self.n2(h) * (1 + sc) + sh
        return self.c2(F.silu(h)) + self.s(x)


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.te = nn.Sequential(TimeEmb(8), nn.Linear(8, 16), nn.Mish(), nn.Linear(16, 16))
        self.i = nn.Conv2d(1, 4, 3, padding=1)
        self.d1 = Res(4, 8, 16)
        self.down = nn.PixelUnshuffle(2)
        self.p = nn.Conv2d(32, 8, 1)
        self.m = Res(8, 8, 16)
        self.at = nn.MultiheadAttention(8, 2, batch_first=True)
        self.up = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False)
        self.u1 = Res(16, 4, 16)
        self.o = nn.Conv2d(4, 1, 1)

    def forward(self, x, t):
        t = self.te(t)
        h = self.d1(self.i(x), t)
        m = self.m(self.p(self.down(h)), t)
        b, c, H, W = m.shape
        s = m.flatten(2).transpose(1, 2)
        s = s + self.at(s, s, s, need_weights=False)[0]
        m = s.transpose(1, 2).view(b, c, H, W)
        return self.o(self.u1(torch.cat([self.up(m), h], 1), t))


class SAGE(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.left = nn.Linear(i, o)
        self.right = nn.Linear(i, o, bias=False)
        self.att = nn.Parameter(torch.zeros(1, 2 * o))

    def forward(self, x, ei):
        s, d = ei
        n = x.size(0)
        deg = torch.zeros(n).scatter_add_(0, d, torch.ones(d.numel())).clamp_(min=1)
        agg = torch.zeros_like(x).index_add_(0, d, x[s]) / deg[:, None]
        mx = torch.full_like(x, -1e9).scatter_reduce_(
            0, d[:, None].expand(-1, x.size(1)), x[s], "amax", include_self=True
        )
        mx = torch.where(mx < -1e8, torch.zeros_like(mx), mx)
        h = self.left(agg + 0.1 * mx) + self.right(x)
        e = F.leaky_relu((torch.cat([h[s], h[d]], -1) * self.att).sum(-1), 0.2)
        m = torch.zeros(n).index_reduce_(0, d, e.detach(), "amax", include_self=False)
        a = (e - m[d]).exp()
        z = torch.zeros(n).index_add(0, d, a)
        return h + torch.zeros_like(h).index_add(0, d, h[s] * (a / (z[d] + 1e-9))[:, None])


def main(fill):
    out = []
    net = UNet()
    fill(net)
    opt = torch.optim.Adam(net.parameters(), 2e-3, eps=1e-7)
    T = 10
    betas = torch.linspace(1e-3, 0.2, T)
    ab = torch.cumprod(1 - betas, 0)
    x0 = torch.sin(torch.arange(128.0) * 1.3).view(2, 1, 8, 8)
    for i in range(3):
        t = torch.tensor([i * 3, 9 - i])
        eps = torch.cos(torch.arange(128.0) * (i + 0.7)).view_as(x0)
        a = ab.gather(0, t).view(-1, 1, 1, 1)
        xt = a.sqrt() * x0 + (1 - a).sqrt() * eps
        snr = (ab / (1 - ab))[t]
        w = torch.minimum(snr, torch.full_like(snr, 5.0)) / snr
        loss = (F.mse_loss(net(xt, t), eps, reduction="none").mean(dim=list(range(1, 4))) * w).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        out.append(loss.item())
    with torch.inference_mode():
        x = eps
        for t in reversed(range(T)):
            e = net(x, torch.full((2,), t, dtype=torch.long))
            xh = ((x - (1 - ab[t]).sqrt() * e) / ab[t].sqrt()).clamp(-1, 1)
            p = ab[t - 1] if t > 0 else torch.ones(())
            x = p.sqrt() * xh + (1 - p).sqrt() * e
        out += [x.std().item(), x.amax().item(), *x.flatten()[:4].tolist()]
    g = SAGE(3, 3)
    fill(g)
    ei = torch.tensor([[0, 1, 2, 3, 4, 0, 2], [1, 2, 3, 0, 0, 2, 1]])
    X = torch.linspace(-1, 1, 15).view(5, 3).requires_grad_()
    o = torch.optim.Adagrad(g.parameters(), 0.1, lr_decay=0.01, initial_accumulator_value=0.1)
    for _ in range(3):
        loss = F.cross_entropy(g(X, ei), torch.tensor([0, 1, 2, 0, 1]))
        o.zero_grad()
        loss.backward()
        o.step()
        out.append(loss.item())
    out += X.grad.flatten().tolist()
    A = torch.zeros(5, 5)
    A[ei[1], ei[0]] = 1.0
    D = A.sum(1).add(1).rsqrt().diag()
    L = D @ (A + torch.eye(5)) @ D
    out += [L.sum().item(), *torch.linalg.eigvalsh(L + L.T).tolist()]
    enc = nn.Sequential(
        nn.Conv2d(1, 4, 3, 2, 1), nn.InstanceNorm2d(4, affine=True), nn.ELU(), nn.Flatten(), nn.Linear(64, 6)
    )
    dec = nn.Sequential(nn.Linear(3, 64), nn.Unflatten(1, (4, 4, 4)), nn.ConvTranspose2d(4, 1, 4, 2, 1), nn.Sigmoid())
    fill(enc)
    fill(dec)
    mu, lv = enc(x0).chunk(2, 1)
    z = mu + torch.exp(0.5 * lv) * 0.3
    kl = -0.5 * (1 + lv - mu.pow(2) - lv.exp()).sum(1).mean()
    r = F.binary_cross_entropy(dec(z), (x0 + 1) / 2, reduction="sum") / 2
    (r + kl).backward()
    out += [r.item(), kl.item(), enc[0].weight.grad.norm().item(), dec[2].weight.grad.norm().item()]
    q = torch.tensor([0.2, 0.3, 0.5])
    p = torch.tensor([[0.1, 0.6, 0.3]])
    out += [
        F.kl_div(q.log(), p, reduction="batchmean").item(),
        F.kl_div(q.log()[None], p.log(), log_target=True, reduction="sum").item(),
        F.gaussian_nll_loss(q, p[0], q).item(),
        F.huber_loss(q, p[0], delta=0.05).item(),
        F.cosine_embedding_loss(p, q[None], torch.tensor([-1])).item(),
        F.triplet_margin_with_distance_loss(p, q[None], p + 0.1).item(),
        F.multilabel_soft_margin_loss(p, (p > 0.2).float()).item(),
        F.margin_ranking_loss(q, p[0], torch.ones(3)).item(),
    ]
    codes = torch.randn(4, 3, generator=torch.Generator().manual_seed(0)) * 0 + torch.arange(12.0).view(4, 3) / 6 - 1
    ze = mu.detach().requires_grad_()
    dd = torch.cdist(ze, codes)
    idx = dd.argmin(-1)
    zq = codes[idx]
    zq = ze + (zq - ze).detach()
    ((zq**2).sum() + 0.25 * F.mse_loss(zq.detach(), ze)).backward()
    out += [*ze.grad.flatten().tolist(), *torch.bincount(idx, minlength=4).tolist()]
    n1 = F.normalize(torch.cat([mu, mu + 0.1]).detach(), dim=1)
    sim = n1 @ n1.T / 0.5
    sim.fill_diagonal_(float("-inf"))
    out.append(F.cross_entropy(sim, torch.tensor([2, 3, 0, 1])).item())
    return [float(v) for v in out]
