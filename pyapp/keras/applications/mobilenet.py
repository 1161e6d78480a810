"""MobileNet, by the name of Keras' module."""

from .imagenet_utils import decode_predictions, preprocess_as
from .mobilenets import MobileNet

__all__ = ["MobileNet", "decode_predictions", "preprocess_input"]

preprocess_input = preprocess_as("tf")
