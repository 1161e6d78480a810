"""Modules, layers, activations, optimisers and schedules."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .layers import Embedding, KVCache, LayerNorm, Linear, RMSNorm
from .module import Module, ModuleList, Parameter, Sequential

if TYPE_CHECKING:
    from . import functional, init, lr_scheduler, optim, utils
    from .activations import ReLU, Sigmoid, SiLU, Softmax, Tanh
    from .attention import MultiheadAttention
    from .averages import ExponentialMovingAverage
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
        LambdaLR,
        LinearLR,
        MultiStepLR,
        OneCycleLR,
        ReduceLROnPlateau,
        SequentialLR,
        StepLR,
        constant,
        warmup_cosine,
        warmup_linear,
    )
    from .normalization import BatchNorm1d, BatchNorm2d, BatchNorm3d, Bilinear, Flatten, GroupNorm, Identity
    from .optim import SGD, Adagrad, Adam, AdamW, Lion, Optimizer, RMSprop
    from .quantization import quantize
    from .recurrent import GRU, LSTM, RNN
    from .transformer import TransformerDecoder, TransformerDecoderLayer, TransformerEncoder, TransformerEncoderLayer
    from .utils import clip_grad_norm_, clip_grad_value_

# Layers by their modules, beside those above.
_NAMES = {
    "activations": """
        CELU ELU GELU GLU Hardshrink Hardsigmoid Hardswish Hardtanh LeakyReLU LogSigmoid LogSoftmax Mish PReLU
        ReLU6 SELU Softmin Softplus Softshrink Softsign Tanhshrink Threshold
    """,
    "caches": """
        FixedCache GrowingCache RotatingCache
    """,
    "convolution": """
        Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d
    """,
    "ctc": """
        CTCLoss
    """,
    "embedding_bag": """
        EmbeddingBag
    """,
    "normalization": """
        InstanceNorm1d InstanceNorm2d InstanceNorm3d LocalResponseNorm
    """,
    "stateless": """
        AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AdaptiveMaxPool1d AdaptiveMaxPool2d
        AdaptiveMaxPool3d AvgPool1d AvgPool2d AvgPool3d CircularPad1d CircularPad2d CircularPad3d ConstantPad1d
        ConstantPad2d ConstantPad3d Fold LPPool1d LPPool2d MaxPool1d MaxPool2d MaxPool3d MaxUnpool1d MaxUnpool2d
        MaxUnpool3d PixelShuffle PixelUnshuffle ReflectionPad1d ReflectionPad2d ReflectionPad3d ReplicationPad1d
        ReplicationPad2d ReplicationPad3d Unflatten Unfold Upsample ZeroPad1d ZeroPad2d ZeroPad3d
    """,
    "weights": """
        Weights
    """,
}
_MORE = [name for names in _NAMES.values() for name in names.split()]

__all__ = [
    "Adagrad", "Adam", "AdamW", "BCELoss", "BCEWithLogitsLoss", "BatchNorm1d", "BatchNorm2d", "BatchNorm3d",
    "Bilinear", "CosineAnnealingLR", "CosineEmbeddingLoss", "CrossEntropyLoss", "Dropout", "Embedding",
    "ExponentialLR", "ExponentialMovingAverage", "Flatten", "GRU", "GroupNorm", "HingeEmbeddingLoss", "HuberLoss",
    "Identity", "KLDivLoss", "KVCache", "L1Loss", "LSTM", "LambdaLR", "LayerNorm", "Linear", "LinearLR", "Lion",
    "MSELoss", "MarginRankingLoss", "Module", "ModuleDict", "ModuleList", "MultiMarginLoss", "MultiStepLR",
    "MultiheadAttention", "NLLLoss", "OneCycleLR", "Optimizer", "Parameter", "ParameterDict", "ParameterList",
    "RMSNorm", "RMSprop", "RNN", "ReLU", "ReduceLROnPlateau", "SGD", "Sequential", "SequentialLR", "SiLU",
    "Sigmoid", "SmoothL1Loss", "Softmax", "StepLR", "Tanh", "TransformerDecoder", "TransformerDecoderLayer",
    "TransformerEncoder", "TransformerEncoderLayer", "clip_grad_norm_", "clip_grad_value_", "constant",
    "functional", "init", "lr_scheduler", "optim", "quantize", "utils", "warmup_cosine", "warmup_linear",
] + _MORE  # fmt: skip

# Imported when first asked for: the page writes a story without them.
_LATER = {
    **dict.fromkeys(("ReLU", "SiLU", "Sigmoid", "Softmax", "Tanh"), "activations"),
    **dict.fromkeys(("Adagrad", "Adam", "AdamW", "Lion", "Optimizer", "RMSprop", "SGD"), "optim"),
    **dict.fromkeys(("ExponentialMovingAverage",), "averages"),
    **dict.fromkeys(("clip_grad_norm_", "clip_grad_value_"), "utils"),
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
        (
            "CosineAnnealingLR",
            "ExponentialLR",
            "LambdaLR",
            "LinearLR",
            "MultiStepLR",
            "OneCycleLR",
            "ReduceLROnPlateau",
            "SequentialLR",
            "StepLR",
            "constant",
            "warmup_cosine",
            "warmup_linear",
        ),
        "lr_scheduler",
    ),
    **dict.fromkeys(
        ("BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "Bilinear", "Flatten", "GroupNorm", "Identity"), "normalization"
    ),
    **dict.fromkeys(("quantize",), "quantization"),
    **dict.fromkeys(("GRU", "LSTM", "RNN"), "recurrent"),
    **dict.fromkeys(
        ("TransformerDecoder", "TransformerDecoderLayer", "TransformerEncoder", "TransformerEncoderLayer"),
        "transformer",
    ),
}
_LATER |= {name: module for module, names in _NAMES.items() for name in names.split()}
_ROOMS = ("functional", "init", "lr_scheduler", "optim", "utils")


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return importlib.import_module(f".{name}", __name__)
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_LATER[name]}", __name__), name)
