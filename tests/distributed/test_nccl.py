"""The backend "nccl", with a library that computes on the host: what is called, with which numbers, in which order."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import nn
from pyapp.engine.device import as_device
from pyapp.engine.numpy_arrays import to_bits
from pyapp.engine.processes import collectives, nccl
from pyapp.engine.processes.communicator import ReduceOp
from pyapp.engine.processes.group import ProcessGroup
from pyapp.errors import ProcessError
from pyapp.models.load import LoadedModel  # noqa: F401 (threads must not import it at once)
from pyapp.nn.fully_sharded import MixedPrecisionPolicy, fully_shard
from pyapp.nn.tensor_parallel import parallelize
from pyapp.optim import SGD
from tests.distributed.test_tensor_parallel import TEXT, written
from tests.distributed.thread_ranks import ThreadRank, in_ranks
from tests.mirror.device import Mirror
from tests.models.test_decoders import make, numbers

pytestmark = pytest.mark.native_only
STREAM, COMMUNICATOR, VERSION = 77, 0x5000, 23000
TYPES = {0: "i1", 1: "u1", 2: "i4", 4: "i8", 6: "f2", 7: "f4", 8: "f8", 9: "u2"}  # 9: the bits of bfloat16
OPERATIONS = {0: sum, 1: np.prod, 2: np.max, 3: np.min, 4: np.mean}


class FakeCard:
    """The card of the mirror."""

    stream = STREAM
    entered = waited = 0

    def enter(self) -> None:
        self.entered += 1

    def synchronize(self) -> None:
        self.waited += 1


class FakeNccl:
    """The functions of the library, over the mirror's memory. Ranks are threads, which meet at their host's barrier."""

    def __init__(self, host: ThreadRank, mirror: Mirror, version: int = VERSION) -> None:
        self.host, self.mirror, self.version = host, mirror, version
        self.calls: list[str] = []
        self.kinds: set[int] = set()
        self.sent: dict[int, np.ndarray] | None = None  # within a group of calls: by the rank that gets it
        self.received: list[tuple[int, np.ndarray]] = []

    def memory(self, address: int, count: int, kind: int) -> np.ndarray:
        self.kinds.add(kind)
        size = np.dtype(TYPES[kind]).itemsize * count
        place = (ctypes.c_ubyte * size).from_address(self.mirror.real(address, size))
        return np.frombuffer(place, TYPES[kind])

    def meet(self, name: str, address: int, count: int, kind: int, handle: Any, stream: int) -> list[np.ndarray]:
        assert stream == STREAM and handle.value == COMMUNICATOR + self.host.rank
        self.calls.append(name)
        return self.host.meet(self.memory(address, count, kind).copy())

    def ncclGetErrorString(self, status: int) -> bytes:
        return b"unhandled system error"

    def ncclGetVersion(self, into: Any) -> int:
        into._obj.value = self.version
        return 0

    def ncclGetUniqueId(self, into: Any) -> int:
        assert self.host.rank == 0
        into._obj.internal = b"common"
        return 0

    def ncclCommInitRank(self, into: Any, size: int, common: nccl.UniqueId, rank: int) -> int:
        assert (size, rank, common.internal) == (self.host.size, self.host.rank, b"common")
        into._obj.value = COMMUNICATOR + rank
        self.calls.append("init")
        return 0

    def ncclCommDestroy(self, handle: Any) -> int:
        self.calls.append("destroy")
        return 0

    def ncclAllReduce(self, a: int, b: int, count: int, kind: int, op: int, handle: Any, stream: int) -> int:
        if self.version < 0:
            return 2
        every = self.meet("all_reduce", a, count, kind, handle, stream)
        self.memory(b, count, kind)[:] = reduced(every, op)
        return 0

    def ncclReduce(self, a: int, b: int, count: int, kind: int, op: int, to: int, handle: Any, stream: int) -> int:
        every = self.meet("reduce", a, count, kind, handle, stream)
        if to == self.host.rank:
            self.memory(b, count, kind)[:] = reduced(every, op)
        return 0

    def ncclBroadcast(self, a: int, b: int, count: int, kind: int, source: int, handle: Any, stream: int) -> int:
        self.memory(b, count, kind)[:] = self.meet("broadcast", a, count, kind, handle, stream)[source]
        return 0

    def ncclAllGather(self, a: int, b: int, count: int, kind: int, handle: Any, stream: int) -> int:
        every = self.meet("all_gather", a, count, kind, handle, stream)
        self.memory(b, count * self.host.size, kind)[:] = np.concatenate(every)
        return 0

    def ncclReduceScatter(self, a: int, b: int, count: int, kind: int, op: int, handle: Any, stream: int) -> int:
        every = self.meet("reduce_scatter", a, count * self.host.size, kind, handle, stream)
        own = slice(count * self.host.rank, count * (self.host.rank + 1))
        self.memory(b, count, kind)[:] = reduced(every, op)[own]
        return 0

    def ncclGroupStart(self) -> int:
        self.sent, self.received = {}, []
        return 0

    def ncclGroupEnd(self) -> int:
        every = self.host.meet(self.sent)
        for source, place in self.received:
            place[:] = every[source][self.host.rank]
        self.sent, self.received = None, []
        self.calls.append("group")
        return 0

    def ncclSend(self, a: int, count: int, kind: int, to: int, handle: Any, stream: int) -> int:
        if self.sent is not None:
            self.sent[to] = self.memory(a, count, kind).copy()
            return 0
        self.meet("send", a, count, kind, handle, stream)
        return 0

    def ncclRecv(self, a: int, count: int, kind: int, source: int, handle: Any, stream: int) -> int:
        if self.sent is not None:
            self.received.append((source, self.memory(a, count, kind)))
            return 0
        self.memory(a, count, kind)[:] = self.meet("recv", a, count, kind, handle, stream)[source]
        return 0


def reduced(every: list[np.ndarray], op: int) -> np.ndarray:
    if every[0].dtype == np.uint16:
        wide = reduced([(bits.astype(np.uint32) << 16).view(np.float32) for bits in every], op)
        return np.asarray(to_bits(wide, pyapp.bfloat16))
    return np.asarray(sum(every) if op == 0 else OPERATIONS[op](np.stack(every), axis=0))


def on_cards(function: Callable[[ProcessGroup, FakeNccl], Any], size: int = 2) -> list[Any]:
    """`function(group, library)` in ranks whose tensors are on the mirror."""
    mirror = as_device("mirror").backend
    assert isinstance(mirror, Mirror)
    mirror.card = FakeCard()  # type: ignore[attr-defined]

    def run(group: ProcessGroup) -> Any:
        host = group.member()
        assert isinstance(host, ThreadRank)
        library = FakeNccl(host, mirror)
        return function(ProcessGroup(nccl.Nccl(host, library), range(size), "cards"), library)

    return in_ranks(size, run)


def test_calls_on_cards_and_on_the_host() -> None:
    def work(group: ProcessGroup, library: FakeNccl) -> None:
        rank = group.rank()

        def own(*values: float, dtype: str = "float32") -> pyapp.Tensor:
            return pyapp.tensor([value + 10 * rank for value in values], dtype=dtype).to("mirror")

        for op, wanted in ((ReduceOp.SUM, [12, 14]), (ReduceOp.MAX, [11, 12]), (ReduceOp.AVG, [6, 7]),
                           (ReduceOp.PRODUCT, [11, 24])):  # fmt: skip
            x = own(1, 2)
            collectives.all_reduce(x, op, group)
            assert x.tolist() == wanted
        whole = own(1, 2, 3)[1:]
        collectives.all_reduce(whole, group=group)
        assert whole.tolist() == [14, 16]
        flags = pyapp.tensor([True, rank == 0, False]).to("mirror")
        collectives.all_reduce(flags, group=group)
        assert flags.tolist() == [True, True, False]
        x = own(5, dtype="int64")
        collectives.broadcast(x, 1, group)
        assert x.tolist() == [15]
        every = pyapp.zeros(2, 2).to("mirror")
        collectives.all_gather_into_tensor(every, own(1, 2), group)
        assert every.tolist() == [[1, 2], [11, 12]]
        part = pyapp.zeros(1).to("mirror")
        collectives.reduce_scatter_tensor(part, own(1, 2), group=group)
        assert part.tolist() == [12 + 2 * rank]
        collectives.reduce(x := own(3), 0, group=group)
        assert rank or x.tolist() == [16]
        with pytest.raises(TypeError, match="BXOR of .*int32 tensors is not possible by NCCL"):
            collectives.all_reduce(own(1, dtype="int32"), ReduceOp.BXOR, group)
        if rank:
            collectives.recv(x, 0, group)
            assert x.tolist() == [7]
        else:
            collectives.send(own(7), 1, group)
        into = [pyapp.zeros(1 + rank).to("mirror"), pyapp.zeros(1 + rank).to("mirror")]
        collectives.all_to_all(into, [own(1), own(2, 3)], group)
        assert [x.tolist() for x in into] == ([[1], [11]] if rank == 0 else [[2, 3], [12, 13]])
        assert library.calls[-1] == "group"
        before = len(library.calls)
        host = pyapp.tensor([1.0])
        collectives.all_reduce(host, group=group)
        assert host.tolist() == [2] and len(library.calls) == before
        collectives.barrier(group)
        group.member().close()
        assert library.calls.count("init") == 1 and library.calls[-1] == "destroy"

    on_cards(work)


def test_a_model_on_cards_is_that_of_one_process() -> None:
    alone = make("llama", 1)
    alone.requires_grad_(False)
    tokens, logits = written(alone)

    def work(group: ProcessGroup, library: FakeNccl) -> None:
        model = parallelize(make("llama", 1).requires_grad_(False), group).to("mirror")
        own, steps = written(model)
        assert own == tokens and np.abs(steps - logits).max() < 1e-5
        assert set(library.calls) == {"init", "all_reduce", "all_gather"}
        with pyapp.no_grad():
            numbers(model(pyapp.tensor([TEXT]).to("mirror")))

    on_cards(work)


def trained(model: nn.Module, rows: slice, device: str) -> list[float]:
    """The losses of two steps with some of two texts."""
    ids = pyapp.tensor([TEXT, TEXT[::-1]][rows]).to(device)
    optimizer, losses = SGD(model.parameters(), lr=0.1), []
    for _ in range(2):
        optimizer.zero_grad()
        logits = model(ids[:, :-1]).float()
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("way", ["tensors", "float32", "bfloat16"])
def test_training_on_cards_is_that_of_one_process(way: str) -> None:
    """Divided tensors; parameters of which each process keeps a part, whose gradients are sums of what all have."""
    alone = trained(make("llama", 1), slice(2), "cpu")

    def work(group: ProcessGroup, library: FakeNccl) -> list[float]:
        model = make("llama", 1)
        if way == "tensors":
            return trained(parallelize(model, group, training=True).to("mirror"), slice(2), "mirror")
        fully_shard(model.to("mirror"), process_group=group, mp_policy=MixedPrecisionPolicy(way))
        rank = group.rank()
        found = trained(model, slice(rank, rank + 1), "mirror")
        assert "reduce_scatter" in library.calls and library.kinds == {9 if way == "bfloat16" else 7}
        return found

    found = np.mean(on_cards(work), 0)
    np.testing.assert_allclose(found, alone, rtol=2e-6 if way != "bfloat16" else 3e-3)


def test_failures_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def old(group: ProcessGroup) -> None:
        with pytest.raises(ProcessError, match="version 2900, expected at least"):
            nccl.Nccl(group.member(), FakeNccl(group.member(), None, 2900))  # type: ignore[arg-type]

    in_ranks(1, old)

    def broken(group: ProcessGroup, library: FakeNccl) -> None:
        library.version = -1
        with pytest.raises(ProcessError, match="ncclAllReduce: unhandled system error"):
            collectives.all_reduce(pyapp.ones(2).to("mirror"), group=group)

    on_cards(broken)
    if sys.platform == "linux":
        monkeypatch.setenv("PYAPP_NCCL", str(tmp_path / "nothing.so"))
        monkeypatch.setattr(nccl, "LIBRARY", "libnccl-nothing.so")
        monkeypatch.setattr(nccl, "_of_packages", list)
        with pytest.raises(ProcessError, match="NCCL is not installed"):
            nccl.load()
        with pytest.raises(ProcessError, match="NCCL is not installed"):
            pyapp.distributed.init_process_group("nccl")
        assert not pyapp.distributed.is_nccl_available()
