"""ResNet, by the name of Keras' module."""

from .imagenet_utils import decode_predictions, preprocess_as
from .resnets import ResNet50, ResNet101, ResNet152

__all__ = ["ResNet101", "ResNet152", "ResNet50", "decode_predictions", "preprocess_input"]

preprocess_input = preprocess_as("caffe")
