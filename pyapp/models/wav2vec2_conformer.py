"""wav2vec 2.0 with layers that attend and convolve (Gulati et al. 2020, arXiv 2005.08100; Wang et al. 2020, arXiv
2010.05171), which names a character for each moment.
"""

from __future__ import annotations

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.engine.lazy import np
from pyapp.nn import LayerNorm, Linear, Module, ModuleList
from pyapp.nn.audio.fast_conformer import LINEAR_NAMES, DistanceAttention, NormedConvolution
from pyapp.nn.audio.sound import (
    ConformerLayer,
    MomentClassifier,
    MomentLabels,
    PositionalConvolution,
    SoundClassifier,
    SoundEncoder,
    positional_names,
)
from pyapp.nn.encoders.encoders import attend
from pyapp.nn.layers.linear import ResidualLinear
from pyapp.nn.positions.sinusoids import interleaved_sinusoids

from .loading.config import require
from .loading.sound_config import LARGEST, SoundConfig

MODEL_TYPES = ("wav2vec2-conformer",)
BASE = "wav2vec2_conformer"
IGNORED = r"(quantizer|project_hid|project_q)\..*"  # of the first training
KINDS = ("relative", "rotary", None)
EPSILON = 1e-5  # of the norms in layers


@dataclass(frozen=True, kw_only=True)
class Config(SoundConfig):
    """The fields of config.json."""

    model_type = "wav2vec2-conformer"

    position_embeddings_type: str | None = "relative"
    rotary_embedding_base: int = 10000
    conv_depthwise_kernel_size: int = 31

    def __post_init__(self) -> None:
        super().__post_init__()
        kind, taps = self.position_embeddings_type, self.conv_depthwise_kernel_size
        require(kind in KINDS, f"position_embeddings_type is {kind!r:.40}, expected 'relative', 'rotary' or null")
        require(taps % 2 == 1 and taps <= LARGEST, f"conv_depthwise_kernel_size is {taps}, expected an odd number")
        width, heads = self.hidden_size, self.num_attention_heads
        even = width % 2 == 0 and (kind != "rotary" or width // heads % 2 == 0)
        require(even, f"heads of {width // heads} features cannot be rotated in pairs")


class PlainAttention(Module):
    """Attention by content; with `places`, queries and keys read rotated hidden states."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width, self.heads = config.hidden_size, config.num_attention_heads
        self.linear_q, self.linear_k, self.linear_v = (Linear(width, width) for _ in range(3))
        self.linear_out = ResidualLinear(width, width)

    def forward(self, x: Tensor, residual: Tensor, mask: Tensor | None, places: Tensor | None) -> Tensor:
        """x and residual (B, T, D), mask (B, 1, 1, T), places (2, T, 1, D / H) → residual + attention (B, T, D)."""
        shape = (*x.shape[:2], self.heads, x.shape[2] // self.heads)
        turned = x
        if places is not None:
            own, half = x.reshape(shape), shape[3] // 2
            other = ops.cat([-own.narrow(3, half, half), own.narrow(3, 0, half)], 3)
            turned = (own * places[0] + other * places[1]).reshape(x.shape)
        q, k, v = self.linear_q(turned), self.linear_k(turned), self.linear_v(x)
        return self.linear_out(attend(q.reshape(shape), k.reshape(shape), v.reshape(shape), mask), residual)


class Rotations(Module):
    """The angles of rotary positions."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        size = config.hidden_size // config.num_attention_heads
        powers = np.arange(0, size, 2, dtype=np.float32) / size
        self.register_buffer(
            "inv_freq", ops.from_numpy((1.0 / config.rotary_embedding_base**powers).astype(np.float32))
        )

    def forward(self, moments: int) -> Tensor:
        """The cosines and sines (2, T, 1, D / H) of `moments` moments, T."""
        steps = ops.arange(moments, dtype="float32", device=self.inv_freq.device)
        angles = steps.unsqueeze(1) * self.inv_freq  # (T, D / 2 H)
        both = ops.cat([angles, angles], 1)
        return ops.stack([both.cos(), both.sin()]).unsqueeze(2)


class Layers(Module):
    """The layers; files also have a convolution of positions, which is not read."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.kind = config.position_embeddings_type
        self.embed_positions = Rotations(config) if self.kind == "rotary" else None
        self.pos_conv_embed = PositionalConvolution(config)
        self.layer_norm = LayerNorm(config.hidden_size, config.layer_norm_eps)

        def attention() -> Module:
            if self.kind != "relative":
                return PlainAttention(config)
            return DistanceAttention(config.hidden_size, config.num_attention_heads, True, LINEAR_NAMES)

        self.layers = ModuleList(
            ConformerLayer(config, attention(), NormedConvolution(config, EPSILON, hears_padding=True), EPSILON)
            for _ in range(config.num_hidden_layers)
        )

    def places(self, x: Tensor) -> Tensor | None:
        """What the attention over x (B, T, D) reads of the places of moments."""
        if self.embed_positions is not None:
            found: Tensor = self.embed_positions(x.shape[1])
            return found
        if self.kind is None:
            return None
        far = np.arange(x.shape[1] - 1, -x.shape[1], -1)  # the distances, from the largest on
        return interleaved_sinusoids(far, x.shape[2]).to(x.device)  # (2 T - 1, D)

    def forward(self, x: Tensor, heard: Tensor | None, states: list[Tensor] | None = None) -> Tensor:
        """As those of nn.audio.sound.SoundLayers."""
        if heard is not None:
            x = x * heard.unsqueeze(2).to(x.dtype)
        places = self.places(x)
        for layer in self.layers:
            if states is not None:
                states.append(x)
            x = layer(x, heard, places)
        x = self.layer_norm(x)
        if states is not None:
            states.append(x)
        return x


class Wav2Vec2ConformerForCTC(MomentClassifier):
    """Scores of characters."""

    def __init__(self, config: Config) -> None:
        super().__init__(BASE, SoundEncoder(config, Layers(config)))


class Wav2Vec2ConformerForSequenceClassification(SoundClassifier):
    """Scores of the labels of recordings."""

    def __init__(self, config: Config) -> None:
        super().__init__(BASE, SoundEncoder(config, Layers(config)))


class Wav2Vec2ConformerForAudioFrameClassification(MomentLabels):
    """Scores of the labels of each moment."""

    def __init__(self, config: Config) -> None:
        super().__init__(BASE, SoundEncoder(config, Layers(config)))


renamed = positional_names
TASKS = {
    "speech-recognition": Wav2Vec2ConformerForCTC,
    "audio-classification": Wav2Vec2ConformerForSequenceClassification,
    "audio-frame-classification": Wav2Vec2ConformerForAudioFrameClassification,
}
