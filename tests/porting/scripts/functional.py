"""Checkpoints, averages of weights, changed state dicts, torch.func over modules, a meta-gradient."""

import copy
import io

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.func import (
    functional_call,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    stack_module_state,
    vjp,
    vmap,
)
from torch.optim.swa_utils import SWALR, AveragedModel, get_ema_multi_avg_fn, update_bn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential


class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.n = nn.LayerNorm(d)
        self.f = nn.Sequential(nn.Linear(d, 2 * d), nn.Tanh(), nn.Linear(2 * d, d))
        self.bn = nn.BatchNorm1d(d)

    def forward(self, x):
        return x + self.bn(self.f(self.n(x)))


def main(fill):
    out = []
    net = nn.Sequential(Block(4), Block(4), nn.Linear(4, 2))
    fill(net)
    x = torch.sin(torch.arange(24.0) ** 1.5).view(6, 4)
    y = torch.tensor([0, 1, 1, 0, 1, 0])
    l1 = F.cross_entropy(net(x), y)
    l1.backward()
    g1 = [p.grad.clone() for p in net.parameters()]
    net.zero_grad()
    net2 = copy.deepcopy(net)
    for b in net2.modules():
        if isinstance(b, nn.BatchNorm1d):
            b.reset_running_stats()
    h = checkpoint(net2[0], x, use_reentrant=False)
    h = checkpoint_sequential(net2[1:], 2, h, use_reentrant=False)
    l2 = F.cross_entropy(h, y)
    l2.backward()
    out += [
        l1.item(),
        l2.item(),
        max((a - p.grad).abs().max().item() for a, p in zip(g1, net2.parameters(), strict=False)) < 1e-6,
        net2[0].bn.num_batches_tracked.item(),
    ]
    # EMA and SWA
    ema = AveragedModel(net, multi_avg_fn=get_ema_multi_avg_fn(0.9), use_buffers=True)
    swa = AveragedModel(net)
    opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-3, dampening=0.1)
    ss = SWALR(opt, swa_lr=0.05, anneal_epochs=3, anneal_strategy="cos")
    for _i in range(5):
        opt.zero_grad()
        F.cross_entropy(net(x), y).backward()
        opt.step()
        ema.update_parameters(net)
        swa.update_parameters(net)
        ss.step()
        out.append(opt.param_groups[0]["lr"])
    update_bn([x, x * 0.5], swa)
    net.eval()
    ema.eval()
    swa.eval()
    out += [net(x).sum().item(), ema(x).sum().item(), swa(x).sum().item(), swa.n_averaged.item(), len(ema.state_dict())]
    # state dict surgery
    sd = {k.replace("0.f.", "enc.mlp."): v for k, v in net.state_dict().items()}
    sd["extra.weight"] = torch.zeros(1)
    r = net.load_state_dict({k: v for k, v in sd.items() if "bn" in k}, strict=False)
    out += [len(r.missing_keys), len(r.unexpected_keys)]
    try:
        net.load_state_dict(sd)
    except RuntimeError as e:
        out.append(float("Missing key" in str(e) or "missing" in str(e).lower()))
    buf = io.BytesIO()
    torch.save({"m": net.state_dict(), "o": opt.state_dict(), "e": 3, "l": [1, (2, None)]}, buf)
    buf.seek(0)
    ck = torch.load(buf, map_location="cpu", weights_only=True)
    net3 = copy.deepcopy(net)
    net3.load_state_dict(ck["m"], assign=True)
    out += [net3(x).sum().item(), ck["e"], len(ck["o"]["state"])]
    with torch.no_grad():
        for (_n, p), (_, q) in zip(net.named_parameters(), net3.named_parameters(), strict=False):
            q.lerp_(p, 0.5)
    # func
    params = {k: v.detach() for k, v in net.named_parameters()}
    buffers = dict(net.named_buffers())

    def loss_fn(p, b, s, t):
        return F.cross_entropy(functional_call(net, (p, b), (s[None],)), t[None])

    gs = vmap(grad(loss_fn), in_dims=(None, None, 0, 0))(params, buffers, x, y)
    out += [v.flatten(1).norm(dim=1).sum().item() for v in gs.values()]
    g, v = grad_and_value(loss_fn)(params, buffers, x[0], y[0])
    out.append(v.item())

    def f(a):
        return torch.stack([a.prod(), a.sin().sum(), a.norm()])

    a = torch.tensor([0.5, 1.5, -2.0])
    out += (
        jacrev(f)(a).flatten().tolist()
        + jacfwd(f)(a).flatten().tolist()
        + hessian(lambda t: f(t).sum())(a).flatten().tolist()
    )
    o, pull = vjp(f, a)
    out += pull(torch.ones(3))[0].tolist()
    o, t = jvp(f, (a,), (torch.ones(3),))
    out += t.tolist()
    models = [nn.Linear(4, 2) for _ in range(3)]
    [fill(m) for m in models]
    with torch.no_grad():
        [m.weight.mul_(i + 1) for i, m in enumerate(models)]
    ps, bs = stack_module_state(models)
    base = copy.deepcopy(models[0]).to("meta") if False else models[0]
    out += vmap(lambda p, b, z: functional_call(base, (p, b), (z,)), (0, 0, None))(ps, bs, x).sum((1, 2)).tolist()
    out += vmap(vmap(torch.dot, (None, 0)), (0, None))(x, x).flatten()[:9].tolist()
    # MAML inner step
    w = params
    for _ in range(2):
        g = grad(lambda p: F.cross_entropy(functional_call(net, (p, buffers), (x,)), y))(w)
        w = {k: w[k] - 0.1 * g[k] for k in w}
    out.append(F.cross_entropy(functional_call(net, (w, buffers), (x,)), y).item())
    # misc modules
    out += [
        sum(1 for _ in net.modules()),
        sum(1 for _ in net.named_children()),
        float(net.get_submodule("0.f.2").out_features),
        float(net.get_parameter("2.bias").numel()),
    ]
    net.requires_grad_(False)
    out.append(sum(p.requires_grad for p in net.parameters()))
    net.apply(lambda m: m.reset_parameters() if False else None)
    net.half() if False else net.double()
    out.append(float(next(net.parameters()).dtype == torch.float64))
    net.float()
    return [float(q) for q in out]
