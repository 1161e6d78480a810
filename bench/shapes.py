"""Model shapes that peers run too. Weights are random: figures are about speed, never about quality."""

from __future__ import annotations

from pyapp.engine.dtype import GGML
from pyapp.engine.quant import BANDED
from pyapp.models.llama2c import Config

SHAPES = {
    "embedded": Config(128, 352, n_layers=5, n_heads=4, n_kv_heads=2, vocab_size=2048, max_seq_len=288),
    "stories15M": Config(288, 768, n_layers=6, n_heads=6, n_kv_heads=6, vocab_size=32000, max_seq_len=256),
    "stories110M": Config(768, 2048, n_layers=12, n_heads=12, n_kv_heads=12, vocab_size=32000, max_seq_len=1024),
}
# Llamas from GGUF files: SmolLM2-135M's shape and TinyLlama's.
LLAMAS = {
    "llama-135M": Config(576, 1536, n_layers=30, n_heads=9, n_kv_heads=3, vocab_size=49152, max_seq_len=2048),
    "llama-1.1B": Config(
        2048, 5632, n_layers=22, n_heads=32, n_kv_heads=4, vocab_size=32000, max_seq_len=2048, tied=False
    ),
}  # fmt: skip
LLAMA_KINDS = ("q8_0", "q4_0", "Q4_K_M")
PROMPT = 128  # tokens of the prompt figure
LLAMA_PROMPT = 512
STREAMED = tuple(name for name in BANDED if name in GGML)  # whose products are to run at the speed of memory
ROWS = (1, 4, 8, 16, 32, 128)  # of products with several rows: decoded together, or a prompt
ROW_KINDS = ("q8_0", "q4_0", "q4_K", "q6_K")
# Tokens of a decode sample, after a prompt of 8.
DECODE = {"embedded": 240, "stories15M": 96, "stories110M": 48, "llama-135M": 48, "llama-1.1B": 12}
SENTENCES = 1000  # of the embedding figure
