"""The numbers that a model reports: the loss, those of the outputs, and metrics, by name and in Keras' order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..engine import Tensor
from ..train.metrics import Mean, Metric
from .compiling import CompiledMetrics
from .core import Layer

__all__ = ["ReportsMetrics"]


class ReportsMetrics(Layer):
    """Base of what can be trained: what it has measured since the last reset."""

    graph: Any
    loss: Any
    _compiled: dict[str, Any] | None
    _loss_tracker: Mean
    _output_trackers: list[Mean]
    _compiled_metrics: CompiledMetrics | None
    _last_logs: dict[str, Any] | None

    def logs(self) -> dict[str, Any]:
        """Losses and metrics since the last reset, by name."""
        found = self.get_metrics_result() if self._last_logs is None else self._last_logs
        return dict(sorted(_flat_logs(found).items()))

    def get_metrics_result(self) -> dict[str, Any]:
        """The mean of the loss and the metrics since the last reset, by name."""
        if type(self).metrics is not ReportsMetrics.metrics:  # a subclass says which there are
            own = [(metric.name, metric.result()) for metric in self.metrics]
            return {key: value for name, one in own for key, value in _by_name(name, one).items()}
        found: dict[str, Any] = {"loss": self._loss_tracker.result()}
        found |= {tracker.name: tracker.result() for tracker in self._output_trackers}
        if self._compiled_metrics is not None:
            found |= self._compiled_metrics.results()
        for metric in self._own_metrics:
            found |= _by_name(metric.name, metric.result())
        return dict(sorted(found.items()))

    @property
    def metrics(self) -> list[Any]:
        """The mean of the loss, the metrics of `compile` as one, "compile_metrics", the losses of several outputs, and
        the metrics that are attributes of the model or its layers. All begin again with each epoch. A subclass may say
        which it has.
        """
        if self._compiled is None:
            return [*self._own_metrics]
        wanted = self._compiled["metrics"] or self._compiled["weighted_metrics"]
        compiled = [] if self._compiled_metrics is None or not wanted else [self._compiled_metrics]
        return [self._loss_tracker, *compiled, *self._output_trackers, *self._own_metrics]

    @property
    def _own_metrics(self) -> list[Metric]:
        """The metrics that are attributes of the model or its layers."""
        return [
            value
            for module in self.modules()
            for name, value in vars(module).items()
            if isinstance(value, Metric) and name != "_loss_tracker"
        ]

    @property
    def metrics_names(self) -> list[str]:
        """The names in the order of `evaluate`'s list; of a subclass that says which metrics it has, theirs."""
        if type(self).metrics is not ReportsMetrics.metrics:
            return [metric.name for metric in self.metrics]
        if self._compiled is None:
            return ["loss", *(metric.name for metric in self._own_metrics)]
        return self._order(self.get_metrics_result())

    def _loss_names(self) -> list[str]:
        """The names of the outputs' losses, in the order that compile was given them in for outputs in a dict."""
        names, given = [tracker.name for tracker in self._output_trackers], self.loss
        if isinstance(given, Mapping) and self.graph is not None and isinstance(self.graph.outputs, Mapping):
            order = list(given)
            names.sort(key=lambda name: order.index(name.removesuffix("_loss").split("/")[0]))
        return names

    def _order(self, logs: Mapping[str, Any]) -> list[str]:
        """The names of numbers in Keras' order: those of `metrics`, the losses of the outputs, then by name. As in
        Keras, a name that several metrics have stands there once for each of them."""
        names: list[str] = []
        listed: list[Any] = []  # the trackers of the outputs' losses, whose names stand with the compiled metrics
        for metric in self.metrics:
            if isinstance(metric, CompiledMetrics):
                listed = self._output_trackers
                names += [one.name for _, one, _ in metric.metrics or ()] if len(metric.names) == 1 else ()
                names += self._loss_names()
            elif all(metric is not one for one in listed):
                names.append(metric.name)
        names = [name for name in names if name in logs]
        return [*names, *sorted(logs.keys() - set(names))]

    def _in_order(self, logs: Mapping[str, Any]) -> Any:
        """Numbers by name as a list, or the number alone if there is one."""
        values = [logs[name] for name in self._order(logs)]
        return values[0] if len(values) == 1 else values


def _by_name(name: str, result: Any) -> Mapping[str, Any]:
    """What a metric gives, by the names in the logs."""
    return result if isinstance(result, Mapping) else {name: result}


def _flat_logs(logs: Mapping[str, Any]) -> dict[str, Any]:
    """Plain numbers, or lists of them, by name; those of a dict inside are beside the others."""
    found: dict[str, Any] = {}
    for name, value in logs.items():
        if isinstance(value, Mapping):
            found |= _flat_logs(value)
        elif isinstance(value, Tensor):
            found[name] = float(value.item()) if value.numel() == 1 else value.tolist()
        else:
            found[name] = value
    return found
