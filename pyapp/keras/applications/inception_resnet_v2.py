"""Inception-ResNet v2, by the name of Keras' module."""

from .imagenet_utils import decode_predictions, preprocess_as
from .inceptions import InceptionResNetV2

__all__ = ["InceptionResNetV2", "decode_predictions", "preprocess_input"]

preprocess_input = preprocess_as("tf")
