"""Mixtures give types to tensors as llama.cpp's quantize does."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyapp.formats import GgufFile, open_checkpoint, write_gguf, write_safetensors
from pyapp.formats.convert import FILE_TYPES, quantize_file, type_name
from pyapp.formats.mixtures import MIXTURES, Mixture, role_of

LAYERS = 32
PARTS = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
GGUF_NAMES = ["token_embd.weight", "output.weight"]
GGUF_NAMES += [f"blk.{i}.{part}.weight" for i in range(LAYERS) for part in PARTS]
LLAMA = {"attention.head_count": 32, "attention.head_count_kv": 8}


def types(mixture: str, names: list[str] = GGUF_NAMES, config: Any = LLAMA) -> dict[str, str]:
    chosen = Mixture(mixture, names, config)
    return {name: chosen.type_of(name) for name in names}


def layers_of(found: dict[str, str], part: str, kind: str) -> list[int]:
    return [i for i in range(LAYERS) if found[f"blk.{i}.{part}.weight"] == kind]


def test_q4_k_m_of_a_model_of_32_layers() -> None:
    """What llama.cpp's own Q4_K_M files of Llama 3 8B hold: 33 matrices of q6_K, 193 of q4_K."""
    found = types("Q4_K_M")
    more = [0, 1, 2, 3, 6, 9, 12, 15, 18, 21, 24, 27, 28, 29, 30, 31]
    assert layers_of(found, "attn_v", "q6_K") == layers_of(found, "ffn_down", "q6_K") == more
    assert found["output.weight"] == "q6_K" and found["token_embd.weight"] == "q4_K"
    assert Counter(found.values()) == {"q6_K": 33, "q4_K": 193}


@pytest.mark.parametrize(
    "mixture,expected",
    [
        ("Q5_K_M", {"q6_K": 33, "q5_K": 193}),
        ("Q5_K_S", {"q6_K": 1, "q5_K": 225}),
        ("Q4_K_S", {"q6_K": 1, "q5_K": 8, "q4_K": 217}),
        ("Q3_K_S", {"q6_K": 1, "q3_K": 225}),
        ("Q3_K_M", {"q6_K": 1, "q5_K": 4, "q4_K": 92, "q3_K": 129}),
        ("Q3_K_L", {"q6_K": 1, "q5_K": 96, "q3_K": 129}),
        ("Q2_K_S", {"q6_K": 1, "q4_K": 36, "q2_K": 189}),
    ],
)
def test_counts_of_a_model_of_32_layers(mixture: str, expected: dict[str, int]) -> None:
    assert Counter(types(mixture).values()) == expected


def test_a_shared_embedding_counts_as_the_output() -> None:
    names = [name for name in GGUF_NAMES if name != "output.weight"]
    assert types("Q4_K_M", names)["token_embd.weight"] == "q6_K"


FALCON = {"model_type": "falcon", "attention.head_count": 71, "attention.head_count_kv": 1}
EXPERTS = LLAMA | {"model_type": "llama", "expert_count": 8}
MANY = LLAMA | {"model_type": "qwen2moe", "expert_count": 60}


@pytest.mark.parametrize(
    "mixture, config, layers, name, expected",
    [
        ("Q2_K", LLAMA, 32, "blk.9.attn_v.weight", "q4_K"),
        ("Q2_K", {}, 32, "blk.9.attn_v.weight", "q3_K"),
        ("Q2_K", LLAMA, 32, "blk.9.ffn_down.weight", "q3_K"),
        ("Q2_K", LLAMA, 32, "blk.9.attn_output.weight", "q3_K"),
        ("Q2_K", LLAMA, 32, "blk.9.attn_q.weight", "q2_K"),
        ("Q4_0", LLAMA, 32, "output.weight", "q6_K"),
        ("Q4_0", LLAMA, 32, "blk.0.ffn_down.weight", "q4_0"),
        ("Q8_0", LLAMA, 32, "output.weight", "q8_0"),
        ("Q6_K", LLAMA, 32, "blk.0.attn_v.weight", "q6_K"),
        ("IQ4_XS", LLAMA, 32, "blk.9.attn_v.weight", "q5_K"),
        ("IQ4_XS", LLAMA, 32, "blk.3.ffn_down.weight", "q5_K"),
        ("IQ4_XS", LLAMA, 32, "blk.4.ffn_down.weight", "iq4_xs"),
        ("Q4_K_M", {"attention.head_count": 8, "attention.head_count_kv": [2, 2]}, 8, "blk.0.attn_kv_b.weight", "q6_K"),
        # Falcon
        ("Q4_K_M", FALCON, 32, "output.weight", "q8_0"),
        ("Q4_K_M", FALCON, 32, "blk.1.ffn_down.weight", "q6_K"),
        ("Q4_K_M", FALCON, 32, "blk.3.ffn_down.weight", "q5_K"),
        ("Q4_K_M", FALCON, 32, "blk.4.ffn_down.weight", "q4_K"),
        ("Q4_K_M", FALCON, 32, "blk.6.attn_qkv.weight", "q6_K"),
        ("Q4_K_S", FALCON, 32, "blk.0.ffn_down.weight", "q4_K"),
        ("Q3_K_M", FALCON, 32, "blk.1.ffn_down.weight", "q5_K"),
        ("Q3_K_M", FALCON, 32, "blk.2.ffn_down.weight", "q4_K"),
        ("Q3_K_M", FALCON, 32, "blk.4.ffn_down.weight", "q3_K"),
        ("Q3_K_M", FALCON, 32, "blk.4.attn_output.weight", "q3_K"),
        ("Q3_K_L", FALCON, 32, "blk.4.ffn_down.weight", "q4_K"),
        ("Q3_K_L", FALCON, 32, "blk.4.attn_output.weight", "q4_K"),
        ("Q4_K_M", {"model_type": "falcon"}, 32, "transformer.h.1.mlp.dense_4h_to_h.weight", "q6_K"),
        # experts
        ("Q4_K_M", EXPERTS, 32, "blk.7.attn_v.weight", "q8_0"),
        ("Q4_K_M", EXPERTS, 32, "blk.7.attn_k.weight", "q8_0"),
        ("Q4_K_M", EXPERTS, 32, "blk.7.attn_output.weight", "q5_K"),
        ("Q5_K_M", EXPERTS, 32, "blk.7.attn_output.weight", "q5_K"),
        ("Q3_K_L", EXPERTS, 32, "blk.7.attn_output.weight", "q3_K"),
        ("Q4_K_M", EXPERTS, 32, "blk.6.ffn_down_exps.weight", "q6_K"),
        ("Q4_K_M", EXPERTS, 32, "blk.7.ffn_down_exps.weight", "q4_K"),
        ("Q4_K_M", MANY, 32, "blk.6.ffn_down_shexp.weight", "q6_K"),
        ("Q4_K_M", MANY, 32, "blk.7.ffn_down_shexp.weight", "q4_K"),
        ("Q4_K_M", MANY, 32, "blk.7.attn_k.weight", "q4_K"),
        ("Q4_K_M", EXPERTS, 32, "model.layers.6.block_sparse_moe.experts.5.w2.weight", "q6_K"),
        ("Q4_K_M", EXPERTS, 32, "model.layers.7.mlp.experts.5.down_proj.weight", "q4_K"),
        ("MXFP4_MOE", EXPERTS, 32, "blk.7.ffn_down_exps.weight", "mxfp4"),
        ("MXFP4_MOE", EXPERTS, 32, "blk.7.attn_q.weight", "q8_0"),
        ("MXFP4_MOE", EXPERTS, 32, "output.weight", "q8_0"),
        # the largest llama
        ("Q4_K_S", {"num_attention_heads": 64, "num_key_value_heads": 8}, 80, "blk.70.attn_v.weight", "q5_K"),
        ("Q4_K_S", {"num_attention_heads": 64, "num_key_value_heads": 64}, 80, "blk.70.attn_v.weight", "q4_K"),
    ],
)  # fmt: skip
def test_single_tensors(mixture: str, config: Any, layers: int, name: str, expected: str) -> None:
    """The tensor, and one of its kind in every other layer."""
    layer = next((part for part in name.split(".") if part.isdecimal()), "")
    names = ["token_embd.weight", "output.weight"] if layer else ["token_embd.weight", name]
    names += [name.replace(f".{layer}.", f".{i}.", 1) for i in range(layers)] if layer else []
    stacks = [name for name in names if "_exps" in name]
    assert Mixture(mixture, names, config, stacks=stacks).type_of(name) == expected


def test_several_matrices_of_a_layer_share_its_rule() -> None:
    """The first layer of such a model is dense; experts and what they share are two matrices of the others."""
    names = ["blk.0.ffn_down.weight"]
    names += [f"blk.{i}.{part}.weight" for i in range(1, 16) for part in ("ffn_down_exps", "ffn_down_shexp")]
    found = types("Q4_K_M", names, {"model_type": "deepseek2", "expert_count": 64})
    assert {name for name, kind in found.items() if kind == "q6_K"} == {
        name for name in names if int(name.split(".")[1]) in (0, 1, 4, 7, 10, 13, 14, 15)
    }


def test_an_imatrix_changes_the_first_layers() -> None:
    for mixture, plain, weighted in (("Q4_0", "q4_0", "q4_1"), ("Q5_0", "q5_0", "q5_1"), ("IQ4_NL", "q5_K", "iq4_nl")):
        for has, expected in ((False, plain), (True, weighted)):
            chosen = Mixture(mixture, GGUF_NAMES, LLAMA, weighted=has)
            assert chosen.type_of("blk.3.ffn_down.weight") == expected
            assert chosen.type_of("blk.4.ffn_down.weight") == MIXTURES[mixture][0]


def test_other_names_of_the_same_tensors() -> None:
    others = {
        "attn_q": ("self_attn.q_proj", "attention.wq"), "attn_k": ("self_attn.k_proj", "attention.wk"),
        "attn_v": ("self_attn.v_proj", "attention.wv"), "attn_output": ("self_attn.o_proj", "attention.wo"),
        "ffn_gate": ("mlp.gate_proj", "feed_forward.w1"), "ffn_up": ("mlp.up_proj", "feed_forward.w3"),
        "ffn_down": ("mlp.down_proj", "feed_forward.w2"),
    }  # fmt: skip
    for mixture in MIXTURES:
        wanted = types(mixture)
        for style, prefix in ((0, "model."), (1, "")):
            names = {"token_embd.weight": "model.embed_tokens.weight" if style == 0 else "tok_embeddings.weight"}
            names["output.weight"] = "lm_head.weight" if style == 0 else "output.weight"
            names |= {
                f"blk.{i}.{part}.weight": f"{prefix}layers.{i}.{others[part][style]}.weight"
                for i in range(LAYERS) for part in PARTS
            }  # fmt: skip
            found = types(mixture, list(names.values()), {"n_heads": 32, "n_kv_heads": 8})
            assert {name: found[names[name]] for name in wanted} == wanted


@pytest.mark.native_only
def test_names_and_numbers_are_those_of_the_gguf_package() -> None:
    gguf = pytest.importorskip("gguf")
    for mixture, (_, number) in MIXTURES.items():
        assert gguf.LlamaFileType[f"MOSTLY_{mixture}"] == number
    plain = {"float32": "ALL_F32", "float16": "MOSTLY_F16", "bfloat16": "MOSTLY_BF16", "mxfp4": "MOSTLY_MXFP4_MOE"}
    alone = {"q3_K": "MOSTLY_Q3_K_S", "q4_K": "MOSTLY_Q4_K_S", "q5_K": "MOSTLY_Q5_K_S"}
    for kind, number in FILE_TYPES.items():
        assert gguf.LlamaFileType[(plain | alone).get(kind, f"MOSTLY_{kind.upper()}")] == number
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, 2)
    roles = {"attn_v", "attn_k", "attn_output", "ffn_down", "output", "token_embd"}
    for name in (
        "model.layers.1.self_attn.v_proj", "layers.1.attention.wv", "model.layers.0.self_attn.k_proj",
        "layers.0.attention.wk", "model.layers.0.self_attn.o_proj", "layers.0.attention.wo",
        "model.layers.0.mlp.down_proj", "layers.0.feed_forward.w2", "lm_head", "output", "model.embed_tokens",
        "tok_embeddings", "model.layers.0.self_attn.q_proj", "layers.0.feed_forward.w1", "model.layers.0.mlp.up_proj",
    ):  # fmt: skip
        theirs = names.get_name(name).rpartition(".")[2]
        assert role_of(f"{name}.weight").replace("embedding", "token_embd") == (theirs if theirs in roles else "")


def small_model(path: Path) -> Path:
    generator = np.random.default_rng(4)
    names = ["token_embd.weight", "output.weight", *(f"blk.{i}.{p}.weight" for i in range(8) for p in PARTS)]
    tensors = {name: generator.standard_normal((8, 256)).astype(np.float32) for name in names}
    tensors["blk.7.ffn_down.weight"] = generator.standard_normal((8, 96)).astype(np.float32)
    tensors["blk.0.attn_norm.weight"] = np.ones(256, np.float32)
    write_gguf(path, tensors, {"general.architecture": "llama", "llama.block_count": 8})
    return path


def test_a_file(tmp_path: Path) -> None:
    source = small_model(tmp_path / "in.gguf")
    result = quantize_file(source, tmp_path / "out.gguf", "q4_k_m")
    with open_checkpoint(tmp_path / "out.gguf") as file:
        assert isinstance(file, GgufFile) and file.values["general.file_type"] == 15
        assert file.values["general.quantization_version"] == 2
        kinds = {name: info.dtype for name, info in file.tensors.items()}
    assert kinds["blk.0.attn_v.weight"] == kinds["blk.0.ffn_down.weight"] == kinds["output.weight"] == "q6_K"
    assert kinds["blk.1.attn_v.weight"] == "q4_K" and kinds["blk.3.attn_v.weight"] == "q6_K"
    assert kinds["blk.7.ffn_down.weight"] == "q8_0"  # rows of 96: what takes q6_K's place
    assert kinds["blk.0.attn_norm.weight"] == "float32" and kinds["token_embd.weight"] == "q4_K"
    assert result["types"] == dict(Counter(kinds.values()))


def test_llama2c_by_its_configuration(tmp_path: Path) -> None:
    values = np.random.default_rng(1).standard_normal((8, 256)).astype(np.float32)
    names = [f"layers.{i}.attention.wv.weight" for i in range(8)]
    write_safetensors(tmp_path / "m.safetensors", dict.fromkeys(names, values))
    (tmp_path / "config.json").write_text('{"num_attention_heads": 8, "num_key_value_heads": 2}')
    quantize_file(tmp_path / "m.safetensors", tmp_path / "out.gguf", "Q2_K_S")
    with open_checkpoint(tmp_path / "out.gguf") as file:
        assert {info.dtype for info in file.tensors.values()} == {"q4_K"}


def test_names_of_types() -> None:
    assert type_name("Q4_K_M") == type_name("q4_k_m") == "Q4_K_M" and type_name("Q4_K") == "q4_K"
    assert type_name("Q2_K") == "Q2_K" and type_name("q2_K") == type_name("q2_k") == "q2_K" != type_name("Q2_K")
