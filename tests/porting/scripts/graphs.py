"""Networks over graphs by scatters: attention over edges, messages with edge features, pooling of a batch of graphs, a
hand-written sparse product, and random walks."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn import Parameter


def scatter(src, index, dim_size, reduce="sum"):
    index = index.view(-1, *[1] * (src.dim() - 1)).expand_as(src)
    if reduce == "sum":
        return src.new_zeros(dim_size, *src.shape[1:]).scatter_add_(0, index, src)
    out = src.new_zeros(dim_size, *src.shape[1:])
    return out.scatter_reduce_(
        0, index, src, reduce={"max": "amax", "min": "amin"}.get(reduce, reduce), include_self=False
    )


def edge_softmax(scores, target, n):
    top = torch.full((n, scores.size(1)), float("-inf")).scatter_reduce(
        0, target.unsqueeze(1).expand_as(scores), scores, reduce="amax"
    )
    e = (scores - top.index_select(0, target)).exp()
    total = torch.zeros(n, scores.size(1)).index_add(0, target, e)
    return e / (total[target] + 1e-16)


class GATConv(nn.Module):
    def __init__(self, inputs, outputs, heads, edges):
        super().__init__()
        self.heads, self.outputs = heads, outputs
        self.lin = nn.Linear(inputs, heads * outputs, bias=False)
        self.lin_edge = nn.Linear(edges, heads * outputs, bias=False)
        self.att = nn.ParameterList([Parameter(torch.empty(1, heads, outputs)) for _ in range(3)])
        self.bias = Parameter(torch.empty(heads * outputs))
        for p in self.att:
            nn.init.xavier_uniform_(p)
        nn.init.zeros_(self.bias)

    def forward(self, x, edge_index, edge_attr):
        source, target = edge_index
        h = self.lin(x).unflatten(1, (self.heads, self.outputs))
        e = self.lin_edge(edge_attr).view(-1, self.heads, self.outputs)
        a, b = ((h * p).sum(-1) for p in self.att[:2])
        alpha = F.leaky_relu(a[source] + b[target] + (e * self.att[2]).sum(-1), 0.2)
        alpha = edge_softmax(alpha, target, x.size(0))
        out = torch.zeros_like(h).index_add_(0, target, alpha.unsqueeze(-1) * h[source])
        return out.flatten(1) + self.bias, alpha


class MeanAggregator(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.update = nn.GRUCell(size, size)
        self.message = nn.Sequential(nn.Linear(2 * size, size), nn.Softsign(), nn.AlphaDropout(0.0))

    def forward(self, x, edge_index):
        source, target = edge_index
        messages = self.message(torch.hstack([x[source], x[target]]))
        pooled = torch.index_reduce(torch.zeros_like(x), 0, target, messages, "mean", include_self=False)
        return self.update(pooled, x)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.atoms = nn.EmbeddingBag(10, 8, mode="sum", padding_idx=0, include_last_offset=False)
        self.gat = GATConv(8, 4, 2, 3)
        self.norm = nn.BatchNorm1d(8, momentum=None)
        self.agg = MeanAggregator(8)
        self.gate = nn.Linear(8, 1, bias=False)
        self.head = nn.Sequential(nn.Linear(32, 8), nn.Tanhshrink(), nn.Linear(8, 2))

    def forward(self, atoms, edge_index, edge_attr, batch):
        x = self.atoms(atoms)
        h, alpha = self.gat(x, edge_index, edge_attr)
        x = self.agg(F.elu(self.norm(h)) + x, edge_index)
        n = int(batch.max()) + 1
        gate = edge_softmax(self.gate(x), batch, n)
        pools = [scatter(x, batch, n, r) for r in ("mean", "max", "min")]
        return self.head(torch.cat([*pools, scatter(gate * x, batch, n)], dim=-1)), alpha


def walks(edge_index, n):
    adjacency = torch.zeros(n, n)
    adjacency.index_put_(tuple(edge_index), torch.ones(edge_index.size(1)), accumulate=True)
    adjacency = adjacency.clamp_(max=1).fill_diagonal_(1.0)
    degree = adjacency.sum(1, keepdim=True)
    transition = adjacency / degree
    rank = torch.full((n,), 1 / n)
    for _ in range(20):
        rank = 0.15 / n + 0.85 * (transition.mT @ rank)
    laplacian = torch.diag_embed(degree.squeeze()) - adjacency
    values, vectors = torch.linalg.eigh(laplacian)
    hops = torch.where(adjacency > 0, 1.0, torch.inf).fill_diagonal_(0)
    for k in range(n):
        torch.minimum(hops, hops[:, k : k + 1] + hops[k : k + 1, :], out=hops)
    order = torch.argsort(rank, descending=True, stable=True)
    unique, inverse, counts = torch.unique(edge_index[1], return_inverse=True, return_counts=True)
    first = torch.searchsorted(edge_index[1].sort().values, torch.arange(n))
    return [*rank[order[:3]].tolist(), values[1].item(), vectors[:, 1].abs().max().item(),
            hops[hops.isfinite()].mean().item(), *counts.tolist(), inverse.sum().item(), *first.tolist(),
            torch.bincount(edge_index[0], minlength=n).float().var(correction=0).item(), unique.numel(),
            torch.matrix_power(transition, 3).diagonal(offset=1).sum().item()]  # fmt: skip


def main(fill):
    net = Net()
    fill(net)
    net.gat.bias.requires_grad_(False)  # a batch normalisation takes it away again
    atoms = torch.tensor([[1, 4, 0], [2, 5, 0], [3, 6, 9], [1, 0, 0], [2, 4, 0], [3, 3, 8], [7, 5, 0]])
    edges = torch.tensor([[0, 1, 1, 2, 2, 0, 3, 4, 4, 5, 5, 6, 6, 3], [1, 0, 2, 1, 0, 2, 4, 3, 5, 4, 6, 5, 3, 6]])
    edge_attr = torch.sin(torch.arange(42.0)).view(14, 3)
    batch, labels = torch.tensor([0, 0, 0, 1, 1, 1, 1]), torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    optimizer = torch.optim.Rprop(net.parameters(), lr=0.01, etas=(0.5, 1.2), step_sizes=(1e-6, 1))
    criterion = nn.MultiLabelSoftMarginLoss(weight=torch.tensor([1.0, 2.0]))
    found = []
    for _ in range(5):
        optimizer.zero_grad()
        out, alpha = net(atoms, edges, edge_attr, batch)
        loss = criterion(out, labels) + F.binary_cross_entropy_with_logits(
            out, labels, pos_weight=torch.tensor([2.0, 1.0])
        )
        loss.backward()
        found += [loss.item(), alpha.std().item(), net.gat.lin.weight.grad.norm().item()]
        optimizer.step()
    net.eval()
    out, _ = net(atoms, edges, edge_attr, batch)
    return [*found, *out.flatten().tolist(), net.norm.running_var.sum().item(), *walks(edges, 7)]
