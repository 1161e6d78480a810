"""The labels of a classifier's config.json: `id2label`, or `num_labels` without names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyapp.errors import ModelError

LARGEST = 1 << 16  # labels of a classifier
USUAL = 2  # labels of a configuration that has neither field


class Labelled:
    """Adds `labels` to a configuration with the fields `id2label` and `num_labels`."""

    id2label: dict[str, str] | None
    num_labels: int | None

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the outputs, in order."""
        names: dict[Any, Any] | None = self.id2label
        if names is None:
            count = USUAL if self.num_labels is None else self.num_labels
            if count > LARGEST:
                raise ModelError(f"num_labels is {count:,}, expected at most {LARGEST:,}")
            return tuple(f"LABEL_{i}" for i in range(count))
        by_number = {str(number): str(name)[:1000] for number, name in names.items()}
        expected = [str(i) for i in range(len(by_number))]
        if not 1 <= len(by_number) <= LARGEST or set(by_number) != set(expected):
            raise ModelError("id2label does not name the labels 0, 1, 2 … without gaps")
        return tuple(by_number[number] for number in expected)


def labels_of(values: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of the outputs that the object of a config.json says. ModelError for impossible ones."""
    found, names, count = Labelled(), values.get("id2label"), values.get("num_labels")
    if not (names is None or isinstance(names, dict)) or not (count is None or (type(count) is int and count > 0)):
        raise ModelError(f"id2label is {names!r:.60}, num_labels {count!r:.40}")
    found.id2label, found.num_labels = names, count
    return found.labels
