"""CLAP (Wu et al. 2022, arXiv 2211.06687): HTS-AT (Chen et al. 2022, arXiv 2202.00874), a Swin transformer over a
spectrogram folded to a square, and RoBERTa, trained to give a recording and its description the same direction.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, ClassVar

from pyapp.dataclass import dataclass
from pyapp.engine import Device, Tensor, ops
from pyapp.engine.user_errors import describe
from pyapp.errors import InputError
from pyapp.nn import AdaptiveAvgPool2d, BatchNorm2d, Conv2d, LayerNorm, Linear, Module, ReLU, Sequential
from pyapp.nn.encoders.encoders import BertEncoder
from pyapp.nn.functional import interpolate
from pyapp.nn.layers.gated import activation_named
from pyapp.nn.parameter import new_parameter
from pyapp.nn.vision.towers import direction_scores
from pyapp.nn.vision.vision import as_sequence
from pyapp.nn.vision.windows import WindowEncoder

from .loading.config import check_fields, check_padding, optional_object, read_config, require, stated
from .loading.towers_config import TextConfig

MODEL_TYPES = ("clap",)
BASE = ""
IGNORED = r".*(relative_position_index|position_ids|token_type_ids)"  # computed here
LARGEST = 1 << 12  # of a spectrogram's sides, and of a patch's
WIDEST = 1 << 16  # numbers of a vector
TEMPLATE = "This is a sound of {}."


@dataclass(frozen=True, kw_only=True)
class RobertaConfig(TextConfig):
    """The fields of text_config."""

    vocab_size: int = 50265
    hidden_size: int = 768
    intermediate_size: int = 3072
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    max_position_embeddings: int = 514
    hidden_act: str = "gelu"
    layer_norm_eps: float = 1e-12
    type_vocab_size: int = 1
    pad_token_id: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_padding(self.pad_token_id, self.vocab_size)
        room = self.max_position_embeddings - self.pad_token_id - 1
        require(room > 0, f"pad_token_id {self.pad_token_id} leaves no positions")


@dataclass(frozen=True, kw_only=True)
class SoundConfig:
    """The fields of audio_config."""

    post_norm: ClassVar[bool] = False  # its layers are Swin's
    window_size: int = 8
    num_mel_bins: int = 64
    spec_size: int = 256
    hidden_act: str = "gelu"
    patch_size: int = 4
    patch_stride: list[int] = (4, 4)  # type: ignore[assignment]
    hidden_size: int = 768
    depths: list[int] = (2, 2, 6, 2)  # type: ignore[assignment]
    num_attention_heads: list[int] = (4, 8, 16, 32)  # type: ignore[assignment]
    patch_embeds_hidden_size: int = 96
    enable_patch_layer_norm: bool = True
    enable_fusion: bool = False
    aff_block_r: int = 4
    fusion_type: str | None = None
    qkv_bias: bool = True
    mlp_ratio: float = 4.0
    layer_norm_eps: float = 1e-5

    def __post_init__(self) -> None:
        check_fields(self)
        channels = self.fusion_type == "channel_map"
        require(not (self.enable_fusion and channels), "fusion_type is 'channel_map', expected null")
        require(self.aff_block_r <= self.patch_embeds_hidden_size, f"aff_block_r is {self.aff_block_r}")
        depths, heads = list(self.depths), list(self.num_attention_heads)
        whole = all(type(number) is int and 0 < number <= 1 << 8 for number in (*depths, *heads))
        require(whole and 0 < len(depths) == len(heads) <= 8, f"depths {depths!r:.60} and heads {heads!r:.60}")
        for stage, count in enumerate(heads):
            width = self.patch_embeds_hidden_size << stage
            require(
                width <= WIDEST and width % count == 0, f"{count} heads do not divide {width}, the width of a stage"
            )
        last = self.patch_embeds_hidden_size << len(heads) - 1
        require(self.hidden_size == last, f"hidden_size is {self.hidden_size}, expected {last}")
        sides = (self.spec_size, self.num_mel_bins, self.patch_size, self.window_size)
        require(max(sides) <= LARGEST, f"a spectrogram, a patch or a window has more than {LARGEST:,} rows")
        strides = list(self.patch_stride)
        require(strides == [self.patch_size] * 2, f"patch_stride is {strides!r:.60}, expected {self.patch_size} twice")
        fits = self.spec_size % self.num_mel_bins == 0 and self.spec_size % (self.patch_size << len(heads) - 1) == 0
        require(fits, f"spec_size {self.spec_size} is not a multiple of num_mel_bins, or of the patches of all stages")
        rows = self.spec_size // (self.patch_size << len(heads) - 1)
        require(rows >= self.window_size, f"window_size {self.window_size} is more than the {rows} rows of a stage")
        require(0 < self.mlp_ratio <= 64, f"mlp_ratio is {self.mlp_ratio}")

    @property
    def embed_dim(self) -> int:
        """The width of the first stage, as nn.vision.windows names it."""
        return self.patch_embeds_hidden_size

    @property
    def num_heads(self) -> list[int]:
        """The heads of the stages, as nn.vision.windows names them."""
        return self.num_attention_heads

    @property
    def fold(self) -> int:
        """How many stretches of a spectrogram stand one above the other."""
        return self.spec_size // self.num_mel_bins


@dataclass(frozen=True)
class Config:
    """The configurations of both parts, and `values`, the whole object of the config.json."""

    text_config: RobertaConfig
    audio_config: SoundConfig
    values: Mapping[str, Any]

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """From the object of a config.json; other keys are ignored."""
        text, audio = (optional_object(values, name) for name in ("text_config", "audio_config"))
        found = cls(read_config(RobertaConfig, text), read_config(SoundConfig, audio), dict(values))
        width = found.projection_dim
        require(type(width) is int and 1 <= width <= WIDEST, f"projection_dim is {width!r:.60}")
        return found

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        parts = {"text_config": self.text_config.to_dict(), "audio_config": asdict(self.audio_config)}
        return {**self.values, "model_type": MODEL_TYPES[0], **parts}

    projection_dim = stated("projection_dim", 512)  # the numbers of a vector

    @property
    def vocab_size(self) -> int:
        """The tokens of texts."""
        return self.text_config.vocab_size


class Fusion(Module):
    """Weighs two pictures at each place (Dai et al. 2020, arXiv 2009.14082)."""

    def __init__(self, config: SoundConfig) -> None:
        super().__init__()
        width = config.embed_dim
        inner = width // config.aff_block_r

        def layers() -> list[Module]:
            return [
                Conv2d(width, inner, 1), BatchNorm2d(inner), ReLU(), Conv2d(inner, width, 1), BatchNorm2d(width),
            ]  # fmt: skip

        self.local_att = Sequential(*layers())
        self.global_att = Sequential(AdaptiveAvgPool2d(1), *layers())

    def forward(self, x: Tensor, other: Tensor) -> Tensor:
        """x and other (B, D, H, W) → (B, D, H, W)."""
        both = x + other
        share = (self.local_att(both) + self.global_att(both)).sigmoid()
        return 2 * x * share + 2 * other * (1 - share)


class PatchEmbed(Module):
    """Patches of the folded spectrogram, each as one vector; with fusion, those of three stretches, three times as
    wide, stand side by side for the same places.
    """

    def __init__(self, config: SoundConfig) -> None:
        super().__init__()
        width, size = config.embed_dim, config.patch_size
        self.proj = Conv2d(1, width, size, stride=size)
        self.norm = LayerNorm(width) if config.enable_patch_layer_norm else None
        self.fusion_model = Fusion(config) if config.enable_fusion else None
        if config.enable_fusion:
            self.mel_conv2d = Conv2d(1, width, (size, 3 * size), stride=(size, 3 * size))

    def forward(self, x: Tensor) -> Tensor:
        """x (B, 1, side, side), or (B, 4, side, side) with fusion → (B, patches, D)."""
        whole = self.proj(x.narrow(1, 0, 1))  # (B, D, H, W)
        if self.fusion_model is not None:
            batch, _, side, _ = x.shape
            parts = self.mel_conv2d(x.narrow(1, 1, 3).reshape(3 * batch, 1, side, side))  # (3 B, D, H, W // 3)
            _, width, high, wide = parts.shape
            parts = parts.reshape(batch, 3, width, high, wide).permute(0, 2, 3, 1, 4).reshape(batch, width, high, -1)
            whole = self.fusion_model(whole, ops.pad(parts, (0, whole.shape[3] - parts.shape[3])))
        x = as_sequence(whole)
        return x if self.norm is None else self.norm(x)


class SoundEncoder(WindowEncoder):
    """HTS-AT: a norm of each bin, the fold, patches and the stages."""

    def __init__(self, config: SoundConfig) -> None:
        super().__init__(config)
        self.config = config
        self.patch_embed = PatchEmbed(config)
        self.batch_norm = BatchNorm2d(config.num_mel_bins)
        self.norm = LayerNorm(config.hidden_size)

    def folded(self, x: Tensor) -> Tensor:
        """x (B, C, frames, bins) → (B, C, side, side): stretches of time, the first at the top, each with its frames
        from left to right and its bins from top to bottom.
        """
        config = self.config
        side, fold, bins = config.spec_size, config.fold, config.num_mel_bins
        count = 4 if config.enable_fusion else 1
        if x.ndim != 4 or x.shape[1] != count or x.shape[3] != bins or not 1 <= x.shape[2] <= side * fold:
            raise InputError(
                f"spectrograms are (B, {'4, ' if count > 1 else ''}frames, {bins}) of up to {side * fold} frames, not "
                f"{describe(x)}"
            )
        if x.shape[2] < side * fold:
            x = interpolate(x, size=(side * fold, bins), mode="bicubic", align_corners=True)
        x = x.reshape(x.shape[0], count, fold, side, bins).transpose(3, 4)
        return x.reshape(x.shape[0], count, side, side)

    def forward(self, x: Tensor, size: tuple[int, int] | None = None) -> Tensor:
        """x (B, frames, bins), or (B, 4, frames, bins) with fusion → the mean of what is heard (B, D)."""
        x = x if x.ndim == 4 else x.unsqueeze(1)
        x = self.batch_norm(x.transpose(1, 3)).transpose(1, 3)
        rows = self.config.spec_size // self.config.patch_size
        x = super().forward(self.patch_embed(self.folded(x)), (rows, rows))
        return self.norm(x).mean(1)


class Projection(Module):
    """Two layers with an activation between them."""

    def __init__(self, inputs: int, outputs: int, activation: str) -> None:
        super().__init__()
        self.linear1 = Linear(inputs, outputs)
        self.linear2 = Linear(outputs, outputs)
        self.activation = activation_named(activation)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, D) → (B, P)."""
        return self.linear2(self.activation(self.linear1(x)))


class Clap(Module):
    """Both encoders, and projections into the common space."""

    template = TEMPLATE
    independent = False  # the probabilities of labels add up to 1
    fixed_length = False
    masks_texts = True

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        width, activation = config.projection_dim, config.values.get("projection_hidden_act", "relu")
        self.logit_scale_a, self.logit_scale_t = new_parameter(ops.zeros), new_parameter(ops.zeros)
        self.text_model = BertEncoder(config.text_config, skips_padding=True)
        self.text_projection = Projection(config.text_config.hidden_size, width, activation)
        self.audio_model = Module()
        self.audio_model.audio_encoder = SoundEncoder(config.audio_config)
        self.audio_projection = Projection(config.audio_config.hidden_size, width, activation)

    @property
    def device(self) -> Device:
        """The device on which the model computes."""
        return self.logit_scale_a.device

    @property
    def most(self) -> int:
        """The largest number of tokens of a text."""
        return self.text_model.most

    def sound_features(self, input_features: Tensor) -> Tensor:
        """input_features (B, frames, bins), or (B, 4, frames, bins) with fusion → the vectors of recordings (B, P)."""
        return self.audio_projection(self.audio_model.audio_encoder(input_features))

    def text_features(self, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """ids (N, T) → the vectors of texts (N, P)."""
        assert self.text_model.pooler is not None
        return self.text_projection(self.text_model.pooler(self.text_model(ids, attention_mask)))

    def scores(self, sounds: Tensor, texts: Tensor) -> Tensor:
        """Vectors of recordings (B, P) and of texts (N, P) → logits (B, N)."""
        return direction_scores(sounds, texts) * self.logit_scale_a.exp()

    def forward(self, input_features: Tensor, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """input_features as sound_features', ids (N, T) → logits (B, N): how well each text says what is heard."""
        return self.scores(self.sound_features(input_features), self.text_features(ids, attention_mask))


TASKS: Mapping[str, Callable[[Config], Module]] = {"zero-shot-audio-classification": Clap}
