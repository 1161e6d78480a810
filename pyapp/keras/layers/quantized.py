"""Layers whose weight can be quantised: int8 and int4 numbers with scales, or training in float8.

The weight is a matrix (rows, columns) whose rows are summed over; the matrix of an Embedding lies the other way round.
Products of int8 inputs with int8 weights are exact, by the engine's kernels. Other quantised weights become floats for
each product. Gradients of inputs are those of the product with the floats that a weight stands for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...engine import Tensor, as_dtype, no_grad, ops, quant
from ...engine.autograd_function import Function
from ...engine.launch import capturing
from ...engine.ops.int8_product import LARGEST, int8_linear
from .. import quantizers
from ..call_state import inherited_training
from ..dtype_policies import QuantizedFloat8DTypePolicy
from ..dtype_policies import get as get_policy
from ..lookup import as_json
from ..quantizers import INT4_RANGE, AbsMaxQuantizer, Int4QuantizationConfig
from ..weight_attributes import adapted
from .lora import LoraLayer

_FLOAT8_INPUTS, _FLOAT8_GRADIENTS = "float8_e4m3fn", "float8_e5m2"
_FLOAT8_STATES = ("inputs", "kernel", "outputs_grad")  # in the order of files: NAME_scale, NAME_amax_history


class QuantizedLayer(LoraLayer):
    """Base of layers whose weight `adapts` can be quantised. `quantization_config` says how, if the layer's policy is
    one of quantised layers."""

    quantization_modes: tuple[str, ...] = ("int8", "int4", "float8")
    summed_dim = 0  # of the matrix: the dim that an abs-max scale is for
    block_size: int | None = None  # of int4
    inputs_quantizer: Any = None

    def __init__(self, quantization_config: Any = None, **settings: Any) -> None:
        super().__init__(**settings)
        self.quantization_config = quantizers.get(quantization_config)
        self.__dict__["_packed"] = _Packed()

    # -- weights

    def matrix_shape(self, shape: tuple[int, ...]) -> tuple[int, int]:
        """(rows, columns) of the weight of a shape, as int4 packs it."""
        return shape[0], shape[1]

    def scale_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of the scale of an int8 weight of a shape."""
        return (shape[1 - self.summed_dim],)

    def add_adapted(self, shape: Any, initializer: Any, regularizer: Any, constraint: Any) -> None:
        """Makes the weight: floats, or zeros of whole numbers with the scales of the layer's policy."""
        mode = self.quantization_mode
        if mode is not None:
            self._check_mode(mode)
        if mode in ("int8", "int4"):
            self._add_packed(tuple(shape), mode, self._policy_block())
            return
        weight = self.add_weight(
            tuple(shape), initializer, name=self.adapts, regularizer=regularizer, constraint=constraint
        )
        if getattr(self, self.adapts) is not weight:
            setattr(self, self.adapts, weight)
        if mode == "float8":
            self._add_float8()

    def _policy_block(self) -> int | None:
        """The block size of int4 that the configuration or the policy says."""
        if isinstance(self.quantization_config, Int4QuantizationConfig):
            return self.quantization_config.block_size
        return getattr(self.dtype_policy, "block_size", None)

    def _add_packed(self, shape: tuple[int, ...], mode: str, block_size: int | None) -> None:
        config, name = self.quantization_config, self.adapts
        default = AbsMaxQuantizer() if mode == "int8" else None
        self.inputs_quantizer = default if config is None else config.activation_quantizer
        self.whole_shape = shape
        self.block_size = block_size if mode == "int4" and block_size is not None and block_size > 0 else None

        def add(name: str, shape: tuple[int, ...], dtype: str | None, initializer: str = "zeros") -> Tensor:
            return self.add_weight(shape, initializer, dtype, trainable=False, name=name)

        if mode == "int8":
            add(name, shape, "int8")
            add(f"{name}_scale", self.scale_shape(shape), None, "ones")
        else:
            rows, columns = self.matrix_shape(shape)
            add(name, (rows, -(-columns // 2)), "int8")
            summed = (rows, columns)[self.summed_dim]
            scales: tuple[int, ...] = ((rows, columns)[1 - self.summed_dim],)
            if self.block_size is not None:
                blocks = -(-summed // self.block_size)
                scales = (blocks, *scales) if self.summed_dim == 0 else (*scales, blocks)
            add(f"{name}_scale", scales, None, "ones")
            if self.block_size is not None:
                add(f"{name}_zero", scales, "int8")
                groups = add("g_idx", (summed,), "float32")
                with no_grad():
                    groups.copy_(ops.arange(summed).floor_divide(self.block_size).to("float32"))
        self.packed_mode, self.stored_in_order = mode, True

    def _add_float8(self) -> None:
        default = QuantizedFloat8DTypePolicy.default_amax_history_length
        length = getattr(self.dtype_policy, "amax_history_length", default)
        for part in _FLOAT8_STATES:
            for name, shape, first in ((f"{part}_scale", (), "ones"), (f"{part}_amax_history", (length,), "zeros")):
                self.add_weight(shape, first, "float32", trainable=False, autocast=False, name=name)
        self.is_float8 = self.stored_in_order = True

    def _remove_weight(self, name: str) -> None:
        weight = self.__dict__[name]
        delattr(self, name)
        self._weight_order = [other for other in self._weight_order if other is not weight]
        self._regularized = [pair for pair in self._regularized if pair[0] is not weight]

    # -- quantize

    def quantize(self, mode: Any = None, config: Any = None, *, type_check: bool = True) -> None:
        """Replaces the weight by whole numbers ("int8", "int4"), or prepares training in "float8"; the policy becomes
        one such as "int8_from_float32". A compiled model is to be compiled again. ValueError for a layer that is not
        built or is quantised already, NotImplementedError for a subclass unless `type_check` is False."""
        config = quantizers.resolved(mode, config)
        mode = config.mode
        self._check_mode(mode)
        where = f"layer {self.name} ({type(self).__name__})"
        if not self.built:
            raise ValueError(f"{where}: quantize takes a layer that is built: call it first, or build(input_shape)")
        if self.packed_mode is not None or self.is_float8:
            raise ValueError(f"{where} is quantised already: its policy is {self.dtype_policy.name}")
        if type_check and not type(self).__module__.startswith("pyapp."):
            raise NotImplementedError(f"{where} is a class of your own: pass type_check=False to quantise it")
        if mode == "int8" and self.compute_dtype == "float16":
            raise ValueError(f"{where}: int8 does not go with float16: its sums are too large; use mixed_bfloat16")
        self.quantization_config = config
        if mode == "float8":
            self._add_float8()
        else:
            self._quantize_weights(mode)
        if self.quantization_mode is None:
            name = mode
            if mode == "int4":
                name = f"int4/{-1 if self.block_size is None else self.block_size}"
            self._set_policy(get_policy(f"{name}_from_{self.dtype_policy.name}"))

    def _quantize_weights(self, mode: str) -> None:
        """Replaces the weight `adapts`."""
        shape, values = tuple(self._base().shape), self._numbers_of(self._base(), mode)
        self._remove_weight(self.adapts)
        block = getattr(self.quantization_config, "block_size", None)
        self._add_packed(shape, mode, block)
        self._write(values)

    def _write(self, values: Mapping[str, Tensor]) -> None:
        with no_grad():
            for name, value in values.items():
                self.__dict__[name].copy_(value)

    def _check_mode(self, mode: str) -> None:
        if mode not in self.quantization_modes:
            raise NotImplementedError(
                f"layer {self.name} ({type(self).__name__}) cannot be quantised to {mode}; it has "
                f"{' and '.join(self.quantization_modes)}"
            )
        if mode == "float8" and self.lora_enabled:
            raise NotImplementedError(f"layer {self.name}: float8 does not go with LoRA")

    def quantize_by_policy(self, mode: str) -> None:
        config = None
        if mode == "int4":
            config = Int4QuantizationConfig(block_size=getattr(self.dtype_policy, "block_size", None))
        self.quantize(mode, config)

    def lora_shape(self) -> tuple[int, ...]:
        return self.whole_shape if self.packed_mode is not None else super().lora_shape()

    @no_grad()
    def _numbers_of(self, weight: Tensor, mode: str) -> dict[str, Tensor]:
        """The weights of a quantised layer, by name, for a weight of floats."""
        given = getattr(self.quantization_config, "weight_quantizer", None)
        name, weight = self.adapts, weight.detach()
        if mode == "int8":
            numbers, scale = self._int8_of(weight, given)
            return {name: numbers, f"{name}_scale": scale}
        block = self._policy_block()
        return self._int4_of(name, weight.reshape(self.matrix_shape(weight.shape)), self.summed_dim, block, given)

    def _int8_of(self, weight: Tensor, quantizer: Any) -> tuple[Tensor, Tensor]:
        """(numbers, scale)."""
        numbers, scale = (quantizer or AbsMaxQuantizer(axis=self.summed_dim))(weight, to_numpy=True)
        return numbers, scale.squeeze(self.summed_dim)

    @staticmethod
    def _int4_of(
        name: str, matrix: Tensor, dim: int, block: int | None, quantizer: Any, packed_dim: int = 1
    ) -> dict[str, Tensor]:
        """The packed numbers of a matrix with a scale for each index of its other dim than `dim`, or for each of their
        blocks along it."""
        if block is None or block < 1:
            numbers, scale = (quantizer or AbsMaxQuantizer(axis=dim, value_range=INT4_RANGE))(matrix, to_numpy=True)
            more = {f"{name}_scale": scale.squeeze(dim)}
        else:
            turned = matrix if dim == 0 else matrix.T
            found = quantizers.abs_max_quantize_grouped_with_zero_point(turned, block, to_numpy=True)
            numbers, scale, zero = found if dim == 0 else (one.T for one in found)
            more = {f"{name}_scale": scale, f"{name}_zero": zero}
        return {name: quantizers.pack_int4(numbers, axis=packed_dim)[0], **more}

    # -- what quantised weights stand for

    def whole_numbers(self) -> Tensor:
        """The numbers of the weight, int8, in the weight's own shape."""
        base = self._base()
        if self.packed_mode == "int8":
            return base
        columns = self.matrix_shape(self.whole_shape)[1]
        return quantizers.unpack_int4(base, columns, axis=-1).reshape(self.whole_shape)

    def floats(self) -> Tensor:
        """The weight that the numbers stand for, in the dtype of the computation."""
        scale, numbers = getattr(self, f"{self.adapts}_scale"), self.whole_numbers()
        if self.packed_mode == "int8":
            return self._int8_floats(numbers, scale)
        matrix = numbers.reshape(self.matrix_shape(self.whole_shape))
        return self._int4_floats(self.adapts, matrix, self.summed_dim).reshape(self.whole_shape)

    def _int8_floats(self, numbers: Tensor, scale: Tensor) -> Tensor:
        return numbers.to(scale.dtype) / scale.unsqueeze(self.summed_dim)

    def _int4_floats(self, name: str, matrix: Tensor, dim: int) -> Tensor:
        scale = getattr(self, f"{name}_scale")
        if self.block_size is None:
            return matrix.to(scale.dtype) / scale.unsqueeze(dim)
        return quantizers.dequantize_grouped(matrix, scale, getattr(self, f"{name}_zero"), self.g_idx, dim)

    # -- products

    def exact_product(self, numbers: Tensor, name: str, matrix: Callable[[], Tensor]) -> Tensor:
        """numbers (..., rows) times the int8 rows of `matrix` (outputs, rows) → (..., outputs) float32."""
        low = getattr(self.inputs_quantizer, "value_range", (-LARGEST, LARGEST))[0]
        if numbers.dtype.name != "int8" or low < -LARGEST:
            return numbers.to("float32") @ matrix().to("float32").T
        return int8_linear(numbers, self._packed.of(self.__dict__[name], matrix))

    def lora_product(self, product: Callable[[Tensor], Tensor], like: Tensor) -> Tensor:
        """The result of LoRA's part: `product` takes A, and gives the inputs times A."""
        a, b = (getattr(self, f"lora_{self.adapts}_{part}") for part in "ab")
        return (like + ops.matmul(product(a), b) * self.lora_scale).to(like.dtype)

    def float8_product(self, x: Tensor, kernel: Tensor, product: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """product(x, kernel) of float8 numbers; its gradient is rounded to float8 too. Where it is trained, the scales
        and histories change in the backward pass."""
        updates: list[tuple[str, Tensor]] = []
        training = bool(inherited_training()) and kernel.requires_grad
        rounded = [
            _Rounded.apply(value, self._in_float8(value, part, _FLOAT8_INPUTS, updates if training else None))
            for part, value in (("inputs", x), ("kernel", kernel))
        ]
        return _RoundedGradient.apply(product(*rounded), self, updates if training else None)

    @no_grad()
    def _in_float8(self, x: Tensor, part: str, kind: str, updates: list[tuple[str, Tensor]] | None) -> Tensor:
        """x rounded to float8; notes what the scale and the history of this part become."""
        scale, history = (self.__dict__[f"{part}_{name}"] for name in ("scale", "amax_history"))
        x = x.detach()
        if updates is not None:
            most = ops.finfo(as_dtype(kind)).max
            updates += [
                (f"{part}_scale", quantizers.compute_float8_scale(history.amax(0), scale, most)),
                (f"{part}_amax_history", quantizers.compute_float8_amax_history(x, history)),
            ]
        return quantizers.quantize_and_dequantize(x, scale, kind, x.dtype)

    def float8_bias(self, bias: Tensor) -> Tensor:
        """The bias in bfloat16's numbers, as Keras adds it."""
        return bias.to("bfloat16").to(bias.dtype) if bias.dtype.name == "float32" else bias

    # -- files

    def file_names(self) -> list[str]:
        """The attributes of the weights that a file has, in its order."""
        name = self.adapts
        found = [name, "bias", f"{name}_scale", f"{name}_zero", "g_idx"]
        if self.is_float8:
            states = [f"{part}_{kind}" for part in _FLOAT8_STATES for kind in ("scale", "amax_history")]
            found = [name, "bias", *states]
        return [one for one in found if isinstance(self.__dict__.get(one), Tensor)]

    def stored_weights(self) -> list[tuple[Tensor, Tensor]]:
        """In the order of Keras' files; LoRA is added up, and quantised again."""
        if self.packed_mode is None and not self.is_float8:
            return super().stored_weights()
        found = {one: self.__dict__[one].detach() for one in self.file_names()}
        if self.lora_enabled:
            with no_grad():
                total = adapted(self.floats(), *self.lora_weights, self.lora_scale).detach()
                found |= self._numbers_of(total, str(self.packed_mode))
        return [(self.__dict__[one], value) for one, value in found.items()]

    def get_config(self) -> dict[str, Any]:
        """The arguments of the constructor, with how the layer is quantised."""
        return {**super().get_config(), "quantization_config": as_json(self.quantization_config)}


class _Packed:
    """The packed form of an int8 matrix, until the matrix changes. A copy of the layer packs its own."""

    def __init__(self) -> None:
        self.storage: Any = None
        self.version = -1
        self.matrix: Tensor | None = None

    def __deepcopy__(self, _: Any) -> _Packed:
        return _Packed()

    def __reduce__(self) -> Any:
        return _Packed, ()

    def of(self, weight: Tensor, matrix: Callable[[], Tensor]) -> Any:
        """The packed form of what `matrix` gives, made once for the values of `weight`."""
        storage = weight._storage
        if self.storage is storage and self.version == storage.version:
            return self.matrix
        with no_grad():
            found = quant.pack_int8(matrix().contiguous())
        if not capturing():
            self.storage, self.version, self.matrix = storage, storage.version, found
        return found


class WithInputsGradient(Function):
    """forward(x), with the gradient backward(gradient)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, forward: Any, backward: Any) -> Tensor:
        ctx.of_inputs = backward
        found: Tensor = forward(x)
        return found

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return ctx.of_inputs(gradient), None, None


class _Rounded(Function):
    """The rounded tensor, with the gradient of the tensor itself."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, rounded: Tensor) -> Tensor:
        return rounded

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return gradient, None


class _RoundedGradient(Function):
    """The tensor itself, with its gradient rounded to float8; the backward pass writes the layer's states."""

    @staticmethod
    def forward(ctx: Any, y: Tensor, layer: QuantizedLayer, updates: Any) -> Tensor:
        ctx.layer, ctx.updates = layer, updates
        return y

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        updates = ctx.updates
        found = ctx.layer._in_float8(gradient, _FLOAT8_STATES[2], _FLOAT8_GRADIENTS, updates)
        if updates is not None:
            ctx.layer._write(dict(updates))
        return found, None, None
