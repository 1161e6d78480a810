"""A transformer for pictures: patches, class tokens, masks as in masked autoencoders, layer scale and stochastic depth,
mix-up, rates that fall by layer, distillation with centres, positions that are resized, and attention maps."""

import math
from functools import partial

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.init import trunc_normal_
from torch.nn.modules.utils import _pair


def drop_path(x, p=0.0, training=False):
    if p == 0.0 or not training:
        return x
    keep = 1 - p
    mask = x.new_empty((x.shape[0],) + (1,) * (x.ndim - 1)).bernoulli_(keep)
    return x * mask.div_(keep)


class DropPath(nn.Module):
    def __init__(self, p):
        super().__init__()
        self.p = p

    def forward(self, x):
        return drop_path(x, self.p, self.training)


class PatchEmbed(nn.Module):
    def __init__(self, size=16, patch=4, channels=3, width=16):
        super().__init__()
        self.size, self.patch = _pair(size), _pair(patch)
        self.grid = tuple(s // p for s, p in zip(self.size, self.patch, strict=False))
        self.proj = nn.Conv2d(channels, width, kernel_size=self.patch, stride=self.patch)

    def forward(self, x):
        return self.proj(x).flatten(2).transpose(1, 2)


class Attention(nn.Module):
    def __init__(self, width, heads, window=4):
        super().__init__()
        self.heads, self.scale = heads, (width // heads) ** -0.5
        self.qkv, self.proj = nn.Linear(width, width * 3), nn.Linear(width, width)
        self.q_norm, self.k_norm = (nn.LayerNorm(width // heads) for _ in range(2))
        self.relative = nn.Parameter(torch.zeros((2 * window - 1) ** 2, heads))
        coords = torch.stack(torch.meshgrid([torch.arange(window)] * 2, indexing="ij")).flatten(1)
        shift = (coords[:, :, None] - coords[:, None, :]).permute(1, 2, 0).contiguous() + window - 1
        self.register_buffer("index", shift[:, :, 0] * (2 * window - 1) + shift[:, :, 1])
        self.fused = True

    def forward(self, x, kept=None):
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        q, k = self.q_norm(q), self.k_norm(k)
        bias = self.relative[self.index.view(-1)].view(*self.index.shape, -1).movedim(-1, 0)
        bias = F.pad(bias, (1, 0, 1, 0)).expand(B, -1, -1, -1)
        if kept is not None:
            rows = torch.cat([kept.new_zeros(B, 1), kept + 1], 1)
            bias = bias.gather(2, rows[:, None, :, None].expand(-1, self.heads, -1, bias.size(-1)))
            bias = torch.take_along_dim(bias, rows[:, None, None, :].expand(-1, self.heads, bias.size(2), -1), dim=3)
        if self.fused:
            with sdpa_kernel([SDPBackend.MATH]):
                y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias, scale=self.scale)
        else:
            self.map = (
                torch.baddbmm(bias.flatten(0, 1), q.flatten(0, 1), k.flatten(0, 1).mT, alpha=self.scale)
            ).softmax(-1)
            y = torch.bmm(self.map, v.flatten(0, 1)).view(B, self.heads, N, -1)
        return self.proj(y.transpose(1, 2).flatten(2))


class LayerScale(nn.Module):
    def __init__(self, width, start=0.1, inplace=False):
        super().__init__()
        self.inplace, self.gamma = inplace, nn.Parameter(start * torch.ones(width))

    def forward(self, x):
        return x.mul_(self.gamma) if self.inplace else x * self.gamma


class Block(nn.Module):
    def __init__(self, width, heads, drop, act=nn.GELU):
        super().__init__()
        self.norm1, self.attn, self.ls1 = nn.LayerNorm(width), Attention(width, heads), LayerScale(width)
        self.norm2, self.ls2, self.drop = nn.LayerNorm(width), LayerScale(width, inplace=True), DropPath(drop)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), act(), nn.Linear(2 * width, width))

    def forward(self, x, kept=None):
        x = x + self.drop(self.ls1(self.attn(self.norm1(x), kept)))
        return x + self.drop(self.ls2(self.mlp(self.norm2(x))))


class ViT(nn.Module):
    def __init__(self, width=16, depth=2, heads=4, classes=4):
        super().__init__()
        self.patch_embed = PatchEmbed(width=width)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, width))
        self.pos_embed = nn.Parameter(torch.zeros(1, 17, width))
        rates = [x.item() for x in torch.linspace(0, 0.0, depth)]
        self.blocks = nn.Sequential(*[Block(width, heads, r, act=partial(nn.GELU, approximate="tanh")) for r in rates])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)
        self.decoder, self.mask_token = nn.Linear(width, 48), nn.Parameter(torch.zeros(1, 1, width))
        self.decode = nn.TransformerEncoderLayer(
            width, 2, 24, dropout=0.0, activation=F.gelu, batch_first=True, norm_first=True
        )
        trunc_normal_(self.pos_embed, std=0.02)
        self.apply(self._init)

    def _init(self, m):
        if isinstance(m, nn.Linear):
            trunc_normal_(m.weight, std=0.02)
            if m.bias is not None:
                nn.init.zeros_(m.bias)

    @torch.jit.ignore
    def no_weight_decay(self):
        return {"pos_embed", "cls_token", "mask_token"}

    def features(self, x):
        x = self.patch_embed(x)
        x = torch.cat((self.cls_token.expand(x.shape[0], -1, -1), x), dim=1) + self.pos_embed
        return self.norm(self.blocks(x))

    def forward(self, x):
        return self.head(self.features(x)[:, 0])

    def masked(self, x, noise, ratio=0.5):
        target = x.unfold(2, 4, 4).unfold(3, 4, 4).permute(0, 2, 3, 4, 5, 1).flatten(3).flatten(1, 2)
        mean, var = target.mean(-1, keepdim=True), target.var(-1, keepdim=True)
        target = (target - mean) / (var + 1e-6) ** 0.5
        h = self.patch_embed(x) + self.pos_embed[:, 1:]
        B, N, C = h.shape
        order = torch.argsort(noise, dim=1)
        restore, kept = torch.argsort(order, dim=1), order[:, : int(N * (1 - ratio))]
        h = torch.gather(h, 1, kept.unsqueeze(-1).repeat(1, 1, C))
        h = torch.cat([(self.cls_token + self.pos_embed[:, :1]).expand(B, -1, -1), h], 1)
        for block in self.blocks:
            h = block(h, kept)
        filler = self.mask_token.repeat(B, N + 1 - h.shape[1], 1)
        full = torch.cat([h[:, 1:], filler], 1).gather(1, restore[..., None].expand(-1, -1, C))
        pred = self.decoder(self.decode(full + self.pos_embed[:, 1:], src_key_padding_mask=noise > 0.97))
        hidden = torch.ones(B, N).scatter_(1, kept, 0.0)
        return (((pred - target) ** 2).mean(-1) * hidden).sum() / hidden.sum()


def by_layer(model, rate, decay, weight_decay):
    groups, count = {}, len(model.blocks) + 1
    for name, p in model.named_parameters():
        if not p.requires_grad:
            continue
        flat = p.ndim == 1 or name in model.no_weight_decay()
        at = 0 if name.startswith(("patch", "pos", "cls")) else count
        if name.startswith("blocks"):
            at = int(name.split(".")[1]) + 1
        group = groups.setdefault((at, flat), {"params": [], "lr": rate * decay ** (count - at),
                                               "weight_decay": 0.0 if flat else weight_decay})  # fmt: skip
        group["params"].append(p)
    return list(groups.values())


def mixed_up(x, y, share, classes=4):
    target = F.one_hot(y, classes).to(x.dtype).mul(0.9).add(0.1 / classes)
    box = x.clone()
    box[..., 4:10, 6:12] = x.flip(0)[..., 4:10, 6:12]
    part = 36 / 256
    soft = target * (1 - part) + target.flip(0) * part
    return x.mul(share).add(x.flip(0), alpha=1 - share), target * share + target.flip(0) * (1 - share), box, soft


def resized(pos, new):
    cls, grid = pos[:, :1], pos[:, 1:]
    old = int(math.sqrt(grid.shape[1]))
    grid = grid.reshape(1, old, old, -1).permute(0, 3, 1, 2)
    grid = F.interpolate(grid, size=new, mode="bicubic", align_corners=False)
    return torch.cat([cls, grid.permute(0, 2, 3, 1).flatten(1, 2)], dim=1)


def main(fill):
    torch.manual_seed(0)
    student, teacher = ViT(), ViT()
    fill(student)
    teacher.load_state_dict(student.state_dict())
    teacher.requires_grad_(False).eval()
    pictures = torch.sin(torch.arange(4 * 3 * 256.0) * 0.9).view(4, 3, 16, 16)
    noise = torch.cos(torch.arange(64.0) * 2.3).view(4, 16)
    y, centre = torch.tensor([0, 3, 1, 2]), torch.zeros(1, 4)
    optimizer = torch.optim.AdamW(by_layer(student, 5e-3, 0.7, 0.05), betas=(0.9, 0.95))
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=4)
    found = []
    for step in range(4):
        a, soft_a, b, soft_b = mixed_up(pictures.roll(step, 2), y, 0.7)
        out = student(torch.cat([a, b]))
        loss = F.cross_entropy(out, torch.cat([soft_a, soft_b]))
        with torch.no_grad():
            guide = teacher(pictures)
            centre.lerp_(guide.mean(0, keepdim=True), 0.1)
        student_log = F.log_softmax(student(pictures) / 0.5, -1)
        distil = torch.sum(-F.softmax((guide - centre) / 0.2, dim=-1) * student_log, dim=-1).mean()
        rebuilt = student.masked(pictures, noise.roll(step, 1))
        optimizer.zero_grad()
        (loss + 0.5 * distil + 0.3 * rebuilt).backward()
        norm = nn.utils.clip_grad_norm_(student.parameters(), 3.0)
        optimizer.step()
        scheduler.step()
        with torch.no_grad():
            for p, q in zip(student.parameters(), teacher.parameters(), strict=False):
                q.data.mul_(0.9).add_((1 - 0.9) * p.detach().data)
        found += [loss.item(), distil.item(), rebuilt.item(), norm.item(), optimizer.param_groups[0]["lr"]]
    student.eval()
    fused = student(pictures)
    for block in student.blocks:
        block.attn.fused = False
    plain = student(pictures)
    assert torch.allclose(fused, plain, atol=1e-5)
    rollout = torch.eye(17)
    for block in student.blocks:
        own = block.attn.map.view(4, 4, 17, 17).mean(1)[0] + torch.eye(17)
        rollout = (own / own.sum(-1, keepdim=True)) @ rollout
    saliency = torch.autograd.functional.vjp(lambda p: student(p)[:, 1].sum(), pictures[:1])[1].abs().amax(1)
    return [*found, *fused[0].tolist(), rollout[0, 1:].max().item(), resized(student.pos_embed.data, (6,
            5)).std().item(),
            saliency.mean().item(), len(optimizer.param_groups)]  # fmt: skip
