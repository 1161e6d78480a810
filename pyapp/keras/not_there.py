"""Parts of Keras that are not here: what to use instead."""

NOT_THERE = {
    "export": "model.export and pyapp.onnx.export write ONNX",
    "distillation": "write a train_step",
    "wrappers": "call fit and predict of the model itself",
    "visualization": "use matplotlib with the arrays",
    "legacy": "Keras 3 has replaced it",
    "StatelessScope": "modules keep their state: use stateless_call of the layer or metric, stateless_apply of the "
    "optimizer, or pyapp.func.functional_call",
    "SymbolicScope": "call layers with keras.Input",
}


class NotThereError(NotImplementedError, AttributeError):
    """A part of Keras that is not here: for `hasattr`, too."""
