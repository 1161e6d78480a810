"""All variables of a model by name, and losses as functions of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..engine import Tensor
from ..train.stateless import check_count, holding, values_of
from .core import Layer
from .held_values import values_in


class WithState(Layer):
    """Base of what can be trained: its variables in groups, those of the optimiser and the metrics among them."""

    def compute_loss(
        self, x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None, training: bool = True
    ) -> Tensor:
        """The loss of a batch."""
        raise NotImplementedError

    def stateless_compute_loss(
        self, trainable_variables: Any, non_trainable_variables: Any, metrics_variables: Any, x: Any = None,
        y: Any = None, y_pred: Any = None, sample_weight: Any = None, training: bool = True,
    ) -> tuple[Tensor, tuple[Any, list[Tensor], list[Tensor]]]:  # fmt: skip
        """`compute_loss` with these values of the model's variables, which keep their own: (loss, (the trained ones,
        the others, those of metrics afterwards)).
        """
        trained, others, measured = self.trainable_variables, self.non_trainable_variables, self.metrics_variables
        own, values = [*trained, *others], [*trainable_variables, *non_trainable_variables]
        check_count(f"{self.name}.stateless_compute_loss", [*values, *metrics_variables], [*own, *measured])
        with values_in(self, own, values) as held, holding(measured, metrics_variables):
            loss = self.compute_loss(x, y, y_pred, sample_weight=sample_weight, training=training)
            return loss, (trainable_variables, values_of(held[len(trained) :]), values_of(measured))

    def _groups_of_state(self) -> dict[str, list[Any]]:
        """All variables, by the names that Keras' state trees have."""
        optimizer = getattr(self, "optimizer", None)
        return {
            "trainable_variables": self.trainable_variables,
            "non_trainable_variables": self.non_trainable_variables,
            "optimizer_variables": [] if optimizer is None else optimizer.variables,
            "metrics_variables": self.metrics_variables,
        }

    def get_state_tree(self, value_format: str = "backend_tensor") -> dict[str, Any]:
        """The values of the model's, the optimiser's and the metrics' variables as dicts within dicts, by the parts of
        their paths: tensors, or arrays with "numpy_array". ValueError where two variables have one path.
        """
        if value_format not in ("backend_tensor", "numpy_array"):
            raise ValueError(f"get_state_tree: value_format is backend_tensor or numpy_array, not {value_format!r}")
        tree: dict[str, Any] = {}
        for group, variables in self._groups_of_state().items():
            tree[group] = {}
            for variable in variables:
                *parts, last = variable.path.split("/")
                inner = tree[group]
                for part in parts:
                    inner = inner.setdefault(part, {})
                if last in inner:
                    raise ValueError(f"get_state_tree: two variables have the path {variable.path!r}: rename a layer")
                inner[last] = variable.value if value_format == "backend_tensor" else variable.numpy()
        return tree

    def set_state_tree(self, state_tree: Mapping[str, Any]) -> None:
        """Writes the values of such a tree, or of parts of one, into the variables. Paths that are not there are left
        out; ValueError for names of groups that are not Keras'.
        """
        groups = self._groups_of_state()
        for group, tree in state_tree.items():
            if group not in groups:
                raise ValueError(f"set_state_tree: {group!r} is none of {', '.join(groups)}")
            for variable in groups[group]:
                found: Any = tree
                for part in variable.path.split("/"):
                    found = found.get(part) if isinstance(found, Mapping) else None
                if found is not None:
                    variable.assign(found)
