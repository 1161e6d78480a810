"""MobileNetV2, by the name of Keras' module."""

from .imagenet_utils import decode_predictions, preprocess_as
from .mobilenets import MobileNetV2

__all__ = ["MobileNetV2", "decode_predictions", "preprocess_input"]

preprocess_input = preprocess_as("tf")
