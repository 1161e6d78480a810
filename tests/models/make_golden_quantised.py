"""Write golden_quantised/: matrices and small Llamas as other libraries quantise them, and what they stand for.

    pip install --no-deps bitsandbytes compressed-tensors loguru auto-gptq hqq termcolor
    python -m tests.models.make_golden_quantised

A file of a matrix has the layer "layer" and the tensor "expected", which the library dequantised. A file of a Llama
has its tensors, and in its metadata the logits of transformers with the dequantised matrices.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bitsandbytes.functional as bnb
import torch
from auto_gptq.nn_modules.qlinear.qlinear_cuda import QuantLinear
from compressed_tensors.compressors import BaseCompressor
from compressed_tensors.entrypoints.convert.converters.autoawq import AutoAWQConverter
from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
from hqq.core.quantize import Quantizer
from hqq.core.utils import encode_safetensor_type
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.integrations.finegrained_fp8 import Fp8Dequantize

HERE = Path(__file__).with_name("golden_quantised")
BLOCK = [16, 32]
TEXT = [1, 5, 9, 3, 7, 2]
LLAMA = {
    "vocab_size": 32, "hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2,
    "num_key_value_heads": 1, "max_position_embeddings": 32, "tie_word_embeddings": False,
}  # fmt: skip
Made = tuple[dict[str, torch.Tensor], torch.Tensor]


def words(*shape: int) -> torch.Tensor:
    """Random int32."""
    return torch.randint(-(1 << 31), (1 << 31) - 1, shape, dtype=torch.int64).to(torch.int32)


def scales_of(*shape: int) -> torch.Tensor:
    return torch.rand(*shape) * 0.01 + 0.002


def bitsandbytes(kind: str, nested: bool, dtype: torch.dtype) -> Callable[[int, int], Made]:
    def make(rows: int, columns: int) -> Made:
        weight = (torch.randn(rows, columns) * 0.05).to(dtype)
        packed, state = bnb.quantize_4bit(weight, blocksize=64, quant_type=kind, compress_statistics=nested)
        parts = {f"weight.{name}": value for name, value in state.as_dict(packed=True).items()}
        return {"weight": packed, **parts}, bnb.dequantize_4bit(packed, state)

    return make


def eight_bits(rows: int, columns: int) -> Made:
    numbers, largest, _ = bnb.int8_vectorwise_quant((torch.randn(rows, columns) * 0.05).to(torch.float16))
    parts = {"weight": numbers, "SCB": largest, "weight_format": torch.tensor(0, dtype=torch.uint8)}
    return parts, bnb.int8_vectorwise_dequant(numbers, largest)


def float8(block: bool) -> Callable[[int, int], Made]:
    def make(rows: int, columns: int) -> Made:
        weight = (torch.randn(rows, columns) * 10).to(torch.float8_e4m3fn)
        scale = scales_of(rows // BLOCK[0], columns // BLOCK[1]) if block else torch.tensor(0.0078)
        found = Fp8Dequantize(None)._dequantize_one(weight, scale, torch.bfloat16)
        return {"weight": weight, "weight_scale_inv": scale, "activation_scale": torch.tensor(1.0)}, found

    return make


def of_deepseek(rows: int, columns: int) -> Made:
    """As DeepSeek V4's files have their matrices: the scales are powers of two, and called otherwise."""
    weight = (torch.randn(rows, columns) * 10).to(torch.float8_e4m3fn)
    scale = torch.exp2(torch.randint(-9, -3, (rows // BLOCK[0], columns // BLOCK[1])).float())
    scale = scale.to(torch.float8_e8m0fnu)
    return {"weight": weight, "scale": scale}, Fp8Dequantize(None)._dequantize_one(weight, scale, torch.bfloat16)


def experts_of_deepseek(rows: int, columns: int) -> Made:
    """As DeepSeek V4's files have their experts: pairs of numbers of four bits."""
    pairs = torch.randint(-128, 128, (rows, columns // 2), dtype=torch.int8)
    scale = torch.exp2(torch.randint(-9, -3, (rows, columns // 32)).float()).to(torch.float8_e8m0fnu)
    return {"weight": pairs, "scale": scale}, Fp8Dequantize(None)._dequantize_one(pairs, scale, torch.bfloat16)


def gptq(bits: int, *, ordered: bool = False, middle: bool = False, second: bool = False) -> Callable[[int, int], Made]:
    def make(rows: int, columns: int) -> Made:
        size, count = 32, columns // 32
        layer = QuantLinear(bits, size, columns, rows, bias=False)
        layer.qweight, layer.scales = words(columns * bits // 32, rows), scales_of(count, rows).half()
        layer.qzeros = words(count, rows * bits // 32)
        if middle:  # each zero point is half the range, stored less one
            layer.qzeros.fill_(0x77777777 if bits == 4 else 0x7F7F7F7F)
        if second:
            layer.qzeros &= 0x66666666
        if ordered:
            layer.g_idx = layer.g_idx[torch.randperm(columns)].contiguous()
        expected = layer(torch.eye(columns, dtype=torch.float16)).T
        zeros = layer.qzeros + 0x11111111 if second else layer.qzeros  # gptqmodel's second form
        return {"qweight": layer.qweight, "qzeros": zeros, "scales": layer.scales, "g_idx": layer.g_idx}, expected

    return make


def scheme(strategy: str, bits: int, kind: str = "int", **more: Any) -> QuantizationScheme:
    return QuantizationScheme(
        targets=["Linear"], weights=QuantizationArgs(num_bits=bits, type=kind, strategy=strategy, **more)
    )


def awq(rows: int, columns: int) -> Made:
    parts = {"qweight": words(columns, rows // 8), "qzeros": words(columns // 32, rows // 8),
             "scales": torch.randint(8, 40, (columns // 32, rows)) / 4096}  # fmt: skip
    parts["scales"] = parts["scales"].half()  # few bits: their products in float16 are exact, as those of blocks are
    converter = AutoAWQConverter(bits=4, group_size=32, zero_point=True, version="gemm")
    found = converter.process({f"layer.{name}": value.clone() for name, value in parts.items()})
    own = {name.removeprefix("layer."): value for name, value in found.items()}
    how = scheme("group", 4, group_size=32, symmetric=False)
    return parts, BaseCompressor.get_value_from_registry("pack-quantized").decompress(own, how)["weight"]


def compressed(form: str, how: QuantizationScheme, prepare: Callable[[int, int], Any]) -> Callable[[int, int], Made]:
    def make(rows: int, columns: int) -> Made:
        kind = BaseCompressor.get_value_from_registry(form)
        parts = kind.compress({"weight": torch.randn(rows, columns) * 0.05, **prepare(rows, columns)}, how)
        expected = kind.decompress(dict(parts), how)["weight"]
        return dict(parts), expected.to(torch.bfloat16)

    return make


def grouped(rows: int, columns: int) -> dict[str, torch.Tensor]:
    return {"weight_scale": scales_of(rows, columns // 32).bfloat16()}


def with_zeros(rows: int, columns: int) -> dict[str, torch.Tensor]:
    zeros = torch.randint(-8, 8, (rows, columns // 32), dtype=torch.int8)
    return grouped(rows, columns) | {"weight_zero_point": zeros}


def by_row(rows: int, columns: int) -> dict[str, torch.Tensor]:
    return {"weight_scale": scales_of(rows, 1)}


def nvidia(rows: int, columns: int) -> dict[str, torch.Tensor]:
    scale = (torch.rand(rows, columns // 16) * 40 + 2).to(torch.float8_e4m3fn).float()
    return {"weight_scale": scale, "weight_global_scale": torch.tensor([1300.0])}


def microscaling(rows: int, columns: int) -> dict[str, torch.Tensor]:
    return {"weight_scale": 2.0 ** torch.randint(-9, -3, (rows, columns // 32)).float()}


def modelopt(rows: int, columns: int) -> Made:
    """Those of nvfp4 of compressed-tensors under other names, with a power of two, whose inverse is exact."""
    how = scheme("tensor_group", 4, "float", group_size=16)
    own, expected = compressed("nvfp4-pack-quantized", how, lambda *shape: nvidia(*shape) | {
        "weight_global_scale": torch.tensor([1024.0])})(rows, columns)  # fmt: skip
    parts = {"weight": own["weight_packed"], "weight_scale": own["weight_scale"], "input_scale": torch.tensor(1.0)}
    return parts | {"weight_scale_2": 1 / own["weight_global_scale"][0]}, expected


def hqq(bits: int, axis: int, dtype: torch.dtype) -> Callable[[int, int], Made]:
    def make(rows: int, columns: int) -> Made:
        weight = torch.randn(rows, columns) * 0.05
        packed, meta = Quantizer.quantize(weight, nbits=bits, group_size=32, axis=axis, optimize=False, device="cpu")
        meta = {name: value.to(dtype) if name in ("scale", "zero") else value for name, value in meta.items()}
        expected = Quantizer.dequantize(packed, meta | {"compute_dtype": dtype})
        return {"W_q": packed, **{name: encode_safetensor_type(value) for name, value in meta.items()}}, expected

    return make


BNB = {"quant_method": "bitsandbytes", "load_in_4bit": True}
FP8 = {"quant_method": "fp8", "weight_block_size": BLOCK}
GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 32}
AWQ = {"quant_method": "awq", "bits": 4, "group_size": 32, "version": "gemm", "zero_point": True}
CT = {"quant_method": "compressed-tensors"}
CASES: dict[str, tuple[dict[str, Any], Callable[[int, int], Made]]] = {
    "nf4": (BNB, bitsandbytes("nf4", False, torch.float16)),
    "nf4_nested": (BNB, bitsandbytes("nf4", True, torch.bfloat16)),
    "fp4": (BNB, bitsandbytes("fp4", True, torch.bfloat16)),
    "int8_rows": ({"load_in_8bit": True}, eight_bits),
    "fp8": (FP8, float8(False)),
    "fp8_blocks": (FP8, float8(True)),
    "awq": (AWQ, awq),
    "gptq": (GPTQ, gptq(4)),
    "gptq_middle": (GPTQ, gptq(4, middle=True)),
    "gptq_order": (GPTQ | {"desc_act": True}, gptq(4, ordered=True)),
    "gptq_v2": (GPTQ | {"checkpoint_format": "gptq_v2"}, gptq(4, second=True)),
    "gptq_8": (GPTQ | {"bits": 8}, gptq(8, middle=True)),
    "gptq_8_zeros": (GPTQ | {"bits": 8}, gptq(8)),
    "gptq_3": (GPTQ | {"bits": 3}, gptq(3)),
    "ct_packed": (CT, compressed("pack-quantized", scheme("group", 4, group_size=32), grouped)),
    "ct_zeros": (CT, compressed("pack-quantized", scheme("group", 4, group_size=32, symmetric=False), with_zeros)),
    "ct_int8": (CT, compressed("int-quantized", scheme("channel", 8), by_row)),
    "ct_float8": (CT, compressed("float-quantized", scheme("channel", 8, "float"), by_row)),
    "ct_nvfp4": (CT, compressed("nvfp4-pack-quantized", scheme("tensor_group", 4, "float", group_size=16), nvidia)),
    "modelopt": ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, modelopt),
    "hqq": ({"quant_method": "hqq"}, hqq(4, 1, torch.float16)),
    "hqq_3": ({"quant_method": "hqq"}, hqq(3, 0, torch.bfloat16)),
    "ct_mxfp4": (CT, compressed("mxfp4-pack-quantized", scheme("group", 4, "float", group_size=32), microscaling)),
    "fp8_powers": (FP8, of_deepseek),
    "fp8_pairs": (FP8, experts_of_deepseek),
}  # fmt: skip
SIZES = {"gptq_3": (32, 64)}  # the others are 16 x 64
LLAMAS = ("nf4_nested", "awq")


def save(name: str, tensors: dict[str, torch.Tensor], **metadata: Any) -> None:
    texts = {key: json.dumps(value) for key, value in metadata.items()}
    save_file({key: value.contiguous() for key, value in tensors.items()}, HERE / f"{name}.safetensors", texts)


def write_matrix(name: str) -> None:
    config, make = CASES[name]
    rows, columns = SIZES.get(name, (16, 64))
    parts, expected = make(rows, columns)
    assert expected.shape == (rows, columns) and expected.isfinite().all()
    tensors = {f"layer.{key}": value for key, value in parts.items()}
    save(name, tensors | {"expected": expected}, settings={"quantization_config": config})


def write_llama(name: str) -> None:
    config, make = CASES[name]
    model = LlamaForCausalLM(LlamaConfig(**LLAMA)).eval().float()
    tensors = {key: value.clone() for key, value in model.state_dict().items()}
    for path, module in model.named_modules():
        if isinstance(module, torch.nn.Linear) and path != "lm_head":
            parts, weight = make(*module.weight.shape)
            del tensors[f"{path}.weight"]
            tensors |= {f"{path}.{key}": value for key, value in parts.items()}
            module.weight.data = weight.float()
    with torch.no_grad():
        logits = model(torch.tensor([TEXT])).logits[0, -1]
    settings = {"model_type": "llama", **LLAMA, "quantization_config": config}
    save(f"llama_{name}", tensors, settings=settings, logits=[round(float(x), 6) for x in logits])


def main() -> None:
    HERE.mkdir(exist_ok=True)
    torch.manual_seed(0)
    for name in CASES:
        write_matrix(name)
    for name in LLAMAS:
        write_llama(name)


if __name__ == "__main__":
    main()
