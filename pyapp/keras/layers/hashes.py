"""Layers that number texts and whole numbers by hashes, without a vocabulary."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...engine import Tensor, ops
from ..core import Layer
from ..fingerprints import combined, fingerprint, keyed_hash
from ..symbolic_tensors import KerasTensor, record
from .lookups import encoded, encoded_shape, refuse_sparse, values_of

__all__ = ["HashedCrossing", "Hashing"]

_SALT = 0xDECAFCAFFE  # what TensorFlow begins with


class _Hashed(Layer):
    """Base: numbers of `num_bins`, in the form that output_mode says."""

    modes: tuple[str, ...] = ()

    def __init__(self, num_bins: int, output_mode: str, sparse: bool, dtype: Any, **settings: Any) -> None:
        kind = type(self).__name__
        if not isinstance(num_bins, int) or num_bins < 1:
            raise ValueError(f"{kind}: num_bins is a positive integer, not {num_bins!r}")
        if output_mode not in self.modes:
            raise ValueError(f"{kind}: output_mode is one of {', '.join(self.modes)}, not {output_mode!r}")
        refuse_sparse(kind, sparse)
        dtype = dtype or ("int64" if output_mode == "int" else "float32")
        super().__init__(dtype=dtype, **settings)
        if output_mode == "int" and self.dtype not in ("int32", "int64"):
            raise ValueError(f"{kind}: the numbers of output_mode='int' are int32 or int64, not {self.dtype}")
        self.num_bins, self.output_mode = num_bins, output_mode
        self.built = True

    def __call__(self, inputs: Any, **_: Any) -> Any:
        parts = inputs if isinstance(inputs, (list, tuple)) else [inputs]
        if any(isinstance(part, KerasTensor) for part in parts):
            return record(self, (inputs,), {})
        return self.call(inputs)

    def symbolic_outputs(self, inputs: Any) -> KerasTensor:
        shape = (inputs[0] if isinstance(inputs, (list, tuple)) else inputs).shape
        return KerasTensor(encoded_shape(shape, self.num_bins, self.output_mode), self.dtype)

    def as_numbers(self, numbers: Any) -> Tensor:
        return encoded(ops.tensor(numbers, dtype="int64"), self.num_bins, self.output_mode).to(self.dtype)


def _each(function: Callable[..., Any], *nested: Any) -> Any:
    """The same lists, with the function of the elements."""
    if isinstance(nested[0], (list, tuple)):
        return [_each(function, *inner) for inner in zip(*nested, strict=True)]
    return function(*nested)


def _text(kind: str, value: Any) -> str:
    """The text of a token; numbers are written in digits."""
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, (str, int, float)):
        return value if isinstance(value, str) else str(int(value))
    raise TypeError(f"{kind}: takes texts and numbers, not {type(value).__name__}")


class Hashing(_Hashed):
    """Texts and whole numbers to numbers of `num_bins`: FarmHash, or SipHash with the key `salt`, as in TensorFlow.
    `mask_value` has the number 0 for itself."""

    modes = ("int", "one_hot", "multi_hot", "count")

    def __init__(
        self, num_bins: int, mask_value: Any = None, salt: Any = None, output_mode: str = "int", sparse: bool = False,
        dtype: Any = None, **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(num_bins, output_mode, sparse, dtype, **settings)
        self.mask_value = mask_value
        self.key = None if salt is None else (salt, salt) if isinstance(salt, int) else tuple(salt)
        if self.key is not None and (len(self.key) != 2 or not all(isinstance(part, int) for part in self.key)):
            raise ValueError(f"Hashing: salt is a whole number or two, not {salt!r:.40}")

    def call(self, inputs: Any) -> Tensor:
        masked = self.mask_value is not None and self.num_bins > 1
        bins = self.num_bins - masked

        def number(value: Any) -> int:
            if masked and value == self.mask_value:
                return 0
            text = _text("Hashing", value)
            return (fingerprint(text) if self.key is None else keyed_hash(text, self.key)) % bins + masked

        return self.as_numbers(_each(number, values_of(inputs)))


class HashedCrossing(_Hashed):
    """Combinations of features to numbers of `num_bins`: each of several inputs, of shape (), (B,) or (B, 1), has one
    feature of an example."""

    modes = ("int", "one_hot")

    def __init__(
        self, num_bins: int, output_mode: str = "int", sparse: bool = False, name: str | None = None,
        dtype: Any = None, **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(num_bins, output_mode, sparse, dtype, name=name, **settings)

    def call(self, inputs: Any) -> Tensor:
        if not isinstance(inputs, (list, tuple)) or len(inputs) < 2:
            raise ValueError("HashedCrossing: takes a list of two inputs or more")
        features = [values_of(one) for one in inputs]
        shapes = [_shape(one) for one in features]
        if any(shape != shapes[0] for shape in shapes) or len(shapes[0]) > 2 or shapes[0][1:] not in ((), (1,)):
            raise ValueError(f"HashedCrossing: inputs have one shape of (), (B,) and (B, 1), got {shapes}")

        def number(*values: Any) -> int:
            found = _SALT
            for value in values:
                if isinstance(value, float):
                    raise TypeError("HashedCrossing: features are texts or whole numbers, not floats")
                whole = isinstance(value, int)
                found = combined(found, value if whole else fingerprint(_text("HashedCrossing", value)))
            return found % self.num_bins

        return self.as_numbers(_each(number, *features))


def _shape(nested: Any) -> tuple[int, ...]:
    if not isinstance(nested, (list, tuple)):
        return ()
    return (len(nested), *(_shape(nested[0]) if nested else ()))
