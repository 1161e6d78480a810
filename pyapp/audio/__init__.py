"""Sound: WAVE files, resampling, log-mel spectrograms, speech activity, and transcripts with their writers.

Samples are float32 NumPy arrays, full scale is -1 to 1. Each name is imported on first use, so that writing a
transcript does not import the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyapp.engine.lazy import late_names, np

from .constants import SAMPLE_RATE, SAMPLES_AT_ONCE

if TYPE_CHECKING:
    from pyapp.audio.activity import ActivityOptions, Span, cut_windows, find_speech
    from pyapp.audio.mel import log_mel_spectrogram, mel_filters, pad_or_trim
    from pyapp.audio.reader import AudioReader, open_audio
    from pyapp.audio.resampling import Resampler, mix_channels, remove_dc, resample
    from pyapp.audio.transcript import Transcript, TranscriptSegment, Word
    from pyapp.audio.transcript_writers import write_transcript
    from pyapp.audio.wav import WavFile, open_wav, read_wav, write_wav

__all__ = [
    "SAMPLE_RATE",
    "ActivityOptions",
    "AudioReader",
    "Resampler",
    "Span",
    "Transcript",
    "TranscriptSegment",
    "WavFile",
    "Word",
    "cut_windows",
    "find_speech",
    "load_speech",
    "log_mel_spectrogram",
    "mel_filters",
    "mix_channels",
    "open_audio",
    "open_wav",
    "pad_or_trim",
    "read_wav",
    "remove_dc",
    "resample",
    "write_transcript",
    "write_wav",
]


def load_speech(source: Any, *, rate: int = SAMPLE_RATE) -> Any:
    """A WAVE file (path, bytes or ByteSource) as mono float32 (samples,) at `rate`, without its DC offset.

    The file is read and resampled a block at a time: the peak memory is twice the result and a few megabytes.
    Raises FileFormatError for a file that is not a WAVE file, is damaged or has no samples, OSError as open() does.
    """
    from pyapp.audio.resampling import Resampler, mix_channels, remove_dc
    from pyapp.audio.wav import open_wav

    with open_wav(source) as wav:
        resampler = Resampler(wav.rate, rate)
        block = max(1, SAMPLES_AT_ONCE // wav.channels)
        parts = [resampler.process(mix_channels(wav.read(start, block))) for start in range(0, wav.frames, block)]
    return remove_dc(np.concatenate([*parts, resampler.finish()]))


__getattr__ = late_names(
    __name__,
    {
        "activity": "ActivityOptions Span cut_windows find_speech",
        "mel": "log_mel_spectrogram mel_filters pad_or_trim",
        "reader": "AudioReader open_audio",
        "resampling": "Resampler mix_channels remove_dc resample",
        "transcript": "Transcript TranscriptSegment Word",
        "transcript_writers": "write_transcript",
        "wav": "WavFile open_wav read_wav write_wav",
    },
)
