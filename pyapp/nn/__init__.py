"""Modules, layers, activations, optimisers and schedules."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .layers import Embedding, KVCache, LayerNorm, Linear, RMSNorm
from .module import Module, ModuleList, Parameter, Sequential

if TYPE_CHECKING:
    from . import functional, init
    from .activations import ReLU, Sigmoid, SiLU, Softmax, Tanh
    from .attention import MultiheadAttention
    from .containers import ModuleDict, ParameterDict, ParameterList
    from .dropout import Dropout
    from .losses import (
        BCELoss,
        BCEWithLogitsLoss,
        CosineEmbeddingLoss,
        CrossEntropyLoss,
        HingeEmbeddingLoss,
        HuberLoss,
        KLDivLoss,
        L1Loss,
        MarginRankingLoss,
        MSELoss,
        MultiMarginLoss,
        NLLLoss,
        SmoothL1Loss,
    )
    from .lr_scheduler import (
        CosineAnnealingLR,
        ExponentialLR,
        LinearLR,
        MultiStepLR,
        OneCycleLR,
        ReduceLROnPlateau,
        StepLR,
    )
    from .normalization import BatchNorm1d, BatchNorm2d, BatchNorm3d, Bilinear, Flatten, GroupNorm, Identity
    from .optim import SGD, AdamW, Optimizer, clip_grad_norm_
    from .optimizers import Adagrad, Adam, ExponentialMovingAverage, Lion, RMSprop, clip_grad_value_
    from .quantization import quantize
    from .recurrent import GRU, LSTM, RNN
    from .schedule import Schedule, constant, warmup_cosine, warmup_linear
    from .transformer import TransformerDecoder, TransformerDecoderLayer, TransformerEncoder, TransformerEncoderLayer

__all__ = [
    "Adagrad", "Adam", "AdamW", "BCELoss", "BCEWithLogitsLoss", "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "Bilinear",
    "CosineAnnealingLR", "CosineEmbeddingLoss", "CrossEntropyLoss", "Dropout", "Embedding", "ExponentialLR",
    "ExponentialMovingAverage", "Flatten", "GRU", "GroupNorm", "HingeEmbeddingLoss", "HuberLoss", "Identity",
    "KLDivLoss", "KVCache", "L1Loss", "LSTM", "LayerNorm", "Linear", "LinearLR", "Lion", "MSELoss", "MarginRankingLoss",
    "Module", "ModuleDict", "ModuleList", "MultiMarginLoss", "MultiStepLR", "MultiheadAttention", "NLLLoss",
    "OneCycleLR", "Optimizer", "Parameter", "ParameterDict", "ParameterList", "RMSNorm", "RMSprop", "RNN", "ReLU",
    "ReduceLROnPlateau", "SGD", "Schedule", "Sequential", "SiLU", "Sigmoid", "SmoothL1Loss", "Softmax", "StepLR",
    "Tanh", "TransformerDecoder", "TransformerDecoderLayer", "TransformerEncoder", "TransformerEncoderLayer",
    "clip_grad_norm_", "clip_grad_value_", "constant", "functional", "init", "quantize", "warmup_cosine",
    "warmup_linear",
]  # fmt: skip

# Imported when first asked for: the page writes a story without them.
_LATER = {
    **dict.fromkeys(("ReLU", "SiLU", "Sigmoid", "Softmax", "Tanh"), "activations"),
    **dict.fromkeys(("AdamW", "Optimizer", "SGD", "clip_grad_norm_"), "optim"),
    **dict.fromkeys(("Schedule", "constant", "warmup_cosine", "warmup_linear"), "schedule"),
    **dict.fromkeys(("MultiheadAttention",), "attention"),
    **dict.fromkeys(("ModuleDict", "ParameterDict", "ParameterList"), "containers"),
    **dict.fromkeys(("Dropout",), "dropout"),
    **dict.fromkeys(
        (
            "BCELoss",
            "BCEWithLogitsLoss",
            "CosineEmbeddingLoss",
            "CrossEntropyLoss",
            "HingeEmbeddingLoss",
            "HuberLoss",
            "KLDivLoss",
            "L1Loss",
            "MSELoss",
            "MarginRankingLoss",
            "MultiMarginLoss",
            "NLLLoss",
            "SmoothL1Loss",
        ),
        "losses",
    ),
    **dict.fromkeys(
        ("CosineAnnealingLR", "ExponentialLR", "LinearLR", "MultiStepLR", "OneCycleLR", "ReduceLROnPlateau", "StepLR"),
        "lr_scheduler",
    ),
    **dict.fromkeys(
        ("BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "Bilinear", "Flatten", "GroupNorm", "Identity"), "normalization"
    ),
    **dict.fromkeys(
        ("Adagrad", "Adam", "ExponentialMovingAverage", "Lion", "RMSprop", "clip_grad_value_"), "optimizers"
    ),
    **dict.fromkeys(("quantize",), "quantization"),
    **dict.fromkeys(("GRU", "LSTM", "RNN"), "recurrent"),
    **dict.fromkeys(
        ("TransformerDecoder", "TransformerDecoderLayer", "TransformerEncoder", "TransformerEncoderLayer"),
        "transformer",
    ),
}
_ROOMS = ("functional", "init")


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return importlib.import_module(f".{name}", __name__)
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_LATER[name]}", __name__), name)
