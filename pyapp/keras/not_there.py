"""Parts of Keras that are not here: what to use instead."""

_CALIBRATED = "it needs data to calibrate it; use int8"
_BACKEND = "it runs a model of another framework; read the weights and write the model with these layers"

_INSTEAD = {
    "export": "model.export and pyapp.onnx.export write ONNX",
    "visualization": "use matplotlib with the arrays",
    "legacy": "Keras 3 has replaced it",
    "SymbolicScope": "call layers with keras.Input",
    "callbacks.OrbaxCheckpoint": (
        "it writes folders of the package orbax; use ModelCheckpoint for models, or BackupAndRestore to go on with a "
        "training"
    ),
    "dtype_policies.AWQDTypePolicy": _CALIBRATED,
    "dtype_policies.GPTQDTypePolicy": _CALIBRATED,
    "layers.FlaxLayer": _BACKEND,
    "layers.JaxLayer": _BACKEND,
    "layers.TFSMLayer": _BACKEND,
    "optimizers.legacy": "Keras 3 has replaced it; use keras.optimizers",
    "quantizers.AWQConfig": _CALIBRATED,
    "quantizers.GPTQConfig": _CALIBRATED,
}  # by the name after "keras."


class NotThereError(NotImplementedError, AttributeError):
    """A part of Keras that is not here: for `hasattr`, too."""


def lacking(module: str, name: str) -> AttributeError:
    """The error for a name that a module of this package does not have: a NotThereError where Keras has it."""
    full = f"{module}.{name}".removeprefix("pyapp.keras.")
    if full in _INSTEAD:
        return NotThereError(f"keras.{full} is not there: {_INSTEAD[full]}")
    return AttributeError(f"module {module!r} has no attribute {name!r}")
