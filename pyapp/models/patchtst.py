"""PatchTST (Nie et al. 2022, arXiv 2211.14730): a transformer encoder over the patches of each series.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import Linear, Module, ModuleDict, ModuleList
from pyapp.nn.encoders.encoders import attend_joined
from pyapp.nn.forecasting import ParameterProjection, PatchForecaster, PatchPositions, patch_norm, patches_of
from pyapp.nn.layers.gated import activation_named
from pyapp.nn.sequence_to_sequence.sequence_to_sequence import Attention

from .loading.config import check_depth, check_divides, require
from .loading.forecasting_config import PatchedSeriesConfig, check_count

MODEL_TYPES = ("patchtst",)
BASE = "model"
WIDEST = 1 << 16


@dataclass(frozen=True, kw_only=True)
class Config(PatchedSeriesConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]

    num_hidden_layers: int = 3
    d_model: int = 128
    num_attention_heads: int = 4
    share_embedding: bool = True
    channel_attention: bool = False
    ffn_dim: int = 512
    norm_type: str = "batchnorm"
    bias: bool = True
    activation_function: str = "gelu"
    pre_norm: bool = True
    use_cls_token: bool = False
    share_projection: bool = True
    pooling_type: str | None = "mean"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_depth(self.num_hidden_layers)
        for name in ("d_model", "ffn_dim"):
            check_count(name, getattr(self, name), WIDEST)
        check_divides(self, "num_attention_heads", "d_model")
        require(self.norm_type in ("batchnorm", "layernorm"), f"norm_type {self.norm_type!r:.40} is not known")
        known = self.pooling_type in ("mean", "max", None)
        require(known, f"pooling_type {self.pooling_type!r:.40} is not known")
        require(self.share_projection, "share_projection is false: heads of each series are not supported")
        require(self.features <= 1 << 22, f"{self.features:,} features of a series are too many")

    @property
    def features(self) -> int:
        """What the head reads of a series."""
        return self.d_model * (1 if self.use_cls_token or self.pooling_type else self.patches)


class Layer(Module):
    """Attention of the patches of a series, attention of the series at a place, if there is any, and a feed-forward
    part.
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.across, self.pre_norm = config.channel_attention, config.pre_norm
        self.self_attn = Attention(config.d_model, config.num_attention_heads)
        batches = config.norm_type == "batchnorm"
        self.norm_sublayer1 = patch_norm(config.d_model, config.norm_eps, batches)
        if self.across:
            self.norm_sublayer2 = patch_norm(config.d_model, config.norm_eps, batches)
        self.ff = ModuleDict(
            {
                "0": Linear(config.d_model, config.ffn_dim, config.bias),
                "3": Linear(config.ffn_dim, config.d_model, config.bias),
            }
        )
        self.activation = activation_named(config.activation_function)
        self.norm_sublayer3 = patch_norm(config.d_model, config.norm_eps, batches)

    def _attended(self, x: Tensor) -> Tensor:
        own = self.self_attn
        return own.out_proj(attend_joined(own.qkv(own, x), own.heads, None))

    def _dense(self, x: Tensor) -> Tensor:
        return self.ff["3"](self.activation(self.ff["0"](x)))

    def _around(self, x: Tensor, part: Callable[[Tensor], Tensor], norm: Module) -> Tensor:
        """x (B', N, D) → part with its norm and its residual (B', N, D)."""
        return x + part(norm(x)) if self.pre_norm else norm(x + part(x))

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, N, D) → (B, C, N, D)."""
        batch, channels, count, width = x.shape
        x = self._around(x.reshape(batch * channels, count, width), self._attended, self.norm_sublayer1)
        if self.across:
            x = x.reshape(batch, channels, count, width).transpose(1, 2).reshape(batch * count, channels, width)
            x = self._around(x, self._attended, self.norm_sublayer2)
            x = x.reshape(batch, count, channels, width).transpose(1, 2).reshape(batch * channels, count, width)
        return self._around(x, self._dense, self.norm_sublayer3).reshape(batch, channels, count, width)


class Embedder(Module):
    """Patches as vectors, by one layer for all series or one for each."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.shared = config.share_embedding

        def layer() -> Linear:
            return Linear(config.patch_length, config.d_model)

        each = config.num_input_channels
        self.input_embedding = layer() if self.shared else ModuleList(layer() for _ in range(each))

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, N, P) → (B, C, N, D)."""
        if self.shared:
            return self.input_embedding(x)
        return ops.stack([layer(x[:, i]) for i, layer in enumerate(self.input_embedding)], 1)


class Encoder(Module):
    """The encoder."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.embedder = Embedder(config)
        self.positional_encoder = PatchPositions(config.patches, config.d_model, config.use_cls_token)
        self.layers = ModuleList(Layer(config) for _ in range(config.num_hidden_layers))

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, N, P) → (B, C, N or 1 + N, D)."""
        x = self.positional_encoder(self.embedder(x))
        for layer in self.layers:
            x = layer(x)
        return x


class PatchTST(PatchForecaster):
    """The encoder, and a head over what it knows of each series."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.model = Module()
        self.model.encoder = Encoder(config)
        kind, horizon = config.distribution, config.prediction_length
        self.head = Module()
        self.head.projection = (
            Linear(config.features, horizon) if kind is None else ParameterProjection(config.features, horizon, kind)
        )

    def outputs(self, x: Tensor) -> Tensor:
        own = self.config
        x = self.model.encoder(patches_of(x, own.patch_length, own.patch_stride))
        if own.use_cls_token:
            x = x[:, :, 0]  # (B, C, D)
        elif own.pooling_type is None:
            x = x.reshape(*x.shape[:2], x.shape[2] * x.shape[3])
        else:
            x = x.mean(2) if own.pooling_type == "mean" else x.amax(2)
        y: Tensor = self.head.projection(x)
        return y if self.draws else y.unsqueeze(0)


TASKS: Mapping[str, Callable[[Config], Module]] = {"time-series-forecasting": PatchTST}
