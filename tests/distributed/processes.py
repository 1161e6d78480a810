"""Checks that two processes make together: `pyapp run -n 2 processes.py FOLDER`. Each rank writes what failed to
FOLDER/rank.json, by the name of the check; test_two_processes.py reads it.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from functools import partial
from math import inf
from pathlib import Path
from typing import Any
from weakref import ref

import pyapp
from pyapp import Tensor, nn, optim
from pyapp import distributed as dist
from pyapp.distributed.checkpoint.state_dict import get_state_dict
from pyapp.distributed.fsdp import (
    MixedPrecisionPolicy,
    full_state_dict,
    fully_shard,
    load_full_state_dict,
    register_fsdp_forward_method,
)  # fmt: skip
from pyapp.distributed.optim import ZeroRedundancyOptimizer
from pyapp.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B
from pyapp.distributed.tensor import Partial, Replicate, Shard, distribute_module, distribute_tensor, randn
from pyapp.engine.launch import capture
from pyapp.errors import ArgumentError, OptionError, ProcessError
from pyapp.events import Cancel
from pyapp.formats import open_checkpoint, write_safetensors
from pyapp.models.llama import Config, LlamaForCausalLM
from pyapp.models.load import build
from pyapp.nn import fully_sharded
from pyapp.nn.parallel import DistributedDataParallel
from pyapp.nn.parameter import skip_initialization
from pyapp.nn.tensor_parallel import parallelize
from pyapp.text.generation.session import Session
from pyapp.utils.data import DistributedSampler
from tests.models.test_decoders import make

FOLDER = Path()
CHECKS: dict[str, Callable[[], None]] = {}


def check(function: Callable[[], None]) -> Callable[[], None]:
    CHECKS[function.__name__] = function
    return function


def refuses(kind: type[Exception], words: str, call: Callable[[], object]) -> None:
    try:
        call()
    except kind as error:
        assert words in str(error), f"{error} does not say {words!r}"
    else:
        raise AssertionError(f"no {kind.__name__} that says {words!r}")


def own(*values: float, dtype: str = "float32") -> Tensor:
    """Values plus ten times the rank."""
    return pyapp.tensor([value + 10 * dist.get_rank() for value in values], dtype=dtype)


@check
def names_of_the_group() -> None:
    assert dist.is_initialized() and dist.get_world_size() == 2 and dist.get_backend() == "mpi"
    assert dist.get_process_group_ranks() == [0, 1]
    refuses(dist.ProcessError if hasattr(dist, "ProcessError") else RuntimeError, "exists already",
            lambda: dist.init_process_group("mpi"))  # fmt: skip


@check
def all_reduce_in_every_dtype() -> None:
    op = dist.ReduceOp
    for dtype in ("float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8"):
        for kind, wanted in ((op.SUM, [12, 14]), (op.MAX, [11, 12]), (op.MIN, [1, 2]), (op.PRODUCT, [11, 24])):
            x = own(1, 2, dtype=dtype)
            assert dist.all_reduce(x, kind) is None
            assert x.tolist() == wanted, (dtype, kind, x.tolist())
    x = own(1, 2)
    dist.all_reduce(x, op.AVG)
    assert x.tolist() == [6, 7]
    flags = pyapp.tensor([True, dist.get_rank() == 0, False])
    dist.all_reduce(flags)
    assert flags.tolist() == [True, True, False]
    bits = pyapp.tensor([3 << dist.get_rank()])
    dist.all_reduce(bits, op.BXOR)
    assert bits.tolist() == [5]
    refuses(TypeError, "AVG", lambda: dist.all_reduce(pyapp.tensor([1]), op.AVG))
    refuses(TypeError, "BAND", lambda: dist.all_reduce(pyapp.ones(1), op.BAND))
    refuses(TypeError, "takes tensors", lambda: dist.all_reduce([1.0]))  # type: ignore[arg-type]


@check
def strided_empty_and_versions() -> None:
    x = pyapp.zeros(3, 4)
    part = x.t()[1:3]
    part += dist.get_rank() + 1.0
    version = x._version
    dist.all_reduce(part)
    assert x.tolist() == [[0, 3, 3, 0]] * 3 and x._version > version
    empty = pyapp.zeros(0)
    dist.all_reduce(empty)
    number = pyapp.tensor(float(dist.get_rank()))
    dist.broadcast(number, 1)
    assert number.item() == 1


@check
def asynchronous_calls_end_in_their_order() -> None:
    xs = [own(float(i)) for i in range(4)]
    works = [dist.all_reduce(x, async_op=True) for x in xs]
    for i in (3, 0, 2, 1):
        work = works[i]
        assert work is not None and work.wait() and work.is_completed()
        assert xs[i].tolist() == [10 + 2 * i]


@check
def meshes() -> None:
    rank = dist.get_rank()
    mesh = dist.init_device_mesh("cpu", (2, 1), mesh_dim_names=("data", "model"))
    assert mesh.ndim == 2 and mesh.size() == 2 and mesh.shape == (2, 1) and mesh.mesh.tolist() == [[0], [1]]
    assert mesh.get_coordinate() == [rank, 0] and mesh.get_local_rank("data") == rank and mesh["model"].size() == 1
    assert mesh["data"].mesh.tolist() == [0, 1] and mesh["model"].mesh.tolist() == [rank]
    assert mesh["data"] == mesh["data"] != mesh["model"]
    turned = dist.DeviceMesh("cpu", [[1], [0]], mesh_dim_names=("data", "model"))
    assert turned.mesh.tolist() == [[1], [0]] and turned.shape == (2, 1) and turned["data"].size() == 2
    one = dist.DeviceMesh("cpu", [1])
    assert one.get_coordinate() == ([0] if rank else None)
    refuses(OptionError, "a grid of different ranks", lambda: dist.DeviceMesh("cpu", [0, 0]))
    refuses(OptionError, "expected 1 different ones", lambda: dist.DeviceMesh("cpu", [0, 1], mesh_dim_names=("a", "b")))
    x = pyapp.ones(1) * (rank + 1)
    dist.all_reduce(x, group=mesh["data"].get_group())
    dist.all_reduce(x, group=mesh.get_group("model"))
    assert x.tolist() == [3] and mesh["data", "model"].shape == (2, 1)
    refuses(OptionError, "has no dim 'other', but 'data', 'model'", lambda: mesh["other"])
    refuses(OptionError, "2 dims needs to know which", lambda: mesh.get_group())
    refuses(OptionError, "there are 2 ranks", lambda: dist.init_device_mesh("cpu", (3,)))


@check
def gradients_go_through_calls() -> None:
    calls, rank = dist.nn.functional, dist.get_rank()

    def gradient(call: Callable[[Tensor], Tensor]) -> list[Any]:
        x = own(1, 2).requires_grad_()
        y = call(x)
        (y * pyapp.tensor([1.0, 10.0]) * (rank + 1)).sum().backward()
        assert x.grad is not None
        return [y.tolist(), x.grad.tolist()]

    assert gradient(lambda x: calls.all_reduce(x)) == [[12, 14], [3, 30]]
    assert gradient(lambda x: calls.all_reduce(x, dist.ReduceOp.AVG)) == [[6, 7], [1.5, 15]]
    assert gradient(lambda x: calls.all_gather(x)[1]) == [[11, 12], [3, 30] if rank else [0, 0]]
    assert gradient(lambda x: calls.broadcast(x, 1)) == [[11, 12], [3, 30] if rank else [0, 0]]
    assert gradient(lambda x: calls.reduce(x, 1)) == [[12, 14] if rank else [0, 0], [2, 20]]
    assert gradient(lambda x: calls.reduce_scatter(pyapp.empty(2), [x, x * 2])) == (
        [[24, 28], [5, 50]] if rank else [[12, 14], [5, 50]]
    )
    assert gradient(lambda x: calls.all_to_all_single(pyapp.empty(2), x)) == (
        [[2, 12], [10, 20]] if rank else [[1, 11], [1, 2]]
    )
    assert gradient(lambda x: calls.all_to_all([pyapp.empty(1)] * 2, list(x.split(1)))[1] * pyapp.ones(2)) == (
        [[12, 12], [11, 22]] if rank else [[11, 11], [0, 0]]
    )
    x = own(1.0).requires_grad_()  # of a gradient
    (first,) = pyapp.autograd.grad((calls.all_reduce(x) ** 3).sum(), x, create_graph=True)
    first.sum().backward()
    assert x.grad is not None and x.grad.tolist() == [2 * 2 * 6 * 12]


@check
def gather_and_scatter() -> None:
    rank = dist.get_rank()
    found = [pyapp.empty(2) for _ in range(2)]
    dist.all_gather(found, own(1, 2))
    assert [x.tolist() for x in found] == [[1, 2], [11, 12]]
    whole = pyapp.empty(2, 2)
    dist.all_gather_into_tensor(whole, own(1, 2))
    assert whole.tolist() == [[1, 2], [11, 12]]
    part = pyapp.empty(2)
    dist.reduce_scatter_tensor(part, own(1, 2, 3, 4))
    assert part.tolist() == ([12, 14], [16, 18])[rank]
    dist.reduce_scatter(part, [own(1, 2), own(3, 4)], dist.ReduceOp.AVG)
    assert part.tolist() == ([6, 7], [8, 9])[rank]
    dist.gather(own(1, 2), found if rank == 1 else None, dst=1)
    if rank == 1:
        assert [x.tolist() for x in found] == [[1, 2], [11, 12]]
    dist.scatter(part, [pyapp.ones(2), pyapp.zeros(2)] if rank == 0 else None)
    assert part.tolist() == [1 - rank, 1 - rank]
    total = own(1.0)
    dist.reduce(total, 1)
    assert rank == 0 or total.tolist() == [12]
    objects: list[object] = [None, None]
    dist.all_gather_object(objects, {"rank": rank})
    assert objects == [{"rank": 0}, {"rank": 1}]
    given: list[object] = ["a", 5] if rank == 0 else [None, None]
    dist.broadcast_object_list(given, 0)
    assert given == ["a", 5]
    refuses(ValueError, "2 ranks", lambda: dist.all_gather_into_tensor(pyapp.empty(3), pyapp.ones(2)))
    refuses(ValueError, "list of 2", lambda: dist.all_gather([pyapp.ones(1)], pyapp.ones(1)))
    refuses(ValueError, "rank 2", lambda: dist.broadcast(pyapp.ones(1), 2))


@check
def from_one_to_another() -> None:
    rank = dist.get_rank()
    x = own(5.0, dtype="bfloat16")
    if rank == 0:
        dist.send(x, 1, tag=3)
        assert dist.recv(x, 1) == 1
    else:
        into = pyapp.zeros(1, dtype="bfloat16")
        dist.recv(into, 0, tag=3)
        assert into.tolist() == [5]
        dist.send(x, 0)
    assert x.tolist() == [15]


@check
def from_all_to_all() -> None:
    """Parts of different sizes, some of them empty, dense and not; what does not fit is an error on both."""
    rank = dist.get_rank()
    parts, into = [own(1, 2), own(3, 4, 5)], [pyapp.zeros(2 + rank), pyapp.zeros(2, 2 + rank)[:, 0]]
    into[1] = pyapp.zeros(2 + rank, 2)[:, 0]
    dist.all_to_all(into, parts)
    assert [x.tolist() for x in into] == ([[1, 2], [11, 12]] if rank == 0 else [[3, 4, 5], [13, 14, 15]])
    whole, found = own(*range(6)).reshape(6, 1), pyapp.zeros(6, 2)[:, :1]
    dist.all_to_all_single(found, whole)
    first = [0, 1, 2] if rank == 0 else [3, 4, 5]
    assert found.reshape(-1).tolist() == [*first, *(10 + i for i in first)]
    sent, expected = ([1, 5], [1, 0]) if rank == 0 else ([0, 6], [5, 6])
    found = pyapp.zeros(sum(expected), 1)
    work = dist.all_to_all_single(found, whole, expected, sent, async_op=True)
    assert work is not None and work.wait()
    assert found.reshape(-1).tolist() == ([0] if rank == 0 else [1, 2, 3, 4, 5, *range(10, 16)])
    found = pyapp.zeros(6, 1)
    graph = capture(lambda: dist.all_to_all_single(found, whole * 2))
    whole.add_(1.0)
    graph.replay()
    assert found[:3].reshape(-1).tolist() == [2 * i + 2 for i in first]
    refuses(ValueError, "rank 0 sends 2 elements to rank 1, which expects 3",
            lambda: dist.all_to_all([pyapp.zeros(2 + rank)] * 2, [pyapp.zeros(2)] * 2))  # fmt: skip
    refuses(ValueError, "lists of 2 tensors", lambda: dist.all_to_all([whole], [whole]))
    refuses(ValueError, "float32 and int64", lambda: dist.all_to_all([whole] * 2, [whole.long()] * 2))
    refuses(ValueError, "not equal parts for 2", lambda: dist.all_to_all_single(found[:3], found[:3]))
    refuses(ValueError, "do not divide", lambda: dist.all_to_all_single(found[:3], found[:3], [1, 1]))


@check
def several_to_one_another() -> None:
    rank, into = dist.get_rank(), pyapp.zeros(2)
    calls = [dist.P2POp(dist.isend, own(1, 2), 1 - rank), dist.P2POp(dist.irecv, into, 1 - rank)]
    for work in dist.batch_isend_irecv(calls):
        work.wait()
    assert into.tolist() == [11 - 10 * rank, 12 - 10 * rank] and "isend" in repr(calls[0])
    refuses(ValueError, "isend or distributed.irecv", lambda: dist.P2POp(dist.send, into, 1))  # type: ignore[arg-type]
    refuses(ValueError, "at least one", lambda: dist.batch_isend_irecv([]))
    assert dist.get_node_local_rank() == rank


@check
def objects_to_one_and_from_one() -> None:
    rank = dist.get_rank()
    found: list[object] = [None, None]
    dist.gather_object({"rank": rank}, found if rank == 1 else None, dst=1)
    assert found == ([None, None] if rank == 0 else [{"rank": 0}, {"rank": 1}])
    one: list[object] = [None]
    dist.scatter_object_list(one, ["a", ("b", 2)] if rank == 0 else None)
    assert one == ["a" if rank == 0 else ("b", 2)]
    if rank == 0:
        refuses(ValueError, "2 objects on rank 0", lambda: dist.scatter_object_list(one, ["a"]))
        refuses(ValueError, "2 places on rank 0, got none", lambda: dist.gather_object(1))


@check
def smaller_groups() -> None:
    alone, both = dist.new_group([1]), dist.new_group()
    assert dist.get_rank(alone) == (-1, 0)[dist.get_rank()] and dist.get_world_size(both) == 2
    x = own(1.0)
    if dist.get_rank() == 1:
        dist.all_reduce(x, group=alone)
        dist.broadcast(x, 1, group=alone)
        assert x.tolist() == [11] and dist.get_global_rank(alone, 0) == 1
    else:
        refuses(RuntimeError, "is not in the group", lambda: dist.all_reduce(x, group=alone))
    refuses(ValueError, "different ranks", lambda: dist.new_group([0, 0]))
    dist.barrier(both)
    dist.destroy_process_group(alone)


@check
def a_graph_repeats_calls() -> None:
    rank = dist.get_rank()
    x, every = pyapp.ones(2), pyapp.zeros(2, 2)

    def step() -> Tensor:
        y = x * 2
        dist.all_reduce(y)
        dist.all_gather_into_tensor(every, y + rank)
        dist.broadcast(y, 1)
        return y + 1

    graph = capture(step)
    assert graph.outputs.tolist() == [5, 5] and every.tolist() == [[4, 4], [5, 5]]
    for value in (2.0, 3.0):
        x.assign([value + 10 * rank, value])
        assert graph.replay().tolist() == [2 * (2 * value + 10) + 1, 4 * value + 1]
        assert every.tolist() == [[4 * value + 20, 4 * value], [4 * value + 21, 4 * value + 1]]
    refuses(RuntimeError, "ends at another place", lambda: capture(lambda: dist.all_reduce(x, async_op=True)))
    refuses(RuntimeError, "waits for other processes", lambda: capture(lambda: dist.send(x, 1 - rank)))


@check
def different_calls_are_named() -> None:
    rank = dist.get_rank()
    shapes = "[2]", "[3]"
    told = f"rank {rank} calls all_reduce of {rank + 2} float32 in {shapes[rank]} by SUM, but rank {1 - rank} calls "
    refuses(ProcessError, told, lambda: dist.all_reduce(pyapp.zeros(2 + rank)))
    x = pyapp.zeros(2)
    calls = [lambda: dist.all_reduce(x), lambda: dist.broadcast(x, 0)]
    refuses(ProcessError, ("broadcast", "all_reduce")[rank], calls[rank])
    refuses(ProcessError, "float64", lambda: dist.all_reduce(x.double() if rank else x))
    dist.all_reduce(x)  # the group can be used afterwards


# -- training


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 40), nn.Linear(40, 3)
        self.unused, self.norm = nn.Linear(2, 2), nn.BatchNorm1d(40)

    def forward(self, x: Tensor, all: bool = False) -> Tensor:
        y = self.second(self.norm(self.first(x)).tanh())
        return y + self.unused(x[:, :2]).sum() if all else y


def data(count: int = 8) -> tuple[Tensor, Tensor]:
    generator = pyapp.Generator().manual_seed(5)
    return pyapp.randn(count, 6, generator=generator), pyapp.randn(count, 3, generator=generator)


def train(model: nn.Module, optimizer: optim.Optimizer, rows: slice, steps: int = 4) -> list[float]:
    x, y = data()
    losses = []
    for _ in range(steps):
        loss = ((model(x[rows]) - y[rows]) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def plain(seed: int = 1) -> nn.Module:
    pyapp.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 40), nn.Tanh(), nn.Linear(40, 40), nn.Tanh(), nn.Linear(40, 3))


def close(a: Tensor, b: Tensor, limit: float = 1e-6) -> None:
    assert (a - b).abs().max().item() <= limit, (a - b).abs().max().item()


@check
def data_parallel_training_is_that_of_one_process() -> None:
    rank = dist.get_rank()
    alone = plain()
    expected = train(alone, optim.AdamW(alone.parameters(), lr=1e-2), slice(0, 8))
    model = plain(seed=1 + rank)  # rank 0's are the parameters
    parallel = DistributedDataParallel(model, bucket_cap_mb=0.002)
    assert len(parallel._buckets) > 2 and [*parallel.state_dict()][0] == "module.0.weight"
    losses = pyapp.tensor(train(parallel, optim.AdamW(parallel.parameters(), lr=1e-2), slice(4 * rank, 4 * rank + 4)))
    dist.all_reduce(losses, dist.ReduceOp.AVG)
    close(losses, pyapp.tensor(expected))
    for a, b in zip(model.parameters(), alone.parameters(), strict=True):
        close(a, b, 1e-5)


@check
def buckets_are_sent_during_the_backward_pass() -> None:
    parallel = DistributedDataParallel(plain(), bucket_cap_mb=0.002)
    sent = []
    first: Tensor = parallel.module[0].weight
    first.register_hook(lambda _: sent.append(parallel._next))
    x, y = data()
    ((parallel(x) - y) ** 2).mean().backward()
    assert sent[0] >= 2, sent  # before the gradient of the first layer is there


@check
def gradients_add_up_without_synchronisation() -> None:
    rank = dist.get_rank()
    alone, parallel = plain(), DistributedDataParallel(plain())
    x, y = data()
    ((alone(x) - y) ** 2).mean().backward()
    rows = [slice(2 * i + 4 * rank, 2 * i + 4 * rank + 2) for i in range(2)]
    with parallel.no_sync():
        (((parallel(x[rows[0]]) - y[rows[0]]) ** 2).mean() / 2).backward()
    (((parallel(x[rows[1]]) - y[rows[1]]) ** 2).mean() / 2).backward()
    for a, b in zip(parallel.module.parameters(), alone.parameters(), strict=True):
        assert a.grad is not None and b.grad is not None
        close(a.grad, b.grad)


@check
def unused_parameters() -> None:
    x, _ = data()
    pyapp.manual_seed(3)
    strict = DistributedDataParallel(Net())
    strict(x).sum().backward()
    refuses(RuntimeError, "unused.weight", lambda: strict(x))
    pyapp.manual_seed(3)
    model = DistributedDataParallel(Net(), find_unused_parameters=True)
    model(x).sum().backward()
    assert model.module.unused.weight.grad is None and model.module.first.weight.grad is not None
    model(x, all=dist.get_rank() == 0).sum().backward()  # one process uses it
    own_grad = pyapp.full((2, 2), 0.5) * 8 * 3 * 0 + x[:, :2].sum(0) * 24 / 2
    close(model.module.unused.weight.grad, own_grad.expand(2, 2), 1e-3)


@check
def buffers_are_those_of_the_first_process() -> None:
    pyapp.manual_seed(3)
    model = DistributedDataParallel(Net(), find_unused_parameters=True)
    model(data()[0] + dist.get_rank())
    mean = model.module.norm.running_mean.clone()
    model(data()[0])
    every: list[object] = [None, None]
    dist.all_gather_object(every, model.module.norm.running_mean.tolist())
    assert every[0] == every[1] and mean.shape == (40,)


@check
def processes_with_different_parameters() -> None:
    refuses(ValueError, "different parameters",
            lambda: DistributedDataParallel(nn.Linear(3 + dist.get_rank(), 2)))  # fmt: skip


@check
def sharded_states() -> None:
    expected, model = plain(), plain()
    one = optim.AdamW(expected.parameters(), lr=1e-2)
    several = ZeroRedundancyOptimizer(model.parameters(), optim.AdamW, lr=1e-2)
    schedules = [optim.lr_scheduler.StepLR(o, 2, 0.5) for o in (one, several)]
    for _ in range(4):
        for net, optimizer, schedule in zip((expected, model), (one, several), schedules, strict=True):
            train(net, optimizer, slice(0, 8), steps=1)
            schedule.step()
    for a, b in zip(expected.parameters(), model.parameters(), strict=True):
        assert a.tolist() == b.tolist()
    assert several.optim is not None and 0 < len(several.state) < len([*model.parameters()])
    several.consolidate_state_dict(to=0)
    if dist.get_rank():
        refuses(RuntimeError, "only its part", several.state_dict)
    states: list[object] = [several.state_dict() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(states)
    again = ZeroRedundancyOptimizer(model.parameters(), optim.AdamW, lr=5.0)
    again.load_state_dict(states[0])  # type: ignore[arg-type]
    alone = optim.AdamW(expected.parameters(), lr=5.0)
    alone.load_state_dict(states[0])  # type: ignore[arg-type]
    train(expected, alone, slice(0, 8), steps=1)
    train(model, again, slice(0, 8), steps=1)
    for a, b in zip(expected.parameters(), model.parameters(), strict=True):
        assert a.tolist() == b.tolist()


@check
def parts_of_a_dataset() -> None:
    mine = DistributedSampler(range(7), seed=3)
    mine.set_epoch(2)
    every: list[list[int]] = [[], []]
    dist.all_gather_object(every, [*mine])
    assert len(every[0]) == len(every[1]) == 4 and {*every[0], *every[1]} == {*range(7)}
    short = DistributedSampler(range(7), shuffle=False, drop_last=True)
    assert [*short] == [dist.get_rank() + 2 * i for i in range(3)] and len(short) == 3


# -- models that all compute together

SETTINGS = {
    "model_type": "llama", "vocab_size": 4096, "hidden_size": 512, "intermediate_size": 1536, "num_hidden_layers": 3,
    "num_attention_heads": 8, "num_key_value_heads": 4, "tie_word_embeddings": True, "max_position_embeddings": 128,
}  # fmt: skip
SPARE = 8 << 20  # bytes that do not grow with the model


def memory(name: str) -> int:
    return next(int(line.split()[1]) << 10 for line in open("/proc/self/status") if line.startswith(name))


def load(path: Path, group: dist.ProcessGroup | None = None) -> tuple[nn.Module, int]:
    """The model of a file in float32, and how much memory grew at most while it was read."""
    before = memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    with open_checkpoint(path) as checkpoint:
        model = build(checkpoint, lambda event: None, Cancel(), SETTINGS, "float32", group=group)
    return model, memory("VmHWM") - before


@check
def a_model_in_two_processes() -> None:
    rank, path = dist.get_rank(), FOLDER / "model.safetensors"
    if rank == 0:
        pyapp.manual_seed(2)
        with skip_initialization():
            model = LlamaForCausalLM(Config.from_dict(SETTINGS))
        shapes = {name: p.shape for name, p in model.named_parameters() if name != "lm_head.weight"}
        write_safetensors(
            path, {name: pyapp.randn(*shape).half() * shape[-1] ** -0.5 for name, shape in shapes.items()}
        )
    dist.barrier()
    nn.Linear(64, 64)(pyapp.ones(1, 64))
    model, peak = load(path, dist.group_or_world(None))
    held = sum(p.nbytes for p in model.parameters())
    whole, _ = load(path)
    every = sum(p.nbytes for p in whole.parameters())
    assert held < 0.51 * every and peak < 0.6 * every + SPARE, (held, peak, every)
    check_tokens(model, whole, [5, 900, 4000, 33, 2, 71], 24)


def check_tokens(model: Any, whole: Any, text: list[int], count: int) -> None:
    """Both write the same tokens after a text, with nearly the same logits."""
    sessions = [Session(one, capacity=64) for one in (model, whole)]
    logits = [session.feed(text) for session in sessions]
    for _ in range(count):
        close(*logits, 1e-5)
        token = int(logits[1].argmax().item())
        assert int(logits[0].argmax().item()) == token
        logits = [session.step(token) for session in sessions]


@check
def mixtures_of_experts_in_two_processes() -> None:
    """Equal tokens, from prompts of more and of fewer tokens than experts are gathered for, and by a Graph."""
    for name in ("mixtral", "qwen3_moe"):
        whole, own = (make(name, 1).requires_grad_(False) for _ in range(2))
        parallelize(own, dist.group_or_world(None))
        assert sum(p.numel() for p in own.parameters()) < 0.7 * sum(p.numel() for p in whole.parameters())
        for text in ([5, 90, 4, 33, 2, 71, 8, 9, 60, 1, 12], [7, 3]):
            check_tokens(own, whole, text, 8)


@check
def wrong_arguments() -> None:
    x = pyapp.ones(2)
    refuses(TypeError, "op is one of ReduceOp, such as ReduceOp.SUM", lambda: dist.all_reduce(x, "max"))
    refuses(ArgumentError, "is this process itself", lambda: dist.send(x, dist.get_rank()))
    refuses(ArgumentError, "is this process itself", lambda: dist.recv(x, dist.get_rank()))


@check
def a_forked_process_is_not_in_the_group() -> None:
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        told = "no error"
        try:
            dist.all_reduce(pyapp.ones(2))
        except ProcessError as error:
            told = str(error)
        os.write(writing, told.encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert b"was forked" in os.read(reading, 1000)
    dist.barrier()  # the group goes on


@check
def batch_norm_over_all_processes() -> None:
    """Three and five rows: the results, gradients and statistics of one process with eight."""
    x = pyapp.randn(8, 4, 3, generator=pyapp.Generator().manual_seed(5)) * 2 + 1
    weights = pyapp.randn(8, 4, 3, generator=pyapp.Generator().manual_seed(6))
    whole = nn.Sequential(nn.Identity(), nn.BatchNorm1d(4))
    plain_x = x.clone().requires_grad_()
    expected = whole(plain_x)
    (expected * weights).sum().backward()
    rows = slice(0, 3) if dist.get_rank() == 0 else slice(3, 8)
    model = nn.SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(nn.Identity(), nn.BatchNorm1d(4)))
    assert isinstance(model[1], nn.SyncBatchNorm) and list(model.state_dict()) == list(whole.state_dict())
    own_x = x[rows].clone().requires_grad_()
    y = model(own_x)
    (y * weights[rows]).sum().backward()
    close(y, expected[rows], 1e-5)
    assert own_x.grad is not None and plain_x.grad is not None
    close(own_x.grad, plain_x.grad[rows], 1e-5)
    for name in ("running_mean", "running_var"):
        close(getattr(model[1], name), getattr(whole[1], name), 1e-5)
    grad = model[1].weight.grad.clone()  # of the rows here, which DistributedDataParallel averages
    dist.all_reduce(grad)
    close(grad, whole[1].weight.grad, 1e-4)
    close(model.eval()(x[rows]), whole.eval()(x)[rows], 1e-5)
    half = nn.SyncBatchNorm(4)((x[rows] * 300).half())  # whose squares float16 cannot hold
    assert half.dtype is pyapp.float16
    close(half.float(), expected.detach()[rows], 1e-2)
    refuses(
        ArgumentError,
        "LazyBatchNorm1d has no parameters yet",
        lambda: nn.SyncBatchNorm.convert_sync_batchnorm(nn.LazyBatchNorm1d()),
    )
    one = nn.SyncBatchNorm(4)(x[:1, :, 0])  # one value of each channel in each process
    assert one.shape == (1, 4)
    alone = nn.SyncBatchNorm.convert_sync_batchnorm(nn.BatchNorm2d(3, affine=False, track_running_stats=False))
    assert isinstance(alone, nn.SyncBatchNorm) and alone.weight is None and alone.running_mean is None


class _Tied(nn.Module):
    """Two blocks between a table and its transpose; one parameter is a number, one has fewer rows than processes."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(7, 6)
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 6)) for _ in range(2))
        self.scale = nn.Parameter(pyapp.tensor(0.5))
        self.single = nn.Parameter(pyapp.ones(1, 6))
        self.frozen = nn.Parameter(pyapp.full((3,), 0.1), requires_grad=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.table(tokens) * self.single
        for block in self.blocks:
            x = x + block(x) * self.scale + self.frozen.sum()
        return x @ self.table.weight.t()


@contextmanager
def _gathers() -> Iterator[list[bool]]:
    """Notes of each gather of whole parameters whether it was begun ahead."""
    found: list[bool] = []
    original = fully_sharded.all_gather_into_tensor

    def noted(*arguments: Any) -> Any:
        found.append(arguments[3])
        return original(*arguments)

    fully_sharded.all_gather_into_tensor = noted
    try:
        yield found
    finally:
        fully_sharded.all_gather_into_tensor = original


@check
def parameters_of_the_next_block_are_gathered_ahead() -> None:
    """From the second pass on, in forward and in the gradient; blocks in another order are gathered at their turn."""
    pyapp.manual_seed(6)
    blocks = [nn.Linear(4, 4) for _ in range(3)]
    order = [0, 1, 2]

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = nn.ModuleList(blocks)
            self.last = nn.Linear(4, 2)

        def forward(self, x: Tensor) -> Tensor:
            for i in order:
                x = self.blocks[i](x).tanh()
            return self.last(x)

    model = Model()
    whole = deepcopy(model)
    for block in blocks:
        fully_shard(block)
    fully_shard(model)
    optimizers = [optim.SGD(each.parameters(), lr=0.5) for each in (whole, model)]
    x = pyapp.randn(3, 4, requires_grad=True)
    for turns, ahead in (([0, 1, 2], 0), ([0, 1, 2], 3), ([2, 0, 1], 1), ([2, 0, 1], 3), ([2, 0], 3), ([2, 0], 2)):
        order[:] = turns
        results = []
        for each, optimizer in zip((whole, model), optimizers, strict=True):
            optimizer.zero_grad()
            with _gathers() as found:
                y = each(x)
            with _gathers() as again:
                y.square().sum().backward()
            optimizer.step()
            results.append(y.detach())
        close(results[1], results[0], 1e-6)
        # The outermost is gathered at its turn, and so is the first whose gradient is asked for.
        assert sum(found) == ahead and len(found) >= len(turns) + 1, (turns, found)
        assert again == [False, *[True] * len(turns)], (turns, again)
    for name, value in full_state_dict(model).items():
        close(value, whole.state_dict()[name], 1e-6)


@check
def parameters_in_parts_learn_as_whole_ones() -> None:
    """Losses, parameters and norms of several steps are those of one process with the whole batch, with weights that
    are freed after forward and without; states go whole from one model to the other."""
    rank = dist.get_rank()
    tokens = pyapp.tensor([[0, 1, 2, 3], [4, 5, 6, 0]])
    for again in (True, False):
        pyapp.manual_seed(5)
        whole = _Tied()
        alone = dist.new_group([0])
        pyapp.manual_seed(5)
        parts = _Tied()
        for block in parts.blocks:
            fully_shard(block, reshard_after_forward=again)
        assert fully_shard(parts, reshard_after_forward=again) is parts
        seen: list[Any] = []
        first = parts.blocks[0][0]
        first.register_forward_hook(lambda layer, *_, seen=seen: seen.append(ref(layer.weight)))
        out = parts(tokens)
        assert (seen[0]() is None) is again and first.weight.shape[0] == 3 - rank and out.requires_grad
        rows = {name: p.shape[0] for name, p in parts.named_parameters()}
        assert rows["table.weight"] == 4 - rank and rows["scale"] == rows["single"] == 1 - rank
        assert rows["blocks.0.0.weight"] == 3 - rank and rows["frozen"] == 2 - rank
        optimizers = [optim.AdamW(model.parameters(), lr=0.05) for model in (whole, parts)]
        for _ in range(3):
            norms, losses, orders = [], [], (2.0, inf, 1.0, -inf)
            for model, optimizer, rows_of in zip(
                (whole, parts), optimizers, (tokens, tokens[rank : rank + 1]), strict=True
            ):
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(model(rows_of).reshape(-1, 7), rows_of.reshape(-1))
                loss.backward()
                norms += [nn.utils.clip_grad_norm_(model.parameters(), 0.5, kind).item() for kind in orders]
                optimizer.step()
                losses.append(loss.detach())
            dist.all_reduce(losses[1], dist.ReduceOp.AVG)
            close(losses[1], losses[0], 1e-5)
            for i, order in enumerate(orders):
                assert abs(norms[i] - norms[i + len(orders)]) < 1e-4 * max(norms[i], 0.1), (order, norms)
        assert parts.table.weight.shape[0] == 4 - rank and parts.frozen.grad is None
        state = full_state_dict(parts)
        for name, value in whole.state_dict().items():
            close(state[name], value, 1e-4)
        model_state, optimizer_state = get_state_dict(parts, optimizers[1])
        folder = FOLDER / f"checkpoint-{again}"
        dist.checkpoint.save({"model": model_state, "optimizer": optimizer_state}, checkpoint_id=folder)
        if rank == 0:
            dist.checkpoint.save(get_state_dict(whole, optimizers[0])[1], checkpoint_id=f"{folder}-whole",
                                 process_group=alone)  # fmt: skip
        with pyapp.no_grad():
            expected = parts(tokens)
            for p in parts.parameters():
                p.zero_()
            load_full_state_dict(parts, state)
            assert parts(tokens).tolist() == expected.tolist()
        wrong = partial(load_full_state_dict, parts, {**state, "table.weight": pyapp.ones(3)})
        refuses(ValueError, "table.weight has the shape [7, 6]", wrong)
    refuses(ValueError, "whole parameters", lambda: optim.Muon(list(parts.blocks[0][0].parameters())[:1]))
    refuses(ValueError, "sharded already", lambda: fully_shard(parts))
    whole, parts = (plain()[0] for _ in range(2))
    fully_shard(parts)
    for layer in (whole, parts):
        layer.doubled = lambda x, layer=layer: layer(x) + layer.weight.sum() * x.mean()  # type: ignore[misc]
        register_fsdp_forward_method(layer, "doubled")
        layer.doubled(pyapp.ones(2, 6)).square().sum().backward()
    close(parts.weight.grad, parts.weight.part.of(whole.weight.grad), 1e-4)
    refuses(AttributeError, "no_such", lambda: register_fsdp_forward_method(parts, "no_such"))
    tied = _Tied()
    fully_shard(tied.table)
    refuses(ValueError, "shard the smallest module that has both", lambda: fully_shard(_also(tied.table.weight)))
    refuses(ValueError, "have different parameters: ", lambda: fully_shard(nn.Linear(2 + rank, 2)))


@check
def sharded_parameters_that_compute_in_bfloat16() -> None:
    rank = dist.get_rank()
    pyapp.manual_seed(3)
    whole = nn.Sequential(nn.Linear(5, 8), nn.GELU(), nn.Linear(8, 3))
    parts = deepcopy(whole)
    ignored = parts[2].bias
    policy = MixedPrecisionPolicy(param_dtype="bfloat16", reduce_dtype=pyapp.float32, output_dtype="float32")
    mesh = dist.init_device_mesh("cpu", (2,))
    fully_shard(parts[0], mesh=mesh, mp_policy=policy)
    fully_shard(parts, mesh=mesh, mp_policy=policy, ignored_params=[ignored])
    seen = []
    parts[0].register_forward_pre_hook(lambda layer, args: seen.extend([layer.weight.dtype, args[0].dtype]))
    parts[0].register_forward_hook(lambda layer, args, y: seen.append(y.dtype))
    x = pyapp.randn(2, 5)
    y = parts(x[rank : rank + 1])
    assert [*seen, y.dtype] == [pyapp.bfloat16, pyapp.bfloat16, pyapp.float32, pyapp.float32]
    assert parts[2].bias is ignored and ignored.shape == (3,) and parts[2].weight.shape == (2 - rank, 8)
    (y**2).sum().backward()
    low = deepcopy(whole).bfloat16()
    (low(x.bfloat16()).float() ** 2).sum().backward()
    for name, own in parts.named_parameters():
        gradient = low.get_parameter(name).grad
        assert own.dtype is own.grad.dtype is pyapp.float32 and gradient is not None
        if own is not ignored:
            wanted = own.part.of(gradient.float()) / 2
            assert (own.grad - wanted).abs().max().item() < 0.03 * gradient.float().abs().max().item(), name
    for name, value in full_state_dict(parts).items():  # not rounded to bfloat16
        assert value.dtype is pyapp.float32 and (value == whole.get_parameter(name)).all(), name
    cube = dist.init_device_mesh("cpu", (2, 1, 1))
    refuses(ValueError, "mesh of one or two dims", lambda: fully_shard(nn.Linear(2, 2), mesh=cube))


@check
def replicas_of_sharded_parameters() -> None:
    """A mesh of two dims: here two replicas of a model, each of one process."""
    pyapp.manual_seed(3)
    whole = nn.Linear(5, 3)
    parts = fully_shard(deepcopy(whole), mesh=dist.init_device_mesh("cpu", (2, 1)))
    x = pyapp.randn(2, 5)
    (parts(x[dist.get_rank()]) ** 2).sum().backward()
    (whole(x) ** 2).sum().backward()
    assert parts.weight.shape == (3, 5) and parts.weight.grad is not None and whole.weight.grad is not None
    close(parts.weight.grad * 2, whole.weight.grad, 1e-6)


@check
def tensors_that_both_processes_have() -> None:
    """The ops are tested with threads (test_dtensor.py); here a step by MPI, with the seed of rank 0."""
    rank = dist.get_rank()
    mesh = dist.init_device_mesh("cpu", (2, 1), mesh_dim_names=("tp", "dp"))
    pyapp.manual_seed(3 + rank)
    x = randn(4, 5, device_mesh=mesh["tp"], placements=[Shard(0)])
    layer = nn.Linear(5, 3)

    def part(name: str, module: nn.Module, mesh: Any) -> None:
        module.weight = distribute_tensor(module.weight, mesh, [Shard(0)])

    shared = distribute_module(layer, mesh["tp"], part)
    optimizer = optim.AdamW(shared.parameters(), lr=0.1)
    whole = nn.Linear(5, 3)
    whole.load_state_dict(full_state_dict(shared))
    other = optim.AdamW(whole.parameters(), lr=0.1)
    assert shared.weight.to_local().shape == (2 - rank, 5) and x.full_tensor().shape == (4, 5)
    (shared(x).softmax(-1) ** 2).sum().backward()
    (whole(x.full_tensor()).softmax(-1) ** 2).sum().backward()
    optimizer.step()
    other.step()
    for name, value in full_state_dict(shared).items():
        close(value, whole.state_dict()[name], 1e-5)
    y = distribute_tensor(pyapp.arange(35.0).reshape(5, 7), mesh, [Shard(1), Shard(0)])
    assert y.redistribute(placements=[Shard(0), Replicate()]).sum(0).placements == (Partial(), Replicate())
    assert y.sum().item() == 595


@check
def stages_of_a_model() -> None:
    """Large messages (which MPI sends only when the other process receives) in each direction, two stages each."""
    rank, width, count = dist.get_rank(), 256, 4
    layers = [nn.Linear(width, width) for _ in range(4)]
    state = [pyapp.sin(pyapp.arange(width * width) * (i + 1.0)).reshape(width, width) / 20 for i in range(4)]
    for layer, weight in zip(layers, state, strict=True):
        layer.load_state_dict({"weight": weight, "bias": pyapp.zeros(width)})
    x, target = pyapp.sin(pyapp.arange(128 * width)).reshape(128, width), pyapp.ones(128, width)
    loss_fn = nn.functional.mse_loss
    whole = nn.Sequential(*deepcopy(layers))
    loss_fn(whole(x), target).backward()
    halves = [nn.Sequential(*layers[:2]), nn.Sequential(*layers[2:])]
    for kind, stages in (
        (ScheduleGPipe, PipelineStage(halves[rank], rank, 2)), (Schedule1F1B, PipelineStage(halves[rank], rank, 2)),
        (ScheduleInterleaved1F1B, [PipelineStage(layers[i], i, 4) for i in (rank, rank + 2)]),
    ):  # fmt: skip
        for layer in layers:
            layer.zero_grad()
        losses: list[Tensor] = []
        schedule: Any = kind(stages, count, loss_fn=loss_fn)  # type: ignore[arg-type]
        output = schedule.step(*(() if rank else (x,)), target=target if rank else None, losses=losses)
        assert (output is None) == (losses == []) == (rank == 0)
        if output is not None:
            close(output, whole(x), 1e-4)
            close(sum(losses[1:], losses[0]) / count, loss_fn(whole(x), target), 1e-5)
        own = [rank, rank + 2] if kind is ScheduleInterleaved1F1B else [2 * rank, 2 * rank + 1]
        for i in own:
            close(layers[i].weight.grad, whole[i].weight.grad, 1e-5)


def _also(weight: Tensor) -> nn.Module:
    layer = nn.Linear(6, 7, bias=False)
    layer.weight = weight
    return layer


def main() -> None:
    global FOLDER
    folder, *chosen = sys.argv[1:]
    dist.init_process_group("gloo", timeout=60)
    FOLDER, failed = Path(folder), {}
    for name, function in CHECKS.items():
        if chosen and name not in chosen:
            continue
        try:
            function()
        except Exception:
            failed[name] = traceback.format_exc()
    Path(folder, f"{dist.get_rank()}.json").write_text(json.dumps(failed))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
