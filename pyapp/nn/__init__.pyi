# The names that are imported on first use. Generated: python -m scripts.nn_index.

import builtins
from typing import Any

from pyapp.engine.tensor import Tensor

from . import attention as attention
from . import common_types as common_types
from . import functional as functional
from . import grad as grad
from . import init as init
from . import modules as modules
from . import parallel as parallel
from . import parameter as parameter
from . import utils as utils
from .checkpointing import checkpoint_blocks as checkpoint_blocks
from .data_parallel import DataParallel as DataParallel
from .data_parallel import data_parallel as data_parallel
from .decoders.caches import BatchCache as BatchCache
from .decoders.caches import CrossCache as CrossCache
from .decoders.caches import FixedCache as FixedCache
from .decoders.caches import GrowingCache as GrowingCache
from .decoders.caches import Int8CrossCache as Int8CrossCache
from .decoders.caches import KVCache as KVCache
from .decoders.caches import PackedCache as PackedCache
from .decoders.caches import PagedCache as PagedCache
from .decoders.caches import RotatingCache as RotatingCache
from .decoders.decoder import CausalLanguageModel as CausalLanguageModel
from .decoders.decoder import DecoderStack as DecoderStack
from .decoders.decoder import GroupedQueryAttention as GroupedQueryAttention
from .decoders.decoder import RotaryTable as RotaryTable
from .decoders.decoder import SelfAttention as SelfAttention
from .decoders.decoder import heads_together as heads_together
from .decoders.decoder import normalized_heads as normalized_heads
from .decoders.decoder import soft_capped as soft_capped
from .distributed_data_parallel import DistributedDataParallel as DistributedDataParallel
from .fully_sharded import MixedPrecisionPolicy as MixedPrecisionPolicy
from .fully_sharded import full_state_dict as full_state_dict
from .fully_sharded import fully_shard as fully_shard
from .fully_sharded import load_full_state_dict as load_full_state_dict
from .fully_sharded import register_fsdp_forward_method as register_fsdp_forward_method
from .grad import conv1d_input as conv1d_input
from .grad import conv1d_weight as conv1d_weight
from .grad import conv2d_input as conv2d_input
from .grad import conv2d_weight as conv2d_weight
from .grad import conv3d_input as conv3d_input
from .grad import conv3d_weight as conv3d_weight
from .heads import Heads as Heads
from .heads import split_heads as split_heads
from .layers.activation import Hardtanh as Hardtanh
from .layers.activation import PReLU as PReLU
from .layers.activation import Softmax2d as Softmax2d
from .layers.adaptive_softmax import AdaptiveLogSoftmaxWithLoss as AdaptiveLogSoftmaxWithLoss
from .layers.attention import MultiheadAttention as MultiheadAttention
from .layers.channel_normalization import BatchNorm1d as BatchNorm1d
from .layers.channel_normalization import BatchNorm2d as BatchNorm2d
from .layers.channel_normalization import BatchNorm3d as BatchNorm3d
from .layers.channel_normalization import GroupNorm as GroupNorm
from .layers.channel_normalization import InstanceNorm1d as InstanceNorm1d
from .layers.channel_normalization import InstanceNorm2d as InstanceNorm2d
from .layers.channel_normalization import InstanceNorm3d as InstanceNorm3d
from .layers.channel_normalization import LazyBatchNorm1d as LazyBatchNorm1d
from .layers.channel_normalization import LazyBatchNorm2d as LazyBatchNorm2d
from .layers.channel_normalization import LazyBatchNorm3d as LazyBatchNorm3d
from .layers.channel_normalization import LazyInstanceNorm1d as LazyInstanceNorm1d
from .layers.channel_normalization import LazyInstanceNorm2d as LazyInstanceNorm2d
from .layers.channel_normalization import LazyInstanceNorm3d as LazyInstanceNorm3d
from .layers.containers import ModuleDict as ModuleDict
from .layers.containers import ModuleList as ModuleList
from .layers.containers import ParameterDict as ParameterDict
from .layers.containers import ParameterList as ParameterList
from .layers.containers import Sequential as Sequential
from .layers.convolution import Conv1d as Conv1d
from .layers.convolution import Conv2d as Conv2d
from .layers.convolution import Conv3d as Conv3d
from .layers.convolution import ConvTranspose1d as ConvTranspose1d
from .layers.convolution import ConvTranspose2d as ConvTranspose2d
from .layers.convolution import ConvTranspose3d as ConvTranspose3d
from .layers.convolution import LazyConv1d as LazyConv1d
from .layers.convolution import LazyConv2d as LazyConv2d
from .layers.convolution import LazyConv3d as LazyConv3d
from .layers.convolution import LazyConvTranspose1d as LazyConvTranspose1d
from .layers.convolution import LazyConvTranspose2d as LazyConvTranspose2d
from .layers.convolution import LazyConvTranspose3d as LazyConvTranspose3d
from .layers.dropout import AlphaDropout as AlphaDropout
from .layers.dropout import Dropout as Dropout
from .layers.dropout import Dropout1d as Dropout1d
from .layers.dropout import Dropout2d as Dropout2d
from .layers.dropout import Dropout3d as Dropout3d
from .layers.dropout import FeatureAlphaDropout as FeatureAlphaDropout
from .layers.embedding import Embedding as Embedding
from .layers.embedding import EmbeddingBag as EmbeddingBag
from .layers.experts import BiasedFeedForward as BiasedFeedForward
from .layers.experts import ClampedExperts as ClampedExperts
from .layers.experts import Experts as Experts
from .layers.experts import GroupedRouter as GroupedRouter
from .layers.experts import RoutedFeedForward as RoutedFeedForward
from .layers.experts import Router as Router
from .layers.experts import SharedExpertFeedForward as SharedExpertFeedForward
from .layers.experts import SharedExpertsFeedForward as SharedExpertsFeedForward
from .layers.experts import SparseFeedForward as SparseFeedForward
from .layers.from_function import FunctionLayer
from .layers.gated import GatedFeedForward as GatedFeedForward
from .layers.gated import JoinedGatedFeedForward as JoinedGatedFeedForward
from .layers.joined import JoinedLinear as JoinedLinear
from .layers.linear import Bilinear as Bilinear
from .layers.linear import Flatten as Flatten
from .layers.linear import Identity as Identity
from .layers.linear import LazyLinear as LazyLinear
from .layers.linear import Linear as Linear
from .layers.linear import ResidualLinear as ResidualLinear
from .layers.linear import TransposedLinear as TransposedLinear
from .layers.normalization import LayerNorm as LayerNorm
from .layers.normalization import OffsetLayerNorm as OffsetLayerNorm
from .layers.normalization import OffsetRMSNorm as OffsetRMSNorm
from .layers.normalization import RMSNorm as RMSNorm
from .layers.padding import CircularPad1d as CircularPad1d
from .layers.padding import CircularPad2d as CircularPad2d
from .layers.padding import CircularPad3d as CircularPad3d
from .layers.padding import ConstantPad1d as ConstantPad1d
from .layers.padding import ConstantPad2d as ConstantPad2d
from .layers.padding import ConstantPad3d as ConstantPad3d
from .layers.padding import ReflectionPad1d as ReflectionPad1d
from .layers.padding import ReflectionPad2d as ReflectionPad2d
from .layers.padding import ReflectionPad3d as ReflectionPad3d
from .layers.padding import ReplicationPad1d as ReplicationPad1d
from .layers.padding import ReplicationPad2d as ReplicationPad2d
from .layers.padding import ReplicationPad3d as ReplicationPad3d
from .layers.padding import ZeroPad1d as ZeroPad1d
from .layers.padding import ZeroPad2d as ZeroPad2d
from .layers.padding import ZeroPad3d as ZeroPad3d
from .layers.pooling import AvgPool1d as AvgPool1d
from .layers.pooling import AvgPool2d as AvgPool2d
from .layers.pooling import AvgPool3d as AvgPool3d
from .layers.pooling import MaxPool1d as MaxPool1d
from .layers.pooling import MaxPool2d as MaxPool2d
from .layers.pooling import MaxPool3d as MaxPool3d
from .layers.pooling import MaxUnpool1d as MaxUnpool1d
from .layers.pooling import MaxUnpool2d as MaxUnpool2d
from .layers.pooling import MaxUnpool3d as MaxUnpool3d
from .layers.recurrent import GRU as GRU
from .layers.recurrent import LSTM as LSTM
from .layers.recurrent import RNN as RNN
from .layers.recurrent import GRUCell as GRUCell
from .layers.recurrent import LSTMCell as LSTMCell
from .layers.recurrent import RNNBase as RNNBase
from .layers.recurrent import RNNCell as RNNCell
from .layers.recurrent import RNNCellBase as RNNCellBase
from .layers.synchronized import SyncBatchNorm as SyncBatchNorm
from .layers.transformer import Transformer as Transformer
from .layers.transformer import TransformerDecoder as TransformerDecoder
from .layers.transformer import TransformerDecoderLayer as TransformerDecoderLayer
from .layers.transformer import TransformerEncoder as TransformerEncoder
from .layers.transformer import TransformerEncoderLayer as TransformerEncoderLayer
from .layers.upsampling import Upsample as Upsample
from .layers.upsampling import UpsamplingBilinear2d as UpsamplingBilinear2d
from .layers.upsampling import UpsamplingNearest2d as UpsamplingNearest2d
from .losses.classification import BCELoss as BCELoss
from .losses.classification import BCEWithLogitsLoss as BCEWithLogitsLoss
from .losses.classification import CrossEntropyLoss as CrossEntropyLoss
from .losses.classification import KLDivLoss as KLDivLoss
from .losses.classification import MultiLabelSoftMarginLoss as MultiLabelSoftMarginLoss
from .losses.classification import NLLLoss as NLLLoss
from .losses.classification import SoftMarginLoss as SoftMarginLoss
from .losses.ctc import CTCLoss as CTCLoss
from .losses.linear_cross_entropy import LinearCrossEntropyLoss as LinearCrossEntropyLoss
from .losses.linear_cross_entropy import LinearCrossEntropyOptions as LinearCrossEntropyOptions
from .losses.margin import CosineEmbeddingLoss as CosineEmbeddingLoss
from .losses.margin import HingeEmbeddingLoss as HingeEmbeddingLoss
from .losses.margin import MarginRankingLoss as MarginRankingLoss
from .losses.margin import MultiLabelMarginLoss as MultiLabelMarginLoss
from .losses.margin import MultiMarginLoss as MultiMarginLoss
from .losses.margin import TripletMarginLoss as TripletMarginLoss
from .losses.margin import TripletMarginWithDistanceLoss as TripletMarginWithDistanceLoss
from .losses.regression import GaussianNLLLoss as GaussianNLLLoss
from .losses.regression import HuberLoss as HuberLoss
from .losses.regression import L1Loss as L1Loss
from .losses.regression import MSELoss as MSELoss
from .losses.regression import PoissonNLLLoss as PoissonNLLLoss
from .losses.regression import SmoothL1Loss as SmoothL1Loss
from .module import Module as Module
from .parameter import Buffer as Buffer
from .parameter import Parameter as Parameter
from .parameter import UninitializedParameter as UninitializedParameter
from .positions.rotary import RotaryFrequencies as RotaryFrequencies
from .positions.rotary import grid_rotations as grid_rotations
from .positions.rotary import rotary_frequencies as rotary_frequencies
from .quantization import quantize as quantize
from .recurrent.hybrid import HybridCache as HybridCache
from .recurrent.hybrid import HybridLanguageModel as HybridLanguageModel
from .recurrent.hybrid import MixedCache as MixedCache
from .recurrent.hybrid import uneven_cache as uneven_cache
from .recurrent.recurrent import RecurrentLanguageModel as RecurrentLanguageModel
from .recurrent.recurrent import StateCache as StateCache
from .tensor_parallel import divide as divide
from .tensor_parallel import parallelize as parallelize
from .tensor_parallel import sum_of_ranks as sum_of_ranks
from .weights import Weights as Weights

__all__ = [
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveLogSoftmaxWithLoss",
    "AdaptiveMaxPool1d", "AdaptiveMaxPool2d", "AdaptiveMaxPool3d", "AlphaDropout", "AvgPool1d", "AvgPool2d",
    "AvgPool3d", "BCELoss", "BCEWithLogitsLoss", "BatchCache", "BatchNorm1d", "BatchNorm2d", "BatchNorm3d",
    "BiasedFeedForward", "Bilinear", "Buffer", "CELU", "CTCLoss", "CausalLanguageModel", "ChannelShuffle",
    "CircularPad1d", "CircularPad2d", "CircularPad3d", "ClampedExperts", "ConstantPad1d", "ConstantPad2d",
    "ConstantPad3d", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d",
    "CosineEmbeddingLoss", "CosineSimilarity", "CrossCache", "CrossEntropyLoss", "DataParallel", "DecoderStack",
    "DistributedDataParallel", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "ELU", "Embedding", "EmbeddingBag",
    "Experts", "FeatureAlphaDropout", "FixedCache", "Flatten", "Fold", "FractionalMaxPool2d", "FractionalMaxPool3d",
    "GELU", "GLU", "GRU", "GRUCell", "GatedFeedForward", "GaussianNLLLoss", "GroupNorm", "GroupedQueryAttention",
    "GroupedRouter", "GrowingCache", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh", "Heads",
    "HingeEmbeddingLoss", "HuberLoss", "HybridCache", "HybridLanguageModel", "Identity", "InstanceNorm1d",
    "InstanceNorm2d", "InstanceNorm3d", "Int8CrossCache", "JoinedGatedFeedForward", "JoinedLinear", "KLDivLoss",
    "KVCache", "L1Loss", "LPPool1d", "LPPool2d", "LPPool3d", "LSTM", "LSTMCell", "LayerNorm", "LazyBatchNorm1d",
    "LazyBatchNorm2d", "LazyBatchNorm3d", "LazyConv1d", "LazyConv2d", "LazyConv3d", "LazyConvTranspose1d",
    "LazyConvTranspose2d", "LazyConvTranspose3d", "LazyInstanceNorm1d", "LazyInstanceNorm2d", "LazyInstanceNorm3d",
    "LazyLinear", "LeakyReLU", "Linear", "LinearCrossEntropyLoss", "LinearCrossEntropyOptions", "LocalResponseNorm",
    "LogSigmoid", "LogSoftmax", "MSELoss", "MarginRankingLoss", "MaxPool1d", "MaxPool2d", "MaxPool3d",
    "MaxUnpool1d", "MaxUnpool2d", "MaxUnpool3d", "Mish", "MixedCache", "MixedPrecisionPolicy", "Module",
    "ModuleDict", "ModuleList", "MultiLabelMarginLoss", "MultiLabelSoftMarginLoss", "MultiMarginLoss",
    "MultiheadAttention", "NLLLoss", "OffsetLayerNorm", "OffsetRMSNorm", "PReLU", "PackedCache", "PagedCache",
    "PairwiseDistance", "Parameter", "ParameterDict", "ParameterList", "PixelShuffle", "PixelUnshuffle",
    "PoissonNLLLoss", "RMSNorm", "RNN", "RNNBase", "RNNCell", "RNNCellBase", "RReLU", "ReLU", "ReLU6",
    "RecurrentLanguageModel", "ReflectionPad1d", "ReflectionPad2d", "ReflectionPad3d", "ReplicationPad1d",
    "ReplicationPad2d", "ReplicationPad3d", "ResidualLinear", "RotaryFrequencies", "RotaryTable", "RotatingCache",
    "RoutedFeedForward", "Router", "SELU", "SelfAttention", "Sequential", "SharedExpertFeedForward",
    "SharedExpertsFeedForward", "SiLU", "Sigmoid", "SmoothL1Loss", "SoftMarginLoss", "Softmax", "Softmax2d",
    "Softmin", "Softplus", "Softshrink", "Softsign", "SparseFeedForward", "StateCache", "SyncBatchNorm", "Tanh",
    "Tanhshrink", "Threshold", "Transformer", "TransformerDecoder", "TransformerDecoderLayer", "TransformerEncoder",
    "TransformerEncoderLayer", "TransposedLinear", "TripletMarginLoss", "TripletMarginWithDistanceLoss",
    "Unflatten", "Unfold", "UninitializedParameter", "Upsample", "UpsamplingBilinear2d", "UpsamplingNearest2d",
    "Weights", "ZeroPad1d", "ZeroPad2d", "ZeroPad3d", "attention", "checkpoint_blocks", "common_types",
    "conv1d_input", "conv1d_weight", "conv2d_input", "conv2d_weight", "conv3d_input", "conv3d_weight",
    "data_parallel", "divide", "full_state_dict", "fully_shard", "functional", "grad", "grid_rotations",
    "heads_together", "init", "load_full_state_dict", "modules", "normalized_heads", "parallel", "parallelize",
    "parameter", "quantize", "register_fsdp_forward_method", "rotary_frequencies", "soft_capped", "split_heads",
    "sum_of_ranks", "uneven_cache", "utils",
]  # fmt: skip

class CELU(FunctionLayer):
    def __init__(self, alpha: builtins.float = ..., inplace: builtins.bool = ...) -> None: ...

class ELU(FunctionLayer):
    def __init__(self, alpha: builtins.float = ..., inplace: builtins.bool = ...) -> None: ...

class GELU(FunctionLayer):
    def __init__(self, approximate: builtins.str = ...) -> None: ...

class GLU(FunctionLayer):
    def __init__(self, dim: builtins.int = ...) -> None: ...

class Hardshrink(FunctionLayer):
    def __init__(self, lambd: builtins.float = ...) -> None: ...

class Hardsigmoid(FunctionLayer):
    def __init__(self, inplace: builtins.bool = ...) -> None: ...

class Hardswish(FunctionLayer):
    def __init__(self, inplace: builtins.bool = ...) -> None: ...

class LeakyReLU(FunctionLayer):
    def __init__(self, negative_slope: builtins.float = ..., inplace: builtins.bool = ...) -> None: ...

class LogSigmoid(FunctionLayer):
    def __init__(self) -> None: ...

class LogSoftmax(FunctionLayer):
    def __init__(self, dim: builtins.int | None = ...) -> None: ...

class Mish(FunctionLayer):
    def __init__(self, inplace: builtins.bool = ...) -> None: ...

class RReLU(FunctionLayer):
    def __init__(
        self, lower: builtins.float = ..., upper: builtins.float = ..., inplace: builtins.bool = ...
    ) -> None: ...

class ReLU(FunctionLayer):
    def __init__(self, inplace: builtins.bool = ...) -> None: ...

class ReLU6(FunctionLayer):
    def __init__(self, inplace: builtins.bool = ...) -> None: ...

class SELU(FunctionLayer):
    def __init__(self, inplace: builtins.bool = ...) -> None: ...

class SiLU(FunctionLayer):
    def __init__(self, inplace: builtins.bool = ...) -> None: ...

class Sigmoid(FunctionLayer):
    def __init__(self) -> None: ...

class Softmax(FunctionLayer):
    def __init__(self, dim: builtins.int | None = ...) -> None: ...

class Softmin(FunctionLayer):
    def __init__(self, dim: builtins.int | None = ...) -> None: ...

class Softplus(FunctionLayer):
    def __init__(self, beta: builtins.float = ..., threshold: builtins.float = ...) -> None: ...

class Softshrink(FunctionLayer):
    def __init__(self, lambd: builtins.float = ...) -> None: ...

class Softsign(FunctionLayer):
    def __init__(self) -> None: ...

class Tanh(FunctionLayer):
    def __init__(self) -> None: ...

class Tanhshrink(FunctionLayer):
    def __init__(self) -> None: ...

class Threshold(FunctionLayer):
    def __init__(self, threshold: builtins.float, value: builtins.float, inplace: builtins.bool = ...) -> None: ...

class LocalResponseNorm(FunctionLayer):
    def __init__(
        self, size: builtins.int, alpha: builtins.float = ..., beta: builtins.float = ..., k: builtins.float = ...
    ) -> None: ...

class Fold(FunctionLayer):
    def __init__(
        self, output_size: Any, kernel_size: Any, dilation: Any = ..., padding: Any = ..., stride: Any = ...
    ) -> None: ...

class Unfold(FunctionLayer):
    def __init__(self, kernel_size: Any, dilation: Any = ..., padding: Any = ..., stride: Any = ...) -> None: ...

class CosineSimilarity(FunctionLayer):
    def __init__(self, dim: builtins.int = ..., eps: builtins.float = ...) -> None: ...

class PairwiseDistance(FunctionLayer):
    def __init__(self, p: builtins.float = ..., eps: builtins.float = ..., keepdim: builtins.bool = ...) -> None: ...

class Unflatten(FunctionLayer):
    def __init__(self, dim: builtins.int, unflattened_size: Any) -> None: ...

class AdaptiveAvgPool1d(FunctionLayer):
    def __init__(self, output_size: Any) -> None: ...

class AdaptiveAvgPool2d(FunctionLayer):
    def __init__(self, output_size: Any) -> None: ...

class AdaptiveAvgPool3d(FunctionLayer):
    def __init__(self, output_size: Any) -> None: ...

class AdaptiveMaxPool1d(FunctionLayer):
    def __init__(self, output_size: Any, return_indices: builtins.bool = ...) -> None: ...

class AdaptiveMaxPool2d(FunctionLayer):
    def __init__(self, output_size: Any, return_indices: builtins.bool = ...) -> None: ...

class AdaptiveMaxPool3d(FunctionLayer):
    def __init__(self, output_size: Any, return_indices: builtins.bool = ...) -> None: ...

class FractionalMaxPool2d(FunctionLayer):
    def __init__(
        self,
        kernel_size: Any,
        output_size: Any = ...,
        output_ratio: Any = ...,
        return_indices: builtins.bool = ...,
        _random_samples: Tensor | None = ...,
    ) -> None: ...

class FractionalMaxPool3d(FunctionLayer):
    def __init__(
        self,
        kernel_size: Any,
        output_size: Any = ...,
        output_ratio: Any = ...,
        return_indices: builtins.bool = ...,
        _random_samples: Tensor | None = ...,
    ) -> None: ...

class LPPool1d(FunctionLayer):
    def __init__(
        self, norm_type: builtins.float, kernel_size: Any, stride: Any = ..., ceil_mode: builtins.bool = ...
    ) -> None: ...

class LPPool2d(FunctionLayer):
    def __init__(
        self, norm_type: builtins.float, kernel_size: Any, stride: Any = ..., ceil_mode: builtins.bool = ...
    ) -> None: ...

class LPPool3d(FunctionLayer):
    def __init__(
        self, norm_type: builtins.float, kernel_size: Any, stride: Any = ..., ceil_mode: builtins.bool = ...
    ) -> None: ...

class ChannelShuffle(FunctionLayer):
    def __init__(self, groups: builtins.int) -> None: ...

class PixelShuffle(FunctionLayer):
    def __init__(self, upscale_factor: builtins.int) -> None: ...

class PixelUnshuffle(FunctionLayer):
    def __init__(self, downscale_factor: builtins.int) -> None: ...
