"""The second version of ResNet, by the name of Keras' module."""

from .imagenet_utils import decode_predictions, preprocess_as
from .resnets import ResNet50V2, ResNet101V2, ResNet152V2

__all__ = ["ResNet101V2", "ResNet152V2", "ResNet50V2", "decode_predictions", "preprocess_input"]

preprocess_input = preprocess_as("tf")
