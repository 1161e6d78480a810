"""Moonshine (Jeffries et al. 2024, arXiv 2410.15608): an encoder of samples with rotary positions, and a decoder that
writes what was said; the text has capital letters and punctuation.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import Conv1d, GroupNorm, LayerNorm, Module, ModuleList
from pyapp.nn.audio.speech_writer import Attention, Decoder, SampleEncoder, SpeechWriter
from pyapp.nn.decoders.decoder import RotaryTable
from pyapp.nn.encoders.encoders import visible_keys
from pyapp.nn.layers.feed_forward import FeedForward

from .loading.config import require
from .loading.sound_config import WriterConfig

MODEL_TYPES = ("moonshine",)
BASE = "model"
KERNELS, STRIDES = (127, 7, 3), (64, 3, 2)  # of the convolutions
STRIDE = 64 * 3 * 2  # samples of a moment


@dataclass(frozen=True)
class Config(WriterConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = "moonshine"

    rotated = 0.9

    hidden_size: int = 288
    intermediate_size: int = 1152
    encoder_num_hidden_layers: int = 6
    decoder_num_hidden_layers: int = 6
    encoder_num_attention_heads: int = 8
    decoder_num_attention_heads: int = 8
    encoder_num_key_value_heads: int | None = None
    decoder_num_key_value_heads: int | None = None
    encoder_hidden_act: str = "gelu"
    decoder_hidden_act: str = "silu"

    def __post_init__(self) -> None:
        super().__post_init__()
        heads = self.encoder_num_attention_heads
        counts = (
            heads, self.decoder_num_attention_heads, self.encoder_num_key_value_heads or heads,
            self.decoder_num_key_value_heads or heads,
        )  # fmt: skip
        require(
            len({*counts}) == 1,
            f"its attentions have {', '.join(map(str, counts))} heads: they are the same in models of this kind",
        )
        self.check(heads, self.encoder_num_hidden_layers, self.decoder_num_hidden_layers)

    @property
    def num_hidden_layers(self) -> int:
        """The layers of the decoder."""
        return self.decoder_num_hidden_layers

    @property
    def num_attention_heads(self) -> int:
        """The heads of every attention."""
        return self.decoder_num_attention_heads

    @property
    def hidden_act(self) -> str:
        """The activation in the decoder."""
        return self.decoder_hidden_act


class EncoderLayer(Module):
    """Attention and a feed-forward part, each after a norm and with a residual."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width = config.hidden_size
        self.self_attn = Attention(width, config.num_attention_heads, config.head_size, config.attention_bias)
        self.mlp = FeedForward(width, config.intermediate_size, config.encoder_hidden_act)
        self.input_layernorm = LayerNorm(width, bias=False)
        self.post_attention_layernorm = LayerNorm(width, bias=False)

    def forward(self, x: Tensor, mask: Tensor | None, table: Tensor) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        x = self.self_attn.encode(self.input_layernorm(x), x, mask, table)
        return self.mlp(self.post_attention_layernorm(x), x)


class Encoder(SampleEncoder):
    """Convolutions over samples, and the layers."""

    shortest = KERNELS[0] + STRIDES[0] * (KERNELS[1] - 1 + STRIDES[1] * (KERNELS[2] - 1))  # samples of one moment

    def __init__(self, config: Config) -> None:
        super().__init__()
        width = config.hidden_size
        self.conv1 = Conv1d(1, width, KERNELS[0], STRIDES[0], bias=False)
        self.conv2 = Conv1d(width, 2 * width, KERNELS[1], STRIDES[1])
        self.conv3 = Conv1d(2 * width, width, KERNELS[2], STRIDES[2])
        self.groupnorm = GroupNorm(1, width)
        self.layers = ModuleList(EncoderLayer(config) for _ in range(config.encoder_num_hidden_layers))
        self.layer_norm = LayerNorm(width, bias=False)
        self.rotary = RotaryTable(config.rotary)

    def moments(self, samples: int) -> int:
        for kernel, stride in zip(KERNELS, STRIDES, strict=True):
            samples = (samples - kernel) // stride + 1 if samples >= kernel else 0
        return samples

    def heard(self, mask: Tensor | None, moments: int) -> Tensor | None:
        # a moment is padding if it begins there
        return None if mask is None else mask[:, ::STRIDE].narrow(1, 0, moments)

    def forward(self, samples: Tensor, mask: Tensor | None = None) -> Tensor:
        x = self.groupnorm(self.conv1(samples.unsqueeze(1)).tanh())
        x = ops.gelu(self.conv3(ops.gelu(self.conv2(x)))).transpose(1, 2)  # (B, T, D)
        keys, table = visible_keys(self.heard(mask, x.shape[1])), self.rotary.upto(x.shape[1], x.device)
        for layer in self.layers:
            x = layer(x, keys, table)
        return self.layer_norm(x)


class Moonshine(SpeechWriter):
    """The model with its head over words."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, Encoder(config), Decoder(config))


TASKS: Mapping[str, Callable[[Config], Module]] = {"speech-recognition": Moonshine}
