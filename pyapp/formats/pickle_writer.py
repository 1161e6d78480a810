"""Write plain data, tensors and NumPy's arrays as a pickle of protocol 2, which `safe_pickle` reads.

torch.load reads it with weights_only=True if there are no arrays in it, as with files of torch.save.

Tensors, dtypes and sizes have torch's names in the pickle. Nothing else can be written.

Source of the format: Lib/pickletools.py of CPython (the opcodes' documentation), torch/_utils.py for the tensors.
"""

from __future__ import annotations

import struct
from collections import Counter, OrderedDict
from typing import Any

from pyapp.engine.device import Device
from pyapp.engine.dtype import DType
from pyapp.engine.shape import Size
from pyapp.engine.storage import Storage
from pyapp.engine.tensor import Tensor
from pyapp.engine.user_errors import describe, warn

from .block_rows import rows_of_matrix
from .pytorch import BLOCKS, DEPTH_LIMIT, STORAGES

_STORAGES = {dtype: name for name, dtype in STORAGES.items()}
ARRAY_LIMIT = 8 << 20  # bytes of a NumPy array: the pickle itself is read whole


def _is_array(value: Any) -> bool:
    """Whether it is a NumPy array; NumPy itself may not be imported."""
    kind = type(value)
    return kind.__module__ == "numpy" and kind.__name__ == "ndarray"


class PickleWriter:
    """`write(value)` returns the pickle; `storages` then has the storages of its tensors in the order of their keys 0,
    1, …
    """

    def __init__(self) -> None:
        self.storages: list[Storage] = []
        self._keys: dict[tuple[int, int], tuple[int, str]] = {}  # of memory: its key and dtype
        self._out = bytearray()
        self._memo: dict[int, int] = {}
        self._kept: list[Any] = []  # kept alive, so that ids stay unique
        self._depth = 0

    def write(self, value: Any) -> bytes:
        """The pickle of a value. TypeError, with the name of the type, for anything but plain data; ValueError for
        containers nested more than 64 deep.
        """
        self._out += b"\x80\x02"
        self._save(value)
        self._out += b"."
        return bytes(self._out)

    def _save(self, value: Any) -> None:
        kind = type(value)
        if value is None or kind is bool:
            self._out += {None: b"N", True: b"\x88", False: b"\x89"}[value]
        elif isinstance(value, int):
            self._integer(int(value))
        elif isinstance(value, float):
            self._out += b"G" + struct.pack(">d", value)
        elif isinstance(value, str):
            self._text(str(value))
        elif kind is bytes:
            self._call("_codecs encode", value.decode("latin1"), "latin1")
        elif kind is complex:
            self._call("__builtin__ complex", value.real, value.imag)
        elif isinstance(value, DType):
            self._global(f"torch {value.name}")
        elif isinstance(value, Device):
            self._call("torch device", *([value.type] if value.index is None else [value.type, value.index]))
        elif getattr(value, "ndim", 1) == 0 and not isinstance(value, Tensor) and not _is_array(value):
            self._save(value.item())  # a NumPy scalar
        else:
            self._once(value)

    def _once(self, value: Any) -> None:
        """Writes a value that can occur twice; the second occurrence refers to the first."""
        known = self._memo.get(id(value))
        if known is not None:
            self._out += b"j" + struct.pack("<I", known)
            return
        self._depth += 1
        if self._depth > DEPTH_LIMIT:
            raise ValueError(f"save: containers are nested more than {DEPTH_LIMIT} deep")
        kind = type(value)
        if isinstance(value, Tensor):
            self._tensor(value)
        elif kind in (dict, OrderedDict):
            self._dict(value)
        elif kind is list:
            self._out += b"]"
            self._remember(value)
            self._items(value, b"e")
        elif kind is Size:
            self._call("torch Size", tuple(value))
        elif kind is tuple:
            self._items(value, b"t")
            self._remember(value)
        elif kind is Counter:
            self._call("collections Counter", dict(value))
        elif kind is set:
            self._call("__builtin__ set", list(value))
        elif kind is bytearray:
            self._call("__builtin__ bytearray", value.decode("latin1"), "latin-1")
        elif _is_array(value):
            self._array(value)
        else:
            raise TypeError(
                f"save: writes tensors, numbers, texts, and dicts, lists and tuples of them, not {kind.__name__}; "
                "of a module or optimizer save its state_dict()"
            )
        self._depth -= 1

    def _remember(self, value: Any) -> None:
        self._out += b"r" + struct.pack("<I", len(self._memo))
        self._memo[id(value)] = len(self._memo)
        self._kept.append(value)

    def _items(self, values: Any, end: bytes) -> None:
        self._out += b"("
        for value in values:
            self._save(value)
        self._out += end

    def _dict(self, value: Any) -> None:
        if type(value) is OrderedDict:
            self._call("collections OrderedDict")
        else:
            self._out += b"}"
        self._remember(value)
        self._items((part for pair in value.items() for part in pair), b"u")
        versions = getattr(value, "_metadata", None)
        if type(value) is OrderedDict and isinstance(versions, dict):  # a state_dict's
            self._save({"_metadata": versions})
            self._out += b"b"

    def _integer(self, value: int) -> None:
        if -(1 << 31) <= value < 1 << 31:
            self._out += b"J" + struct.pack("<i", value)
        else:
            data = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
            if len(data) > 16:
                raise ValueError(f"save: the integer {value!r:.40} has more than 127 bits")
            self._out += b"\x8a" + bytes([len(data)]) + data

    def _text(self, value: str) -> None:
        data = value.encode("utf-8", "surrogatepass")
        self._out += b"X" + struct.pack("<I", len(data)) + data

    def _global(self, name: str) -> None:
        self._out += b"c" + name.replace(" ", "\n").encode() + b"\n"

    def _call(self, name: str, *args: Any) -> None:
        self._global(name)
        self._items(args, b"t")
        self._out += b"R"

    def _array(self, value: Any) -> None:
        """An array by numpy.ndarray.__reduce__; its bytes are a text of latin-1, as protocol 2 has no bytes."""
        code = value.dtype.str  # "<f4", "|b1"
        if value.dtype.kind not in "biufc" or value.nbytes > ARRAY_LIMIT:
            raise TypeError(
                f"save: a NumPy array of {value.dtype} and {value.nbytes:,} bytes: arrays of numbers are written up to "
                f"{ARRAY_LIMIT:,} bytes; save from_numpy(array)"
            )
        self._global("numpy._core.multiarray _reconstruct")
        self._out += b"("
        self._global("numpy ndarray")
        self._save((0,))
        self._save(b"b")
        self._out += b"tR("
        self._integer(1)
        self._save(tuple(value.shape))
        self._call("numpy dtype", code[1:], False, True)
        self._save((3, code[0], None, None, None, -1, -1, 0))
        self._out += b"b"
        self._save(False)
        self._save(value.tobytes())
        self._out += b"tb"
        self._remember(value)

    # -- tensors

    def _tensor(self, value: Tensor) -> None:
        kind = type(value)
        if kind is not Tensor and not kind.__module__.startswith("pyapp."):
            warn(f"save: files have plain tensors, so the class {kind.__name__} of a tensor is not written")
        if value._own_part is not value:
            raise TypeError(
                "save: a DTensor is of the processes of this run: take its full_tensor(), or full_state_dict"
            )
        if value.dtype.is_quantized:
            self._blocks(value)
            return
        if value.is_parameter:
            self._global("torch._utils _rebuild_parameter")
            self._out += b"("
            if value.dense:
                self._strided(value, False)
            else:
                self._sparse(value)
            self._save(value.requires_grad)
            self._call("collections OrderedDict")
            self._out += b"tR"
        elif value.dense:
            self._strided(value, value.requires_grad)
        else:
            self._sparse(value)
        self._remember(value)

    def _sparse(self, value: Any) -> None:
        """A sparse tensor by its parts; torch does not write whether it requires a gradient."""
        kind = value.layout.name
        other = 0 if kind == "sparse_csc" else 1
        indices = [value.places] if value.pointers is None else [value.pointers, value.places[other]]
        parts = [*indices, value.elements.detach(), Size(value.shape)]
        self._kept.append(parts)
        self._global("torch._utils _rebuild_sparse_tensor")
        self._out += b"("
        self._call("torch.serialization _get_layout", f"torch.{kind}")
        self._items([*parts, value.coalesced] if kind == "sparse_coo" else parts, b"t")
        self._out += b"tR"

    def _blocks(self, value: Tensor) -> None:
        """A block-quantised matrix as a dict of plain data (block_rows.py): torch has no such types."""
        text, shape, data = rows_of_matrix(value)
        made = {BLOCKS: text, "parameter": value.is_parameter, "rows": Tensor.from_buffer(data, shape, "uint8")}
        self._dict(made)
        self._memo[id(value)] = self._memo[id(made)]
        self._kept.append(value)

    def _strided(self, value: Tensor, requires_grad: bool) -> None:
        typed = value.dtype.name in _STORAGES
        self._global("torch._utils " + ("_rebuild_tensor_v2" if typed else "_rebuild_tensor_v3"))
        self._out += b"("
        self._storage(value, typed)
        for part in (value.offset, tuple(value.shape), tuple(value.strides), requires_grad):
            self._save(part)
        self._call("collections OrderedDict")  # hooks
        if not typed:
            self._save(value.dtype)
        self._out += b"tR"

    def _storage(self, value: Tensor, typed: bool) -> None:
        memory, name = value._storage, value.dtype.name
        place = (memory.address, memory.nbytes) if memory.nbytes else (-1, id(memory))
        key, dtype = self._keys.setdefault(place, (len(self.storages), name))
        if key == len(self.storages):
            self.storages.append(memory)
        if dtype != name:
            raise ValueError(f"save: {describe(value)} shares memory with a tensor of {dtype}; save a clone() of it")
        self._out += b"("
        self._text("storage")
        self._global(f"torch {_STORAGES[name]}Storage" if typed else "torch.storage UntypedStorage")
        self._text(str(key))
        self._text("cpu")
        self._integer(memory.nbytes // value.dtype.itemsize if typed else memory.nbytes)
        self._out += b"tQ"
