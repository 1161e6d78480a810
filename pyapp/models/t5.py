"""T5 (Raffel et al. 2019, arXiv 1910.10683), T5 1.1 and FLAN-T5: an encoder and a decoder with biases by distance in
place of positions (nn/sequence_to_sequence/t5.py). Also mT5 (Xue et al. 2020, arXiv 2010.11934), and UMT5 (Chung et al.
2023, arXiv 2304.09151), of which every layer has biases of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Device, Tensor
from pyapp.nn import Embedding, Linear, Module
from pyapp.nn.encoders.encoders import LinearHead, visible_keys
from pyapp.nn.sequence_to_sequence.sequence_to_sequence import WholeMemory
from pyapp.nn.sequence_to_sequence.t5 import MOST, T5, T5Encoder, decoder_stack, encoder_stack
from pyapp.nn.sequence_to_sequence.text_heads import AnswerFinder, ClassificationHead, EndClassifier, WholeReader

from .loading.config import require
from .loading.gguf import LENGTHS, Gguf
from .loading.labels import Labelled
from .loading.t5_config import T5Config, t5_adapted

MODEL_TYPES = ("t5", "mt5", "umt5")
BASE = "transformer"  # what some files put before the names
USUAL = 512  # tokens of the published models, for GGUF's key
adapted = t5_adapted
LLAMA_CPP_DISTANCE = 128  # relative_attention_max_distance of every T5 in llama.cpp
_EPSILON = "attention.layer_norm_epsilon"


@dataclass(frozen=True, kw_only=True)
class Config(Labelled, T5Config):
    """The hyper-parameters, by the names of config.json."""

    id2label: dict[str, str] | None = None
    num_labels: int | None = None


class T5Headed(WholeReader):
    """Encoder and decoder below a head; `parts` has them, by the names of files."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config, self.most = config, MOST

    def add_parts(self, parts: Any) -> None:
        """Gives `parts` the table of words, the encoder and the decoder."""
        parts.shared = Embedding(self.config.vocab_size, self.config.d_model)
        parts.encoder = encoder_stack(self.config, parts.shared)
        parts.decoder = decoder_stack(self.config, parts.shared)

    @property
    def parts(self) -> Any:
        """What has the parts."""
        return self.transformer

    @property
    def device(self) -> Device:
        """The device on which the model computes."""
        found: Device = self.parts.shared.weight.device
        return found

    def states(self, ids: Tensor, attention_mask: Tensor | None, tokens: Tensor) -> Tensor:
        encoded = self.parts.encoder.encode(ids, visible_keys(attention_mask))  # (B, T, D)
        found: Tensor = self.parts.decoder.decode(tokens, WholeMemory(encoded, attention_mask, ids.shape[1]))
        return found


class T5ForSequenceClassification(T5Headed, EndClassifier):
    """Scores of the labels of a text, or of a pair of texts."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.transformer = Module()
        self.add_parts(self.transformer)
        self.classification_head = ClassificationHead(config.d_model, len(config.labels))

    @property
    def encoder(self) -> T5ForSequenceClassification:
        """What limits the number of tokens (`most`), as in encoders."""
        return self


class T5ForQuestionAnswering(T5Headed, AnswerFinder):
    """Scores of an answer's start and end at each token."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.add_parts(self)
        self.encoder.most = MOST
        self.qa_outputs = Linear(config.d_model, 2)

    @property
    def parts(self) -> Any:
        return self


def token_labels(config: Config) -> LinearHead:
    """The encoder, with scores of the labels of each token."""
    return LinearHead((BASE, "classifier"), T5Encoder(config), config.d_model, len(config.labels))


def _from_gguf(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    gated = "enc.blk.0.ffn_gate.weight" in values["tensors"]
    special = {f"{config}_token_id": values["special"][role] for config, role in (("pad", "padding"), ("eos", "eos"))}
    given = {name: number for name, number in special.items() if type(number) is int}
    own = "enc.blk.1.attn_rel_b.weight" in values["tensors"]  # biases in each layer
    return found | given | {
        "feed_forward_proj": "gated-gelu" if gated else "relu", "model_type": "umt5" if own else "t5",
    }  # fmt: skip


def _to_gguf(config: T5Config) -> dict[str, Any]:
    plain = (
        (config.gated, config.activation) in ((False, "relu"), (True, "gelu_new"))
        and config.relative_attention_max_distance == LLAMA_CPP_DISTANCE
        and config.scaled == config.tie_word_embeddings
    )
    require(
        plain,
        f"llama.cpp has no T5 with feed_forward_proj {config.feed_forward_proj!r:.40} (dense_act_fn "
        f"{config.activation!r:.40}, is_gated_act {config.gated}), relative_attention_max_distance "
        f"{config.relative_attention_max_distance} and scale_decoder_outputs {config.scaled} "
        f"(tie_word_embeddings {config.tie_word_embeddings})",
        "Write safetensors",
    )
    return {
        "context_length": USUAL, _EPSILON: float(config.layer_norm_epsilon), LENGTHS[1]: config.d_kv,
        "decoder_block_count": config.decoder_layers,
    }  # fmt: skip


def _names() -> dict[str, str]:
    found = {"shared": "token_embd", "lm_head": "output"}
    for stack, short, last in (("encoder", "enc", 1), ("decoder", "dec", 2)):
        own, target = f"{stack}.block.{{}}.layer", f"{short}.blk.{{}}"
        found |= {f"{own}.0.SelfAttention.{part}": f"{target}.attn_{part}" for part in "qkvo"}
        found |= {
            f"{own}.0.SelfAttention.relative_attention_bias": f"{target}.attn_rel_b",
            f"{own}.0.layer_norm": f"{target}.attn_norm", f"{own}.{last}.layer_norm": f"{target}.ffn_norm",
            f"{own}.{last}.DenseReluDense.wi": f"{target}.ffn_up",
            f"{own}.{last}.DenseReluDense.wo": f"{target}.ffn_down",
            f"{own}.{last}.DenseReluDense.wi_0": f"{target}.ffn_gate",
            f"{own}.{last}.DenseReluDense.wi_1": f"{target}.ffn_up",
            f"{stack}.final_layer_norm": f"{short}.output_norm",
        }  # fmt: skip
    own, target = "decoder.block.{}.layer.1", "dec.blk.{}"
    found |= {f"{own}.EncDecAttention.{part}": f"{target}.cross_attn_{part}" for part in "qkvo"}
    return found | {f"{own}.layer_norm": f"{target}.cross_attn_norm"}


GGUF = Gguf(
    "t5",
    names=_names(),
    keys={
        "d_model": "embedding_length", "d_ff": "feed_forward_length", "num_layers": "block_count",
        "num_decoder_layers": "decoder_block_count", "num_heads": "attention.head_count", "d_kv": LENGTHS[0],
        "layer_norm_epsilon": "attention.layer_norm_rms_epsilon",
        "relative_attention_num_buckets": "attention.relative_buckets_count",
        "decoder_start_token_id": "decoder_start_token_id",
    },
    read=_from_gguf, write=_to_gguf,
    unsaid=("kind", "num_decoder_layers", "scale_decoder_outputs", "feed_forward_proj", "dense_act_fn", "is_gated_act"),
    encoder="t5encoder",
)  # fmt: skip
TASKS: Mapping[str, Callable[[Config], Module]] = {
    "seq2seq-lm": T5,
    "features": T5Encoder,
    "sequence-classification": T5ForSequenceClassification,
    "token-classification": token_labels,
    "question-answering": T5ForQuestionAnswering,
}
