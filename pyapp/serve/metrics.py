"""Figures for Prometheus, under /metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from pyapp.dataclass import dataclass
from pyapp.engine.device import cpu
from pyapp.engine.storage import kept_bytes

from .denoiser import Denoiser
from .engine import Engine
from .scheduler import Scheduler
from .served import Beside, Models

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)


@dataclass(frozen=True)
class Figure:
    """A figure of each model whose runner is an `of`."""

    name: str
    text: str
    of: type | tuple[type, ...]
    value: Callable[[Any], float]
    family: type[CounterMetricFamily | GaugeMetricFamily] = CounterMetricFamily


WRITERS = (Scheduler, Denoiser)
OF_RUNNERS = (
    Figure("pyapp_texts_waiting", "Texts in the queue", WRITERS, lambda it: it.load.waiting, GaugeMetricFamily),
    Figure("pyapp_texts_running", "Texts that are being written", WRITERS, lambda it: it.load.running,
           GaugeMetricFamily),
    Figure("pyapp_cache_used", "Share of the cache that texts use", Scheduler,
           lambda it: it.load.used_blocks / it.load.blocks, GaugeMetricFamily),
    Figure("pyapp_cache_kept", "Share of the cache that is kept for prompts that begin alike", Scheduler,
           lambda it: it.load.kept_blocks / it.load.blocks, GaugeMetricFamily),
    Figure("pyapp_prompt_tokens", "Tokens of prompts", WRITERS, lambda it: it.prompt_tokens),
    Figure("pyapp_prompt_tokens_reused", "Tokens of prompts that were in the cache", Scheduler,
           lambda it: it.reused_tokens),
    Figure("pyapp_new_tokens", "Tokens written", WRITERS, lambda it: it.new_tokens),
    Figure("pyapp_steps", "Steps of the texts together", WRITERS, lambda it: it.steps),
    Figure("pyapp_texts_preempted", "Texts that gave their memory back for others", Scheduler,
           lambda it: it.preempted),
    Figure("pyapp_tokens_guessed", "Tokens guessed by --lookup", Scheduler, lambda it: it.guessed_tokens),
    Figure("pyapp_tokens_guessed_right", "Guesses that were right", Scheduler, lambda it: it.accepted_tokens),
    Figure("pyapp_sound_windows", "Windows of recordings encoded", Beside, lambda it: it.windows),
    Figure("pyapp_sound_passes", "Passes of the encoder over windows together", Beside, lambda it: it.passes),
)  # fmt: skip


class Metrics:
    """The figures of one server. `in_flight` gives the number of requests that wait or run, `kept` the bytes of the
    answers of /v1/responses that are kept.
    """

    def __init__(
        self, engine: Engine, models: Models, in_flight: Callable[[], int], kept: Callable[[], int]
    ) -> None:  # fmt: skip
        self._registry = registry = CollectorRegistry()
        self.requests = Counter("pyapp_requests", "Requests by route, model and status",
                                ["route", "model", "status"], registry=registry)  # fmt: skip
        self.seconds = Histogram("pyapp_request_seconds", "Time of whole requests", ["route"], buckets=SECONDS,
                                 registry=registry)  # fmt: skip
        self.first = Histogram("pyapp_time_to_first_token_seconds", "Time to the first token", ["model"],
                               buckets=SECONDS, registry=registry)  # fmt: skip
        self.between = Histogram("pyapp_time_between_tokens_seconds", "Time between two tokens of a text", ["model"],
                                 buckets=SECONDS, registry=registry)  # fmt: skip
        self.sound = Counter("pyapp_sound_seconds", "Seconds of sound transcribed", ["model"], registry=registry)
        self.spoken = Counter("pyapp_spoken_seconds", "Seconds of speech made", ["model"], registry=registry)
        self.composed = Counter("pyapp_composed_seconds", "Seconds of music made", ["model"], registry=registry)
        self.drawn = Counter("pyapp_drawn_pictures", "Pictures drawn", ["model"], registry=registry)
        self.texts = Counter("pyapp_embedded_texts", "Texts embedded or ranked", ["model"], registry=registry)
        ProcessCollector(registry=registry)  # memory, processor time, open files, where the system tells (Linux)
        registry.register(_Now(engine, models, in_flight, kept))

    def text(self) -> bytes:
        found: bytes = generate_latest(self._registry)
        return found


class _Now:
    """The present figures of the engine, the models and their schedulers."""

    def __init__(
        self, engine: Engine, models: Models, in_flight: Callable[[], int], kept: Callable[[], int]
    ) -> None:  # fmt: skip
        self._engine, self._models, self._in_flight, self._kept = engine, models, in_flight, kept

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily("pyapp_requests_in_flight", "Requests that wait or run", self._in_flight())
        yield GaugeMetricFamily("pyapp_engine_turn_seconds", "How long the engine's turn takes so far",
                                self._engine.busy_seconds)  # fmt: skip
        yield GaugeMetricFamily("pyapp_memory_kept_bytes", "Bytes of free memory that are kept for new tensors",
                                kept_bytes(cpu))  # fmt: skip
        yield GaugeMetricFamily("pyapp_responses_kept_bytes", "Bytes of the responses that are kept", self._kept())
        loaded = GaugeMetricFamily("pyapp_model_loaded", "Whether a model is in memory", labels=["model", "task"])
        families = {figure: figure.family(figure.name, figure.text, labels=["model"]) for figure in OF_RUNNERS}
        for model in self._models.by_name.values():
            loaded.add_metric([model.name, model.task], float(model.loaded is not None))
            runner = model.runner
            for figure, family in families.items():
                if isinstance(runner, figure.of):
                    family.add_metric([model.name], figure.value(runner))
        yield loaded
        yield from families.values()
