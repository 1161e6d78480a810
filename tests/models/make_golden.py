"""Writes golden_llama.safetensors and golden_llama.npz: a random-initialised Llama saved by transformers, and its
logits.

Run: python -m tests.models.make_golden (needs the extra `oracle`). The tensors carry llama2.c's names; rows of wq
and wk are reordered from Hugging Face's halves to neighbouring pairs, as llama2.c's exporter does.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from transformers import LlamaConfig, LlamaForCausalLM

from tests.goldens import write_bytes, write_npz

HERE = Path(__file__).parent
CONFIG: dict[str, int] = {
    "dim": 48, "hidden_dim": 80, "n_layers": 2, "n_heads": 6, "n_kv_heads": 3, "vocab_size": 96, "max_seq_len": 32,
}  # fmt: skip
NAMES = {
    "self_attn.q_proj": "attention.wq", "self_attn.k_proj": "attention.wk", "self_attn.v_proj": "attention.wv",
    "self_attn.o_proj": "attention.wo", "mlp.gate_proj": "feed_forward.w1", "mlp.up_proj": "feed_forward.w3",
    "mlp.down_proj": "feed_forward.w2", "input_layernorm": "attention_norm", "post_attention_layernorm": "ffn_norm",
}  # fmt: skip


def pairs(weight: torch.Tensor, heads: int) -> torch.Tensor:
    """Rows of each head from (first half, second half) to neighbouring pairs."""
    rows, columns = weight.shape
    return weight.view(heads, 2, rows // heads // 2, columns).transpose(1, 2).reshape(rows, columns).contiguous()


def renamed(state: dict[str, torch.Tensor]) -> dict[str, Any]:
    result = {}
    for name, value in state.items():
        name = name.removeprefix("model.").replace("embed_tokens", "tok_embeddings").replace("lm_head", "output")
        for old, new in NAMES.items():
            name = name.replace(old, new)
        if name.endswith(("wq.weight", "wk.weight")):
            value = pairs(value, CONFIG["n_heads" if "wq" in name else "n_kv_heads"])
        result[name] = value.contiguous()
    return result


def contents(file: bytes) -> tuple[Any, bytes]:
    """A file of safetensors, whose metadata are in another order each time."""
    start = 8 + int.from_bytes(file[:8], "little")
    return json.loads(file[8:start]), file[start:]


def main() -> None:
    torch.manual_seed(0)
    model = LlamaForCausalLM(
        LlamaConfig(
            hidden_size=CONFIG["dim"], intermediate_size=CONFIG["hidden_dim"], num_hidden_layers=CONFIG["n_layers"],
            num_attention_heads=CONFIG["n_heads"], num_key_value_heads=CONFIG["n_kv_heads"],
            vocab_size=CONFIG["vocab_size"],
            max_position_embeddings=CONFIG["max_seq_len"], rms_norm_eps=1e-5, initializer_range=0.15,
            tie_word_embeddings=False,
        )
    ).eval()  # fmt: skip
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name:
                parameter.add_(torch.randn_like(parameter) * 0.2)
    tokens = torch.randint(0, CONFIG["vocab_size"], (2, 20))
    with torch.no_grad():
        logits = model(tokens).logits
        greedy = model.generate(tokens[:1, :4], max_new_tokens=20, do_sample=False, pad_token_id=0, eos_token_id=None)
    data = save(renamed(model.state_dict()), {k: str(v) for k, v in CONFIG.items()})
    write_bytes(HERE / "golden_llama.safetensors", data, lambda *files: contents(files[0]) == contents(files[1]))
    found = {"tokens": tokens.numpy(), "logits": logits.numpy(), "greedy": greedy.numpy()}
    write_npz(HERE / "golden_llama.npz", found)
    print(torch.__version__, "logits deviation", float(logits.std()))


if __name__ == "__main__":
    main()
