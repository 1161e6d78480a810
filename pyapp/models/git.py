"""GIT (Wang et al. 2022, arXiv 2205.14100): CLIP's Vision Transformer, and a decoder with BERT's layers that writes
what a picture shows. The patches, which see each other alone, go through the layers of the text.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import asdict
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Device, Tensor, ops
from pyapp.errors import OptionError
from pyapp.nn import Embedding, LayerNorm, Linear, Module, ModuleList, Sequential
from pyapp.nn.encoders.encoders import Intermediate, NormedResidual, Words, attend
from pyapp.nn.heads import Heads
from pyapp.nn.sequence_to_sequence.sequence_to_sequence import Memory, SequenceToSequence, WholeMemory
from pyapp.nn.vision.towers import VisionTower
from pyapp.nn.vision.vision import check_pictures

from .loading.config import check_padding, optional_object, read_config
from .loading.towers_config import ClipVisionConfig, TextConfig

MODEL_TYPES = ("git",)
IMAGE_PROCESSOR = "CLIP"  # of files that name none
BASE = ""
IGNORED = r".*\.position_ids|git\.img_temporal_embedding\..*"  # places of the pictures of a video


@dataclass(frozen=True, kw_only=True)
class GitVisionConfig(ClipVisionConfig):
    """The fields of vision_config."""

    model_type = "git_vision_model"
    patch = 16


@dataclass(frozen=True, kw_only=True)
class Config(TextConfig):
    """The hyper-parameters, by the names of config.json: those of the decoder, and vision_config."""

    vision_config: Any
    vocab_size: int = 30522
    hidden_size: int = 768
    intermediate_size: int = 3072
    num_hidden_layers: int = 6
    num_attention_heads: int = 12
    max_position_embeddings: int = 1024
    hidden_act: str = "gelu"
    layer_norm_eps: float = 1e-12
    tie_word_embeddings: bool = False
    bos_token_id: int = 101
    eos_token_id: int = 102
    pad_token_id: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_padding(self.pad_token_id, self.vocab_size)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json; other keys are ignored."""
        own = optional_object(values, "vision_config")
        return read_config(cls, {**values, "vision_config": GitVisionConfig.from_dict(own)})

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {"model_type": MODEL_TYPES[0]} | asdict(self) | {"vision_config": self.vision_config.to_dict()}


class Attention(Module):
    """Attention among the patches, and of each token to the patches and the text so far; the residual and the norm."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width = config.hidden_size
        self.heads = config.num_attention_heads
        self.add_module("self", Module())
        for name in ("query", "key", "value"):
            self._modules["self"].add_module(name, Linear(width, width))
        self.output = NormedResidual(width, width, config.layer_norm_eps)

    def part(self, name: str, x: Tensor) -> Tensor:
        """x (B, T, D) → the queries, keys or values (B, T, H, D')."""
        return self._modules["self"]._modules[name](x).reshape(*x.shape[:2], self.heads, -1)

    def seen(self, x: Tensor) -> Tensor:
        """Patches (B, S, D) → (B, S, D)."""
        q, k, v = (self.part(name, x) for name in ("query", "key", "value"))
        return self.output(attend(q, k, v, None), x)

    def read(self, x: Tensor, memory: Memory, layer: int) -> Tensor:
        """Tokens (R, T, D) → (R, T, D)."""
        first, width = layer * x.shape[2], x.shape[2]

        def project(encoded: Tensor) -> tuple[Tensor, Tensor]:
            patches = encoded.narrow(2, first, width)
            return self.part("key", patches), self.part("value", patches)

        q, k, v = (self.part(name, x) for name in ("query", "key", "value"))
        return self.output(memory.joint(layer, q, k, v, project, Heads(self.heads, self.heads, q.shape[3])), x)


class Layer(Module):
    """Attention and a feed-forward part, each followed by a residual and a norm."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.attention = Attention(config)
        self.intermediate = Intermediate(config.hidden_size, config.intermediate_size, config.hidden_act)
        self.output = NormedResidual(config.intermediate_size, config.hidden_size, config.layer_norm_eps)

    def seen(self, x: Tensor) -> Tensor:
        """Patches (B, S, D) → (B, S, D)."""
        x = self.attention.seen(x)
        return self.output(self.intermediate(x), x)

    def read(self, x: Tensor, memory: Memory, layer: int) -> Tensor:
        """Tokens (R, T, D) → (R, T, D)."""
        x = self.attention.read(x, memory, layer)
        return self.output(self.intermediate(x), x)


class TextEmbeddings(Module):
    """Words and their positions."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.word_embeddings = Embedding(config.vocab_size, config.hidden_size, config.pad_token_id)
        self.position_embeddings = Embedding(config.max_position_embeddings, config.hidden_size)
        self.LayerNorm = LayerNorm(config.hidden_size, config.layer_norm_eps)

    def forward(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """tokens (R, T) at positions (T,) → (R, T, D)."""
        return self.LayerNorm(self.word_embeddings(tokens) + self.position_embeddings(positions))


class Git(Module):
    """The Vision Transformer, a projection of its patches, and the layers of both."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        seen = config.vision_config
        self.embeddings = TextEmbeddings(config)
        self.image_encoder = Module()
        self.image_encoder.vision_model = VisionTower(seen, class_token=True)
        self.encoder = Module()
        self.encoder.layer = ModuleList(Layer(config) for _ in range(config.num_hidden_layers))
        self.visual_projection = Module()
        self.visual_projection.visual_projection = Sequential(
            Linear(seen.hidden_size, config.hidden_size), LayerNorm(config.hidden_size, seen.layer_norm_eps)
        )


class GitForCausalLM(SequenceToSequence):
    """Pictures to captions, or to answers to a question, `prompt`, which is read before them."""

    usual_prompt = ""  # a caption
    prompt: tuple[int, ...] = ()  # the tokens before the first one of an answer's search

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.most, self.begin = config.max_position_embeddings, config.bos_token_id
        self.git = Git(config)
        table = self.git.embeddings.word_embeddings if config.tie_word_embeddings else None
        self.output = Words(config.hidden_size, config.vocab_size, table)

    @property
    def device(self) -> Device:
        found: Device = self.output.weight.device
        return found

    @property
    def pixels(self) -> tuple[int, int]:
        """The only size (height, width) of pictures that the model takes."""
        found: tuple[int, int] = self.config.vision_config.image_size
        return found

    @property
    def generation(self) -> dict[str, Any]:
        """What generation_config.json does not say rightly: the tokens that begin and end a caption. An answer's search
        begins with the question's last token.
        """
        return {"decoder_start_token_id": self.begin, "eos_token_id": self.config.eos_token_id}

    def prompted(self, prompt: str, encode: Callable[[str], Sequence[int]]) -> GitForCausalLM:
        """The same model for a question. `encode` gives the ids of a text. OptionError for one that is too long."""
        found = copy(self)
        *before, found.begin = self.config.bos_token_id, *encode(prompt)
        found.prompt = tuple(before)
        found.most = self.config.max_position_embeddings - len(found.prompt)
        if found.most < 2:
            most = self.config.max_position_embeddings - 2
            raise OptionError(f"it has {len(found.prompt):,} tokens, the model reads {most:,}", where="prompt")
        return found

    def encode(self, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """Pictures (B, C, H, W) → what each layer reads of their patches, side by side (B, S, layers * D); after
        the patches are the tokens of a question.
        """
        x = self.git.visual_projection.visual_projection(self.git.image_encoder.vision_model(ids))
        words, count = None, len(self.prompt)
        if count:
            tokens = ops.tensor([self.prompt] * ids.shape[0], dtype="int32", device=ids.device)  # (B, T)
            words = self.git.embeddings(tokens, ops.arange(count, dtype="int32", device=ids.device))
        found = []
        for layer in self.git.encoder.layer:
            found.append(x if words is None else ops.cat([x, words], 1))
            if len(found) < self.config.num_hidden_layers:
                words = None if words is None else layer.read(words, WholeMemory(x, None, count), 0)
                x = layer.seen(x)
        return ops.cat(found, 2)

    def decode(self, tokens: Tensor, memory: Memory) -> Tensor:
        places = memory.positions(tokens)
        x = self.git.embeddings(tokens, places + len(self.prompt) if self.prompt else places)
        for i, layer in enumerate(self.git.encoder.layer):
            x = layer.read(x, memory, i)
        return self.output(x)

    def check(self, ids: Tensor, mask: Tensor | None) -> None:
        """As SequenceToSequence.check, of texts and of pictures."""
        if ids.dtype.is_floating_point:
            check_pictures("GIT", ids, self.config.vision_config.num_channels, self.pixels)
        else:
            super().check(ids, mask)


TASKS: Mapping[str, Callable[[Config], Module]] = {"image-to-text": GitForCausalLM}
