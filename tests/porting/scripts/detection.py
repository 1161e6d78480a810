"""A detector of boxes: anchors, matching, non-maximum suppression, region pooling, losses, transforms of pictures, mean
average precision, and soft masks."""

import math
import random

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def box_iou(a, b):
    area_a, area_b = ((x[:, 2] - x[:, 0]) * (x[:, 3] - x[:, 1]) for x in (a, b))
    lt, rb = torch.max(a[:, None, :2], b[:, :2]), torch.min(a[:, None, 2:], b[:, 2:])
    inter = (rb - lt).clamp(min=0).prod(2)
    return inter / (area_a[:, None] + area_b - inter)


def nms(boxes, scores, limit):
    order, keep = scores.argsort(descending=True), []
    while order.numel():
        first = order[0]
        keep.append(first)
        overlap = box_iou(boxes[first].unsqueeze(0), boxes[order[1:]])[0]
        order = order[1:][overlap <= limit]
    return torch.stack(keep)


def giou_loss(a, b):
    iou = box_iou(a, b).diagonal()
    hull_lt, hull_rb = torch.minimum(a[:, :2], b[:, :2]), torch.maximum(a[:, 2:], b[:, 2:])
    hull = (hull_rb - hull_lt).prod(1)
    union = (a[:, 2:] - a[:, :2]).prod(1) + (b[:, 2:] - b[:, :2]).prod(1)
    union = union / (1 + iou)
    return (1 - iou + (hull - union) / hull).sum()


def focal(logits, target, alpha=0.25, gamma=2):
    p = torch.sigmoid(logits)
    ce = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
    p_t = p * target + (1 - p) * (1 - target)
    return ((alpha * target + (1 - alpha) * (1 - target)) * ce * (1 - p_t) ** gamma).sum()


class FPN(nn.Module):
    def __init__(self):
        super().__init__()
        self.c2 = nn.Sequential(nn.Conv2d(3, 6, 3, 2, 1), nn.BatchNorm2d(6), nn.ReLU6())
        self.c3 = nn.Sequential(nn.Conv2d(6, 8, (3, 5), (2, 2), (1, 2), groups=2), nn.GLU(1), nn.LocalResponseNorm(2))
        self.lateral = nn.ModuleList([nn.Conv2d(6, 8, 1), nn.Conv2d(4, 8, 1)])
        self.up = nn.ConvTranspose2d(8, 8, 4, stride=2, padding=1, groups=8, bias=False)
        self.shuffle = nn.Sequential(nn.ChannelShuffle(4), nn.Dropout2d(0.0), nn.Threshold(-0.5, -0.5))

    def forward(self, x):
        c2 = self.c2(x)
        c3 = self.c3(c2)
        p3 = self.lateral[1](c3)
        p2 = self.lateral[0](c2) + self.up(p3) + F.interpolate(p3, size=c2.shape[-2:], mode="nearest-exact")
        return [self.shuffle(p2), F.lp_pool2d(p3, 2.0, 1), F.max_pool2d(p3, 1, 2, ceil_mode=True)]


class Head(nn.Module):
    def __init__(self, anchors, classes):
        super().__init__()
        self.cls, self.reg = nn.Conv2d(8, anchors * classes, 3, padding=1), nn.Conv2d(8, anchors * 4, 3, padding=1)
        nn.init.constant_(self.cls.bias, -math.log((1 - 0.1) / 0.1))
        self.scales = nn.ParameterList([nn.Parameter(torch.ones(1)) for _ in range(3)])
        self.classes = classes

    def forward(self, features: list[Tensor]) -> tuple[Tensor, Tensor]:
        cls, reg = [], []
        for f, scale in zip(features, self.scales, strict=False):
            n, _, h, w = f.shape
            c = self.cls(f).view(n, -1, self.classes, h, w).permute(0, 3, 4, 1, 2)
            cls.append(c.reshape(n, -1, self.classes))
            reg.append((self.reg(f) * scale).view(n, -1, 4, h, w).permute(0, 3, 4, 1, 2).reshape(n, -1, 4))
        return torch.cat(cls, 1), torch.cat(reg, 1)


def anchors_of(features, size):
    found = []
    for f in features:
        h, w = f.shape[-2:]
        step = torch.tensor([size / h, size / w])
        ys, xs = torch.meshgrid((torch.arange(h) + 0.5) * step[0], (torch.arange(w) + 0.5) * step[1], indexing="ij")
        centre = torch.stack((xs, ys, xs, ys), dim=-1).view(-1, 1, 4)
        sizes = step.mean() * torch.tensor([1.5, 2.5])
        base = torch.stack((-sizes, -sizes, sizes, sizes), 1) / 2
        found.append((centre + base).view(-1, 4))
    return torch.vstack(found)


def encoded(boxes, anchors):
    size, own = anchors[:, 2:] - anchors[:, :2], boxes[:, 2:] - boxes[:, :2]
    shift = ((boxes[:, :2] + own / 2) - (anchors[:, :2] + size / 2)) / size
    return torch.hstack((shift, (own / size).log()))


def decoded(reg, anchors):
    size = anchors[:, 2:] - anchors[:, :2]
    centre = reg[:, :2] * size + anchors[:, :2] + size / 2
    half = reg[:, 2:].clamp(max=math.log(20)).exp() * size / 2
    return torch.cat((centre - half, centre + half), -1)


def transformed(picture, boxes, rng):
    """Flip, crop, colour and cut-out."""
    if rng.random() < 0.7:
        picture, boxes = (
            picture.flip(-1),
            torch.stack([16 - boxes[:, 2], boxes[:, 1], 16 - boxes[:, 0], boxes[:, 3]], 1),
        )
    top, left = rng.randrange(3), rng.randrange(3)
    picture = F.interpolate(
        picture[None, :, top : top + 14, left : left + 14], (16, 16), mode="bicubic", antialias=True
    )[0]
    shift = boxes.new_tensor([left, top, left, top])
    boxes = ((boxes - shift) * 16 / 14).clamp_(0, 16)
    mean, std = (torch.as_tensor(v).view(-1, 1, 1) for v in ((0.48, 0.45, 0.4), (0.22, 0.22, 0.23)))
    picture = picture.clamp(0, 1).pow(0.9).sub_(mean).div_(std)
    hue = torch.tensor([[0.299, 0.587, 0.114], [0.596, -0.274, -0.321], [0.211, -0.523, 0.311]])
    turned = torch.linalg.solve(hue, torch.diag(torch.tensor([1.0, 0.9, 1.1])) @ hue)
    picture = torch.tensordot(turned, picture, dims=([1], [0]))
    picture[:, 4:7, 9:12] = 0
    return picture, boxes


def precision_curve(scores, right, total):
    order = torch.argsort(scores, descending=True)
    true = right[order].cumsum(0)
    precision = true / torch.arange(1, len(true) + 1)
    recall = true / total
    precision = precision.flip(0).cummax(0).values.flip(0)
    steps = torch.cat([recall.new_zeros(1), recall]).diff()
    return (precision * steps).sum().item()


def region_pool(feature, boxes, size=2):
    out = []
    for x0, y0, x1, y1 in boxes.tolist():
        ys, xs = torch.linspace(y0, y1, size), torch.linspace(x0, x1, size)
        grid = torch.stack(torch.meshgrid(xs, ys, indexing="xy"), -1)[None] / 8 - 1
        out.append(F.grid_sample(feature, grid, mode="bilinear", padding_mode="border", align_corners=True))
    return torch.cat(out)


def main(fill):
    rng = random.Random(1)
    body, head = FPN(), Head(2, 3)
    fill(body)
    fill(head)
    params = [*body.parameters(), *head.parameters()]
    optimizer = torch.optim.SGD(params, lr=0.02, momentum=0.9, nesterov=True, weight_decay=1e-4, maximize=False)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, gamma=0.5)
    pictures = torch.sin(torch.arange(2 * 3 * 256.0)).view(2, 3, 16, 16).abs()
    truth = [torch.tensor([[1.0, 2.0, 7.0, 9.0], [8.0, 6.0, 15.0, 14.0]]), torch.tensor([[3.0, 3.0, 12.0, 11.0]])]
    kinds = [torch.tensor([0, 2]), torch.tensor([1])]
    found = []
    for _ in range(4):
        both = [transformed(p, b, rng) for p, b in zip(pictures, truth, strict=False)]
        features = body(torch.stack([p for p, _ in both]))
        cls, reg = head(features)
        anchors = anchors_of(features, 16)
        losses = {"cls": cls.new_zeros(()), "reg": 0, "giou": 0}
        for i, (_, boxes) in enumerate(both):
            overlap = box_iou(boxes, anchors)
            best, match = overlap.max(dim=0)
            match = torch.where(best < 0.3, -1, match)
            match[overlap.argmax(dim=1)] = torch.arange(len(boxes))
            positive = torch.nonzero(match >= 0, as_tuple=True)[0]
            target = torch.zeros_like(cls[i]).index_put_(
                (positive, kinds[i][match[positive]]), torch.ones(len(positive))
            )
            losses["cls"] = losses["cls"] + focal(cls[i], target) / max(1, len(positive))
            wanted = encoded(boxes[match[positive]], anchors[positive])
            losses["reg"] += F.smooth_l1_loss(reg[i, positive], wanted, beta=1 / 9)
            losses["giou"] += 0.1 * giou_loss(decoded(reg[i, positive], anchors[positive]), boxes[match[positive]])
        total = sum(losses.values())
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
        scheduler.step()
        found += [v.item() for v in losses.values()]
    body.eval()
    with torch.no_grad():
        features = body(pictures)
        cls, reg = head(features)
        anchors = anchors_of(features, 16)
        scores, labels = cls.sigmoid().max(-1)
        top, index = scores[0].topk(20)
        boxes = decoded(reg[0, index], anchors[index]).clamp(0, 16)
        keep = nms(boxes + labels[0, index, None] * 100, top, 0.5)
        right = (box_iou(boxes[keep], truth[0]).amax(1) > 0.2).float()
        pooled = region_pool(features[0][:1], truth[0] / 2)
        masks = F.unfold(features[0], 3, dilation=1, padding=1, stride=2)
        folded = F.fold(masks, (8, 8), 3, padding=1, stride=2)
        shuffled = F.pixel_unshuffle(F.pixel_shuffle(features[0], 2), 2)
        assert torch.equal(shuffled, features[0])
    dice = 1 - 2 * (folded.sigmoid() * folded.gt(0)).sum() / (folded.sigmoid().sum() + folded.gt(0).sum())
    return [*found, len(keep), *top[:3].tolist(), precision_curve(top[keep], right, 2), pooled.sum().item(),
            dice.item(),
            torch.count_nonzero(right).item(), boxes[keep].mean(0).sum().item()]  # fmt: skip
