"""Modules, layers, activations, optimisers and schedules."""

from __future__ import annotations

import importlib
from typing import Any

from .layers import Embedding, KVCache, LayerNorm, Linear, RMSNorm
from .module import Buffer, Module, Parameter
from .module_lists import ModuleList, Sequential

# What is imported when first asked for, by its module: the page writes a story without it.
_NAMES = {
    "activations": """
        CELU ELU GELU GLU Hardshrink Hardsigmoid Hardswish Hardtanh LeakyReLU LogSigmoid LogSoftmax Mish PReLU
        ReLU ReLU6 RReLU SELU SiLU Sigmoid Softmax Softmax2d Softmin Softplus Softshrink Softsign Tanh Tanhshrink
        Threshold
    """,
    "adaptive_softmax": """
        AdaptiveLogSoftmaxWithLoss
    """,
    "attention": """
        MultiheadAttention
    """,
    "averages": """
        ExponentialMovingAverage
    """,
    "caches": """
        FixedCache GrowingCache RotatingCache
    """,
    "containers": """
        ModuleDict ParameterDict ParameterList
    """,
    "convolution": """
        Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d
    """,
    "dropout": """
        AlphaDropout Dropout Dropout1d Dropout2d Dropout3d FeatureAlphaDropout
    """,
    "embeddings": """
        EmbeddingBag
    """,
    "lazy": """
        LazyBatchNorm1d LazyBatchNorm2d LazyBatchNorm3d LazyConv1d LazyConv2d LazyConv3d LazyConvTranspose1d
        LazyConvTranspose2d LazyConvTranspose3d LazyInstanceNorm1d LazyInstanceNorm2d LazyInstanceNorm3d LazyLinear
    """,
    "lbfgs": """
        LBFGS
    """,
    "loss_modules": """
        BCELoss BCEWithLogitsLoss CTCLoss CosineEmbeddingLoss CrossEntropyLoss GaussianNLLLoss HingeEmbeddingLoss
        HuberLoss KLDivLoss L1Loss MSELoss MarginRankingLoss MultiLabelMarginLoss MultiLabelSoftMarginLoss
        MultiMarginLoss NLLLoss PoissonNLLLoss SmoothL1Loss SoftMarginLoss TripletMarginLoss
        TripletMarginWithDistanceLoss
    """,
    "lr_scheduler": """
        ChainedScheduler ConstantLR CosineAnnealingLR CosineAnnealingWarmRestarts CyclicLR ExponentialLR LambdaLR
        LinearLR MultiStepLR MultiplicativeLR OneCycleLR PolynomialLR ReduceLROnPlateau SequentialLR StepLR constant
        warmup_cosine warmup_linear
    """,
    "normalization": """
        BatchNorm1d BatchNorm2d BatchNorm3d Bilinear Flatten GroupNorm Identity InstanceNorm1d InstanceNorm2d
        InstanceNorm3d LocalResponseNorm
    """,
    "optim": """
        Adagrad Adam AdamW Lion Optimizer RMSprop SGD
    """,
    "optim_more": """
        ASGD Adadelta Adafactor Adamax Muon NAdam RAdam Rprop
    """,
    "parallel": """
        DataParallel
    """,
    "quantization": """
        quantize
    """,
    "recurrent": """
        GRU GRUCell LSTM LSTMCell RNN RNNBase RNNCell RNNCellBase
    """,
    "stateless": """
        AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AdaptiveMaxPool1d AdaptiveMaxPool2d
        AdaptiveMaxPool3d AvgPool1d AvgPool2d AvgPool3d ChannelShuffle CircularPad1d CircularPad2d CircularPad3d
        ConstantPad1d ConstantPad2d ConstantPad3d CosineSimilarity Fold FractionalMaxPool2d FractionalMaxPool3d
        LPPool1d LPPool2d LPPool3d MaxPool1d MaxPool2d MaxPool3d MaxUnpool1d MaxUnpool2d MaxUnpool3d
        PairwiseDistance PixelShuffle PixelUnshuffle ReflectionPad1d ReflectionPad2d ReflectionPad3d
        ReplicationPad1d ReplicationPad2d ReplicationPad3d Unflatten Unfold Upsample UpsamplingBilinear2d
        UpsamplingNearest2d ZeroPad1d ZeroPad2d ZeroPad3d
    """,
    "transformer": """
        Transformer TransformerDecoder TransformerDecoderLayer TransformerEncoder TransformerEncoderLayer
    """,
    "utils": """
        clip_grad_norm_ clip_grad_value_
    """,
    "weights": """
        Weights
    """,
}
_ROOMS = ("attention", "functional", "init", "lr_scheduler", "modules", "optim", "parallel", "parameter", "utils")
_LATER = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = [
    "Buffer", "Embedding", "KVCache", "LayerNorm", "Linear", "Module", "ModuleList", "Parameter", "RMSNorm",
    "Sequential",
]  # fmt: skip
__all__ += [*_LATER, *_ROOMS]


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return importlib.import_module(f".{name}", __name__)
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_LATER[name]}", __name__), name)
