"""MobileNetV3, whose models prepare pictures themselves, by the name of Keras' module."""

from .imagenet_utils import decode_predictions, preprocess_as
from .mobilenets import MobileNetV3Large, MobileNetV3Small

__all__ = ["MobileNetV3Large", "MobileNetV3Small", "decode_predictions", "preprocess_input"]

preprocess_input = preprocess_as(None)
