"""BLIP-2 (Li et al. 2023, arXiv 2301.12597) and InstructBLIP (Dai et al. 2023, arXiv 2305.06500): learned queries ask
what a Vision Transformer has seen, layer by layer, and their answers stand before the text. InstructBLIP's queries read
the text too. BLIP-2's language model is a decoder such as OPT, or as InstructBLIP's a T5.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Device, Tensor, ops
from pyapp.errors import ModelError, OptionError
from pyapp.nn import Embedding, LayerNorm, Linear, Module
from pyapp.nn.parameter import new_parameter
from pyapp.nn.sequence_to_sequence.sequence_to_sequence import Memory, SequenceToSequence
from pyapp.nn.vision.blip import BlipVision
from pyapp.nn.vision.vision import check_pictures
from pyapp.nn.vision_language.picture_text import PictureTextModel
from pyapp.nn.vision_language.query_former import query_layers

from ._index import MODEL_TYPES as MODULES
from .loading import picture_text
from .loading.architectures import architecture
from .loading.config import object_of, optional_object, read_config, require, stated
from .loading.picture_text import PictureTextConfig
from .loading.pictures_config import PatchConfig
from .loading.query_config import QueryConfig
from .loading.t5_config import T5Config

MODEL_TYPES = ("blip-2", "instructblip")
IMAGE_PROCESSOR = "Blip"  # of files that name none
BASE = ""
T5 = "t5"  # its module
renamed = picture_text.renamed


def _is_t5(text: Any) -> bool:
    """Whether a text_config is that of a T5, which reads the picture and the prompt before it writes."""
    kind = text.get("model_type") if isinstance(text, dict) else None
    return isinstance(kind, str) and MODULES.get(kind) == T5


def adapted(settings: Mapping[str, Any], names: Mapping[str, Any]) -> Mapping[str, Any]:
    """The configuration of a file with these tensors, as that of its T5 alone would be."""
    text = settings.get("text_config")
    if not _is_t5(text):
        return settings
    before = "language_model."
    own = {name.removeprefix(before): shape for name, shape in names.items() if name.startswith(before)}
    return {**settings, "text_config": architecture(T5).adapted(text, own)}


@dataclass(frozen=True, kw_only=True)
class TowerConfig(PatchConfig):
    """The fields of vision_config; InstructBLIP's tower is the same."""

    model_type = "blip_2_vision_model"
    patch = 14

    hidden_size: int = 1408
    intermediate_size: int = 6144
    num_hidden_layers: int = 39
    num_attention_heads: int = 16
    layer_norm_eps: float = 1e-6


@dataclass(frozen=True)
class Config(PictureTextConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = "blip-2"
    text = "opt"
    tower = "blip_2_vision_model"
    towers = {"blip_2_vision_model": TowerConfig, "instructblip_vision_model": TowerConfig}
    token = ("image_token_index", 50265)

    @classmethod
    def parts(cls, values: Mapping[str, Any], other: str) -> tuple[Any, Mapping[str, Any]]:
        text = values.get("text_config")
        if not _is_t5(text):
            return super().parts(values, other)
        assert isinstance(text, dict)
        return T5Config.from_dict(text), object_of(values, other)

    def check(self) -> None:
        super().check()
        count, own = self.values.get("num_query_tokens", 32), optional_object(self.values, "qformer_config")
        require(
            type(count) is int and 1 <= count <= 1 << 14, f"num_query_tokens is {count!r:.60}, expected 1 to 16,384"
        )
        texts = own.get("use_qformer_text_input")
        require(not texts, "use_qformer_text_input is true, which is for comparing texts with pictures, expected false")
        assert self.queries

    def check_token(self) -> None:
        if not isinstance(self.text_config, T5Config):  # before whose prompt the picture always stands
            super().check_token()

    @property
    def instructs(self) -> bool:
        """Whether the queries read the prompt."""
        return self.values.get("model_type") == MODEL_TYPES[1]

    @property
    def queries(self) -> QueryConfig:
        """The configuration of what asks."""
        found: QueryConfig = read_config(QueryConfig, self.values.get("qformer_config") or {})
        return found

    count = stated("num_query_tokens", 32)  # the number of queries


class QueryEmbeddings(Module):
    """Queries and, after them, words with their positions; normalised."""

    def __init__(self, config: QueryConfig) -> None:
        super().__init__()
        self.word_embeddings = Embedding(config.vocab_size, config.hidden_size, config.pad_token_id)
        self.position_embeddings = Embedding(config.max_position_embeddings, config.hidden_size)
        self.layernorm = LayerNorm(config.hidden_size, config.layer_norm_eps)

    def forward(self, queries: Tensor, ids: Tensor) -> Tensor:
        """queries (B, N, D), ids (1, T) → (B, N + T, D)."""
        places = ops.arange(ids.shape[1], dtype="int32", device=ids.device)
        words = self.word_embeddings(ids) + self.position_embeddings(places)  # (1, T, D)
        words = words.to(queries.dtype).expand(queries.shape[0], *words.shape[1:])
        return self.layernorm(ops.cat([queries, words], 1))


class Projector(Module):
    """The queries' answers, in the text's size."""

    def __init__(self, config: Config, width: int) -> None:
        super().__init__()
        own = config.queries
        self.query_tokens = new_parameter(ops.zeros, 1, config.count, own.hidden_size)
        self.qformer = Module()
        if config.instructs:
            self.qformer.embeddings = QueryEmbeddings(own)
        else:
            self.qformer.layernorm = LayerNorm(own.hidden_size, own.layer_norm_eps)
        self.qformer.encoder = Module()
        self.qformer.encoder.layer = query_layers(own, config.vision_config.hidden_size, config.instructs)
        self.language_projection = Linear(own.hidden_size, width)

    def forward(self, x: Tensor, ids: Tensor | None = None) -> Tensor:
        """A picture's states x (B, S, W), ids (1, T) of the prompt, which InstructBLIP's queries read → (B, N, D)."""
        count = self.query_tokens.shape[1]
        queries = self.query_tokens.to(x.dtype).expand(x.shape[0], *self.query_tokens.shape[1:])
        queries = self.qformer.layernorm(queries) if ids is None else self.qformer.embeddings(queries, ids)
        for layer in self.qformer.encoder.layer:
            queries = layer(queries, x, count)
        return self.language_projection(queries.narrow(1, 0, count))


class Blip2ForConditionalGeneration(PictureTextModel):
    """Pictures and text to text."""

    prompt_form = ("</s>", "")

    def __init__(self, config: Config) -> None:
        if config.instructs:
            raise ModelError("InstructBLIP with a decoder is not supported", hint="Choose one with a Flan-T5")
        super().__init__(config, config.language_model())
        self.vision_tower = BlipVision(config.vision_config)
        self.multi_modal_projector = Projector(config, config.text_config.hidden_size)

    @property
    def picture_tokens(self) -> int:
        found: int = self.config.count
        return found

    def picture_features(self, pixel_values: Tensor) -> Tensor:
        tower = self.config.vision_config
        check_pictures("BLIP-2", pixel_values, tower.num_channels, tower.image_size)
        return self.multi_modal_projector(self.vision_tower(pixel_values))


class Blip2Reader(SequenceToSequence):
    """A picture and a prompt to a text, by BLIP-2 or InstructBLIP with a T5. `prompt`: the ids of the prompt;
    `question`: those that InstructBLIP's queries read, of which `reader` is the tokenizer's function.
    """

    prompt: tuple[int, ...] = ()
    question: tuple[int, ...] = ()
    reader: Callable[[str], Sequence[int]] | None = None

    def __init__(self, config: Config) -> None:
        super().__init__()
        text = config.text_config
        if not isinstance(text, T5Config):
            kind = text.to_dict()["model_type"]
            raise ModelError(
                f"the language model {kind!r:.40} of this model is not a T5",
                hint="Choose one with a Flan-T5" if config.instructs else "pyapp chat --image, or tasks.chat",
            )
        self.config = config
        self.vision_tower = BlipVision(config.vision_config)
        self.multi_modal_projector = Projector(config, text.d_model)
        self.language_model = architecture(T5).TASKS["seq2seq-lm"](text)
        self.most = self.language_model.most

    @property
    def reader_files(self) -> str:
        """The folder of a second tokenizer, of what the queries read; empty: they read nothing."""
        return "qformer_tokenizer" if self.config.instructs else ""

    @property
    def usual_prompt(self) -> str:
        """What is asked where nothing is."""
        return "Write a short description for the image." if self.config.instructs else "a photo of"

    @property
    def device(self) -> Device:
        found: Device = self.language_model.device
        return found

    @property
    def pixels(self) -> tuple[int, int]:
        """The only size (height, width) of pictures that the tower takes."""
        found: tuple[int, int] = self.config.vision_config.image_size
        return found

    def prompted(self, prompt: str, encode: Callable[[str], Sequence[int]]) -> Blip2Reader:
        """The same model for a prompt. `encode` gives the ids of a text."""
        found = copy(self)
        found.prompt = (*encode(prompt), self.config.text_config.eos_token_id)
        if self.config.instructs:
            assert self.reader is not None
            most = self.config.queries.max_position_embeddings
            ids = self.reader(prompt)
            if len(ids) > most:
                raise OptionError(f"it has {len(ids):,} tokens, the model reads {most:,}", where="prompt")
            found.question = tuple(ids)
        return found

    def encode(self, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """Pictures (B, C, H, W) → hidden states (B, S, D) of what the queries answer, and of the prompt after it."""
        own, device = self.language_model.encoder, ids.device
        question = ops.tensor([list(self.question)], dtype="int32", device=device) if self.config.instructs else None
        words = self.multi_modal_projector(self.vision_tower(ids), question)  # (B, N, D)
        if self.prompt:
            prompt = own.embed_tokens(ops.tensor([list(self.prompt)], dtype="int32", device=device))
            words = ops.cat([words, prompt.to(words.dtype).expand(ids.shape[0], *prompt.shape[1:])], 1)
        found: Tensor = own.encode_vectors(words, None)
        return found

    def decode(self, tokens: Tensor, memory: Memory) -> Tensor:
        found: Tensor = self.language_model.decode(tokens, memory)
        return found

    def check_source(self, ids: Tensor, mask: Tensor | None) -> None:
        """InputError for pictures that the tower does not take."""
        tower = self.config.vision_config
        check_pictures("BLIP-2", ids, tower.num_channels, tower.image_size)


TASKS: Mapping[str, Any] = {picture_text.TASK: Blip2ForConditionalGeneration, "image-to-text": Blip2Reader}
