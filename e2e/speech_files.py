"""Speech models and recordings for tests, made here: a Whisper of any shape that says what its script says."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyapp.audio import write_wav
from pyapp.formats.safetensors import write_safetensors

LANGUAGES = ("en", "de")
CONTROL = ("translate", "transcribe", "startoflm", "startofprev", "nospeech", "notimestamps")
TIMES = [f"<|{step * 0.02:.2f}|>" for step in range(1501)]
SCRIPT = ["<|0.00|>", " the", " little", " fox", "<|4.00|>", "<|5.00|>", " went", " home", ".", "<|9.00|>"]
SAID = ["the little fox", "went home."]  # its text
RATE = 16000
FRAME = 0.02  # seconds of one position of the encoder
HARMONICS = 12  # by which positions in time are told apart


def byte_letters() -> list[str]:
    """GPT-2's letters for the bytes 0 to 255: printable ones stand for themselves."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(byte) if byte in printable else chr(next(others)) for byte in range(256)]


def tokenizer_of(script: Sequence[str], vocabulary: int) -> tuple[dict[str, Any], dict[str, int]]:
    """A byte-level tokenizer.json with the words of `script` and fillers, `vocabulary` tokens in all; ids by text."""
    letters = byte_letters()
    words = [piece for piece in dict.fromkeys(script) if not piece.startswith("<|")]
    spelled = {word: "".join(letters[byte] for byte in word.encode()) for word in words}
    specials = ["<|endoftext|>", "<|startoftranscript|>", *(f"<|{code}|>" for code in LANGUAGES)]
    specials += [*(f"<|{name}|>" for name in CONTROL), *TIMES]
    texts = [*letters, *(spelled[word] for word in words if spelled[word] not in letters)]
    texts += [f"~{number}" for number in range(vocabulary - len(texts) - len(specials))]
    ids = {text: number for number, text in enumerate([*texts, *specials])}
    document = {
        "version": "1.0",
        "added_tokens": [
            {"id": ids[text], "content": text, "special": True, "single_word": False, "lstrip": False, "rstrip": False,
             "normalized": False}
            for text in specials
        ],
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "vocab": {text: ids[text] for text in texts}, "merges": []},
    }  # fmt: skip
    return document, ids | {word: ids[spelled[word]] for word in words}


def write_speech_model(
    folder: Path, *, script: Sequence[str] = SCRIPT, state: int = 64, layers: int = 2, heads: int = 2,
    vocabulary: int = 2048,
) -> list[Path]:  # fmt: skip
    """A model folder in Hugging Face's layout, float16. Every layer computes on random weights, but adds so little that
    the decoder's positions decide: each stands for the token that comes next in `script`, whatever is heard, and looks
    at the audio where that is said.
    """
    folder.mkdir(parents=True, exist_ok=True)
    document, ids = tokenizer_of(script, vocabulary)
    config = {
        "model_type": "whisper", "architectures": ["WhisperForConditionalGeneration"], "num_mel_bins": 80,
        "d_model": state, "encoder_layers": layers, "decoder_layers": layers, "encoder_attention_heads": heads,
        "decoder_attention_heads": heads, "encoder_ffn_dim": 4 * state, "decoder_ffn_dim": 4 * state,
        "max_source_positions": 1500, "max_target_positions": 448, "vocab_size": vocabulary,
        "eos_token_id": ids["<|endoftext|>"], "pad_token_id": ids["<|endoftext|>"],
        "decoder_start_token_id": ids["<|startoftranscript|>"],
    }  # fmt: skip
    generation = {"lang_to_id": {f"<|{code}|>": ids[f"<|{code}|>"] for code in LANGUAGES}, "is_multilingual": True}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "generation_config.json").write_text(json.dumps(generation))
    (folder / "tokenizer.json").write_text(json.dumps(document))
    write_safetensors(folder / "model.safetensors", weights(config, said(script, ids), said_when(script)))
    return sorted(folder.iterdir())


def said(script: Sequence[str], ids: dict[str, int]) -> list[int]:
    """What comes after each position: the language, the task, the script, and the end from there on."""
    texts = ["<|en|>", "<|transcribe|>", *script]
    return [ids[text] for text in texts] + [ids["<|endoftext|>"]] * (448 - len(texts))


def said_when(script: Sequence[str]) -> list[float]:
    """The middle of each text token in seconds, evenly between the timestamps around it."""
    times, waiting, start = [], 0, 0.0
    for piece in script:
        if not piece.startswith("<|"):
            waiting += 1
            continue
        end = float(piece[2:-2])
        times += [start + (end - start) * (number + 0.5) / waiting for number in range(waiting)]
        waiting, start = 0, end
    return times


def place(seconds: Sequence[float] | np.ndarray) -> np.ndarray:
    """What stands for a time in the audio: (times, 2 HARMONICS); the nearer, the larger the product of two."""
    angles = np.pi * np.outer(np.asarray(seconds) / 30, np.arange(1, HARMONICS + 1))
    return np.concatenate([np.cos(angles), np.sin(angles)], axis=1)


def looking(config: dict[str, Any], positions: np.ndarray, times: list[float]) -> dict[str, np.ndarray]:
    """Queries and keys of every head, so that position 3 + i of the decoder, which says the text token i when words are
    given their times, looks at times[i]."""
    state, heads = config["d_model"], config["decoder_attention_heads"]
    seen = positions[3 : 3 + len(times)]
    seen = (seen - seen.mean(axis=1, keepdims=True)) / seen.std(axis=1, keepdims=True)
    wanted = np.linalg.lstsq(seen, place(times) * 6, rcond=None)[0].T  # (2 HARMONICS, state)
    query, key = np.zeros((state, state)), np.zeros((state, state))
    for head in range(0, state, state // heads):
        query[head : head + 2 * HARMONICS] = wanted
        key[head : head + 2 * HARMONICS, : 2 * HARMONICS] = np.eye(2 * HARMONICS)
    return {"q_proj.weight": query, "k_proj.weight": key}


def weights(config: dict[str, Any], said_at: list[int], times: list[float]) -> dict[str, np.ndarray]:
    random = np.random.default_rng(3)
    state, layers = config["d_model"], config["encoder_layers"]
    embedding = random.standard_normal((config["vocab_size"], state))
    embedding *= 2.5 / np.linalg.norm(embedding, axis=1, keepdims=True)
    positions = embedding[said_at] * 12
    audio_positions = np.zeros((1500, state))
    audio_positions[:, : 2 * HARMONICS] = place(np.arange(1500) * FRAME) * 30
    found: dict[str, np.ndarray] = {
        "model.encoder.conv1.weight": random.standard_normal((state, 80, 3)) * 0.1,
        "model.encoder.conv1.bias": np.zeros(state),
        "model.encoder.conv2.weight": random.standard_normal((state, state, 3)) * 0.1,
        "model.encoder.conv2.bias": np.zeros(state),
        "model.encoder.embed_positions.weight": audio_positions,
        "model.decoder.embed_tokens.weight": embedding,
        "model.decoder.embed_positions.weight": positions,
    }
    eyes = looking(config, positions, times)
    for part in ("encoder", "decoder"):
        found |= layer_norm(f"model.{part}.layer_norm", state)
        for layer in range(layers):
            name = f"model.{part}.layers.{layer}"
            found |= block(name, state, part == "decoder", random)
            if part == "decoder":
                found |= {f"{name}.encoder_attn.{which}": matrix for which, matrix in eyes.items()}
    return {name: value.astype(np.float16) for name, value in found.items()}


def layer_norm(name: str, state: int) -> dict[str, np.ndarray]:
    return {f"{name}.weight": np.ones(state), f"{name}.bias": np.zeros(state)}


def block(name: str, state: int, decoder: bool, random: np.random.Generator) -> dict[str, np.ndarray]:
    found = layer_norm(f"{name}.self_attn_layer_norm", state) | layer_norm(f"{name}.final_layer_norm", state)
    shapes = {"fc1": (4 * state, state), "fc2": (state, 4 * state)}
    attentions = ["self_attn"]
    if decoder:
        found |= layer_norm(f"{name}.encoder_attn_layer_norm", state)
        attentions.append("encoder_attn")
    for attention in attentions:
        shapes |= {f"{attention}.{part}_proj": (state, state) for part in ("q", "k", "v", "out")}
    for part, shape in shapes.items():
        found[f"{name}.{part}.weight"] = random.standard_normal(shape) * 0.3 / np.sqrt(shape[1])
        if not part.endswith("k_proj"):
            found[f"{name}.{part}.bias"] = np.zeros(shape[0])
    return found


def speechlike(seconds: float, rate: int = RATE) -> np.ndarray:
    """Loud and soft syllables of a buzz, 4 in a second: nobody speaks, but it is no silence."""
    time = np.arange(round(seconds * rate)) / rate
    buzz = sum(np.sin(2 * np.pi * 120 * harmonic * time) / harmonic for harmonic in range(1, 20))
    return (0.12 * buzz * np.clip(np.sin(2 * np.pi * 4 * time), 0, 1)).astype(np.float32)


def write_recording(path: Path, samples: np.ndarray, rate: int = RATE) -> Path:
    write_wav(path, samples.astype(np.float32), rate)
    return path


def samples(dist: Path) -> list[dict[str, Any]]:
    """The sample clips of the embedded speech model, with their texts."""
    models = json.loads((dist / "registry.json").read_text())["models"]
    found = [sample for entry in models if entry["task"] == "transcribe" for sample in entry.get("samples", [])]
    if not found:
        pytest.skip("this site has no speech model")
    return found


def spoken(text: str) -> list[str]:
    return re.findall(r"[a-z0-9']+", text.lower())
