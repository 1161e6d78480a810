"""Other things that scripts use: a policy gradient, LBFGS with a closure, a custom Function, a siamese net over bags of
words, super-resolution, transfer from a frozen net, a meta-gradient.
"""

from collections import OrderedDict, namedtuple

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.autograd import Function
from torch.distributions import Categorical, Normal, kl_divergence
from torch.nn.utils import parameters_to_vector, weight_norm

SavedAction = namedtuple("SavedAction", ["log_prob", "value"])


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(4, 8)
        self.action_head = nn.Linear(8, 3)
        self.value_head = nn.Linear(8, 1)
        self.saved_actions, self.rewards = [], []

    def forward(self, x, h):
        h = self.cell(x, h)
        return F.softmax(self.action_head(h), dim=-1), self.value_head(h), h


def reinforce(fill):
    model = Policy()
    fill(model)
    optimizer = optim.Adam(model.parameters(), lr=3e-2)
    found = []
    for episode in range(3):
        h = torch.zeros(1, 8)
        for t in range(5):
            probs, value, h = model(torch.sin(torch.arange(4.0) * (t + 1) + episode)[None], h)
            m = Categorical(probs)
            action = probs.argmax(dim=-1)
            model.saved_actions.append(SavedAction(m.log_prob(action), value))
            model.rewards.append(1.0 if action.item() == t % 3 else -0.5)
        returns, R = [], 0.0
        for r in model.rewards[::-1]:
            R = r + 0.9 * R
            returns.insert(0, R)
        returns = torch.tensor(returns)
        returns = (returns - returns.mean()) / (returns.std() + torch.finfo(torch.float32).eps)
        policy_losses, value_losses = [], []
        for (log_prob, value), R in zip(model.saved_actions, returns, strict=True):
            policy_losses.append(-log_prob * (R - value.item()))
            value_losses.append(F.smooth_l1_loss(value, torch.tensor([[R]])))
        optimizer.zero_grad()
        loss = torch.stack(policy_losses).sum() + torch.stack(value_losses).sum() - 0.01 * m.entropy().mean()
        loss.backward()
        optimizer.step()
        del model.rewards[:], model.saved_actions[:]
        found.append(loss.item())
    return found


class Swish(Function):
    @staticmethod
    def forward(ctx, x, beta):
        ctx.save_for_backward(x)
        ctx.beta = beta
        return x * torch.sigmoid(beta * x)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        s = torch.sigmoid(ctx.beta * x)
        return grad_output * (s + ctx.beta * x * s * (1 - s)), None


def sine_wave(fill):
    class Sequence(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm1, self.lstm2 = nn.LSTMCell(1, 6), nn.LSTMCell(6, 6)
            self.linear = nn.Linear(6, 1)

        def forward(self, input, future=0):
            outputs = []
            h_t, c_t = torch.zeros(input.size(0), 6, dtype=torch.double), input.new_zeros(input.size(0), 6)
            h_t2, c_t2 = torch.zeros_like(h_t), torch.zeros_like(c_t)
            for input_t in input.split(1, dim=1):
                h_t, c_t = self.lstm1(input_t, (h_t, c_t))
                h_t2, c_t2 = self.lstm2(h_t, (h_t2, c_t2))
                outputs += [self.linear(Swish.apply(h_t2, 1.5))]
            for _ in range(future):
                h_t, c_t = self.lstm1(outputs[-1], (h_t, c_t))
                h_t2, c_t2 = self.lstm2(h_t, (h_t2, c_t2))
                outputs += [self.linear(Swish.apply(h_t2, 1.5))]
            return torch.cat(outputs, dim=1)

    seq = Sequence().double()
    fill(seq)
    data = torch.sin(torch.arange(12, dtype=torch.float64)[None] / 2 + torch.arange(3, dtype=torch.float64)[:, None])
    optimizer = optim.LBFGS(seq.parameters(), lr=0.5, max_iter=4)
    criterion = nn.MSELoss()
    found = []

    def closure():
        optimizer.zero_grad()
        loss = criterion(seq(data[:, :-1]), data[:, 1:])
        found.append(loss.item())
        loss.backward()
        return loss

    for _ in range(2):
        optimizer.step(closure)
    with torch.no_grad():
        found += seq(data[:1, :-1], future=3)[0, -3:].tolist()
    return found


def siamese(fill):
    bag = nn.EmbeddingBag(11, 6, mode="mean")
    net = nn.Sequential(OrderedDict(bag=bag, fc=weight_norm(nn.Linear(6, 5)), act=nn.PReLU(), out=nn.Linear(5, 4)))
    fill(net)
    optimizer = optim.Adagrad(net.parameters(), lr=0.1)
    words = [torch.tensor([[1, 2, 3], [4, 5, 6]]), torch.tensor([[1, 2, 4], [7, 8, 9]])]
    found, grads = [], []
    handle = net.out.register_full_backward_hook(lambda module, gin, gout: grads.append(gout[0].norm().item()))
    for _ in range(3):
        a, b, c = net(words[0]), net(words[1]), net(words[0].flip(0))
        similarity = F.cosine_similarity(a, b)
        loss = F.cosine_embedding_loss(a, b, torch.tensor([1, -1])) + nn.TripletMarginLoss(margin=0.5)(a, b, c)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found += [loss.item(), similarity[0].item()]
    handle.remove()
    return found + sorted(grads) + [parameters_to_vector(net.parameters()).norm().item()]


def super_resolution(fill):
    trunk = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.Hardswish(), nn.Conv2d(4, 4, 3, padding=1, groups=2))
    head = nn.Sequential(nn.Conv2d(4, 9, 1), nn.PixelShuffle(3))
    fill(trunk)
    fill(head)
    for p in trunk.parameters():
        p.requires_grad = False
    optimizer = optim.SGD(filter(lambda p: p.requires_grad, [*trunk.parameters(), *head.parameters()]), lr=0.1)
    small = torch.cos(torch.arange(36.0)).view(1, 1, 6, 6)
    large = F.interpolate(small, scale_factor=3, mode="bilinear", align_corners=False)
    found = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = F.huber_loss(head(trunk(small)), large, delta=0.5) + 1e-3 * sum(p.abs().sum() for p in head.parameters())
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    psnr = 10 * torch.log10(1 / F.mse_loss(head(trunk(small)), large))
    return [*found, psnr.item(), sum(p.numel() for p in trunk.parameters() if p.grad is not None)]


def meta_gradient(fill):
    net = nn.Linear(2, 1)
    fill(net)
    x, y = torch.linspace(-1, 1, 8).view(4, 2), torch.linspace(0, 1, 4).view(4, 1)
    weights = dict(net.named_parameters())
    found = []
    for _ in range(2):
        loss = F.mse_loss(torch.func.functional_call(net, weights, (x,)), y)
        grads = torch.autograd.grad(loss, weights.values(), create_graph=True)
        weights = {name: w - 0.3 * g for (name, w), g in zip(weights.items(), grads, strict=True)}
        found.append(loss.item())
    outer = F.mse_loss(torch.func.functional_call(net, weights, (x.flip(0),)), y)
    outer.backward()
    prior = kl_divergence(Normal(net.weight.detach(), 0.5), Normal(torch.zeros(1, 2), torch.ones(1, 2))).sum()
    return [*found, outer.item(), prior.item(), *net.weight.grad.flatten().tolist(), net.bias.grad.item()]


def main(fill):
    torch.manual_seed(0)
    return [
        *reinforce(fill), *sine_wave(fill), *siamese(fill), *super_resolution(fill), *meta_gradient(fill)
    ]  # fmt: skip
