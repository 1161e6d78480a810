"""The folder of a small model with a chat template: a Llama with random weights that answers in letters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from pyapp.formats import write_safetensors
from tests.text.tokenizer_documents import BYTES, byte_pairs, document, numbered

LETTERS = "abcdefghijklmnopqrstuvwxyz ,."
SPECIAL = ["<|im_start|>", "<|im_end|>"]
TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>' + '\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def byte_letters() -> list[str]:
    """The letters that stand for the bytes in a byte-level vocabulary (GPT-2's)."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    return [chr(byte) if byte in plain else chr(256 + others.index(byte)) for byte in range(256)]


def write_chat_model(folder: Path, context: int = 512, dim: int = 64, layers: int = 2) -> list[Path]:
    """The folder of a Llama with seeded random weights, which answers in letters and does not end by itself."""
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = numbered(byte_letters())
    special = {name: 256 + i for i, name in enumerate(SPECIAL)}
    tokenizer = document(byte_pairs(vocabulary | special), special, pre_tokenizer=BYTES, decoder=BYTES)
    size, hidden = 256 + len(SPECIAL), 2 * dim
    config = {
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": size, "hidden_size": dim,
        "intermediate_size": hidden, "num_hidden_layers": layers, "num_attention_heads": 4, "num_key_value_heads": 2,
        "max_position_embeddings": context, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": False,
        "hidden_act": "silu", "bos_token_id": None, "eos_token_id": 257,
    }  # fmt: skip
    random = np.random.default_rng(5)

    def weight(*shape: int) -> Any:
        return random.standard_normal(shape, "f4") * np.float32(0.2)

    head = np.zeros((size, dim), "f4")  # what is not a letter has the logit 0, and the best of the letters is above it
    head[[ord(letter) for letter in LETTERS if letter != " "]] = weight(len(LETTERS) - 1, dim)
    head[vocabulary["Ġ"]] = weight(dim)
    tensors = {
        "model.embed_tokens.weight": weight(size, dim),
        "model.norm.weight": np.ones(dim, "f4"),
        "lm_head.weight": head,
    }
    shapes = {
        "self_attn.q_proj": (dim, dim), "self_attn.k_proj": (dim // 2, dim), "self_attn.v_proj": (dim // 2, dim),
        "self_attn.o_proj": (dim, dim), "mlp.gate_proj": (hidden, dim), "mlp.up_proj": (hidden, dim),
        "mlp.down_proj": (dim, hidden),
    }  # fmt: skip
    for layer in range(layers):
        tensors |= {f"model.layers.{layer}.{name}.weight": weight(*shape) for name, shape in shapes.items()}
        for norm in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"model.layers.{layer}.{norm}.weight"] = np.ones(dim, "f4")
    write_safetensors(folder / "model.safetensors", tensors)
    settings = {"chat_template": TEMPLATE, "eos_token": "<|im_end|>", "tokenizer_class": "PreTrainedTokenizerFast"}
    for name, value in (("config", config), ("tokenizer", tokenizer), ("tokenizer_config", settings)):
        (folder / f"{name}.json").write_text(json.dumps(value))
    return sorted(folder.iterdir())
