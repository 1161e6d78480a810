"""The modules of pyapp.models, by the model_type of config.json that they declare."""

from __future__ import annotations

import importlib
from typing import Any

from .._index import MODEL_TYPES, SEEING, TASKS


def architecture(model_type: Any) -> Any:
    """The module of an architecture; None for one that is not known."""
    return _module(MODEL_TYPES, model_type)


def seeing_architecture(model_type: Any) -> Any:
    """The module of a language model that sees pictures; None where there is none."""
    return _module(SEEING, model_type)


def architecture_for(model_type: Any, task: str) -> Any:
    """The module of an architecture, if it has models for a task; else None."""
    name = MODEL_TYPES.get(model_type) if isinstance(model_type, str) else None
    return architecture(model_type) if name is not None and task in TASKS[name] else None


def module_called(name: str) -> Any:
    """The module of pyapp.models with a name."""
    return importlib.import_module(f"pyapp.models.{name}")


def _module(names: dict[str, str], model_type: Any) -> Any:
    name = names.get(model_type) if isinstance(model_type, str) else None
    return None if name is None else module_called(name)
