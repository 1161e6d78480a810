"""Layers around a layer."""

from __future__ import annotations

from typing import Any

from ...engine import Tensor, no_grad, ops
from ...train.stateless import about_to_write
from ..call_arguments import arguments_of
from ..core import Layer
from ..initializers import TruncatedNormal
from ..lookup import as_json
from ..other_layers import ModuleLayer, as_layer
from ..weight_attributes import weights_read_in
from .recurrent import RNN

__all__ = ["Bidirectional", "SpectralNormalization", "TimeDistributed", "TorchModuleWrapper", "Wrapper"]


class Wrapper(Layer):
    """Base of layers that have a layer inside, `self.layer`."""

    def __init__(self, layer: Any, **settings: Any) -> None:
        super().__init__(**settings)
        self.layer = as_layer(layer)

    def build(self, input_shape: Any = None) -> None:
        if not self.layer.built:
            self.layer.build(input_shape)
            self.layer.built = True


class SpectralNormalization(Wrapper):
    """Divides the kernel of a layer by its largest singular value at each step of training (Miyato et al. 2018, arXiv
    1802.05957). `power_iterations` improve the estimate of it at each step."""

    def __init__(self, layer: Any, power_iterations: int = 1, **settings: Any) -> None:
        super().__init__(layer, **settings)
        if not isinstance(power_iterations, int) or power_iterations < 1:
            raise ValueError(f"SpectralNormalization: power_iterations is a positive integer, not {power_iterations!r}")
        self.power_iterations = power_iterations

    def build(self, input_shape: Any = None) -> None:
        super().build(input_shape)
        self._weight_order.append(self._kernel())  # the first of the weights, as in Keras
        self.vector_u = self.add_weight(
            (1, self._kernel().shape[-1]), TruncatedNormal(stddev=0.02), trainable=False, name="vector_u"
        )

    def _kernel(self) -> Tensor:
        for name in ("kernel", "embeddings"):
            found: Tensor | None = self.layer.__dict__.get(name)  # itself, not as it is read
            if found is not None:
                return found
        raise ValueError(f"SpectralNormalization: {type(self.layer).__name__} has neither a kernel nor embeddings")

    def call(self, inputs: Any, training: bool = False) -> Any:
        if training:
            with no_grad(), weights_read_in(None):
                self._normalize()
        return self.layer(inputs)

    def _normalize(self) -> None:
        kernel = self._kernel()
        flat = kernel.detach().reshape(-1, kernel.shape[-1])
        u: Any = self.vector_u.detach()
        for _ in range(self.power_iterations):
            v = _unit(u @ flat.T)
            u = _unit(v @ flat)
        sigma = v @ flat @ u.T  # (1, 1)
        empty = (flat == 0).all()  # then nothing can be divided
        about_to_write(self.vector_u, kernel)
        self.vector_u.copy_(ops.where(empty, self.vector_u, u))
        kernel.copy_(ops.where(empty, flat, flat / ops.where(empty, ops.ones_like(sigma), sigma)).reshape(kernel.shape))


def _unit(x: Tensor) -> Tensor:
    return x / x.square().sum().clamp(min=1e-12).sqrt()


class TorchModuleWrapper(ModuleLayer):
    """A module of `pyapp.nn` among the layers, which may also stand there as it is."""

    def __init__(self, module: Any, name: str | None = None, output_shape: Any = None) -> None:
        super().__init__(module, name)
        self.output_shape = output_shape


class TimeDistributed(Wrapper):
    """A layer at each step of (B, steps, …); its mask, (B, steps, …), is cut into steps too."""

    supports_masking = True

    def build(self, input_shape: Any = None) -> None:
        if len(input_shape) > 2 and not self.layer.built:
            self.layer.build((input_shape[0], *input_shape[2:]))
            self.layer.built = True

    def call(self, inputs: Tensor, training: bool = False, mask: Tensor | None = None) -> Tensor:
        if inputs.ndim < 3:
            raise ValueError(f"takes at least 3 dims, (batch, steps, …), got {tuple(inputs.shape)}")
        if mask is not None and tuple(mask.shape[:2]) != tuple(inputs.shape[:2]):
            raise ValueError(f"the mask {tuple(mask.shape)} does not have the batch and steps of {tuple(inputs.shape)}")
        masked = mask is not None and "mask" in arguments_of(type(self.layer).call)
        if masked or (training and next(self.layer.buffers(), None) is not None):  # statistics of one step at a time
            steps = [
                self.layer(inputs[:, step], **({"mask": mask[:, step]} if masked and mask is not None else {}))
                for step in range(inputs.shape[1])
            ]
            return ops.stack(steps, 1)
        flat = inputs.reshape(inputs.shape[0] * inputs.shape[1], *inputs.shape[2:])
        y = self.layer(flat)
        return y.reshape(inputs.shape[0], inputs.shape[1], *y.shape[1:])


class Bidirectional(Layer):
    """A recurrent layer over sequences and another over reversed ones. `merge_mode`: concat, sum, mul, ave, or None
    for both outputs; with return_state, the states come after them. `weights` are arrays that both begin with, those of
    the layer first."""

    initial_weights: Any = None
    supports_masking = True

    def __init__(
        self, layer: Any, merge_mode: str | None = "concat", weights: Any = None, backward_layer: Any = None,
        **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(**settings)
        layer = as_layer(layer)
        if not isinstance(layer, RNN):
            raise TypeError(f"Bidirectional: takes a recurrent layer, not {type(layer).__name__}")
        if merge_mode not in ("concat", "sum", "mul", "ave", None):
            raise ValueError(f"Bidirectional: merge_mode is concat, sum, mul, ave or None, not {merge_mode!r}")
        self.merge_mode, self.forward_layer = merge_mode, layer
        own = layer.name.removeprefix("forward_")
        if backward_layer is None:
            config = {**layer.get_config(), "name": f"backward_{own}", "go_backwards": not layer.go_backwards}
            backward_layer = type(layer).from_config(config)
        for setting in ("return_sequences", "return_state", "stateful"):
            if getattr(layer, setting) != getattr(backward_layer, setting):
                raise ValueError(f"Bidirectional: layer and backward_layer need the same {setting}")
        if layer.go_backwards == backward_layer.go_backwards:
            raise ValueError("Bidirectional: one of layer and backward_layer needs go_backwards=True")
        layer.name = f"forward_{own}"
        self.backward_layer = backward_layer
        self.initial_weights = weights
        for one in (layer, backward_layer):  # as in Keras: masked steps of sequences are 0
            one.zero_output_for_mask = one.return_sequences

    def build(self, input_shape: Any) -> None:
        for layer in (self.forward_layer, self.backward_layer):
            layer.build(input_shape)
            layer.built = True
        if self.initial_weights is not None:
            self.set_weights(self.initial_weights)

    def settings(self) -> dict[str, Any]:
        found = {**super().settings(), "backward_layer": as_json(self.backward_layer)}
        return {key: value for key, value in found.items() if key != "weights"}

    def call(
        self, sequences: Tensor, initial_state: Any = None, mask: Tensor | None = None, training: bool = False
    ) -> Any:
        halves = (None, None)
        if initial_state is not None:
            middle = len(initial_state) // 2
            halves = (initial_state[:middle], initial_state[middle:])
        y = self.forward_layer(sequences, initial_state=halves[0], mask=mask, training=training)
        z = self.backward_layer(sequences, initial_state=halves[1], mask=mask, training=training)
        states: tuple[Tensor, ...] = ()
        if self.forward_layer.return_state:
            states, y, z = (*y[1:], *z[1:]), y[0], z[0]
        if self.forward_layer.return_sequences:
            z = z.flip(1)
        result = self._merged(y, z)
        if not states:
            return result
        return (*result, *states) if self.merge_mode is None else (result, *states)

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        mask = self.forward_layer.compute_mask(inputs, mask)
        return mask if self.merge_mode else (mask, mask)

    def reset_states(self) -> None:
        """Forgets the states of stateful layers."""
        self.forward_layer.reset_states()
        self.backward_layer.reset_states()

    reset_state = reset_states

    @property
    def states(self) -> list[Tensor] | None:
        """The states after the last batch, those of the layer first; None before the first call."""
        first, second = self.forward_layer.states, self.backward_layer.states
        return None if first is None or second is None else [*first, *second]

    def _merged(self, y: Tensor, z: Tensor) -> Any:
        if self.merge_mode == "concat":
            return ops.cat([y, z], -1)
        if self.merge_mode == "sum":
            return y + z
        if self.merge_mode == "mul":
            return y * z
        return 0.5 * (y + z) if self.merge_mode == "ave" else (y, z)
