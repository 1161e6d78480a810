"""keras.models: the classes of models, and what reads, writes and copies them."""

from .cloning import clone_model
from .model import Functional, Model
from .saving import load_model, model_from_json, save_model
from .sequential import Sequential

__all__ = ["Functional", "Model", "Sequential", "clone_model", "load_model", "model_from_json", "save_model"]
