"""A checkpoint whose quantised matrices are read under their usual names, and what the readers of methods share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import prod
from typing import TYPE_CHECKING, Any

from pyapp.dataclass import dataclass
from pyapp.engine.lazy import np
from pyapp.errors import ModelError
from pyapp.formats.checkpoint import Checkpoint, TensorInfo

from .numbers import Numbers, filled

if TYPE_CHECKING:
    from pyapp.engine.blocks.layout import Array
    from pyapp.engine.device import Device
    from pyapp.engine.tensor import Tensor

HINT = "Download the files again; if they are whole, another program wrote them in a form of its own"
_NUMPY = {"int32": "<i4", "uint32": "<i4", "uint8": "u1", "int8": "i1", "int64": "<i8"}


@dataclass(frozen=True)
class Weight:
    """A quantised matrix, or stack of matrices, of a file: its name and shape as a tensor, the float type of 16 bits
    that it becomes where no block type holds its numbers, the tensors that it is made of, and what reads these.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    parts: tuple[str, ...]
    numbers: Callable[[], Numbers]


class QuantisedCheckpoint(Checkpoint):
    """A view of a checkpoint in which `weights` are tensors, and their parts and `unread` are not.

    `tensors` list a weight as floats; `read` gives a matrix in a block type where one holds each of its numbers
    (numbers.exact_type), else in the listed type. One tensor is in memory at a time.
    """

    def __init__(self, inner: Checkpoint, weights: Iterable[Weight], unread: Iterable[str] = ()) -> None:
        super().__init__(inner.source)
        self.inner, self.format = inner, inner.format
        self.config, self.metadata = inner.config, inner.metadata
        if hasattr(inner, "values"):  # of GGUF
            self.values = inner.values
        self._weights = {weight.name: weight for weight in weights}
        hidden = {part for weight in self._weights.values() for part in weight.parts} | set(unread)
        self.tensors = {name: info for name, info in inner.tensors.items() if name not in hidden}
        for name, weight in self._weights.items():
            expect(0 not in weight.shape, inner, weight.parts[0], "are empty")
            size = sum(inner.tensors[part].nbytes for part in weight.parts)
            self.tensors[name] = TensorInfo(name, weight.dtype, weight.shape, size)

    @property
    def size(self) -> int:
        return self.inner.size

    def _read(self, info: TensorInfo, finite: bool, device: Device | None) -> Tensor:
        weight = self._weights.get(info.name)
        if weight is None:
            return self.inner._read(info, finite, device)
        where = self.source.name if finite else None
        tensor = filled(weight.numbers(), weight.name, weight.dtype, device, where)
        for part in weight.parts:
            self.inner.forget(part)
        return tensor if tensor.dtype.is_quantized else tensor.reshape(weight.shape)

    def read_bytes(self, name: str) -> bytes | memoryview:
        if name not in self._weights:
            return self.inner.read_bytes(name)
        tensor = self.read(name).to(self._weights[name].dtype)
        return bytes(tensor._storage.read(0, tensor.nbytes))

    def _place(self, name: str) -> Any:
        return None if name in self._weights else self.inner._place(name)

    def forget(self, name: str) -> None:
        for part in self._weights[name].parts if name in self._weights else (name,):
            self.inner.forget(part)

    def close(self) -> None:
        self.inner.close()


# -- helpers of the methods


def whole_numbers(checkpoint: Checkpoint, name: str) -> Array:
    """A tensor of integers in its shape, in the file's memory."""
    info = checkpoint.tensors[name]
    return np.frombuffer(checkpoint.read_bytes(name), _NUMPY[info.dtype]).reshape(info.shape)


def floats(checkpoint: Checkpoint, name: str, finite: bool = True) -> Array:
    """A tensor of floats as float32, in its shape. ModelError for NaN and infinity."""
    found: Array = checkpoint.read(name, finite=finite).to("float32").numpy()
    return found


def expect(condition: bool, checkpoint: Checkpoint, name: str, what: str) -> None:
    """ModelError about the tensor `name` unless the condition holds; `what` ends the sentence."""
    if not condition:
        info = checkpoint.tensors[name]
        raise ModelError(
            f"the quantised weights {name!r:.120} ({info.dtype} {list(info.shape)}) {what}",
            where=checkpoint.source.name, hint=HINT,
        )  # fmt: skip


def expect_tensor(checkpoint: Checkpoint, of: str, name: str, kinds: tuple[str, ...], *shapes: tuple[int, ...]) -> str:
    """The name again. ModelError unless the file has this tensor beside `of`, in one of these types and shapes; none:
    any shape.
    """
    info = checkpoint.tensors.get(name)
    expect(info is not None, checkpoint, of, f"come without {name!r:.120}")
    assert info is not None
    told = " or ".join(str(list(shape)) for shape in shapes)
    fits = info.dtype in kinds and (not shapes or tuple(info.shape) in shapes)
    expect(fits, checkpoint, name, f"are not {' or '.join(kinds)} {told}, which {of!r:.120} asks for")
    return name


def packed_layers(checkpoint: Checkpoint) -> Iterator[tuple[str, str, tuple[int, int], str]]:
    """Of each layer of AWQ and GPTQ: the name of its qweight (int32), its own name, the shape of the qweight, and the
    name of its scales, a matrix.
    """
    for name, info in checkpoint.tensors.items():
        layer = name.removesuffix(".qweight")
        if layer != name:
            expect(
                info.dtype == "int32" and len(info.shape) == 2 and info.numel > 0,
                checkpoint,
                name,
                "are not an int32 matrix",
            )
            scales = expect_tensor(checkpoint, name, f"{layer}.scales", ("float16", "bfloat16", "float32"))
            found = checkpoint.tensors[scales]
            expect(len(found.shape) == 2 and found.numel > 0, checkpoint, scales, "are not a matrix")
            yield name, layer, (info.shape[0], info.shape[1]), scales


def unread_of(checkpoint: Checkpoint, ends: tuple[str, ...]) -> list[str]:
    """The tensors with these last parts of their names."""
    return [name for name in checkpoint.tensors if name.rpartition(".")[2] in ends]


def flat_shape(shape: tuple[int, ...]) -> tuple[int, int]:
    """The shape of the matrix of all rows."""
    return prod(shape[:-1]), shape[-1]
