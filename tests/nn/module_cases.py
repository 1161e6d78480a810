"""What make_golden_modules.py (torch) and test_modules_list.py (pyapp) run, and tests/oracle on both; described without
either.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .layer_cases import FLAT, IDS
from .training_cases import Case, classes, later, probabilities, signs, values

CELL = {"input_size": 3, "hidden_size": 4}
WHOLE = {
    "d_model": 8, "nhead": 2, "num_encoder_layers": 1, "num_decoder_layers": 2, "dim_feedforward": 6, "dropout": 0.0
}  # fmt: skip
PADDED = np.array([[False, False, True], [False, True, True]])
BAG = {"num_embeddings": 5, "embedding_dim": 3}
OFFSETS = {"offsets": np.array([0, 3, 3], np.int64)}
LABELS = np.array([[2, 0, -1, 3], [1, -1, 2, 2], [-1, 0, 1, 2]], np.int64)
COUNTS = np.round(4 * probabilities(44, 3, 4))

MODULES = {
    "rnn cell": Case("RNNCell", CELL, [values(0, 2, 3), values(1, 2, 4)]),
    "rnn cell relu": Case("RNNCell", {**CELL, "nonlinearity": "relu", "bias": False}, [values(2, 3)]),
    "gru cell": Case("GRUCell", CELL, [values(3, 2, 3), values(4, 2, 4)]),
    "gru cell alone": Case("GRUCell", {**CELL, "bias": False}, [values(5, 3)]),
    "lstm cell": Case("LSTMCell", CELL, [values(6, 2, 3)]),
    "transformer": Case(
        "Transformer",
        {**WHOLE, "batch_first": True, "norm_first": True, "activation": "gelu"},
        [values(8, 2, 3, 8), values(9, 2, 4, 8)],
        {"src_key_padding_mask": PADDED, "memory_key_padding_mask": PADDED, "tgt_mask": later(4)},
    ),
    "transformer alone": Case("Transformer", {**WHOLE, "bias": False}, [values(10, 3, 8), values(11, 2, 8)]),
    "embedding": Case(
        "Embedding", {**BAG, "max_norm": 1.2, "norm_type": 1.0, "scale_grad_by_freq": True, "padding_idx": 4}, [IDS]
    ),
    "bag of limited rows": Case("EmbeddingBag", {**BAG, "max_norm": 0.7, "padding_idx": 1}, [FLAT], OFFSETS),
    "max pool with places": Case(
        "MaxPool1d", {"kernel_size": 3, "stride": 2, "padding": 1, "return_indices": True}, [values(12, 2, 3, 7)]
    ),
    "average pool": Case(
        "AvgPool2d", {"kernel_size": 2, "padding": 1, "count_include_pad": False}, [values(13, 2, 3, 5, 4)]
    ),
    "norm pool": Case("LPPool3d", {"norm_type": 2, "kernel_size": 2}, [np.abs(values(14, 1, 2, 4, 3, 5))]),
    "prelu": Case("PReLU", {"num_parameters": 3, "init": 0.1}, [values(15, 2, 3, 4)]),
    "rrelu": Case("RReLU", {"lower": 0.2, "upper": 0.4}, [values(16, 2, 3)], {}, False),
    "threshold": Case("Threshold", {"threshold": 0.1, "value": 2.0}, [values(17, 2, 5)]),
    "softmax of channels": Case("Softmax2d", {}, [values(18, 2, 3, 2, 2)]),
    "log softmax": Case("LogSoftmax", {"dim": 1}, [values(19, 2, 3, 2)]),
    "channels": Case("ChannelShuffle", {"groups": 2}, [values(20, 1, 6, 2, 2)]),
    "nearest": Case("UpsamplingNearest2d", {"scale_factor": 2}, [values(21, 1, 2, 2, 3)]),
    "bilinear": Case("UpsamplingBilinear2d", {"size": (4, 5)}, [values(22, 1, 2, 2, 3)]),
    "cosine": Case("CosineSimilarity", {"dim": -1}, [values(23, 4, 5), values(24, 4, 5)]),
    "distance": Case("PairwiseDistance", {"p": 3.0, "keepdim": True}, [values(25, 4, 5), values(26, 4, 5)]),
    "without bias": Case("GroupNorm", {"num_groups": 2, "num_channels": 4, "bias": False}, [values(27, 2, 4, 3)]),
    "circular": Case("CircularPad2d", {"padding": (1, 2, 0, 1)}, [values(28, 1, 2, 3, 4)]),
    "replication": Case("ReplicationPad3d", {"padding": 1}, [values(29, 1, 2, 2, 3, 2)]),
    "adaptive softmax": Case(
        "AdaptiveLogSoftmaxWithLoss",
        {"in_features": 6, "n_classes": 9, "cutoffs": [3, 6], "div_value": 2.0, "head_bias": True},
        [values(30, 5, 6), np.array([0, 2, 4, 8, 3], np.int64)],
    ),
}

# Functions of torch.nn.functional with a reduction: name, arguments, settings.
LOSSES: dict[str, tuple[str, list[np.ndarray], dict[str, Any]]] = {
    "weighted mse": ("mse_loss", [values(40, 3, 4), values(41, 3, 4)], {"weight": probabilities(42, 3, 4)}),
    "weighted huber": ("huber_loss", [values(40, 3, 4), values(41, 3, 4)], {"weight": probabilities(42, 3, 4)}),
    "poisson": ("poisson_nll_loss", [values(43, 3, 4)], {"target": COUNTS, "full": True}),
    "poisson rates": (
        "poisson_nll_loss", [np.abs(values(45, 3, 4))], {"target": COUNTS, "log_input": False}
    ),
    "gauss": (
        "gaussian_nll_loss", [values(47, 3, 4), values(48, 3, 4)], {"var": probabilities(49, 3, 4), "full": True}
    ),
    "gauss by row": ("gaussian_nll_loss", [values(47, 3, 4), values(48, 3, 4)], {"var": probabilities(50, 3)}),
    "gauss of a number": ("gaussian_nll_loss", [values(47, 3, 4), values(48, 3, 4)], {"var": 0.5}),
    "soft margin": ("soft_margin_loss", [values(51, 3, 4)], {"target": signs(3, 4)}),
    "soft labels": (
        "multilabel_soft_margin_loss", [values(52, 3, 4), probabilities(53, 3, 4).round()],
        {"weight": np.array([0.5, 2.0, 1.0, 0.0], np.float32)},
    ),
    "labels": ("multilabel_margin_loss", [values(54, 3, 4), LABELS], {}),
    "labels of one": ("multilabel_margin_loss", [values(55, 4), LABELS[0]], {}),
    "multi margin": ("multi_margin_loss", [values(56, 4, 3), classes(8, 3, 4)], {"p": 2, "margin": 0.4}),
    "triplet": ("triplet_margin_loss", [values(i, 4, 5) for i in (57, 58, 59)], {"margin": 0.7, "swap": True}),
    "triplet p": ("triplet_margin_loss", [values(i, 4, 5) for i in (57, 58, 59)], {"p": 3.0}),
    "triplet alone": ("triplet_margin_with_distance_loss", [values(i, 5) for i in (60, 61, 62)], {"margin": 2.0}),
}  # fmt: skip

ATTENTION = {
    "embed_dim_to_check": 4, "num_heads": 2, "in_proj_weight": values(85, 12, 4), "in_proj_bias": None, "bias_k": None,
    "bias_v": None, "add_zero_attn": False, "dropout_p": 0.0, "out_proj_weight": values(87, 4, 4),
    "out_proj_bias": None,
}  # fmt: skip
# Other functions of torch.nn.functional: name, arguments, settings.
FUNCTIONS: dict[str, tuple[str, list[np.ndarray], dict[str, Any]]] = {
    "fractional pool": (
        "fractional_max_pool2d",
        [values(70, 2, 3, 7, 6)],
        {"kernel_size": (2, 3), "output_size": (4, 3), "_random_samples": probabilities(71, 2, 3, 2)},
    ),
    "fractional pool 3d": (
        "fractional_max_pool3d",
        [values(72, 1, 2, 5, 6, 7)],
        {"kernel_size": 2, "output_ratio": (0.7, 0.5, 0.5), "_random_samples": probabilities(73, 1, 2, 3)},
    ),
    "relu in place": ("relu", [values(74, 3, 4)], {"inplace": True}),
    "leaky relu in place": ("leaky_relu", [values(75, 3, 4)], {"negative_slope": 0.3, "inplace": True}),
    "elu in place": ("elu", [values(76, 3, 4)], {"alpha": 0.5, "inplace": True}),
    "hardtanh in place": ("hardtanh", [values(77, 3, 4)], {"inplace": True}),
    "silu in place": ("silu", [values(78, 3, 4)], {"inplace": True}),
    "threshold in place": ("threshold", [values(79, 3, 4)], {"threshold": 0.2, "value": 7.0, "inplace": True}),
    "softmax in another dtype": ("softmax", [values(80, 3, 4)], {"dim": 0, "dtype": "float64"}),
    "attention": (
        "multi_head_attention_forward",
        [values(81 + i, 3, 2, 4) for i in range(3)],
        {**ATTENTION, "add_zero_attn": True, "in_proj_bias": values(86, 12), "attn_mask": later(3)},
    ),
    "attention to fixed keys": (
        "multi_head_attention_forward",
        [values(91 + i, 3, 2, 4) for i in range(3)],
        {
            **ATTENTION,
            "out_proj_bias": values(98, 4),
            "static_k": values(99, 4, 5, 2),
            "static_v": values(100, 4, 5, 2),
        },
    ),
}

# Recurrent layers over packed sequences: class, settings, whether the lengths fall, with a first state.
PACKED: dict[str, tuple[str, dict[str, Any], list[int], bool]] = {
    "gru": ("GRU", {**CELL, "num_layers": 2, "bidirectional": True}, [5, 3, 3, 1], True),
    "lstm": ("LSTM", {**CELL, "proj_size": 2, "bidirectional": True}, [2, 5, 1], True),
    "rnn": ("RNN", {**CELL, "batch_first": True}, [3, 4], False),
}

# Like training_cases.MOMENT_OPTIMIZERS and SCHEDULES.
OPTIMIZERS: dict[str, tuple[str, dict[str, Any]]] = {
    "adadelta": ("Adadelta", {"lr": 0.7, "rho": 0.8, "weight_decay": 0.02}),
    "adamax": ("Adamax", {"lr": 0.02, "betas": (0.8, 0.95)}),
    "nadam": ("NAdam", {"lr": 0.01, "weight_decay": 0.02, "momentum_decay": 0.01}),
    "radam": ("RAdam", {"lr": 0.02, "betas": (0.8, 0.9), "weight_decay": 0.02, "decoupled_weight_decay": True}),
    "asgd": ("ASGD", {"lr": 0.05, "lambd": 0.01, "t0": 2, "weight_decay": 0.02}),
    "rprop": ("Rprop", {"lr": 0.02, "step_sizes": (1e-3, 0.05)}),
    "adafactor": ("Adafactor", {"lr": 0.05, "weight_decay": 0.02}),
    "adamw amsgrad": ("AdamW", {"lr": 0.01, "amsgrad": True, "maximize": True}),
    "sgd up": ("SGD", {"lr": 0.01, "momentum": 0.9, "maximize": True}),
}
SCHEDULES: dict[str, tuple[str, dict[str, Any]]] = {
    "constant": ("ConstantLR", {"factor": 0.5, "total_iters": 3}),
    "polynomial": ("PolynomialLR", {"total_iters": 9, "power": 1.5}),
    "restarts": ("CosineAnnealingWarmRestarts", {"T_0": 3, "T_mult": 2, "eta_min": 0.02}),
    "cycles": ("CyclicLR", {"base_lr": 0.05, "max_lr": 0.4, "step_size_up": 3, "step_size_down": 5}),
    "lower cycles": ("CyclicLR", {"base_lr": 0.05, "max_lr": 0.4, "step_size_up": 3, "mode": "triangular2"}),
    "falling cycles": (
        "CyclicLR", {"base_lr": 0.05, "max_lr": 0.4, "step_size_up": 4, "mode": "exp_range", "gamma": 0.9}
    ),
}  # fmt: skip
