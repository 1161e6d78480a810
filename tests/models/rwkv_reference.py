"""RWKV 5, 6 and 7 for make_golden_decoders.py: the author's package (`pip install rwkv`) computes logits and tokens. It
has no gradients, so these are torch's of the papers' formulas, whose logits must be the package's.
"""

from __future__ import annotations

import importlib
import os
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch.nn import functional

from tests.models.rwkv_names import authors

os.environ |= {"RWKV_JIT_ON": "0", "RWKV_CUDA_ON": "0"}
PARTS = {"w": "decay", "a": "a", "v": "v", "g": "gate"}


def change(x: torch.Tensor) -> torch.Tensor:
    """x (T, H) → what each token's predecessor has more."""
    return torch.cat([torch.zeros(1, x.shape[1]), x[:-1]]) - x


class Rwkv(torch.nn.Module):
    """The model of a configuration: `package()` takes its parameters to the author's package."""

    _is_stateful = newest = False

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        self.sizes = config
        self.own = {name: torch.nn.Parameter(torch.zeros(shape)) for name, shape in self.shapes(config).items()}

    def named_parameters(self, *_: Any) -> Any:  # type: ignore[override]
        return iter(self.own.items())

    def state_dict(self, *_: Any) -> Any:  # type: ignore[override]
        return self.own

    def package(self) -> Any:
        os.environ["RWKV_V7_ON"] = str(int(self.newest))  # by which the package chooses its class when it is imported
        reader = importlib.reload(importlib.import_module("rwkv.model")).RWKV
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "model"
            tensors = {name: value.detach().contiguous().clone() for name, value in authors(self.own).items()}
            torch.save(tensors, f"{file}.pth")
            return reader(str(file), "cpu fp32")

    def norm(self, x: torch.Tensor, name: str, epsilon: float = 1e-5) -> torch.Tensor:
        return functional.layer_norm(x, x.shape[-1:], self.own[f"{name}.weight"], self.own[f"{name}.bias"], epsilon)

    def shapes(self, config: dict[str, Any]) -> dict[str, tuple[int, ...]]:
        """The parameters by the names of folders."""
        raise NotImplementedError

    def formulas(self, ids: list[int]) -> torch.Tensor:
        """The logits (T, V) of a text."""
        raise NotImplementedError

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


class Rwkv7(Rwkv):
    """Version 7, by flash-linear-attention's names."""

    def shapes(self, config: dict[str, Any]) -> dict[str, tuple[int, ...]]:
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

    newest = True

    def formulas(self, ids: list[int]) -> torch.Tensor:
        z, count, size, norm = self.own, len(ids), self.sizes["hidden_size"], self.norm
        heads = (count, -1, self.sizes["head_dim"])

        def low(x: torch.Tensor, name: str, inner: Any = lambda x: x) -> torch.Tensor:
            y = inner(x @ z[f"{name}.lora.0.weight"].T) @ z[f"{name}.lora.2.weight"].T
            return y + z.get(f"{name}.lora.2.bias", 0)

        x, first = norm(z["model.embeddings.weight"][ids], "model.layers.0.pre_norm"), None
        for layer in range(self.sizes["num_hidden_layers"]):
            path = f"model.layers.{layer}."
            a = f"{path}attn."
            own = norm(x, f"{path}attn_norm")
            mixed = {part: own + change(own) * z[f"{a}x_{part}"][0, 0] for part in "rwkvag"}
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
            inner = torch.relu((own + change(own) * z[f"{path}ffn.x_k"]) @ z[f"{path}ffn.key.weight"].T) ** 2
            x = x + inner @ z[f"{path}ffn.value.weight"].T
        return norm(x, "model.norm") @ z["lm_head.weight"].T


class Rwkv6(Rwkv):
    """Versions 5 and 6, by the names of Hugging Face's folders."""

    def shapes(self, config: dict[str, Any]) -> dict[str, tuple[int, ...]]:
        size, inner, features = config["hidden_size"], config["intermediate_size"], config["head_size"]
        newer, heads = config["model_type"] == "rwkv6", (size // features, features)
        found: dict[str, tuple[int, ...]] = {"rwkv.embeddings.weight": (config["vocab_size"], size)}
        for layer in range(config["num_hidden_layers"]):
            path = f"rwkv.blocks.{layer}."
            for norm in (*(() if layer else ("pre_ln",)), "ln1", "ln2", "attention.ln_x"):
                found |= {f"{path}{norm}.{kind}": (size,) for kind in ("weight", "bias")}
            a, f = f"{path}attention.", f"{path}feed_forward."
            shares = [f"{a}time_maa_{part}" for part in "wkvrgx"] + [f"{f}time_maa_{part}" for part in "kr"]
            if not newer:
                shares = [f"{a}time_mix_{part}" for part in ("key", "value", "receptance", "gate")]
                shares += [f"{f}time_mix_{part}" for part in ("key", "receptance")]
            found |= dict.fromkeys(shares, (1, 1, size))
            found |= {f"{a}time_decay": (1, 1, size) if newer else heads, f"{a}time_faaaa": heads}
            if newer:
                mixed, decayed = config["time_mix_extra_dim"], config["time_decay_extra_dim"]
                found |= {f"{a}time_maa_w1": (size, 5 * mixed), f"{a}time_maa_w2": (5, mixed, size)}
                found |= {f"{a}time_decay_w1": (size, decayed), f"{a}time_decay_w2": (decayed, size)}
            parts = ("receptance", "key", "value", "output", "gate")
            found |= {f"{a}{part}.weight": (size, size) for part in parts}
            found |= {f"{f}key.weight": (inner, size), f"{f}value.weight": (size, inner)}
            found[f"{f}receptance.weight"] = (size, size)
        found |= {f"rwkv.ln_out.{kind}": (size,) for kind in ("weight", "bias")}
        return found | {"head.weight": (config["vocab_size"], size)}

    def formulas(self, ids: list[int]) -> torch.Tensor:
        z, count, norm, newer = self.own, len(ids), self.norm, self.sizes["model_type"] == "rwkv6"
        x = norm(z["rwkv.embeddings.weight"][ids], "rwkv.blocks.0.pre_ln")
        for layer in range(self.sizes["num_hidden_layers"]):
            a, f = f"rwkv.blocks.{layer}.attention.", f"rwkv.blocks.{layer}.feed_forward."
            own = norm(x, f"rwkv.blocks.{layer}.ln1")
            if newer:
                inner = torch.tanh((own + change(own) * z[f"{a}time_maa_x"][0]) @ z[f"{a}time_maa_w1"])
                shares = torch.einsum("tpr,prc->ptc", inner.view(count, 5, -1), z[f"{a}time_maa_w2"])
                mixed = [
                    own + change(own) * (z[f"{a}time_maa_{part}"][0] + shares[i]) for i, part in enumerate("wkvrg")
                ]
                low = torch.tanh(mixed[0] @ z[f"{a}time_decay_w1"]) @ z[f"{a}time_decay_w2"]
                decay = (-(z[f"{a}time_decay"][0] + low).exp()).exp()
            else:
                names = ("key", "value", "receptance", "gate")
                mixed = [own + change(own) * (1 - z[f"{a}time_mix_{name}"][0]) for name in names]
                decay = (-z[f"{a}time_decay"].exp()).exp().reshape(1, -1).expand(count, -1)
            k, v, r, g = (
                y @ z[f"{a}{name}.weight"].T
                for y, name in zip(mixed[-4:], ("key", "value", "receptance", "gate"), strict=True)
            )
            heads, first = (count, -1, self.sizes["head_size"]), z[f"{a}time_faaaa"].unsqueeze(-1)  # first: (H, K, 1)
            k, v, r, decay = (t.reshape(heads) for t in (k, v, r, decay))
            state, rows = torch.zeros(k.shape[1], k.shape[2], k.shape[2]), []
            for t in range(count):
                new = k[t].unsqueeze(-1) @ v[t].unsqueeze(1)  # (H, K, V)
                rows.append((r[t].unsqueeze(1) @ (state + first * new)).reshape(-1))
                state = decay[t].unsqueeze(-1) * state + new
            weight, bias = z[f"{a}ln_x.weight"], z[f"{a}ln_x.bias"]
            y = functional.group_norm(torch.stack(rows), k.shape[1], weight, bias, 64e-5)
            x = x + (y * functional.silu(g)) @ z[f"{a}output.weight"].T
            own = norm(x, f"rwkv.blocks.{layer}.ln2")
            if newer:
                k, r = (own + change(own) * z[f"{f}time_maa_{part}"][0] for part in "kr")
            else:
                k, r = (own + change(own) * (1 - z[f"{f}time_mix_{name}"][0]) for name in ("key", "receptance"))
            inner = torch.relu(k @ z[f"{f}key.weight"].T) ** 2
            x = x + torch.sigmoid(r @ z[f"{f}receptance.weight"].T) * (inner @ z[f"{f}value.weight"].T)
        return norm(x, "rwkv.ln_out") @ z["head.weight"].T


MODELS = {"rwkv5": Rwkv6, "rwkv6": Rwkv6, "rwkv7": Rwkv7}
