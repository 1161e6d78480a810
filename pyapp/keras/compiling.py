"""Losses and metrics of a model's outputs, as `compile` is given them: one, a list, or a dict by the outputs' names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..engine import Tensor
from ..errors import OperationError
from ..train import metrics as base
from . import losses, metrics
from .masking import mask_of, masked_weights
from .structures import flatten, is_nested


def by_output(given: Any, names: list[str], what: str) -> list[Any]:
    """What is given for each output. ValueError for an unknown name or a wrong number."""
    if isinstance(given, Mapping):
        unknown = given.keys() - set(names)
        if unknown:
            raise ValueError(
                f"compile: {what} names {', '.join(map(repr, sorted(unknown)))}; the outputs are {', '.join(names)}"
            )
        return [given.get(name) for name in names]
    if isinstance(given, (list, tuple)) and (len(names) > 1 or what != "metrics"):
        if len(given) != len(names):
            raise ValueError(
                f"compile: {what} has {len(given)} entries, the model {len(names)} outputs ({', '.join(names)})"
            )
        return list(given)
    return [given] * len(names)


def by_path(given: Any, paths: list[tuple[Any, ...]], what: str) -> Any:
    """What is given for each output of lists and dicts within one another, in the order of `paths`: in the same
    structure, or as a list of all. ValueError where the structure has no such part."""
    if not isinstance(given, (Mapping, list, tuple)) or (
        not isinstance(given, Mapping) and not is_nested(given) and len(given) == len(paths)
    ):
        return given
    found = []
    for path in paths:
        part: Any = given
        for key in path:
            if not isinstance(part, (Mapping, list, tuple)):
                break  # it is for all outputs there
            fits = key in part if isinstance(part, Mapping) else isinstance(key, int) and key < len(part)
            if not fits and not isinstance(part, Mapping):
                raise ValueError(f"compile: {what} has nothing for the output {'/'.join(map(str, path))}")
            part = part[key] if fits else None
        found.append(part)
    return found


def parts_of(structure: Any, names: list[str]) -> list[Any]:
    """Labels, outputs or weights of each output; None for all if there are none."""
    if structure is None:
        return [None] * len(names)
    if is_nested(structure):
        return flatten(structure)
    if isinstance(structure, Mapping):
        return [structure.get(name) for name in names] if set(structure) & set(names) else flatten(structure)
    return list(structure) if isinstance(structure, (list, tuple)) else [structure]


def weights_of_outputs(sample_weight: Any, names: list[str]) -> list[Any]:
    """The weights of the examples for each output; one array is for all. ValueError for names of no output."""
    if isinstance(sample_weight, Mapping) and names and not set(sample_weight) <= set(names):
        unknown = ", ".join(repr(name) for name in sample_weight if name not in names)
        if not is_nested(sample_weight):
            raise ValueError(f"sample_weight names {unknown}; the outputs are {', '.join(names)}")
    if isinstance(sample_weight, (Mapping, list, tuple)):
        return parts_of(sample_weight, names)
    return [sample_weight] * len(names)


class SummedLosses:
    """Several losses of one output: their sum, each times its weight."""

    def __init__(self, given: Any, weights: Any) -> None:
        given = [loss for loss in given if loss is not None]
        self.losses = [losses.as_loss(loss) for loss in given]
        self.weights = list(weights) if isinstance(weights, (list, tuple)) else [weights] * len(self.losses)
        if not self.losses or len(self.weights) != len(self.losses):
            raise ValueError(f"compile: {len(self.losses)} losses of an output have {len(self.weights)} weights")
        self.names = [one if isinstance(one, str) else loss.name for one, loss in zip(given, self.losses, strict=True)]
        self.name = " + ".join(self.names)
        self.values: list[Any] = []  # of the last call, before the weights

    def __call__(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        self.values = [loss(y_true, y_pred, sample_weight) for loss in self.losses]
        total: Any = None
        for value, weight in zip(self.values, self.weights, strict=True):
            value = value if weight is None else value * weight
            total = value if total is None else total + value
        return total


class CompiledLoss:
    """The sum of the outputs' losses, each times its weight."""

    def __init__(self, given: Any, loss_weights: Any, names: list[str]) -> None:
        if isinstance(given, (list, tuple)) and len(names) == 1:
            given = given[0] if len(given) == 1 else [given]
        chosen = by_output(given, names, "loss")
        if len(names) > 1 and not isinstance(given, (Mapping, list, tuple)):
            chosen = [given] * len(names)
        if isinstance(loss_weights, (list, tuple)) and len(names) == 1 and len(loss_weights) > 1:
            loss_weights = [loss_weights]  # of several losses of one output
        self.losses: list[Any] = []
        self.weights: list[float | None] = []
        for loss, weight in zip(chosen, by_output(loss_weights, names, "loss_weights"), strict=True):
            if isinstance(loss, (list, tuple)):
                several = isinstance(weight, (list, tuple))
                loss, weight = SummedLosses(loss, weight if several else None), None if several else weight
            if weight is not None and not hasattr(weight, "__float__"):
                raise ValueError(
                    f"compile: loss_weights has a number for each of {len(names)} outputs ({', '.join(names)}), got "
                    f"{weight!r:.60} for one"
                )
            self.losses.append(loss if loss is None or isinstance(loss, SummedLosses) else losses.as_loss(loss))
            self.weights.append(None if weight is None else float(weight))
        self.names = names

    @property
    def tracked(self) -> list[str]:
        """The names of the losses that are told beside the total: those of outputs, or of the losses of one output."""
        if len(self.names) == 1 and isinstance(self.losses[0], SummedLosses):
            return self.losses[0].names
        return [name for name, loss in zip(self.names, self.losses, strict=True) if loss is not None]

    def labels(self, y: Any) -> list[Any]:
        """The labels of each output. Where as many are given as outputs have a loss, the others have None."""
        parts = parts_of(y, self.names)
        wanted = [loss is not None for loss in self.losses]
        if len(parts) == sum(wanted) < len(wanted):
            rest = iter(parts)
            return [next(rest) if has else None for has in wanted]
        return parts

    def __call__(
        self, y: list[Any], outputs: list[Tensor], sample_weight: list[Any]
    ) -> tuple[Tensor, list[Tensor | None]]:
        """The total, and the loss of each output (or each loss of the only output) before its weight."""
        total: Tensor | None = None
        found: list[Tensor | None] = []
        if len(y) != len(outputs):
            raise ValueError(
                f"outputs of the model: {len(outputs)} ({', '.join(self.names)}), labels in the data: {len(y)}; "
                "give an array for each, in a list or a dict"
            )
        for name, loss, weight, truth, output, weights in zip(
            self.names, self.losses, self.weights, y, outputs, sample_weight, strict=True
        ):
            if loss is None:
                found.append(None)
                continue
            if truth is None:
                raise ValueError(f"output {name!r} has a loss, but the data have no labels for it")
            if truth.shape[:1] != output.shape[:1]:
                raise ValueError(
                    f"output {name!r}: labels of shape {truth.shape} and predictions of shape {output.shape} have "
                    "different numbers of examples"
                )
            try:
                value = loss(truth, output, weights)
            except OperationError as error:
                raise ValueError(
                    f"output {name!r}: the loss {loss.name} cannot compare labels of shape {tuple(truth.shape)} with "
                    f"predictions of shape {tuple(output.shape)}: {error.what}"
                ) from error
            found += loss.values if isinstance(loss, SummedLosses) and len(self.names) == 1 else [value]
            value = value if weight is None else value * weight
            total = value if total is None else total + value
        if total is None:
            raise ValueError("the model was compiled without a loss")
        return total, found


def _listed(given: Any) -> list[Any]:
    """The metrics in lists and dicts within one another. A dict with a class, of a file, is a metric itself."""
    if isinstance(given, Mapping) and "class_name" not in given:
        given = [given[name] for name in sorted(given)]
    if isinstance(given, (list, tuple)):
        return [metric for part in given for metric in _listed(part)]
    return [] if given is None else [given]


class CompiledMetrics:
    """The metrics of the outputs; "accuracy" means the one that fits the labels, as in Keras."""

    def __init__(self, given: Any, weighted: Any, names: list[str]) -> None:
        self.names = names
        self._given = [(part, False) for part in self._by_output(given, names)]
        self._weighted = [(part, True) for part in self._by_output(weighted, names)]
        self.metrics: list[tuple[int, base.Metric, bool]] | None = None  # (output, metric, by weights)

    @staticmethod
    def _by_output(given: Any, names: list[str]) -> list[Any]:
        if given is None:
            return [None] * len(names)
        if len(names) == 1:  # all are of the only output, whatever they are called and however they are nested
            return [_listed(given)]
        if isinstance(given, Mapping) or (len(names) > 1 and any(isinstance(part, (list, tuple)) for part in given)):
            return by_output(given, names, "metrics")
        if len(names) > 1 and isinstance(given, (list, tuple)) and len(given) > 1:
            if len(given) != len(names):
                raise ValueError(
                    f"compile: metrics is a list of {len(given)}, the model has {len(names)} outputs "
                    f"({', '.join(names)}): give one entry for each output, or a dict"
                )
            return list(given)
        return [given] * len(names)

    def build(self, y: list[Any], outputs: list[Tensor]) -> None:
        """Makes the metrics; their kinds may depend on the labels' shapes."""
        self.metrics = []
        for k in range(len(outputs)):
            for given in (self._given, self._weighted):
                part, weighted = given[k] if k < len(given) else (None, False)
                if part is None:
                    continue
                for one in part if isinstance(part, (list, tuple)) else [part]:
                    self.metrics.append((k, metrics.for_labels(one, y[k], outputs[k]), weighted))

    def update(self, y: list[Any], outputs: list[Tensor], sample_weight: list[Any]) -> None:
        """Takes a batch."""
        if self.metrics is None:
            self.build(y, outputs)
        assert self.metrics is not None
        for k, metric, weighted in self.metrics:
            weights = sample_weight[k] if weighted else None
            if isinstance(metric, base.MeanMetricWrapper):
                weights = masked_weights(weights, mask_of(outputs[k]), "float32", mean=False)
            metric.update_state(y[k], outputs[k].detach(), weights)

    name = "compile_metrics"

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Takes a batch, for a `train_step` of one's own."""
        names = self.names
        self.update(parts_of(y_true, names), flatten(y_pred), weights_of_outputs(sample_weight, names))

    def result(self) -> dict[str, Any]:
        """The numbers so far, by name."""
        return self.results()

    def results(self) -> dict[str, Any]:
        """The numbers so far, by name. Names that are there already get a number, as in Keras: mse, mse_1, mse_2."""
        found: dict[str, Any] = {}
        used: dict[str, int] = {}
        for k, metric, weighted in sorted(self.metrics or [], key=lambda one: one[2]):
            output = f"{self.names[k]}_" if len(self.names) > 1 else ""
            name = output + metric.name
            if name in used and weighted:
                name = f"{output}weighted_{metric.name}"
            count = used[name] = used.get(name, 0) + 1
            found[name if count == 1 else f"{name}_{count - 1}"] = metric.result()
        return found

    def reset_state(self) -> None:
        """Begins again."""
        for _, metric, _ in self.metrics or []:
            metric.reset_state()

    def tensors(self) -> list[Tensor]:
        """The states of all metrics."""
        return [state for _, metric, _ in self.metrics or [] for state in metric.state_tensors()]

    @property
    def variables(self) -> list[Tensor]:
        """The states of all metrics."""
        return self.tensors()


def batch_size_of(x: Any) -> int:
    """The number of examples of inputs."""
    first = next(leaf for leaf in flatten(x) if leaf is not None)
    return int(first.shape[0]) if hasattr(first, "shape") else len(first)
