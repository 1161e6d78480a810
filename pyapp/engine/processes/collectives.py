"""Calls of a group of processes on tensors, by torch.distributed's names. All ranks of the group call the same function
in the same order, with tensors of the same shape and dtype.

They change tensors in place, and record no gradients. With `async_op` a call returns a Work at once; the tensors must
be left alone until its `wait`. Without it, ranks that make different calls get an error that names both, and a Graph
that is being recorded repeats the call. `src` and `dst` are numbers among all ranks, also for smaller groups.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import Any

from ...errors import ArgumentError, ProcessError
from ..autograd import no_grad
from ..device import Device
from ..launch import run_in_order, stop_capture
from ..ops import cat, empty
from ..tensor import Tensor
from ..user_errors import describe
from .communicator import Communicator, ReduceOp, Work, all_of
from .group import ProcessGroup, group_or_world

__all__ = [
    "P2POp", "all_gather", "all_gather_into_tensor", "all_gather_object", "all_reduce", "all_to_all",
    "all_to_all_single", "barrier", "batch_isend_irecv", "broadcast", "broadcast_object_list", "gather",
    "gather_object", "irecv", "isend", "recv", "reduce", "reduce_scatter", "reduce_scatter_tensor", "scatter",
    "scatter_object_list", "send",
]  # fmt: skip

ALL_TO_ALL = 32001  # the tag of its parts
TAGS = 32000  # of send and recv: below those of MPI's own use here


def _communicator(group: ProcessGroup | None) -> Communicator:
    return group_or_world(group).member()


def _unrecorded(name: str, group: ProcessGroup | None) -> Communicator:
    """The communicator for a call that no Graph can repeat."""
    stop_capture(f"{name} waits for other processes")
    return _communicator(group)


def _check(name: str, *tensors: Any, op: ReduceOp = ReduceOp.SUM) -> None:
    if not isinstance(op, ReduceOp):
        raise TypeError(f"{name}: op is one of ReduceOp, such as ReduceOp.SUM, got {describe(op)}")
    for tensor in tensors:
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{name} takes tensors, got {describe(tensor)}")
        if tensor.dtype.is_quantized:
            raise TypeError(f"{name} takes dense tensors, got {describe(tensor)}")


def _same(name: str, tensors: Sequence[Tensor], like: Tensor, count: int) -> None:
    if len(tensors) != count:
        raise ArgumentError(f"{name} takes a list of {count} tensors, one for each rank, got {len(tensors)}")
    for tensor in tensors:
        if tensor._shape != like._shape or tensor.dtype is not like.dtype:
            raise ArgumentError(f"{name}: the tensors are {describe(tensor)} and {describe(like)}, expected the same")


def _parts(name: str, whole: Tensor, part: Tensor, count: int) -> None:
    if whole.numel() != count * part.numel() or whole.dtype is not part.dtype:
        raise ArgumentError(f"{name}: {describe(whole)} has not the elements of {count} ranks of {describe(part)} each")


def _run(
    name: str, caller: Communicator, async_op: bool, like: str, tensors: Sequence[Tensor], begin: Callable[[], Work]
) -> Work | None:
    """Begins a call. Without `async_op`, compares with the other ranks that it is the same (`like` says what must be
    so), and waits for its end.
    """
    if async_op:
        stop_capture(f"{name} with async_op ends at another place")
        return begin()

    def call() -> None:
        begin().wait()

    caller.agree(f"{name} of {like}")
    run_in_order(lambda: call, tuple(tensors))
    return None


def _like(tensor: Tensor) -> str:
    """What must be the same on all ranks."""
    return f"{tensor.numel():,} {tensor.dtype.name} in {list(tensor.shape)}"


def _in_place(tensor: Tensor, call: Callable[[Tensor], Work]) -> Work:
    """Calls with the tensor, or with a dense copy of it that is written back."""
    own = tensor.detach()
    if own.is_contiguous():
        return call(own)
    dense = own.contiguous()

    def write_back() -> None:
        with no_grad():
            own.copy_(dense)

    return call(dense).then(write_back)


def all_reduce(
    tensor: Tensor, op: ReduceOp = ReduceOp.SUM, group: ProcessGroup | None = None, async_op: bool = False
) -> Work | None:
    """Replaces the tensor of each rank by the sum (or another reduction) of those of all ranks."""
    _check("all_reduce", tensor, op=op)
    caller = _communicator(group)
    return _run(
        "all_reduce", caller, async_op, f"{_like(tensor)} by {op.name}", [tensor],
        lambda: _in_place(tensor, lambda dense: caller.all_reduce(dense, op)),
    )  # fmt: skip


def reduce(
    tensor: Tensor, dst: int, op: ReduceOp = ReduceOp.SUM, group: ProcessGroup | None = None, async_op: bool = False
) -> Work | None:
    """As all_reduce, for rank `dst` alone; what the tensors of the others then hold is not defined."""
    _check("reduce", tensor, op=op)
    caller, to = _communicator(group), group_or_world(group).index_of(dst)
    return _run(
        "reduce", caller, async_op, f"{_like(tensor)} by {op.name} to {dst}", [tensor],
        lambda: _in_place(tensor, lambda dense: caller.reduce(dense, to, op)),
    )  # fmt: skip


def broadcast(tensor: Tensor, src: int, group: ProcessGroup | None = None, async_op: bool = False) -> Work | None:
    """Copies the tensor of rank `src` to all ranks."""
    _check("broadcast", tensor)
    caller, source = _communicator(group), group_or_world(group).index_of(src)
    return _run(
        "broadcast", caller, async_op, f"{_like(tensor)} from {src}", [tensor],
        lambda: _in_place(tensor, lambda dense: caller.broadcast(dense, source)),
    )  # fmt: skip


def all_gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, group: ProcessGroup | None = None, async_op: bool = False
) -> Work | None:
    """The tensors of all ranks, one after the other, in `output_tensor`, which has as many elements as all of them."""
    name = "all_gather_into_tensor"
    _check(name, output_tensor, input_tensor)
    caller = _communicator(group)
    _parts(name, output_tensor, input_tensor, caller.size)
    return _run(
        name, caller, async_op, _like(input_tensor), [output_tensor, input_tensor],
        lambda: _in_place(output_tensor, lambda dense: caller.all_gather(dense, input_tensor.detach().contiguous())),
    )  # fmt: skip


def all_gather(
    tensor_list: Sequence[Tensor], tensor: Tensor, group: ProcessGroup | None = None, async_op: bool = False
) -> Work | None:
    """Writes the tensor of rank i to tensor_list[i], on every rank."""
    _check("all_gather", tensor, *tensor_list)
    caller = _communicator(group)
    _same("all_gather", tensor_list, tensor, caller.size)

    def begin() -> Work:
        every = empty(caller.size, *tensor._shape, dtype=tensor.dtype, device=tensor.device)  # (ranks, …)
        work = caller.all_gather(every, tensor.detach().contiguous())
        return work.then(lambda: _spread(every, tensor_list))

    return _run("all_gather", caller, async_op, _like(tensor), [*tensor_list, tensor], begin)


def _spread(every: Tensor, tensors: Sequence[Tensor]) -> None:
    with no_grad():
        for i, tensor in enumerate(tensors):
            tensor.detach().copy_(every.select(0, i))


def reduce_scatter_tensor(
    output: Tensor, input: Tensor, op: ReduceOp = ReduceOp.SUM, group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:  # fmt: skip
    """The reduction of the `input` of all ranks, of which rank i gets part i in `output`."""
    name = "reduce_scatter_tensor"
    _check(name, output, input, op=op)
    caller = _communicator(group)
    _parts(name, input, output, caller.size)
    return _run(
        name, caller, async_op, f"{_like(input)} by {op.name}", [output, input],
        lambda: _in_place(output, lambda dense: caller.reduce_scatter(dense, input.detach().contiguous(), op)),
    )  # fmt: skip


def reduce_scatter(
    output: Tensor, input_list: Sequence[Tensor], op: ReduceOp = ReduceOp.SUM, group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:  # fmt: skip
    """The reduction of input_list[i] of all ranks, in the `output` of rank i."""
    _check("reduce_scatter", output, *input_list, op=op)
    _same("reduce_scatter", input_list, output, _communicator(group).size)
    with no_grad():
        whole = cat([tensor.detach().reshape(-1) for tensor in input_list])
    return reduce_scatter_tensor(output, whole, op, group, async_op)


def all_to_all(
    output_tensor_list: Sequence[Tensor], input_tensor_list: Sequence[Tensor], group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:  # fmt: skip
    """Writes input_tensor_list[j] of rank i to output_tensor_list[i] of rank j, which has as many elements. They may be
    of different sizes; all have one dtype."""
    name = "all_to_all"
    outputs, inputs = list(output_tensor_list), list(input_tensor_list)
    _check(name, *outputs, *inputs)
    caller = _communicator(group)
    for tensors in (outputs, inputs):
        if len(tensors) != caller.size:
            raise ArgumentError(f"{name} takes lists of {caller.size} tensors, one for each rank, got {len(tensors)}")
    return _run_parts(name, caller, async_op, outputs, inputs, lambda: _exchange(caller, outputs, inputs))


def all_to_all_single(
    output: Tensor, input: Tensor, output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None, group: ProcessGroup | None = None, async_op: bool = False,
) -> Work | None:  # fmt: skip
    """all_to_all with the parts of two tensors along their first dim, which have these sizes; by default equal ones."""
    name = "all_to_all_single"
    _check(name, output, input)
    caller = _communicator(group)
    into = _parted(name, output, output_split_sizes, caller.size)
    sent = _parted(name, input, input_split_sizes, caller.size)

    def begin() -> Work:
        parts = input.detach().contiguous().split(sent)
        return _in_place(output, lambda dense: _exchange(caller, dense.split(into), parts))

    outputs, inputs = output.detach().split(into), input.detach().split(sent)
    return _run_parts(name, caller, async_op, outputs, inputs, begin)


def _run_parts(
    name: str, caller: Communicator, async_op: bool, outputs: Sequence[Tensor], inputs: Sequence[Tensor],
    begin: Callable[[], Work],
) -> Work | None:  # fmt: skip
    """As _run, of parts for and from each rank. ArgumentError for several dtypes, and without `async_op`, on all ranks,
    where one sends more or less than another expects."""
    dtypes = sorted({x.dtype.name for x in (*outputs, *inputs)})
    if len(dtypes) > 1:
        raise ArgumentError(f"{name} takes tensors of one dtype, not of {' and '.join(dtypes)}")
    if not async_op:
        _fit(name, caller, [x.numel() for x in outputs], [x.numel() for x in inputs])
    return _run(name, caller, async_op, f"{dtypes[0]} tensors", [*outputs, *inputs], begin)


def _parted(name: str, tensor: Tensor, sizes: Sequence[int] | None, count: int) -> list[int]:
    """The sizes of a tensor's parts for each rank. ArgumentError where they are not all of it."""
    rows = tensor._shape[0] if tensor.ndim else 0
    if sizes is None or not len(sizes):
        if rows % count:
            raise ArgumentError(f"{name}: the {rows} rows of {describe(tensor)} are not equal parts for {count} ranks")
        return [rows // count] * count
    if len(sizes) != count or min(sizes) < 0 or sum(sizes) != rows:
        raise ArgumentError(f"{name}: the sizes {list(sizes)} do not divide {describe(tensor)} among {count} ranks")
    return [int(size) for size in sizes]


def _fit(name: str, caller: Communicator, outputs: list[int], inputs: list[int]) -> None:
    """Compares what each rank sends with what the others expect. ArgumentError, on all ranks, where they differ."""
    every = [pickle.loads(data) for data in caller.all_gather_bytes(pickle.dumps((outputs, inputs)))]
    for i, (_, sent) in enumerate(every):
        for j, (expected, _) in enumerate(every):
            if sent[j] != expected[i]:
                raise ArgumentError(
                    f"{name}: rank {i} sends {sent[j]:,} elements to rank {j}, which expects {expected[i]:,}"
                )


def _exchange(caller: Communicator, outputs: Sequence[Tensor], inputs: Sequence[Tensor]) -> Work:
    """Begins to send and to receive every part."""
    here = caller.rank
    others = [i for i in range(caller.size) if i != here]
    sent = {i: inputs[i].detach().contiguous() for i in others if inputs[i].numel()}
    with no_grad():
        outputs[here].detach().copy_(inputs[here].detach().reshape(outputs[here]._shape))
    works = []
    with caller.beside([*sent.values(), *(outputs[i] for i in others)]):
        for i in others:
            if i in sent:
                works.append(caller.send(sent[i], i, ALL_TO_ALL))
            if outputs[i].numel():
                works.append(_in_place(outputs[i], lambda dense, i=i: caller.receive(dense, i, ALL_TO_ALL)))  # type: ignore[misc]
    return all_of(works)


def isend(tensor: Tensor, dst: int, group: ProcessGroup | None = None, tag: int = 0) -> Work:
    """Begins to send a tensor to rank `dst`."""
    _check("send", tensor)
    caller, to = _unrecorded("send", group), _other("send", dst, group)
    return caller.send(tensor.detach().contiguous(), to, _tag(tag))


def irecv(tensor: Tensor, src: int, group: ProcessGroup | None = None, tag: int = 0) -> Work:
    """Begins to receive a tensor of the same shape and dtype from rank `src`."""
    _check("recv", tensor)
    caller, source = _unrecorded("recv", group), _other("recv", src, group)
    return _in_place(tensor, lambda dense: caller.receive(dense, source, _tag(tag)))


def send(tensor: Tensor, dst: int, group: ProcessGroup | None = None, tag: int = 0) -> None:
    """Sends a tensor to rank `dst`, which calls `recv`."""
    isend(tensor, dst, group, tag).wait()


def recv(tensor: Tensor, src: int, group: ProcessGroup | None = None, tag: int = 0) -> int:
    """Receives the tensor that rank `src` sends, and returns `src`."""
    irecv(tensor, src, group, tag).wait()
    return src


class P2POp:
    """A call of `isend` or `irecv` for `batch_isend_irecv`. `peer`: the rank that it sends to or receives from.

    ValueError for another function.
    """

    def __init__(
        self, op: Callable[..., Work], tensor: Tensor, peer: int, group: ProcessGroup | None = None, tag: int = 0
    ) -> None:
        if op not in (isend, irecv):
            raise ArgumentError("P2POp: op is distributed.isend or distributed.irecv")
        _check("P2POp", tensor)
        self.op, self.tensor, self.peer, self.group, self.tag = op, tensor, peer, group, tag

    def __repr__(self) -> str:
        return f"P2POp({self.op.__name__}, {describe(self.tensor)}, rank {self.peer})"


def batch_isend_irecv(p2p_op_list: Sequence[P2POp]) -> list[Work]:
    """Begins to send and to receive several tensors, side by side: their order does not matter, so ranks that send to
    each other do not wait for one another. All are of one group."""
    calls = list(p2p_op_list)
    if not calls or any(not isinstance(call, P2POp) for call in calls):
        raise ArgumentError("batch_isend_irecv takes a list of P2POp, at least one")
    group = group_or_world(calls[0].group)
    if any(group_or_world(call.group) is not group for call in calls):
        raise ArgumentError("batch_isend_irecv: all calls are of one group")
    with _unrecorded("batch_isend_irecv", group).beside([call.tensor for call in calls]):
        return [call.op(call.tensor, call.peer, call.group, call.tag) for call in calls]


def _other(name: str, rank: int, group: ProcessGroup | None) -> int:
    """The place in the group of another rank than this one."""
    found = group_or_world(group)
    place = found.index_of(rank)
    if place == found.rank():
        raise ArgumentError(f"{name}: rank {rank} is this process itself")
    return place


def _tag(tag: int) -> int:
    if not 0 <= tag < TAGS:
        raise ArgumentError(f"send and recv: a tag is from 0 to {TAGS - 1}, not {tag}")
    return tag


def gather(
    tensor: Tensor, gather_list: Sequence[Tensor] | None = None, dst: int = 0, group: ProcessGroup | None = None
) -> None:
    """Writes the tensor of rank i to gather_list[i] of rank `dst`; the others give no list."""
    _check("gather", tensor, *(gather_list or ()))
    caller, to = _unrecorded("gather", group), group_or_world(group).index_of(dst)
    if caller.rank != to:
        caller.send(tensor.detach().contiguous(), to, TAGS).wait()
        return
    _same("gather", gather_list or (), tensor, caller.size)
    assert gather_list is not None
    works = [
        _in_place(into, lambda dense, i=i: caller.receive(dense, i, TAGS))  # type: ignore[misc]
        for i, into in enumerate(gather_list) if i != to
    ]  # fmt: skip
    with no_grad():
        gather_list[to].detach().copy_(tensor.detach())
    for work in works:
        work.wait()


def scatter(
    tensor: Tensor, scatter_list: Sequence[Tensor] | None = None, src: int = 0, group: ProcessGroup | None = None
) -> None:
    """Writes scatter_list[i] of rank `src` to the tensor of rank i; the others give no list."""
    _check("scatter", tensor, *(scatter_list or ()))
    caller, source = _unrecorded("scatter", group), group_or_world(group).index_of(src)
    if caller.rank != source:
        _in_place(tensor, lambda dense: caller.receive(dense, source, TAGS)).wait()
        return
    _same("scatter", scatter_list or (), tensor, caller.size)
    assert scatter_list is not None
    works = [
        caller.send(given.detach().contiguous(), i, TAGS) for i, given in enumerate(scatter_list) if i != source
    ]  # fmt: skip
    with no_grad():
        tensor.detach().copy_(scatter_list[source].detach())
    for work in works:
        work.wait()


def barrier(group: ProcessGroup | None = None, async_op: bool = False) -> Work | None:
    """Waits until every rank of the group has come here."""
    caller = _communicator(group)
    return _run("barrier", caller, async_op, "all ranks", [], caller.barrier)


def all_gather_object(object_list: list[Any], obj: Any, group: ProcessGroup | None = None) -> None:
    """Writes the object of rank i to object_list[i], on every rank. Objects are pickled: all ranks must be trusted."""
    caller = _unrecorded("all_gather_object", group)
    if len(object_list) != caller.size:
        raise ArgumentError(f"all_gather_object takes a list of {caller.size} places, got {len(object_list)}")
    object_list[:] = [pickle.loads(data) for data in caller.all_gather_bytes(pickle.dumps(obj))]


def gather_object(
    obj: Any, object_gather_list: list[Any] | None = None, dst: int = 0, group: ProcessGroup | None = None
) -> None:
    """Writes the object of rank i to object_gather_list[i] of rank `dst`; the others give no list. Objects are pickled,
    as by all_gather_object."""
    caller, to = _unrecorded("gather_object", group), group_or_world(group).index_of(dst)
    if caller.rank == to and (object_gather_list is None or len(object_gather_list) != caller.size):
        given = "none" if object_gather_list is None else len(object_gather_list)
        raise ArgumentError(f"gather_object takes a list of {caller.size} places on rank {dst}, got {given}")
    every = caller.all_gather_bytes(pickle.dumps(obj))
    if caller.rank == to and object_gather_list is not None:
        object_gather_list[:] = [pickle.loads(data) for data in every]


def scatter_object_list(
    scatter_object_output_list: list[Any], scatter_object_input_list: Sequence[Any] | None = None, src: int = 0,
    group: ProcessGroup | None = None,
) -> None:  # fmt: skip
    """Writes scatter_object_input_list[i] of rank `src` to the first place of the other list of rank i. Objects are
    pickled, as by all_gather_object."""
    caller, source = _unrecorded("scatter_object_list", group), group_or_world(group).index_of(src)
    if not scatter_object_output_list:
        raise ArgumentError("scatter_object_list: the list for the result has no place")
    given = list(scatter_object_input_list or ())
    if caller.rank == source and len(given) != caller.size:
        raise ArgumentError(
            f"scatter_object_list takes a list of {caller.size} objects on rank {src}, got {len(given)}"
        )
    data = pickle.dumps([pickle.dumps(obj) for obj in given]) if caller.rank == source else b""
    scatter_object_output_list[0] = pickle.loads(pickle.loads(caller.all_gather_bytes(data)[source])[caller.rank])


def broadcast_object_list(
    object_list: list[Any], src: int = 0, group: ProcessGroup | None = None, device: Device | str | None = None
) -> None:
    """Copies the objects in the list of rank `src` to those of all ranks. They are pickled, as by all_gather_object."""
    caller, source = _unrecorded("broadcast_object_list", group), group_or_world(group).index_of(src)
    data = pickle.dumps(list(object_list)) if caller.rank == source else b""
    found = pickle.loads(caller.all_gather_bytes(data)[source])
    if len(found) != len(object_list):
        raise ProcessError(
            f"the list has {len(object_list)} places, that of rank {src} has {len(found)}",
            where="broadcast_object_list",
        )
    object_list[:] = found
