"""VGG with 19 layers, by the name of Keras' module."""

from .imagenet_utils import decode_predictions, preprocess_as
from .vgg import VGG19

__all__ = ["VGG19", "decode_predictions", "preprocess_input"]

preprocess_input = preprocess_as("caffe")
