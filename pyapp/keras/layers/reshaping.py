"""Layers that change shapes, pad, crop and repeat; functions as layers."""

from __future__ import annotations

import base64
import marshal
from collections.abc import Callable
from math import prod
from typing import Any

from ...engine import Tensor, ops
from ...nn import functional as F
from ..arguments import as_tensor, layer_is_channels_first, positive_integer
from ..core import Layer
from ..lookup import as_json
from ..masking import set_mask
from ..operations import Function
from .channels import ChannelsLayer, DataFormatLayer, check_dims
from .convolution import sizes
from .images import MODES, resized

__all__ = [
    "Cropping1D", "Cropping2D", "Cropping3D", "Flatten", "Identity", "Lambda", "Masking", "Permute", "RepeatVector",
    "Reshape", "UpSampling1D", "UpSampling2D", "UpSampling3D", "ZeroPadding1D", "ZeroPadding2D", "ZeroPadding3D",
]  # fmt: skip


class Identity(Layer):
    """The input itself."""

    supports_masking = True
    unwritten = ("activity_regularizer",)

    def call(self, inputs: Any) -> Any:
        return inputs


class Flatten(DataFormatLayer):
    """(B, ...) -> (B, everything else)."""

    def __init__(self, data_format: str | None = None, **settings: Any) -> None:
        super().__init__(**settings)
        self.channels_first = layer_is_channels_first("Flatten", data_format)

    def call(self, inputs: Tensor) -> Tensor:
        if self.channels_first and inputs.ndim > 2:
            inputs = inputs.movedim(1, -1)
        return inputs.reshape(inputs.shape[0], -1) if inputs.ndim > 1 else inputs.reshape(-1, 1)


class Reshape(Layer):
    """(B, ...) -> (B, *target_shape); one size may be -1."""

    def __init__(self, target_shape: Any, **settings: Any) -> None:
        super().__init__(**settings)
        sizes = target_shape if isinstance(target_shape, (list, tuple)) else (target_shape,)
        self.target_shape = tuple(-1 if size is None else size for size in sizes)
        if not all(type(size) is int and size >= -1 for size in self.target_shape) or self.target_shape.count(-1) > 1:
            raise ValueError(f"Reshape: target_shape has sizes, at most one of them -1, not {target_shape!r:.60}")

    def call(self, inputs: Tensor) -> Tensor:
        rest = prod(inputs.shape[1:])
        if -1 not in self.target_shape and prod(self.target_shape) != rest:
            raise ValueError(
                f"layer {self.name} (Reshape): inputs of shape {inputs.shape} do not fit {self.target_shape}"
            )
        return inputs.reshape(inputs.shape[0], *self.target_shape)


class Permute(Layer):
    """Dims in another order; dims are counted from 1, without the batch."""

    def __init__(self, dims: Any, **settings: Any) -> None:
        super().__init__(**settings)
        self.dims = tuple(dims)
        if sorted(self.dims) != list(range(1, len(self.dims) + 1)):
            raise ValueError(f"Permute: dims are 1 … {len(self.dims)} in any order, got {self.dims}")

    def call(self, inputs: Tensor) -> Tensor:
        return inputs.permute(0, *self.dims)


class RepeatVector(Layer):
    """(B, F) -> (B, n, F)."""

    def __init__(self, n: int, **settings: Any) -> None:
        super().__init__(**settings)
        self.n = positive_integer("RepeatVector: n", n)

    def call(self, inputs: Tensor) -> Tensor:
        return inputs.unsqueeze(1).expand(-1, self.n, -1)


class Masking(Layer):
    """Zeros in place of time steps all of whose features are mask_value; a mask leaves them out further on."""

    def __init__(self, mask_value: float = 0.0, **settings: Any) -> None:
        super().__init__(**settings)
        if not isinstance(mask_value, (int, float)):
            raise TypeError(f"Masking: mask_value is a number, not {mask_value!r:.40}")
        self.mask_value = mask_value

    def call(self, inputs: Tensor) -> Tensor:
        kept = self.compute_mask(inputs)  # (B, steps)
        return set_mask(ops.where(kept.unsqueeze(-1), inputs, ops.zeros_like(inputs)), kept)

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> Any:
        """Which time steps have a feature that is not mask_value."""
        return (as_tensor(inputs) != self.mask_value).any(-1)


def _code(function: Any) -> dict[str, Any]:
    """A lambda as Keras writes it."""
    code = base64.b64encode(marshal.dumps(function.__code__)).decode()
    closure = [as_json(cell.cell_contents) for cell in function.__closure__ or ()] or None
    return {"class_name": "__lambda__", "config": {
        "code": code, "defaults": as_json(function.__defaults__), "closure": closure,
    }}  # fmt: skip


class Lambda(Function):
    """A function as a layer. `mask`: the mask of its outputs, or a function of the inputs and their mask."""

    is_operation = False

    def __init__(
        self, function: Callable[..., Any], output_shape: Any = None, mask: Any = None, arguments: Any = None,
        **settings: Any,
    ) -> None:  # fmt: skip
        if not callable(function):
            raise TypeError(f"Lambda: takes a function, not {function!r:.60}")
        super().__init__(function, **settings)
        self.arguments = dict(arguments or {})
        self.mask = mask

    def settings(self) -> dict[str, Any]:
        """The arguments of the constructor; a lambda as its code, which files read only with `safe_mode=False`."""
        given = self._arguments or {}
        return {
            name: _code(value) if getattr(value, "__name__", "") == "<lambda>" else as_json(value)
            for name, value in given.items()
        }

    def compute_mask(self, inputs: Any, previous_mask: Any) -> Any:
        return self.mask(inputs, previous_mask) if callable(self.mask) else self.mask

    def call(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **self.arguments, **kwargs)


def _pairs(padding: Any, dims: int, name: str) -> list[tuple[int, int]]:
    """(before, after) of each dim from 1, (1, 1) or ((1, 1), (1, 1))."""
    given = [padding] * dims if isinstance(padding, int) else padding
    if dims == 1 and isinstance(given, (list, tuple)) and len(given) == 2:
        given = [given]
    pairs = [(n, n) if isinstance(n, int) else n for n in given] if isinstance(given, (list, tuple)) else []
    fits = all(isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in pairs)
    if len(pairs) != dims or not fits or not all(isinstance(n, int) and n >= 0 for pair in pairs for n in pair):
        raise ValueError(
            f"{name} takes a number from 0 on, or one or a pair for each of {dims} dims, got {padding!r:.60}"
        )
    return [(before, after) for before, after in pairs]


def _as_keras_writes(pairs: Any) -> Any:
    """Both sides of each dim; of one dim without the list around."""
    every = tuple(tuple(pair) for pair in pairs)
    return every[0] if len(every) == 1 else every


class _Padding(ChannelsLayer):
    def __init__(self, padding: Any = 1, data_format: str | None = None, **settings: Any) -> None:
        super().__init__(data_format, **settings)
        self.padding = _pairs(padding, self.dims, f"{type(self).__name__}: padding")

    def get_config(self) -> dict[str, Any]:
        """The arguments of the constructor, with the padding of each side."""
        return {**super().get_config(), "padding": _as_keras_writes(self.padding)}

    def on_channels_last(self, inputs: Tensor) -> Tensor:
        flat = [n for pair in reversed(self.padding) for n in pair]
        return F.pad(inputs, [0, 0, *flat])


class ZeroPadding1D(_Padding):
    """Zeros before and after, (B, steps, features)."""

    dims = 1


class ZeroPadding2D(_Padding):
    """Zeros around images (B, H, W, C)."""

    dims = 2


class ZeroPadding3D(_Padding):
    """Zeros around volumes (B, D, H, W, C)."""

    dims = 3


class _Cropping(ChannelsLayer):
    def __init__(self, cropping: Any = 1, data_format: str | None = None, **settings: Any) -> None:
        super().__init__(data_format, **settings)
        self.cropping = _pairs(cropping, self.dims, f"{type(self).__name__}: cropping")

    def get_config(self) -> dict[str, Any]:
        """The arguments of the constructor, with the cropping of each side."""
        return {**super().get_config(), "cropping": _as_keras_writes(self.cropping)}

    def on_channels_last(self, inputs: Tensor) -> Tensor:
        for dim, (before, after) in enumerate(self.cropping, 1):
            left = inputs.shape[dim] - before - after
            if left < 1:
                raise ValueError(f"cropping {(before, after)} leaves nothing of the {inputs.shape[dim]} of dim {dim}")
            inputs = inputs.narrow(dim, before, left)
        return inputs


class Cropping1D(_Cropping):
    """Steps cut off at the ends of (B, steps, features)."""

    dims = 1
    keras_has_data_format = False


class Cropping2D(_Cropping):
    """Rows and columns cut off images (B, H, W, C)."""

    dims = 2

    def __init__(self, cropping: Any = 0, data_format: str | None = None, **settings: Any) -> None:
        super().__init__(cropping, data_format, **settings)


class Cropping3D(_Cropping):
    """Planes, rows and columns cut off volumes (B, D, H, W, C)."""

    dims = 3


class UpSampling1D(Layer):
    """Each step `size` times."""

    def __init__(self, size: int = 2, **settings: Any) -> None:
        super().__init__(**settings)
        self.size = positive_integer("UpSampling1D: size", size)

    def call(self, inputs: Tensor) -> Tensor:
        check_dims(self, inputs, 1)
        return inputs.repeat_interleave(self.size, 1)


class UpSampling2D(ChannelsLayer):
    """Images (B, H, W, C) enlarged by whole factors: "nearest", "bilinear" or "bicubic"."""

    dims = 2

    def __init__(
        self, size: Any = (2, 2), data_format: str | None = None, interpolation: str = "nearest", **settings: Any
    ) -> None:
        super().__init__(data_format, **settings)
        self.size = sizes(size, 2, "UpSampling2D: size")
        if interpolation not in MODES:
            raise ValueError(f"UpSampling2D: interpolation is one of {', '.join(MODES)}, not {interpolation!r}")
        self.interpolation = interpolation

    def on_channels_last(self, inputs: Tensor) -> Tensor:
        if self.interpolation == "nearest":
            return inputs.repeat_interleave(self.size[0], 1).repeat_interleave(self.size[1], 2)
        height, width = (n * factor for n, factor in zip(inputs.shape[1:3], self.size, strict=True))
        return resized(inputs, height, width, self.interpolation)


class UpSampling3D(ChannelsLayer):
    """Volumes (B, D, H, W, C) enlarged by whole factors."""

    dims = 3

    def __init__(self, size: Any = (2, 2, 2), data_format: str | None = None, **settings: Any) -> None:
        super().__init__(data_format, **settings)
        self.size = sizes(size, 3, "UpSampling3D: size")

    def on_channels_last(self, inputs: Tensor) -> Tensor:
        for dim, count in enumerate(self.size, 1):
            inputs = inputs.repeat_interleave(count, dim)
        return inputs
