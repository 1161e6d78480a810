"""Speech with the shape of facebook/mms-tts-*: seconds of sound per second, beside transformers on torch.

The weights are random, without noise, and both have the same ones.
"""

from __future__ import annotations

import importlib.util
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .browser import WEIGHTS
from .report import Figure

NAME, CLOSE = "mms-tts", 1e-3
CHARACTERS = "_abcdefghijklmnopqrstuvwxyz '"
TEXT = (
    "the quick brown fox jumps over the lazy dog while a quiet river runs through the green valley below the old town"
)


def write_folder() -> Path:
    """The model's folder, written once."""
    import pyapp
    from pyapp.formats.safetensors import write_safetensors
    from pyapp.models.vits import TASKS, Config

    path = WEIGHTS / NAME
    if (path / "model.safetensors").exists():
        return path
    path.mkdir(parents=True, exist_ok=True)
    pyapp.manual_seed(0)
    model = TASKS["text-to-speech"](Config.from_dict({}))
    files: dict[str, Any] = {
        "config": {"model_type": "vits", "architectures": ["VitsModel"]},
        "vocab": {character: number for number, character in enumerate(CHARACTERS)},
        "tokenizer_config": {"phonemize": False, "pad_token": "_"},
    }
    for name, value in files.items():
        (path / f"{name}.json").write_text(json.dumps(value))
    write_safetensors(path / "model.safetensors", dict(model.state_dict()))
    return path


def peer_of(loaded: Any, threads: int) -> Any:
    """A function that gives transformers' samples of ids, with the weights of a loaded model."""
    import torch  # type: ignore[import-not-found]
    from torch.nn.utils import parametrize  # type: ignore[import-not-found]
    from transformers import VitsConfig, VitsModel  # type: ignore[import-not-found]

    torch.set_num_threads(threads)
    model = VitsModel(VitsConfig(noise_scale=0.0, noise_scale_duration=0.0)).eval()
    for module in model.modules():  # once, as ours: else each call would compute the norms of the weights
        if parametrize.is_parametrized(module, "weight"):
            parametrize.remove_parametrizations(module, "weight")
    state = {name: torch.from_numpy(value.numpy()) for name, value in loaded.model.state_dict().items()}
    left = model.load_state_dict(state, strict=False)
    assert not left.unexpected_keys

    def run(ids: tuple[int, ...]) -> Any:
        with torch.no_grad():
            return model(torch.tensor([ids])).waveform[0].numpy()

    return run


def native_figures(threads: int, runs: int, with_peers: bool = True) -> Iterator[Figure]:
    """Seconds of sound per second, of one sentence."""
    import pyapp
    from pyapp.audio.speaking import speak
    from pyapp.models.loading.voice import load_voice

    from .workload import environment

    pyapp.set_num_threads(threads)
    loaded = load_voice(write_folder())
    options = {"noise": 0.0, "noise_duration": 0.0}
    samples, rate = speak(loaded, TEXT, options)
    who: dict[str, Any] = {"pyapp": lambda: speak(loaded, TEXT, options)}
    if with_peers and importlib.util.find_spec("transformers") and importlib.util.find_spec("torch"):
        theirs = peer_of(loaded, threads)
        ids = loaded.tokenizer.read(TEXT).ids
        apart = np.abs(theirs(ids) - samples).max()
        if apart > CLOSE:
            raise ValueError(f"the samples differ by {apart:g}: they are not of one model")
        who["transformers"] = lambda: theirs(ids)
    found: dict[str, list[float]] = {name: [] for name in who}
    for turn in range(runs + 1):
        for name, run in who.items():
            start = time.perf_counter()
            run()
            if turn:
                found[name].append(len(samples) / rate / (time.perf_counter() - start))
    title = f"native/voices/{threads} thread" + ("s" if threads > 1 else "")
    yield Figure(title, "s/s", found, environment())
