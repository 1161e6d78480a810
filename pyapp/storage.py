"""torch.storage: bytes of tensors, plain and as elements of a dtype."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .engine.device import Device
from .engine.dtype import Default, DType
from .engine.tensor import Tensor
from .engine.untyped_storage import UntypedStorage

__all__ = ["TypedStorage", "UntypedStorage"]


class TypedStorage:
    """The bytes of an UntypedStorage as elements of a dtype, by default the default dtype; torch's older form."""

    def __init__(self, *, wrap_storage: UntypedStorage, dtype: DType | None = None, _internal: bool = False) -> None:
        self._untyped_storage, self.dtype = wrap_storage, Default.dtype if dtype is None else dtype
        self._elements = wrap_storage.as_elements(self.dtype)

    @property
    def device(self) -> Device:
        return self._elements.device

    def untyped(self) -> UntypedStorage:
        """The bytes."""
        return self._untyped_storage

    def __len__(self) -> int:
        return self._elements.numel()

    size = __len__

    def nbytes(self) -> int:
        return self._untyped_storage.nbytes()

    def element_size(self) -> int:
        return self.dtype.itemsize

    def data_ptr(self) -> int:
        return self._untyped_storage.data_ptr()

    def __getitem__(self, index: int) -> Any:
        return self._elements[index].item()

    def __setitem__(self, index: Any, value: Any) -> None:
        self._elements[index] = value

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def tolist(self) -> list[Any]:
        found: list[Any] = self._elements.tolist()
        return found


def elements_of(storage: TypedStorage | UntypedStorage, dtype: DType | None) -> Tensor:
    """A vector of all elements, which shares the memory."""
    if isinstance(storage, TypedStorage):
        return storage._elements if dtype is None else storage.untyped().as_elements(dtype)
    return storage.as_elements(Default.dtype if dtype is None else dtype)
