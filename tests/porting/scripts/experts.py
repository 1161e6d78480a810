"""A transformer from scratch: rotary positions by complex numbers, grouped heads, a mixture of experts, generation."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import einsum


def rope(x, base=10000.0):
    b, h, t, d = x.shape
    inv = base ** (-torch.arange(0, d, 2).float() / d)
    ang = torch.outer(torch.arange(t).float(), inv)
    c = torch.polar(torch.ones_like(ang), ang)
    xc = torch.view_as_complex(x.float().reshape(b, h, t, d // 2, 2))
    return torch.view_as_real(xc * c).flatten(-2).type_as(x)


class RMS(nn.Module):
    def __init__(self, d, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d))
        self.eps = eps

    def forward(self, x):
        return (x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + self.eps)).type_as(x) * self.weight


class Attn(nn.Module):
    def __init__(self, d, h, kv):
        super().__init__()
        self.h, self.kv, self.hd = h, kv, d // h
        self.wqkv = nn.Linear(d, (h + 2 * kv) * self.hd, bias=False)
        self.o = nn.Linear(d, d, bias=False)
        self.register_buffer("mask", torch.full((32, 32), float("-inf")).triu_(1))

    def forward(self, x, cache=None):
        b, t, d = x.shape
        q, k, v = self.wqkv(x).split([self.h * self.hd, self.kv * self.hd, self.kv * self.hd], dim=-1)
        q, k, v = (z.unflatten(-1, (-1, self.hd)).transpose(1, 2) for z in (q, k, v))
        q, k = rope(q), rope(k)
        k = k.repeat_interleave(self.h // self.kv, 1)
        v = v[:, :, None].expand(-1, -1, self.h // self.kv, -1, -1).reshape(b, self.h, t, self.hd)
        s = einsum("bhqd,bhkd->bhqk", q, k) / math.sqrt(self.hd) + self.mask[:t, :t]
        p = F.softmax(s, -1, dtype=torch.float32).to(q.dtype)
        y1 = einsum("bhqk,bhkd->bqhd", p, v).flatten(2)
        y2 = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).contiguous().view(b, t, d)
        self.diff = (y1 - y2).abs().max().item()
        return self.o(y1 * 0.5 + y2 * 0.5)


class MoE(nn.Module):
    def __init__(self, d, n=4, k=2):
        super().__init__()
        self.k = k
        self.gate = nn.Linear(d, n, bias=False)
        self.w1 = nn.Parameter(torch.empty(n, d, 2 * d))
        self.w2 = nn.Parameter(torch.empty(n, 2 * d, d))

    def forward(self, x):
        s = x.shape
        x = x.view(-1, s[-1])
        p = self.gate(x).softmax(-1)
        w, i = p.topk(self.k, -1)
        w = w / w.sum(-1, keepdim=True)
        y = torch.zeros_like(x)
        for e in range(self.w1.shape[0]):
            rows, slot = torch.where(i == e)
            if rows.numel() == 0:
                continue
            y.index_add_(0, rows, F.silu(x[rows] @ self.w1[e]) @ self.w2[e] * w[rows, slot, None])
        self.aux = (p.mean(0) * F.one_hot(i, p.shape[-1]).float().sum(1).mean(0)).sum() * p.shape[-1]
        return y.view(s)


class GPT(nn.Module):
    def __init__(self, v=17, d=16, L=2):
        super().__init__()
        self.tok = nn.Embedding(v, d)
        self.blocks = nn.ModuleList(
            [nn.ModuleDict(dict(n1=RMS(d), a=Attn(d, 4, 2), n2=RMS(d), m=MoE(d))) for _ in range(L)]
        )
        self.norm = RMS(d)
        self.head = nn.Linear(d, v, bias=False)
        self.head.weight = self.tok.weight

    def forward(self, idx, targets=None):
        x = self.tok(idx)
        aux = 0.0
        for b in self.blocks:
            x = x + b["a"](b["n1"](x))
            x = x + b["m"](b["n2"](x))
            aux = aux + b["m"].aux
        logits = self.head(self.norm(x))
        if targets is None:
            return logits[:, [-1], :]
        return F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1) + 0.01 * aux

    @torch.no_grad()
    def generate(self, idx, n):
        for _ in range(n):
            logits = self(idx[:, -8:])[:, -1] / 0.7
            v, _ = torch.topk(logits, 3)
            logits[logits < v[:, [-1]]] = -float("Inf")
            sp, si = logits.softmax(-1).sort(descending=True)
            keep = sp.cumsum(-1) - sp < 0.9
            pr = torch.zeros_like(logits).scatter_(1, si, sp * keep)
            idx = torch.cat((idx, pr.argmax(-1, keepdim=True)), 1)
        return idx


def main(fill):
    m = GPT()
    fill(m)
    out = []
    ids = (torch.arange(40) * 7 % 17).view(4, 10)
    groups = [
        {"params": [p for p in m.parameters() if p.dim() >= 2]},
        {"params": [p for p in m.parameters() if p.dim() < 2], "weight_decay": 0.0},
    ]
    opt = torch.optim.AdamW(groups, lr=3e-3, fused=False, foreach=None)
    for _i in range(4):
        x, y = ids[:, :-1], ids[:, 1:].clone()
        y[0, -2:] = -1
        loss = m(x, y)
        loss.backward()
        out.append(loss.item())
        out.append(nn.utils.clip_grad_norm_(m.parameters(), 1.0).item())
        opt.step()
        opt.zero_grad()
        out.append(m.blocks[0]["a"].diff < 1e-5)
    out += m.eval().generate(ids[:2, :4], 6).flatten().tolist()
    a = torch.linspace(-1, 1, 24).view(2, 3, 4)
    b = torch.linspace(0, 2, 40).view(2, 4, 5)
    out += [
        einsum("bij,bjk->ik", a, b).sum().item(),
        einsum("bij,...jk->b...k", a, b).shape[1],
        einsum("bii->b", torch.ones(2, 3, 3)).sum().item(),
        einsum("i,j,k->ijk", a[0, 0], b[0, :, 0], a[0, 1]).norm().item(),
        torch.einsum(a, [0, 1, 2], b, [0, 2, 3], [1, 3]).sum().item(),
        torch.tensordot(a, b, dims=([0, 2], [0, 1])).sum().item(),
    ]
    out += [
        sum(p.numel() for p in m.parameters()),
        len(list(m.named_parameters(remove_duplicate=False))),
        len(m.state_dict()),
    ]
    return [float(q) for q in out]
