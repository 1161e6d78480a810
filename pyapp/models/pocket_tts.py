"""Pocket TTS (Kyutai; Rouard et al. 2025, arXiv 2509.06926): a small decoder reads a voice and a text, and writes the
vectors of a codec, each drawn by a few layers from noise along a flow (Boffi et al. 2025, arXiv 2505.18825).

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from math import log
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Device, Tensor, no_grad, ops
from pyapp.engine.buffers import int32_tensor
from pyapp.engine.lazy import np
from pyapp.engine.user_errors import describe
from pyapp.errors import ArgumentError
from pyapp.nn import LayerNorm, Linear, Module, ModuleList
from pyapp.nn.decoders.caches import decoder_cache
from pyapp.nn.decoders.decoder import CachedText, DecoderStack, GroupedQueryAttention, RotaryTable, WholeText
from pyapp.nn.decoders.decoder_blocks import PreNormBlock
from pyapp.nn.heads import Heads
from pyapp.nn.layers.feed_forward import FeedForward
from pyapp.nn.layers.gated import activation_named
from pyapp.nn.parameter import new_parameter

from .loading.config import (
    check_depth,
    check_fields,
    check_heads,
    check_token,
    optional_object,
    read_config,
    require,
    rope_parameters,
)

MODEL_TYPES = ("pocket_tts",)
SPEAKS = "latents"  # in pyapp.models.loading.voice
BASE = ""
IGNORED = r"loss_weighting\..*|latent_stats_num_updates"  # of training
WIDEST = 1 << 16
TOKENS = ("audio_prompt_token_id", "audio_latent_token_id", "audio_prompt_bos_token_id", "audio_bos_token_id")
TIMES = {"lsd": 2, "drifting": 0}  # by flow_type: how many moments of a step the layers are told


@dataclass(frozen=True, kw_only=True)
class FlowConfig:
    """The fields of flow_head_config. flow_type: "lsd", which steps along the flow, or "drifting", which needs no
    steps.
    """

    hidden_size: int = 512
    num_hidden_layers: int = 6
    latent_dim: int = 32
    condition_dim: int = 1024
    frequency_embedding_size: int = 256
    hidden_act: str = "silu"
    layer_norm_eps: float = 1e-6
    rms_norm_eps: float = 1e-5
    max_period: float = 10000.0
    flow_type: str = "lsd"

    def __post_init__(self) -> None:
        check_fields(self)
        check_depth(self.num_hidden_layers)
        for name in ("hidden_size", "latent_dim", "condition_dim", "frequency_embedding_size"):
            require(getattr(self, name) <= WIDEST, f"{name} is {getattr(self, name):,}, at most {WIDEST:,}")
        size = self.frequency_embedding_size
        require(size % 2 == 0, f"frequency_embedding_size is {size}, expected an even number")
        require(self.max_period > 1, f"max_period is {self.max_period}, expected more than 1")
        require(self.flow_type in TIMES, f"flow_type is {self.flow_type!r:.40}, expected {' or '.join(TIMES)}")


@dataclass(frozen=True, kw_only=True)
class Config:
    """The fields of config.json."""

    flow: FlowConfig
    vocab_size: int = 4004
    hidden_size: int = 1024
    num_hidden_layers: int = 6
    num_attention_heads: int = 16
    num_key_value_heads: int | None = None
    head_dim: int | None = None
    intermediate_size: int = 4096
    hidden_act: str = "gelu_pytorch_tanh"
    layer_norm_eps: float = 1e-5
    attention_bias: bool = False
    max_position_embeddings: int = 8192
    rope_parameters: dict[str, Any] | None = None
    latent_dim: int = 32
    audio_prompt_token_id: int = 4000
    audio_latent_token_id: int = 4001
    audio_prompt_bos_token_id: int = 4002
    audio_bos_token_id: int = 4003
    frame_rate: float = 12.5

    def __post_init__(self) -> None:
        check_fields(self)
        check_depth(self.num_hidden_layers)
        for name in ("hidden_size", "intermediate_size", "vocab_size", "latent_dim"):
            require(getattr(self, name) <= 1 << 20, f"{name} is {getattr(self, name):,}, at most {1 << 20:,}")
        check_heads(
            self.hidden_size, self.num_attention_heads, self.heads.kv_heads, self.head_dim, self.max_position_embeddings
        )
        for name in TOKENS:
            check_token(name, getattr(self, name), self.vocab_size)
        require(0 < self.frame_rate <= 1000, f"frame_rate is {self.frame_rate}, expected vectors a second")
        for name, made, read in (
            ("condition_dim", self.hidden_size, self.flow.condition_dim),
            ("latent_dim", self.latent_dim, self.flow.latent_dim),
        ):  # fmt: skip
            require(made == read, f"{name} of flow_head_config is {read}, expected {made}")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """From the object of a config.json; other keys are ignored."""
        told = {
            "flow": read_config(FlowConfig, optional_object(values, "flow_head_config")),
            "rope_parameters": rope_parameters(values),
        }
        return read_config(cls, {**values, **told})

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        values = asdict(self)
        return {**values, "model_type": MODEL_TYPES[0], "flow_head_config": values.pop("flow")}

    @property
    def heads(self) -> Heads:
        """The heads of attention."""
        count = self.num_attention_heads
        return Heads(count, self.num_key_value_heads or count, self.head_dim or self.hidden_size // count)

    @property
    def num_speakers(self) -> int:
        """One, whose voice is heard."""
        return 1


class DeviationNorm(Module):
    """x over its standard deviation, times a weight; its mean stays."""

    def __init__(self, width: int, epsilon: float) -> None:
        super().__init__()
        self.weight, self.epsilon = new_parameter(ops.ones, width), epsilon

    def forward(self, x: Tensor) -> Tensor:
        """x (..., D) → (..., D)."""
        return x * (x.var(-1, keepdim=True) + self.epsilon).rsqrt() * self.weight


class TimeEmbedding(Module):
    """A moment of the flow as a vector."""

    def __init__(self, config: FlowConfig) -> None:
        super().__init__()
        half, width = config.frequency_embedding_size // 2, config.hidden_size
        steps = np.exp(-log(config.max_period) * np.arange(half, dtype=np.float32) / np.float32(half))
        self.register_buffer("freqs", ops.from_numpy(steps.astype(np.float32)))
        self.fc1, self.fc2 = Linear(2 * half, width), Linear(width, width)
        self.activation = activation_named(config.hidden_act)
        self.norm = DeviationNorm(width, config.rms_norm_eps)

    def forward(self, time: Tensor) -> Tensor:
        """time (B, 1) → (B, D)."""
        angles = time * self.freqs
        return self.norm(self.fc2(self.activation(self.fc1(ops.cat([angles.cos(), angles.sin()], -1)))))


class FlowBlock(Module):
    """Two layers after a norm; a shift, a scale and a gate depend on what is known."""

    def __init__(self, config: FlowConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.norm = LayerNorm(width, config.layer_norm_eps)
        self.fc1, self.fc2, self.adaln_proj = Linear(width, width), Linear(width, width), Linear(width, 3 * width)
        self.activation = activation_named(config.hidden_act)

    def forward(self, x: Tensor, known: Tensor) -> Tensor:
        """x and known (B, D) → (B, D)."""
        shift, scale, gate = self.adaln_proj(self.activation(known)).chunk(3, -1)
        y = self.norm(x) * (scale + 1.0) + shift
        return x + gate * self.fc2(self.activation(self.fc1(y)))


class FlowEnd(Module):
    """A norm, a shift and a scale that depend on what is known, and a layer."""

    def __init__(self, config: FlowConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.norm = LayerNorm(width, config.layer_norm_eps, elementwise_affine=False)
        self.adaln_proj, self.proj = Linear(width, 2 * width), Linear(width, config.latent_dim)
        self.activation = activation_named(config.hidden_act)

    def forward(self, x: Tensor, known: Tensor) -> Tensor:
        """x and known (B, D) → (B, latent_dim)."""
        shift, scale = self.adaln_proj(self.activation(known)).chunk(2, -1)
        return self.proj(self.norm(x) * (scale + 1.0) + shift)


class FlowHead(Module):
    """The direction of the flow at a vector."""

    def __init__(self, config: FlowConfig) -> None:
        super().__init__()
        self.times = TIMES[config.flow_type]
        self.input_proj = Linear(config.latent_dim, config.hidden_size)
        self.cond_proj = Linear(config.condition_dim, config.hidden_size)
        self.timestep_embeddings = ModuleList(TimeEmbedding(config) for _ in range(self.times))
        self.layers = ModuleList(FlowBlock(config) for _ in range(config.num_hidden_layers))
        self.final_layer = FlowEnd(config)

    def forward(self, latents: Tensor, state: Tensor, times: Sequence[Tensor]) -> Tensor:
        """latents (B, latent_dim), state (B, condition_dim), times (B, 1) each → (B, latent_dim)."""
        x, known = self.input_proj(latents), self.cond_proj(state)
        told = [embed(time) for embed, time in zip(self.timestep_embeddings, times, strict=True)]
        known = known + sum(told[1:], told[0]) * (1 / len(told)) if told else known
        for layer in self.layers:
            x = layer(x, known)
        return self.final_layer(x, known)

    def drawn(self, noise: Tensor, state: Tensor, steps: int) -> Tensor:
        """The vectors (B, latent_dim) to which noise of this shape flows."""
        if not self.times:
            return self(noise, state, [])
        x, ones = noise, ops.ones(noise.shape[0], 1, dtype=noise.dtype, device=noise.device)
        for step in range(steps):
            x = x + self(x, state, [ones * (step / steps), ones * ((step + 1) / steps)]) * (1 / steps)
        return x


class Backbone(DecoderStack):
    """The decoder."""

    def __init__(self, config: Config) -> None:
        width, epsilon = config.hidden_size, config.layer_norm_eps
        rotary = RotaryTable.of_heads(
            config.heads.head_dim, config.max_position_embeddings, config.rope_parameters
        )  # fmt: skip
        layers = (
            PreNormBlock(
                GroupedQueryAttention(layer, width, config.heads, rotary, bias=config.attention_bias),
                FeedForward(width, config.intermediate_size, config.hidden_act, bias=False),
                LayerNorm(width, epsilon), LayerNorm(width, epsilon),
            )
            for layer in range(config.num_hidden_layers)
        )  # fmt: skip
        super().__init__(config.vocab_size, width, layers, LayerNorm(width, epsilon))
        self.rotary = rotary
        self.audio_prompt_proj = Linear(config.latent_dim, width, bias=False)
        self.audio_latent_proj = Linear(config.latent_dim, width, bias=False)
        self.bos_latent = new_parameter(ops.zeros, config.latent_dim)


class PocketTts(Module):
    """The model."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.model = Backbone(config)
        self.flow_head = FlowHead(config.flow)
        self.eos_head = Linear(config.hidden_size, 1)
        self.register_buffer("latent_mean", ops.zeros(config.latent_dim))
        self.register_buffer("latent_std", ops.ones(config.latent_dim))

    @property
    def device(self) -> Device:
        """The device on which the model computes."""
        return self.eos_head.weight.device

    def embedded(self, ids: Sequence[int], voice: Tensor | None, latents: Tensor | None = None) -> Tensor:
        """What the decoder reads (1, T, D): a voice (V, latent_dim), the tokens of a text, the beginning, and the
        vectors latents (N, latent_dim) that were written.
        """
        config, stack = self.config, self.model
        parts = []
        if voice is not None:
            if voice.ndim != 2 or voice.shape[1] != config.latent_dim:
                raise ArgumentError(f"a voice is (T, {config.latent_dim}), not {describe(voice)}")
            first = int32_tensor([config.audio_prompt_bos_token_id], self.device)
            parts += [stack.embedding(first), stack.audio_prompt_proj(voice)]
        parts.append(stack.embedding(int32_tensor(list(ids), self.device)))
        parts.append(stack.audio_latent_proj(stack.bos_latent.unsqueeze(0)))
        parts += [] if latents is None else [stack.audio_latent_proj(latents)]
        return ops.cat(parts).unsqueeze(0)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """x (B, T, D) → the states (B, T, D), and scores (B, T) of the end."""
        states = self.model.normalized(self.model(x, WholeText(x.shape[1]), x))
        return states, self.eos_head(states).squeeze(2)

    def written(
        self, ids: Sequence[int], voice: Tensor | None, most: int, noise: Callable[[], Tensor], steps: int = 1
    ) -> Iterator[tuple[Tensor, float]]:
        """One vector (latent_dim,) of the flow after another, up to `most`, each with the score of the end. `noise`
        gives normal numbers (latent_dim,); `steps`: along the flow.
        """
        config, stack = self.config, self.model
        with no_grad():
            x = self.embedded(ids, voice)[0]
            capacity = x.shape[0] + most
            stack.rotary.upto(capacity, self.device)
            heads = config.heads
            cache = decoder_cache(
                None, config.num_hidden_layers, heads.kv_heads, capacity, heads.head_dim, self.device, "float32"
            )
        place = 0
        for _ in range(most):
            with no_grad():
                text = CachedText(int32_tensor([place], self.device), cache)
                state = stack.normalized(stack(x, text, x).narrow(0, x.shape[0] - 1, 1))  # (1, D)
                place += x.shape[0]
                found = self.flow_head.drawn(noise().unsqueeze(0), state, steps)
                end = float(self.eos_head(state))
                x = stack.audio_latent_proj(found)
            yield found[0], end

    def latents(self, written: Tensor) -> Tensor:
        """Vectors (T, latent_dim) of the flow → those of the codec."""
        return written * self.latent_std + self.latent_mean


TASKS: Mapping[str, Callable[[Config], Module]] = {"text-to-speech": PocketTts}
