"""Speech by a model that writes all frames of a spectrogram at once (FastSpeech 2,
pyapp.models.fastspeech2_conformer), of which a vocoder makes sound.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyapp.engine import no_grad
from pyapp.engine.buffers import int32_tensor
from pyapp.engine.lazy import np
from pyapp.errors import ModelError, OptionError

from .voice import Voice, samples_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pyapp.audio.speaking import SpeakOptions
    from pyapp.engine.ops.random import Generator

USUAL_VOCODER = "espnet/fastspeech2_conformer_hifigan"
MOST_FRAMES = 1 << 15  # of a sentence


class ParallelVoice(Voice):
    """The model, and what makes sound of its spectrograms. ModelError for a vocoder of other spectrograms."""

    def __init__(self, model: Any, vocoder: Any) -> None:
        reads, writes = vocoder.config.model_in_dim, model.config.num_mel_bins
        if reads != writes:
            raise ModelError(
                f"the vocoder reads {reads} bins, the model writes {writes}", where="codec",
                hint=f"Give the vocoder that belongs to it: {USUAL_VOCODER}",
            )  # fmt: skip
        self.model, self.config, self.vocoder = model, model.config, vocoder

    @property
    def sample_rate(self) -> int:
        """Samples a second."""
        found: int = self.config.sampling_rate
        return found

    def spoken(
        self, ids: Sequence[int], options: SpeakOptions, generator: Generator, seed: int
    ) -> Iterator[NDArray[np.float32] | None]:
        """The samples of a sentence in parts; None between steps. OptionError for one of too many frames."""
        options.refuse_variations(but=("rate",))
        model = self.model
        with no_grad():
            known, frames = model.read(int32_tensor(list(ids), self.device).unsqueeze(0), options.speaker)
            counts = (frames * (self.config.speaking_speed / options.rate)).round().to("int64")
            total = int(counts.sum().item())
        if total > MOST_FRAMES:
            raise OptionError(
                f"a sentence of {total:,} frames is too long", where="text", hint="Divide it, or raise rate"
            )
        yield None
        if not total:
            return
        with no_grad():
            spectrogram = self.vocoder.prepared(model.spectrogram(known, counts).transpose(1, 2))
        yield from samples_of(self.vocoder.in_windows(spectrogram))
