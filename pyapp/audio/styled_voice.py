"""Speech by a model that reads phonemes, in the voice that vectors describe (Kokoro, pyapp.models.kokoro)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyapp.engine import Tensor, no_grad, ops
from pyapp.engine.buffers import int32_tensor
from pyapp.engine.lazy import np
from pyapp.errors import ModelError
from pyapp.formats import open_checkpoint

from .voice import Voice, samples_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pyapp.audio.speaking import SpeakOptions
    from pyapp.engine.ops.random import Generator

END = 0  # the number that stands before and after a text
BEST = "af_heart"  # of the published voices, by its authors' grades


class StyledVoice(Voice):
    """The model, and the files of its voices by their names. A file has one tensor: (lengths, 1, size), a vector for
    each number of phonemes, or (size,), one for all. Files are read when a voice is used. `space`: the number of a
    blank, at which long texts are divided.
    """

    def __init__(self, model: Any, voices: Mapping[str, Any], space: int | None) -> None:
        self.model, self.config, self._files, self._space = model, model.config, dict(voices), space
        self.names = tuple(sorted(voices, key=lambda name: (name != BEST, name)))
        self._read: dict[str, Tensor] = {}

    def vectors(self, name: str) -> Tensor:
        """The vectors (lengths, size) of a voice. ModelError for a file of another form."""
        if name not in self._read:
            size = 2 * self.config.style_dim
            with open_checkpoint(self._files[name]) as checkpoint:
                tensors = list(checkpoint.tensors.values())
                shape = tensors[0].shape if len(tensors) == 1 else ()
                if not shape or shape[-1] != size or len(shape) > 3 or (len(shape) == 3 and shape[1] != 1):
                    found = f"a tensor {list(shape)}" if len(tensors) == 1 else f"{len(tensors)} tensors"
                    raise ModelError(
                        f"the file has {found}, expected one of [lengths, 1, {size}]", where=f"the voice {name}",
                        hint="Give the files of voices that belong to the model",
                    )  # fmt: skip
                value = checkpoint.read(tensors[0].name, finite=True)
            self._read[name] = value.to("float32").reshape(-1, size).to(self.device)
        return self._read[name]

    def style(self, names: Sequence[str], phonemes: int) -> Tensor:
        """The vector (1, size) of a voice, or the mean of several, for a text of `phonemes` phonemes."""
        tables = [self.vectors(name) for name in names]
        rows = [table.narrow(0, min(phonemes, table.shape[0]) - 1, 1) for table in tables]
        return ops.cat(rows).mean(0, keepdim=True)

    def spoken(
        self, ids: Sequence[int], options: SpeakOptions, generator: Generator, seed: int
    ) -> Iterator[NDArray[np.float32] | None]:
        """The samples of a sentence in parts; None between steps."""
        options.refuse_variations(but=("rate",))
        names = [self.names[options.speaker]] if options.voice is None else options.voice_names()
        for part in self.divided(ids):
            with no_grad():
                style = self.style(names, len(part))
                given = int32_tensor([END, *part, END], self.device).unsqueeze(0)
            steps = self.model.steps(given, style, options.rate, lambda shape: ops.randn(*shape, generator=generator))
            yield from samples_of(steps)

    def divided(self, ids: Sequence[int]) -> Iterator[Sequence[int]]:
        """Parts that the model reads at once, each to a blank where it can be."""
        most = self.config.most_phonemes
        while len(ids) > most:
            blanks = [place for place in range(most // 2, most) if ids[place] == self._space]
            end = blanks[-1] + 1 if blanks else most
            yield ids[:end]
            ids = ids[end:]
        yield ids
