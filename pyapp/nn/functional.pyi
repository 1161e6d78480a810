# The names that are imported on first use. Generated: python -m scripts.nn_index.

from .layers.activation import celu as celu
from .layers.activation import celu_ as celu_
from .layers.activation import elu as elu
from .layers.activation import elu_ as elu_
from .layers.activation import gelu as gelu
from .layers.activation import glu as glu
from .layers.activation import gumbel_softmax as gumbel_softmax
from .layers.activation import hardshrink as hardshrink
from .layers.activation import hardsigmoid as hardsigmoid
from .layers.activation import hardswish as hardswish
from .layers.activation import hardtanh as hardtanh
from .layers.activation import hardtanh_ as hardtanh_
from .layers.activation import leaky_relu as leaky_relu
from .layers.activation import leaky_relu_ as leaky_relu_
from .layers.activation import log_softmax as log_softmax
from .layers.activation import logsigmoid as logsigmoid
from .layers.activation import mish as mish
from .layers.activation import prelu as prelu
from .layers.activation import relu as relu
from .layers.activation import relu6 as relu6
from .layers.activation import relu_ as relu_
from .layers.activation import rrelu as rrelu
from .layers.activation import rrelu_ as rrelu_
from .layers.activation import selu as selu
from .layers.activation import selu_ as selu_
from .layers.activation import sigmoid as sigmoid
from .layers.activation import silu as silu
from .layers.activation import softmax as softmax
from .layers.activation import softmin as softmin
from .layers.activation import softplus as softplus
from .layers.activation import softshrink as softshrink
from .layers.activation import softsign as softsign
from .layers.activation import tanh as tanh
from .layers.activation import tanhshrink as tanhshrink
from .layers.activation import threshold as threshold
from .layers.activation import threshold_ as threshold_
from .layers.attention import multi_head_attention_forward as multi_head_attention_forward
from .layers.attention import scaled_dot_product_attention as scaled_dot_product_attention
from .layers.channel_normalization import batch_norm as batch_norm
from .layers.channel_normalization import group_norm as group_norm
from .layers.channel_normalization import instance_norm as instance_norm
from .layers.channel_normalization import local_response_norm as local_response_norm
from .layers.convolution import conv1d as conv1d
from .layers.convolution import conv2d as conv2d
from .layers.convolution import conv3d as conv3d
from .layers.convolution import conv_transpose1d as conv_transpose1d
from .layers.convolution import conv_transpose2d as conv_transpose2d
from .layers.convolution import conv_transpose3d as conv_transpose3d
from .layers.convolution import fold as fold
from .layers.convolution import unfold as unfold
from .layers.distance import cosine_similarity as cosine_similarity
from .layers.distance import pairwise_distance as pairwise_distance
from .layers.distance import pdist as pdist
from .layers.dropout import alpha_dropout as alpha_dropout
from .layers.dropout import dropout as dropout
from .layers.dropout import dropout1d as dropout1d
from .layers.dropout import dropout2d as dropout2d
from .layers.dropout import dropout3d as dropout3d
from .layers.dropout import feature_alpha_dropout as feature_alpha_dropout
from .layers.embedding import embedding as embedding
from .layers.embedding import embedding_bag as embedding_bag
from .layers.embedding import one_hot as one_hot
from .layers.grouped_products import grouped_mm as grouped_mm
from .layers.linear import bilinear as bilinear
from .layers.linear import linear as linear
from .layers.normalization import layer_norm as layer_norm
from .layers.normalization import normalize as normalize
from .layers.normalization import rms_norm as rms_norm
from .layers.padding import pad as pad
from .layers.pooling import adaptive_avg_pool1d as adaptive_avg_pool1d
from .layers.pooling import adaptive_avg_pool2d as adaptive_avg_pool2d
from .layers.pooling import adaptive_avg_pool3d as adaptive_avg_pool3d
from .layers.pooling import adaptive_max_pool1d as adaptive_max_pool1d
from .layers.pooling import adaptive_max_pool1d_with_indices as adaptive_max_pool1d_with_indices
from .layers.pooling import adaptive_max_pool2d as adaptive_max_pool2d
from .layers.pooling import adaptive_max_pool2d_with_indices as adaptive_max_pool2d_with_indices
from .layers.pooling import adaptive_max_pool3d as adaptive_max_pool3d
from .layers.pooling import adaptive_max_pool3d_with_indices as adaptive_max_pool3d_with_indices
from .layers.pooling import avg_pool1d as avg_pool1d
from .layers.pooling import avg_pool2d as avg_pool2d
from .layers.pooling import avg_pool3d as avg_pool3d
from .layers.pooling import fractional_max_pool2d as fractional_max_pool2d
from .layers.pooling import fractional_max_pool2d_with_indices as fractional_max_pool2d_with_indices
from .layers.pooling import fractional_max_pool3d as fractional_max_pool3d
from .layers.pooling import fractional_max_pool3d_with_indices as fractional_max_pool3d_with_indices
from .layers.pooling import lp_pool1d as lp_pool1d
from .layers.pooling import lp_pool2d as lp_pool2d
from .layers.pooling import lp_pool3d as lp_pool3d
from .layers.pooling import max_pool1d as max_pool1d
from .layers.pooling import max_pool1d_with_indices as max_pool1d_with_indices
from .layers.pooling import max_pool2d as max_pool2d
from .layers.pooling import max_pool2d_with_indices as max_pool2d_with_indices
from .layers.pooling import max_pool3d as max_pool3d
from .layers.pooling import max_pool3d_with_indices as max_pool3d_with_indices
from .layers.pooling import max_unpool1d as max_unpool1d
from .layers.pooling import max_unpool2d as max_unpool2d
from .layers.pooling import max_unpool3d as max_unpool3d
from .layers.upsampling import affine_grid as affine_grid
from .layers.upsampling import channel_shuffle as channel_shuffle
from .layers.upsampling import grid_sample as grid_sample
from .layers.upsampling import interpolate as interpolate
from .layers.upsampling import native_channel_shuffle as native_channel_shuffle
from .layers.upsampling import pixel_shuffle as pixel_shuffle
from .layers.upsampling import pixel_unshuffle as pixel_unshuffle
from .layers.upsampling import upsample as upsample
from .layers.upsampling import upsample_bilinear as upsample_bilinear
from .layers.upsampling import upsample_nearest as upsample_nearest
from .losses.classification import binary_cross_entropy as binary_cross_entropy
from .losses.classification import binary_cross_entropy_with_logits as binary_cross_entropy_with_logits
from .losses.classification import cross_entropy as cross_entropy
from .losses.classification import kl_div as kl_div
from .losses.classification import multilabel_soft_margin_loss as multilabel_soft_margin_loss
from .losses.classification import nll_loss as nll_loss
from .losses.classification import soft_margin_loss as soft_margin_loss
from .losses.ctc import ctc_loss as ctc_loss
from .losses.linear_cross_entropy import linear_cross_entropy as linear_cross_entropy
from .losses.margin import cosine_embedding_loss as cosine_embedding_loss
from .losses.margin import hinge_embedding_loss as hinge_embedding_loss
from .losses.margin import margin_ranking_loss as margin_ranking_loss
from .losses.margin import multi_margin_loss as multi_margin_loss
from .losses.margin import multilabel_margin_loss as multilabel_margin_loss
from .losses.margin import triplet_margin_loss as triplet_margin_loss
from .losses.margin import triplet_margin_with_distance_loss as triplet_margin_with_distance_loss
from .losses.regression import gaussian_nll_loss as gaussian_nll_loss
from .losses.regression import huber_loss as huber_loss
from .losses.regression import l1_loss as l1_loss
from .losses.regression import mse_loss as mse_loss
from .losses.regression import poisson_nll_loss as poisson_nll_loss
from .losses.regression import smooth_l1_loss as smooth_l1_loss

__all__ = [
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d",
    "adaptive_max_pool1d_with_indices", "adaptive_max_pool2d", "adaptive_max_pool2d_with_indices",
    "adaptive_max_pool3d", "adaptive_max_pool3d_with_indices", "affine_grid", "alpha_dropout", "avg_pool1d",
    "avg_pool2d", "avg_pool3d", "batch_norm", "bilinear", "binary_cross_entropy",
    "binary_cross_entropy_with_logits", "celu", "celu_", "channel_shuffle", "conv1d", "conv2d", "conv3d",
    "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "cosine_embedding_loss", "cosine_similarity",
    "cross_entropy", "ctc_loss", "dropout", "dropout1d", "dropout2d", "dropout3d", "elu", "elu_", "embedding",
    "embedding_bag", "feature_alpha_dropout", "fold", "fractional_max_pool2d", "fractional_max_pool2d_with_indices",
    "fractional_max_pool3d", "fractional_max_pool3d_with_indices", "gaussian_nll_loss", "gelu", "glu",
    "grid_sample", "group_norm", "grouped_mm", "gumbel_softmax", "hardshrink", "hardsigmoid", "hardswish",
    "hardtanh", "hardtanh_", "hinge_embedding_loss", "huber_loss", "instance_norm", "interpolate", "kl_div",
    "l1_loss", "layer_norm", "leaky_relu", "leaky_relu_", "linear", "linear_cross_entropy", "local_response_norm",
    "log_softmax", "logsigmoid", "lp_pool1d", "lp_pool2d", "lp_pool3d", "margin_ranking_loss", "max_pool1d",
    "max_pool1d_with_indices", "max_pool2d", "max_pool2d_with_indices", "max_pool3d", "max_pool3d_with_indices",
    "max_unpool1d", "max_unpool2d", "max_unpool3d", "mish", "mse_loss", "multi_head_attention_forward",
    "multi_margin_loss", "multilabel_margin_loss", "multilabel_soft_margin_loss", "native_channel_shuffle",
    "nll_loss", "normalize", "one_hot", "pad", "pairwise_distance", "pdist", "pixel_shuffle", "pixel_unshuffle",
    "poisson_nll_loss", "prelu", "relu", "relu6", "relu_", "rms_norm", "rrelu", "rrelu_",
    "scaled_dot_product_attention", "selu", "selu_", "sigmoid", "silu", "smooth_l1_loss", "soft_margin_loss",
    "softmax", "softmin", "softplus", "softshrink", "softsign", "tanh", "tanhshrink", "threshold", "threshold_",
    "triplet_margin_loss", "triplet_margin_with_distance_loss", "unfold", "upsample", "upsample_bilinear",
    "upsample_nearest",
]  # fmt: skip
