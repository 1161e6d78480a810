"""Surgery on modules: pruning, parametrizations, weight norm, hooks of every kind, state dicts that do not fit."""

import copy
import io
from collections import OrderedDict
from functools import partial

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.nn.utils.parametrize as parametrize
from torch.nn.utils import prune
from torch.nn.utils.parametrizations import orthogonal, weight_norm


class Symmetric(nn.Module):
    def forward(self, X):
        return X.triu() + X.triu(1).transpose(-1, -2)

    def right_inverse(self, A):
        return A.triu()


class Ranked(nn.Module):
    """Two factors for one weight."""

    def forward(self, left, right):
        return left @ right

    def right_inverse(self, W):
        U, S, Vh = torch.linalg.svd(W, full_matrices=False)
        return U[:, :2] * S[:2], Vh[:2]


class LoRA(nn.Module):
    def __init__(self, linear, rank=2, alpha=4):
        super().__init__()
        self.linear = linear
        for p in self.linear.parameters():
            p.requires_grad_(False)
        self.A = nn.Parameter(linear.weight.new_zeros(rank, linear.in_features))
        self.B = nn.Parameter(torch.empty(linear.out_features, rank))
        self.scaling = alpha / rank

    def forward(self, x):
        return self.linear(x) + F.linear(F.linear(x, self.A), self.B) * self.scaling

    def extra_repr(self):
        return f"rank={self.A.shape[0]}"


class Net(nn.Module):
    version = 2

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(OrderedDict([("conv", nn.Conv1d(2, 4, 3, padding=1)), ("act", nn.ELU(alpha=0.5))]))
        self.blocks = nn.ModuleDict({"a": nn.Linear(6, 6), "b": nn.Linear(6, 6)})
        self.gains = nn.ParameterDict({"x": nn.Parameter(torch.ones(4, 1)), "y": nn.Parameter(torch.zeros(1))})
        self.extra = nn.ParameterList([torch.ones(2), torch.zeros(1)])
        self.head = nn.Linear(24, 3)
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))
        self.register_buffer("scratch", torch.ones(3), persistent=False)
        self._register_load_state_dict_pre_hook(self._rename)

    @staticmethod
    def _rename(state_dict, prefix, *args):
        for old in [k for k in state_dict if k.startswith(prefix + "fc.")]:
            state_dict[old.replace("fc.", "head.")] = state_dict.pop(old)

    def forward(self, x, *, scale=1.0):
        self.steps += 1
        x = self.stem(x) * self.gains["x"] + self.gains["y"]
        for name in ("a", "b"):
            x = x + torch.tanh(self.blocks[name](x))
        return self.head(x.flatten(1)) * scale + self.extra[1]


def pruned(fill, x, y):
    net = Net()
    fill(net)
    prune.l1_unstructured(net.head, "weight", amount=0.3)
    prune.ln_structured(net.blocks["a"], name="weight", amount=2, n=2, dim=0)
    prune.random_unstructured(net.blocks["b"], "bias", amount=0)
    prune.custom_from_mask(net.stem.conv, "bias", torch.tensor([1, 0, 1, 1]))
    prune.global_unstructured(
        [(net.head, "weight"), (net.blocks["b"], "weight")], pruning_method=prune.L1Unstructured, amount=0.2
    )
    assert prune.is_pruned(net) and sorted(n for n, _ in net.head.named_buffers()) == ["weight_mask"]
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, dampening=0.1)
    found = []
    for _ in range(3):
        loss = F.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    prune.remove(net.head, "weight")
    zeros = sum((m.weight == 0).sum().item() for m in net.modules() if isinstance(m, nn.Linear))
    return [*found, zeros, net.head.weight.abs().sum().item(), len(net.state_dict())]


def parametrized(fill, x, y):
    net = Net()
    fill(net)
    parametrize.register_parametrization(net.blocks["a"], "weight", Symmetric())
    parametrize.register_parametrization(net.head, "weight", Ranked())
    weight_norm(net.stem.conv, name="weight", dim=0)
    orthogonal(net.blocks["b"], orthogonal_map="matrix_exp")
    assert parametrize.is_parametrized(net.head, "weight") and not parametrize.is_parametrized(net.stem)
    names = [n for n, _ in net.named_parameters()]
    assert "head.parametrizations.weight.original0" in names and "stem.conv.parametrizations.weight.original1" in names
    found = [net.head.weight.sum().item()]
    optimizer = torch.optim.Adadelta(net.parameters(), lr=1.0, rho=0.8)
    for _ in range(3):
        with parametrize.cached():
            loss = F.multi_margin_loss(net(x), y, p=2, margin=0.8)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    assert torch.equal(net.blocks["a"].weight, net.blocks["a"].weight.mT)
    eye = net.blocks["b"].weight @ net.blocks["b"].weight.T
    assert torch.allclose(eye, torch.eye(6), atol=1e-5)
    parametrize.remove_parametrizations(net.head, "weight", leave_parametrized=True)
    return [*found, torch.linalg.matrix_rank(net.head.weight).item(), net.stem.conv.weight.norm().item()]


def hooked(fill, x, y):
    net = Net()
    fill(net)
    seen, handles = [], []

    def note(name, module, args, output):
        seen.append((name, float(output.detach().mean())))

    for name, module in net.named_modules():
        if isinstance(module, (nn.Linear, nn.Conv1d)):
            handles.append(module.register_forward_hook(partial(note, name)))
    handles.append(net.register_forward_pre_hook(lambda m, args, kw: (args, {"scale": 2.0, **kw}), with_kwargs=True))
    handles.append(net.head.register_full_backward_hook(lambda m, gi, go: (gi[0].clamp(-0.01, 0.01),)))
    handles.append(net.head.register_full_backward_pre_hook(lambda m, go: (go[0] * 0.5,)))
    handles.append(net.stem.register_forward_hook(lambda m, i, o: o * 1.5, prepend=True))
    everywhere = nn.modules.module.register_module_forward_hook(lambda m, i, o: seen.append(("", 1.0)))
    assert len(net.head._forward_hooks) == 1 and len(net.head._backward_hooks) == 1
    F.cross_entropy(net(x), y).backward()
    everywhere.remove()
    for handle in handles:
        handle.remove()
    assert not net._forward_pre_hooks and not net.head._forward_hooks
    count = len(seen)
    net(x)
    assert len(seen) == count
    return [
        count,
        *(value for _, value in seen),
        *(p.grad.norm().item() for p in net.parameters() if p.grad is not None),
    ]


def moved(fill, x, y):
    net = Net()
    fill(net)
    state = copy.deepcopy(net.state_dict())
    assert "scratch" not in state and "steps" in state and state._metadata["head"]["version"] == 1
    state["fc.weight"], state["unknown"] = state.pop("head.weight"), torch.zeros(2)
    del state["extra.0"]
    file = io.BytesIO()
    torch.save({"state": state, "config": {"lr": 1e-3, "names": ["a", "b"]}}, file)
    file.seek(0)
    state = torch.load(file, map_location=lambda storage, location: storage, weights_only=True)["state"]
    again = Net()
    outcome = again.load_state_dict(state, strict=False)
    assert outcome.missing_keys == ["extra.0"] and outcome.unexpected_keys == ["unknown"]
    try:
        again.load_state_dict({**state, "head.bias": torch.zeros(4)}, strict=False)
        raise AssertionError
    except RuntimeError as error:
        assert "head.bias" in str(error)
    handle = again.register_state_dict_post_hook(
        lambda m, sd, prefix, meta: sd.update({prefix + "more": torch.ones(1)})
    )
    assert "more" in again.state_dict(prefix="p.") or "p.more" in again.state_dict(prefix="p.")
    handle.remove()
    again.head = LoRA(again.head)
    fill(again.head)
    assert "rank=2" in repr(again.head)
    trainable = {n: p for n, p in again.named_parameters() if "head.linear" not in n}
    optimizer = torch.optim.AdamW(
        [{"params": [p], "lr": 0.01 * (1 + ("head" in n)), "name": n} for n, p in trainable.items()], amsgrad=True
    )
    found = []
    for _ in range(3):
        loss = (
            F.soft_margin_loss(again(x), F.one_hot(y, 3) * 2.0 - 1)
            + 1e-3 * nn.utils.parameters_to_vector(trainable.values()).square().sum()
        )
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        found.append(loss.item())
    again.head.linear.weight.data.add_(again.head.B @ again.head.A, alpha=again.head.scaling)
    again.set_submodule("head", again.get_submodule("head.linear"))
    vector = nn.utils.parameters_to_vector(again.parameters())
    nn.utils.vector_to_parameters(vector * 0.5, again.parameters())
    half = again.half().float().double()
    found.append(half(x.double()).sum().item())
    fused = nn.utils.fuse_linear_bn_eval(nn.Linear(3, 3).eval(), nn.BatchNorm1d(3).eval())
    assert isinstance(fused, nn.Linear) and half.get_parameter("head.bias").dtype == torch.float64
    return [*found, int(half.get_buffer("steps")), len(list(half.children())), half.steps.item()]


def main(fill):
    torch.manual_seed(0)
    x = torch.sin(torch.arange(1.0, 61.0)).view(5, 2, 6)
    y = torch.tensor([0, 2, 1, 1, 0])
    return pruned(fill, x, y) + parametrized(fill, x, y) + hooked(fill, x, y) + moved(fill, x, y)
