"""Writes golden/runtime.bin: operators of onnxruntime and ai.onnx.ml, with what onnxruntime computes.

python -m tests.onnx.make_golden_runtime      (needs the packages onnx and onnxruntime)
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from .make_golden_suite import pack

GOLDEN = Path(__file__).parent / "golden" / "runtime.bin"
MS, ML = "com.microsoft", "ai.onnx.ml"
RNG = np.random.RandomState(7)
CASES: list[dict[str, Any]] = []


def normal(*shape: int) -> Any:
    return RNG.randn(*shape).astype(np.float32)


def whole(kind: Any, low: int, high: int, *shape: int) -> Any:
    return RNG.randint(low, high, shape).astype(kind)


def case(
    op: str, inputs: list[Any], outputs: int | list[str] = 1, *, domain: str = MS, name: str = "",
        constant: tuple[int, ...] = (),
    rtol: float = 1e-3, atol: float = 1e-5, types: Any = None, **attributes: Any,
) -> None:  # fmt: skip
    """Runs one node by onnxruntime. `constant`: the inputs that are tensors of the file."""
    names = [f"x{at}" if x is not None else "" for at, x in enumerate(inputs)]
    outs = [f"y{at}" for at in range(outputs)] if isinstance(outputs, int) else outputs
    node = helper.make_node(op, names, outs, domain=domain, **attributes)
    arrays = {
        n: np.asarray(x, object if np.asarray(x).dtype.kind == "U" else None)
        for n, x in zip(names, inputs, strict=True)
        if n
    }
    weights = [numpy_helper.from_array(arrays[f"x{at}"], f"x{at}") for at in constant]

    def info(n: str) -> Any:
        kind = TensorProto.STRING if arrays[n].dtype == object else helper.np_dtype_to_tensor_dtype(arrays[n].dtype)
        return helper.make_tensor_value_info(n, kind, arrays[n].shape)

    free = [n for n in arrays if int(n[1:]) not in constant]
    graph = helper.make_graph(
        [node], name or op, [info(n) for n in free],
        [helper.make_empty_tensor_value_info(n) for n in outs if n], weights,
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid(MS, 1), helper.make_opsetid(ML, 3)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    data = model.SerializeToString()
    if "--verbose" in sys.argv:
        print(name or op, attributes)
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    found = session.run(None, {n: arrays[n] for n in free})
    encoded = [
        numpy_helper.from_array(np.asarray(x, object if np.asarray(x).dtype.kind in "OU" else None)).SerializeToString()
        for x in found
    ]
    sets = [([numpy_helper.from_array(arrays[n]).SerializeToString() for n in free], encoded)]
    CASES.append({"kind": domain, "name": name or op, "model": data, "sets": sets, "rtol": rtol, "atol": atol})


def attention_cases() -> None:
    x = normal(2, 5, 16)
    case("Attention", [x, normal(16, 48), normal(48)], 2, name="attention", num_heads=4)
    case("Attention", [x, normal(16, 48), normal(48)], ["y"], name="attention causal", num_heads=4, unidirectional=1)
    mask = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)
    case("Attention", [x, normal(16, 48), normal(48), mask], ["y"], name="attention mask", num_heads=4)
    lengths = np.array([3, 5], np.int32)
    case("Attention", [x, normal(16, 48), normal(48), lengths], ["y"], name="attention lengths", num_heads=4)
    past = normal(2, 2, 4, 3, 4)
    case(
        "Attention",
        [x, normal(16, 48), normal(48), None, past],
        2,
        name="attention past",
        num_heads=4,
        unidirectional=1,
    )
    q, k, v = normal(2, 3, 16), normal(2, 6, 16), normal(2, 6, 16)
    case("MultiHeadAttention", [q, k, v], ["y"], name="heads", num_heads=4)
    case("MultiHeadAttention", [q, k, v, normal(48)], ["y"], name="heads bias", num_heads=4)
    case("MultiHeadAttention", [q, k, v, None, np.array([4, 6], np.int32)], ["y"], name="heads lengths", num_heads=4)
    case(
        "MultiHeadAttention",
        [q, k, v, None, None, normal(2, 4, 3, 6)],
        ["y"],
        name="heads added",
        num_heads=4,
        scale=0.3,
    )
    case(
        "MultiHeadAttention", [q, normal(2, 3, 16), normal(2, 3, 16), None, None, None, normal(2, 4, 5, 4), normal(2,
            4, 5, 4)],
        3, name="heads past", num_heads=4,
    )  # fmt: skip
    case("MultiHeadAttention", [q, normal(2, 4, 6, 4), normal(2, 4, 6, 4)], ["y"], name="heads cross", num_heads=4)
    angles = np.outer(np.arange(32), 10.0 ** -np.arange(4))
    cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
    angles = np.outer(np.arange(32), 10.0 ** (-np.arange(8) / 2))
    wide_cos, wide_sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
    positions = np.array([[3, 4, 5], [0, 1, 2]], np.int64)
    for interleaved in (0, 1):
        case(
            "RotaryEmbedding",
            [normal(2, 3, 24), positions, cos, sin],
            name=f"rotary {interleaved}",
            interleaved=interleaved,
        )
        case(
            "RotaryEmbedding", [normal(2, 3, 3, 8), np.array([2], np.int64), cos, sin],
                name=f"rotary heads {interleaved}",
            interleaved=interleaved,
        )  # fmt: skip
    case(
        "RotaryEmbedding",
        [normal(2, 3, 36), positions, cos, sin],
        name="rotary part",
        num_heads=3,
        rotary_embedding_dim=8,
    )
    for name, extra in {
        "plain": {}, "rotary": {"do_rotary": 1}, "window": {"local_window_size": 3}, "cap": {"softcap": 5.0},
        "interleaved": {"do_rotary": 1, "rotary_interleaved": 1}, "scale": {"scale": 0.2},
    }.items():  # fmt: skip
        tables = [wide_cos, wide_sin] if "do_rotary" in extra else [None, None]
        case(
            "GroupQueryAttention",
            [normal(2, 5, 64), normal(2, 5, 32), normal(2, 5, 32), None, None, np.array([4, 4], np.int32), np.array(5,
                np.int32), *tables],
            3, name=f"grouped prompt {name}", num_heads=4, kv_num_heads=2, **extra,
        )  # fmt: skip
        case(
            "GroupQueryAttention",
            [normal(2, 1, 64), normal(2, 1, 32), normal(2, 1, 32), normal(2, 2, 6, 16), normal(2, 2, 6, 16),
             np.array([6, 6], np.int32), np.array(7, np.int32), *tables],
            3, name=f"grouped step {name}", num_heads=4, kv_num_heads=2, **extra,
        )  # fmt: skip
    case(
        "GroupQueryAttention", [normal(1, 4, 128), None, None, None, None, np.array([3], np.int32), np.array(4,
            np.int32), wide_cos, wide_sin],
        3, name="grouped packed", num_heads=4, kv_num_heads=2, do_rotary=1,
    )  # fmt: skip


def layer_cases() -> None:
    x, skip, gamma, beta, bias = normal(2, 3, 8), normal(2, 3, 8), normal(8), normal(8), normal(8)
    case("SkipLayerNormalization", [x, skip, gamma, beta, bias], ["y", "", "", "s"], name="skip norm", epsilon=1e-5)
    case("SkipLayerNormalization", [x, skip, gamma], ["y"], name="skip norm plain", epsilon=1e-5)
    case("SkipSimplifiedLayerNormalization", [x, skip, gamma], ["y", "", "", "s"], name="skip rms norm", epsilon=1e-5)
    case("SkipSimplifiedLayerNormalization", [x, skip, gamma, bias], ["y"], name="skip rms norm bias", epsilon=1e-5)
    case(
        "SimplifiedLayerNormalization",
        [x, gamma],
        ["y"],
        domain="",
        name="rms norm",
        epsilon=1e-5,
        axis=-1,
        stash_type=1,
    )
    case(
        "EmbedLayerNormalization",
        [whole(np.int32, 0, 9, 2, 4), whole(np.int32, 0, 2, 2, 4), normal(9, 8), normal(6, 8), normal(2, 8), gamma,
            beta,
         np.array([[1, 1, 1, 0], [1, 1, 1, 1]], np.int32)], 2, name="embeddings", epsilon=1e-5,
    )  # fmt: skip
    case("Gelu", [x], name="gelu")
    case("BiasGelu", [x, bias], name="bias gelu")
    case("FastGelu", [x, bias], name="fast gelu")
    case("FastGelu", [x], name="fast gelu plain")
    case("QuickGelu", [x], name="quick gelu", alpha=1.5)
    case("FusedMatMul", [normal(2, 3, 4), normal(2, 5, 4)], name="fused product", transB=1, alpha=0.5)
    case("FusedMatMul", [normal(2, 4, 3), normal(2, 4, 5)], name="fused product left", transA=1)
    case(
        "FusedConv",
        [normal(1, 2, 5, 5), normal(3, 2, 3, 3), normal(3)],
        name="fused conv",
        activation="Relu",
        pads=[1, 1, 1, 1],
    )
    case(
        "FusedGemm",
        [normal(3, 4), normal(4, 5), normal(5)],
        name="fused gemm",
        activation="LeakyRelu",
        activation_alpha=0.2,
    )


def packed_cases() -> None:
    for bits in (4, 8):
        for block in (16, 32, 64):
            n, k = 6, 96
            blocks = -(-k // block)
            b = whole(np.uint8, 0, 256, n, blocks, block * bits // 8)
            scales = np.abs(normal(n, blocks)) * 0.1
            inputs = [normal(2, 3, k), b, scales]
            attributes = {"K": k, "N": n, "bits": bits, "block_size": block}
            case("MatMulNBits", inputs, name=f"{bits} bits {block}", constant=(1, 2), **attributes)
            zero = whole(np.uint8, 0, 256, n, -(-blocks * bits // 8))
            case("MatMulNBits", [*inputs, zero], name=f"{bits} bits {block} zero", constant=(1, 2, 3), **attributes)
            case(
                "MatMulNBits",
                inputs,
                name=f"{bits} bits {block} exact",
                constant=(1, 2),
                accuracy_level=1,
                **attributes,
            )
            if bits == 4:
                case(
                    "MatMulNBits", [*inputs, zero, None, normal(n)], name=f"{bits} bits {block} bias", constant=(1, 2,
                        3, 5),
                    **attributes,
                )  # fmt: skip
    data = whole(np.uint8, 0, 256, 7, 32)
    scales = np.abs(normal(7, 2))
    index = np.array([[0, 6], [3, 3]], np.int64)
    case(
        "GatherBlockQuantized",
        [data, index, scales],
        name="gathered",
        block_size=32,
        quantize_axis=1,
        bits=4,
        constant=(0, 2),
    )
    case(
        "GatherBlockQuantized", [data, index, scales, whole(np.uint8, 0, 256, 7, 1)], name="gathered zero",
            block_size=32,
        quantize_axis=1, bits=4, constant=(0, 2, 3),
    )  # fmt: skip
    a, b = whole(np.uint8, 0, 256, 3, 8), whole(np.int8, -128, 128, 8, 5)
    one = np.array([0.02], np.float32)
    case("MatMulIntegerToFloat", [a, b, one, np.abs(normal(5))], name="integer product")
    case(
        "MatMulIntegerToFloat", [a, b, one, one, np.array([120], np.uint8), np.array([3], np.int8), normal(5)],
        name="integer product zero",
    )  # fmt: skip
    case(
        "DynamicQuantizeMatMul",
        [normal(3, 8), b, one, np.array([2], np.int8), normal(5)],
        name="dynamic product",
        atol=2e-2,
    )
    u, s, z = whole(np.uint8, 0, 256, 2, 3, 4, 4), np.array(0.05, np.float32), np.array(100, np.uint8)
    t = whole(np.uint8, 0, 256, 2, 3, 4, 4)
    s2, z2 = np.array(0.1, np.float32), np.array(90, np.uint8)
    case("QLinearAdd", [u, s, z, t, s2, z2, s2, z], name="q add")
    case("QLinearMul", [u, s, z, t, s2, z2, np.array(0.5, np.float32), z], name="q mul")
    case(
        "QLinearSigmoid",
        [u, s, z, np.array(1 / 256, np.float32), np.array(0, np.uint8)],
        name="q sigmoid",
        constant=(1, 2, 3, 4),
    )
    case("QLinearLeakyRelu", [u, s, z, s2, z2], name="q leaky", alpha=0.1, constant=(1, 2, 3, 4))
    case("QLinearGlobalAveragePool", [u, s, z, s2, z2], name="q global pool", channels_last=0)
    case("QLinearAveragePool", [u, s, z, s2, z2], name="q pool", kernel_shape=[2, 2])
    case("QLinearConcat", [s2, z2, u, s, z, t, s2, z], name="q concat", axis=1, constant=(0, 1, 3, 4, 6, 7))
    case(
        "QLinearSoftmax",
        [u, s, z, np.array(1 / 256, np.float32), np.array(0, np.uint8)],
        name="q softmax",
        axis=-1,
        opset=13,
    )
    case("QGemm", [a, one[0], np.array(128, np.uint8), b, one[0], np.array(0, np.int8)], name="q gemm", transB=0)


def lstm_cases() -> None:
    """LSTMs with weights of 8 bits. onnxruntime quantises what they are multiplied with too: hence the tolerance."""
    for kind, directions, inputs, hidden, rows in (
        (np.int8, 1, 32, 32, False), (np.int8, 2, 32, 8, True), (np.uint8, 1, 40, 8, False),
    ):  # fmt: skip
        shape = (directions, 4 * hidden) if rows else (directions,)
        low, high, middle = (-127, 128, 0) if kind is np.int8 else (0, 256, 128)
        w, r = (whole(kind, low, high, directions, size, 4 * hidden) for size in (inputs, hidden))
        scales = [(0.001 + 0.002 * RNG.rand(*shape)).astype(np.float32) for _ in range(2)]
        zero = np.full(shape, middle, kind)
        bias, states = (
            normal(directions, 8 * hidden) * np.float32(0.1),
            [normal(directions, 2, hidden) for _ in range(2)],
        )
        lengths = np.array([5, 3], np.int32) if rows else None
        case(
            "DynamicQuantizeLSTM",
            [normal(5, 2, inputs), w, r, bias, lengths, *states, None, scales[0], zero, scales[1], zero], 3,
            name=f"lstm of {np.dtype(kind).name}, {directions} ways, {inputs} inputs", atol=4e-2,
            constant=(1, 2, 3, 8, 9, 10, 11), hidden_size=hidden,
            direction="bidirectional" if directions == 2 else "forward",
        )  # fmt: skip


def table_cases() -> None:
    x = normal(4, 3)
    case("Scaler", [x], domain=ML, name="scaler", offset=[0.1, 0.2, 0.3], scale=[2.0, 3.0, 4.0])
    for norm in ("MAX", "L1", "L2"):
        case("Normalizer", [x], domain=ML, name=f"normalizer {norm}", norm=norm)
    case(
        "Imputer",
        [np.array([[1, np.nan, 3]], np.float32)],
        domain=ML,
        name="imputer",
        imputed_value_floats=[7.0],
        replaced_value_float=float("nan"),
    )
    case("OneHotEncoder", [np.array([[1, 3], [2, 9]], np.int64)], domain=ML, name="one hot", cats_int64s=[1, 2, 3])
    case("FeatureVectorizer", [x, x], domain=ML, name="features", inputdimensions=[3, 3])
    case(
        "LabelEncoder",
        [np.array(["a", "b", "?"])],
        domain=ML,
        name="labels",
        keys_strings=["a", "b"],
        values_int64s=[4, 5],
    )
    case(
        "LinearRegressor",
        [x],
        domain=ML,
        name="linear",
        coefficients=[0.1, 0.2, 0.3, 1.0, 2.0, 3.0],
        intercepts=[0.5, 1.5],
        targets=2,
    )
    for after in ("NONE", "SOFTMAX", "LOGISTIC"):
        case(
            "LinearClassifier", [x], 2, domain=ML, name=f"linear classes {after}", coefficients=normal(9).tolist(),
            intercepts=[0.1, 0.2, 0.3], classlabels_ints=[1, 5, 9], post_transform=after,
        )  # fmt: skip
    case(
        "LinearClassifier", [x], 2, domain=ML, name="linear two", coefficients=normal(6).tolist(), intercepts=[0.1,
            -0.1],
        classlabels_strings=["no", "yes"], post_transform="LOGISTIC",
    )  # fmt: skip
    for kind in ("LINEAR", "RBF", "POLY", "SIGMOID"):
        case(
            "SVMRegressor", [x], domain=ML, name=f"svm {kind}", coefficients=normal(4).tolist(), kernel_type=kind,
            kernel_params=[0.3, 0.1, 2.0], n_supports=4, rho=[0.2], support_vectors=normal(12).tolist(),
        )  # fmt: skip
        case(
            "SVMClassifier", [x], 2, domain=ML, name=f"svm classes {kind}", coefficients=normal(12).tolist(),
                kernel_type=kind,
            kernel_params=[0.3, 0.1, 2.0], vectors_per_class=[2, 2, 2], rho=[0.2, 0.1, -0.3], classlabels_ints=[0, 1,
                2],
            support_vectors=normal(18).tolist(), prob_a=[-1.0, -0.8, -1.2], prob_b=[0.1, 0.0, -0.1],
        )  # fmt: skip
    tree = {
        "nodes_treeids": [0, 0, 0, 0, 0, 1, 1, 1], "nodes_nodeids": [0, 1, 2, 3, 4, 0, 1, 2],
        "nodes_featureids": [0, 1, 0, 0, 0, 2, 0, 0], "nodes_values": [0.1, -0.2, 0, 0, 0, 0.3, 0, 0],
        "nodes_modes": ["BRANCH_LEQ", "BRANCH_GT", "LEAF", "LEAF", "LEAF", "BRANCH_LT", "LEAF", "LEAF"],
        "nodes_truenodeids": [1, 3, 0, 0, 0, 1, 0, 0], "nodes_falsenodeids": [2, 4, 0, 0, 0, 2, 0, 0],
    }  # fmt: skip
    votes = {"treeids": [0, 0, 0, 1, 1], "nodeids": [2, 3, 4, 1, 2]}
    for how in ("SUM", "AVERAGE", "MIN", "MAX"):
        case(
            "TreeEnsembleRegressor", [x], domain=ML, name=f"trees {how}", **tree, aggregate_function=how, n_targets=1,
            target_treeids=votes["treeids"], target_nodeids=votes["nodeids"], target_ids=[0] * 5,
            target_weights=[0.5, 1.5, -0.5, 2.0, 1.0], base_values=[0.25],
        )  # fmt: skip
    for after in ("NONE", "SOFTMAX"):
        case(
            "TreeEnsembleClassifier", [x], 2, domain=ML, name=f"tree classes {after}", **tree, post_transform=after,
            class_treeids=votes["treeids"], class_nodeids=votes["nodeids"], class_ids=[0, 1, 2, 1, 0],
            class_weights=[0.5, 1.5, 0.4, 2.0, 1.0], classlabels_int64s=[10, 20, 30],
        )  # fmt: skip
    case(
        "TreeEnsembleClassifier", [x], 2, domain=ML, name="tree two", **tree, post_transform="LOGISTIC",
        class_treeids=votes["treeids"], class_nodeids=votes["nodeids"], class_ids=[0] * 5,
        class_weights=[0.5, -1.5, 0.4, -2.0, 1.0], classlabels_strings=["no", "yes"],
    )  # fmt: skip


if __name__ == "__main__":
    for make in (attention_cases, layer_cases, packed_cases, table_cases, lstm_cases):
        make()
    pack(CASES, GOLDEN)
