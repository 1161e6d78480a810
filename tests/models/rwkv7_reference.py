"""RWKV 7 for make_golden_decoders.py: its author's package (`pip install rwkv`) computes logits and tokens. The package
has no gradients, so these are torch's of the same formulas, whose logits must be the package's.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch.nn import functional

from tests.models.rwkv7_names import authors

os.environ |= {"RWKV_V7_ON": "1", "RWKV_JIT_ON": "0", "RWKV_CUDA_ON": "0"}
PARTS = {"w": "decay", "a": "a", "v": "v", "g": "gate"}


def shapes(config: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """The parameters by flash-linear-attention's names."""
    size, inner, heads = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    found: dict[str, tuple[int, ...]] = {"model.embeddings.weight": (config["vocab_size"], size)}
    for layer in range(config["num_hidden_layers"]):
        path = f"model.layers.{layer}."
        for norm in (*(() if layer else ("pre_norm",)), "attn_norm", "attn.g_norm", "ffn_norm"):
            found |= {f"{path}{norm}.{kind}": (size,) for kind in ("weight", "bias")}
        found |= {f"{path}attn.x_{part}": (1, 1, size) for part in "rwkvag"}
        found |= {f"{path}attn.{name}": (size,) for name in ("k_k", "k_a")}
        found[f"{path}attn.r_k"] = (size // heads, heads)
        found |= {f"{path}attn.{part}_proj.weight": (size, size) for part in "rkvo"}
        for part, name in PARTS.items():
            if part == "v" and not layer:
                continue
            rank = config[f"{name}_low_rank_dim"]
            found[f"{path}attn.{part}_lora.lora.0.weight"] = (rank, size)
            found[f"{path}attn.{part}_lora.lora.2.weight"] = (size, rank)
            if part != "g":
                found[f"{path}attn.{part}_lora.lora.2.bias"] = (size,)
        found |= {f"{path}ffn.x_k": (size,), f"{path}ffn.key.weight": (inner, size)}
        found[f"{path}ffn.value.weight"] = (size, inner)
    found |= {f"model.norm.{kind}": (size,) for kind in ("weight", "bias")}
    return found | {"lm_head.weight": (config["vocab_size"], size)}


class Rwkv7(torch.nn.Module):
    """The model of a configuration: `package()` takes its parameters to the author's package."""

    _is_stateful = False

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        self.sizes = config
        self.own = {name: torch.nn.Parameter(torch.zeros(shape)) for name, shape in shapes(config).items()}

    def named_parameters(self, *_: Any) -> Any:  # type: ignore[override]
        return iter(self.own.items())

    def state_dict(self, *_: Any) -> Any:  # type: ignore[override]
        return self.own

    def package(self) -> Any:
        from rwkv.model import RWKV_x070

        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "model"
            tensors = {name: value.detach().contiguous().clone() for name, value in authors(self.own).items()}
            torch.save(tensors, f"{file}.pth")
            return RWKV_x070(str(file), "cpu fp32")

    def forward(
        self, ids: torch.Tensor, attention_mask: Any = None, use_cache: bool = False, past_key_values: Any = None
    ) -> Any:
        if torch.is_grad_enabled():
            logits = self.formulas(ids[0].tolist())
            package = self.package()
            expected = package.forward(ids[0].tolist(), None, full_output=True)[0]
            torch.testing.assert_close(logits, expected, rtol=1e-4, atol=1e-4)
            return SimpleNamespace(logits=logits[None], get=lambda name, usual: usual)
        package, state = past_key_values or (self.package(), None)
        found, state = package.forward(ids[0].tolist(), state, **({"full_output": True} if ids.shape[1] > 1 else {}))
        logits = found.reshape(1, -1, found.shape[-1])
        return SimpleNamespace(logits=logits, get=lambda name, usual: (package, state))

    def formulas(self, ids: list[int]) -> torch.Tensor:
        z, count, size = self.own, len(ids), self.sizes["hidden_size"]
        heads = (count, -1, self.sizes["head_dim"])

        def norm(x: torch.Tensor, name: str) -> torch.Tensor:
            return functional.layer_norm(x, (size,), z[f"{name}.weight"], z[f"{name}.bias"], 1e-5)

        def before(x: torch.Tensor) -> torch.Tensor:
            return torch.cat([torch.zeros(1, size), x[:-1]]) - x

        def low(x: torch.Tensor, name: str, inner: Any = lambda x: x) -> torch.Tensor:
            y = inner(x @ z[f"{name}.lora.0.weight"].T) @ z[f"{name}.lora.2.weight"].T
            return y + z.get(f"{name}.lora.2.bias", 0)

        x, first = norm(z["model.embeddings.weight"][ids], "model.layers.0.pre_norm"), None
        for layer in range(self.sizes["num_hidden_layers"]):
            path = f"model.layers.{layer}."
            a = f"{path}attn."
            own = norm(x, f"{path}attn_norm")
            mixed = {part: own + before(own) * z[f"{a}x_{part}"][0, 0] for part in "rwkvag"}
            r, k, v = (mixed[part] @ z[f"{a}{part}_proj.weight"].T for part in "rkv")
            decay = (-0.606531 * low(mixed["w"], f"{a}w_lora", torch.tanh).sigmoid()).exp()
            rate, gate = low(mixed["a"], f"{a}a_lora").sigmoid(), low(mixed["g"], f"{a}g_lora", torch.sigmoid)
            kk = functional.normalize((k * z[f"{a}k_k"]).view(heads), dim=-1)
            k = k * (1 + (rate - 1) * z[f"{a}k_a"])
            v = v if first is None else v + (first - v) * low(mixed["v"], f"{a}v_lora").sigmoid()
            first = v if first is None else first
            r, k, v, decay, rate = (t.view(heads) for t in (r, k, v, decay, rate))
            state, rows = torch.zeros(k.shape[1], k.shape[2], k.shape[2]), []
            for t in range(count):
                taken = state @ -kk[t].unsqueeze(-1)  # (H, V, 1)
                state = state * decay[t].unsqueeze(1) + taken @ (kk[t] * rate[t]).unsqueeze(1)
                state = state + v[t].unsqueeze(-1) @ k[t].unsqueeze(1)
                rows.append((state @ r[t].unsqueeze(-1)).reshape(-1))
            weight, bias = z[f"{a}g_norm.weight"], z[f"{a}g_norm.bias"]
            y = functional.group_norm(torch.stack(rows), k.shape[1], weight, bias, 64e-5)
            y = y + ((r * k * z[f"{a}r_k"]).sum(-1, keepdim=True) * v).view(count, size)
            x = x + (y * gate) @ z[f"{a}o_proj.weight"].T
            own = norm(x, f"{path}ffn_norm")
            inner = torch.relu((own + before(own) * z[f"{path}ffn.x_k"]) @ z[f"{path}ffn.key.weight"].T) ** 2
            x = x + inner @ z[f"{path}ffn.value.weight"].T
        return norm(x, "model.norm") @ z["lm_head.weight"].T
