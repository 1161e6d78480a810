"""Times of ops, by torch.profiler's names."""

from .events import EventList, FunctionEvent, FunctionEventAvg
from .profile import ProfilerActivity, profile, supported_activities, tensorboard_trace_handler
from .recorder import record_function
from .schedule import ProfilerAction, schedule


def kineto_available() -> bool:
    """Whether `profile` can be used, as torch's can with its library Kineto: always."""
    return True


__all__ = [
    "EventList", "FunctionEvent", "FunctionEventAvg", "ProfilerAction", "ProfilerActivity", "kineto_available",
    "profile", "record_function", "schedule", "supported_activities", "tensorboard_trace_handler",
]  # fmt: skip
