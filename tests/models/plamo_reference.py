"""PLaMo 2 token by token in NumPy, from its report (Preferred Networks 2025, arXiv 2509.04897) and the graph of
llama.cpp, which does not end with models as small as those of the tests (llama-cpp-python 0.3.36).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file

SHIFTS = {"pre_mixer": 1.0, "post_mixer": 1 / 5, "pre_mlp": 1.0, "post_mlp": 1 / 5**1.5}


class Plamo2:
    """The model of a folder, which reads its whole text again for every token."""

    def __init__(self, folder: Path) -> None:
        self.config = json.loads((folder / "config.json").read_text())
        self.tensors = {
            name: value.astype(np.float64) for name, value in load_file(folder / "model.safetensors").items()
        }  # fmt: skip
        self.text: list[int] = []

    def feed(self, tokens: list[int]) -> np.ndarray:
        """The logits of the next tokens (T, V)."""
        self.text += tokens
        table = self.tensors["model.embed_tokens.weight"]
        x = table[self.text]
        for layer in range(self.config["num_hidden_layers"]):
            own = f"model.layers.layers.{layer}."
            step = self.config["mamba_step"]
            mixed = self.attention if layer % step == step // 2 else self.mixer
            x = x + self.shifted(mixed(self.shifted(x, own, "pre_mixer"), own), own, "post_mixer")
            gate, up = np.split(self.linear(self.shifted(x, own, "pre_mlp"), f"{own}mlp.gate_up_proj"), 2, -1)
            x = x + self.shifted(self.linear(silu(gate) * up, f"{own}mlp.down_proj"), own, "post_mlp")
        logits: np.ndarray = self.norm(x) * (self.tensors["model.norm.weight"] + 1) @ table.T
        return logits[-len(tokens) :]

    def norm(self, x: np.ndarray) -> np.ndarray:
        found: np.ndarray = x / np.sqrt((x * x).mean(-1, keepdims=True) + self.config["rms_norm_eps"])
        return found

    def shifted(self, x: np.ndarray, own: str, name: str) -> np.ndarray:
        return self.norm(x) * (self.tensors[f"{own}{name}_norm.weight"] + SHIFTS[name])

    def linear(self, x: np.ndarray, name: str) -> np.ndarray:
        found: np.ndarray = x @ self.tensors[f"{name}.weight"].T
        return found

    def attention(self, x: np.ndarray, own: str) -> np.ndarray:
        size, heads, kv = (
            self.config[name] for name in ("hidden_size_per_head", "num_attention_heads", "num_key_value_heads")
        )
        count = len(x)
        parts = np.split(self.linear(x, f"{own}mixer.qkv_proj"), [heads * size, (heads + kv) * size], -1)
        q, k, v = (part.reshape(count, -1, size) for part in parts)
        q, k = (self.norm(part) * self.tensors[f"{own}mixer.{name}_weight"] for part, name in ((q, "q"), (k, "k")))
        angles = np.arange(count)[:, None, None] * 10000.0 ** (-np.arange(0, size, 2) / size)
        turned: list[Any] = []
        for part in (q, k):
            first, second = np.split(part, 2, -1)
            both = first * np.cos(angles) - second * np.sin(angles), second * np.cos(angles) + first * np.sin(angles)
            turned.append(np.concatenate(both, -1))
        q, k, v = turned[0], turned[1].repeat(heads // kv, 1), v.repeat(heads // kv, 1)
        scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(size)
        weights = np.exp(np.where(np.tri(count) > 0, scores, -np.inf))
        y = np.einsum("hqk,khd->qhd", weights / weights.sum(-1, keepdims=True), v)
        return self.linear(y.reshape(count, -1), f"{own}mixer.o_proj")

    def mixer(self, x: np.ndarray, own: str) -> np.ndarray:
        config, t = self.config, {
            name.removeprefix(f"{own}mixer."): value for name, value in self.tensors.items() if name.startswith(own)
        }  # fmt: skip
        heads, size, states = config["mamba_num_heads"], config["hidden_size_per_head"], config["mamba_d_state"]
        count, taps = len(x), config["mamba_d_conv"]
        both = self.linear(x, f"{own}mixer.in_proj").reshape(count, heads, 2, size)
        gate, u = (both[:, :, part].reshape(count, -1) for part in (0, 1))
        seen = np.concatenate([np.zeros((taps - 1, u.shape[1])), u])
        u = silu(np.stack([(seen[i : i + taps] * t["conv1d.weight"][:, 0].T).sum(0) for i in range(count)]))
        inward, outward, steps = (
            self.norm(part) * t[f"{name}_norm_weight"] for part, name in zip(
                np.split(self.linear(u, f"{own}mixer.bcdt_proj"), [states, 2 * states], -1), ("B", "C", "dt"),
                strict=True,
            )
        )  # fmt: skip
        steps = np.log1p(np.exp(self.linear(steps, f"{own}mixer.dt_proj") + t["dt_bias"]))
        state, found = np.zeros((heads, size, states)), []
        for i in range(count):
            own_x = u[i].reshape(heads, size)
            decay = np.exp(-steps[i] * np.exp(t["A_log"]))
            state = state * decay[:, None, None] + (steps[i][:, None] * own_x)[..., None] * inward[i]
            found.append((state @ outward[i] + t["D"][:, None] * own_x).reshape(-1))
        return self.linear(np.stack(found) * silu(gate), f"{own}mixer.out_proj")


def silu(x: np.ndarray) -> np.ndarray:
    found: np.ndarray = x / (1 + np.exp(-x))
    return found
