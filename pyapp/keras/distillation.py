"""Knowledge distillation: a small model, the student, learns from labels and from a large one, the teacher.

Source: Hinton, Vinyals and Dean, "Distilling the Knowledge in a Neural Network" (2015), and `keras.distillation` of
Keras 3.15.1, whose interface and numbers these are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..engine import Tensor, no_grad, ops
from ..train.metrics import Mean
from . import losses, saving
from .lookup import Configured
from .models import Model, Sequential
from .structures import flatten, map_structure

__all__ = ["DistillationLoss", "Distiller", "FeatureDistillation", "LogitsDistillation"]

_FINAL = "final_output"


def _functions(given: Any, owner: str) -> Any:
    """Losses in the structure of the outputs, from names, objects and their descriptions."""
    found = _read(given)
    if all(one is None for one in flatten(found)):
        raise ValueError(f"{owner}: at least one loss must not be None")
    return found


def _read(given: Any) -> Any:
    if isinstance(given, Mapping) and "class_name" not in given:
        return {key: _read(value) for key, value in given.items()}
    if isinstance(given, (list, tuple)):
        return [_read(value) for value in given]
    return None if given is None else losses.get(given)


def _like(structure: Any, other: Any, owner: str, what: str) -> list[Any]:
    """The leaves of `other`. ValueError where it has not the structure of `structure`."""
    if map_structure(lambda _: 0, structure) != map_structure(lambda _: 0, other):
        raise ValueError(f"{owner}: {what} have different structures")
    return flatten(other)


class DistillationLoss(Configured):
    """Base: `compute_loss(teacher_outputs, student_outputs)` gives a scalar."""

    keras_module = "keras.distillation"

    teacher_layer_name: str | None = None
    student_layer_name: str | None = None

    def compute_loss(self, teacher_outputs: Any, student_outputs: Any, **kwargs: Any) -> Tensor:
        """The loss of a batch, a scalar."""
        raise NotImplementedError(f"{type(self).__name__} has no compute_loss()")

    def validate_outputs(self, teacher_outputs: Any, student_outputs: Any) -> None:
        """ValueError where the outputs do not have one structure."""
        _like(teacher_outputs, student_outputs, type(self).__name__, "the outputs of teacher and student")

    def validate_model_compatibility(self, teacher: Model, student: Model) -> None:
        """ValueError for models that this loss cannot compare."""


class LogitsDistillation(DistillationLoss):
    """The loss between the outputs of both, which are logits (B, classes), divided by `temperature`. A
    `keras.losses.KLDivergence()` compares their softmax, and is multiplied by the temperature's square; as in Keras,
    the name "kl_divergence" compares them as they are. `loss` has the structure of the outputs; None leaves one out.
    """

    def __init__(self, temperature: float = 3.0, loss: Any = "kl_divergence") -> None:
        if not isinstance(temperature, (int, float)) or not temperature > 0:
            raise ValueError(f"LogitsDistillation: temperature is a positive number, not {temperature!r:.40}")
        self.temperature, self.loss = temperature, _functions(loss, "LogitsDistillation")

    def compute_loss(self, teacher_outputs: Any, student_outputs: Any, **kwargs: Any) -> Tensor:
        names = "the losses and the outputs"
        total: Any = 0.0
        for loss, teacher, student in zip(
            flatten(self.loss),
            _like(self.loss, teacher_outputs, "LogitsDistillation", names),
            _like(self.loss, student_outputs, "LogitsDistillation", names),
            strict=True,
        ):
            if loss is None:
                continue
            teacher, student = teacher / self.temperature, student / self.temperature
            if isinstance(loss, losses.KLDivergence):
                value = ops.mean(loss(ops.softmax(teacher, -1), ops.softmax(student, -1))) * self.temperature**2
            else:
                value = ops.mean(loss(teacher, student))
            total = total + value
        return total


class FeatureDistillation(DistillationLoss):
    """The loss between the outputs of a layer of the teacher and of one of the student, by their names; without names
    between those of the models. `loss` has the structure of the outputs; None leaves one out.
    """

    def __init__(
        self, loss: Any = "mse", teacher_layer_name: str | None = None, student_layer_name: str | None = None
    ) -> None:
        self.loss = _functions(loss, "FeatureDistillation")
        self.teacher_layer_name, self.student_layer_name = teacher_layer_name, student_layer_name

    def validate_model_compatibility(self, teacher: Model, student: Model) -> None:
        names = (("teacher", teacher, self.teacher_layer_name), ("student", student, self.student_layer_name))
        for whose, model, name in names:
            if (self.teacher_layer_name or self.student_layer_name) and not model.inputs:
                raise ValueError(
                    f"FeatureDistillation: layers by their names are those of Sequential and functional models that "
                    f"know their inputs; the {whose} {model.name} does not. Leave the names out to compare its outputs"
                )
            if name is not None:
                try:
                    model.get_layer(name=name)
                except ValueError as error:
                    raise ValueError(f"FeatureDistillation: the {whose}: {error}") from None

    def validate_outputs(self, teacher_outputs: Any, student_outputs: Any) -> None:
        super().validate_outputs(teacher_outputs, student_outputs)
        _like(self.loss, teacher_outputs, "FeatureDistillation", "the losses and the outputs")

    def compute_loss(self, teacher_outputs: Any, student_outputs: Any, **kwargs: Any) -> Tensor:
        total: Any = 0.0
        for loss, teacher, student in zip(
            flatten(self.loss), flatten(teacher_outputs), flatten(student_outputs), strict=True
        ):
            total = total if loss is None else total + ops.mean(loss(teacher, student))
        return total


class Distiller(Model):
    """Trains `student` with labels and with what `teacher`, which stays as it is, gives for the same inputs. The loss
    is `student_loss_weight` times that of `compile`, and the rest times the sum of `distillation_losses`, each with its
    weight. The metrics are those of the student.
    """

    keras_module = "keras.distillation"

    def __init__(
        self, teacher: Model, student: Model, distillation_losses: Any, distillation_loss_weights: Any = None,
        student_loss_weight: float = 0.5, name: str = "distiller", **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(name=name, **settings)
        for whose, model in (("teacher", teacher), ("student", student)):
            if not isinstance(model, Model):
                raise ValueError(f"Distiller: the {whose} is a keras.Model, not {type(model).__name__}")
        _must_fit(teacher, student)
        if not isinstance(student_loss_weight, (int, float)) or not 0 <= student_loss_weight <= 1:
            raise ValueError(f"Distiller: student_loss_weight is a number from 0 to 1, not {student_loss_weight!r:.40}")
        chosen = list(distillation_losses) if isinstance(distillation_losses, (list, tuple)) else [distillation_losses]
        weights = [1.0] * len(chosen) if distillation_loss_weights is None else list(distillation_loss_weights)
        if not chosen or not all(isinstance(one, DistillationLoss) for one in chosen):
            raise ValueError("Distiller: distillation_losses are LogitsDistillation, FeatureDistillation or your own")
        if len(weights) != len(chosen):
            raise ValueError(f"Distiller: {len(chosen)} distillation_losses have {len(weights)} weights")
        for one in chosen:
            one.validate_model_compatibility(teacher, student)
        self.teacher, self.student = teacher, student
        self.distillation_losses, self.distillation_loss_weights = chosen, weights
        self.student_loss_weight = student_loss_weight
        teacher.trainable = False
        self._of_teacher = _with_features(teacher, [one.teacher_layer_name for one in chosen])
        self._of_student = _with_features(student, [one.student_layer_name for one in chosen])
        self.student_loss_tracker, self.distillation_loss_tracker = Mean("student_loss"), Mean("distillation_loss")
        self.total_loss_tracker = Mean("total_loss")
        self._student_loss: Any = None
        self._given_loss: Any = None

    def compile(self, optimizer: Any = "adam", loss: Any = None, metrics: Any = None, **settings: Any) -> None:  # type: ignore[override]
        """Sets the optimiser, the loss between the student's outputs and the labels, in the structure of the outputs,
        and metrics."""
        if loss is None:
            raise ValueError("Distiller.compile: `loss` is that of the student's outputs and the labels: give one")
        if metrics is not None and not isinstance(metrics, (list, tuple)):
            raise ValueError(f"Distiller.compile: metrics are a list, not {type(metrics).__name__}")
        self._student_loss, self._given_loss = _functions(loss, "Distiller.compile"), loss
        super().compile(optimizer, None, metrics=metrics, **settings)

    def call(self, inputs: Any, training: bool = False, mask: Any = None) -> Any:
        return self.student(inputs, training=training)

    def compute_loss(
        self, x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None, training: bool = True
    ) -> Tensor:
        """The loss of a batch. As in Keras, `sample_weight` has no part in it."""
        y_pred = self(x, training=training) if y_pred is None else y_pred
        self._prepare(y_pred)
        share, own, taught = self.student_loss_weight, ops.tensor(0.0), ops.tensor(0.0)
        if share > 0 and y is not None:
            names = "the losses, the labels and the outputs"
            labels = _like(self._student_loss, y, self.name, names)
            outputs = _like(self._student_loss, y_pred, self.name, names)
            for loss, truth, output in zip(flatten(self._student_loss), labels, outputs, strict=True):
                if loss is not None:
                    own = own + ops.mean(losses.as_loss(loss)(truth, output))
        if share < 1:
            with no_grad():
                teacher = self._of_teacher(x, training=False)
            student = {_FINAL: y_pred} if self._of_student is self.student else self._of_student(x, training=True)
            teacher = {_FINAL: teacher} if self._of_teacher is self.teacher else teacher
            for one, weight in zip(self.distillation_losses, self.distillation_loss_weights, strict=True):
                by_layer = one.teacher_layer_name is not None
                of_teacher = teacher[one.teacher_layer_name or _FINAL]
                of_student = student[one.student_layer_name or _FINAL] if by_layer else y_pred
                one.validate_outputs(of_teacher, of_student)
                value = one.compute_loss(of_teacher, of_student)
                if getattr(value, "shape", ()) != ():
                    raise ValueError(
                        f"Distiller: compute_loss of {type(one).__name__} gives a scalar, not shape {value.shape}"
                    )
                taught = taught + weight * value
        total = share * own + (1.0 - share) * taught
        with no_grad():
            for tracker, value in (
                (self.student_loss_tracker, own), (self.distillation_loss_tracker, taught),
                (self.total_loss_tracker, total),
            ):  # fmt: skip
                tracker.update_state(value.detach())
        return total

    def get_config(self) -> dict[str, Any]:
        """The models, the losses and their weights."""
        return {
            "name": self.name, "teacher": saving.serialize_keras_object(self.teacher),
            "student": saving.serialize_keras_object(self.student),
            "distillation_losses": [saving.serialize_keras_object(one) for one in self.distillation_losses],
            "distillation_loss_weights": self.distillation_loss_weights,
            "student_loss_weight": self.student_loss_weight,
        }  # fmt: skip

    @classmethod
    def from_config(cls, config: Mapping[str, Any], custom_objects: Any = None) -> Any:
        """A distiller of `get_config`."""

        def made(value: Any) -> Any:
            return saving.deserialize_keras_object(value, custom_objects) if isinstance(value, Mapping) else value

        settings = {key: made(value) for key, value in config.items()}
        settings["distillation_losses"] = [made(value) for value in config["distillation_losses"]]
        return cls(**settings)


def _must_fit(teacher: Model, student: Model) -> None:
    """ValueError where the inputs or outputs of two models differ in shape or dtype."""
    for what in ("inputs", "outputs"):
        theirs, own = getattr(teacher, what), getattr(student, what)
        if not theirs or not own:
            continue
        if len(theirs) != len(own):
            raise ValueError(f"Distiller: the teacher has {len(theirs)} {what}, the student {len(own)}")
        for one, other in zip(theirs, own, strict=True):
            fits = len(one.shape) == len(other.shape) and all(
                a is None or b is None or a == b for a, b in zip(one.shape, other.shape, strict=True)
            )
            if not fits or one.dtype != other.dtype:
                raise ValueError(
                    f"Distiller: the {what} of the teacher have shape {one.shape} and dtype {one.dtype}, those of the "
                    f"student {other.shape} and {other.dtype}"
                )


def _with_features(model: Model, names: list[str | None]) -> Any:
    """The model with the outputs of these layers beside its own; itself where there are none."""
    wanted = [name for name in dict.fromkeys(names) if name is not None]
    if not wanted:
        return model
    final = model.layers[-1].output if isinstance(model, Sequential) else model.output
    outputs = {_FINAL: final, **{name: model.get_layer(name).output for name in wanted}}
    return Model(model.inputs[0] if len(model.inputs) == 1 else model.inputs, outputs, name=f"{model.name}_features")
