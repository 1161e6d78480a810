"""SeamlessM4T (Seamless Communication 2023, arXiv 2308.11596 and 2312.05187): the decoder of NLLB writes, in the
language of its first token, what a text says that NLLB's encoder has read, or what somebody says whom a Conformer has
heard. The encoders of speech of its two versions differ (nn.audio.near_conformer).

The file's third decoder and its vocoder, which speak, are not read. Parameters have the names of Hugging Face's files,
but those of the text's encoder and decoder (`renamed`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any

from pyapp.audio.processors.banks import PairedBankProcessor
from pyapp.dataclass import dataclass
from pyapp.engine import Device, Tensor
from pyapp.errors import ArgumentError
from pyapp.nn import Embedding, Module
from pyapp.nn.audio.near_conformer import NearConformer
from pyapp.nn.encoders.encoders import Words
from pyapp.nn.positions.sinusoids import padded_sinusoids
from pyapp.nn.sequence_to_sequence.sequence_to_sequence import (
    BartLanguageModel,
    BartModel,
    Decoder,
    FixedPositions,
    Memory,
    SequenceToSequence,
)

from .loading.config import check_depth, require
from .loading.sequence_config import SequenceToSequenceConfig

MODEL_TYPES = ("seamless_m4t", "seamless_m4t_v2")
BASE = ""
IGNORED = r"(t2u_model|vocoder)\..*|.*\.embed_positions\.weights"
PROCESSOR = PairedBankProcessor
LARGEST = 1 << 14
# What a config.json leaves out.
USUAL = {
    "vocab_size": 256102, "hidden_size": 1024, "encoder_layers": 24, "encoder_ffn_dim": 8192,
    "encoder_attention_heads": 16, "decoder_layers": 24, "decoder_ffn_dim": 8192, "decoder_attention_heads": 16,
    "activation_function": "relu", "scale_embedding": True, "max_position_embeddings": 4096, "pad_token_id": 0,
    "eos_token_id": 3, "decoder_start_token_id": 3,
}  # fmt: skip
# The same of the first version: how its encoder of speech knows of places, and how long texts and recordings may be.
FIRST = {"position_embeddings_type": "relative", "max_position_embeddings": 1024, "speech_encoder_chunk_size": None}
KINDS = {"relative": MODEL_TYPES[0], "relative_key": MODEL_TYPES[1]}  # the versions, by position_embeddings_type
# The languages of its texts, by the codes of other models.
LANGUAGES = {
    "af": "afr", "am": "amh", "ar": "arb", "as": "asm", "az": "azj", "be": "bel", "bg": "bul", "bn": "ben", "bs": "bos",
    "ca": "cat", "cs": "ces", "cy": "cym", "da": "dan", "de": "deu", "el": "ell", "en": "eng", "es": "spa", "et": "est",
    "eu": "eus", "fa": "pes", "fi": "fin", "fr": "fra", "ga": "gle", "gl": "glg", "gu": "guj", "he": "heb", "hi": "hin",
    "hr": "hrv", "hu": "hun", "hy": "hye", "id": "ind", "is": "isl", "it": "ita", "ja": "jpn", "jw": "jav", "ka": "kat",
    "kk": "kaz", "km": "khm", "kn": "kan", "ko": "kor", "lo": "lao", "lt": "lit", "lv": "lvs", "mk": "mkd", "ml": "mal",
    "mn": "khk", "mr": "mar", "ms": "zsm", "mt": "mlt", "my": "mya", "ne": "npi", "nl": "nld", "nn": "nno", "no": "nob",
    "pa": "pan", "pl": "pol", "ps": "pbt", "pt": "por", "ro": "ron", "ru": "rus", "sd": "snd", "sk": "slk", "sl": "slv",
    "sn": "sna", "so": "som", "sr": "srp", "sv": "swe", "sw": "swh", "ta": "tam", "te": "tel", "tg": "tgk", "th": "tha",
    "tl": "tgl", "tr": "tur", "uk": "ukr", "ur": "urd", "uz": "uzn", "vi": "vie", "yo": "yor", "yue": "yue",
    "zh": "cmn",
}  # fmt: skip
NAMES = (
    (r"^shared\.", "model.shared."), (r"^text_(encoder|decoder)\.", r"model.\1."), (r"\.ffn\.fc", ".fc"),
    (r"\.ffn_layer_norm\.", ".final_layer_norm."), (r"\.cross_attention", ".encoder_attn"),
)  # fmt: skip


def renamed(name: str) -> str:
    """The model's name of a file's tensor."""
    if name.startswith("speech_encoder."):
        return name
    for old, new in NAMES:
        name = re.sub(old, new, name)
    return name


@dataclass(frozen=True, kw_only=True)
class Config(SequenceToSequenceConfig):
    """The hyper-parameters, by the names of config.json, but `d_model`, its hidden_size."""

    model_type = "seamless_m4t_v2"

    layer_norm_eps: float = 1e-5
    speech_encoder_layers: int = 24
    speech_encoder_attention_heads: int = 16
    speech_encoder_intermediate_size: int = 4096
    speech_encoder_hidden_act: str = "swish"
    speech_encoder_chunk_size: int | None = 20000
    feature_projection_input_dim: int = 160
    add_adapter: bool = True
    adaptor_kernel_size: int = 8
    adaptor_stride: int = 8
    num_adapter_layers: int = 1
    position_embeddings_type: str | None = "relative_key"
    conv_depthwise_kernel_size: int = 31
    left_max_position_embeddings: int = 64
    right_max_position_embeddings: int = 8

    def __post_init__(self) -> None:
        super().__post_init__()
        width, heads = self.d_model, self.speech_encoder_attention_heads
        require(width % 2 == 0 and width > 2, f"hidden_size is {width}, expected an even number from 4")
        require(width % heads == 0, f"speech_encoder_attention_heads {heads} does not divide hidden_size {width}")
        kind, layers = self.position_embeddings_type, self.num_adapter_layers
        require(kind in KINDS, f"position_embeddings_type is {kind!r:.40}, expected {' or '.join(KINDS)}")
        taps = self.conv_depthwise_kernel_size
        require(not self.far or taps % 2 == 1, f"conv_depthwise_kernel_size is {taps}, expected an odd number")
        require(layers == 1, f"num_adapter_layers is {layers}, expected 1")
        check_depth(self.speech_encoder_layers)
        for name in ("left_max_position_embeddings", "right_max_position_embeddings", "feature_projection_input_dim",
                     "conv_depthwise_kernel_size", "adaptor_kernel_size", "adaptor_stride",
                     "speech_encoder_intermediate_size"):  # fmt: skip
            require(getattr(self, name) <= LARGEST, f"{name} is {getattr(self, name):,}, expected at most {LARGEST:,}")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json; other keys are ignored."""
        first = values.get("model_type") == MODEL_TYPES[0]
        values = {**USUAL, **(FIRST if first else {}), **values}
        return super().from_dict({"d_model": values["hidden_size"], **values})

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        values = super().to_dict()
        return values | {"hidden_size": values.pop("d_model"), "model_type": KINDS[str(self.position_embeddings_type)]}

    @property
    def far(self) -> bool:
        """Whether the encoder of speech attends by all distances, as in the first version."""
        return self.position_embeddings_type == "relative"

    @property
    def speech(self) -> Any:
        """The fields of the encoder of speech, by the names of wav2vec 2.0 BERT."""
        return SimpleNamespace(
            hidden_size=self.d_model, output_size=self.d_model, num_hidden_layers=self.speech_encoder_layers,
            num_attention_heads=self.speech_encoder_attention_heads, hidden_act=self.speech_encoder_hidden_act,
            intermediate_size=self.speech_encoder_intermediate_size, layer_norm_eps=self.layer_norm_eps,
            feature_projection_input_dim=self.feature_projection_input_dim, mask_time_prob=0.0, mask_feature_prob=0.0,
            add_adapter=self.add_adapter, adapter_kernel_size=self.adaptor_kernel_size,
            adapter_stride=self.adaptor_stride, num_adapter_layers=self.num_adapter_layers, adapter_act="relu",
            use_intermediate_ffn_before_adapter=True, conv_depthwise_kernel_size=self.conv_depthwise_kernel_size,
            left_max_position_embeddings=self.left_max_position_embeddings,
            right_max_position_embeddings=self.right_max_position_embeddings,
        )  # fmt: skip

    @property
    def samples_per_moment(self) -> int:
        """The samples between two moments."""
        return PairedBankProcessor.samples * (self.adaptor_stride if self.add_adapter else 1)


def _positions(config: Config) -> Module:
    return FixedPositions(
        partial(padded_sinusoids, config.max_position_embeddings, config.d_model, config.pad_token_id)
    )


class TextToText(BartLanguageModel):
    """Texts to texts."""

    def __init__(self, config: Config) -> None:
        model = BartModel(config, _positions, config.pad_token_id + 1, norm_embedding=False, norm_first=True)
        table = model.shared if config.tie_word_embeddings else None
        super().__init__(config, model, config.vocab_size, table, bias=False)


class SpeechToText(SequenceToSequence):
    """Speech to texts. Its source is pairs of filter banks (B, F, 2 bins)."""

    translates = True
    usual_language: str | None = "en"

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config, self.most = config, config.max_position_embeddings
        self.speech_encoder = NearConformer(config.speech, normalized=True, far=config.far)
        self.model = Module()
        self.model.shared = Embedding(config.vocab_size, config.d_model, config.pad_token_id)
        self.model.decoder = Decoder(
            config, _positions(config), config.pad_token_id + 1, self.model.shared, norm_embedding=False,
            norm_first=True,
        )  # fmt: skip
        table = self.model.shared if config.tie_word_embeddings else None
        self.lm_head = Words(config.d_model, config.vocab_size, table, bias=False)

    @property
    def encoder(self) -> NearConformer:
        """What hears."""
        return self.speech_encoder

    @property
    def device(self) -> Device:
        found: Device = self.model.decoder.embed_tokens.weight.device
        return found

    def language_token(self, language: str) -> str:
        """The token with which the text in a language begins."""
        return f"__{LANGUAGES.get(language, language)}__"

    def source_mask(self, mask: Tensor | None, source: Tensor, encoded: Tensor) -> Tensor | None:
        heard = self.encoder.joined(mask)
        return mask if not heard else heard[-1]

    def encode(self, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """Filter banks (B, F, 2 bins) → (B, S, D). attention_mask (B, F): 0 for padding, which stands at the end."""
        return self.speech_encoder(ids, attention_mask)

    def decode(self, tokens: Tensor, memory: Memory) -> Tensor:
        return self.lm_head(self.model.decoder(tokens, memory))

    def check_source(self, ids: Tensor, mask: Tensor | None) -> None:
        """The encoder checks shapes. ArgumentError for recordings that are to be heard in several parts."""
        most = self.config.speech_encoder_chunk_size
        if most is not None and ids.ndim == 3 and ids.shape[1] > most:
            raise ArgumentError(f"SpeechToText: a recording of {ids.shape[1]:,} moments is longer than {most:,}")


TASKS: Mapping[str, Callable[[Config], Module]] = {"seq2seq-lm": TextToText, "speech-recognition": SpeechToText}
