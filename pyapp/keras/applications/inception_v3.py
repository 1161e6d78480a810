"""Inception v3, by the name of Keras' module."""

from .imagenet_utils import decode_predictions, preprocess_as
from .inceptions import InceptionV3

__all__ = ["InceptionV3", "decode_predictions", "preprocess_input"]

preprocess_input = preprocess_as("tf")
