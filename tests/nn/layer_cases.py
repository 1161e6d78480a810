"""Cases for make_golden_layers.py (torch) and test_layers_list.py (pyapp), independent of both."""

from __future__ import annotations

import numpy as np

from .training_cases import Case, values

IDS = np.array([[1, 4, 4, 0], [2, 0, 3, 3]], np.int64)
FLAT = np.array([1, 4, 4, 0, 2, 0, 3], np.int64)

LAYERS = {
    "conv1d": Case(
        "Conv1d", {"in_channels": 4, "out_channels": 6, "kernel_size": 3, "groups": 2}, [values(0, 2, 4, 7)]
    ),
    "conv1d same": Case(
        "Conv1d", {"in_channels": 2, "out_channels": 3, "kernel_size": 4, "padding": "same"}, [values(1, 2, 2, 7)]
    ),
    "conv2d reflect": Case(
        "Conv2d",
        {"in_channels": 2, "out_channels": 3, "kernel_size": (3, 2), "padding": (1, 2), "padding_mode": "reflect"},
        [values(2, 2, 2, 5, 6)],
    ),
    "conv2d circular": Case(
        "Conv2d",
        {
            "in_channels": 2, "out_channels": 3, "kernel_size": 4, "padding": "same", "padding_mode": "circular",
            "bias": False,
        },
        [values(3, 1, 2, 5, 6)],
    ),
    "conv3d": Case(
        "Conv3d",
        {"in_channels": 1, "out_channels": 2, "kernel_size": 2, "stride": (1, 2, 1)},
        [values(4, 1, 1, 3, 4, 3)],
    ),
    "transpose1d": Case(
        "ConvTranspose1d", {"in_channels": 3, "out_channels": 2, "kernel_size": 3, "stride": 2}, [values(5, 2, 3, 4)]
    ),
    "transpose2d": Case(
        "ConvTranspose2d",
        {
            "in_channels": 4, "out_channels": 6, "kernel_size": 3, "stride": 2, "padding": 1, "output_padding": 1,
            "groups": 2, "dilation": 2,
        },
        [values(6, 2, 4, 3, 2)],
    ),
    "transpose2d size": Case(
        "ConvTranspose2d",
        {"in_channels": 2, "out_channels": 1, "kernel_size": 3, "stride": 3},
        [values(7, 1, 2, 3, 2)],
        {"output_size": [11, 8]},
    ),
    "transpose3d": Case(
        "ConvTranspose3d", {"in_channels": 2, "out_channels": 1, "kernel_size": 2}, [values(8, 1, 2, 2, 3, 2)]
    ),
    "instance norm": Case("InstanceNorm2d", {"num_features": 3, "affine": True}, [values(9, 2, 3, 4, 3)]),
    "instance norm tracked": Case(
        "InstanceNorm1d", {"num_features": 3, "track_running_stats": True}, [values(10, 2, 3, 5)]
    ),
    "instance norm evaluated": Case(
        "InstanceNorm1d", {"num_features": 3, "track_running_stats": True}, [values(11, 2, 3, 5)], {}, False
    ),
    "instance norm unbatched": Case("InstanceNorm3d", {"num_features": 3}, [values(12, 3, 2, 3, 2)]),
    "response norm": Case("LocalResponseNorm", {"size": 2}, [values(13, 2, 4, 3)]),
    "bag mean": Case("EmbeddingBag", {"num_embeddings": 5, "embedding_dim": 3}, [IDS]),
    "bag max": Case(
        "EmbeddingBag", {"num_embeddings": 5, "embedding_dim": 3, "mode": "max", "padding_idx": 0}, [IDS]
    ),
    "bag offsets": Case(
        "EmbeddingBag",
        {"num_embeddings": 5, "embedding_dim": 3, "mode": "sum"},
        [FLAT],
        {"offsets": np.array([0, 3, 3], np.int64), "per_sample_weights": values(14, 7)},
    ),
    "bag last": Case(
        "EmbeddingBag",
        {"num_embeddings": 5, "embedding_dim": 3, "include_last_offset": True, "padding_idx": 4},
        [FLAT],
        {"offsets": np.array([0, 3, 7], np.int64)},
    ),
    "max pool": Case(
        "MaxPool2d", {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True}, [values(15, 2, 3, 6, 5)]
    ),
    "adaptive pool": Case("AdaptiveAvgPool2d", {"output_size": (3, None)}, [values(16, 2, 3, 6, 5)]),
    "upsample": Case("Upsample", {"scale_factor": 2, "mode": "bilinear"}, [values(17, 1, 2, 3, 4)]),
    "reflection": Case("ReflectionPad2d", {"padding": (1, 2, 0, 1)}, [values(18, 1, 2, 3, 4)]),
    "zero": Case("ZeroPad1d", {"padding": 2}, [values(19, 2, 3, 4)]),
    "constant": Case("ConstantPad1d", {"padding": (2, 0), "value": 0.5}, [values(20, 2, 3, 4)]),
    "fold": Case("Fold", {"output_size": (4, 5), "kernel_size": 2}, [values(21, 1, 8, 12)]),
    "unflatten": Case("Unflatten", {"dim": 1, "unflattened_size": (2, 3)}, [values(22, 2, 6)]),
    "prelu": Case("PReLU", {"num_parameters": 3}, [values(23, 2, 3, 4)]),
    "gelu": Case("GELU", {"approximate": "tanh"}, [values(24, 2, 3)]),
    "hardtanh": Case("Hardtanh", {"min_val": -0.2, "max_val": 0.5}, [values(25, 2, 3)]),
}  # fmt: skip

# (T, N, C), targets, lengths of inputs and targets, settings
CTC = {
    "plain": (values(30, 8, 3, 5), np.array([[1, 2, 2], [3, 1, 4], [2, 0, 0]], np.int64), [8, 7, 5], [3, 2, 1], {}),
    "joined": (
        values(31, 8, 3, 5), np.array([1, 2, 2, 3, 1, 2], np.int64), [8, 7, 5], [3, 2, 1], {"reduction": "none"}
    ),
    "blank last": (
        values(32, 6, 2, 4), np.array([[0, 0], [1, 2]], np.int64), [6, 6], [2, 0], {"blank": 3, "reduction": "sum"}
    ),
    "too short": (
        values(33, 4, 2, 4), np.array([[1, 1, 1], [1, 2, 3]], np.int64), [4, 4], [3, 3], {"zero_infinity": True}
    ),
    "blanks among the labels": (
        values(35, 9, 3, 4), np.array([[1, 0, 2], [0, 0, 3], [2, 0, 2]], np.int64), [9, 8, 7], [3, 3, 3],
        {"reduction": "none"},
    ),
    "unbatched": (values(34, 6, 4), np.array([1, 3], np.int64), 6, 2, {}),
}  # fmt: skip
