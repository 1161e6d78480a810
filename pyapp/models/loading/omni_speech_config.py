"""The configuration of what speaks in Qwen2.5-Omni and Qwen3-Omni (pyapp.models.qwen_omni)."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

from pyapp.dataclass import dataclass

from .architectures import architecture
from .config import FileConfig, check_depth, check_heads, object_of, read_config, require, rope_parameters
from .hifi_gan_config import check_hifi_gan
from .picture_text import without_mrope
from .qwen_experts import QwenExpertsConfig

WIDEST, MOST_BOOKS = 1 << 16, 64
# The tokens of the text that say where speech begins and ends, and of nothing more, and codes: in talker_config of
# Qwen2.5-Omni; in the config.json and in talker_config of Qwen3-Omni.
TOKENS = {
    "tts_text_start_token_id": 151860, "tts_text_end_token_id": 151861, "tts_text_pad_token_id": 151859,
    "tts_codec_start_token_id": 8293, "tts_codec_end_token_id": 8294, "tts_codec_pad_token_id": 8292,
    "tts_codec_mask_token_id": 8296,
}  # fmt: skip
NEWER_TOKENS = {"tts_bos_token_id": 151672, "tts_eos_token_id": 151673, "tts_pad_token_id": 151671}
NEWER_CODES = {
    "codec_nothink_id": 4203, "codec_think_bos_id": 4204, "codec_think_eos_id": 4205, "codec_pad_id": 4196,
    "codec_bos_id": 4197, "codec_eos_token_id": 4198,
}  # fmt: skip
# What talker_config leaves out.
TALKER = {
    "vocab_size": 8448, "hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28,
    "num_attention_heads": 28, "num_key_value_heads": 4, "head_dim": 128, "max_position_embeddings": 32768,
    "rms_norm_eps": 1e-6, "rope_theta": 1e6,
}  # fmt: skip
NEWER_TALKER = {
    "vocab_size": 3072, "hidden_size": 1024, "intermediate_size": 2048, "num_hidden_layers": 20,
    "num_attention_heads": 16, "num_key_value_heads": 2, "moe_intermediate_size": 384, "num_experts_per_tok": 8,
    "num_experts": 128, "max_position_embeddings": 32768, "rope_theta": 1e6,
}  # fmt: skip
PREDICTOR = {
    "vocab_size": 2048, "hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 5,
    "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128, "max_position_embeddings": 32768,
    "rope_theta": 1e6,
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class FlowConfig(FileConfig):
    """The fields of dit_config (nn/audio/code_flow.py)."""

    model_type = "qwen2_5_omni_dit"

    hidden_size: int = 1024
    num_hidden_layers: int = 22
    num_attention_heads: int = 16
    ff_mult: int = 2
    emb_dim: int = 512
    head_dim: int = 64
    rope_parameters: dict[str, Any]
    max_position_embeddings: int = 32768
    block_size: int = 24
    look_ahead_layers: list[int] | tuple[int, ...] = (10,)
    look_backward_layers: list[int] | tuple[int, ...] = (0, 20)
    repeats: int = 2
    num_embeds: int = 8193
    mel_dim: int = 80
    enc_emb_dim: int = 192
    enc_dim: int = 128
    enc_channels: list[int] | tuple[int, ...] = (256, 256, 256, 256, 768)
    enc_kernel_sizes: list[int] | tuple[int, ...] = (5, 3, 3, 3, 1)
    enc_dilations: list[int] | tuple[int, ...] = (1, 2, 3, 4, 1)
    enc_attention_channels: int = 64
    enc_res2net_scale: int = 2
    enc_se_channels: int = 64

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json."""
        return read_config(cls, {**values, "rope_parameters": rope_parameters(values)})

    def __post_init__(self) -> None:
        super().__post_init__()
        check_depth(self.num_hidden_layers)
        check_heads(
            self.hidden_size, self.num_attention_heads, self.num_attention_heads, self.head_dim,
            self.max_position_embeddings,
        )  # fmt: skip
        sizes = ("emb_dim", "mel_dim", "enc_emb_dim", "enc_dim", "enc_attention_channels", "enc_se_channels")
        for name in ("hidden_size", "block_size", *sizes):
            require(getattr(self, name) <= WIDEST, f"{name} is {getattr(self, name):,}, at most {WIDEST:,}")
        require(self.ff_mult <= 64 and self.repeats <= 64, f"ff_mult is {self.ff_mult}, repeats {self.repeats}")
        require(self.num_embeds <= 1 << 22, f"num_embeds is {self.num_embeds:,}")
        widths, taps, dilations = self.enc_channels, self.enc_kernel_sizes, self.enc_dilations
        for name, given in (("enc_channels", widths), ("enc_kernel_sizes", taps), ("enc_dilations", dilations)):
            plausible = 3 <= len(given) <= 16 and all(type(one) is int and 0 < one <= 1 << 13 for one in given)
            require(plausible, f"{name} is {given!r:.60}, expected 3 to 16 whole numbers up to {1 << 13:,}")
        require(len(widths) == len(taps) == len(dilations), "enc_channels and enc_kernel_sizes differ in length")
        require(all(count % 2 for count in taps), f"enc_kernel_sizes is {taps!r:.60}, expected odd numbers")
        require(
            len({*widths[:-1]}) == 1 and sum(widths[1:-1]) == widths[-1],
            f"enc_channels is {widths!r:.60}, expected equal ones and their sum without the first",
        )
        fits = 1 < self.enc_res2net_scale and widths[0] % self.enc_res2net_scale == 0
        require(fits, f"enc_res2net_scale {self.enc_res2net_scale} does not divide enc_channels {widths[0]}")

    @property
    def least(self) -> int:
        """The frames that a recording of a voice needs, so that its ends can be mirrored."""
        return 1 + max(
            (taps - 1) // 2 * far for taps, far in zip(self.enc_kernel_sizes, self.enc_dilations, strict=True)
        )


@dataclass(frozen=True, kw_only=True)
class VocoderConfig(FileConfig):
    """The fields of bigvgan_config (nn/audio/big_vgan.py)."""

    model_type = "qwen2_5_omni_bigvgan"

    mel_dim: int = 80
    upsample_initial_channel: int = 1536
    resblock_kernel_sizes: list[int] | tuple[int, ...] = (3, 7, 11)
    resblock_dilation_sizes: list[Any] | tuple[Any, ...] = ((1, 3, 5), (1, 3, 5), (1, 3, 5))
    upsample_rates: list[int] | tuple[int, ...] = (5, 3, 2, 2, 2, 2)
    upsample_kernel_sizes: list[int] | tuple[int, ...] = (11, 7, 4, 4, 4, 4)

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.mel_dim <= WIDEST, f"mel_dim is {self.mel_dim:,}")
        check_hifi_gan(self)


@dataclass(frozen=True, kw_only=True)
class WaveConfig(FileConfig):
    """The fields of code2wav_config (nn/audio/code_wave.py)."""

    model_type = "qwen3_omni_moe_code2wav"

    codebook_size: int = 2048
    hidden_size: int = 1024
    max_position_embeddings: int = 8000
    rope_parameters: dict[str, Any]
    num_attention_heads: int = 16
    num_key_value_heads: int = 16
    head_dim: int | None = None
    attention_bias: bool = False
    sliding_window: int = 72
    intermediate_size: int = 3072
    hidden_act: str = "silu"
    rms_norm_eps: float = 1e-5
    num_hidden_layers: int = 8
    num_quantizers: int = 16
    upsample_rates: list[int] | tuple[int, ...] = (8, 5, 4, 3)
    upsampling_ratios: list[int] | tuple[int, ...] = (2, 2)
    decoder_dim: int = 1536

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json."""
        return read_config(cls, {**values, "rope_parameters": rope_parameters(values)})

    def __post_init__(self) -> None:
        super().__post_init__()
        heads, width = self.num_attention_heads, self.hidden_size
        check_depth(self.num_hidden_layers)
        require(self.head_dim is not None or width % heads == 0, f"{heads} heads do not divide hidden_size {width:,}")
        check_heads(width, heads, heads, self.head_size, self.max_position_embeddings)
        require(self.num_key_value_heads == heads, f"num_key_value_heads is {self.num_key_value_heads}, not {heads}")
        for name in ("hidden_size", "intermediate_size", "decoder_dim", "codebook_size"):
            require(getattr(self, name) <= WIDEST, f"{name} is {getattr(self, name):,}, at most {WIDEST:,}")
        require(self.num_quantizers <= MOST_BOOKS, f"num_quantizers is {self.num_quantizers}")
        for name in ("upsample_rates", "upsampling_ratios"):
            given = getattr(self, name)
            plausible = 0 < len(given) <= 8 and all(type(one) is int and 1 <= one <= 64 for one in given)
            require(plausible, f"{name} is {given!r:.60}, expected up to 8 whole numbers up to 64")
        require(prod(self.upsample_rates) * prod(self.upsampling_ratios) <= 1 << 16, "a moment has too many samples")
        halves = 1 << len(self.upsample_rates)
        require(self.decoder_dim % halves == 0, f"decoder_dim is {self.decoder_dim}, expected a multiple of {halves}")

    @property
    def head_size(self) -> int:
        """The columns of a head."""
        return self.head_dim or self.hidden_size // self.num_attention_heads

    @property
    def norm_eps(self) -> float:
        """What is added to variances."""
        return self.rms_norm_eps


@dataclass(frozen=True, kw_only=True)
class NewerTalkerConfig(QwenExpertsConfig):
    """The fields of text_config of talker_config of Qwen3-Omni."""

    model_type = "qwen3_omni_moe_talker_text"

    attention_bias: bool = False
    shared_expert_intermediate_size: int

    def window(self, layer: int) -> None:
        """No layer has a window."""


@dataclass(frozen=True)
class OmniSpeechConfig:
    """The configurations of what speaks. `width`: the numbers of a vector of the text. predictor: None in Qwen2.5-Omni.
    `tokens` of the text and `codes`: by the names of their fields. heard_after: of how many layers of what writes the
    talker of Qwen3-Omni reads the states of recordings.
    """

    talker: Any
    predictor: Any
    sound: tuple[Any, ...]
    width: int
    tokens: Mapping[str, int]
    codes: Mapping[str, int]
    speakers: Mapping[str, int]
    heard_after: int = 0

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], text: Any, newer: bool) -> OmniSpeechConfig:
        """From the object of a config.json; `text`: the configuration of what writes. ModelError for parts that are not
        known or do not fit.
        """
        own = object_of(values, "talker_config")
        return cls._newer(values, own, text) if newer else cls._older(values, own, text)

    @classmethod
    def _older(cls, values: Mapping[str, Any], own: dict[str, Any], text: Any) -> OmniSpeechConfig:
        given = without_mrope({**TALKER, **given_in(own), "model_type": "qwen2", "tie_word_embeddings": False})
        talker, sound = _config("qwen2").from_dict(given), object_of(values, "token2wav_config")
        flow = FlowConfig.from_dict(object_of(sound, "dit_config"))
        vocoder = VocoderConfig.from_dict(object_of(sound, "bigvgan_config"))
        require(flow.mel_dim == vocoder.mel_dim, f"mel_dim is {flow.mel_dim} and {vocoder.mel_dim}")
        width = own.get("embedding_size", 3584)
        require(width == text.hidden_size, f"embedding_size is {width!r:.40}, the text has {text.hidden_size}")
        numbers = _numbers(own, TOKENS)
        tokens = {name: number for name, number in numbers.items() if name.startswith("tts_text")}
        codes = {name: number for name, number in numbers.items() if name not in tokens}
        return cls(talker, None, (flow, vocoder), width, tokens, codes, {})._checked(text)

    @classmethod
    def _newer(cls, values: Mapping[str, Any], own: dict[str, Any], text: Any) -> OmniSpeechConfig:
        given = {**NEWER_TALKER, **given_in(object_of(own, "text_config")), "tie_word_embeddings": False}
        talker = NewerTalkerConfig.from_dict(without_mrope(given))
        predictor_values = {**PREDICTOR, **given_in(object_of(own, "code_predictor_config"))}
        predictor = _config("qwen3").from_dict(predictor_values | {"model_type": "qwen3", "tie_word_embeddings": False})
        wave = WaveConfig.from_dict(object_of(values, "code2wav_config"))
        books, speakers = own.get("num_code_groups", 32), own.get("speaker_id") or {}
        require(
            type(books) is int and 1 < books == predictor_values.get("num_code_groups", 32) == wave.num_quantizers,
            f"num_code_groups is {books!r:.40}, code2wav_config has {wave.num_quantizers} codebooks",
        )
        widths = talker.hidden_size, predictor.hidden_size
        require(widths[0] == widths[1], f"the talker's hidden_size is {widths[0]}, its code predictor's {widths[1]}")
        require(predictor.vocab_size <= wave.codebook_size, f"codebook_size is {wave.codebook_size}")
        require(predictor.max_seq_len > books, f"the code predictor reads {predictor.max_seq_len} codes")
        plausible = isinstance(speakers, dict) and all(isinstance(name, str) for name in speakers)
        require(plausible and len(speakers) <= 1 << 10, f"speaker_id is {speakers!r:.60}, expected codes by names")
        width = own.get("thinker_hidden_size", 2048)
        require(width == text.hidden_size, f"thinker_hidden_size is {width!r:.40}, the text has {text.hidden_size}")
        tokens, codes = _numbers(values, NEWER_TOKENS), _numbers(own, NEWER_CODES)
        after, most = own.get("accept_hidden_layer", 18), text.num_hidden_layers
        require(
            type(after) is int and 0 <= after <= most,
            f"accept_hidden_layer is {after!r:.40}, of {most} layers",
        )
        return cls(talker, predictor, (wave,), width, tokens, codes, speakers, after)._checked(text)

    def _checked(self, text: Any) -> OmniSpeechConfig:
        for numbers, most, what in (
            (self.tokens, text.vocab_size, "tokens"), (self.codes, self.talker.vocab_size, "codes"),
            (self.speakers, self.talker.vocab_size, "codes"),
        ):  # fmt: skip
            for name, number in numbers.items():
                plausible = type(number) is int and 0 <= number < most
                require(plausible, f"{name:.60} is {number!r:.40}, of {most:,} {what}")
        return self

    @property
    def newer(self) -> bool:
        """Whether this is Qwen3-Omni."""
        return self.predictor is not None


def given_in(values: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that an object does not set to null."""
    return {name: value for name, value in values.items() if value is not None}


def _numbers(values: Mapping[str, Any], usual: Mapping[str, int]) -> dict[str, int]:
    return {name: values.get(name, number) for name, number in usual.items()}


def _config(kind: str) -> Any:
    return architecture(kind).Config
