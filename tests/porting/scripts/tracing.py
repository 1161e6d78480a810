"""Graphs of modules: features of a network, batch norms folded into convolutions, other activations, observed ranges,
patterns that are written anew, interpreters and transformers.
"""

import copy
import math
import operator

import torch
import torch.fx as fx
import torch.nn as nn
import torch.nn.functional as F
from torch.fx.passes.shape_prop import ShapeProp
from torch.nn.utils.fusion import fuse_conv_bn_eval


@fx.wrap
def gated(x, limit):
    return x if x.abs().max() < limit else x / 2


class Block(nn.Module):
    def __init__(self, width, out, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(width, out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(out)
        self.relu = nn.ReLU()
        self.down = nn.Sequential(nn.Conv2d(width, out, 1, stride), nn.BatchNorm2d(out)) if stride > 1 else None

    def forward(self, x):
        y = self.bn1(self.conv1(x))
        y += x if self.down is None else self.down(x)
        return self.relu(y)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(Block(2, 2, 1), Block(2, 4, 2))
        self.scale = nn.Parameter(torch.ones(4))
        self.register_buffer("shift", torch.zeros(4))
        self.head = nn.Linear(4, 3)

    def forward(self, x, flip: bool = False, *, power=2.0):
        if flip:
            x = x.flip(-1)
        x = self.layers(x)
        batch, channels, *_ = x.size(0), x.shape[1]
        x = F.adaptive_avg_pool2d(x, 1).view(batch, channels)
        x = gated(x * self.scale + self.shift, 10.0)
        x = torch.cat([x, -x], 1)[:, 1:5] * math.sqrt(power)
        return {"logits": self.head(x), "norm": torch.norm(x, dim=1)}


def submodule_of(traced, node):
    return traced.get_submodule(node.target) if node.op == "call_module" else None


def features(model, wanted):
    traced = fx.GraphModule(model, copy.deepcopy(model.graph))
    graph, found = traced.graph, {}
    for node in graph.nodes:
        if node.op == "call_module" and node.target in wanted:
            found[node.target] = node
    graph.erase_node(graph.output_node())
    graph.output(found)
    graph.eliminate_dead_code()
    traced.delete_all_unused_submodules()
    traced.recompile()
    return traced


def folded(traced):
    for node in traced.graph.nodes:
        before = node.args[0] if node.args else None
        if isinstance(submodule_of(traced, node), nn.BatchNorm2d) and isinstance(
            submodule_of(traced, before), nn.Conv2d
        ):
            parent, _, name = before.target.rpartition(".")
            conv = fuse_conv_bn_eval(submodule_of(traced, before), submodule_of(traced, node))
            setattr(traced.get_submodule(parent), name, conv)
            node.replace_all_uses_with(before)
            traced.graph.erase_node(node)
    traced.graph.lint()
    traced.recompile()
    return traced


class Observed(fx.Interpreter):
    """Ranges of what modules give, as a quantising pass needs them."""

    def __init__(self, module):
        super().__init__(module)
        self.ranges = []

    def call_module(self, target, args, kwargs):
        value = super().call_module(target, args, kwargs)
        self.ranges += [value.min().item(), value.max().item()]
        return value


class Smooth(fx.Transformer):
    def call_module(self, target, args, kwargs):
        if isinstance(self.submodules[target], nn.ReLU):
            return F.softplus(args[0], beta=3)
        return super().call_module(target, args, kwargs)

    def call_function(self, target, args, kwargs):
        return super().call_function(torch.sub if target is operator.add else target, args, kwargs)


class Whole(fx.Tracer):
    """Blocks as single nodes."""

    def is_leaf_module(self, module, name):
        return isinstance(module, Block) or super().is_leaf_module(module, name)


def main(fill):
    torch.manual_seed(0)
    model = Net()
    fill(model)
    x = torch.linspace(-2, 2, 2 * 2 * 6 * 6).reshape(2, 2, 6, 6)
    for _ in range(3):
        model(x)
    model.eval()
    numbers = []

    def note(found):
        for value in found.values() if isinstance(found, dict) else [found]:
            numbers.extend([value.sum().item(), value.abs().max().item(), value.flatten()[-1].item()])

    traced = fx.symbolic_trace(model, concrete_args={"flip": True})
    note(model(x, True))
    note(traced(x, True))
    traced(x, True)["logits"].sum().backward()
    numbers.append(traced.scale.grad.sum().item())
    numbers += [len(traced.graph.nodes), sum(len(node.users) for node in traced.graph.nodes)]
    numbers += [sum(node.op == kind for node in traced.graph.nodes) for kind in ("call_module", "get_attr")]

    plain = fx.symbolic_trace(model, concrete_args={"flip": False})
    small = features(plain, ("layers.0.relu", "layers.1.bn1"))
    note(small(x))
    numbers.append(len(list(small.modules())))
    note(folded(copy.deepcopy(plain))(x))
    observed = Observed(plain)
    note(observed.run(x))
    numbers += observed.ranges
    note(Smooth(plain).transform()(x))
    graph = Whole().trace(model, {"flip": False})
    numbers.append(sum(node.op == "call_module" for node in graph.nodes))
    note(fx.GraphModule(model, graph)(x))
    ShapeProp(plain).propagate(x)
    numbers += [sum(n.meta["tensor_meta"].shape) for n in plain.graph.nodes if n.op == "call_module"]

    def program(a, b):
        return torch.relu(a @ b + 1) * torch.relu(b @ a + 1)

    found = fx.symbolic_trace(program)
    matches = fx.replace_pattern(found, lambda x: torch.relu(x + 1), lambda x: torch.tanh(x).abs())
    numbers.append(len(matches))
    note(found(x[0, 0], x[1, 0]))
    graph = fx.Graph()
    value = fx.Proxy(graph.placeholder("value"))
    graph.output((torch.sin(value)[0] + value.cos()).node)
    note(fx.GraphModule({}, graph)(x))
    return numbers
