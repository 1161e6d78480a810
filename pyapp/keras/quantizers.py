"""keras.quantizers: weights and inputs as whole numbers of 8 or 4 bits with scales, and training in float8.

int8 and int4 numbers stand for number / scale, where the scale is what takes the largest magnitude to the end of the
range; in blocks, (number - zero point) * scale. Source: the documents of `keras.quantizers`, and Keras 3.15.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..engine import Tensor, as_dtype, ops
from ..engine.autograd_function import Function
from .arguments import as_tensor, axes_of, dim_of
from .dtype_policies import QUANTIZATION_MODES
from .lookup import Configured, as_json, registered
from .not_there import NotThereError

__all__ = [
    "AbsMaxQuantizer", "Float8QuantizationConfig", "Int4QuantizationConfig", "Int8QuantizationConfig",
    "QuantizationConfig", "Quantizer", "abs_max_quantize", "abs_max_quantize_grouped_with_zero_point",
    "compute_float8_amax_history", "compute_float8_scale", "deserialize", "fake_quant_with_min_max_vars", "get",
    "pack_int4", "quantize_and_dequantize", "serialize", "unpack_int4",
]  # fmt: skip

_EPSILON = 1e-7
INT8_RANGE, INT4_RANGE = (-127, 127), (-8, 7)
_CALIBRATED = ("AWQConfig", "GPTQConfig")


def __getattr__(name: str) -> Any:
    """NotThereError for the parts of Keras that are not there."""
    if name in _CALIBRATED:
        raise NotThereError(f"keras.quantizers.{name} is not there: it needs data to calibrate it; use int8")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


# -- whole numbers


def abs_max_quantize(
    inputs: Any, axis: Any, value_range: tuple[int, int] = INT8_RANGE, dtype: Any = "int8", epsilon: float = _EPSILON,
    to_numpy: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """(numbers in `dtype`, scale): the numbers are inputs * scale, rounded to the nearest, half to even; the scale is
    the end of the range by the largest magnitude along `axis`, which stays as a dim of 1. `to_numpy` computes short
    floats in float32."""
    x = as_tensor(inputs)
    kind = x.dtype
    values = x.to("float32") if to_numpy and kind.is_floating_point and kind.itemsize < 4 else x
    largest = values.abs().amax(axes_of(axis, x), keepdim=True) + epsilon
    scale = ops.full((), value_range[1], dtype=values.dtype) / largest  # a number would be rounded otherwise
    scale = scale if to_numpy else scale.to(kind)
    numbers = (values * scale).round().clamp(*value_range)
    return numbers.to(as_dtype(dtype)), scale.to(kind)


def abs_max_quantize_grouped_with_zero_point(
    inputs: Any, block_size: int, value_range: tuple[int, int] = INT4_RANGE, dtype: Any = "int8",
    epsilon: float = _EPSILON, to_numpy: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """(numbers (inputs, outputs), scale and zero point (blocks, outputs)) of a matrix (inputs, outputs): each
    `block_size` rows of a column go from the least to the largest of them. Without `to_numpy`, a block of equal numbers
    is taken for one from 1 below to 1 above, as in Keras."""
    x = as_tensor(inputs)
    if x.ndim != 2 or block_size < 1:
        raise ValueError(
            f"abs_max_quantize_grouped_with_zero_point: takes a matrix and blocks of at least 1 row, got "
            f"{tuple(x.shape)} and {block_size}"
        )
    kind = x.dtype
    values = x.to("float32") if to_numpy and kind.is_floating_point and kind.itemsize < 4 else x
    (rows, columns), (low, high) = values.shape, value_range
    blocks = -(-rows // block_size)
    padded = values
    if blocks * block_size > rows:
        padded = ops.cat([values, ops.zeros(blocks * block_size - rows, columns, dtype=values.dtype, device=x.device)])
    parts = padded.reshape(blocks, block_size, columns)
    compared = parts if to_numpy or blocks > 1 else values.reshape(1, rows, columns)
    least, largest = compared.amin(1, keepdim=True), compared.amax(1, keepdim=True)  # (blocks, 1, columns)
    levels = high - low
    if not to_numpy:
        alike = least == largest
        least, largest = ops.where(alike, least - 1, least), ops.where(alike, largest + 1, largest)
        levels = (1 << (high - low + 1).bit_length() - 1) - 1
    scale = (largest - least + epsilon) / levels
    zero = ((-least / scale).round() + low).clamp(low, high)
    numbers = ((parts / scale).round() + zero).clamp(low, high).to(as_dtype(dtype))
    numbers = numbers.reshape(blocks * block_size, columns)[:rows]
    return numbers, scale.squeeze(1).to(kind), zero.squeeze(1).to("int8")


def dequantize_grouped(numbers: Tensor, scale: Tensor, zero: Tensor, groups: Tensor, dim: int) -> Tensor:
    """(numbers - zero) * scale, where `scale` and `zero` have a dim of blocks: `groups` gives the block of each place
    along `dim` of the numbers."""
    places = groups.to("int32")
    scale, zero = scale.index_select(dim, places), zero.index_select(dim, places)
    return (numbers.to(scale.dtype) - zero.to(scale.dtype)) * scale


def pack_int4(arr: Any, axis: int = 0, dtype: str = "int8") -> tuple[Tensor, tuple[int, ...], int]:
    """(packed, its shape, the length before) of numbers of -8 .. 7, two neighbours along `axis` in a byte, the first
    in the lower bits."""
    x = as_tensor(arr)
    _check_packable("pack_int4", dtype, x, (dtype,))
    rows = x.movedim(axis, 0).to("int32")
    length = rows.shape[0]
    if length % 2:
        rows = ops.cat([rows, ops.zeros(1, *rows.shape[1:], dtype="int32", device=x.device)])
    pairs = rows.reshape(-1, 2, *rows.shape[1:]) & 15
    packed = (pairs[:, 0] | (pairs[:, 1] * 16)).to("uint8").view(as_dtype(dtype)).movedim(0, axis).contiguous()
    return packed, tuple(packed.shape), length


def unpack_int4(packed: Any, orig_len: int, axis: int = 0, dtype: str = "int8") -> Tensor:
    """The numbers that pack_int4 packed: of -8 .. 7 for int8, of 0 .. 15 for uint8. `orig_len` is the length along
    `axis`."""
    x = as_tensor(packed)
    _check_packable("unpack_int4", dtype, x, ("int8", "uint8"))
    x = x.to(dtype) if x.dtype.name == dtype else x.contiguous().view(as_dtype(dtype))
    place = dim_of(axis, x.ndim)
    parts = [x & 15, x.bitwise_right_shift(4) & 15]  # the lower and the upper bits
    if dtype == "int8":
        parts = [part.bitwise_xor(8) - 8 for part in parts]
    both = ops.stack(parts, place + 1)
    return both.reshape(*x.shape[:place], -1, *x.shape[place + 1 :]).narrow(place, 0, orig_len)


def _check_packable(name: str, dtype: str, x: Tensor, taken: tuple[str, ...]) -> None:
    if dtype not in ("int8", "uint8"):
        raise ValueError(f"{name}: the dtype is int8 or uint8, not {dtype!r:.40}")
    if x.dtype.name not in taken:
        raise TypeError(f"{name}: takes a tensor of {' or '.join(taken)}, not {x.dtype}")


class Quantizer(Configured):
    """Base of what gives (numbers, scale) for a tensor."""

    keras_module = "keras.quantizers"

    def __init__(self, output_dtype: str = "int8") -> None:
        self.output_dtype = output_dtype

    def __call__(self, x: Any) -> Any:
        """(numbers, scale); of the base, the tensor itself."""
        return x


class AbsMaxQuantizer(Quantizer):
    """abs_max_quantize along `axis` of the constructor or of the call, by default the last."""

    def __init__(
        self, axis: Any = None, value_range: tuple[int, int] = INT8_RANGE, epsilon: float = _EPSILON,
        output_dtype: str = "int8",
    ) -> None:  # fmt: skip
        super().__init__(output_dtype)
        self.axis = None if axis is None else (axis,) if isinstance(axis, int) else tuple(axis)
        self.value_range, self.epsilon = (value_range[0], value_range[1]), epsilon
        if output_dtype == "int8" and (value_range[0] < -128 or value_range[1] > 127):
            raise ValueError(f"AbsMaxQuantizer: int8 has numbers of -128 .. 127, not {tuple(value_range)}")

    def __call__(self, x: Any, axis: Any = None, to_numpy: bool = False) -> tuple[Tensor, Tensor]:
        axis = (-1 if self.axis is None else self.axis) if axis is None else axis
        return abs_max_quantize(x, axis, self.value_range, self.output_dtype, self.epsilon, to_numpy)

    def get_config(self) -> dict[str, Any]:
        """The arguments of the constructor; `axis` if it was given."""
        config: dict[str, Any] = {
            "value_range": list(self.value_range), "epsilon": self.epsilon, "output_dtype": self.output_dtype
        }  # fmt: skip
        return config if self.axis is None else {**config, "axis": list(self.axis)}


def fake_quant_with_min_max_vars(
    inputs: Any, min_vals: Any, max_vals: Any, num_bits: int = 8, narrow_range: bool = False, axis: int | None = None
) -> Tensor:
    """The inputs rounded to the 2^num_bits numbers (one less with `narrow_range`) between min_vals and max_vals, which
    move so that 0 is one of them. With `axis` both are vectors along it. Inputs within get the gradient; those beyond
    an end give it to that end."""
    x, low, high = (as_tensor(value) for value in (inputs, min_vals, max_vals))
    if axis is not None:
        shape = [1] * x.ndim
        shape[axis] = -1
        low, high = low.reshape(shape), high.reshape(shape)
    return _FakeQuantized.apply(x, low, high, int(num_bits), bool(narrow_range))


class _FakeQuantized(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, low: Tensor, high: Tensor, bits: int, narrow: bool) -> Tensor:
        first, last = int(narrow), (1 << bits) - 1
        low, high = low.to("float32"), high.to("float32")
        scale, inverse = (high - low) / (last - first), (last - first) / (high - low)
        zero = (first - low / scale).clamp(first, last).round()
        ctx.low, ctx.high = (first - zero) * scale, (last - zero) * scale
        ctx.save_for_backward(x)
        shift = (-ctx.low * inverse + 0.5).floor()
        moved = x.to("float32").maximum(ctx.low).minimum(ctx.high) - ctx.low
        return ((moved * inverse - shift + 0.5).floor() * scale).to(x.dtype)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        (x,) = ctx.saved_tensors
        none = ops.zeros_like(gradient)
        within = ops.where((x >= ctx.low) & (x <= ctx.high), gradient, none)
        ends = (ops.where(beyond, gradient, none) for beyond in (x <= ctx.low, x >= ctx.high))
        return within, *(_sum_to(end, ctx.low) for end in ends), None, None


def _sum_to(gradient: Tensor, like: Tensor) -> Tensor:
    """The gradient of a tensor of 1 element, or of a vector along one of the dims."""
    dims = [k for k in range(gradient.ndim) if like.ndim <= k or like.shape[k] == 1]
    return (gradient.sum(dims, keepdim=True) if dims else gradient).reshape(like.shape)


# -- float8


_FLOAT8 = {"float8_e4m3fn": (3, -6), "float8_e5m2": (2, -14)}  # bits of the fraction, the least exponent


def compute_float8_scale(amax: Any, scale: Any, dtype_max: Any, margin: int = 0) -> Tensor:
    """What inputs are divided by: amax * 2^margin / dtype_max; the scale there is, where amax is 0 or infinite."""
    amax, scale = as_tensor(amax), as_tensor(scale)
    before = scale.reciprocal()
    found = as_tensor(dtype_max) / amax / 2**margin
    found = ops.where(amax > 0.0, found, before)
    return ops.where(amax.isfinite(), found, before).reciprocal()


def compute_float8_amax_history(x: Any, amax_history: Any) -> Tensor:
    """The history moved by one, with the largest magnitude of x in its first place."""
    x, history = as_tensor(x), as_tensor(amax_history)
    largest = x.abs().amax().to(history.dtype).reshape(1)
    return ops.cat([largest, history[2:], history[:1]])[: history.shape[0]]


def quantize_and_dequantize(inputs: Any, scale: Any, quantized_dtype: Any, compute_dtype: Any) -> Tensor:
    """The inputs as float8 numbers times the scale would give them: rounded half to even, cut to the largest."""
    kind, name = as_dtype(compute_dtype), as_dtype(quantized_dtype).name
    if name not in _FLOAT8:
        raise ValueError(f"quantize_and_dequantize: the dtype is {' or '.join(_FLOAT8)}, not {name}")
    scale = as_tensor(scale).to(kind)
    most = ops.finfo(as_dtype(name)).max
    return _as_float8((as_tensor(inputs) / scale).clamp(-most, most), name).to(kind) * scale


def _as_float8(x: Tensor, name: str) -> Tensor:
    """Numbers within the range of a float8 dtype, rounded to its numbers, in float32."""
    bits, least = _FLOAT8[name]
    x = x.to("float32").contiguous()
    dropped = 23 - bits  # of the fraction of float32
    whole = x.view(as_dtype("int32"))
    whole = whole + ((1 << dropped - 1) - 1) + (whole.bitwise_right_shift(dropped) & 1)
    rounded = (whole & -(1 << dropped)).view(as_dtype("float32"))
    step = 2.0 ** (least - bits)  # between the numbers below the least power
    return ops.where(x.abs() < 2.0**least, (x / step).round() * step, rounded)


# -- how layers are quantised


class QuantizationConfig(Configured):
    """Base of how `quantize` does it: the quantizers of weights and of inputs; None for those that the mode has."""

    keras_module = "keras.quantizers"

    mode: str

    def __init__(self, weight_quantizer: Any = None, activation_quantizer: Any = None) -> None:
        self.weight_quantizer, self.activation_quantizer = get(weight_quantizer), get(activation_quantizer)

    def get_config(self) -> dict[str, Any]:
        """The arguments of the constructor."""
        return {
            "weight_quantizer": as_json(self.weight_quantizer),
            "activation_quantizer": as_json(self.activation_quantizer),
        }


class Int8QuantizationConfig(QuantizationConfig):
    """int8. `activation_quantizer` None leaves inputs as they are; "default": AbsMaxQuantizer()."""

    mode = "int8"

    def __init__(self, weight_quantizer: Any = None, activation_quantizer: Any = "default") -> None:
        default = isinstance(activation_quantizer, str) and activation_quantizer == "default"
        super().__init__(weight_quantizer, AbsMaxQuantizer() if default else activation_quantizer)
        _check_output(self)


class Int4QuantizationConfig(QuantizationConfig):
    """int4. `block_size` inputs share a scale and a zero point; None or -1: all of a column share a scale. Inputs stay
    as they are unless there is an `activation_quantizer`, which goes with no block_size."""

    mode = "int4"

    def __init__(
        self, weight_quantizer: Any = None, activation_quantizer: Any = "default", block_size: int | None = 128
    ) -> None:
        default = isinstance(activation_quantizer, str) and activation_quantizer == "default"
        super().__init__(weight_quantizer, None if default else activation_quantizer)
        if block_size is not None and block_size != -1 and (not isinstance(block_size, int) or block_size < 1):
            raise ValueError(f"Int4QuantizationConfig: block_size is a positive number, -1 or None, not {block_size!r}")
        self.block_size = block_size
        own = self.weight_quantizer is not None or self.activation_quantizer is not None
        if own and self.is_grouped:
            raise ValueError("Int4QuantizationConfig: quantizers of one's own go with block_size None or -1 alone")
        _check_output(self)
        if self.weight_quantizer is not None and tuple(self.weight_quantizer.value_range) != INT4_RANGE:
            raise ValueError(f"Int4QuantizationConfig: weights have numbers of {INT4_RANGE}")

    @property
    def is_grouped(self) -> bool:
        """Whether blocks of inputs have scales of their own."""
        return self.block_size is not None and self.block_size > 0

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "block_size": self.block_size}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Any:
        """A configuration without block_size is of a time when there was none."""
        return cls(**{"block_size": None, **config})


class Float8QuantizationConfig(QuantizationConfig):
    """Training in float8."""

    mode = "float8"

    def __init__(self) -> None:
        super().__init__()

    def get_config(self) -> dict[str, Any]:
        return {}


def _check_output(config: QuantizationConfig) -> None:
    quantizer = config.weight_quantizer
    if quantizer is not None and quantizer.output_dtype != "int8":
        raise ValueError(f"{type(config).__name__}: weights are int8, not {quantizer.output_dtype}")


_CONFIGS = {"int8": Int8QuantizationConfig, "int4": Int4QuantizationConfig, "float8": Float8QuantizationConfig}
_KINDS = (AbsMaxQuantizer, Quantizer, *_CONFIGS.values())


def resolved(mode: Any, config: Any) -> QuantizationConfig:
    """The configuration that `quantize(mode, config)` means. ValueError where they do not go together,
    NotImplementedError for a mode that needs data."""
    if isinstance(config, str):
        mode, config = config, None
    if mode in ("gptq", "awq"):
        raise NotImplementedError(f"quantize: {mode!r} needs data to calibrate it, and is not there; use 'int8'")
    if mode is not None and mode not in QUANTIZATION_MODES:
        raise ValueError(f"quantize: {mode!r:.40} is not a mode; there are {', '.join(QUANTIZATION_MODES)}")
    if config is None:
        if mode is None:
            raise ValueError("quantize: takes a mode such as 'int8', or a config")
        made: QuantizationConfig = _CONFIGS[mode]()
        return made
    if not isinstance(config, QuantizationConfig):
        raise ValueError(f"quantize: config is a keras.quantizers.QuantizationConfig, not {config!r:.60}")
    if mode is not None and mode != config.mode:
        raise ValueError(f"quantize: the mode is {mode!r}, that of the config {config.mode!r}")
    return config


def serialize(initializer: Any) -> Any:
    """{"class_name": …, "config": …} of a quantizer."""
    return as_json(initializer)


def deserialize(config: Any, custom_objects: Mapping[str, Any] | None = None) -> Any:
    """The quantizer or configuration that `serialize` described. ValueError for an unknown class."""
    if config is None:
        return None
    name = str(config.get("class_name"))
    kind = (custom_objects or {}).get(name) or next((one for one in _KINDS if one.__name__ == name), registered(name))
    if not (isinstance(kind, type) and issubclass(kind, (Quantizer, QuantizationConfig))):
        raise ValueError(f"there is no quantizer {name!r:.60}; there are {', '.join(one.__name__ for one in _KINDS)}")
    return kind.from_config(config.get("config") or {})


def get(identifier: Any) -> Any:
    """The quantizer of a name, a configuration or a class; None and quantizers are themselves."""
    if identifier is None or isinstance(identifier, (Quantizer, QuantizationConfig)):
        return identifier
    if isinstance(identifier, Mapping):
        return deserialize(identifier)
    if isinstance(identifier, str):
        return deserialize({"class_name": "".join(part[:1].upper() + part[1:] for part in identifier.split("_"))})
    if isinstance(identifier, type):
        return identifier()
    if callable(identifier):
        return identifier
    raise ValueError(f"takes a quantizer, its name or its configuration, not {identifier!r:.60}")
