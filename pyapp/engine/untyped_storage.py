"""The bytes of tensors by torch's names: UntypedStorage, which a file may hold, and TypedStorage, its older form."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from .device import Device
from .dtype import Default, DType, uint8
from .lazy import np
from .numpy_arrays import tensor_of
from .storage import Storage
from .tensor import Tensor, make


class UntypedStorage:
    """A storage as in torch.Tensor.untyped_storage(): the bytes of which tensors are views. A slice shares them."""

    def __init__(self, storage: Storage, start: int = 0, nbytes: int | None = None) -> None:
        self._storage = storage
        self._start = start
        self._nbytes = storage.nbytes - start if nbytes is None else nbytes

    @classmethod
    def from_file(cls, filename: str | os.PathLike[str], shared: bool = False, nbytes: int = 0) -> UntypedStorage:
        """The first `nbytes` of a file in mapped memory. With `shared` what is written to the memory is written to the
        file, which is made or grows where it is too short; without it nothing is. OSError if the file cannot be opened,
        ValueError if it is shorter.
        """
        if shared:
            with open(filename, "ab") as file:
                if file.tell() < nbytes:
                    file.truncate(nbytes)
        elif os.path.getsize(filename) < nbytes:
            raise ValueError(
                f"from_file: {os.fspath(filename)} has {os.path.getsize(filename)} bytes, fewer than {nbytes}"
            )
        memory = (
            np.memmap(filename, np.uint8, "r+" if shared else "c", shape=(nbytes,)) if nbytes else np.zeros(0, "u1")
        )
        return cls(tensor_of(np.asarray(memory))._storage, 0, nbytes)

    def untyped(self) -> UntypedStorage:
        """Itself."""
        return self

    def data_ptr(self) -> int:
        return self._storage.address + self._start

    def nbytes(self) -> int:
        return self._nbytes

    size = __len__ = nbytes

    def __getitem__(self, key: Any) -> Any:
        """A byte; for a slice without steps, a storage of the same memory."""
        if not isinstance(key, slice):
            return self.as_elements(uint8)[key].item()
        first, last, step = key.indices(self._nbytes)
        if step != 1:
            raise ValueError(f"UntypedStorage: slices have no steps, not {step}")
        return UntypedStorage(self._storage, self._start + first, max(last - first, 0))

    def as_elements(self, dtype: DType) -> Tensor:
        """A vector of the bytes as elements of a dtype, which shares their memory."""
        count, rest = divmod(self._nbytes, dtype.itemsize)
        if rest or self._start % dtype.itemsize:
            raise ValueError(
                f"UntypedStorage: {self._nbytes} bytes from {self._start} are no whole elements of {dtype}"
            )
        return make(self._storage, (count,), (1,), dtype, self._start // dtype.itemsize)

    def __eq__(self, other: object) -> bool:
        own = self._storage, self._start, self._nbytes
        return isinstance(other, UntypedStorage) and (other._storage, other._start, other._nbytes) == own

    __hash__ = object.__hash__


__top_level__ = ["UntypedStorage"]


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
