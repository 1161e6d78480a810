"""Layers by Keras' names. Images and sequences have their channels last."""

# ruff: noqa: F401, F403, F405
from typing import Any

from ..core import Layer as Layer
from ..not_there import lacking
from ..other_layers import InputLayer as InputLayer
from ..registered import deserialize_keras_object as deserialize
from ..registered import serialize_keras_object as serialize
from ..symbolic_tensors import Input as Input
from ..symbolic_tensors import InputSpec as InputSpec
from .activation import *
from .attention import *
from .convolution import *
from .convolutional_recurrent import *
from .dense import *
from .hashes import *
from .images import *
from .lookups import *
from .merging import *
from .normalization import *
from .picture_colours import *
from .picture_mixtures import *
from .picture_places import *
from .pooling import *
from .preprocessing import *
from .recurrent import *
from .recurrent_cells import *
from .regularization import *
from .reshaping import *
from .spectrograms import *
from .wrapping import *

AvgPool1D, AvgPool2D, AvgPool3D = AveragePooling1D, AveragePooling2D, AveragePooling3D
MaxPool1D, MaxPool2D, MaxPool3D = MaxPooling1D, MaxPooling2D, MaxPooling3D
GlobalAvgPool1D, GlobalAvgPool2D, GlobalAvgPool3D = (
    GlobalAveragePooling1D, GlobalAveragePooling2D, GlobalAveragePooling3D
)  # fmt: skip
GlobalMaxPool1D, GlobalMaxPool2D, GlobalMaxPool3D = GlobalMaxPooling1D, GlobalMaxPooling2D, GlobalMaxPooling3D
Convolution1D, Convolution2D, Convolution3D = Conv1D, Conv2D, Conv3D
Convolution1DTranspose, Convolution2DTranspose, Convolution3DTranspose = (
    Conv1DTranspose, Conv2DTranspose, Conv3DTranspose
)  # fmt: skip
SeparableConvolution1D, SeparableConvolution2D = SeparableConv1D, SeparableConv2D

__all__ = [name for name in dir() if name[0] != "_" and name not in ("Any", "lacking")]


def __getattr__(name: str) -> Any:
    """The error for names that are not there, which says what to use instead of those of Keras."""
    raise lacking(__name__, name)
