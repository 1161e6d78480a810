"""keras.applications: no models of Keras are here. The names are refused, with what to use instead."""

from typing import NoReturn

from .not_there import NOT_THERE


def __getattr__(name: str) -> NoReturn:
    """NotImplementedError for any name."""
    if name.startswith("__"):
        raise AttributeError(name)
    raise NotImplementedError(f"keras.applications.{name} is not there: {NOT_THERE['applications']}")
