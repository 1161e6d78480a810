"""Parts of Keras that are not here: what to use instead."""

NOT_THERE = {
    "export": "model.export and pyapp.onnx.export write ONNX",
    "visualization": "use matplotlib with the arrays",
    "legacy": "Keras 3 has replaced it",
    "SymbolicScope": "call layers with keras.Input",
}


class NotThereError(NotImplementedError, AttributeError):
    """A part of Keras that is not here: for `hasattr`, too."""
