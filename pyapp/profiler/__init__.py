"""Times of ops, by torch.profiler's names."""

from .events import EventList, FunctionEvent, FunctionEventAvg
from .profile import ProfilerActivity, profile, supported_activities, tensorboard_trace_handler
from .recorder import record_function
from .schedule import ProfilerAction, schedule

__all__ = [
    "EventList", "FunctionEvent", "FunctionEventAvg", "ProfilerAction", "ProfilerActivity", "profile",
    "record_function", "schedule", "supported_activities", "tensorboard_trace_handler",
]  # fmt: skip
