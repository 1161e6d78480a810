"""torch.storage: bytes of tensors, plain and as elements of a dtype."""

from __future__ import annotations

from .engine.dtype import Default, DType
from .engine.tensor import Tensor
from .engine.untyped_storage import TypedStorage, UntypedStorage

__all__ = ["TypedStorage", "UntypedStorage"]


def elements_of(storage: TypedStorage | UntypedStorage, dtype: DType | None) -> Tensor:
    """A vector of all elements, which shares the memory."""
    if isinstance(storage, TypedStorage):
        return storage._elements if dtype is None else storage.untyped().as_elements(dtype)
    return storage.as_elements(Default.dtype if dtype is None else dtype)
