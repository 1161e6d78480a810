"""PatchTSMixer (Ekambaram et al. 2023, arXiv 2306.09364): layers that mix the patches, the features and, if asked, the
series with one another. Tiny Time Mixers 1 are of this form.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import Linear, Module, ModuleList
from pyapp.nn.encoders.encoders import attend_joined
from pyapp.nn.forecasting import ParameterProjection, PatchForecaster, PatchPositions, patch_norm, patches_of
from pyapp.nn.sequence_to_sequence.sequence_to_sequence import Attention

from .loading.config import check_depth, check_divides, require
from .loading.forecasting_config import PatchedSeriesConfig, check_count

MODEL_TYPES = ("patchtsmixer",)
BASE = "model"
WIDEST = 1 << 16


@dataclass(frozen=True, kw_only=True)
class Config(PatchedSeriesConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]

    patch_length: int = 8
    patch_stride: int = 8
    d_model: int = 8
    expansion_factor: int = 2
    num_layers: int = 3
    mode: str = "common_channel"
    gated_attn: bool = True
    norm_mlp: str = "LayerNorm"
    self_attn: bool = False
    self_attn_heads: int = 1
    use_positional_encoding: bool = False
    prediction_length: int = 16
    prediction_channel_indices: list[int] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_depth(self.num_layers)
        for name, most in (("d_model", WIDEST), ("expansion_factor", 64), ("self_attn_heads", 1 << 12)):
            check_count(name, getattr(self, name), most)
        require(self.mode in ("common_channel", "mix_channel"), f"mode {self.mode!r:.40} is not known")
        require(self.d_model * self.patches <= 1 << 22, f"{self.d_model * self.patches:,} features are too many")
        if self.self_attn:
            check_divides(self, "self_attn_heads", "d_model")
        chosen = self.prediction_channel_indices
        if chosen is not None:
            known = all(type(number) is int and 0 <= number < self.num_input_channels for number in chosen)
            require(
                known and 1 <= len({*chosen}) == len(chosen),
                f"prediction_channel_indices is {chosen!r:.60}, expected numbers of {self.num_input_channels} series",
            )

    @property
    def when_true(self) -> str:
        return "std"


class Dense(Module):
    """Two layers."""

    def __init__(self, features: int, config: Config) -> None:
        super().__init__()
        self.fc1 = Linear(features, features * config.expansion_factor)
        self.fc2 = Linear(features * config.expansion_factor, features)

    def forward(self, x: Tensor) -> Tensor:
        """x (..., features) → (..., features)."""
        return self.fc2(ops.gelu(self.fc1(x)))


class Gate(Module):
    """x times the weights that a layer gives to its parts."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.attn_layer = Linear(features, features)

    def forward(self, x: Tensor) -> Tensor:
        """x (..., features) → (..., features)."""
        return x * self.attn_layer(x).softmax(-1)


class Norm(Module):
    """The norm of patches: of batches, or of each patch."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.batches = "batch" in config.norm_mlp.lower()
        self.norm = patch_norm(config.d_model, config.norm_eps, self.batches)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, N, D) → (B, C, N, D)."""
        if not self.batches:
            return self.norm(x)
        return self.norm(x.reshape(x.shape[0] * x.shape[1], *x.shape[2:])).reshape(*x.shape)


class Mixer(Module):
    """A norm, two layers over one of the dimensions of (B, C, N, D), and a gate; a residual around them. `dimension`:
    1 mixes the series, 2 the patches, 3 the features. The gate of series is before the layers.
    """

    def __init__(self, config: Config, dimension: int) -> None:
        super().__init__()
        features = {1: config.num_input_channels, 2: config.patches, 3: config.d_model}[dimension]
        self.dimension = dimension
        self.norm = Norm(config)
        self.mlp = Dense(features, config)
        self.gating_block = Gate(features) if config.gated_attn else None
        self.attends = config.self_attn and dimension == 2
        if self.attends:
            self.self_attn_layer = Attention(config.d_model, config.self_attn_heads)
            self.norm_attn = Norm(config)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, N, D) → (B, C, N, D)."""
        normed = self.norm(x)
        y = normed.transpose(self.dimension, 3)
        if self.gating_block is not None and self.dimension == 1:
            y = self.gating_block(y)
        y = self.mlp(y)
        if self.gating_block is not None and self.dimension != 1:
            y = self.gating_block(y)
        y = y.transpose(self.dimension, 3)
        if self.attends:
            own = self.self_attn_layer
            flat = normed.reshape(x.shape[0] * x.shape[1], *x.shape[2:])
            attended = own.out_proj(attend_joined(own.qkv(own, flat), own.heads, None)).reshape(*x.shape)
            y = self.norm_attn(y + attended)
        return y + x


class Layer(Module):
    """All mixers."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.channel_feature_mixer = Mixer(config, 1) if config.mode == "mix_channel" else None
        self.patch_mixer = Mixer(config, 2)
        self.feature_mixer = Mixer(config, 3)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, N, D) → (B, C, N, D)."""
        if self.channel_feature_mixer is not None:
            x = self.channel_feature_mixer(x)
        return self.feature_mixer(self.patch_mixer(x))


class Encoder(Module):
    """The encoder."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.patcher = Linear(config.patch_length, config.d_model)
        placed = config.use_positional_encoding
        self.positional_encoder = PatchPositions(config.patches, config.d_model) if placed else None
        self.mlp_mixer_encoder = Module()
        self.mlp_mixer_encoder.mixers = ModuleList(Layer(config) for _ in range(config.num_layers))

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, N, P) → (B, C, N, D)."""
        x = self.patcher(x)
        x = x if self.positional_encoder is None else self.positional_encoder(x)
        for layer in self.mlp_mixer_encoder.mixers:
            x = layer(x)
        return x


class PatchTSMixer(PatchForecaster):
    """The encoder, and a head over the patches of each series."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.model = Module()
        self.model.encoder = Encoder(config)
        features, horizon, kind = config.d_model * config.patches, config.prediction_length, config.distribution
        self.head = Module()
        self.head.base_forecast_block = (
            Linear(features, horizon) if kind is None else ParameterProjection(features, horizon, kind)
        )

    @property
    def chosen(self) -> tuple[int, ...]:
        own = self.config.prediction_channel_indices
        return tuple(range(self.together)) if own is None else tuple(sorted(own))

    def outputs(self, x: Tensor) -> Tensor:
        x = self.model.encoder(patches_of(x, self.config.patch_length, self.config.patch_stride))
        if self.config.prediction_channel_indices is not None:
            x = ops.index_select(x, 1, ops.tensor(list(self.chosen), dtype="int64", device=x.device))
        y: Tensor = self.head.base_forecast_block(x.reshape(*x.shape[:2], x.shape[2] * x.shape[3]))
        return y if self.draws else y.unsqueeze(0)


TASKS: Mapping[str, Callable[[Config], Module]] = {"time-series-forecasting": PatchTSMixer}
