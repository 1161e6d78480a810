"""X-Codec 2 (Ye et al. 2025, arXiv 2502.04128): sound as one code for each fiftieth of a second, and back. A wav2vec
2.0 BERT hears what is said, beside an encoder of convolutions; each of a few numbers of both is rounded to one of a few
levels (Mentzer et al. 2023, arXiv 2309.15505), and these together are the code. Layers that attend to all moments, as
in Vocos (Siuzdak 2023, arXiv 2306.00814), make the spectrum of the sound.

Parameters have the names of Hugging Face's files. Its rotary positions turn all moments of a head alike, which changes
nothing: they are left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import atanh, prod
from typing import Any

from pyapp.audio.processors.banks import PairedBankProcessor
from pyapp.dataclass import dataclass
from pyapp.engine import Device, Tensor, no_grad, ops
from pyapp.engine.ops.fourier import irfft
from pyapp.nn import Conv1d, GroupNorm, LayerNorm, Linear, Module, ModuleList, RMSNorm
from pyapp.nn.audio.big_vgan import SmoothActivation
from pyapp.nn.audio.sound_codes import Codes, check_codes, check_samples, count_of_codebooks
from pyapp.nn.layers.gated import activation_named

from .loading.architectures import architecture
from .loading.codec_config import (
    LARGEST,
    MOST_ENTRIES,
    MOST_LAYERS,
    MonoConfig,
    check_numbers,
    check_sizes,
)
from .loading.config import object_of, read_config, require

MODEL_TYPES = ("xcodec2",)
BASE = "xcodec2"
IGNORED = r"acoustic_decoder\.head\.window|.*\.filter|quantizer\.quantizer\.(levels|basis|codebook)"
HEARS = "wav2vec2-bert"
HEARD_LAYERS = 16  # of what hears, where the file does not say how many
GROUPS, EPSILON = 32, 1e-6  # of the norms around convolutions
BEYOND = 1.001  # times the outermost level: what a number may become before it is rounded
OVERLAP = 4  # stretches of the spectrum at each moment
LOUDEST, QUIETEST = 100.0, 1e-11  # of a magnitude, and of the sum of windows
RATE = 16000  # that the filter banks are for


@dataclass(frozen=True, kw_only=True)
class Config(MonoConfig):
    """The fields of config.json; semantic_model_config is the object of what hears what is said."""

    model_type = MODEL_TYPES[0]
    ratios = "downsampling_ratios"

    hidden_size: int = 1024
    intermediate_size: int = 4096
    num_hidden_layers: int = 12
    num_attention_heads: int = 16
    num_key_value_heads: int = 16
    hidden_act: str = "silu"
    rms_norm_eps: float = 1e-6
    attention_bias: bool = False
    head_dim: int = 64
    encoder_hidden_size: int = 48
    downsampling_ratios: list[int] = (2, 2, 4, 4, 5)  # type: ignore[assignment]
    semantic_model_config: dict[str, Any]
    sampling_rate: int = RATE
    quantization_dim: int = 2048
    quantization_levels: list[int] = (4, 4, 4, 4, 4, 4, 4, 4)  # type: ignore[assignment]

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json. ModelError for parts that are not known."""
        heard = values.get("semantic_model_config")
        part = {"num_hidden_layers": HEARD_LAYERS} if heard is None else object_of(values, "semantic_model_config")
        return read_config(cls, {**values, "semantic_model_config": part})

    def __post_init__(self) -> None:
        super().__post_init__()
        kind = self.semantic_model_config.get("model_type", HEARS)
        require(kind == HEARS, f"{kind!r:.50} in semantic_model_config is not known", f"Known: {HEARS}")
        check_numbers(self, "downsampling_ratios", "quantization_levels")
        require(
            min(self.quantization_levels) > 1 and self.codebook_size <= MOST_ENTRIES,
            f"quantization_levels is {self.quantization_levels!r:.60}",
        )
        require(self.encoder_width <= LARGEST, f"encoder_hidden_size {self.encoder_hidden_size} is too large")
        check_sizes(self, "hidden_size", "intermediate_size", "quantization_dim")
        heads, others = self.num_attention_heads, self.num_key_value_heads
        require(heads == others, f"num_key_value_heads is {others}, expected {heads}, as num_attention_heads")
        require(heads * self.head_dim <= LARGEST, f"head_dim is {self.head_dim}")
        require(self.num_hidden_layers <= MOST_LAYERS, f"num_hidden_layers is {self.num_hidden_layers}")
        require(self.hidden_size % GROUPS == 0, f"hidden_size is {self.hidden_size}, no multiple of {GROUPS}")
        require(self.sampling_rate == RATE, f"sampling_rate is {self.sampling_rate} Hz, expected {RATE}")
        width = self.width
        require(width == self.quantization_dim, f"quantization_dim is {self.quantization_dim}, the parts make {width}")
        heard = self.semantic
        require(heard.output_size == heard.hidden_size, "output_hidden_size of semantic_model_config is another one")
        require(
            heard.samples_per_moment == self.step,
            f"moments of {heard.samples_per_moment} and {self.step} samples do not fit",
        )

    @property
    def semantic(self) -> Any:
        """The configuration of what hears what is said."""
        return architecture(HEARS).Config.from_dict(self.semantic_model_config)

    @property
    def acoustic(self) -> Any:
        """The configuration of the encoder of convolutions, which is DAC's."""
        own = {name: getattr(self, name) for name in ("encoder_hidden_size", "downsampling_ratios")}
        return architecture("dac").Config.from_dict({**own, "decoder_hidden_size": self.encoder_width})

    @property
    def encoder_width(self) -> int:
        """The channels of the encoder's last convolution."""
        return self.encoder_hidden_size << len(self.downsampling_ratios)

    @property
    def width(self) -> int:
        """The numbers of a moment."""
        found: int = self.hidden_size + self.semantic.hidden_size
        return found

    @property
    def codebook_size(self) -> int:
        """How many codes there are."""
        return prod(self.quantization_levels)


class Levels(Module):
    """The code of a vector: a few numbers of it, each rounded to one of a few levels."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.levels = [*config.quantization_levels]
        self.project_in = Linear(config.quantization_dim, len(self.levels))
        self.project_out = Linear(len(self.levels), config.quantization_dim)
        middle = [0.5 * (one % 2 == 0) for one in self.levels]
        reach = [(one - 1) * BEYOND / 2 for one in self.levels]
        shifts = [atanh(offset / half) for offset, half in zip(middle, reach, strict=True)]
        centres = [one // 2 for one in self.levels]
        places = [prod(self.levels[:number]) for number in range(len(self.levels))]
        for name, values in (("middle", middle), ("reach", reach), ("shift", shifts), ("centre", centres)):
            self.register_buffer(name, ops.tensor(values, dtype="float32"), persistent=False)
        self.register_buffer("place", ops.tensor(places, dtype="int64"), persistent=False)
        self.register_buffer("count", ops.tensor(self.levels, dtype="int64"), persistent=False)

    def bound(self, x: Any) -> Any:
        """x (..., L) → between the outermost levels of each number."""
        own: Any = self
        return (x + own.shift).tanh() * own.reach - own.middle

    def encode(self, x: Tensor) -> Tensor:
        """x (B, T, D) → codes (B, T) int64."""
        own: Any = self
        steps = self.bound(self.bound(self.project_in(x).to("float32"))).round() + own.centre
        found: Tensor = (steps.to("int64") * own.place).sum(-1)
        return found

    def decode(self, codes: Tensor) -> Tensor:
        """codes (B, T) → (B, T, D)."""
        own: Any = self
        steps = codes.unsqueeze(-1).div(own.place, rounding_mode="floor") % own.count
        return self.project_out((steps.to("float32") - own.centre) / own.centre)


class SemanticAdapter(Module):
    """What is said, in vectors that stand beside those of the encoder."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv1, self.conv4 = (Conv1d(width, width, 3, padding=1, bias=False) for _ in range(2))
        self.conv2, self.conv3 = (Conv1d(width, width, 3, padding=1) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, T) → (B, C, T)."""
        x = ops.relu(self.conv1(x))
        return self.conv4(x + self.conv3(ops.relu(self.conv2(x))))


class NearBlock(Module):
    """Two convolutions over near moments, each after a norm and an activation, with a residual."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = (GroupNorm(GROUPS, width, EPSILON) for _ in range(2))
        self.conv1, self.conv2 = (Conv1d(width, width, 3, padding=1) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, T) → (B, C, T)."""
        return x + self.conv2(ops.silu(self.norm2(self.conv1(ops.silu(self.norm1(x))))))


class Attention(Module):
    """Each moment attends to all."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.heads, inner = config.num_attention_heads, config.num_attention_heads * config.head_dim
        own = config.attention_bias
        self.q_proj, self.k_proj, self.v_proj = (Linear(config.hidden_size, inner, bias=own) for _ in range(3))
        self.o_proj = Linear(inner, config.hidden_size, bias=own)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        batch, length, _ = x.shape
        q, k, v = (
            one(x).reshape(batch, length, self.heads, -1).transpose(1, 2)
            for one in (self.q_proj, self.k_proj, self.v_proj)
        )
        found = ops.scaled_dot_product_attention(q, k, v)
        return self.o_proj(found.transpose(1, 2).reshape(batch, length, -1))


class Layer(Module):
    """Attention and two linear layers, each after a norm, with residuals."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width = config.hidden_size
        self.self_attn = Attention(config)
        self.input_layernorm, self.post_attention_layernorm = (RMSNorm(width, config.rms_norm_eps) for _ in range(2))
        self.mlp = Module()
        self.mlp.fc1 = Linear(width, config.intermediate_size, bias=False)
        self.mlp.fc2 = Linear(config.intermediate_size, width, bias=False)
        self.activation = activation_named(config.hidden_act)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        x = x + self.self_attn(self.input_layernorm(x))
        mlp: Any = self.mlp
        return x + mlp.fc2(self.activation(mlp.fc1(self.post_attention_layernorm(x))))


class Spectrum(Module):
    """The sound whose short-time spectrum is computed from vectors."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.step, self.size = config.step, OVERLAP * config.step
        self.linear = Linear(config.hidden_size, self.size + 2)
        self.register_buffer("window", ops.hann_window(self.size), persistent=False)

    def _added(self, frames: Tensor) -> Tensor:
        """frames (B, T, size), each `step` after the one before → their sum, of the T * step samples in the middle."""
        batch, count, _ = frames.shape
        parts = frames.reshape(batch, count, OVERLAP, self.step)
        shifted = [ops.pad(parts.select(2, i), (0, 0, i, OVERLAP - 1 - i)) for i in range(OVERLAP)]
        whole = sum(shifted[1:], shifted[0]).reshape(batch, -1)
        return whole.narrow(1, (self.size - self.step) // 2, count * self.step)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) → (B, T * step)."""
        magnitude, phase = self.linear(x).to("float32").chunk(2, dim=-1)
        window: Any = self.window
        spectrum = ops.polar(magnitude.exp().clamp(max=LOUDEST), phase)
        frames = irfft(spectrum, self.size) * window
        weights = self._added((window * window).expand(1, x.shape[1], self.size)).clamp(min=QUIETEST)
        return self._added(frames) / weights


class Decoder(Module):
    """Vectors of moments to sound."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width = config.hidden_size
        self.fc = Linear(config.width, width)
        self.embed = Conv1d(width, width, 7, padding=3)
        self.prior_net, self.post_net = (ModuleList(NearBlock(width) for _ in range(2)) for _ in range(2))
        self.layers = ModuleList(Layer(config) for _ in range(config.num_hidden_layers))
        self.norm = LayerNorm(width, EPSILON)
        self.head = Spectrum(config)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, width) → (B, 1, T * step)."""
        x = self.embed(self.fc(x).transpose(1, 2))
        for block in self.prior_net:
            x = block(x)
        x = x.transpose(1, 2)
        for layer in self.layers:
            x = layer(x)
        x = x.transpose(1, 2)
        for block in self.post_net:
            x = block(x)
        return self.head(self.norm(x.transpose(1, 2))).unsqueeze(1)


class XCodec2(Module):
    """Sound to codes, and codes to sound."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        heard = config.semantic
        self.semantic_encoder = architecture(HEARS).encoder(heard)
        self.semantic_adapter = SemanticAdapter(heard.hidden_size)
        self.acoustic_encoder = architecture("dac").Encoder(config.acoustic, config.hidden_size, SmoothActivation)
        self.fc_encoder = Linear(config.width, config.width)
        self.quantizer = Levels(config)
        self.acoustic_decoder = Decoder(config)
        self._processor = PairedBankProcessor(heard.feature_projection_input_dim // 2)

    @property
    def device(self) -> Device:
        """The device on which the model computes."""
        return self.fc_encoder.weight.device

    @property
    def sample_rate(self) -> int:
        """Samples a second."""
        return self.config.sampling_rate

    def encode(self, samples: Tensor, codebooks: int | None = None) -> Codes:
        """samples (B, 1, N) at the model's rate → their codes, (B, 1, T), of one codebook. The sound ends with at least
        a zero, up to a whole number of moments.
        """
        kind = type(self).__name__
        check_samples(kind, samples, 1)
        count_of_codebooks(kind, codebooks, 1)
        step = self.config.step
        with no_grad():
            whole = ops.pad(samples, (0, step - samples.shape[2] % step))
            rows = ops.pad(whole, (step // 2, step // 2)).squeeze(1).cpu().numpy()
            banks, _ = self._processor([*rows])
            said = self.semantic_adapter(self.semantic_encoder(banks.to(self.device)).transpose(1, 2))
            both = ops.cat([said, self.acoustic_encoder(whole)], 1).transpose(1, 2)
            return Codes((self.quantizer.encode(self.fc_encoder(both)).unsqueeze(1),), (None,))

    def decode(self, codes: Codes, length: int | None = None) -> Tensor:
        """The samples (B, 1, N) of codes, at most `length`: there may be a few more than were encoded."""
        kind = type(self).__name__
        check_codes(kind, codes, 1, self.config.codebook_size)
        found = ops.cat([self.acoustic_decoder(self.quantizer.decode(chunk.squeeze(1))) for chunk in codes.chunks], 2)
        return found if length is None else found.narrow(2, 0, min(length, found.shape[2]))

    def forward(self, samples: Tensor, codebooks: int | None = None) -> tuple[Codes, Tensor]:
        """samples (B, 1, N) → their codes, and the samples of these (B, 1, N)."""
        codes = self.encode(samples, codebooks)
        return codes, self.decode(codes, samples.shape[2])


def renamed(name: str) -> str:
    """The model's name of a file's tensor: the beta of an activation is taken for that of a norm."""
    return re.sub(r"(^acoustic_encoder\..*\.act)\.bias$", r"\1.beta", name)


TASKS = {"audio-codec": XCodec2}
