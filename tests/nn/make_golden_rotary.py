"""Writes golden_rotary.json: the frequencies of transformers for the configurations in rotary_cases.py.

pip install -e '.[oracle]'; python -m tests.nn.make_golden_rotary
"""

from __future__ import annotations

from pathlib import Path

from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from tests.goldens import write_rows
from tests.nn.rotary_cases import CASES


def main() -> None:
    golden = {}
    for name, (values, length) in CASES.items():
        config = LlamaConfig(**values)
        kind = config.rope_parameters["rope_type"]
        if kind == "default":
            steps, factor = LlamaRotaryEmbedding(config).inv_freq, 1.0
        else:
            steps, factor = ROPE_INIT_FUNCTIONS[kind](config, None, seq_len=length)
        golden[name] = {"per_position": [float(x) for x in steps], "attention_factor": float(factor)}
    write_rows(Path(__file__).with_name("golden_rotary.json"), golden)


if __name__ == "__main__":
    main()
