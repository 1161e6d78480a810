"""VGG with 16 layers, by the name of Keras' module."""

from .imagenet_utils import decode_predictions, preprocess_as
from .vgg import VGG16

__all__ = ["VGG16", "decode_predictions", "preprocess_input"]

preprocess_input = preprocess_as("caffe")
