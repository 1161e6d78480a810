"""TimesFM 1.0 and 2.0 (Das et al. 2023, arXiv 2310.10688): a decoder over patches of a series, of which each output
names the mean and the quantiles of the values that follow.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from math import log, sqrt
from typing import TYPE_CHECKING

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.engine.lazy import np
from pyapp.engine.user_errors import describe
from pyapp.errors import InputError
from pyapp.nn import Embedding, LayerNorm, Linear, Module, ModuleList, RMSNorm
from pyapp.nn.encoders.encoders import attend
from pyapp.nn.forecasting import Forecaster, ResidualBlock, Wanted, between_levels
from pyapp.nn.layers.linear import ResidualLinear
from pyapp.nn.parameter import new_parameter

from .loading.config import FileConfig, check_divides, check_positive, require
from .loading.forecasting_config import LONGEST, check_count, check_levels

if TYPE_CHECKING:
    from numpy.typing import NDArray

MODEL_TYPES = ("timesfm",)
BASE = "decoder"
IGNORED = r"(decoder\.)?position_emb\.inv_timescales"  # computed here
LAYERS = ("input_layer", "output_layer", "residual_layer")
ENOUGH = 3  # values of a patch by which a series is scaled
LOG2_E = 1.442695041


@dataclass(frozen=True)
class Config(FileConfig):
    """The hyper-parameters, by the names of config.json. context_length: the values that are read at most,
    horizon_length: those that an output names.
    """

    model_type = MODEL_TYPES[0]

    patch_length: int = 32
    context_length: int = 512
    horizon_length: int = 128
    freq_size: int = 3
    num_hidden_layers: int = 50
    hidden_size: int = 1280
    intermediate_size: int = 1280
    head_dim: int = 80
    num_attention_heads: int = 16
    tolerance: float = 1e-6
    rms_norm_eps: float = 1e-6
    quantiles: tuple[float, ...] = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
    use_positional_embedding: bool = False
    min_timescale: int = 1
    max_timescale: int = 10000

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("patch_length", "context_length", "horizon_length"):
            check_count(name, getattr(self, name), LONGEST)
        check_count("freq_size", self.freq_size, 1 << 10)
        check_positive(self, "tolerance", "rms_norm_eps")
        check_divides(self, "patch_length", "context_length")
        check_levels(self.quantiles)
        outputs = self.horizon_length * (1 + len(self.quantiles))
        require(outputs <= 1 << 20, f"{outputs:,} outputs of a patch are too many")
        require(self.num_attention_heads * self.head_dim <= 1 << 16, f"head_dim {self.head_dim:,} is too large")
        if self.use_positional_embedding:
            require(self.hidden_size % 2 == 0, f"hidden_size {self.hidden_size} is odd: positions come in pairs")


class Attention(Module):
    """Attention of each patch to itself and those before it; every feature of the queries has a scale."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.heads, self.size = config.num_attention_heads, config.head_dim
        inner = self.heads * self.size
        self.scaling = new_parameter(ops.ones, self.size)
        self.q_proj = Linear(config.hidden_size, inner)
        self.k_proj = Linear(config.hidden_size, inner)
        self.v_proj = Linear(config.hidden_size, inner)
        self.o_proj = ResidualLinear(inner, config.hidden_size)

    def forward(self, x: Tensor, residual: Tensor) -> Tensor:
        """x and residual (B, N, D) → (B, N, D)."""
        shape = (*x.shape[:2], self.heads, self.size)
        q, k, v = (part(x).reshape(*shape) for part in (self.q_proj, self.k_proj, self.v_proj))
        q = q * (ops.softplus(self.scaling) * (LOG2_E / sqrt(self.size)))
        return self.o_proj(attend(q, k, v, None, 1.0, causal=True), residual)


class FeedForward(Module):
    """The feed-forward part, with a norm before it and a residual around it."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.gate_proj = Linear(config.hidden_size, config.intermediate_size)
        self.down_proj = ResidualLinear(config.intermediate_size, config.hidden_size)
        self.layer_norm = LayerNorm(config.hidden_size, 1e-6)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, N, D) → (B, N, D)."""
        return self.down_proj(self.gate_proj(self.layer_norm(x)).relu(), x)


class Layer(Module):
    """Attention and the feed-forward part."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.self_attn = Attention(config)
        self.mlp = FeedForward(config)
        self.input_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, N, D) → (B, N, D)."""
        return self.mlp(self.self_attn(self.input_layernorm(x), x))


class Decoder(Module):
    """The decoder over patches."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        width = config.hidden_size
        self.input_ff_layer = ResidualBlock(2 * config.patch_length, config.intermediate_size, width, "silu", LAYERS)
        self.freq_emb = Embedding(config.freq_size, width)
        self.layers = ModuleList(Layer(config) for _ in range(config.num_hidden_layers))

    def forward(self, values: Tensor, before: int, frequency: int) -> tuple[Tensor, Tensor, Tensor]:
        """values (B, N, P) of patches, of which the first `before` of the first patch are padding → (the hidden states
        (B, N, D), the places and the scales (B, 1, 1) of the series).
        """
        count, length = values.shape[1:]
        first = 1 if length - before < ENOUGH and count > 1 else 0  # the first patch with enough values
        known = values.narrow(1, first, 1)  # (B, 1, P)
        known = known if first else known.narrow(2, before, length - before)
        place = known.mean(2, keepdim=True)
        scale = (known - place).square().mean(2, keepdim=True).sqrt().clamp(min=self.config.tolerance)
        padding = (ops.arange(count * length, device=values.device) < before).to("float32").reshape(1, count, length)
        x = (values - place) / scale * (1 - padding)
        x = self.input_ff_layer(ops.cat([x, padding.expand(*x.shape)], 2))
        if self.config.use_positional_embedding:
            x = x + sinusoids(self.config, count).to(x.device)
        x = x + self.freq_emb(ops.tensor([frequency], dtype="int32", device=x.device))
        for layer in self.layers:
            x = layer(x)
        return x, place, scale


def sinusoids(config: Config, count: int) -> Tensor:
    """The positions (count, D) of patches: sines of all angles, then their cosines."""
    half = config.hidden_size // 2
    step = log(config.max_timescale / config.min_timescale) / max(half - 1, 1)
    speeds = config.min_timescale * np.exp(np.arange(half, dtype=np.float32) * np.float32(-step))
    angles = np.arange(count, dtype=np.float32)[:, None] * speeds
    return ops.from_numpy(np.concatenate([np.sin(angles), np.cos(angles)], 1).astype(np.float32))


class TimesFM(Forecaster):
    """The decoder, and the layer that names the values after each patch."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.reads, self.horizon, self.frequencies = config.context_length, config.horizon_length, config.freq_size
        self.levels = tuple(config.quantiles)
        self.decoder = Decoder(config)
        outputs = config.horizon_length * (1 + len(self.levels))
        self.horizon_ff_layer = ResidualBlock(config.hidden_size, config.intermediate_size, outputs, "silu", LAYERS)

    def forward(self, past_values: Tensor, frequency: int = 0) -> Tensor:
        """past_values (B, T) → (B, horizon_length, 1 + quantiles): the mean and the quantiles of the next values."""
        if past_values.ndim != 2 or past_values.shape[0] < 1 or not 1 <= past_values.shape[1] <= self.reads:
            raise InputError(f"TimesFM: series are (B, T) with T from 1 to {self.reads}, not {describe(past_values)}")
        length = self.config.patch_length
        before = -past_values.shape[1] % length
        values = ops.pad(past_values, (before, 0)) if before else past_values
        x, place, scale = self.decoder(values.reshape(values.shape[0], -1, length), before, frequency)
        y = self.horizon_ff_layer(x[:, -1])  # (B, horizon * (1 + quantiles))
        return y.reshape(y.shape[0], self.horizon, -1) * scale + place

    def forecasts(
        self, past: NDArray[np.float32], wanted: Wanted
    ) -> Generator[int, None, tuple[NDArray[np.float64], NDArray[np.float64]]]:
        """Beyond its horizon the model goes on with the means that it named."""
        known, found = past, np.empty((past.shape[0], 0, 1 + len(self.config.quantiles)))
        while found.shape[1] < wanted.horizon:
            y = self(ops.from_numpy(np.ascontiguousarray(known)).to(self.device), wanted.frequency)
            more = y.to("float32").cpu().numpy()
            found = np.concatenate([found, more.astype(np.float64)], 1)
            known = np.concatenate([known, more[:, :, 0]], 1)[:, -self.reads :]
            yield min(found.shape[1], wanted.horizon)
        found = found[:, : wanted.horizon]
        return found[:, :, 0], between_levels(found[:, :, 1:], self.config.quantiles, wanted.quantiles)


TASKS: Mapping[str, Callable[[Config], Module]] = {"time-series-forecasting": TimesFM}
