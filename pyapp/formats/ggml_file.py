"""Base of the readers of GGML's files: types of tensors by their numbers, and reading tensors."""

from __future__ import annotations

from pyapp.engine.blocks.layout import READABLE
from pyapp.engine.device import Device
from pyapp.engine.dtype import DTYPES
from pyapp.engine.tensor import Tensor
from pyapp.errors import FileFormatError

from .block_tensors import read_blocks
from .checkpoint import Checkpoint, TensorInfo
from .dense_tensors import read_dense
from .source import ByteSource

RANK_LIMIT = 4  # as in ggml
# Type codes: name in pyapp, values in a block, bytes of a block.
TENSOR_TYPES: dict[int, tuple[str, int, int]] = {
    0: ("float32", 1, 4),
    1: ("float16", 1, 2),
    24: ("int8", 1, 1),
    25: ("int16", 1, 2),
    26: ("int32", 1, 4),
    27: ("int64", 1, 8),
    28: ("float64", 1, 8),
    30: ("bfloat16", 1, 2),
}
TENSOR_TYPES |= {block.code: (name, block.values, block.nbytes) for name, block in READABLE.items()}
TYPE_CODES = {name: code for code, (name, _, _) in TENSOR_TYPES.items()}


class GgmlFile(Checkpoint):
    """A file whose tensors have GGML's types. A subclass stores the place of each tensor (begin, bytes), counted from
    byte `_start`, in `_begins`.
    """

    def __init__(self, source: ByteSource) -> None:
        super().__init__(source)
        self._start = 0
        self._begins: dict[str, tuple[int, int]] = {}

    def read_bytes(self, name: str) -> bytes | memoryview:
        begin, nbytes = self._begins[name]
        return self.source.read(self._start + begin, nbytes)

    def _place(self, name: str) -> tuple[ByteSource, int, int]:
        begin, nbytes = self._begins[name]
        return self.source, self._start + begin, nbytes

    def _read(self, info: TensorInfo, finite: bool, device: Device | None) -> Tensor:
        begin = self._start + self._begins[info.name][0]
        if info.dtype in READABLE:
            return read_blocks(self.source, begin, info, finite, device)
        if info.dtype in DTYPES:
            return read_dense(self.source, begin, info, finite, device)
        raise FileFormatError(
            f"tensor {info.name[:100]!r} is {info.dtype}, which pyapp cannot read",
            where=self.source.name,
            hint=f"Use a file in another quantisation: {', '.join(READABLE)}",
        )
