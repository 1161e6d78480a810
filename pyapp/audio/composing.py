"""Music of texts, by a model that writes the codes of a codec (MusicGen), and of texts with a melody.

Each moment is drawn from the scores with the text and without one: guidance says how much farther from those without it
(Ho and Salimans 2022, arXiv 2207.12598; Kreuk et al. 2022, arXiv 2209.15352). Codes of a codebook come one moment after
those of the codebook before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from pyapp.audio.chroma import loudest_notes
from pyapp.audio.decoding import draw_of_best
from pyapp.audio.voice import finite
from pyapp.audio.wav import as_pcm
from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, no_grad, ops
from pyapp.engine.buffers import int32_tensor
from pyapp.engine.lazy import np
from pyapp.errors import OptionError, check_settings
from pyapp.events import Cancel, Done, Event, Progress, Sound
from pyapp.nn.sequence_to_sequence.sequence_to_sequence import Decoding
from pyapp.text.generation.options import check_number
from pyapp.text.generation.sampling import Uniform

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST_SECONDS = 30.0  # for which the published models are trained


@dataclass(frozen=True)
class ComposeOptions:
    """How music is made. OptionError, with the name of the setting, for an invalid value.

    - seconds: its length. seed: the same one makes the same music.
    - guidance: how closely it follows the text; 1: as the model's scores with the text say.
    - temperature: how much it varies; 0: the most likely code each time. top_k: of how many codes one is drawn.
    """

    seconds: float = 8.0
    seed: int = 0
    guidance: float = 3.0
    temperature: float = 1.0
    top_k: int = 250

    def __post_init__(self) -> None:
        check_number("seconds", self.seconds, 0.05, MOST_SECONDS)
        check_number("seed", self.seed, 0, (1 << 63) - 1, whole=True)
        check_number("guidance", self.guidance, 1, 100)
        check_number("temperature", self.temperature, 0, 100)
        check_number("top_k", self.top_k, 1, 1 << 20, whole=True)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> ComposeOptions:
        """From JSON values; unknown names are refused."""
        check_settings(values, (entry.name for entry in fields(cls)))
        return cls(**values)


def compose_events(
    loaded: Any, text: str, options: ComposeOptions, cancel: Cancel, melody: NDArray[np.float32] | None = None
) -> Iterator[Event]:
    """Makes music of a text: Progress in steps, a Sound with all of it, and Done with `duration` in seconds and `rate`
    in samples a second. melody: samples (N,) at the model's rate, whose loudest notes the music follows. Raises
    OptionError for a text without words, for more seconds than the model makes and for a melody that it does not
    follow, ModelError if what it computes is not sound, Cancelled once `cancel` is set.
    """
    model = loaded.model
    if not isinstance(text, str) or not text.strip():
        raise OptionError("says nothing about the music", where="text")
    moments = max(1, round(options.seconds * model.config.moments))
    steps, done, codes = moments + model.decoder.codebooks - 1, 0, None
    writing = written_codes(loaded, text, moments, options, melody)
    while codes is None:
        codes = next(writing)
        cancel.check()
        done += codes is None
        yield Progress("composing", done, steps, "steps")
    with no_grad():
        found = finite(model.sound(codes)[0, 0].cpu().numpy())
    rate, seconds = model.sample_rate, len(found) / model.sample_rate
    yield Sound(text, 0.0, seconds, rate, as_pcm(found))
    yield Done("complete", {"duration": seconds, "rate": rate})


def written_codes(
    loaded: Any, text: str, moments: int, options: ComposeOptions, melody: NDArray[np.float32] | None = None
) -> Iterator[Tensor | None]:
    """None after every step, and at last the codes (1, codebooks, moments) int64 of a text, with a melody as
    compose_events'.
    """
    model, books = loaded.model, loaded.model.decoder.codebooks
    start = loaded.generation.get("decoder_start_token_id", loaded.model.config.decoder.pad_token_id)
    length, empty = moments + books, model.config.decoder.pad_token_id  # of the rows, with their first code
    [encoding] = loaded.tokenizer.encode_batch([text], truncation=True, max_length=loaded.tokenizer.max_length or 512)
    guided = options.guidance > 1
    with no_grad():
        ids = int32_tensor(list(encoding.ids), model.device).unsqueeze(0)
        memory = model.memory(ids, length, guided, None if melody is None else _notes_of(model, melody))
    if memory.most - memory.first < length:
        most = max(0, memory.most - memory.first - books) / model.config.moments
        raise OptionError(f"the model makes at most {most:.1f} seconds", where="seconds")
    decoding, draw = Decoding(model, memory, books), Uniform(options.seed).draw
    rows = [[start] for _ in range(books)]
    for place in range(1, length):
        last = [row[-1] for row in rows]
        with no_grad():
            logits: NDArray[np.float32] = decoding.step(last * (2 if guided else 1)).to("float32").cpu().numpy()
            memory.advance()
        scores = logits[:books]
        if guided:
            scores = logits[books:] + (scores - logits[books:]) * np.float32(options.guidance)
        for book, row in enumerate(rows):
            silent = place <= book or place > book + moments
            row.append(empty if silent else draw_of_best(scores[book], options.top_k, options.temperature, draw()))
        yield None
    found = [row[1 + book : 1 + book + moments] for book, row in enumerate(rows)]
    yield ops.tensor([found], dtype="int64", device=model.device)


def _notes_of(model: Any, melody: NDArray[np.float32]) -> Tensor:
    """The loudest notes (1, M, notes) of samples, one in each moment."""
    notes = getattr(model.config, "notes", 12)
    found = ops.tensor([loudest_notes(melody, model.sample_rate, notes).tolist()], dtype="int64", device=model.device)
    return ops.one_hot(found, notes).to("float32")
