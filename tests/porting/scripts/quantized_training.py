"""Quantisation-aware training with observers, learnt scales and binary weights; integer inference compared with it."""

import copy

import torch
import torch.nn as nn
import torch.nn.functional as F


class MinMaxObserver(nn.Module):
    def __init__(self, averaging=0.1, qmin=0, qmax=255):
        super().__init__()
        self.averaging, self.qmin, self.qmax = averaging, qmin, qmax
        self.register_buffer("low", torch.tensor([float("inf")]))
        self.register_buffer("high", torch.tensor([float("-inf")]))
        self.register_buffer("enabled", torch.tensor([1], dtype=torch.uint8), persistent=False)

    @torch.no_grad()
    def observe(self, x):
        low, high = torch.aminmax(x)
        if torch.isinf(self.low):
            self.low.copy_(low)
            self.high.copy_(high)
        else:
            self.low.lerp_(low, self.averaging)
            self.high.lerp_(high, self.averaging)

    def scale_and_zero(self):
        low, high = self.low.clamp(max=0), self.high.clamp(min=0)
        scale = ((high - low) / (self.qmax - self.qmin)).clamp_min(torch.finfo(torch.float32).eps)
        zero = (self.qmin - torch.round(low / scale)).clamp(self.qmin, self.qmax).to(torch.int32)
        return scale, zero

    def forward(self, x):
        if self.training and self.enabled.item():
            self.observe(x.detach())
        scale, zero = self.scale_and_zero()
        return torch.fake_quantize_per_tensor_affine(x, scale.squeeze(), zero.squeeze(), self.qmin, self.qmax)


class RoundSTE(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, g):
        return g.clone()


class LearntStep(nn.Module):
    """LSQ: the step is a parameter."""

    def __init__(self, bits=4):
        super().__init__()
        self.limit = 2 ** (bits - 1)
        self.step = nn.Parameter(torch.tensor([0.1]))

    def forward(self, w):
        factor = 1.0 / (w.numel() * (self.limit - 1)) ** 0.5
        step = (self.step - self.step * factor).detach() + self.step * factor
        return RoundSTE.apply((w / step).clamp(-self.limit, self.limit - 1)) * step


class QLinear(nn.Linear):
    def __init__(self, *args, per_channel=True, **kwargs):
        super().__init__(*args, **kwargs)
        self.per_channel = per_channel
        self.input = MinMaxObserver()
        self.lsq = None if per_channel else LearntStep()

    def quantized_weight(self):
        if self.lsq is not None:
            return self.lsq(self.weight)
        scale = (self.weight.detach().abs().amax(dim=1) / 127).clamp(min=1e-8)
        zero = torch.zeros(self.out_features, dtype=torch.int32)
        return torch.fake_quantize_per_channel_affine(self.weight, scale, zero, 0, -128, 127)

    def forward(self, x):
        return F.linear(self.input(x), self.quantized_weight(), self.bias)


class BinaryConv(nn.Conv2d):
    def forward(self, x):
        alpha = self.weight.abs().mean(dim=(1, 2, 3), keepdim=True)
        sign = torch.sign(self.weight).detach() * alpha
        weight = sign + (F.hardtanh(self.weight) - F.hardtanh(self.weight).detach())
        return self._conv_forward(x, weight, self.bias)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = BinaryConv(1, 4, 3, stride=2, padding=1)
        self.act = nn.Hardtanh(0, 6)
        self.fc1 = QLinear(64, 12)
        self.fc2 = QLinear(12, 3, per_channel=False)

    def forward(self, x):
        x = F.max_unpool2d(*F.max_pool2d(self.conv(x), 2, return_indices=True), 2)
        return self.fc2(F.relu6(self.fc1(self.act(x).flatten(1))))


def integer(layer, x):
    scale, zero = layer.input.scale_and_zero()
    q = torch.clamp(torch.round(x / scale) + zero, 0, 255).to(torch.uint8)
    w_scale = layer.weight.detach().abs().amax(dim=1, keepdim=True) / 127
    w = torch.round(layer.weight.detach() / w_scale).to(torch.int8)
    total = (q.to(torch.int32) - zero).matmul(w.to(torch.int32).t())
    assert total.dtype == torch.int32
    return total * scale * w_scale.squeeze(1) + layer.bias.detach()


def packed(weight):
    """4-bit values, two in a byte, as formats of weights have them."""
    step = weight.abs().amax(-1, keepdim=True) / 7
    q = torch.clamp(torch.round(weight / step) + 8, 0, 15).to(torch.uint8)
    both = q[:, ::2] | (q[:, 1::2] << 4)
    low, high = torch.bitwise_and(both, 0x0F), torch.bitwise_right_shift(both, 4)
    back = (torch.stack([low, high], dim=-1).flatten(1).to(torch.int16) - 8) * step
    half = weight.to(torch.bfloat16).view(torch.int16)
    return [both.sum().item(), (back - weight).abs().max().item(), half.bitwise_xor(0x55).float().mean().item(),
            weight.half().view(torch.uint8).float().mean().item(), both.float().var(unbiased=True).item()]  # fmt: skip


def main(fill):
    net = Net()
    fill(net)
    with torch.no_grad():
        net.fc2.lsq.step.fill_(0.08)
        for name, buffer in net.named_buffers():
            if name.endswith(("low", "high")):
                buffer.fill_(float("inf") if name.endswith("low") else float("-inf"))
    teacher = copy.deepcopy(net).requires_grad_(False)
    x = torch.sin(torch.arange(6 * 64.0) * 0.7).view(6, 1, 8, 8)
    y = torch.tensor([0, 1, 2, 2, 1, 0])
    steps = [p for n, p in net.named_parameters() if n.endswith("step")]
    rest = [p for n, p in net.named_parameters() if not n.endswith("step")]
    optimizer = torch.optim.ASGD([{"params": rest}, {"params": steps, "lr": 1e-3}], lr=0.02, t0=2, lambd=1e-3)
    scheduler = torch.optim.lr_scheduler.CyclicLR(optimizer, 0.01, 0.05, step_size_up=2, mode="exp_range", gamma=0.9,
                                                  cycle_momentum=False)  # fmt: skip
    found = []
    for _ in range(5):
        logits = net(x)
        with torch.no_grad():
            soft = F.softmax(teacher(x) / 2, -1)
        distil = F.kl_div(F.log_softmax(logits / 2, -1), soft, reduction="batchmean") * 4
        loss = F.cross_entropy(logits, y, label_smoothing=0.1) + 0.5 * distil
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        found += [loss.item(), distil.item(), steps[0].grad.item(), scheduler.get_last_lr()[0]]
    net.eval()
    hidden = net.act(F.max_unpool2d(*F.max_pool2d(net.conv(x), 2, return_indices=True), 2)).flatten(1)
    exact, own = net.fc1(hidden), integer(net.fc1, hidden.detach())
    assert torch.allclose(exact, own, atol=0.05)
    return [
        *found,
        own.sum().item(),
        net.fc1.input.low.item(),
        net.fc1.input.high.item(),
        *packed(net.fc1.weight.detach()),
    ]
