"""Makes golden/types.gguf and golden/ggml_blocks.npz with the `gguf` package: every type of metadata and of tensors,
what its blocks mean, and what it makes of numbers.

Run it from the repository's root with the `oracle` extra installed: python tests/formats/make_golden_gguf.py
"""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np

from tests.goldens import write_npz

GOLDEN = Path(__file__).parent / "golden"
LEGACY = ("q4_0", "q4_1", "q5_0", "q5_1", "q8_0")
SHORT = (*LEGACY, "iq4_nl", "mxfp4")
LONG = ("q2_K", "q3_K", "q4_K", "q5_K", "q6_K", "iq4_xs")
IN_FILES = ("iq1_s", "iq1_m", "iq2_xxs", "iq2_xs", "iq2_s", "iq3_xxs", "iq3_s", "tq1_0", "tq2_0", "nvfp4")
# Where the f16 scales lie in a block, and values that they take in turn: ordinary, extreme, infinite, not a number.
HALVES = {
    "q4_0": (0,), "q4_1": (0, 2), "q5_0": (0,), "q5_1": (0, 2), "q8_0": (0,), "iq4_nl": (0,), "iq4_xs": (0,),
    "q2_K": (80, 82), "q3_K": (108,), "q4_K": (0, 2), "q5_K": (0, 2), "q6_K": (208,), "mxfp4": (),
    "iq1_s": (0,), "iq1_m": (), "iq2_xxs": (0,), "iq2_xs": (0,), "iq2_s": (0,), "iq3_xxs": (0,), "iq3_s": (0,),
    "tq1_0": (52,), "tq2_0": (64,), "nvfp4": (),
}  # fmt: skip
SCALES = (0.013, -1.7, 65504.0, 6e-8, 0.0, -6.2e-5, float("inf"), float("nan"))


def random_blocks(kind: str, count: int, generator: np.random.Generator) -> np.ndarray:
    size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind.upper()]][1]
    blocks = generator.integers(0, 256, (count, size), dtype=np.uint8)
    for number, offset in enumerate(HALVES[kind]):
        scales = np.roll(np.array(SCALES, "<f2"), 3 * number)[np.arange(count) % len(SCALES)]
        blocks[:, offset : offset + 2] = scales.view(np.uint8).reshape(count, 2)
    if kind == "mxfp4":
        blocks[:, 0] = np.array([0, 1, 2, 127, 120, 130, 254, 255], np.uint8)[np.arange(count) % 8]
    return blocks


def numbers_to_quantize(generator: np.random.Generator) -> np.ndarray:
    """Rows of two blocks of very different sizes, with ties, zeros and steps."""
    rows = generator.standard_normal((24, 64)).astype(np.float32)
    rows[:8] *= np.exp2(generator.integers(-149, 120, (8, 1))).astype(np.float32)
    rows[8] = 0
    rows[9] = 5
    rows[10] = np.round(rows[10])
    rows[11] = np.linspace(-3.4e38, 3.4e38, 64)
    rows[12] = (np.arange(64) - 32) / 2
    rows[12, [0, 32]] = 127
    rows[13] = 1e-45
    rows[14] = 7e4
    return rows


def make_file(blocks: dict[str, np.ndarray], path: Path) -> None:
    writer = gguf.GGUFWriter(str(path), "llama")
    kinds = gguf.GGUFValueType
    numbers = {
        "uint8": 200, "int8": -100, "uint16": 60000, "int16": -30000, "uint32": 4_000_000_000, "int32": -2_000_000_000,
        "float32": 1.5, "uint64": 2**63 + 1, "int64": -(2**62), "float64": 1e300, "bool": True,
    }  # fmt: skip
    for name, value in numbers.items():
        writer.add_key_value(f"test.{name}", value, kinds[name.upper()])
    writer.add_string("test.string", "na\u00efve \u65e5\u672c")
    writer.add_array("test.strings", ["a", "", "\u2581the"])
    writer.add_array("test.floats", [0.5, -2.0])
    writer.add_array("test.ints", [1, -2, 3])
    writer.add_array("test.bools", [True, False])
    writer.add_block_count(2)
    writer.add_layer_norm_rms_eps(1e-5)
    for name in ("float32", "float16", "float64", "int8", "int16", "int32", "int64"):
        writer.add_tensor(f"dense.{name}", np.arange(6).reshape(2, 3).astype(name))
    bits = np.arange(0x3F80, 0x3F86, dtype="<u2").view(np.uint8).reshape(2, 6)
    writer.add_tensor("dense.bfloat16", bits, raw_dtype=gguf.GGMLQuantizationType.BF16)
    writer.add_tensor("cube", np.arange(24, dtype=np.float32).reshape(2, 3, 4))
    for kind, data in blocks.items():
        writer.add_tensor(f"blocks.{kind}", data.reshape(2, -1), raw_dtype=gguf.GGMLQuantizationType[kind.upper()])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main() -> None:
    generator = np.random.default_rng(4)
    blocks = {kind: random_blocks(kind, 16 if kind in SHORT else 8, generator) for kind in (*SHORT, *LONG)}
    more = np.random.default_rng(5)
    blocks |= {kind: random_blocks(kind, 8, more) for kind in IN_FILES}
    make_file(blocks, GOLDEN / "types.gguf")
    arrays = {"numbers": numbers_to_quantize(generator)}
    with np.errstate(all="ignore"):
        for kind, data in blocks.items():
            arrays[kind] = gguf.quants.dequantize(data.reshape(2, -1), gguf.GGMLQuantizationType[kind.upper()])
        for kind in LEGACY:
            kinds = gguf.GGMLQuantizationType[kind.upper()]
            arrays[f"quantized_{kind}"] = gguf.quants.quantize(arrays["numbers"], kinds)
    write_npz(GOLDEN / "ggml_blocks.npz", arrays)


if __name__ == "__main__":
    main()
    for name in ("types.gguf", "ggml_blocks.npz"):
        print(f"{(GOLDEN / name).stat().st_size:8,}  {name}")
