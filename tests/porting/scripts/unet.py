"""A UNet with transposed convolutions and group norm that finds discs; dice loss, focal loss, exponential averages."""

import copy

import torch
import torch.nn as nn
import torch.nn.functional as F


class DoubleConv(nn.Sequential):
    def __init__(self, inner, outer):
        super().__init__(
            nn.Conv2d(inner, outer, 3, padding=1, padding_mode="reflect"), nn.GroupNorm(2, outer), nn.SiLU(),
            nn.Conv2d(outer, outer, 3, padding="same", dilation=2), nn.InstanceNorm2d(outer, affine=True),
            nn.LeakyReLU(0.1, inplace=True),
        )  # fmt: skip


class Up(nn.Module):
    def __init__(self, inner, outer, bilinear):
        super().__init__()
        if bilinear:
            self.up = nn.Sequential(
                nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True), nn.Conv2d(inner, outer, 1)
            )
        else:
            self.up = nn.ConvTranspose2d(inner, outer, kernel_size=2, stride=2)
        self.conv = DoubleConv(2 * outer, outer)

    def forward(self, x1, x2):
        x1 = self.up(x1)
        dy, dx = x2.size()[2] - x1.size()[2], x2.size()[3] - x1.size()[3]
        x1 = F.pad(x1, [dx // 2, dx - dx // 2, dy // 2, dy - dy // 2])
        return self.conv(torch.cat([x2, x1], dim=1))


class UNet(nn.Module):
    def __init__(self, channels=1, classes=1, width=4):
        super().__init__()
        self.inc = DoubleConv(channels, width)
        self.down1 = nn.Sequential(nn.MaxPool2d(2), DoubleConv(width, 2 * width))
        self.down2 = nn.Sequential(nn.AvgPool2d(2, ceil_mode=True), DoubleConv(2 * width, 4 * width))
        self.up1 = Up(4 * width, 2 * width, bilinear=False)
        self.up2 = Up(2 * width, width, bilinear=True)
        self.outc = nn.Conv2d(width, classes, kernel_size=1)
        self.register_buffer("scale", torch.tensor(2.0))

    def forward(self, x):
        x1 = self.inc(x)
        x2 = self.down1(x1)
        x3 = self.down2(x2)
        x = self.up1(x3, x2)
        return self.outc(self.up2(x, x1)) * self.scale


def dice_loss(logits, target, eps=1e-6):
    probabilities = logits.sigmoid()
    intersection = (probabilities * target).sum(dim=(1, 2, 3))
    union = probabilities.sum((1, 2, 3)) + target.sum((1, 2, 3))
    return 1 - ((2 * intersection + eps) / (union + eps)).mean()


def focal_loss(logits, target, gamma=2.0):
    bce = F.binary_cross_entropy_with_logits(logits, target, reduction="none", pos_weight=torch.tensor(2.0))
    p_t = torch.exp(-bce)
    return torch.mean((1 - p_t) ** gamma * bce)


def discs(count, size=18):
    y, x = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    images, masks = [], []
    for i in range(count):
        cx, cy, r = 4 + (5 * i) % 10, 5 + (7 * i) % 9, 3 + i % 3
        mask = ((x - cx) ** 2 + (y - cy) ** 2 <= r * r).float()
        images.append(mask * 0.8 + 0.2 * torch.sin((x * (i + 1) + y).float()))
        masks.append(mask)
    return torch.stack(images).unsqueeze(1), torch.stack(masks)[:, None]


@torch.no_grad()
def update_average(average, model, decay):
    for mine, its in zip(average.parameters(), model.parameters(), strict=True):
        mine.mul_(decay).add_(its, alpha=1 - decay)
    for mine, its in zip(average.buffers(), model.buffers(), strict=True):
        mine.copy_(its)


def main(fill):
    torch.manual_seed(0)
    images, masks = discs(6)
    model = UNet()
    fill(model)
    average = copy.deepcopy(model).requires_grad_(False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, amsgrad=True)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=2e-2, total_steps=6)
    losses = []
    for _step in range(6):
        flipped = torch.flip(images, dims=[-1])
        logits = model(torch.where(torch.arange(6).view(-1, 1, 1, 1) % 2 == 0, images, flipped))
        target = torch.where(torch.arange(6).view(-1, 1, 1, 1) % 2 == 0, masks, masks.flip(-1))
        loss = dice_loss(logits, target) + focal_loss(logits, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        update_average(average, model, 0.8)
        losses += [loss.item(), scheduler.get_last_lr()[0]]
    with torch.set_grad_enabled(False):
        predicted = average.eval()(images)
        small = F.interpolate(predicted, size=(9, 9), mode="bicubic", align_corners=False)
        losses += [dice_loss(predicted, masks).item(), small.std().item(), (predicted > 0).sum().item()]
    return losses
