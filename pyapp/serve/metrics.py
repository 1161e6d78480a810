"""Figures for Prometheus, under /metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from .engine import Engine
from .scheduler import Scheduler
from .served import Beside, Models

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)


class Metrics:
    """The figures of one server. `in_flight` gives the number of requests that wait or run."""

    def __init__(self, engine: Engine, models: Models, in_flight: Callable[[], int]) -> None:
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
        self.texts = Counter("pyapp_embedded_texts", "Texts embedded or ranked", ["model"], registry=registry)
        registry.register(_Now(engine, models, in_flight))

    def text(self) -> bytes:
        found: bytes = generate_latest(self._registry)
        return found


class _Now:
    """The present figures of the engine, the models and their schedulers."""

    def __init__(self, engine: Engine, models: Models, in_flight: Callable[[], int]) -> None:
        self._engine, self._models, self._in_flight = engine, models, in_flight

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily("pyapp_requests_in_flight", "Requests that wait or run", self._in_flight())
        yield GaugeMetricFamily("pyapp_engine_turn_seconds", "How long the engine's turn takes so far",
                                self._engine.busy_seconds)  # fmt: skip
        loaded = GaugeMetricFamily("pyapp_model_loaded", "Whether a model is in memory", labels=["model", "task"])
        waiting = GaugeMetricFamily("pyapp_texts_waiting", "Texts in the queue", labels=["model"])
        running = GaugeMetricFamily("pyapp_texts_running", "Texts that are being written", labels=["model"])
        used = GaugeMetricFamily("pyapp_cache_used", "Share of the cache that texts use", labels=["model"])
        kept = GaugeMetricFamily("pyapp_cache_kept", "Share of the cache that is kept for prompts that begin alike",
                                 labels=["model"])  # fmt: skip
        prompt = CounterMetricFamily("pyapp_prompt_tokens", "Tokens of prompts", labels=["model"])
        reused = CounterMetricFamily("pyapp_prompt_tokens_reused", "Tokens of prompts that were in the cache",
                                     labels=["model"])  # fmt: skip
        new = CounterMetricFamily("pyapp_new_tokens", "Tokens written", labels=["model"])
        anew = CounterMetricFamily("pyapp_texts_preempted", "Texts that gave their memory back for others",
                                   labels=["model"])  # fmt: skip
        passes = CounterMetricFamily("pyapp_steps", "Steps of the texts together", labels=["model"])
        guessed = CounterMetricFamily("pyapp_tokens_guessed", "Tokens guessed by --lookup", labels=["model"])
        accepted = CounterMetricFamily("pyapp_tokens_guessed_right", "Guesses that were right", labels=["model"])
        windows = CounterMetricFamily("pyapp_sound_windows", "Windows of recordings encoded", labels=["model"])
        together = CounterMetricFamily("pyapp_sound_passes", "Passes of the encoder over windows together",
                                       labels=["model"])  # fmt: skip
        for model in self._models.by_name.values():
            loaded.add_metric([model.name, model.task], float(model.loaded is not None))
            scheduler = model.runner
            if isinstance(scheduler, Beside):
                windows.add_metric([model.name], scheduler.encoder.windows)
                together.add_metric([model.name], scheduler.encoder.passes)
            if isinstance(scheduler, Scheduler):
                load, name = scheduler.load, [model.name]
                waiting.add_metric(name, load.waiting)
                running.add_metric(name, load.running)
                used.add_metric(name, load.used_blocks / load.blocks)
                kept.add_metric(name, load.kept_blocks / load.blocks)
                prompt.add_metric(name, scheduler.prompt_tokens)
                reused.add_metric(name, scheduler.reused_tokens)
                new.add_metric(name, scheduler.new_tokens)
                passes.add_metric(name, scheduler.steps)
                anew.add_metric(name, scheduler.preempted)
                guessed.add_metric(name, scheduler.guessed_tokens)
                accepted.add_metric(name, scheduler.accepted_tokens)
        yield from (
            loaded,
            waiting,
            running,
            used,
            kept,
            prompt,
            reused,
            new,
            passes,
            anew,
            guessed,
            accepted,
            windows,
            together,
        )
