"""ResNet of 50 layers, by the name of Keras' module."""

from .imagenet_utils import decode_predictions, preprocess_as
from .resnets import ResNet50

__all__ = ["ResNet50", "decode_predictions", "preprocess_input"]

preprocess_input = preprocess_as("caffe")
