"""Layers after dynamic quantisation: int8 weights, and inputs that are rounded by their own range at each call."""

from __future__ import annotations

from typing import Any

from .... import nn
from ....engine import Tensor, float16, float32, int8, no_grad, quant
from ....engine.ops import cat, stack, zeros
from ....engine.ops.int8_product import int8_linear
from ...tensors import choose_parameters, steps_of
from .. import intrinsic
from .weights import QuantizedWeight, quantized_by

__all__ = ["GRU", "GRUCell", "LSTM", "LSTMCell", "Linear", "LinearReLU", "RNNCell"]


class _DynamicWeight(QuantizedWeight):
    """A matrix of int8 steps and a bias, or of float16. `product` is x by it."""

    def __init__(self, weight: Tensor, bias: Any, observer: Any) -> None:
        super().__init__()
        self.halves = observer.dtype is float16
        if self.halves:
            self.dtype = float16
            self.register_buffer("steps", weight.detach().to(float16))
            self.register_buffer("bias_values", None if bias is None else bias.detach().to(float32))
        else:
            self.hold(quantized_by(observer, weight.detach().to(float32)), bias)
        object.__setattr__(self, "_packed", None)

    def weight(self) -> Any:
        return self.steps.to(float32) if self.halves else super().weight()

    def product(self, x: Tensor) -> Tensor:
        """x (…, I) → (…, O) float32, by whole numbers: x gets 128 steps, so that 8 bits hold its distances from 0."""
        with no_grad():
            if self.halves:
                result = nn.functional.linear(x, self.steps.to(float32))
            else:
                scale, zero_point = _range(x)
                steps = (steps_of(x, scale, zero_point, 0, 127) - zero_point).to(int8)
                if self._packed is None or self._packed[0] != self.steps._version:
                    packed = quant.pack_int8(self.steps) if self.steps.device.type == "cpu" else None
                    object.__setattr__(self, "_packed", (self.steps._version, packed))
                if self._packed[1] is not None:
                    result = int8_linear(steps, self._packed[1])
                else:
                    result = nn.functional.linear(steps.to(float32), self.steps.to(float32))
                result = result * (self.weight_scale.to(float32) * scale)
            return result if self.bias_values is None else result + self.bias_values


class Linear(_DynamicWeight):
    """Linear: (…, I) → (…, O) float32. It has no gradient."""

    relu = False

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Linear:
        """From a Linear with a `qconfig`, or from Linear and ReLU."""
        layer = mod[0] if type(mod) is intrinsic.LinearReLU else mod
        observer = mod.weight_fake_quant if hasattr(mod, "weight_fake_quant") else mod.qconfig.weight()
        made = cls(layer.weight, layer.bias, observer)
        made.out_features, made.in_features = layer.weight.shape
        made.training = mod.training
        return made

    def forward(self, x: Tensor) -> Tensor:
        result = self.product(x)
        return nn.functional.relu(result) if self.relu else result

    def _get_name(self) -> str:
        return f"DynamicQuantized{type(self).__name__}"

    def extra_repr(self) -> str:
        sizes = f"in_features={self.in_features}, out_features={self.out_features}, dtype={self.dtype}"
        return sizes if self.halves else f"{sizes}, qscheme={self.weight().qscheme()}"


class LinearReLU(Linear):
    """Linear and ReLU."""

    relu = True


def _range(x: Tensor) -> tuple[float, int]:
    """The scale and the zero point of 128 steps for x."""
    if not x.numel():
        return 1.0, 0
    scale, zero_point = choose_parameters(float(x.amin()), float(x.amax()), 0, 127)
    return float(scale), int(zero_point)


def _lstm(gates: Tensor, _: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    i, f, g, o = gates.chunk(4, -1)
    cell = f.sigmoid() * state[1] + i.sigmoid() * g.tanh()
    return o.sigmoid() * cell.tanh(), cell


def _gru(of_input: Tensor, of_state: Tensor, state: Tensor) -> Tensor:
    (r, z, n), (hr, hz, hn) = of_input.chunk(3, -1), of_state.chunk(3, -1)
    update = (z + hz).sigmoid()
    return (n + (r + hr).sigmoid() * hn).tanh() * (1 - update) + update * state


class _Short(nn.Module):
    """Base of modules that print without their parts, as in torch."""

    def _get_name(self) -> str:
        return f"DynamicQuantized{type(self).__name__}"

    def __repr__(self) -> str:
        return f"{self._get_name()}({self.extra_repr()})"


class _Cell(_Short):
    """One step of a recurrent layer, by two quantised matrices."""

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        made = cls()
        made.input_size, made.hidden_size = mod.input_size, mod.hidden_size
        made.bias = mod.bias_ih is not None
        made.nonlinearity = getattr(mod, "nonlinearity", "tanh")
        made.of_input = _DynamicWeight(mod.weight_ih, mod.bias_ih, mod.qconfig.weight())
        made.of_state = _DynamicWeight(mod.weight_hh, mod.bias_hh, mod.qconfig.weight())
        return made

    def _empty(self, input: Tensor) -> Any:
        return zeros((*input.shape[:-1], self.hidden_size), device=input.device)

    def forward(self, input: Tensor, hx: Any = None) -> Any:
        state = self._empty(input) if hx is None else hx
        gates = self.of_input.product(input) + self.of_state.product(state)
        return gates.relu() if self.nonlinearity == "relu" else gates.tanh()

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}"


class RNNCell(_Cell):
    """RNNCell: input (B, I), hx (B, H) → (B, H)."""


class LSTMCell(_Cell):
    """LSTMCell: input (B, I), hx two of (B, H) → two of (B, H)."""

    def forward(self, input: Tensor, hx: Any = None) -> Any:
        state = (self._empty(input), self._empty(input)) if hx is None else hx
        gates = self.of_input.product(input) + self.of_state.product(state[0])
        return _lstm(gates, gates, state)


class GRUCell(_Cell):
    """GRUCell: input (B, I), hx (B, H) → (B, H)."""

    def forward(self, input: Tensor, hx: Any = None) -> Any:
        state = self._empty(input) if hx is None else hx
        return _gru(self.of_input.product(input), self.of_state.product(state), state)


class _Recurrent(_Short):
    """Base of LSTM and GRU: each layer and direction has two quantised matrices. Inputs are padded, not packed."""

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """From a layer with a `qconfig`. NotImplementedError for projections."""
        if getattr(mod, "proj_size", 0):
            raise NotImplementedError(f"{cls.__name__}: layers with proj_size cannot be quantised")
        made = cls()
        for name in "input_size hidden_size num_layers bias batch_first dropout bidirectional".split():
            setattr(made, name, getattr(mod, name))
        for layer in range(mod.num_layers):
            for end in ("", "_reverse")[: 1 + mod.bidirectional]:
                for part in ("ih", "hh"):
                    name = f"{part}_l{layer}{end}"
                    bias = getattr(mod, f"bias_{name}") if mod.bias else None
                    weight = _DynamicWeight(getattr(mod, f"weight_{name}"), bias, mod.qconfig.weight())
                    setattr(made, f"matrix_{name}", weight)
        return made

    def _next(self, of_input: Tensor, of_state: Any, state: Any) -> Any:
        raise NotImplementedError

    def _run(self, x: Tensor, name: str, state: Any, order: Any) -> tuple[Tensor, Any]:
        """x (L, B, I), the state of one direction → results (L, B, H), the last state."""
        if not len(x):
            raise RuntimeError(f"{type(self).__name__}: the sequence must not be empty, got {tuple(x.shape)}")
        of_input = getattr(self, f"matrix_ih_{name}").product(x)  # (L, B, gates * H), by the range of all steps
        matrix = getattr(self, f"matrix_hh_{name}")
        results: list[Any] = [None] * x.shape[0]
        for k in order:
            state = self._next(of_input[k], matrix.product(self._shown(state)), state)
            results[k] = self._shown(state)
        return stack(results), state

    def _shown(self, state: Any) -> Tensor:
        return state[0] if isinstance(state, tuple) else state

    def forward(self, input: Tensor, hx: Any = None) -> tuple[Tensor, Any]:
        alone = input.ndim == 2
        x = input.unsqueeze(1) if alone else input.transpose(0, 1) if self.batch_first else input  # (L, B, I)
        each, length = 1 + self.bidirectional, x.shape[0]
        states = self._first(x, hx, alone)
        last = []
        for layer in range(self.num_layers):
            found = []
            for k in range(each):
                order = reversed(range(length)) if k else range(length)
                name = f"l{layer}{'_reverse' if k else ''}"
                result, state = self._run(x, name, states[layer * each + k], order)
                found.append(result)
                last.append(state)
            x = cat(found, -1)
        result = x.squeeze(1) if alone else x.transpose(0, 1) if self.batch_first else x
        return result, self._joined(last, alone)

    def _first(self, x: Tensor, hx: Any, alone: bool) -> list[Any]:
        count = self.num_layers * (1 + self.bidirectional)
        if hx is None:
            hx = zeros((count, x.shape[1], self.hidden_size), device=x.device)
            return [hx[k] for k in range(count)]
        return [hx[k].unsqueeze(0) if alone else hx[k] for k in range(count)]

    def _joined(self, states: list[Any], alone: bool) -> Any:
        found = stack(states)
        return found.squeeze(1) if alone else found

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        usual = {"num_layers": 1, "batch_first": False, "dropout": 0.0, "bidirectional": False}
        return text + "".join(f", {n}={getattr(self, n)}" for n, value in usual.items() if getattr(self, n) != value)


class LSTM(_Recurrent):
    """LSTM in evaluation: as nn.LSTM, of padded tensors."""

    def _next(self, of_input: Tensor, of_state: Any, state: Any) -> Any:
        gates = of_input + of_state
        return _lstm(gates, gates, state)

    def _first(self, x: Tensor, hx: Any, alone: bool) -> list[Any]:
        hidden, cells = (None, None) if hx is None else hx
        return list(zip(super()._first(x, hidden, alone), super()._first(x, cells, alone), strict=True))

    def _joined(self, states: list[Any], alone: bool) -> Any:
        return tuple(super(LSTM, self)._joined([state[k] for state in states], alone) for k in range(2))


class GRU(_Recurrent):
    """GRU in evaluation: as nn.GRU, of padded tensors."""

    def _next(self, of_input: Tensor, of_state: Any, state: Any) -> Any:
        return _gru(of_input, of_state, state)
