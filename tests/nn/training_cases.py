"""What make_golden_training.py (torch) and the tests of layers, losses, optimisers and schedules (pyapp) run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np


def values(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def probabilities(seed: int, *shape: int) -> np.ndarray:
    e = np.exp(values(seed, *shape))
    return (e / e.sum(-1, keepdims=True)).astype(np.float32)


def classes(seed: int, count: int, *shape: int, ignored: int | None = None) -> np.ndarray:
    found = np.random.default_rng(seed).integers(0, count, shape, dtype=np.int64)
    if ignored is not None:
        found.reshape(-1)[1] = ignored
    return found


def signs(*shape: int) -> np.ndarray:
    return np.where(np.arange(int(np.prod(shape))) % 3 == 1, -1, 1).astype(np.float32).reshape(shape)


def later(rows: int, columns: int | None = None) -> np.ndarray:
    """True where the second position is after the first."""
    return np.triu(np.ones((rows, columns or rows), bool), 1)


class Case(NamedTuple):
    kind: str
    settings: dict[str, Any]
    inputs: list[np.ndarray]
    options: dict[str, Any] = {}
    training: bool = True


BOTH = {"num_layers": 2, "bidirectional": True}
PADDING = np.array([[False, False, True], [False, False, False]])
LAYER = {"d_model": 8, "nhead": 2, "dim_feedforward": 6, "dropout": 0.0}

MODULES = {
    "rnn": Case("RNN", {"input_size": 3, "hidden_size": 4}, [values(0, 5, 2, 3)]),
    "rnn relu": Case("RNN", {"input_size": 3, "hidden_size": 4, "nonlinearity": "relu", **BOTH}, [values(1, 4, 2, 3)]),
    "lstm": Case("LSTM", {"input_size": 3, "hidden_size": 4, "bias": False}, [values(2, 5, 2, 3)]),
    "lstm both": Case("LSTM", {"input_size": 3, "hidden_size": 4, "batch_first": True, **BOTH}, [values(3, 2, 5, 3)]),
    "lstm projected": Case("LSTM", {"input_size": 3, "hidden_size": 4, "proj_size": 2, **BOTH}, [values(4, 3, 2, 3)]),
    "lstm unbatched": Case("LSTM", {"input_size": 3, "hidden_size": 4}, [values(5, 5, 3)]),
    "gru": Case("GRU", {"input_size": 3, "hidden_size": 4}, [values(6, 5, 2, 3), values(7, 1, 2, 4)]),
    "gru both": Case("GRU", {"input_size": 3, "hidden_size": 4, **BOTH}, [values(8, 4, 2, 3)]),
    "attention": Case(
        "MultiheadAttention", {"embed_dim": 8, "num_heads": 2}, [values(i, 3, 2, 8) for i in (9, 10, 11)]
    ),
    "attention masks": Case(
        "MultiheadAttention",
        {"embed_dim": 8, "num_heads": 2, "batch_first": True},
        [values(i, 2, 3, 8) for i in (12, 13, 14)],
        {"attn_mask": later(3), "key_padding_mask": PADDING},
    ),
    "attention sizes": Case(
        "MultiheadAttention",
        {"embed_dim": 8, "num_heads": 4, "kdim": 5, "vdim": 6, "add_bias_kv": True, "add_zero_attn": True},
        [values(15, 3, 2, 8), values(16, 4, 2, 5), values(17, 4, 2, 6)],
        {"attn_mask": values(18, 8, 3, 4), "average_attn_weights": False},
    ),
    "attention unbatched": Case(
        "MultiheadAttention", {"embed_dim": 6, "num_heads": 3, "bias": False}, [values(i, 4, 6) for i in (19, 20, 21)]
    ),
    "encoder layer": Case(
        "TransformerEncoderLayer", LAYER, [values(22, 3, 2, 8)], {"src_mask": later(3), "src_key_padding_mask": PADDING}
    ),
    "encoder layer norm first": Case(
        "TransformerEncoderLayer",
        {**LAYER, "norm_first": True, "batch_first": True, "bias": False},
        [values(23, 2, 3, 8)],
    ),
    "decoder layer": Case(
        "TransformerDecoderLayer",
        LAYER,
        [values(24, 3, 2, 8), values(25, 4, 2, 8)],
        {"tgt_mask": later(3), "memory_mask": later(3, 4)},
    ),
    "decoder layer norm first": Case(
        "TransformerDecoderLayer",
        {**LAYER, "norm_first": True, "batch_first": True},
        [values(26, 2, 3, 8), values(27, 2, 3, 8)],
        {"memory_key_padding_mask": PADDING},
    ),
    "group norm": Case("GroupNorm", {"num_groups": 2, "num_channels": 6}, [values(28, 2, 6, 5)]),
    "batch norm": Case("BatchNorm1d", {"num_features": 4}, [values(29, 6, 4)]),
    "batch norm mean of all": Case("BatchNorm1d", {"num_features": 4, "momentum": None}, [values(30, 3, 4, 5)]),
    "batch norm evaluated": Case("BatchNorm1d", {"num_features": 4}, [values(31, 3, 4, 5)], training=False),
    "batch norm untracked": Case(
        "BatchNorm1d", {"num_features": 4, "track_running_stats": False, "affine": False}, [values(32, 6, 4)], {}, False
    ),
    "batch norm 2d": Case("BatchNorm2d", {"num_features": 3}, [values(33, 2, 3, 4, 5)]),
    "bilinear": Case(
        "Bilinear",
        {"in1_features": 3, "in2_features": 4, "out_features": 5},
        [values(34, 2, 6, 3), values(35, 2, 6, 4)],
    ),
    "flatten": Case("Flatten", {"start_dim": 1, "end_dim": 2}, [values(36, 2, 3, 4, 5)]),
}

WEIGHT = np.array([0.5, 2.0, 1.0, 0.0, 1.5], np.float32)
EXTREME = np.array([[1000.0, -1000.0, 0.0], [30.0, -90.0, 3.0]], np.float32)
BITS = np.array([[0.0, 1.0, 1.0], [1.0, 0.3, 0.0]], np.float32)

# Functions of torch.nn.functional: name, arguments, settings.
LOSSES: dict[str, tuple[str, list[np.ndarray], dict[str, Any]]] = {
    "mse": ("mse_loss", [values(40, 4, 5), values(41, 4, 5)], {}),
    "l1": ("l1_loss", [values(42, 4, 5), values(43, 4, 5)], {}),
    "huber": ("huber_loss", [values(44, 4, 5), values(45, 4, 5)], {"delta": 0.7}),
    "smooth l1": ("smooth_l1_loss", [values(46, 4, 5), values(47, 4, 5)], {"beta": 0.6}),
    "smooth l1 beta 0": ("smooth_l1_loss", [values(46, 4, 5), values(47, 4, 5)], {"beta": 0.0}),
    "nll": ("nll_loss", [values(48, 6, 5), classes(1, 5, 6)], {}),
    "nll weighted": (
        "nll_loss",
        [values(49, 3, 5, 2), classes(2, 5, 3, 2, ignored=-100)],
        {"weight": WEIGHT},
    ),
    "nll one": ("nll_loss", [values(48, 5), classes(1, 5)], {}),
    "cross entropy": ("cross_entropy", [values(50, 6, 5), classes(3, 5, 6, ignored=-100)], {}),
    "cross entropy all": (
        "cross_entropy",
        [values(51, 3, 5, 4), classes(4, 5, 3, 4, ignored=2)],
        {"weight": WEIGHT, "label_smoothing": 0.2, "ignore_index": 2},
    ),
    "cross entropy smooth": (
        "cross_entropy",
        [values(52, 6, 5), classes(5, 5, 6, ignored=-100)],
        {"label_smoothing": 0.1},
    ),
    "cross entropy probabilities": (
        "cross_entropy",
        [values(53, 4, 5), probabilities(54, 4, 5)],
        {"weight": WEIGHT, "label_smoothing": 0.1},
    ),
    "bce": ("binary_cross_entropy", [probabilities(55, 4, 3), probabilities(56, 4, 3)], {"weight": WEIGHT[:3]}),
    "bce edges": (
        "binary_cross_entropy",
        [np.array([0.0, 1.0, 0.0], np.float32), np.array([0.0, 1.0, 0.4], np.float32)],
        {},
    ),
    "bce logits": ("binary_cross_entropy_with_logits", [EXTREME, BITS], {}),
    "bce logits weighted": (
        "binary_cross_entropy_with_logits",
        [values(57, 4, 3), probabilities(58, 4, 3)],
        {"weight": WEIGHT[:3], "pos_weight": WEIGHT[1:4]},
    ),
    "kl": ("kl_div", [values(59, 4, 5), probabilities(60, 4, 5)], {}),
    "kl zeros": ("kl_div", [values(59, 2, 3), np.array([[0, 0.25, 0.75], [1, 0, 0]], np.float32)], {}),
    "kl logs": ("kl_div", [values(61, 4, 5), values(62, 4, 5)], {"log_target": True}),
    "cosine": ("cosine_embedding_loss", [values(63, 6, 5), values(64, 6, 5), signs(6)], {"margin": 0.1}),
    "hinge": ("hinge_embedding_loss", [values(65, 3, 4), signs(3, 4)], {"margin": 0.8}),
    "ranking": ("margin_ranking_loss", [values(66, 7), values(67, 7), signs(7)], {"margin": 0.3}),
    "multi margin": ("multi_margin_loss", [values(68, 6, 5), classes(6, 5, 6)], {"weight": WEIGHT}),
    "multi margin squares": ("multi_margin_loss", [values(69, 6, 5), classes(7, 5, 6)], {"p": 2, "margin": 0.5}),
}

# In the order of cases.MOMENT_OPTIMIZERS.
MOMENT_OPTIMIZERS = {
    "adam": ("Adam", {"lr": 1e-2}),
    "adam l2": ("Adam", {"lr": 3e-3, "betas": (0.8, 0.95), "eps": 1e-6, "weight_decay": 0.1}),
    "adam amsgrad": ("Adam", {"lr": 1e-2, "amsgrad": True, "weight_decay": 0.01}),
    "rmsprop": ("RMSprop", {"lr": 1e-2}),
    "rmsprop all": (
        "RMSprop", {"lr": 1e-2, "alpha": 0.9, "eps": 1e-3, "momentum": 0.8, "centered": True, "weight_decay": 0.02}
    ),
    "adagrad": ("Adagrad", {"lr": 0.1}),
    "adagrad all": ("Adagrad", {"lr": 0.1, "lr_decay": 0.1, "weight_decay": 0.02, "initial_accumulator_value": 0.3}),
    "lion": ("Lion", {"lr": 1e-2, "betas": (0.9, 0.98), "weight_decay": 0.1}),
}  # fmt: skip

SCHEDULES: dict[str, tuple[str, dict[str, Any]]] = {
    "step": ("StepLR", {"step_size": 4, "gamma": 0.5}),
    "steps": ("MultiStepLR", {"milestones": [3, 10, 10], "gamma": 0.3}),
    "exponential": ("ExponentialLR", {"gamma": 0.9}),
    "linear": ("LinearLR", {"start_factor": 0.2, "end_factor": 0.9, "total_iters": 8}),
    "cosine": ("CosineAnnealingLR", {"T_max": 9, "eta_min": 0.01}),
    "one cycle": ("OneCycleLR", {"max_lr": 0.5, "total_steps": 20}),
    "one cycle lines": (
        "OneCycleLR",
        {"max_lr": 0.5, "epochs": 4, "steps_per_epoch": 5, "anneal_strategy": "linear", "three_phase": True},
    ),
    "one cycle all rise": ("OneCycleLR", {"max_lr": 0.5, "total_steps": 20, "pct_start": 1.0, "cycle_momentum": False}),
    "plateau": ("ReduceLROnPlateau", {"patience": 2, "factor": 0.5, "cooldown": 1}),
    "plateau max": (
        "ReduceLROnPlateau",
        {"mode": "max", "patience": 1, "threshold": 0.05, "threshold_mode": "abs", "min_lr": 0.02},
    ),
}  # fmt: skip
# Two schedules of an optimiser that are both stepped.
SCHEDULE_PAIRS: dict[str, tuple[str, str]] = {
    "warm-up, exponential": ("linear", "exponential"), "cosine, warm-up": ("cosine", "linear"),
    "steps, constant": ("steps", "constant"), "polynomial, multiplied": ("polynomial", "multiplied"),
    "warm-up, plateau": ("linear", "plateau"),
}  # fmt: skip
SCHEDULES_OF_PAIRS: dict[str, tuple[str, dict[str, Any]]] = SCHEDULES | {
    "constant": ("ConstantLR", {"factor": 0.4, "total_iters": 5}),
    "polynomial": ("PolynomialLR", {"total_iters": 24, "power": 2.0}),
    "multiplied": ("MultiplicativeLR", {"lr_lambda": lambda step: 0.95}),
    "restarts": ("CosineAnnealingWarmRestarts", {"T_0": 4, "T_mult": 2}),
    "factors": ("LambdaLR", {"lr_lambda": lambda step: 1 / (step + 1)}),
}
CHANGED_AT, CHANGED_TO = 4, 0.07  # the user sets the rate of an optimiser before this step
SCHEDULE_STEPS = 19
METRICS = [1.0, 0.9, 0.95, 0.91, 0.93, 0.92, 0.9, 0.6, 0.6, 0.7, 0.7, 0.7, 0.8, 0.9, 1.1, 1.1, 1.2, 1.1, 1.1]


def load_golden(file_name: str = "golden_training.npz") -> dict[str, np.ndarray]:
    """What make_golden_training.py (or make_golden_modules.py) wrote, by name."""
    with np.load(Path(__file__).with_name(file_name)) as file:
        index, flat = json.loads(file["index"].tobytes()), file["values"]
    golden, offset = {}, 0
    for name, shape in index.items():
        count = int(np.prod(shape, dtype=np.int64))
        golden[name] = flat[offset : offset + count].reshape(shape)
        offset += count
    return golden
