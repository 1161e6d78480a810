"""Writes golden_attention_options.npz: windows, soft caps, linear biases and rotary positions as transformers' models
compute them, for the inputs in attention_options.py.

    pip install -e '.[oracle]'; python -m tests.engine.make_golden_attention_options
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from transformers import LlamaConfig
from transformers.masking_utils import causal_mask_function, sliding_window_causal_mask_function
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.gemma2.modeling_gemma2 import eager_attention_forward
from transformers.models.gpt_neox.modeling_gpt_neox import apply_rotary_pos_emb as rotate_part
from transformers.models.gpt_oss.modeling_gpt_oss import eager_attention_forward as attend_with_sinks
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

from tests.engine.attention_options import HEADS, KV_HEADS, ROTATED, SINKS, SIZE, SOFTCAP, TOKENS, WINDOW, inputs
from tests.goldens import write_npz


def mask_of(function: Any) -> torch.Tensor:
    """(1, 1, T, T), added to scores."""
    at = torch.arange(TOKENS)
    seen = torch.stack([torch.stack([function(0, 0, row, key) for key in at]) for row in at])
    return torch.zeros(TOKENS, TOKENS).masked_fill(~seen, float("-inf"))[None, None]


def rotary(size: int) -> tuple[torch.Tensor, torch.Tensor]:
    parameters = {"rope_theta": 100.0, "rope_type": "default"}
    config = LlamaConfig(hidden_size=size, num_attention_heads=1, rope_parameters=parameters)
    cos, sin = LlamaRotaryEmbedding(config)(torch.zeros(1), torch.arange(TOKENS)[None])
    return cos, sin


def main() -> None:
    q, k, v = (torch.from_numpy(x).transpose(1, 2) for x in inputs())  # (1, heads, T, D)
    layer = SimpleNamespace(head_dim=SIZE, num_key_value_groups=HEADS // KV_HEADS, training=False)
    causal, window = mask_of(causal_mask_function), mask_of(sliding_window_causal_mask_function(WINDOW))
    biases = build_alibi_tensor(torch.ones(1, TOKENS), HEADS, torch.float32).reshape(1, HEADS, 1, TOKENS)

    def attend(mask: torch.Tensor, **options: Any) -> np.ndarray:
        return eager_attention_forward(layer, q, k, v, mask, **options)[0].numpy()

    layer.sinks = torch.tensor(SINKS)
    golden = {
        "sinks": attend_with_sinks(layer, q, k, v, window, SIZE**-0.5)[0].numpy(),
        "window": attend(window),
        "soft_cap": attend(window, softcap=SOFTCAP, scaling=0.3),
        "slopes": attend(causal + biases),
        "rope_halves": apply_rotary_pos_emb(q, k, *rotary(SIZE))[0].transpose(1, 2).numpy(),
        "rope_part": rotate_part(q, k, *rotary(ROTATED))[0].transpose(1, 2).numpy(),
    }
    write_npz(Path(__file__).with_name("golden_attention_options.npz"), golden)


if __name__ == "__main__":
    main()
