"""Based for make_golden_decoders.py: the paper's formulas in torch, with the features and their sums token by token.
The authors' package computes on NVIDIA's cards only.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from torch.nn import functional
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb


class Based(torch.nn.Module):
    """The model of a configuration; its parameters have the names of pyapp's."""

    _is_stateful = False

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        self.sizes = config
        size, inner = config["hidden_size"], config["intermediate_size"]
        found: dict[str, tuple[int, ...]] = {"transformer.wte.weight": (config["vocab_size"], size)}
        for layer in range(config["num_hidden_layers"]):
            at = f"transformer.layers.{layer}."
            for norm in ("norm1", "norm2"):
                found[f"{at}{norm}.weight"] = (size,)
            mixer = f"{at}mixer."
            if layer in config["alt_mixer_2_layers"]:
                found |= {f"{mixer}{part}.weight": (size, size) for part in ("q_proj", "k_proj", "v_proj", "out_proj")}
            elif layer in config["alt_mixer_layers"]:
                width = config["feature_heads"] * config["feature_dim"]
                found |= {f"{mixer}proj_{part}.weight": (width, size) for part in "qk"}
                found |= {f"{mixer}{part}.weight": (size, size) for part in ("proj_v", "out_proj")}
            else:
                wide = config["expand"] * size // 2
                found |= {f"{mixer}in_proj.weight": (2 * wide, size), f"{mixer}in_proj.bias": (2 * wide,)}
                found |= {f"{mixer}out_proj.weight": (size, wide), f"{mixer}out_proj.bias": (size,)}
                found[f"{mixer}conv.weight"] = (wide, 1, config["conv_width"])
            found |= {f"{at}mlp.fc1.weight": (2 * inner, size), f"{at}mlp.fc2.weight": (size, inner)}
        found["transformer.ln_f.weight"] = (size,)
        self.own = {name: torch.nn.Parameter(torch.zeros(shape)) for name, shape in found.items()}

    def named_parameters(self, *_: Any) -> Any:  # type: ignore[override]
        return iter(self.own.items())

    def state_dict(self, *_: Any) -> Any:  # type: ignore[override]
        return self.own | {"lm_head.weight": self.own["transformer.wte.weight"]}

    def convolution(self, x: torch.Tensor, at: str) -> torch.Tensor:
        first, gate = functional.linear(x, self.own[f"{at}in_proj.weight"], self.own[f"{at}in_proj.bias"]).chunk(2, -1)
        weight = self.own[f"{at}conv.weight"]
        padded = functional.pad(first.T, (weight.shape[-1] - 1, 0))
        y = functional.silu(functional.conv1d(padded[None], weight, groups=weight.shape[0])[0].T) * gate
        return functional.linear(y, self.own[f"{at}out_proj.weight"], self.own[f"{at}out_proj.bias"])

    def polynomial(self, x: torch.Tensor, at: str) -> torch.Tensor:
        count, heads = len(x), self.sizes["feature_heads"]
        q, k, v = (
            functional.linear(x, self.own[f"{at}proj_{part}.weight"]).reshape(count, heads, -1) for part in "qkv"
        )
        size = q.shape[-1]

        def features(y: torch.Tensor) -> torch.Tensor:
            squares = torch.einsum("thi,thj->thij", y, y).flatten(2) / 2**0.5
            return torch.cat([torch.ones(count, heads, 1), y / size**0.25, squares / size**0.5], -1)

        sums = torch.einsum("thf,thv->thfv", features(k), v).cumsum(0)
        weights = features(k).cumsum(0)
        y = torch.einsum("thf,thfv->thv", features(q), sums) / (features(q) * weights).sum(-1, keepdim=True)
        return functional.linear(y.flatten(1), self.own[f"{at}out_proj.weight"])

    def near(self, x: torch.Tensor, at: str) -> torch.Tensor:
        count, heads = len(x), self.sizes["num_attention_heads"]
        q, k, v = (
            functional.linear(x, self.own[f"{at}{part}_proj.weight"]).reshape(1, count, heads, -1).transpose(1, 2)
            for part in "qkv"
        )
        size = q.shape[-1]
        angles = torch.arange(count)[:, None] * 10000.0 ** (-torch.arange(0, size, 2) / size)
        angles = torch.cat([angles, angles], -1)[None]
        q, k = apply_rotary_pos_emb(q, k, angles.cos(), angles.sin())
        places = torch.arange(count)
        apart = places[:, None] - places
        mask = (apart >= 0) & (apart <= self.sizes["window_size"] // 2)
        y = functional.scaled_dot_product_attention(q, k, v, mask)[0].transpose(0, 1)
        return functional.linear(y.flatten(1), self.own[f"{at}out_proj.weight"])

    def forward(
        self, ids: torch.Tensor, attention_mask: Any = None, use_cache: bool = False, past_key_values: Any = None
    ) -> Any:
        row = [*(past_key_values or []), *ids[0].tolist()]

        def norm(x: torch.Tensor, name: str) -> torch.Tensor:
            return functional.rms_norm(x, x.shape[-1:], self.own[f"{name}.weight"], 1e-5)

        x = self.own["transformer.wte.weight"][row]
        for layer in range(self.sizes["num_hidden_layers"]):
            at = f"transformer.layers.{layer}."
            mixer = self.convolution
            mixer = self.polynomial if layer in self.sizes["alt_mixer_layers"] else mixer
            mixer = self.near if layer in self.sizes["alt_mixer_2_layers"] else mixer
            x = x + mixer(norm(x, f"{at}norm1"), f"{at}mixer.")
            values, gate = functional.linear(norm(x, f"{at}norm2"), self.own[f"{at}mlp.fc1.weight"]).chunk(2, -1)
            x = x + functional.linear(values * functional.silu(gate), self.own[f"{at}mlp.fc2.weight"])
        logits = functional.linear(norm(x, "transformer.ln_f"), self.own["transformer.wte.weight"])
        return SimpleNamespace(logits=logits[None], get=lambda name, usual: row)


MODELS = {"based": Based}
