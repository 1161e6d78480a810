"""The layer with a state by the gated delta rule (Yang, Kautz and Hatamizadeh 2024, arXiv 2412.06464) of hybrid
decoders.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from ...engine import Tensor
from ...engine.ops import empty
from ..layers.convolution import Conv1d
from ..layers.gated import activation_named
from ..layers.linear import ResidualLinear
from ..layers.normalization import RMSNorm
from ..module import Module
from ..parameter import Initialization, new_parameter
from .delta_rule import gated_delta_rule
from .state_space import causal_convolution


class GatedDeltaLayer(Module):
    """Mixes each channel with its last tokens, and each head with its state, by the gated delta rule. A subclass has
    the projections of the input. `config` is a DeltaConfig of models/loading/delta_config.py, with hidden_act; `names`
    are those of the norm and the last projection. `strength`: the largest rate, 2 for states that may change their
    sign (Grazzi et al. 2024, arXiv 2411.12537).
    """

    names = "norm", "out_proj"

    def __init__(self, config: Any, layer: int, epsilon: float, *, tiled: bool = False, strength: float = 1.0) -> None:
        super().__init__()
        keys, values, heads = config.key_size, config.value_size, config.linear_num_value_heads
        self.layer, self.groups, self.heads = layer, config.linear_num_key_heads, heads
        self.sizes, self.tiled, self.strength = (keys, keys, values), tiled, strength
        self.activation = activation_named(config.hidden_act)
        width = 2 * keys + values
        self.conv1d = Conv1d(width, width, config.linear_conv_kernel_dim, groups=width, bias=False)
        self.dt_bias = new_parameter(empty, heads)
        self.A_log = new_parameter(empty, heads)
        norm, last = self.names
        self.add_module(norm, RMSNorm(config.linear_value_head_dim, epsilon))
        self.add_module(last, ResidualLinear(values, config.hidden_size, bias=False))
        if Initialization.on:
            self.dt_bias.data.fill_(1.0)
            self.A_log.data.uniform_(0.01, 16).log_()

    def projected(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """x (..., T, hidden_size) → [queries, keys, values] (..., T, 2 G K + H V), the gate (..., T, H V), and
        the rates and the steps of decay before their activations (..., T, H).
        """
        raise NotImplementedError

    def forward(self, x: Tensor, text: Any, residual: Tensor) -> Tensor:
        """x and residual (..., T, hidden_size) → residual + the mixed tokens (..., T, hidden_size)."""
        mixed, gate, rate, step = self.projected(text.masked(x))
        convolve = partial(causal_convolution, weight=self.conv1d.weight)
        query, key, value = self.activation(text.carry(self.layer, 0, convolve, mixed)).split(self.sizes, -1)
        decay = (step + self.dt_bias).softplus() * -self.A_log.exp()  # (..., T, H)
        rate = rate.sigmoid() if self.strength == 1 else rate.sigmoid() * self.strength
        rule = partial(gated_delta_rule, groups=self.groups, tiled=self.tiled)
        y = text.carry(self.layer, 1, rule, query, key, value, rate, decay)  # (..., T, H V)
        heads = (*y.shape[:-1], self.heads, y.shape[-1] // self.heads)
        norm, last = (self._modules[name] for name in self.names)
        y = norm(y.reshape(heads)) * gate.reshape(heads).silu()
        found: Tensor = last(y.reshape(gate.shape), residual)
        return found
