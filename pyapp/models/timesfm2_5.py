"""TimesFM 2.5 (the package timesfm; Das et al. 2023, arXiv 2310.10688): a decoder over patches of a series with rotary
positions. One head names the quantiles of the values that follow, another how far they lie apart.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import field
from math import sqrt
from typing import TYPE_CHECKING, Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.engine.lazy import np
from pyapp.engine.user_errors import describe
from pyapp.errors import InputError
from pyapp.nn import Linear, Module, ModuleList, RMSNorm
from pyapp.nn.forecasting import Forecaster, ResidualBlock, Wanted, between_levels
from pyapp.nn.layers.gated import activation_named
from pyapp.nn.parameter import new_parameter

from .loading.config import (
    FileConfig,
    check_depth,
    check_divides,
    check_heads,
    check_positive,
    require,
    rope_parameters,
)
from .loading.forecasting_config import LONGEST, check_count, check_levels

if TYPE_CHECKING:
    from numpy.typing import NDArray

MODEL_TYPES = ("timesfm2_5",)
BASE = "model"
LAYERS = ("input_layer", "output_layer", "residual_layer")
LOG2_E = 1.442695041
SMALLEST = 1e-6  # deviations below it do not divide


@dataclass(frozen=True)
class Config(FileConfig):
    """The hyper-parameters, by the names of config.json. context_length: the values that are read at most,
    horizon_length: those that an output names; decode_index: which of the mean and the quantiles is the forecast.
    """

    model_type = MODEL_TYPES[0]

    patch_length: int = 32
    context_length: int = 16384
    horizon_length: int = 128
    num_hidden_layers: int = 20
    hidden_size: int = 1280
    intermediate_size: int = 1280
    head_dim: int = 80
    num_attention_heads: int = 16
    num_key_value_heads: int = 16
    rms_norm_eps: float = 1e-6
    quantiles: tuple[float, ...] = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
    attention_bias: bool = False
    use_bias: bool = False
    activation: str = "swish"
    output_quantile_len: int = 1024
    decode_index: int = 5
    use_continuous_quantile_head: bool = True
    force_flip_invariance: bool = True
    infer_is_positive: bool = True
    rope_parameters: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_depth(self.num_hidden_layers)
        for name in ("patch_length", "context_length", "horizon_length", "output_quantile_len"):
            check_count(name, getattr(self, name), LONGEST)
        check_positive(self, "rms_norm_eps")
        check_divides(self, "patch_length", "context_length")
        check_levels(self.quantiles)
        outputs = max(self.horizon_length, self.output_quantile_len) * (1 + len(self.quantiles))
        require(outputs <= 1 << 20, f"{outputs:,} outputs of a patch are too many")
        index = self.decode_index
        require(0 < index <= len(self.quantiles), f"decode_index is {index}, of {len(self.quantiles)} quantiles")
        check_heads(
            self.hidden_size, self.num_attention_heads, self.num_key_value_heads, self.head_dim,
            self.context_length // self.patch_length,
        )  # fmt: skip
        kind = self.rope_parameters.get("rope_type", "default")
        require(kind == "default", f"rope_type {kind!r:.40} is not supported")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json; other keys are ignored."""
        return super().from_dict({**values, "rope_parameters": rope_parameters(values)})


class Attention(Module):
    """Attention of each patch to itself and those before it; every feature of the queries has a scale."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.heads, self.key_heads, self.size = config.num_attention_heads, config.num_key_value_heads, config.head_dim
        width, bias = config.hidden_size, config.attention_bias
        self.scaling = new_parameter(ops.ones, self.size)
        self.q_proj = Linear(width, self.heads * self.size, bias)
        self.k_proj = Linear(width, self.key_heads * self.size, bias)
        self.v_proj = Linear(width, self.key_heads * self.size, bias)
        self.o_proj = Linear(self.heads * self.size, width, bias)
        self.q_norm = RMSNorm(self.size, config.rms_norm_eps)
        self.k_norm = RMSNorm(self.size, config.rms_norm_eps)

    def forward(self, x: Tensor, table: Tensor) -> Tensor:
        """x (B, N, D) → (B, N, D)."""
        q = self.q_proj(x).reshape(*x.shape[:2], self.heads, self.size)
        k, v = (part(x).reshape(*x.shape[:2], self.key_heads, self.size) for part in (self.k_proj, self.v_proj))
        q = self.q_norm(ops.rope(q, table, interleaved=False))
        k = self.k_norm(ops.rope(k, table, interleaved=False))
        q = q * (ops.softplus(self.scaling) * (LOG2_E / sqrt(self.size)))
        return self.o_proj(ops.attention(q, k, v, True, 1.0).reshape(*x.shape[:2], self.heads * self.size))


class Layer(Module):
    """Attention and a feed-forward part, each with a norm before and after it."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width = config.hidden_size
        self.self_attn = Attention(config)
        self.mlp = Module()
        self.mlp.ff0 = Linear(width, config.intermediate_size, config.use_bias)
        self.mlp.ff1 = Linear(config.intermediate_size, width, config.use_bias)
        self.activation = activation_named(config.activation)
        self.input_layernorm = RMSNorm(width, config.rms_norm_eps)
        self.post_attention_layernorm = RMSNorm(width, config.rms_norm_eps)
        self.pre_feedforward_layernorm = RMSNorm(width, config.rms_norm_eps)
        self.post_feedforward_layernorm = RMSNorm(width, config.rms_norm_eps)

    def forward(self, x: Tensor, table: Tensor) -> Tensor:
        """x (B, N, D) → (B, N, D)."""
        x = self.post_attention_layernorm(self.self_attn(self.input_layernorm(x), table)) + x
        y = self.mlp.ff1(self.activation(self.mlp.ff0(self.pre_feedforward_layernorm(x))))
        return self.post_feedforward_layernorm(y) + x


class TimesFM25(Forecaster):
    """The decoder and both heads."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.reads, self.horizon, self.levels = config.context_length, config.horizon_length, tuple(config.quantiles)
        width, each, activation = config.hidden_size, 1 + len(config.quantiles), config.activation
        self.model = Module()
        self.model.input_ff_layer = ResidualBlock(2 * config.patch_length, width, width, activation, LAYERS)
        self.model.layers = ModuleList(Layer(config) for _ in range(config.num_hidden_layers))
        for name, length in (("point", config.horizon_length), ("quantiles", config.output_quantile_len)):
            head = ResidualBlock(width, width, length * each, activation, LAYERS, bias=False)
            self.add_module(f"output_projection_{name}", head)

    def _named(self, values: Tensor, before: int) -> tuple[Tensor, Tensor]:
        """values (B, N, P) of patches, of which the first `before` of the first patch are padding → what both heads
        name after the last patch: (B, horizon_length, 1 + Q), (B, output_quantile_len, 1 + Q).
        """
        batch, count, length = values.shape
        padding = (ops.arange(count * length, device=values.device) < before).to("float32").reshape(1, count, length)
        # Each patch is scaled by the mean and the deviation of all values up to its end.
        known = (ops.arange(count, device=values.device) + 1).to("float32") * length - before  # (N,)
        place = values.sum(2).cumsum(1) / known  # (B, N): padding is 0
        apart = (values - place.unsqueeze(2)) * (1 - padding)
        inside = apart.square().sum(2)  # (B, N): of a patch, around the mean up to its end
        # The squares of what was known before a patch lie around the last mean: they move with it.
        squares = [inside[:, 0]]
        for i in range(1, count):
            moved = known[i - 1] * (place[:, i] - place[:, i - 1]).square()
            squares.append(squares[-1] + moved + inside[:, i])
        scale = (ops.stack(squares, 1) / known).sqrt()  # (B, N)
        divisor = ops.where(scale < SMALLEST, 1.0, scale)
        x = apart / divisor.unsqueeze(2)
        x = self.model.input_ff_layer(ops.cat([x, padding.expand(batch, count, length)], 2))
        theta = self.config.rope_parameters.get("rope_theta", 10000.0)
        table = ops.rope_table(count, self.config.head_dim, theta).to(x.device)
        for layer in self.model.layers:
            x = layer(x, table)
        last, each = x[:, -1], 1 + len(self.config.quantiles)
        place, scale = place[:, -1].reshape(-1, 1, 1), scale[:, -1].reshape(-1, 1, 1)
        point = self.output_projection_point(last).reshape(batch, -1, each) * scale + place
        spread = self.output_projection_quantiles(last).reshape(batch, -1, each) * scale + place
        return point, spread

    def forward(self, past_values: Tensor) -> Tensor:
        """past_values (B, T) → (B, horizon_length, 1 + quantiles): the mean and the quantiles of the next values."""
        own = self.config
        if past_values.ndim != 2 or past_values.shape[0] < 1 or not 1 <= past_values.shape[1] <= self.reads:
            raise InputError(f"TimesFM 2.5: series are (B, T), T from 1 to {self.reads}, not {describe(past_values)}")
        tokens = past_values.shape[1]
        # The scale of the whole, in which transformers counts the zeros before a short series.
        place = past_values.sum(1, keepdim=True) / self.reads  # (B, 1)
        squares = (past_values - place).square().sum(1, keepdim=True) + (self.reads - tokens) * place.square()
        scale = (squares / max(self.reads - 1, 1)).sqrt()
        values = (past_values - place) / ops.where(scale < SMALLEST, 1.0, scale)
        before = -tokens % own.patch_length
        values = (ops.pad(values, (before, 0)) if before else values).reshape(values.shape[0], -1, own.patch_length)
        point, spread = self._named(values, before)
        if own.force_flip_invariance:  # the mean of the series and of its negative, whose quantiles are in reverse
            other, others = (ops.cat([y[..., :1], y[..., 1:].flip(-1)], -1) for y in self._named(-values, before))
            point, spread = (point - other) / 2, (spread - others) / 2
        if own.use_continuous_quantile_head:
            count, middle = min(own.horizon_length, spread.shape[1]), own.decode_index
            near = point[:, :count]
            spread = spread[:, :count]
            moved = spread - spread[..., middle : middle + 1] + near[..., middle : middle + 1]
            near = ops.cat([near[..., :1], moved[..., 1:]], -1)
            point = ops.cat([near, point[:, count:]], 1) if count < point.shape[1] else near
        found = point * scale.unsqueeze(2) + place.unsqueeze(2)
        if own.infer_is_positive:
            positive = (past_values.amin(1) >= 0).reshape(-1, 1, 1)
            found = ops.where(positive, found.clamp(min=0.0), found)
        return found

    def forecasts(
        self, past: NDArray[np.float32], wanted: Wanted
    ) -> Generator[int, None, tuple[NDArray[np.float64], NDArray[np.float64]]]:
        """Beyond its horizon the model goes on with its forecast."""
        known, middle = past, self.config.decode_index
        found = np.empty((past.shape[0], 0, 1 + len(self.config.quantiles)))
        while found.shape[1] < wanted.horizon:
            more = self(ops.from_numpy(np.ascontiguousarray(known)).to(self.device)).to("float32").cpu().numpy()
            found = np.concatenate([found, more.astype(np.float64)], 1)
            known = np.concatenate([known, more[:, :, middle]], 1)[:, -self.reads :]
            yield min(found.shape[1], wanted.horizon)
        found = found[:, : wanted.horizon]
        return found[:, :, middle], between_levels(found[:, :, 1:], self.config.quantiles, wanted.quantiles)


TASKS: Mapping[str, Callable[[Config], Module]] = {"time-series-forecasting": TimesFM25}
