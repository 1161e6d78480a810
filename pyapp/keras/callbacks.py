"""Callbacks by Keras' names."""

from ..train.callbacks import (
    Callback,
    CallbackList,
    CSVLogger,
    EarlyStopping,
    History,
    LambdaCallback,
    LearningRateScheduler,
    ModelCheckpoint,
    ReduceLROnPlateau,
    TerminateOnNaN,
)

__all__ = [
    "CSVLogger", "Callback", "CallbackList", "EarlyStopping", "History", "LambdaCallback", "LearningRateScheduler",
    "ModelCheckpoint", "ReduceLROnPlateau", "TerminateOnNaN",
]  # fmt: skip
