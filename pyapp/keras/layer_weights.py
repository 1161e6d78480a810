"""The weights of a layer: how they are made, listed, frozen, set, and put into files."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ..engine import Tensor, no_grad, ops
from ..engine.dtype import as_dtype
from ..errors import FileFormatError
from ..nn.module import Module
from ..nn.parameter import Parameter
from ..train.names import unique_name
from ..train.variable import Variable, as_variable
from . import constraints, initializers, regularizers
from .call_state import STATE
from .weight_attributes import declare

if TYPE_CHECKING:
    from collections.abc import Callable

    from .dtype_policies import DTypePolicy


def _outline(weights: list[Tensor]) -> str:
    """Names and shapes of weights, in words; of many, those of the first ones."""
    shown = [f"{getattr(one, 'name', 'weight')} {tuple(one.shape)}" for one in weights[:6]]
    return "[" + ", ".join(shown) + (", …]" if len(weights) > len(shown) else "]")


class LayerWeights(Module):
    """The part of a layer that has the weights; `keras.Layer` adds the shapes, dtypes and calls that they need."""

    name: str
    built: bool
    quantization_modes: tuple[str, ...]
    _path: str | None
    _trainable: bool
    _weight_order: list[Any]  # as add_weight made them
    _regularized: list[tuple[Any, Callable[[Tensor], Tensor]]]

    if TYPE_CHECKING:  # what Layer adds

        @property
        def dtype(self) -> str: ...

        @property
        def dtype_policy(self) -> DTypePolicy: ...

        @property
        def quantization_mode(self) -> str | None: ...

        @property
        def is_mixed(self) -> bool: ...

        def has_no_weights(self) -> bool: ...

    def add_weight(
        self, shape: Any = (), initializer: Any = "glorot_uniform", dtype: Any = None, trainable: bool = True,
        autocast: bool = True, regularizer: Any = None, constraint: Any = None, aggregation: str = "none",
        overwrite_with_gradient: bool = False, name: str | None = None,
    ) -> Variable:  # fmt: skip
        """A new weight, in `weights`. What is not trainable becomes a buffer. Without `autocast` it is read in its own
        dtype always. `aggregation`, for several replicas, has no effect: there is one."""
        if overwrite_with_gradient:
            raise NotImplementedError(f"{self.name}: no weight is overwritten with its gradient; use assign")
        if self.quantization_mode is not None and not self.quantization_modes:
            raise NotImplementedError(
                f"layer {self.name} ({type(self).__name__}) has the policy {self.dtype_policy.name}, but it cannot be "
                "quantised: give it another dtype, such as float32"
            )
        if isinstance(shape, str):
            raise ValueError(f"{self.name}: the first argument of add_weight is the shape: write name={shape!r}")
        if self.built:
            self._refuse_in_call("a weight" if name is None else f"the weight {name!r}")
        shape = (shape,) if isinstance(shape, int) else tuple(shape or ())
        for size in shape:
            if not isinstance(size, int) or size < 0:
                raise ValueError(f"{self.name}: the weight {name!r} of shape {shape} needs sizes that are known")
        if STATE.room is not None:
            left, where = STATE.room
            left -= math.prod(shape) * as_dtype(dtype or self.dtype).itemsize
            if left < 0:
                raise FileFormatError(
                    f"{where}: the weight {name!r} of {self.name} of shape {shape} is not in the file"
                )
            STATE.room = left, where
        with no_grad():
            value = initializers.get(initializer)(shape, dtype=dtype or self.dtype)
        computed = name is not None and isinstance(getattr(type(self), name, None), property)  # the layer's own answer
        free = name is not None and name.isidentifier() and not computed and getattr(self, name, None) is None
        label = name if name is not None and free else f"weight_{len(self._weight_order)}"
        weight = as_variable(Parameter(value, requires_grad=self._trainable) if trainable else value)
        if not autocast:
            weight._keeps_dtype = True
        if trainable:
            self.register_parameter(label, weight)
        else:
            if autocast and self.is_mixed:
                declare(type(self), label)
            self.register_buffer(label, weight)
        scope = STATE.scope if STATE.scope and STATE.scope[-1] is self else (*STATE.scope, self)
        around = self._path if self._path and len(scope) == 1 else "/".join(layer.name for layer in scope)
        weight._path = f"{around}/{name or unique_name('variable')}"
        self._weight_order.append(weight)
        if regularizer is not None:
            weight._regularizer = regularizers.get(regularizer)
            self._regularized.append((weight, weight.regularizer))
        if constraint is not None:
            weight._constraint = constraints.get(constraint)
        return weight

    def _refuse_in_call(self, what: str, again: bool = False) -> None:
        """ValueError where `call` of this layer makes state: each call would make it anew, untrained. As in Keras, the
        first call of a layer with layers inside may make more, if it does so once; `again` says that it does not."""
        if self._modules and not again:
            return
        frame = sys._getframe(2)
        while (around := frame.f_back) is not None:
            code = frame.f_code
            if code.co_name == "call" and code.co_argcount and frame.f_locals.get(code.co_varnames[0]) is self:
                raise ValueError(
                    "You cannot add new elements of state (variables or sub-layers) to a layer that is already built: "
                    f"call() of layer {self.name} ({type(self).__name__}) makes {what}. Make it in __init__() or in "
                    "build(input_shape)"
                )
            frame = around

    def _own_weights(self) -> list[Tensor]:
        """Those that can be trained first, as Keras has them in `weights` and, by their numbers, in its files."""
        made = {id(w): w for w in (*self._parameters.values(), *self._buffers.values())}  # by add_weight or outside
        others = [w for w in self._weight_order if id(w) not in made]
        return sorted((*others, *made.values()), key=lambda weight: not getattr(weight, "is_parameter", False))

    @property
    def weights(self) -> list[Tensor]:
        """All weights: those of this layer, then those of the layers inside."""
        found: dict[int, Tensor] = {id(w): w for w in self._own_weights()}
        for child in self.children():
            inside = child.weights if isinstance(child, LayerWeights) else [*child.parameters(), *child.buffers()]
            for weight in inside:
                found.setdefault(id(weight), weight)
        return list(found.values())

    def weight_paths(self) -> list[tuple[str, Tensor]]:
        """(path, weight) of all weights, in the order of `weights`: the names of the layers and of the weight, with
        slashes between them.
        """
        found: dict[int, tuple[str, Tensor]] = {}
        names = {id(w): name for part in (self._parameters, self._buffers) for name, w in part.items()}
        for weight in self._own_weights():
            if id(weight) in names:
                found[id(weight)] = f"{self.name}/{names[id(weight)]}", weight
        for name, child in self.named_children():
            if isinstance(child, LayerWeights):
                inside = child.weight_paths()
            else:
                every = (*child.named_parameters(), *child.named_buffers())
                inside = [(f"{name}/{path}".replace(".", "/"), weight) for path, weight in every]
            for path, weight in inside:
                found.setdefault(id(weight), (f"{self.name}/{path}", weight))
        return list(found.values())

    @property
    def trainable(self) -> bool:
        """Whether the optimiser changes the weights; it holds for the layers inside too."""
        return self._trainable

    @trainable.setter
    def trainable(self, value: bool) -> None:
        object.__setattr__(self, "_trainable", bool(value))
        for parameter in self.parameters():
            parameter.requires_grad_(bool(value))
        for module in self.modules():
            if isinstance(module, LayerWeights):
                object.__setattr__(module, "_trainable", bool(value))
                for weight in module.frozen_weights:
                    weight.requires_grad_(False)

    @property
    def frozen_weights(self) -> list[Tensor]:
        """Own weights that are not trained, though the layer is trainable."""
        return []

    @property
    def trainable_weights(self) -> list[Tensor]:
        """What the optimiser changes. A layer that is not trainable has none, whatever the layers inside say."""
        if not self._trainable:
            return []
        return [w for w in self.weights if getattr(w, "is_parameter", False) and w.requires_grad]

    trainable_variables = trainable_weights

    @property
    def _trainable_variables(self) -> list[Tensor]:
        """This layer's own weights that can be trained; for packages that write `save_own_variables`."""
        return [w for w in self._own_weights() if getattr(w, "is_parameter", False)]

    @property
    def _non_trainable_variables(self) -> list[Tensor]:
        """This layer's own weights that are never trained."""
        return [w for w in self._own_weights() if not getattr(w, "is_parameter", False)]

    @property
    def non_trainable_weights(self) -> list[Tensor]:
        trained = {id(w) for w in self.trainable_weights}
        return [w for w in self.weights if id(w) not in trained]

    non_trainable_variables = non_trainable_weights

    @property
    def variables(self) -> list[Tensor]:
        return self.weights

    def get_weights(self) -> list[Any]:
        """The weights as NumPy arrays, copied."""
        return [w.detach().numpy().copy() for w in self.weights]

    def set_weights(self, weights: Iterable[Any]) -> None:
        """Writes arrays into the weights. ValueError where their number or a shape differs."""
        given, own = list(weights), self.weights
        if len(given) != len(own):
            raise ValueError(
                f"set_weights: {self.name} has {len(own)} weights, got {len(given)}: pass an array for each of "
                f"{_outline(own)}, as get_weights gives them"
                + ("" if self.built or own else "; it has none before it is called, or build(input_shape)")
            )
        values = [ops.as_tensor(value) for value in given]
        for place, (weight, value) in enumerate(zip(own, values, strict=True)):
            if weight.shape != value.shape:
                raise ValueError(
                    f"set_weights: weight {place} of {self.name} ({getattr(weight, 'name', 'weight')}) has the shape "
                    f"{tuple(weight.shape)}, got {tuple(value.shape)}: all are {_outline(own)}"
                )
        with no_grad():
            for weight, value in zip(own, values, strict=True):
                weight.copy_(value)

    def stored_weights(self) -> list[tuple[Tensor, Tensor]]:
        """(weight, what a file has for it) of this layer's own weights. A weight that is not there is in no file."""
        return [(weight, weight.detach()) for weight in self._own_weights()]

    def weights_were_read(self) -> None:
        """Called when `stored_weights` were read from a file."""

    def save_own_variables(self, store: Any) -> None:
        """Puts into a dict, by name, what Keras' files have of this layer itself: its weights as "0", "1", …. A layer
        may write more, or other things, with a `load_own_variables` of its own."""
        for number, (_, value) in enumerate(self.stored_weights()):
            store[str(number)] = value.numpy()

    def load_own_variables(self, store: Any) -> None:
        """Reads what `save_own_variables` wrote. ValueError where the number of weights or a shape differs."""
        own = [weight for weight, _ in self.stored_weights()]
        if len(store) != len(own):
            raise ValueError(f"layer {self.name} has {len(own)} weights, the file {len(store)}")
        for number, weight in enumerate(own):
            value = ops.as_tensor(store[str(number)])
            if value.shape != weight.shape:
                raise ValueError(f"layer {self.name}: weight {number} is {weight.shape}, got {value.shape}")
            with no_grad():
                weight.copy_(value)
        self.weights_were_read()

    def count_params(self) -> int:
        """The number of elements of all weights. ValueError where they are not made yet."""
        if not self.built and not self.has_no_weights():
            raise ValueError(
                f"count_params: layer {self.name} ({type(self).__name__}) has no weights yet: call it, or "
                "build(input_shape), first"
            )
        return sum(w.numel() for w in self.weights)
