"""Contrastive learning: SimCLR with augmentations and a momentum copy, a siamese net, triplets, hard negatives."""

import copy
import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import Optimizer


class LARS(Optimizer):
    """An optimiser of one's own."""

    def __init__(self, params, lr, momentum=0.9, weight_decay=0.0, trust=0.02):
        if lr < 0.0:
            raise ValueError(f"Invalid learning rate: {lr}")
        super().__init__(params, dict(lr=lr, momentum=momentum, weight_decay=weight_decay, trust=trust))

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                dp = p.grad
                if p.ndim > 1:
                    dp = dp.add(p, alpha=group["weight_decay"])
                    param_norm, update_norm = torch.linalg.vector_norm(p), torch.linalg.vector_norm(dp)
                    one = torch.ones_like(param_norm)
                    q = torch.where(
                        param_norm > 0.0,
                        torch.where(update_norm > 0, group["trust"] * param_norm / update_norm, one),
                        one,
                    )
                    dp = dp.mul(q)
                state = self.state[p]
                if "mu" not in state:
                    state["mu"] = torch.zeros_like(p, memory_format=torch.preserve_format)
                mu = state["mu"]
                mu.mul_(group["momentum"]).add_(dp)
                p.add_(mu, alpha=-group["lr"])
        return loss


def augmented(images: Tensor, rng) -> Tensor:
    angle = torch.as_tensor(rng.uniform(-0.4, 0.4, len(images)), dtype=images.dtype)
    scale = torch.as_tensor(rng.uniform(0.8, 1.2, len(images)), dtype=images.dtype)
    theta = torch.zeros(len(images), 2, 3)
    theta[:, 0, 0], theta[:, 1, 1] = scale * angle.cos(), scale * angle.cos()
    theta[:, 0, 1], theta[:, 1, 0] = -angle.sin(), angle.sin()
    grid = F.affine_grid(theta, list(images.size()), align_corners=False)
    images = F.grid_sample(images, grid, mode="bilinear", padding_mode="reflection", align_corners=False)
    flip = torch.from_numpy(rng.rand(len(images)) < 0.5)
    images = torch.where(flip[:, None, None, None], images.flip(-1), images)
    gray = (images * images.new_tensor([0.299, 0.587, 0.114]).view(3, 1, 1)).sum(1, keepdim=True)
    images = torch.lerp(gray.expand_as(images), images, 0.7).clamp_(-1, 1)
    blur = torch.tensor([0.25, 0.5, 0.25])
    kernel = (blur[:, None] * blur[None, :]).expand(3, 1, 3, 3)
    return F.conv2d(F.pad(images, (1, 1, 1, 1), mode="reflect"), kernel, groups=3)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 8, 3, stride=2, padding=1, padding_mode="circular", bias=False), nn.GroupNorm(2, 8), nn.CELU(),
            nn.Conv2d(8, 8, 3, padding="same", dilation=2), nn.InstanceNorm2d(8, affine=True), nn.Hardswish(),
            nn.AdaptiveAvgPool2d((2, 2)), nn.Flatten(start_dim=1),
        )  # fmt: skip
        self.projector = nn.Sequential(nn.Linear(32, 16, bias=False), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 8))

    def forward(self, x):
        return F.normalize(self.projector(self.body(x)), dim=-1)


def nt_xent(za, zb, temperature=0.5):
    z = torch.cat([za, zb])
    n = z.size(0)
    similarity = torch.mm(z, z.t()) / temperature
    similarity.fill_diagonal_(-math.inf)
    target = torch.arange(n).roll(n // 2)
    top = similarity.detach().argsort(dim=1, descending=True, stable=True)
    rank = (top == target.unsqueeze(1)).nonzero()[:, 1].float()
    return F.cross_entropy(similarity, target, label_smoothing=0.05), rank.mean()


def simclr(fill, rng):
    model = Encoder()
    fill(model)
    momentum = copy.deepcopy(model)
    for p in momentum.parameters():
        p.requires_grad = False
    optimizer = LARS(
        [{"params": model.body.parameters()}, {"params": model.projector.parameters(), "lr": 0.2}],
        lr=0.1,
        weight_decay=1e-4,
    )
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, [lambda e: 0.9**e, lambda e: 1 / (1 + e)])
    images = torch.from_numpy(rng.rand(6, 3, 12, 12).astype(np.float32)).sub(0.5).mul(2)
    found = []
    for _ in range(4):
        za, zb = model(augmented(images, rng)), model(augmented(images, rng))
        loss, rank = nt_xent(za, zb)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        with torch.no_grad():
            for p, q in zip(model.parameters(), momentum.parameters(), strict=False):
                q.data.mul_(0.9).add_(p.data, alpha=0.1)
            for a, b in zip(model.buffers(), momentum.buffers(), strict=False):
                b.copy_(a)
        found += [loss.item(), rank.item(), *scheduler.get_last_lr()]
    momentum.eval()
    with torch.inference_mode():
        spread = torch.pdist(momentum(images))
    return [*found, spread.mean().item(), spread.min().item()]


def pairs(fill, rng):
    net = nn.Sequential(nn.Linear(5, 12), nn.PReLU(12), nn.Linear(12, 4), nn.LayerNorm(4, elementwise_affine=False))
    fill(net)
    optimizer = torch.optim.NAdam(net.parameters(), lr=5e-3, decoupled_weight_decay=True, weight_decay=1e-2)
    x = torch.tensor(rng.randn(10, 5), dtype=torch.float)
    y = torch.tensor([0, 0, 1, 1, 2, 2, 0, 1, 2, 0])
    triplet = nn.TripletMarginWithDistanceLoss(
        distance_function=lambda a, b: 1.0 - F.cosine_similarity(a, b), margin=0.5, swap=True
    )
    same = y[:, None].eq(y[None, :])
    eye = torch.eye(10, dtype=torch.bool)
    found = []
    for _ in range(4):
        e = net(x)
        distance = torch.cdist(e, e, p=2.0, compute_mode="donot_use_mm_for_euclid_dist")
        hardest = distance.masked_fill(~same | eye, -1.0).max(dim=1)
        nearest = distance.masked_fill(same, float("inf")).min(dim=1)
        loss_hard = F.relu(hardest.values - nearest.values + 0.3).mean()
        a, b = torch.triu_indices(10, 10, offset=1).unbind(0)
        label = same[a, b].float() * 2 - 1
        loss_pairs = F.cosine_embedding_loss(e[a], e[b], label, margin=0.2)
        gap = F.pairwise_distance(e[a], e[b], p=2, eps=1e-6)
        loss_gap = torch.where(label > 0, gap**2, (1.5 - gap).clamp(min=0) ** 2).mean()
        loss_triplet = triplet(e, e[hardest.indices], e[nearest.indices])
        rank = F.margin_ranking_loss(nearest.values, hardest.values, torch.ones(10), margin=0.1, reduction="sum")
        info = F.hinge_embedding_loss(gap, label, margin=2.0)
        loss = loss_hard + loss_pairs + loss_gap + loss_triplet + 0.01 * rank + 0.1 * info
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found += [v.item() for v in (loss_hard, loss_pairs, loss_gap, loss_triplet, rank, info)]
    return found


def main(fill):
    rng = np.random.RandomState(0)
    return simclr(fill, rng) + pairs(fill, rng)
