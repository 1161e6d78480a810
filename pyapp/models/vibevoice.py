"""VibeVoice (Peng et al. 2025, arXiv 2508.19205): a Qwen2 reads voices and a script, and says for each moment whether
speech goes on; a few layers draw the moment's vector from noise, by what the language model knows, and a decoder makes
the sound of it, which an encoder hears, so that the language model knows what was said.

A voice is the middle of what its encoder gives; transformers adds noise to it. Parameters have the names of Hugging
Face's files; files of the authors are read, too.
"""

from __future__ import annotations

import re
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
from pyapp.nn import Linear, Module, ModuleList, RMSNorm
from pyapp.nn.audio.causal_convolutions import Decoder, Encoder, PaddingCache
from pyapp.nn.decoders.decoder import CachedText
from pyapp.nn.layers.gated import GatedFeedForward, activation_named
from pyapp.nn.parameter import new_parameter

from .loading.audio_tokenizer_config import LONGEST, AudioTokenizerConfig
from .loading.config import check_depth, check_fields, check_token, object_of, read_config, require
from .loading.picture_text import MixedTextConfig
from .loading.picture_text import renamed as renamed_text

MODEL_TYPES = ("vibevoice",)
SPEAKS = "scripts"  # in pyapp.models.loading.voice
BASE = ""
IGNORED = r"(model\.)?semantic_tokenizer\.decoder\..*|.*acoustic_tokenizer\.fix_std"
SAMPLE_RATE = 24000
EPSILON = 1e-6  # of the projectors' norms
WIDEST = 1 << 16
TOKENS = {"audio_bos_token_id": 151652, "audio_eos_token_id": 151653, "audio_token_id": 151654, "eos_token_id": 151643}
# The objects of a config.json that describe the parts, as transformers and as the authors name them.
TEXT, SOUND = ("text_config", "decoder_config"), ("audio_config", "acoustic_tokenizer_config")
MEANING, FLOW = ("semantic_model_config", "semantic_tokenizer_config"), ("diffusion_head_config",)
# The authors' names of fields of the filters, and those here.
FILTERS = {
    "vae_dim": "hidden_size", "layernorm_eps": "rms_norm_eps", "encoder_n_filters": "num_filters",
    "encoder_ratios": "downsampling_ratios", "encoder_depths": "depths",
}  # fmt: skip
STAGE = r"\.(?:downsample|upsample)_layers\.(\d+)\.0\.(?:conv\.conv|convtr\.convtr)\."
# The authors' names of tensors, and those here.
NAMES = (
    (r"^model\.(?!language_model\.)", ""), (r"^acoustic_tokenizer\.", "audio_tower."),
    (r"^semantic_tokenizer\.encoder\.", "semantic_tokenizer_encoder."),
    (r"mixer\.conv\.conv\.conv\.", "mixer.conv."), (r"\.head\.conv\.conv\.", ".head.conv."),
    (r"^prediction_head\.", "diffusion_head."), (r"\.t_embedder\.mlp\.0\.", ".timestep_proj.fc1."),
    (r"\.t_embedder\.mlp\.2\.", ".timestep_proj.fc2."),
    (r"(\.layers\.\d+)\.adaLN_modulation\.1\.", r"\1.linear."),
    (r"\.final_layer\.linear\.", ".final_layer.linear_2."),
    (r"\.final_layer\.adaLN_modulation\.1\.", ".final_layer.linear_1."),
    (r"^acoustic_connector\.", "multi_modal_projector."), (r"(projector|connector)\.fc([12])\.", r"\1.linear_\2."),
    (r"(projector|connector)\.norm\.", r"\1.act."), (r"^speech_(scaling|bias)_factor", r"latent_\1_factor"),
)  # fmt: skip


def renamed(name: str) -> str:
    """The model's name of a file's tensor."""
    for old, new in NAMES:
        name = re.sub(old, new, name)

    def place(number: int, rest: str) -> str:
        return f".conv_layers.{number - 1}.{rest}" if number else f".stem.{rest}"

    name = re.sub(
        STAGE,
        lambda found: place(int(found[1]), "convtr.convtr." if "convtr" in found[0] else "conv.conv."),
        name,
    )
    if name.startswith(("audio_tower.", "semantic_tokenizer_encoder.")):
        name = re.sub(r"\.stages\.(\d+)\.", lambda found: place(int(found[1]), "stage."), name)
        name = re.sub(r"(\.stage\.\d+)\.weight$", r"\1.gamma", name)  # which is taken for the weight of a norm
    return renamed_text(name)


@dataclass(frozen=True, kw_only=True)
class FlowConfig:
    """The fields of diffusion_head_config."""

    hidden_size: int = 1536
    latent_size: int = 64
    num_hidden_layers: int = 4
    intermediate_size: int = 4608
    rms_norm_eps: float = 1e-5
    hidden_act: str = "silu"
    frequency_embedding_size: int = 256
    diffusion_max_period: int = 10000
    mlp_bias: bool = False

    def __post_init__(self) -> None:
        check_fields(self)
        check_depth(self.num_hidden_layers)
        for name in ("hidden_size", "latent_size", "frequency_embedding_size", "intermediate_size"):
            require(getattr(self, name) <= WIDEST, f"{name} is {getattr(self, name):,}, at most {WIDEST:,}")
        size = self.frequency_embedding_size
        require(size % 2 == 0, f"frequency_embedding_size is {size}, expected an even number")
        require(self.diffusion_max_period > 1, "diffusion_max_period is 1, expected more")


def _object(values: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """The object of a part, by the first of its names. ModelError where there is none."""
    name = next((name for name in names if name in values), names[0])
    return object_of(values, name)


def _filters(values: dict[str, Any], usual: Mapping[str, Any]) -> AudioTokenizerConfig:
    """The configuration of filters, with the fields of transformers or of the authors."""
    told = {FILTERS.get(name, name): value for name, value in values.items()}
    depths, ratios = told.get("depths"), values.get("encoder_ratios")
    if isinstance(depths, str):
        plausible = re.fullmatch(r"\d{1,3}(-\d{1,3}){0,15}", depths) is not None
        require(plausible, f"encoder_depths is {depths!r:.60}, expected numbers and dashes")
        told["depths"] = [int(depth) for depth in depths.split("-")]
    if isinstance(ratios, list):
        told["downsampling_ratios"] = ratios[::-1]
    for name in ("decoder_ratios", "decoder_n_filters", "decoder_depths"):  # as the encoder's, where it is told
        given, mirrored = values.get(name), values.get(f"encoder{name[7:]}")
        if name == "decoder_depths":
            depths = told.get("depths")
            mirrored = depths[::-1] if isinstance(depths, list | tuple) else None
        require(given in (None, mirrored), f"{name} is {given!r:.60}, expected those of the encoder")
    return read_config(AudioTokenizerConfig, {**usual, **told})


@dataclass(frozen=True)
class Config(MixedTextConfig):
    """The configurations of all parts."""

    text = "qwen2"
    token = ("audio_token_id", TOKENS["audio_token_id"])

    acoustic: AudioTokenizerConfig
    semantic: AudioTokenizerConfig
    flow: FlowConfig

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """From the object of a config.json. ModelError for parts that are not known or do not fit."""
        text, flow = _object(values, TEXT), _object(values, FLOW)
        tied = values.get("tie_word_embeddings") is True or text.get("tie_word_embeddings") is True
        acoustic = _filters(_object(values, SOUND), {})
        semantic = _filters(_object(values, MEANING), {"hidden_size": 128})
        read = cls.text_of(text, tied)
        told = {"hidden_size": read.hidden_size, "latent_size": acoustic.hidden_size}
        if "head_layers" in flow:  # the authors' names
            ratio = flow.get("head_ffn_ratio", 3.0)
            require(type(ratio) in (int, float) and 0 < ratio <= 64, f"head_ffn_ratio is {ratio!r:.60}")
            told |= {
                "num_hidden_layers": flow["head_layers"], "intermediate_size": int(ratio * read.hidden_size)
            }  # fmt: skip
        found = cls(read, dict(values), acoustic, semantic, read_config(FlowConfig, {**flow, **told}))
        found.check()
        return found

    def check(self) -> None:
        """ModelError for values that cannot be."""
        super().check()
        steps = [self.acoustic.step, self.semantic.step]
        require(steps[0] == steps[1], f"the encoders have moments of {steps[0]:,} and {steps[1]:,} samples")
        for name, number in self.tokens.items():
            plausible = type(number) is int and number >= 0
            require(plausible, f"{name} is {number!r:.60}, expected a token")
            check_token(name, number, self.vocab_size)

    @property
    def tokens(self) -> dict[str, int]:
        """The tokens that the language model writes, by the names of their fields: the begin and the end of speech,
        one more moment of it, and the end.
        """
        return {name: self.values.get(name, usual) for name, usual in TOKENS.items()}

    @property
    def num_speakers(self) -> int:
        """One, until voices are heard."""
        return 1

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        parts: dict[str, Any] = {"audio_config": self.acoustic, FLOW[0]: self.flow}
        parts |= {"semantic_model_config": self.semantic}
        own = {"model_type": MODEL_TYPES[0], "text_config": self.text_config.to_dict(), **self.tokens}
        return own | {name: asdict(part) for name, part in parts.items()}


class TimeLayers(Module):
    """A moment of the flow as a vector."""

    def __init__(self, config: FlowConfig) -> None:
        super().__init__()
        self.waves, self.period = config.frequency_embedding_size // 2, config.diffusion_max_period
        self.fc1 = Linear(2 * self.waves, config.hidden_size, bias=False)
        self.fc2 = Linear(config.hidden_size, config.hidden_size, bias=False)
        self.activation = activation_named(config.hidden_act)

    def forward(self, time: float) -> Tensor:
        """A time → (1, D)."""
        steps = np.exp(-log(self.period) * np.arange(self.waves, dtype=np.float32) / np.float32(self.waves))
        angles = np.float32(time) * steps
        waves = np.concatenate([np.cos(angles), np.sin(angles)]).astype(np.float32)[None]
        return self.fc2(self.activation(self.fc1(ops.from_numpy(waves).to(self.fc1.weight.device))))


class FlowBlock(Module):
    """A gated feed-forward part after a norm; a shift, a scale and a gate depend on what is known."""

    def __init__(self, config: FlowConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.ffn = GatedFeedForward(width, config.intermediate_size, config.hidden_act, bias=config.mlp_bias)
        self.norm = RMSNorm(width, config.rms_norm_eps)
        self.linear = Linear(width, 3 * width, bias=False)
        self.activation = activation_named(config.hidden_act)

    def forward(self, x: Tensor, known: Tensor) -> Tensor:
        """x and known (B, D) → (B, D)."""
        shift, scale, gate = self.linear(self.activation(known)).chunk(3, -1)
        return x + gate * self.ffn(self.norm(x) * (scale + 1.0) + shift)


class FlowEnd(Module):
    """A norm, a shift and a scale that depend on what is known, and a layer."""

    def __init__(self, config: FlowConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.linear_1 = Linear(width, 2 * width, bias=False)
        self.linear_2 = Linear(width, config.latent_size, bias=False)
        self.norm = RMSNorm(width, config.rms_norm_eps, elementwise_affine=False)
        self.activation = activation_named(config.hidden_act)

    def forward(self, x: Tensor, known: Tensor) -> Tensor:
        """x and known (B, D) → (B, latent_size)."""
        shift, scale = self.linear_1(self.activation(known)).chunk(2, -1)
        return self.linear_2(self.norm(x) * (scale + 1.0) + shift)


class DiffusionHead(Module):
    """What is found in a vector with noise, by what the language model knows of its moment."""

    def __init__(self, config: FlowConfig) -> None:
        super().__init__()
        self.noisy_images_proj = Linear(config.latent_size, config.hidden_size, bias=False)
        self.cond_proj = Linear(config.hidden_size, config.hidden_size, bias=False)
        self.timestep_proj = TimeLayers(config)
        self.layers = ModuleList(FlowBlock(config) for _ in range(config.num_hidden_layers))
        self.final_layer = FlowEnd(config)

    def forward(self, x: Tensor, time: Tensor, known: Tensor) -> Tensor:
        """x (B, latent_size), time (1, D) from `timestep_proj`, known (B, D) from `cond_proj` → (B, latent_size)."""
        x, known = self.noisy_images_proj(x), known + time
        for layer in self.layers:
            x = layer(x, known)
        return self.final_layer(x, known)


class Projector(Module):
    """Makes vectors of the text: two linear layers, with a norm between them."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.linear_1, self.linear_2 = Linear(inputs, width), Linear(width, width)
        self.act = RMSNorm(width, EPSILON)

    def forward(self, x: Tensor) -> Tensor:
        """x (..., inputs) → (..., D)."""
        return self.linear_2(self.act(self.linear_1(x)))


class Tower(Module):
    """The encoder and the decoder of sound."""

    def __init__(self, config: AudioTokenizerConfig) -> None:
        super().__init__()
        self.encoder, self.decoder = Encoder(config), Decoder(config)


class VibeVoice(Module):
    """The model."""

    sample_rate = SAMPLE_RATE

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        width = config.text_config.hidden_size
        self.language_model = config.language_model()
        self.audio_tower = Tower(config.acoustic)
        self.semantic_tokenizer_encoder = Encoder(config.semantic)
        self.multi_modal_projector = Projector(config.acoustic.hidden_size, width)
        self.semantic_connector = Projector(config.semantic.hidden_size, width)
        self.diffusion_head = DiffusionHead(config.flow)
        self.latent_scaling_factor, self.latent_bias_factor = new_parameter(ops.ones), new_parameter(ops.zeros)

    @property
    def device(self) -> Device:
        """The device on which the model computes."""
        return self.multi_modal_projector.linear_1.weight.device

    def heard(self, samples: Tensor) -> Tensor:
        """Samples (1, 1, N), of whole moments, of a voice → its vectors (T, latent_size)."""
        with no_grad():
            found = self.audio_tower.encoder(samples, LONGEST // self.config.acoustic.step * self.config.acoustic.step)
            return (found[0] + self.latent_bias_factor) * self.latent_scaling_factor

    def embedded(self, parts: Sequence[Tensor | Sequence[int]]) -> Tensor:
        """What the language model reads (T, D): tokens, and the vectors (T, latent_size) of voices."""
        found, size = [], self.config.acoustic.hidden_size
        for part in parts:
            if isinstance(part, Tensor):
                if part.ndim != 2 or part.shape[1] != size:
                    raise ArgumentError(f"a voice is (T, {size}), not {describe(part)}")
                found.append(self.multi_modal_projector(part))
            else:
                found.append(self.language_model.embedding(int32_tensor(list(part), self.device)))
        return ops.cat(found)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) → the states (B, T, D) of the language model, after its last norm."""
        stack = self.language_model.model
        found: Tensor = stack.normalized(stack(x, self.language_model.whole_text(x.shape[1], None), x))
        return found

    def drawn(
        self, noise: Tensor, known: Tensor, times: Sequence[Tensor], schedule: Any, guidance: float, more: Any
    ) -> Tensor:  # fmt: skip
        """The vector (1, latent_size) that a schedule makes of noise. known (2, D): the states with and without the
        script; times: those of the schedule, from `timestep_proj`; guidance: how much more the script counts; `more`:
        noise of the shape of a tensor.
        """
        x, known = noise, self.diffusion_head.cond_proj(known)
        for i, time in enumerate(times):
            with_script, without = self.diffusion_head(ops.cat([x, x]), time, known).chunk(2)
            x = schedule.after(x, without + (with_script - without) * guidance, i, more)
        return x

    def written(
        self, x: Tensor, most: int, noise: Callable[[], Tensor], schedule: Callable[[], Any], guidance: float
    ) -> Iterator[Tensor | None]:  # fmt: skip
        """The samples (N,) of one moment after another, up to `most`, that follow what the language model reads x
        (T, D); None where it writes another token. `noise` gives normal numbers (1, latent_size), `schedule` a new
        schedule; guidance: as of `drawn`.
        """
        model, tokens = self.language_model, self.config.tokens
        stack, allowed = model.model, [*tokens.values()]
        begin, goes_on, end = (tokens[name] for name in ("audio_bos_token_id", "audio_token_id", "eos_token_id"))
        with no_grad():
            cache, other = model.new_cache(x.shape[0] + most), model.new_cache(most + 1)
            times = [self.diffusion_head.timestep_proj(time) for time in schedule().times]
        decoded, listened = PaddingCache(), PaddingCache()
        place, behind = 0, 0  # in the text, and in the one of speech alone
        before: Tensor | None = None  # what was read last
        for _ in range(most):
            with no_grad():
                hidden = stack(x, CachedText(int32_tensor([place], self.device), cache), x)
                hidden = hidden.narrow(0, hidden.shape[0] - 1, 1)
                place += x.shape[0]
                scores = model.head(hidden).cpu().numpy().reshape(-1)[allowed]
                token = allowed[int(scores.argmax())]
                if token == end:
                    return
                x = model.embedding(int32_tensor([token], self.device))
                if token == begin:
                    behind = 0  # speech begins anew
                sound = None
                if token == goes_on:
                    alone = model.embedding(int32_tensor([begin], self.device)) if before is None else before
                    unknown = stack(alone, CachedText(int32_tensor([behind], self.device), other), alone)
                    behind += 1
                    known = ops.cat([stack.normalized(hidden), stack.normalized(unknown)])
                    latent = self.drawn(
                        noise(), known, times, schedule(), guidance, lambda _: noise()
                    )  # fmt: skip
                    vector = latent / self.latent_scaling_factor - self.latent_bias_factor
                    made = self.audio_tower.decoder(vector.unsqueeze(0), decoded)
                    meant = self.semantic_tokenizer_encoder.going_on(made, listened)
                    x = self.multi_modal_projector(latent) + self.semantic_connector(meant[0])
                    sound = made[0, 0]
                before = x
            yield sound


TASKS: Mapping[str, Callable[[Config], Module]] = {"text-to-speech": VibeVoice}
