"""Makes golden.npz: log-mel spectrograms of openai-whisper, every eighth frame. Run with the extra `oracle` and
`pip install openai-whisper`:

python -m tests.audio.make_golden

Beside whisper the spectrogram is computed from torch.stft alone; the two must be the same.
"""

from pathlib import Path

import numpy as np
import torch
from whisper.audio import log_mel_spectrogram, mel_filters

from tests.audio.sounds import MEL_SOUNDS
from tests.audio.test_mel import ROWS, STEP, jfk_samples
from tests.goldens import write_npz


def from_stft(sound: np.ndarray, filters: torch.Tensor) -> torch.Tensor:
    window = torch.hann_window(400)
    transformed = torch.stft(torch.from_numpy(sound), 400, 160, window=window, return_complex=True)
    logs = torch.log10(torch.clamp(filters @ (transformed.abs() ** 2)[:, :-1], min=1e-10))
    return (torch.maximum(logs, logs.max() - 8) + 4) / 4


FILE = Path(__file__).with_name("golden.npz")
with np.load(FILE) as read:
    OLD = dict(read)
golden: dict[str, np.ndarray] = {}
for n_mels in (80, 128):
    filters = mel_filters("cpu", n_mels)
    golden[f"filters/{n_mels}"] = filters.numpy()
    for name, make in MEL_SOUNDS.items():
        found = log_mel_spectrogram(make(), n_mels)
        assert torch.allclose(found, from_stft(make(), filters), atol=1e-5), name
        golden[f"{name}/{n_mels}"] = found.numpy()[:, ::STEP].copy()
        golden[f"{name}/{n_mels}/frames"] = np.int64(found.shape[1])
    jfk = jfk_samples()
    if jfk is None:  # the recording is not part of the project: what the file has of it stays
        golden |= {name: array for name, array in OLD.items() if name.startswith(f"jfk/{n_mels}/")}
    else:
        found = log_mel_spectrogram(jfk, n_mels).numpy()
        golden[f"jfk/{n_mels}/rows"] = found[list(ROWS)]
        golden[f"jfk/{n_mels}/means"] = found.mean(axis=1)
        padded = log_mel_spectrogram(jfk, n_mels, padding=480_000).numpy()
        golden[f"jfk/{n_mels}/padded"] = padded[list(ROWS), ::STEP].copy()

write_npz(FILE, golden, absolute=5e-5)
