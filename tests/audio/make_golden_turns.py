"""Writes golden_turns.npz: what silero-vad makes of probabilities, torchaudio of sounds, SciPy of vectors.

In an environment with silero-vad, torchaudio and scipy: python -m tests.audio.make_golden_turns
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.audio.speaker_sounds import CASES, SOUNDS, case_of, vectors_of
from tests.goldens import write_npz

THRESHOLDS = (0.2, 0.5, 0.8)
COUNTS = (1, 2, 3, 7)


def main() -> None:
    import torch
    from scipy.cluster.hierarchy import fcluster, linkage
    from silero_vad.utils_vad import get_speech_timestamps_from_probs
    from torchaudio.compliance import kaldi

    found: dict[str, np.ndarray] = {}
    for seed, settings in enumerate(CASES):
        probabilities, samples = case_of(seed)
        given = {"threshold": settings.get("threshold", 0.5), "neg_threshold": settings.get("neg_threshold")}
        for name in ("min_speech", "min_silence", "speech_pad"):
            if name in settings:
                longer = f"{name}_duration" if name != "speech_pad" else name
                given[f"{longer}_ms"] = settings[name] * 1000
        if "max_speech" in settings:
            given["max_speech_duration_s"] = settings["max_speech"]
        spans = get_speech_timestamps_from_probs(probabilities.tolist(), audio_length_samples=samples, **given)
        found[f"spans {seed}"] = np.array([[span["start"], span["end"]] for span in spans], np.int64).reshape(-1, 2)
    for name, make in SOUNDS.items():
        for window in ("povey", "hamming"):
            sound = torch.from_numpy(make())[None]
            made = kaldi.fbank(sound, num_mel_bins=80, sample_frequency=16000, window_type=window, dither=0.0)
            found[f"bank {name} {window}"] = made.numpy()
    for seed in range(3):
        merges = linkage(vectors_of(seed).astype(np.float64), "average", metric="cosine")
        found[f"heights {seed}"] = merges[:, 2]
        for threshold in THRESHOLDS:
            found[f"cut {seed} {threshold}"] = fcluster(merges, threshold, "distance")
        for count in COUNTS:
            found[f"count {seed} {count}"] = fcluster(merges, count, "maxclust")
    write_npz(Path(__file__).with_name("golden_turns.npz"), found)


if __name__ == "__main__":
    main()
