"""DTensor: a transformer whose tensors ranks, here threads, have together has the loss, the gradients and the steps of
one process, whatever the placements are; ops, redistribution, what is refused.
"""

from __future__ import annotations

import io
from contextlib import nullcontext
from copy import deepcopy
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

import pytest

import pyapp
from pyapp import Tensor, nn, optim
from pyapp.distributed import checkpoint
from pyapp.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from pyapp.distributed.device_mesh import DeviceMesh
from pyapp.distributed.tensor import (
    DTensor,
    Partial,
    Placement,
    Replicate,
    Shard,
    distribute_module,
    distribute_tensor,
    full,
    ones,
    rand,
)
from pyapp.distributed.tensor.experimental import implicit_replication, local_map
from pyapp.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)
from pyapp.engine.processes.group import ProcessGroup
from pyapp.errors import ArgumentError, OptionError
from pyapp.nn import functional as F
from pyapp.nn.fully_sharded import full_state_dict, fully_shard
from pyapp.nn.parallel import DistributedDataParallel
from pyapp.nn.utils import clip_grad_norm_
from tests.distributed.thread_ranks import in_grid, in_ranks
from tests.mirror import device as _device  # noqa: F401 (registers the mirror)

pytestmark = pytest.mark.native_only
WIDTH, HEADS, WORDS = 12, 4, 11
IDS = [[1, 2, 3, 4, 5, 6], [3, 4, 1, 7, 9, 10], [3, 8, 1, 7, 9, 10], [0, 4, 1, 7, 2, 10]]
TARGETS = [[2, 3, 4, 5, 6, 1], [4, 1, 7, 9, 10, 0], [4, 1, 7, 9, -100, 0], [1, 1, 2, 9, 10, 0]]
WHOLE = [Replicate()]


class Block(nn.Module):
    """A transformer of one layer, with its embedding and head."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, WORDS)
        self.norm, self.norm2 = nn.LayerNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.up, self.down = nn.Linear(WIDTH, 20), nn.Linear(20, WIDTH)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        h = self.norm(x)
        q, k, v = (
            layer(h).view(*h.shape[:2], HEADS, WIDTH // HEADS).transpose(1, 2) for layer in (self.q, self.k, self.v)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(*h.shape)
        x = x + self.o(y)
        return self.head(x + self.down(F.gelu(self.up(self.norm2(x)))))


def mesh_of(*groups: ProcessGroup, names: tuple[str, ...] = ("tp",)) -> DeviceMesh:
    sizes = [group.size() for group in groups]
    return DeviceMesh.from_group(groups, "cpu", pyapp.arange(prod(sizes)).reshape(sizes), mesh_dim_names=names)


def trained(model: Any, ids: Tensor, targets: Tensor) -> dict[str, Any]:
    """Loss, norm and gradients of the first step, and the loss of the second."""
    optimizer = optim.AdamW(model.parameters(), lr=0.05)
    found: dict[str, Any] = {}
    for step in range(2):
        loss = F.cross_entropy(model(ids).reshape(-1, WORDS), targets.reshape(-1))
        loss.backward()
        found[f"loss {step}"] = loss.item()
        if not step:
            for name, parameter in model.named_parameters():
                gradient = parameter.grad
                found[name] = (gradient.full_tensor() if isinstance(gradient, DTensor) else gradient).clone()
            found["norm"] = clip_grad_norm_(model.parameters(), 0.5).item()
            optimizer.step()
            optimizer.zero_grad()
    return found


BATCH: dict[str, int] = {}
LAYERS = {"q": 0, "k": 0, "v": 0, "o": 1, "up": 0, "down": 1, "head": 0}
PLANS: dict[str, tuple[dict[str, int], Placement]] = {
    "batch": (BATCH, Shard(0)),
    "columns of the embedding": (LAYERS | {"embed": 1}, Replicate()),
    "rows of the embedding": (LAYERS | {"embed": 0}, Replicate()),
    "what does not fit": ({"q": 1, "k": 0, "v": 1, "o": 0, "up": 1, "down": 0, "embed": 0, "head": 1}, Shard(1)),
}


def placed(plan: dict[str, int], name: str, kind: str) -> Placement:
    dim = plan.get(name)
    if dim is None or (kind == "bias" and dim == 1):
        return Replicate()
    return Shard(dim)


def run_plan(made: Any, mesh: DeviceMesh, plan: dict[str, int], given: Placement) -> dict[str, Any]:
    """What `trained` finds; the last dim of the mesh has the plan, the first one the batch."""
    before = [Replicate()] * (mesh.ndim - 1)

    def part(name: str, module: nn.Module, mesh: DeviceMesh) -> None:
        for kind, parameter in [*module._parameters.items()]:
            places = [*before, placed(plan, name, kind)]
            setattr(module, kind, distribute_tensor(parameter, mesh, places, src_data_rank=None))

    model = distribute_module(made(), mesh, part)
    places = [given] if mesh.ndim == 1 else [Shard(0), given]
    ids, targets = (distribute_tensor(pyapp.tensor(x), mesh, places, src_data_rank=None) for x in (IDS, TARGETS))
    return trained(model, ids, targets)


def test_a_transformer_is_that_of_one_process() -> None:
    state = {name: value.clone() for name, value in Block().state_dict().items()}

    def made() -> Block:
        model = Block()
        model.load_state_dict(state)
        return model

    wanted = trained(made(), pyapp.tensor(IDS), pyapp.tensor(TARGETS))

    def check(found: dict[str, Any], what: str) -> None:
        assert found.keys() == wanted.keys()
        for name, value in wanted.items():
            assert pyapp.allclose(pyapp.as_tensor(found[name]), pyapp.as_tensor(value), atol=2e-5), (what, name)

    def of_ranks(plan: dict[str, int], given: Placement, group: ProcessGroup) -> dict[str, Any]:
        return run_plan(made, mesh_of(group), plan, given)

    for what, (plan, given) in PLANS.items():
        for size in (3,) if what.startswith("rows") else (2,):  # 3 divides neither heads nor features
            results = in_ranks(size, partial(of_ranks, plan, given))
            for found in results:
                check(found, f"{what} in {size}")
    plan, given = PLANS["rows of the embedding"]
    for found in in_grid(2, 2, lambda dp, tp: run_plan(made, mesh_of(dp, tp, names=("dp", "tp")), plan, given)):
        check(found, "batch and layers")


X = [[1.0, -2.0, 3.0, 0.5], [0.0, 4.0, -1.0, 2.0], [2.5, 1.0, 0.25, -3.0]]
OPS: dict[str, Any] = {
    "scalars": lambda x: (2 - x * 3) / 4 + x**2,
    "broadcast": lambda x: x - x.mean(1, True) + x.amax(0),
    "softmax": lambda x: x.softmax(0) * x.log_softmax(-1),
    "sums": lambda x: x.sum() + x.sum(0) * x.var(0, keepdim=True),
    "product": lambda x: x @ x.T + (x.T @ x).trace(),
    "einsum": lambda x: pyapp.einsum("ij,kj->ki", x, x.relu()),
    "views": lambda x: x.reshape(6, 2).T.unsqueeze(1).expand(2, 3, 6).flatten(1)[:, 2:9],
    "index": lambda x: x[1:, None, 2] * x[..., -1][2],
    "advanced index": lambda x: x[pyapp.tensor([0, 2])],
    "parts": lambda x: (
        pyapp.cat([*x.chunk(2, 1), x.narrow(1, 1, 2)], 1) + pyapp.stack([x, x]).select(0, 1).sum(1, True)
    ),
    "sorted": lambda x: x.sort(0).values.cumsum(0),
    "where": lambda x: pyapp.where(x > 0, x, x.exp()).clamp(max=2.0).masked_fill(x < -1, 0.0),
    "norm": lambda x: x / x.norm() + F.normalize(x, dim=0),
    "inverse": lambda x: pyapp.linalg.inv(x @ x.T + pyapp.linalg.det(x @ x.T)),
    "to": lambda x: x.to("float64").sum(1).to("float32"),
    "silu": lambda x: F.silu(x) * F.softplus(x) + F.leaky_relu(x),
}


def test_ops_are_those_of_whole_tensors_in_every_placement() -> None:
    def values(compute: Any, x: Any) -> tuple[Any, Any]:
        y = compute(x)
        weights = pyapp.arange(y.numel(), dtype="float32").reshape(y.shape).cos()
        with implicit_replication():
            (y * weights).sum().backward()
        return y, x.grad

    wanted = {name: values(compute, pyapp.tensor(X, requires_grad=True)) for name, compute in OPS.items()}

    def run(group: ProcessGroup) -> None:
        mesh = mesh_of(group)
        for places in ([Shard(0)], [Shard(1)], WHOLE, [Partial()]):
            for name, compute in OPS.items():
                local = pyapp.tensor(X) if places != [Partial()] else pyapp.tensor(X) * [0.25, 0.75][group.rank()]
                if isinstance(places[0], Shard):
                    x: Any = distribute_tensor(local.requires_grad_(), mesh, places, src_data_rank=None)
                else:
                    x = DTensor.from_local(local.requires_grad_(), mesh, places)
                with implicit_replication():
                    y, gradient = values(compute, x)
                assert isinstance(y, DTensor) and isinstance(gradient, DTensor), name
                for found, whole in zip((y, gradient), wanted[name], strict=True):
                    assert found.shape == whole.shape, name
                    assert pyapp.allclose(found.full_tensor(), whole, atol=1e-5), (name, places)
                with pyapp.no_grad(), implicit_replication():
                    assert pyapp.allclose(compute(x).full_tensor(), wanted[name][0], atol=1e-5), (name, places)

    in_ranks(2, run)


def test_placements_of_results() -> None:
    """As torch's: no communication where the parts fit, a summand where a divided dim is summed."""

    def run(group: ProcessGroup) -> None:
        mesh = mesh_of(group)
        rows, columns, whole = (
            distribute_tensor(pyapp.arange(16.0).reshape(4, 4), mesh, places)
            for places in ([Shard(0)], [Shard(1)], WHOLE)
        )
        calls = group.member().calls  # type: ignore[attr-defined]
        assert (rows @ whole).placements == (Shard(0),) and (whole @ columns).placements == (Shard(1),)
        assert (columns @ rows).placements == (columns.sum(1)).placements == (Partial(),)
        assert (columns @ rows + columns.sum(1)).placements == (Partial(),)
        assert (rows + whole).placements == (Shard(0),) and rows.T.placements == (Shard(1),)
        assert rows.reshape(2, 2, 4).placements == (Shard(0),) and rows.softmax(1).placements == (Shard(0),)
        assert rows.view(2, 8).is_leaf and rows.chunk(2, 1)[1].placements == (Shard(0),)
        assert group.member().calls == calls  # type: ignore[attr-defined]
        assert rows.softmax(0).placements == (Replicate(),)

    in_ranks(2, run)


def test_from_one_placement_to_another() -> None:
    every = [Shard(0), Shard(1), Replicate(), Partial()]

    def run(dp: ProcessGroup, tp: ProcessGroup) -> None:
        mesh = mesh_of(dp, tp, names=("dp", "tp"))
        whole = pyapp.arange(35.0).reshape(5, 7)
        weights = whole.cos()
        for first in every:
            for second in every:
                start = [Replicate() if place == Partial() else place for place in (first, second)]
                local = distribute_tensor(whole, mesh, start, src_data_rank=None).to_local()
                for group, place in zip((dp, tp), (first, second), strict=True):
                    local = local * [0.25, 0.75][group.rank()] if place == Partial() else local
                local.requires_grad_()
                given: Any = DTensor.from_local(local, mesh, [first, second], shape=(5, 7))
                for goal in ((Shard(0), Shard(0)), (Shard(1), Shard(0)), (Replicate(), Shard(1)), (Replicate(),) * 2):
                    local.grad = None
                    found = given.redistribute(placements=goal)
                    assert found.placements == goal and pyapp.equal(found.full_tensor(), whole), (start, goal)
                    (found * distribute_tensor(weights, mesh, goal, src_data_rank=None)).sum().backward()
                    assert pyapp.allclose(given.grad.full_tensor(), weights), (first, second, goal)

    in_grid(2, 2, run)


def test_reductions_other_than_sums() -> None:
    def run(group: ProcessGroup) -> None:
        mesh, values = mesh_of(group), [[1.0, -4.0, 3.0], [2.0, -2.0, 5.0]]
        wholes = {"avg": [1.5, -3, 4], "max": [2, -2, 5], "min": [1, -4, 3], "product": [2, 8, 15]}
        slopes = {"avg": [[0.5] * 3] * 2, "max": [[0] * 3, [1] * 3], "min": [[1] * 3, [0] * 3],
                  "product": [values[1], values[0]]}  # fmt: skip
        for how, whole in wholes.items():
            local = pyapp.tensor(values[group.rank()]).requires_grad_()
            given = DTensor.from_local(local, mesh, [Partial(how)])
            assert given.full_tensor().tolist() == whole, how
            assert given.redistribute(placements=[Shard(0)]).full_tensor().tolist() == whole, how
            assert (given * 2).full_tensor().tolist() == [2 * x for x in whole], how
            assert (given + given).sum().full_tensor().item() == 2 * sum(whole), how
            given.full_tensor().sum().backward()
            assert local.grad is not None and local.grad.tolist() == slopes[how][group.rank()], how

    in_ranks(2, run)


def test_gradients_of_gradients() -> None:
    def run(group: ProcessGroup) -> None:
        mesh, x, w = mesh_of(group), pyapp.arange(12.0).reshape(4, 3) / 7, pyapp.tensor([[0.3, -0.5, 0.2]] * 2)
        wholes = [x.clone().requires_grad_(), w.clone().requires_grad_()]
        for first, second in (([Shard(0)], WHOLE), (WHOLE, [Shard(0)]), ([Shard(1)], [Shard(1)])):
            tensors = [distribute_tensor(x, mesh, first), distribute_tensor(w, mesh, second)]
            found = []
            for a, b in (wholes, [t.requires_grad_() for t in tensors]):
                (slope,) = pyapp.autograd.grad((a @ b.T).tanh().sum(), [a], create_graph=True)
                found += [slope, *pyapp.autograd.grad(slope.square().sum(), (a, b))]
            for plain, divided in zip(found[:3], found[3:], strict=True):
                assert isinstance(divided, DTensor) and pyapp.allclose(divided.full_tensor(), plain, atol=1e-6)

    in_ranks(2, run)


def test_makers_random_numbers_and_writing_in_place() -> None:
    def run(group: ProcessGroup) -> list[Any]:
        mesh = mesh_of(group)
        x = rand(5, 4, device_mesh=mesh, placements=[Shard(0)])
        made = full((3,), 2.0, device_mesh=mesh) + ones(3, device_mesh=mesh, placements=[Shard(0)])
        assert made.full_tensor().tolist() == [3.0] * 3
        dropped: Any = F.dropout(ones(64, 64, device_mesh=mesh, placements=[Shard(1)]), 0.25)
        found = dropped.full_tensor()
        assert dropped.placements == (Shard(1),) and 0.6 < (found > 0).to("float32").mean().item() < 0.9
        y: Any = x.clone()
        y += 1
        y.mul_(x.redistribute(placements=WHOLE)).clamp_(max=1.0)
        y[0].zero_()
        assert y.placements == (Shard(0),)
        assert pyapp.allclose(y.full_tensor(), ((x.full_tensor() + 1) * x.full_tensor()).clamp(max=1.0))
        y.copy_(x)
        y[1:3, 0] = 5.0
        assert y.to_local().shape[0] in (2, 3) and y.full_tensor()[:, 0].tolist()[1:3] == [5.0] * 2
        nn.init.orthogonal_(y)
        assert pyapp.allclose((y.T @ y).full_tensor(), pyapp.eye(4), atol=1e-5)
        y.fill_(3.0)
        assert y.full_tensor().tolist() == [[3.0] * 4] * 5
        for like in (pyapp.zeros_like(y), pyapp.rand_like(y), y.new_ones(2)):
            assert isinstance(like, DTensor) and like.placements == (Replicate(),)
        assert y.to("float64").bfloat16().dtype is pyapp.bfloat16
        y.detach_().requires_grad_()
        y.register_hook(lambda g: g * 2)
        y.sum().backward()
        assert y.grad.full_tensor().tolist() == [[2.0] * 4] * 5
        return [x.full_tensor().tolist(), found.tolist()]

    one, other = in_ranks(2, run)
    assert one == other


def test_layers_that_make_tensors_themselves() -> None:
    """Masks, states and statistics that layers make beside a DTensor are replicated."""
    layers: dict[str, Any] = {
        "encoder": nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), "lstm": nn.LSTM(8, 5),
        "norm": nn.BatchNorm1d(3), "convolution": nn.Conv1d(3, 2, 3, padding=1), "groups": nn.GroupNorm(3, 3),
    }  # fmt: skip
    x = pyapp.arange(96.0).reshape(4, 3, 8).sin()
    wanted = {}
    for name, layer in layers.items():
        y = deepcopy(layer)(x)
        wanted[name] = y[0] if isinstance(y, tuple) else y
    noisy = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.5, batch_first=True)

    def run(group: ProcessGroup) -> Tensor:
        mesh = mesh_of(group)
        for name, layer in layers.items():
            own = distribute_module(deepcopy(layer), mesh)
            with implicit_replication() if name == "norm" else nullcontext():  # which makes a tensor of its statistics
                y = own(distribute_tensor(x, mesh, [Shard(0)]))
            y = y[0] if isinstance(y, tuple) else y
            assert pyapp.allclose(y.full_tensor(), wanted[name], atol=1e-5), name
        return distribute_module(deepcopy(noisy), mesh)(distribute_tensor(x, mesh)).to_local()

    one, other = in_ranks(2, run)
    assert pyapp.equal(one, other)  # the same elements are dropped


def test_classes_that_ranks_divide_are_not_gathered_for_the_loss() -> None:
    logits, targets = (pyapp.arange(30.0).reshape(6, 5) * 1.7).sin() * 9, pyapp.tensor([0, 4, -100, 2, 1, 3])
    whole = logits.clone().requires_grad_()
    F.cross_entropy(whole, targets).backward()

    def run(dp: ProcessGroup, tp: ProcessGroup) -> None:
        mesh = mesh_of(dp, tp, names=("dp", "tp"))
        for first in (Shard(0), Replicate(), Shard(1)):
            given: Any = distribute_tensor(logits.clone().requires_grad_(), mesh, [first, Shard(1)], src_data_rank=None)
            with loss_parallel():
                loss: Any = F.cross_entropy(given, targets)
            assert pyapp.allclose(loss.full_tensor(), F.cross_entropy(logits, targets), atol=1e-5)
            loss.backward()
            assert given.grad.placements == given.placements
            assert pyapp.allclose(given.grad.full_tensor(), whole.grad, atol=1e-6), first

    in_grid(1, 3, run)  # of which the last has one class
    in_grid(2, 2, run)
    in_grid(1, 6, run)  # of which the last has none


def test_functions_of_parts() -> None:
    def run(group: ProcessGroup) -> None:
        mesh, x = mesh_of(group), pyapp.arange(8.0).reshape(4, 2).requires_grad_()
        rows: Any = distribute_tensor(x, mesh, [Shard(0)])
        both = local_map(lambda a, b: (a.cumsum(1) * b, a.sum(0)), ([Shard(0)], [Partial()]), ([Shard(0)], None))
        y, total = both(rows, 2.0)
        assert pyapp.allclose(y.full_tensor(), x.cumsum(1) * 2) and pyapp.allclose(total.full_tensor(), x.sum(0))
        total.sum().backward()
        assert rows.grad.full_tensor().tolist() == [[1.0] * 2] * 4
        there = local_map(lambda a: a * 1, [Shard(1)], ([Shard(1)],), redistribute_inputs=True)
        assert there(rows).placements == (Shard(1),)
        with pytest.raises(ArgumentError, match="redistribute_inputs=True brings it there"):
            local_map(lambda a: a, [Shard(1)], ([Shard(1)],))(rows)
        with pytest.raises(ArgumentError, match="out_placements has 1 entries for 2 results"):
            local_map(lambda a: (a, a), ([Shard(0)],))(rows)

    in_ranks(2, run)


def test_layers_of_a_plan_take_and_give_dtensors() -> None:
    model = nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 4))
    state, x = model.state_dict(), pyapp.arange(24.0).reshape(2, 3, 4).sin()
    (model(x) ** 2).sum().backward()

    def run(group: ProcessGroup) -> None:
        mesh = mesh_of(group)
        own = nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 4))
        own.load_state_dict(state)
        plan = {
            "0": SequenceParallel(), "1": ColwiseParallel(use_local_output=False),
            "3": RowwiseParallel(output_layouts=Shard(1), use_local_output=False),
        }  # fmt: skip
        parallelize_module(own, mesh, plan, src_data_rank=None)
        y = own(distribute_tensor(x, mesh, [Shard(1)], src_data_rank=None))
        assert isinstance(y, DTensor) and y.placements == (Shard(1),) and y.shape == (2, 3, 4)
        (y**2).sum().backward()
        for (name, parameter), whole in zip(own.named_parameters(), model.parameters(), strict=True):
            wanted = whole.grad if parameter.part is None else parameter.part.of(whole.grad)
            assert pyapp.allclose(parameter.grad, wanted, atol=1e-5), name

    in_ranks(2, run)


def test_checkpoints_of_dtensors(tmp_path: Path) -> None:
    model = nn.Linear(3, 5)
    optimizer = optim.AdamW(model.parameters(), lr=0.1)
    x, state = pyapp.ones(2, 3), {name: value.clone() for name, value in model.state_dict().items()}

    def step(model: Any, optimizer: Any, x: Tensor) -> None:
        (model(x) ** 2).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    def made(group: ProcessGroup) -> tuple[Any, Any, Tensor]:
        mesh = mesh_of(group)

        def part(name: str, module: nn.Module, mesh: DeviceMesh) -> None:
            module.weight = distribute_tensor(module.weight, mesh, [Shard(1)])

        own = distribute_module(nn.Linear(3, 5), mesh, part)
        return own, optim.AdamW(own.parameters(), lr=0.1), distribute_tensor(x, mesh)

    step(model, optimizer, x)
    step(model, optimizer, x)

    def run(group: ProcessGroup) -> None:
        own, steps, given = made(group)
        own.load_state_dict(state)  # of whole tensors
        assert isinstance(own.weight, DTensor) and pyapp.equal(own.weight.full_tensor(), state["weight"])
        step(own, steps, given)
        found = dict(zip(("model", "optimizer"), get_state_dict(own, steps), strict=True))
        checkpoint.save(found, checkpoint_id=tmp_path, process_group=group)
        own, steps, given = made(group)
        found = dict(zip(("model", "optimizer"), get_state_dict(own, steps), strict=True))
        checkpoint.load(found, checkpoint_id=tmp_path, process_group=group)
        set_state_dict(own, steps, model_state_dict=found["model"], optim_state_dict=found["optimizer"])
        step(own, steps, given)
        for name, value in full_state_dict(own).items():
            assert pyapp.allclose(value, model.state_dict()[name], atol=1e-6), name

    in_ranks(2, run)


def test_what_is_refused_is_told() -> None:
    def run(group: ProcessGroup) -> None:
        mesh, x, no_placement = mesh_of(group), pyapp.ones(3, 4), [0]
        rows: Any = distribute_tensor(x, mesh, [Shard(0)])
        with pytest.raises(NotImplementedError, match="plain tensor beside a DTensor: make it one with distribute_"):
            rows + x
        with pytest.raises(NotImplementedError, match="plain tensor beside a DTensor"):
            F.linear(rows, pyapp.ones(2, 4))
        for call, kind, told in (
            (lambda: DTensor(), TypeError, "distribute_tensor or DTensor.from_local makes it"),
            (lambda: distribute_tensor(x, mesh, [Partial()]), ArgumentError, "summands are made by from_local"),
            (lambda: distribute_tensor(x, mesh, [Shard(0)] * 2), ArgumentError, "2 placements for DeviceMesh"),
            (lambda: distribute_tensor(x, mesh, no_placement), TypeError, r"a placement is Shard\(dim\)"),
            (lambda: distribute_tensor(x, mesh, [Shard(2)]), IndexError, "Shard"),
            (lambda: distribute_tensor(rows, mesh, WHOLE), ArgumentError, "use redistribute"),
            (lambda: distribute_tensor(x * x.requires_grad_(), mesh, WHOLE), ArgumentError, "takes a leaf tensor"),
            (
                lambda: rows.redistribute(placements=[Partial()]),
                ArgumentError,
                r"from Shard\(dim=0\) to Partial",
            ),
            (lambda: DTensor.from_local(x, mesh, [Shard(0)], shape=(9, 4)), ArgumentError, "is not the part of this"),
            (lambda: rows.to_local(grad_placements=WHOLE), ArgumentError, "cannot come in Replicate"),
            (lambda: rows.__getstate__(), TypeError, "cannot be pickled"),
            (lambda: pyapp.ones(3, 4).copy_(rows), NotImplementedError, "use its full_tensor"),
            (lambda: pyapp.save(rows, io.BytesIO()), TypeError, "a DTensor is of the processes of this run"),
            (lambda: pyapp.func.grad(lambda t: t.sum())(rows), NotImplementedError, "recorded by its parts"),
            (lambda: ones(2, -1, device_mesh=mesh), ArgumentError, "integers from 0 on"),
            (lambda: distribute_module(nn.Linear(1, 1), None), TypeError, "device_mesh is a DeviceMesh"),
        ):
            with pytest.raises(kind, match=told):
                call()
        shared = distribute_module(nn.Linear(4, 2), mesh)
        for wrap in (partial(DistributedDataParallel, process_group=group), partial(fully_shard, process_group=group)):
            with pytest.raises(
                ArgumentError, match="weight is a DTensor, whose gradients the ops of its mesh exchange"
            ):
                wrap(shared)
        copied = deepcopy(shared)
        assert isinstance(copied.weight, DTensor) and copied.weight.is_parameter and copied.weight.is_leaf
        with pytest.raises(ValueError, match="reduce_op is one of sum, avg, max, min, product, not 'norm'"):
            Partial("norm")
        assert repr(Partial()) == "Partial()" and Partial() == Partial("sum") and Shard(1).is_shard(1)
        for build, told in (
            (lambda: DeviceMesh.from_group([group, group], "cpu"), "is needed for 2 groups"),
            (lambda: DeviceMesh.from_group(group, "cpu", [[0, 1]]), r"has the shape \[1, 2\], the groups"),
        ):
            with pytest.raises(OptionError, match=told):
                build()
        assert repr(rows).startswith("DTensor(local_tensor=") and rows.tolist() == x.tolist()

    in_ranks(2, run)


def test_rows_of_a_divided_table_on_a_device_without_the_kernel() -> None:
    """Each process finds those of its part: an op that has no kernel for a DTensor is not left to the host."""
    table, ids = pyapp.arange(132).reshape(11, 12).float(), pyapp.tensor([[1, 2, 3], [4, 5, 10]])

    def work(group: ProcessGroup) -> None:
        mesh = mesh_of(group)
        divided = distribute_tensor(table.to("mirror"), mesh, [Shard(0)])
        found = F.embedding(distribute_tensor(ids.to("mirror"), mesh, [Replicate()]), divided)
        assert found.device.type == "mirror" and found.full_tensor().tolist() == table[ids].tolist()

    in_ranks(2, work)
