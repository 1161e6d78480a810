"""GGUF files of the shapes with random weights, for peers and for our Llamas. Needs the extra `bench` (gguf)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from pyapp.models.llama2c import Config

from .shapes import LLAMAS, SHAPES


def write_gguf(name: str, kind: str, folder: Path) -> Path:
    """folder/NAME-KIND.gguf, kind "f32", "f16", "q8_0" (every matrix, norms stay f32) or a mixture of llama.cpp's
    ("Q4_K_M"); written once.
    """
    path = folder / f"{name}-{kind}.gguf"
    if path.exists():
        return path
    if kind not in ("f32", "f16", "q8_0"):
        from pyapp.formats.convert import quantize_file

        quantize_file(write_gguf(name, "f16", folder), path, kind)
        return path
    import gguf

    folder.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    shape = (SHAPES | LLAMAS)[name]
    writer = gguf.GGUFWriter(str(partial), "llama")
    _add_configuration(writer, shape)
    _add_vocabulary(writer, shape.vocab_size, gguf)
    random = np.random.default_rng(1)
    for tensor, rows, columns in _matrices(shape):
        if rows == 0:
            writer.add_tensor(tensor, np.ones(columns, np.float32))
            continue
        values = random.standard_normal((rows, columns), dtype=np.float32) * np.float32(columns**-0.5)
        if kind != "q8_0":
            writer.add_tensor(tensor, values if kind == "f32" else values.astype(np.float16))
        else:
            q8_0 = gguf.GGMLQuantizationType.Q8_0
            writer.add_tensor(tensor, gguf.quants.quantize(values, q8_0), raw_dtype=q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    partial.rename(path)
    return path


def _add_configuration(writer: Any, shape: Config) -> None:
    writer.add_context_length(shape.max_seq_len)
    writer.add_embedding_length(shape.dim)
    writer.add_block_count(shape.n_layers)
    writer.add_feed_forward_length(shape.hidden_dim)
    writer.add_head_count(shape.n_heads)
    writer.add_head_count_kv(shape.n_kv_heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(shape.dim // shape.n_heads)
    writer.add_vocab_size(shape.vocab_size)


def _add_vocabulary(writer: Any, size: int, gguf: Any) -> None:
    """A SentencePiece-like vocabulary in which every letter is a token, so that prompts have a known length."""
    kinds = gguf.TokenType
    tokens = [b"<unk>", b"<s>", b"</s>", *(b"<0x%02X>" % i for i in range(256))]
    types = [kinds.UNKNOWN, kinds.CONTROL, kinds.CONTROL, *([kinds.BYTE] * 256)]
    tokens += [letter.encode() for letter in "\u2581abcdefghijklmnopqrstuvwxyz"]
    tokens += [f"\u2581word{i}".encode() for i in range(size - len(tokens))]
    types += [kinds.NORMAL] * (size - len(types))
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([-float(i) for i in range(size)])
    writer.add_token_types([int(kind) for kind in types])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)


def _matrices(shape: Config) -> list[tuple[str, int, int]]:
    """(GGUF name, rows, columns); rows 0 marks a norm."""
    dim, hidden = shape.dim, shape.hidden_dim
    kv = dim // shape.n_heads * shape.n_kv_heads
    found = [("token_embd.weight", shape.vocab_size, dim)]
    for i in range(shape.n_layers):
        rows = {
            "attn_norm": (0, dim), "attn_q": (dim, dim), "attn_k": (kv, dim), "attn_v": (kv, dim),
            "attn_output": (dim, dim),
            "ffn_norm": (0, dim), "ffn_gate": (hidden, dim), "ffn_up": (hidden, dim), "ffn_down": (dim, hidden),
        }  # fmt: skip
        found += [(f"blk.{i}.{name}.weight", *size) for name, size in rows.items()]
    head = [] if shape.tied else [("output.weight", shape.vocab_size, dim)]
    return [*found, ("output_norm.weight", 0, dim), *head]
