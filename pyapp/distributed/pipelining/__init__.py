"""A model whose layers several processes have one after the other, by torch.distributed.pipelining's names
(docs/distributed.md): its batch passes through them in microbatches.
"""

from .microbatch import TensorChunkSpec
from .schedules import Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B, ScheduleLoopedBFS
from .split import Pipe, SplitPoint, pipe_split, pipeline
from .stage import PipelineStage

__all__ = [
    "Pipe", "PipelineStage", "Schedule1F1B", "ScheduleGPipe", "ScheduleInterleaved1F1B", "ScheduleLoopedBFS",
    "SplitPoint", "TensorChunkSpec", "pipe_split", "pipeline",
]  # fmt: skip
