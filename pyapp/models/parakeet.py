"""NVIDIA's Parakeet: the encoder of FastConformer (Rekesh et al. 2023, arXiv 2305.05084), and a head that names a piece
of a word for each moment (parakeet_ctc), or a transducer (Graves 2012, arXiv 1211.3711), which writes the next piece
after those that it has written (parakeet_rnnt) and says how long it is heard (parakeet_tdt; Xu et al. 2023, arXiv
2304.06795).

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

from pyapp.audio.processors.banks import StandardizedProcessor
from pyapp.dataclass import dataclass
from pyapp.engine import Device, Tensor, no_grad, ops
from pyapp.nn import LSTM, Conv1d, Embedding, Linear, Module
from pyapp.nn.audio.fast_conformer import StandardizedConformer
from pyapp.nn.layers.gated import activation_named

from .loading.config import check_fields, read_config, require
from .loading.fast_conformer_config import LARGEST, FastConformerConfig

MODEL_TYPES = ("parakeet_ctc", "parakeet_rnnt", "parakeet_tdt")
BASE = ""
PROCESSOR = StandardizedProcessor
PIECES = True  # what it names are pieces of words
AHEAD = 8  # moments that are read together, as if nothing were said at those before


@dataclass(frozen=True, kw_only=True)
class Config:
    """The fields of config.json. `blank_token_id` stands for nothing; that of parakeet_ctc is `pad_token_id`."""

    model_type: str
    encoder: FastConformerConfig
    vocab_size: int = 1025
    pad_token_id: int | None = None
    blank_token_id: int | None = None
    decoder_hidden_size: int = 640
    num_decoder_layers: int = 2
    hidden_act: str = "relu"
    max_symbols_per_step: int = 10
    durations: list[int] = (0, 1, 2, 3, 4)  # type: ignore[assignment]

    def __post_init__(self) -> None:
        check_fields(self)
        require(0 <= self.blank < self.vocab_size, f"the blank {self.blank} is not one of {self.vocab_size:,} pieces")
        require(self.decoder_hidden_size <= LARGEST, f"decoder_hidden_size is {self.decoder_hidden_size:,}")
        require(self.num_decoder_layers <= 64, f"num_decoder_layers is {self.num_decoder_layers:,}")
        plausible = 0 < len(self.durations) <= 256 and all(type(n) is int and 0 <= n < 256 for n in self.durations)
        require(plausible, f"durations are {self.durations!r:.60}, expected whole numbers")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """From the object of a config.json; other keys are ignored."""
        return read_config(cls, {**values, "encoder": FastConformerConfig.part_of(values)})

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        values = asdict(self)
        return values | {"encoder_config": values.pop("encoder"), "durations": list(self.durations)}

    @property
    def transduces(self) -> bool:
        """Whether the head is a transducer."""
        return self.model_type != "parakeet_ctc"

    @property
    def steps(self) -> tuple[int, ...]:
        """The lengths in moments that the transducer tells; none: each piece is heard at one moment."""
        return tuple(self.durations) if self.model_type == "parakeet_tdt" else ()

    @property
    def blank(self) -> int:
        """The number that stands for nothing."""
        given = self.blank_token_id if self.transduces else self.pad_token_id
        return self.vocab_size - 1 if given is None else given

    @property
    def samples_per_moment(self) -> int:
        """The samples between two moments."""
        return StandardizedProcessor.hop * self.encoder.subsampling_factor


@dataclass(frozen=True)
class Piece:
    """A piece of a word, the moments `first` to `end` (excluded) at which it is heard, and the logarithm of its
    probability.
    """

    token: int
    first: int
    end: int
    chance: float


class Recognizer(Module):
    """An encoder below a head."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.encoder = StandardizedConformer(config.encoder)

    @property
    def device(self) -> Device:
        """The device on which the model computes."""
        return self.encoder.subsampling.linear.weight.device


class ParakeetForCTC(Recognizer):
    """Scores of pieces of words for each moment."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.ctc_head = Conv1d(config.encoder.hidden_size, config.vocab_size, 1)

    def forward(self, input_features: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """input_features (B, F, bins), attention_mask (B, F) → logits (B, T, V)."""
        x = self.encoder(input_features, attention_mask)  # (B, T, D)
        return self.ctc_head(x.transpose(1, 2)).transpose(1, 2)


class Predictor(Module):
    """What has read the pieces that were written."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width = config.decoder_hidden_size
        self.embedding = Embedding(config.vocab_size, width)
        self.lstm = LSTM(width, width, config.num_decoder_layers, batch_first=True)
        self.decoder_projector = Linear(width, width)

    def forward(self, tokens: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        """tokens (B, U), the state of the LSTM → (B, U, H), the next state."""
        x, state = self.lstm(self.embedding(tokens), state)
        return self.decoder_projector(x), state


class Joint(Module):
    """Scores of the next piece, and of how long it is, from what was heard and what was written."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.activation = activation_named(config.hidden_act)
        self.head = Linear(config.decoder_hidden_size, config.vocab_size + len(config.steps))

    def forward(self, heard: Tensor, written: Tensor) -> Tensor:
        """heard and written (..., H) → (..., V + lengths)."""
        return self.head(self.activation(heard + written))


class ParakeetForTransducer(Recognizer):
    """Scores of the next piece at each moment after each text, and the pieces of a recording."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.encoder_projector = Linear(config.encoder.hidden_size, config.decoder_hidden_size)
        self.decoder = Predictor(config)
        self.joint = Joint(config)

    def encode(self, input_features: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """input_features (B, F, bins), attention_mask (B, F) → what was heard (B, T, H)."""
        return self.encoder_projector(self.encoder(input_features, attention_mask))

    def forward(self, input_features: Tensor, tokens: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """input_features (B, F, bins), tokens (B, U) from the blank on → scores (B, T, U, V + lengths)."""
        written, _ = self.decoder(tokens)
        return self.joint(self.encode(input_features, attention_mask).unsqueeze(2), written.unsqueeze(1))

    def pieces(self, heard: Tensor, check: Callable[[], None] = lambda: None) -> Iterator[Piece]:
        """The most likely pieces, one after another, of what was heard (T, H). `check` is called before each step.

        A blank goes on to the next moment, a piece does not, or as far as it says; more than max_symbols_per_step at a
        moment, which a confused model writes, end it.
        """
        config, moments = self.config, heard.shape[0]
        at = count = 0
        with no_grad():
            written, state = self._after(config.blank, None)
            while at < moments:
                check()
                scores = self.joint(heard.narrow(0, at, min(AHEAD, moments - at)), written)  # (n, V + lengths)
                tokens, chances, steps = self._best(scores)
                i = 0
                while i < len(tokens) and tokens[i] == config.blank:
                    i += max(1, steps[i])
                    count = 0
                at += i
                if i >= len(tokens):
                    continue
                yield Piece(tokens[i], at, at + (steps[i] if config.steps else 1), chances[i])
                written, state = self._after(tokens[i], state)
                step = steps[i]
                count = 0 if step else count + 1
                if count >= config.max_symbols_per_step:
                    step, count = 1, 0
                at += step

    def _after(self, token: int, state: Any) -> tuple[Tensor, Any]:
        """What has read one more piece: (1, H), and its state."""
        x, state = self.decoder(ops.tensor([[token]], dtype="int32", device=self.device), state)
        return x.squeeze(1), state

    def _best(self, scores: Tensor) -> tuple[list[int], list[float], list[int]]:
        """The best pieces of scores (n, V + lengths), the logarithms of their probabilities, and their lengths."""
        pieces = scores.narrow(1, 0, self.config.vocab_size).to("float32").log_softmax(-1)
        best = pieces.argmax(-1)
        chances = pieces.gather(1, best.unsqueeze(1)).squeeze(1)
        steps = [0] * scores.shape[0]
        if self.config.steps:
            lengths = scores.narrow(1, self.config.vocab_size, len(self.config.steps))
            steps = [self.config.steps[i] for i in lengths.argmax(-1).tolist()]
        return best.tolist(), chances.tolist(), steps


def recognizer(config: Config) -> Recognizer:
    """The model of a configuration."""
    return ParakeetForTransducer(config) if config.transduces else ParakeetForCTC(config)


TASKS: Mapping[str, Callable[[Config], Module]] = {"speech-recognition": recognizer}
