"""Groups of processes by NCCL, NVIDIA's library for cards (`pip install 'pyapp[nccl]'`). Tensors of a card go from card
to card, in the order of the card's kernels; those of the host, objects and the meeting of the processes go by MPI.

Each process uses one card. Reference: the C interface of NCCL 2
(https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api.html).
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from ...errors import ProcessError
from ..dtype import DType
from ..tensor import Tensor
from .communicator import Communicator, ReduceOp, Work

_INSTALL = "Install it with pip install 'pyapp[nccl]', or use backend 'mpi'"
LIBRARY = "libnccl.so.2"
UNIQUE_ID = 128  # bytes
LEAST_VERSION = 21000  # 2.10: bfloat16 and means
# ncclDataType_t and ncclRedOp_t.
_TYPES = {
    "int8": 0, "uint8": 1, "int32": 2, "uint32": 3, "int64": 4, "uint64": 5, "float16": 6, "float32": 7, "float64": 8,
    "bfloat16": 9,
}  # fmt: skip
_OPERATIONS = {
    ReduceOp.SUM: 0, ReduceOp.PRODUCT: 1, ReduceOp.MAX: 2, ReduceOp.MIN: 3, ReduceOp.AVG: 4,
}  # fmt: skip


class UniqueId(ctypes.Structure):
    """ncclUniqueId: what the processes of a group have in common."""

    _fields_ = [("internal", ctypes.c_char * UNIQUE_ID)]


_POINTER, _SIZE, _INT = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "ncclGetVersion": (_POINTER,),
    "ncclGetUniqueId": (_POINTER,),
    "ncclCommInitRank": (_POINTER, _INT, UniqueId, _INT),
    "ncclCommDestroy": (_POINTER,),
    "ncclAllReduce": (_POINTER, _POINTER, _SIZE, _INT, _INT, _POINTER, _POINTER),
    "ncclReduce": (_POINTER, _POINTER, _SIZE, _INT, _INT, _INT, _POINTER, _POINTER),
    "ncclBroadcast": (_POINTER, _POINTER, _SIZE, _INT, _INT, _POINTER, _POINTER),
    "ncclAllGather": (_POINTER, _POINTER, _SIZE, _INT, _POINTER, _POINTER),
    "ncclReduceScatter": (_POINTER, _POINTER, _SIZE, _INT, _INT, _POINTER, _POINTER),
    "ncclSend": (_POINTER, _SIZE, _INT, _INT, _POINTER, _POINTER),
    "ncclGroupStart": (),
    "ncclGroupEnd": (),
    "ncclRecv": (_POINTER, _SIZE, _INT, _INT, _POINTER, _POINTER),
}


def load() -> Any:
    """The library: PYAPP_NCCL, else that of NVIDIA's package for Python, else of the system. ProcessError where it is
    missing or too old.
    """
    names = [os.environ.get("PYAPP_NCCL"), *_of_packages(), LIBRARY]
    library, told = None, ""
    for name in filter(None, names):
        try:
            library = ctypes.CDLL(name)
            break
        except OSError as error:
            told = str(error)
    if library is None:
        raise ProcessError(f"NCCL is not installed: {told}", where="backend 'nccl'", hint=_INSTALL)
    library.ncclGetErrorString.restype = ctypes.c_char_p
    for name, arguments in _SIGNATURES.items():
        getattr(library, name).argtypes = arguments
    return library


def _of_packages() -> list[str]:
    try:
        found = importlib.util.find_spec("nvidia.nccl")
    except ModuleNotFoundError:
        return []
    places = found.submodule_search_locations if found is not None else None
    return [str(path) for place in places or () if (path := Path(place, "lib", LIBRARY)).is_file()]


class Nccl(Communicator):
    """A group of processes with a card each. `host` are the same processes by MPI."""

    name = "nccl"

    def __init__(self, host: Communicator, library: Any) -> None:
        self.host, self._library = host, library
        self.rank, self.size, self.seconds = host.rank, host.size, host.seconds
        self._handle: ctypes.c_void_p | None = None  # of the card that was used first
        self._card: Any = None
        version = ctypes.c_int(0)
        self._call("ncclGetVersion", ctypes.byref(version))
        if version.value < LEAST_VERSION:
            raise ProcessError(
                f"NCCL has the version {version.value}, expected at least {LEAST_VERSION}", where="backend 'nccl'",
                hint=_INSTALL,
            )  # fmt: skip

    # -- the library

    def _call(self, name: str, *arguments: Any) -> None:
        status = getattr(self._library, name)(*arguments)
        if status:
            text = self._library.ncclGetErrorString(status)
            raise ProcessError(
                f"{name}: {text.decode() if text else status}", where=f"rank {self.rank}",
                hint="NCCL_DEBUG=INFO shows what NCCL does",
            )  # fmt: skip

    def _open(self, tensor: Tensor) -> tuple[Any, int]:
        """The communicator of the tensor's card, and the card's stream. All ranks make the first call together."""
        backend: Any = tensor.device.backend
        card = backend.card
        card.enter()
        backend.enter_stream()
        if self._handle is None:
            common = UniqueId()
            if self.rank == 0:
                self._call("ncclGetUniqueId", ctypes.byref(common))
            known = self.host.all_gather_bytes(bytes(common) if self.rank == 0 else b"")[0]
            handle = ctypes.c_void_p()
            self._call("ncclCommInitRank", ctypes.byref(handle), self.size, UniqueId.from_buffer_copy(known), self.rank)
            self._handle, self._card = handle, card
        elif card is not self._card:
            raise ProcessError(
                f"the group uses another card than {tensor.device}", where=f"rank {self.rank}",
                hint="Each process uses one card: that of LOCAL_RANK",
            )  # fmt: skip
        return self._handle, int(card.stream)

    def _enqueue(self, name: str, tensors: Sequence[Tensor], *arguments: Any) -> Work:
        """Puts a call into the order of the card's kernels. What follows there sees its results."""
        handle, stream = self._open(tensors[0])
        self._call(name, *(tensor.address.value for tensor in tensors), *arguments, handle, stream)
        for tensor in tensors:
            tensor._storage.version += 1
        return Work(lambda: None, lambda: True, kept=tuple(tensors))

    @staticmethod
    def _kind(dtype: DType, op: ReduceOp | None = None) -> tuple[int, ...]:
        """The codes of a dtype and of an operation. TypeError for what NCCL does not compute."""
        kind = _TYPES.get("uint8" if dtype.name == "bool" else dtype.name)
        if op is None:
            if kind is None:
                raise TypeError(f"NCCL does not carry {dtype} tensors")
            return (kind,)
        if dtype.name == "bool" and op in (ReduceOp.SUM, ReduceOp.MAX, ReduceOp.BOR):
            op = ReduceOp.MAX  # of 0 and 1: "or"
        elif dtype.name == "bool" and op in (ReduceOp.PRODUCT, ReduceOp.MIN, ReduceOp.BAND):
            op = ReduceOp.MIN
        refused = op is ReduceOp.AVG and not dtype.is_floating_point
        if kind is None or op not in _OPERATIONS or refused:
            raise TypeError(f"{op.name} of {dtype} tensors is not possible by NCCL")
        return kind, _OPERATIONS[op]

    @staticmethod
    def _on_card(tensor: Tensor) -> bool:
        return tensor.device.type != "cpu"

    # -- calls

    def all_reduce(self, tensor: Tensor, op: ReduceOp) -> Work:
        if not self._on_card(tensor):
            return self.host.all_reduce(tensor, op)
        return self._enqueue("ncclAllReduce", (tensor, tensor), tensor.numel(), *self._kind(tensor.dtype, op))

    def repeated_all_reduce(self, tensor: Tensor, op: ReduceOp) -> Callable[[], None]:
        """As Communicator.repeated_all_reduce. The host does not wait for the card."""
        if not self._on_card(tensor):
            return self.host.repeated_all_reduce(tensor, op)
        handle, stream = self._open(tensor)
        place = tensor.address.value
        kind = self._kind(tensor.dtype, op)
        return partial(self._call, "ncclAllReduce", place, place, tensor.numel(), *kind, handle, stream)

    def reduce(self, tensor: Tensor, to: int, op: ReduceOp) -> Work:
        if not self._on_card(tensor):
            return self.host.reduce(tensor, to, op)
        return self._enqueue("ncclReduce", (tensor, tensor), tensor.numel(), *self._kind(tensor.dtype, op), to)

    def broadcast(self, tensor: Tensor, source: int) -> Work:
        if not self._on_card(tensor):
            return self.host.broadcast(tensor, source)
        return self._enqueue("ncclBroadcast", (tensor, tensor), tensor.numel(), *self._kind(tensor.dtype), source)

    def all_gather(self, output: Tensor, tensor: Tensor) -> Work:
        if not self._on_card(tensor):
            return self.host.all_gather(output, tensor)
        return self._enqueue("ncclAllGather", (tensor, output), tensor.numel(), *self._kind(tensor.dtype))

    def repeated_all_gather(self, output: Tensor, tensor: Tensor) -> Callable[[], None]:
        """As Communicator.repeated_all_gather. The host does not wait for the card."""
        if not self._on_card(tensor):
            return self.host.repeated_all_gather(output, tensor)
        handle, stream = self._open(tensor)
        places = tensor.address.value, output.address.value
        return partial(self._call, "ncclAllGather", *places, tensor.numel(), *self._kind(tensor.dtype), handle, stream)

    def reduce_scatter(self, output: Tensor, tensor: Tensor, op: ReduceOp) -> Work:
        if not self._on_card(tensor):
            return self.host.reduce_scatter(output, tensor, op)
        kind = self._kind(tensor.dtype, op)
        return self._enqueue("ncclReduceScatter", (tensor, output), output.numel(), *kind)

    def send(self, tensor: Tensor, to: int, tag: int) -> Work:
        if not self._on_card(tensor):
            return self.host.send(tensor, to, tag)
        return self._enqueue("ncclSend", (tensor,), tensor.numel(), *self._kind(tensor.dtype), to)

    def receive(self, tensor: Tensor, source: int, tag: int) -> Work:
        if not self._on_card(tensor):
            return self.host.receive(tensor, source, tag)
        return self._enqueue("ncclRecv", (tensor,), tensor.numel(), *self._kind(tensor.dtype), source)

    @contextmanager
    def beside(self, tensors: Sequence[Tensor]) -> Iterator[None]:
        on_cards = [tensor for tensor in tensors if self._on_card(tensor)]
        if not on_cards:
            yield
            return
        self._open(on_cards[0])
        self._call("ncclGroupStart")
        try:
            yield
        finally:
            self._call("ncclGroupEnd")

    def barrier(self) -> Work:
        if self._card is not None:
            self._card.synchronize()
        return self.host.barrier()

    def all_gather_bytes(self, data: bytes) -> list[bytes]:
        return self.host.all_gather_bytes(data)

    def agree(self, call: str) -> None:
        self.host.agree(call)

    def announce(self, data: bytes | None) -> bytes:
        return self.host.announce(data)

    def split(self, ranks: Sequence[int]) -> Nccl | None:
        host = self.host.split(ranks)
        return None if host is None else Nccl(host, self._library)

    def close(self) -> None:
        if self._handle is not None:
            self._card.synchronize()
            self._call("ncclCommDestroy", self._handle)
            self._handle = None
        self.host.close()
