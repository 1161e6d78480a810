"""The layer that all layers and models of Keras share: it gets its shapes from its first input. What it does with its
weights is in `layer_weights`.
"""

from __future__ import annotations

import functools
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..engine import DType, Tensor, ops
from ..engine.device import computes_elsewhere, get_default_device
from ..engine.dtype import as_dtype
from ..engine.lazy import np
from ..errors import OperationError
from ..nn.module import Module
from ..train.metrics import Metric
from ..train.names import unique_name
from ..train.stateless import SCOPES, check_count, values_of
from ..train.variable import Variable
from . import constraints, dtype_policies, initializers, regularizers
from .call_arguments import (
    argument_names,
    arguments_of,
    has_tensors,
    is_any,
    is_list_of_numbers,
    is_list_of_texts,
    is_of_a_user,
    is_shape,
    is_texts,
    shape_arguments,
    shapes_for,
    takes_any,
)
from .call_state import STATE, training_mode, weights_of
from .collections import LayerDict, LayerList, tracked
from .devices import device_of, moved_to
from .dtype_policies import DTypePolicy, DTypePolicyMap
from .held_values import values_in
from .layer_weights import LayerWeights
from .lookup import Configured, as_json, registered
from .masking import mask_of, set_mask
from .settings import SETTINGS
from .structures import flatten, map_shapes, map_structure
from .symbolic_tensors import Call, KerasTensor, Shape, infer, record
from .weight_attributes import autocast_dtype, autocasts, declare, weights_read_in

# arguments that Keras' files do not have
_UNWRITTEN = {"input_shape": None, "input_dim": None, "autocast": True, "use_cudnn": "auto"}
_BY_KEY = {"_initializer": initializers, "_regularizer": regularizers, "_constraint": constraints}


def _within_scope(build: Callable[..., None]) -> Callable[..., None]:
    """A `build` that marks the layer as built, also where another `build` calls it, with the layer's name in the paths
    of the weights."""

    @functools.wraps(build)
    def scoped(self: Any, *args: Any, **kwargs: Any) -> None:
        with weights_of(self):
            if self._path is None:
                self._path = "/".join(layer.name for layer in STATE.scope)
            build(self, *args, **kwargs)
        if args and not kwargs:
            object.__setattr__(self, "_built_for", args[0])
        elif kwargs and not args:
            object.__setattr__(self, "_built_for_several", kwargs)
        self.built = True

    return scoped


class _SetInInit:
    """In place of an attribute that `Layer.__init__` sets: an error that says that a subclass did not call it."""

    def __get__(self, layer: Any, kind: type) -> Any:
        if layer is None:
            return self
        raise AttributeError(f"{kind.__name__}.__init__ does not call super().__init__(), which comes first")


class Layer(Configured, LayerWeights):
    """A module in Keras' form: weights are made in `build(input_shape)`, when the first input shows its shape;
    `call(inputs, …)` computes. `call` may have the argument `training`.

    `dtype` is a dtype or a policy (see `keras.dtype_policies`): `variable_dtype` is that of the weights,
    `compute_dtype` that of the computation: floating-point inputs are converted to it, and weights where `call` reads
    them as attributes. With `autocast=False` both stay as they are. Non-floating inputs always do.

    The masks of inputs come as the arguments `mask`, or `<argument>_mask`, if `call` has them. A layer passes the mask
    of its first input on if it sets `supports_masking`, or what its `compute_mask` gives.
    """

    keras_module = "keras.layers"

    supports_masking = False
    _compute_dtype: Any = _SetInInit()
    _parameters: Any = _SetInInit()
    converted: Mapping[str, Callable[[Any], Any]] = {}  # by attribute: what makes its value of what is written to it
    input_spec: Any = None  # an InputSpec, or one for each of the first argument's tensors
    quantization_modes: tuple[str, ...] = ()  # what `quantize` takes
    says_outputs = False  # whether a user's class says the shapes of its outputs
    makes_masks = False  # whether a user's class has its own `compute_mask`, which is called without a mask too
    is_operation = False  # whether it is a function of `keras.ops` or an operator, which Keras counts to no layers
    is_own_operation = False  # whether it is a user's Operation, which Keras counts to no layers either
    resolved: tuple[str, ...] = ()  # arguments that `get_config` gives as the constructor made them: its attributes
    unwritten: tuple[str, ...] = ()  # arguments that Keras' `get_config` does not give where they are None
    unknown_to_keras: tuple[str, ...] = ()  # arguments that the constructor of Keras does not have
    stored_in_order = False  # whether `stored_weights` has the order of Keras' files

    def __init__(
        self, *, activity_regularizer: Any = None, trainable: bool = True, dtype: Any = None, autocast: bool = True,
        name: str | None = None, input_shape: Any = None, input_dim: int | None = None, **unknown: Any,
    ) -> None:  # fmt: skip
        early = {key: value for key, value in self.__dict__.items() if key != "_arguments"}
        super().__init__()
        for key, value in early.items():  # what was assigned before super().__init__(): layers among it are layers now
            setattr(self, key, value)
        input_shape = (input_dim,) if input_shape is None and input_dim is not None else input_shape
        if unknown:
            raise ValueError(
                f"Unrecognized keyword arguments passed to {type(self).__name__}: {type(self).__name__} has no "
                f"argument {', '.join(map(repr, sorted(unknown)))}"
            )
        if name is not None and (not isinstance(name, str) or "/" in name):
            raise ValueError(
                f"{type(self).__name__}: argument `name` must be a string and cannot contain "
                f"character `/`, got {name!r}"
            )
        self.name = name or unique_name(type(self).__name__)
        self.built = False
        self._remat = STATE.remat
        self._path: str | None = None
        object.__setattr__(self, "_built_for", None)  # the shape that `build` was given
        object.__setattr__(self, "_built_for_several", None)  # the shapes by name, of a `build` that takes several
        self.dtype_policy = dtype
        self.autocast = autocast
        if not isinstance(trainable, bool):
            raise ValueError(f"{type(self).__name__}: trainable is True or False, not {trainable!r}")
        self.activity_regularizer = regularizers.get(activity_regularizer)
        self.first_input_shape: Shape | None = None if input_shape is None else (None, *input_shape)
        self._symbolic_calls: list[Call] = []  # with symbolic tensors
        self._trainable = trainable
        self._weight_order: list[Any] = []
        self._regularized: list[tuple[Any, Callable[[Tensor], Tensor]]] = []
        self._added_losses: list[Tensor] = []

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        cls.makes_masks = is_of_a_user(cls.compute_mask)
        cls.says_outputs = is_of_a_user(cls.compute_output_shape) or is_of_a_user(cls.compute_output_spec)
        if "build" in cls.__dict__:
            cls.build = _within_scope(cls.build)  # type: ignore[method-assign]

    def __setattr__(self, name: str, value: Any) -> None:
        if "_modules" not in self.__dict__:
            object.__setattr__(self, name, value)  # before super().__init__(), which registers it
            return
        if name[:1] != "_":
            before = self.__dict__.get(name)
            if isinstance(value, Layer) and self.__dict__.get("built") and value is not before:
                self._refuse_in_call(f"the layer {name!r}", isinstance(before, Layer))
            if isinstance(before, (LayerList, LayerDict)):  # its layers are no longer this one's
                gone = {id(layer) for layer in (before.values() if isinstance(before, dict) else before)}
                for key in [key for key, layer in self._modules.items() if id(layer) in gone]:
                    del self._modules[key]
            if name in self.converted:
                value = self.converted[name](value)
                self._remember(name, value)
            value = tracked(self, name, value)
            if name in self._modules and not isinstance(value, Module):
                del self._modules[name]  # the layer is not an attribute any more
            if isinstance(value, Variable) and not getattr(value, "is_parameter", False):  # a weight made outside
                if all(value is not known for known in (*self._buffers.values(), *self._weight_order)):
                    self.register_buffer(name, value)
            if isinstance(value, Variable) and self.is_mixed and not getattr(value, "_keeps_dtype", False):
                declare(type(self), name)
        super().__setattr__(name, value)

    def _remember(self, name: str, value: Any) -> None:
        """Lets `get_config` give another value of an argument than the constructor was given."""
        given = self._arguments or {}
        if name in given and self.converted[name](given[name]) is not value:
            self.__dict__["_arguments"] = {**given, name: value}

    # -- layers inside

    @property
    def _layers(self) -> list[Layer]:
        """The layers directly inside, by the name that packages for Keras know."""
        return [child for child in self._modules.values() if isinstance(child, Layer)]

    def _flatten_layers(self, recursive: bool = True, include_self: bool = True) -> Iterator[Layer]:
        """This layer, the layers inside, and those inside of them, each once; packages for Keras call it."""
        seen: set[int] = {id(self)}
        if include_self:
            yield self
        waiting = self._layers[::-1]
        while waiting:
            layer = waiting.pop()
            if id(layer) in seen:
                continue
            seen.add(id(layer))
            yield layer
            if recursive:
                waiting += layer._layers[::-1]

    # -- dtypes

    @property
    def dtype_policy(self) -> DTypePolicy:
        """The dtypes of weights and computation."""
        found: DTypePolicy = self._dtype_policy
        return found[self.path or self.name] if isinstance(found, DTypePolicyMap) else found

    @dtype_policy.setter
    def dtype_policy(self, value: Any) -> None:
        self._set_policy(dtype_policies.get(value))
        mode = self.quantization_mode if self.built else None
        if mode is not None:
            self.quantize_by_policy(mode)

    def _set_policy(self, policy: DTypePolicy) -> None:
        object.__setattr__(self, "_dtype_policy", policy)
        compute, variable = as_dtype(policy.compute_dtype), as_dtype(policy.variable_dtype)
        several = isinstance(policy, DTypePolicyMap)
        object.__setattr__(self, "_compute_dtype", None if several else compute)
        object.__setattr__(self, "_mixed", None if several else compute is not variable)

    @property
    def dtype(self) -> str:
        """The dtype of the weights."""
        return self.dtype_policy.variable_dtype

    variable_dtype = dtype

    @property
    def compute_dtype(self) -> str:
        """The dtype of the computation."""
        return self.dtype_policy.compute_dtype

    input_dtype = compute_dtype

    @property
    def quantization_mode(self) -> str | None:
        """How the weights are quantised: int8, int4, float8, or None."""
        return self.dtype_policy.quantization_mode

    def _computes_in(self) -> DType:
        found: DType | None = self._compute_dtype
        return as_dtype(self.dtype_policy.compute_dtype) if found is None else found

    @property
    def is_mixed(self) -> bool:
        """Whether weights are kept in another dtype than that of the computation."""
        found: bool | None = self._mixed
        return self.compute_dtype != self.variable_dtype if found is None else found

    @property
    def path(self) -> str | None:
        """The names of the layers around and of this one, with slashes between them; None before it is built."""
        return self._path

    def _scope_of_weights(self) -> tuple[bool, DType | None]:
        """Whether weights are read in another way within a call than around it, and in which dtype."""
        around = autocast_dtype()
        if around is None:
            return (True, self._computes_in()) if self.is_mixed and self.autocast else (False, None)
        own = self._computes_in()
        if not self.autocast or not own.is_floating_point:
            return True, None
        return own is not around, own

    def __repr__(self) -> str:
        return f"<{type(self).__name__} name={self.name}, built={self.built}>"

    # -- to be written by layers

    # Dims that are not known are tried with twice and three times this: windows and their steps must fit.
    probe_scale: int = 16

    def build(self, input_shape: Any) -> None:
        """Makes the weights. `input_shape` is that of the first argument, with the batch's size first."""

    def call(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no call()")

    def symbolic_outputs(self, *args: Any, **kwargs: Any) -> Any:
        """The symbolic outputs of symbolic inputs, where a class of one's own has `compute_output_spec` or
        `compute_output_shape`; None where a call with zeros shows them."""
        if not self.says_outputs:
            return None
        kind = type(self)
        if not self.built:
            if not is_of_a_user(kind.build) and any(not layer.built for layer in self._layers):
                return None  # the call builds the layers inside
            self._build_for(args[0] if args else next(iter(kwargs.values())), args, kwargs)
        if is_of_a_user(kind.compute_output_spec):
            found = self.compute_output_spec(*args, **kwargs)
        else:
            names = shape_arguments(kind.compute_output_shape)
            shapes = self.compute_output_shape(**shapes_for(self, names, args, kwargs))
            found = map_shapes(lambda one: KerasTensor(one, self.compute_dtype), shapes)
        self._mask_symbols(args, kwargs, found)
        return found

    def _mask_symbols(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], outputs: Any) -> None:
        """Marks symbolic outputs as masked where `compute_mask` passes on the mask of the first input."""
        if not self.supports_masking and not self.makes_masks:
            return
        first = flatten(args[0] if args else next(iter(kwargs.values()), None))[:1]
        dims = first[0].mask_dims if first and isinstance(first[0], KerasTensor) else 0
        for leaf in flatten(outputs):
            leaf.mask_dims = min(dims, leaf.ndim)

    def compute_mask(self, inputs: Any, previous_mask: Any) -> Any:
        """The mask of the outputs, from the first argument and its masks."""
        return previous_mask

    def has_no_weights(self) -> bool:
        """Whether no layer of this class has weights."""
        return type(self).build is Layer.build and type(self).__module__.startswith("pyapp.") and not self._modules

    def to(self, *args: Any, **kwargs: Any) -> Any:
        """`Module.to`. ValueError where weights would be made elsewhere later: a layer that has none yet."""
        if not self.built and not self.has_no_weights() and next(self.parameters(), None) is None:
            raise ValueError(
                f"to: layer {self.name} ({type(self).__name__}) has no weights yet: call it, or build(input_shape), "
                "first; or make it inside `with keras.device(…)`"
            )
        return super().to(*args, **kwargs)

    # -- quantisation

    def quantize(self, mode: Any = None, config: Any = None, *, type_check: bool = True) -> None:
        """NotImplementedError: a layer of this class cannot be quantised."""
        raise NotImplementedError(
            f"layer {self.name} ({type(self).__name__}) cannot be quantised; Dense, EinsumDense, Embedding and "
            "ReversibleEmbedding can"
        )

    def quantize_by_policy(self, mode: str) -> None:
        """Quantises the layer, which is built, as its new policy says."""
        self.quantize(mode)

    # -- losses

    def add_loss(self, loss: Any) -> None:
        """Adds a scalar to the loss of the current call."""
        self._added_losses.append(loss)
        STATE.losses = True
        if SCOPES.current is not None:
            SCOPES.current.add_loss(loss)

    @property
    def losses(self) -> list[Tensor]:
        """The losses that calls added, and the penalties of regularisers."""
        layers = [module for module in self.modules() if isinstance(module, Layer)]
        added = [loss for layer in layers for loss in layer._added_losses]
        return [*added, *(penalty(w) for layer in layers if layer._trainable for w, penalty in layer._regularized)]

    def clear_losses(self) -> None:
        """Forgets the losses that calls have added."""
        for module in self.modules():
            if isinstance(module, Layer):
                module._added_losses = []

    def detach_losses(self) -> None:
        """Keeps the values of the losses that calls have added, and no more of these calls."""
        for module in self.modules():
            if isinstance(module, Layer) and module._added_losses:
                module._added_losses = [loss.detach() for loss in module._added_losses]

    # -- calls

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if any(isinstance(leaf, KerasTensor) for leaf in flatten([list(args), kwargs])):
            return record(self, args, kwargs)
        outermost = not STATE.inside
        follows = outermost and computes_elsewhere()  # whether the inputs may have to follow the weights
        if follows and (place := device_of(self, (args, kwargs))) is not get_default_device():
            with place:
                return self(*args, **kwargs)
        training = kwargs.get("training")
        if training is None:
            training = STATE.training
        if "training" in arguments_of(type(self).call):
            kwargs["training"] = bool(training)
        else:
            kwargs.pop("training", None)
        if args:
            first = args[0]
            if isinstance(first, list):
                if is_list_of_numbers(first):
                    first = ops.as_tensor(first)
                elif is_list_of_texts(first):
                    first = np.array(first)
            more = [self._cast_tensors(value) for value in args[1:]] if len(args) > 1 else ()
            first = self._in_compute_dtype(first) if isinstance(first, Tensor) else map_structure(self._as_input, first)
            args = (first, *more)
        if kwargs:
            kwargs = {key: self._cast_tensors(value) for key, value in kwargs.items()}
        if not args and not kwargs and (self.input_spec is not None or not self.built):
            raise TypeError(f"layer {self.name} ({type(self).__name__}) was called without inputs")
        if self.input_spec is not None:
            self._check_inputs(args[0] if args else next(iter(kwargs.values())))
        if not self.built:
            self._build_for(args[0] if args else next(iter(kwargs.values())), args, kwargs)
        if follows:
            args, kwargs = moved_to(place, args), moved_to(place, kwargs)
        masks = self._take_masks(args, kwargs)
        STATE.inside = True
        if outermost and STATE.losses:
            self.clear_losses()  # those of an earlier call
        scope = STATE.scope
        if self._modules and not (scope and scope[-1] is self):
            STATE.scope = (*scope, self)
        changes, read_in = (False, None) if self._mixed is False and not autocasts() else self._scope_of_weights()
        try:
            with training_mode(training):
                if changes:
                    with weights_read_in(read_in):
                        outputs = super().__call__(*args, **kwargs)
                else:
                    outputs = super().__call__(*args, **kwargs)
        except OperationError as error:
            self._name_in(error, args)
            raise
        except (ValueError, TypeError, IndexError) as error:
            if type(error) not in (ValueError, TypeError, IndexError) or re.search(r"\b(layer|model) ", str(error)):
                raise  # it has a form of its own, or says where it was
            raise type(error)(f"{self._with_shapes(args)}: {error}") from error
        finally:
            STATE.scope = scope
            if outermost:
                STATE.inside = False
        if masks is not None or self.makes_masks:
            self._pass_masks(args[0] if args else next(iter(kwargs.values())), outputs, masks)
        if self.activity_regularizer is not None:
            for output in flatten(outputs):
                loss = self.activity_regularizer(output)
                self.add_loss(loss / (output.shape[0] or 1) if output.ndim else loss)
        return outputs

    def _check_inputs(self, inputs: Any) -> None:
        leaves, specs = flatten(inputs), flatten(self.input_spec)
        if len(leaves) != len(specs):
            raise ValueError(f"{self._with_shapes((inputs,))}: takes {len(specs)} inputs, got {len(leaves)}")
        try:
            for leaf, spec in zip(leaves, specs, strict=True):
                if spec is not None and not (leaf is None and spec.optional):
                    spec.check(leaf)
        except ValueError as error:
            raise ValueError(f"{self._with_shapes((inputs,))}: {error}") from error

    def _name_in(self, error: OperationError, args: tuple[Any, ...]) -> None:
        """Writes this layer and the shapes of its inputs into an error of its operations; the innermost layer does."""
        if "layer " not in (error.where or ""):
            error.where = f"{self._with_shapes(args)}: {error.where}"
            error.args = (error.message,)

    def _with_shapes(self, args: tuple[Any, ...]) -> str:
        """This layer and the shapes of its inputs, in words; of symbolic tensors with None where a size is unknown."""
        layer, symbols = STATE.symbolic
        leaves = flatten(symbols if layer is self else list(args))
        given = " and ".join(str(tuple(leaf.shape)) for leaf in leaves if isinstance(leaf, (Tensor, KerasTensor)))
        return f"layer {self.name} ({type(self).__name__}) with inputs of shape {given or 'no tensors'}"

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.call(*args, **kwargs) if self._remat is None else self._remat.run(self, args, kwargs)

    def _as_input(self, value: Any) -> Any:
        """An input as a tensor; floating-point ones in the layer's dtype."""
        if value is None or isinstance(value, (str, bool)) or is_texts(value):
            return value
        return self._in_compute_dtype(value if isinstance(value, Tensor) else ops.as_tensor(value))

    def _in_compute_dtype(self, tensor: Tensor) -> Tensor:
        if tensor.dtype is self._compute_dtype:
            return tensor
        wanted = self._computes_in()
        if self.autocast and tensor.dtype.is_floating_point and tensor.dtype is not wanted:
            tensor = set_mask(tensor.to(wanted), mask_of(tensor))
        return tensor

    def _as_output(self, tensor: Tensor) -> Tensor:
        """A tensor in the dtype of the computation."""
        return tensor if tensor.dtype is self._compute_dtype else tensor.to(self._computes_in())

    def _cast_tensors(self, value: Any) -> Any:
        """Another argument than the first: tensors and arrays of floating-point numbers in the layer's dtype, arrays of
        other numbers as tensors, anything else as it is."""
        if isinstance(value, Tensor):
            return self._in_compute_dtype(value) if self._computes_in().is_floating_point else value
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, np.ndarray) and not is_texts(value):
            return self._cast_tensors(ops.as_tensor(value))
        if isinstance(value, (list, tuple)) and any(isinstance(inner, (Tensor, np.ndarray)) for inner in value):
            return type(value)(self._cast_tensors(inner) for inner in value)
        return value

    def _take_masks(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Gives the call the masks of its tensors; returns those of the first argument, None if it has none."""
        names = argument_names(type(self).call)
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        tensors = {name: value for name, value in given.items() if has_tensors(value) and "mask" not in name}
        if len(tensors) == 1 and "mask" in names and given.get("mask") is None:
            masks = map_structure(mask_of, next(iter(tensors.values())))
            if is_any(masks):
                kwargs["mask"] = masks
        elif len(tensors) > 1:
            for name, value in tensors.items():
                masks = map_structure(mask_of, value)
                if f"{name}_mask" in names and given.get(f"{name}_mask") is None and is_any(masks):
                    kwargs[f"{name}_mask"] = masks
        if kwargs.get("mask") is not None:
            return kwargs["mask"]
        first = map_structure(mask_of, args[0] if args else next(iter(kwargs.values()), None))
        return first if is_any(first) else None

    def _pass_masks(self, inputs: Any, outputs: Any, masks: Any) -> None:
        """Sets the masks of the outputs, unless the call has set them. Warns where they are lost."""
        leaves = flatten(outputs)
        if all(mask_of(leaf) is not None for leaf in leaves):
            return
        if not self.supports_masking and type(self).compute_mask is Layer.compute_mask:
            warnings.warn(
                f"layer {self.name} ({type(self).__name__}) got a mask, and does not pass masks on: what follows "
                "treats all steps alike",
                stacklevel=3,
            )
            return
        found = self.compute_mask(inputs, masks)
        for leaf, mask in zip(leaves, flatten(found) if isinstance(found, (list, tuple)) else [found], strict=False):
            if mask is not None and mask_of(leaf) is None:
                set_mask(leaf, mask)

    def _build_for(self, inputs: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None) -> None:
        several = shape_arguments(type(self).build)
        layer, symbols = STATE.symbolic
        if len(several) > 1 and (args or kwargs):
            given = tuple(symbols) if layer is self and symbols else args
            self._build_for_several(shapes_for(self, several, given, kwargs or {}))
            return
        for leaf in flatten(inputs):
            if not hasattr(leaf, "shape") and (leaf is not None or leaf is inputs):
                raise ValueError(f"layer {self.name} ({type(self).__name__}) takes tensors, not {leaf!r:.60}")
        shown = symbols[0] if layer is self and symbols else inputs
        if isinstance(inputs, Tensor):
            shown = flatten(shown)[0]  # a recurrent layer takes the first states out of a list
        # Sizes that are not known are None.
        shape = map_structure(lambda leaf: tuple(leaf.shape) if hasattr(leaf, "shape") else None, shown)
        try:
            with weights_read_in(None):
                self.build(shape)
        except (ValueError, TypeError) as error:
            raise type(error)(
                f"layer {self.name} ({type(self).__name__}) cannot take inputs of shape {shape}: {error}"
            ) from error
        self.built = True

    def _build_for_several(self, shapes: dict[str, Any]) -> None:
        """Makes the weights with the shapes of several arguments, by the names that `build` has for them."""
        try:
            with weights_read_in(None):
                self.build(**shapes)
        except (ValueError, TypeError) as error:
            raise type(error)(
                f"layer {self.name} ({type(self).__name__}) cannot take inputs of these shapes: {shapes}: {error}"
            ) from error
        self.built = True

    def compute_output_shape(self, *args: Any, **kwargs: Any) -> Any:
        """The shape of the output for input shapes with None where a size is unknown. It is found by computing with
        zeros of two sizes.
        """

        def symbolic(shape: Any) -> KerasTensor:
            return KerasTensor(shape, self.compute_dtype)

        others = (map_shapes(symbolic, one) if is_shape(one) else one for one in args[1:])
        named = {
            key.removesuffix("_shape") if is_shape(one) else key: map_shapes(symbolic, one) if is_shape(one) else one
            for key, one in kwargs.items()
        }
        first = (map_shapes(symbolic, args[0]),) if args else ()
        outputs = infer(self, (*first, *others), named)
        return map_structure(lambda output: output.shape, outputs)

    def stateless_call(
        self, trainable_variables: Any, non_trainable_variables: Any, *args: Any, return_losses: bool = False,
        **kwargs: Any,
    ) -> tuple[Any, ...]:  # fmt: skip
        """A call with these values of the layer's variables, which keep their own: (outputs, the values of the
        variables that are not trained afterwards), and with `return_losses` the losses of the call. Gradients reach the
        values: `pyapp.func.grad` differentiates by them.
        """
        if not self.built:
            raise ValueError(f"stateless_call: {self.name} has no variables yet: call it on some data first")
        trained, others = self.trainable_variables, self.non_trainable_variables
        check_count(f"{self.name}.stateless_call, trainable_variables", trainable_variables, trained)
        check_count(f"{self.name}.stateless_call, non_trainable_variables", non_trainable_variables, others)
        values = [*trainable_variables, *non_trainable_variables]
        with values_in(self, [*trained, *others], values) as held:
            self.clear_losses()
            outputs = self(*args, **kwargs)
            losses = self.losses if return_losses else []
            after = values_of(held[len(trained) :])
        return (outputs, after, losses) if return_losses else (outputs, after)

    def compute_output_spec(self, *args: Any, **kwargs: Any) -> Any:
        """The symbolic outputs of symbolic inputs, without a call of a model."""
        return infer(self, args, kwargs)

    def get_build_config(self) -> dict[str, Any] | None:
        """What `build_from_config` takes: the shapes that `build` was given. None before that."""
        if self._built_for_several is not None:
            return {"shapes_dict": self._built_for_several}
        return None if self._built_for is None else {"input_shape": self._built_for}

    def build_from_config(self, config: Mapping[str, Any]) -> None:
        """Makes the weights for the shapes of `get_build_config`."""
        shape, several = config.get("input_shape"), config.get("shapes_dict")
        if several is not None and not self.built:
            self.build(**{name: map_shapes(tuple, one) for name, one in several.items()})
            self.built = True
        if shape is not None and not self.built:
            self.build(map_shapes(tuple, shape))
            self.built = True

    @property
    def metrics(self) -> list[Any]:
        """The metrics that are attributes of the layer, and of the layers inside."""
        return [value for module in self.modules() for value in vars(module).values() if isinstance(value, Metric)]

    @property
    def metrics_variables(self) -> list[Tensor]:
        """The states of `metrics`."""
        return [variable for metric in self.metrics for variable in metric.variables]

    # -- configuration

    def settings(self) -> dict[str, Any]:
        """The arguments of the constructor that `get_config` gives beside those of all layers, as JSON values."""
        return Configured.get_config(self)

    def get_config(self) -> dict[str, Any]:
        """The arguments of the constructor, as JSON values."""
        taken, every = arguments_of(type(self).__init__), takes_any(type(self).__init__)
        policy = dtype_policies.serialize(self._dtype_policy)
        shared = {"name": self.name, "trainable": self._trainable, "dtype": policy}
        found = {key: value for key, value in shared.items() if every or key in taken}
        for key in self.unknown_to_keras:
            found.pop(key, None)
        for key, value in self.settings().items():
            held = vars(self).get(key)
            if key in self.resolved:
                value = as_json(held)
            elif isinstance(held, tuple) and (value is None or isinstance(value, (int, list))):
                value = held  # a number for every dim, as Keras writes it
            if key == "data_format" and value is None:
                value = SETTINGS.data_format
            if key == "padding" and isinstance(value, str):
                value = value.lower()
            if (key in _UNWRITTEN and value == _UNWRITTEN[key]) or (value is None and key in self.unwritten):
                continue
            part = next((part for end, part in _BY_KEY.items() if key.endswith(end)), None)
            if part is not None and isinstance(value, str):
                value = as_json(part.get(value))
            found.setdefault(key, "linear" if value is None and key == "activation" else value)
        return found

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Any:
        """A layer made with the arguments of `get_config`. Layers among them are made anew."""
        return cls(**{name: restored(value) for name, value in config.items()})

    @property
    def output(self) -> Any:
        """The symbolic output of the first call; of several a list. AttributeError if there is none."""
        outputs = flatten(self._first_call().outputs)
        return outputs[0] if len(outputs) == 1 else outputs

    @property
    def input(self) -> Any:
        """The symbolic input of the first call; of several a list."""
        inputs = self._first_call().inputs
        return inputs[0] if len(inputs) == 1 else inputs

    def _first_call(self) -> Call:
        if not self._symbolic_calls:
            raise AttributeError(f"layer {self.name} was never called with symbolic tensors")
        return self._symbolic_calls[0]


def restored(value: Any) -> Any:
    """Layers of {"class_name", "config"}, in lists as well; other values as they are."""
    if isinstance(value, (list, tuple)):
        return type(value)(restored(inner) for inner in value)
    kind = registered(str(value.get("class_name"))) if isinstance(value, Mapping) else None
    if not (isinstance(kind, type) and issubclass(kind, Layer)):
        return value
    return kind.from_config(value["config"])
