"""The codec of Pocket TTS (Rouard et al. 2025, arXiv 2509.06926): sound as vectors of few numbers, 12.5 times a second,
and back, by Mimi's convolutions and transformers without its codebooks.

Parameters have the names of Mimi's files.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Device, Tensor
from pyapp.engine.user_errors import describe
from pyapp.errors import ArgumentError, ModelError
from pyapp.nn import Conv1d, Module
from pyapp.nn.audio.moment_transformer import MomentTransformer
from pyapp.nn.audio.seanet import PaddedConv, TrimmedConvTranspose, decoder, encoder
from pyapp.nn.audio.sound_codes import check_samples

from .loading.codec_config import SeanetConfig, check_sizes
from .loading.config import check_divides, check_heads, read_config, require, rope_parameters

MODEL_TYPES = ("pocket_tts_audio_tokenizer",)
BASE = ""
TASK = "audio-latents"
NAMES = ((r"^(en|de)coder\.(en|de)coder_seanet\.", r"\1coder."),
         (r"^(en|de)coder\.((en|de)coder_transformer)\.", r"\2."),
         (r"^(en|de)coder\.(downsample|upsample)\.", r"\2."))  # fmt: skip


def renamed(name: str) -> str:
    """The model's name of a file's tensor."""
    for old, new in NAMES:
        name = re.sub(old, new, name)
    return name


@dataclass(frozen=True, kw_only=True)
class Config(SeanetConfig):
    """The fields of config.json. encodes: whether the file has what makes vectors of sound."""

    model_type = MODEL_TYPES[0]

    hidden_size: int = 512
    num_filters: int = 64
    upsampling_ratios: list[int] = (6, 5, 4)  # type: ignore[assignment]
    last_kernel_size: int = 3
    pad_mode: str = "constant"
    use_conv_shortcut: bool = False
    upsample_groups: int = 512
    num_hidden_layers: int = 2
    intermediate_size: int = 2048
    num_attention_heads: int = 8
    num_key_value_heads: int = 8
    head_dim: int | None = None
    hidden_act: str = "gelu_pytorch_tanh"
    max_position_embeddings: int = 8000
    norm_eps: float = 1e-5
    rope_parameters: dict[str, Any] | None = None
    sliding_window: int = 250
    attention_bias: bool = False
    latent_stride: int = 16
    latent_dim: int = 32
    encodes: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        heads, kv_heads, width = self.num_attention_heads, self.num_key_value_heads, self.hidden_size
        require(kv_heads == heads, f"num_key_value_heads is {kv_heads}, expected the {heads} of num_attention_heads")
        check_heads(width, heads, kv_heads, self.head_dim, self.max_position_embeddings)
        check_sizes(self, "sliding_window", "latent_stride", "latent_dim")
        check_divides(self, "upsample_groups", "hidden_size")
        require(self.audio_channels == 1, f"audio_channels is {self.audio_channels}, expected 1")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """From the object of a config.json."""
        require(
            values.get("decoder_config", {}) is not None, "decoder_config is null: the file makes no sound",
            "Take one with a decoder",
        )  # fmt: skip
        encodes = values.get("encoder_config", {}) is not None
        ratios = values.get("upsampling_ratios") or [6, 5, 4]
        told = {"encodes": encodes, "upsampling_ratios": ratios, "rope_parameters": rope_parameters(values)}
        return read_config(cls, {**values, **told})

    norm_type = "none"  # of the convolutions

    @property
    def head_size(self) -> int:
        """The features of a head."""
        return self.head_dim or self.hidden_size // self.num_attention_heads

    @property
    def samples_per_moment(self) -> int:
        """The samples of a vector."""
        return self.step * self.latent_stride


class LatentCodec(Module):
    """Sound to vectors, and vectors to sound."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        width, stride, made = config.hidden_size, config.latent_stride, config.latent_dim
        if config.encodes:
            self.encoder, self.encoder_transformer = encoder(config), MomentTransformer(config)
            self.downsample = PaddedConv(config, width, made, 2 * stride, stride, bias=False, mode="replicate")
        self.latent_proj = Conv1d(made, width, 1, bias=False)
        self.upsample = TrimmedConvTranspose(
            config, width, width, 2 * stride, stride, config.upsample_groups, bias=False
        )  # fmt: skip
        self.decoder_transformer, self.decoder = MomentTransformer(config), decoder(config)

    @property
    def device(self) -> Device:
        """The device on which the model computes."""
        return self.latent_proj.weight.device

    @property
    def sample_rate(self) -> int:
        """Samples a second."""
        return self.config.sampling_rate

    def encode(self, samples: Tensor) -> Tensor:
        """samples (B, 1, N) at the model's rate → vectors (B, T, latent_dim). ModelError for a file that only makes
        sound.
        """
        check_samples(type(self).__name__, samples, 1)
        if not self.config.encodes:
            raise ModelError("the codec's file has no encoder", hint="Take one with an encoder")
        return self.downsample(self.encoder_transformer(self.encoder(samples))).transpose(1, 2)

    def forward(self, latents: Tensor) -> Tensor:
        """Vectors (B, T, latent_dim) → samples (B, 1, N)."""
        if latents.ndim != 3 or latents.shape[2] != self.config.latent_dim or not latents.shape[1]:
            raise ArgumentError(f"vectors are (B, T, {self.config.latent_dim}), not {describe(latents)}")
        x = self.upsample(self.latent_proj(latents.transpose(1, 2)))
        found: Tensor = self.decoder(self.decoder_transformer(x))
        return found


TASKS = {TASK: LatentCodec}
