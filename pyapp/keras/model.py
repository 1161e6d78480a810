"""Models in Keras' form: functional ones (`Model(inputs, outputs)`) and subclasses that write `call`."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from ..engine import Tensor, as_dtype
from ..train.floats import floatx
from . import quantizers, saving, summaries
from .call_graph import CallGraph
from .config_reading import Reading
from .config_writing import functional_config
from .core import Layer
from .structures import flatten, map_shapes, map_structure
from .symbolic_tensors import KerasTensor
from .trainer import Trainer

if TYPE_CHECKING:
    from typing import Self

__all__ = ["Functional", "Model"]


class Model(Trainer):
    """A layer that can be trained. `Model(inputs, outputs)` is functional; a subclass writes `call`.

    `compiled_step` says after training how steps ran: as one call ("captured"), or why not.
    """

    keras_module = "keras"

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        made: Any = super().__new__(Functional if cls is Model and (args or "inputs" in kwargs) else cls)
        return made

    def __init__(
        self, inputs: Any = None, outputs: Any = None, *, name: str | None = None, trainable: bool = True,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(name=name, trainable=trainable, dtype=dtype)
        if (inputs is None) != (outputs is None):
            raise ValueError("Model: inputs and outputs are given together")
        object.__setattr__(self, "graph", None)
        self._first_inputs: Any = None  # the shapes and dtypes of the first batch of a subclass
        if inputs is not None:
            object.__setattr__(self, "graph", CallGraph(single(inputs), single(outputs)))
            object.__setattr__(self, "given_ends", (inputs, outputs))
            early = dict(self._modules)  # attributes that were assigned before super().__init__()
            self._modules.clear()
            for number, layer in enumerate(self.graph.layers):
                self._modules[f"layer_{number}"] = layer
            self._modules.update(early)
            self.built = True

    def _in_compute_dtype(self, tensor: Tensor) -> Tensor:
        return super()._in_compute_dtype(tensor) if self.graph is None else self._in_variable_dtype(tensor)

    def _in_variable_dtype(self, tensor: Tensor) -> Tensor:
        """The input of a model whose layers convert it further."""
        wanted = as_dtype(self.variable_dtype)
        return tensor.to(wanted) if tensor.dtype.is_floating_point and tensor.dtype is not wanted else tensor

    def compute_mask(self, inputs: Any, previous_mask: Any) -> Any:
        return None  # the layers inside have set the masks of the outputs

    # -- structure

    @property
    def layers(self) -> list[Layer]:
        """The layers directly inside, in order; functions of `keras.ops` and operators are in `operations`."""
        return [layer for layer in self.operations if not (layer.is_operation or layer.is_own_operation)]

    @property
    def operations(self) -> list[Layer]:
        """The layers directly inside, and the functions among them that have no weights, in order."""
        if self.graph is not None:
            return list(self.graph.layers)  # without attributes that a subclass of a functional model has
        return [child for child in self._modules.values() if isinstance(child, Layer)]

    @property
    def inputs(self) -> list[KerasTensor]:
        """The symbolic inputs of a functional model."""
        return [] if self.graph is None else flatten(self.graph.inputs)

    @property
    def outputs(self) -> list[KerasTensor]:
        """The symbolic outputs of a functional model."""
        return [] if self.graph is None else flatten(self.graph.outputs)

    @property
    def input(self) -> Any:
        """The symbolic input of the model, or its inputs in the structure that the constructor got."""
        if self.graph is not None:
            return self.given_ends[0]
        return self.inputs[0] if self.inputs else super().input

    @property
    def output(self) -> Any:
        """The symbolic output of the model, or its outputs in the structure that the constructor got."""
        if self.graph is not None:
            return self.given_ends[1]
        return self.outputs[0] if self.outputs else super().output

    def _unknown(self, end: str) -> NoReturn:
        raise AttributeError(
            f"model {self.name} has no {end}_shape: a functional model has one, and a Sequential that is built"
        )

    @property
    def input_shape(self) -> Any:
        """The shape of the input, with None for the batch; of several a list. AttributeError where it is not known."""
        shapes = [leaf.shape for leaf in self.inputs or self._unknown("input")]
        return shapes[0] if len(shapes) == 1 else shapes

    @property
    def output_shape(self) -> Any:
        """The shape of the output, with None for the batch; of several a list. AttributeError where it is not known."""
        shapes = [leaf.shape for leaf in self.outputs or self._unknown("output")]
        return shapes[0] if len(shapes) == 1 else shapes

    @property
    def output_names(self) -> list[str]:
        """The names that losses, metrics and labels of several outputs have."""
        if self.graph is None:
            return []
        if isinstance(self.graph.outputs, Mapping):
            return sorted(self.graph.outputs)
        names: list[str] = []
        for leaf in self.outputs:
            name = leaf.call.layer.name if leaf.call is not None else leaf.name
            names.append(name if name not in names else f"{name}_{len(names)}")
        return names

    def get_layer(self, name: str | None = None, index: int | None = None) -> Layer:
        """A layer by its name or number. ValueError if there is none."""
        if index is not None and name is not None:
            raise ValueError(
                f"Provide only a layer name or a layer index: get_layer got index={index} and name={name!r}"
            )
        if index is None and name is None:
            raise ValueError("Provide either a layer name or layer index at `get_layer`: it got neither")
        if index is not None:
            if not -len(self.layers) <= index < len(self.layers):
                raise ValueError(f"{self.name} has {len(self.layers)} layers, but none with the number {index}")
            return self.layers[index]
        for layer in self.layers:
            if layer.name == name:
                return layer
        raise ValueError(
            f"No such layer: {self.name} has no layer {name!r}; there are "
            f"{', '.join(layer.name for layer in self.layers)}"
        )

    def call(self, inputs: Any, training: bool = False, mask: Any = None) -> Any:
        if self.graph is None:
            raise NotImplementedError(f"{type(self).__name__} has no call()")
        return self.graph.run(inputs, training)

    def summary(
        self, line_length: int | None = None, positions: Any = None, print_fn: Callable[[str], Any] | None = None,
        expand_nested: bool = False, show_trainable: bool = False, layer_range: Any = None,
    ) -> None:  # fmt: skip
        """Prints a table of the layers, their output shapes and numbers of parameters. `expand_nested` shows the layers
        of models inside, `show_trainable` whether layers train, `layer_range` those from a name to another;
        `positions` are the ends of the columns, as parts of a line."""
        text = summaries.summary(self, line_length, positions, expand_nested, show_trainable, layer_range)
        if print_fn is None:
            print(text)
        else:
            print_fn(text + "\n")

    # -- weights of subclasses

    def build(self, input_shape: Any = None) -> None:
        """Makes the weights of a subclass: a call with zeros of the shapes, the batch's size (or None) first."""
        if self.graph is None and input_shape is not None and not self.built:
            self.built = True  # the call shall not build again
            self._first_inputs = map_shapes(lambda shape: {"batch_shape": list(shape), "dtype": floatx()}, input_shape)
            self.compute_output_shape(input_shape)

    def _build_for(self, inputs: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None) -> None:
        leaves = flatten(inputs)
        if all(isinstance(leaf, Tensor) for leaf in leaves):  # what a file says, so that weights can be read
            self._first_inputs = map_structure(
                lambda leaf: {"batch_shape": [None, *leaf.shape[1:]], "dtype": leaf.dtype.name}, inputs
            )
        if type(self).build is not Model.build:
            super()._build_for(inputs, args, kwargs)
        self.built = True

    def quantize(self, mode: Any = None, config: Any = None, filters: Any = None, *, type_check: bool = True) -> None:
        """Quantises the layers inside that can be: to "int8" or "int4" numbers, or for training in "float8"; `config`
        says how (see `keras.quantizers`). `filters` chooses layers: a regular expression that their names contain, a
        list of them, or a function of a layer. Layers that cannot be quantised stay as they are, and a warning names
        them. A compiled model is to be compiled again. ValueError for a layer that is not built or is quantised."""
        config = quantizers.resolved(mode, config)
        left: list[str] = []
        chosen = 0
        for layer in (module for module in self.modules() if isinstance(module, Layer)):
            inside = any(isinstance(other, Layer) for other in layer._modules.values())
            if inside or layer is self or not _is_chosen(layer, filters):
                continue
            try:
                layer.quantize(config=config, type_check=type_check)
                chosen += 1
            except NotImplementedError:
                left += [layer.name] if layer.weights else []
        if left:
            warnings.warn(f"{self.name}: not quantised to {config.mode}: {', '.join(left)}", stacklevel=2)
        if chosen and self.compiled:
            self._steps.clear()

    # -- files

    def save(self, filepath: str | Path, overwrite: bool = True, zipped: bool | None = None) -> None:
        """Writes the model, its weights and what it was compiled with to one file (see `keras.saving`). It is one file
        in any case: `zipped=False`, a folder, is refused."""
        if zipped is False:
            raise ValueError("save: writes one file; leave `zipped` out")
        saving.save_model(self, filepath, overwrite)

    def save_weights(self, filepath: str | Path, overwrite: bool = True) -> None:
        """Writes the weights: with a name that ends in `.weights.h5` as Keras does, by the layers' paths, with
        `.safetensors` to such a file, in the order of `weights`. ValueError for other names."""
        saving.save_weights(self, filepath, overwrite)

    def save_training(self, filepath: str | Path) -> None:
        """Writes what the training needs to go on (see `callbacks.BackupAndRestore`)."""
        saving.save_training(self, filepath)

    def restore_training(self, filepath: str | Path) -> None:
        """Reads what `save_training` wrote. ValueError where it does not fit."""
        saving.restore_training(self, filepath)

    def load_weights(self, filepath: str | Path, skip_mismatch: bool = False) -> None:
        """Reads weights that `save_weights` or `save` wrote, here or in Keras. ValueError where they do not fit; with
        `skip_mismatch` those of another shape are left as they are."""
        saving.load_weights(self, filepath, skip_mismatch)

    def export(
        self, filepath: str | Path, format: str = "tf_saved_model", verbose: bool | None = None,
        input_signature: Any = None, **settings: Any,
    ) -> None:  # fmt: skip
        """Writes what the model computes, without its training, as an ONNX file (`format="onnx"`). Its inputs have the
        sizes of `input_signature` (InputSpec, KerasTensor or tensors), or of the model's inputs; a size of None may
        differ from call to call. NotImplementedError for other formats: they need TensorFlow, OpenVINO, LiteRT or
        torch."""
        from .exporting import export_model  # loaded late: with the package of ONNX

        export_model(self, filepath, format, verbose, input_signature, settings)

    def to_json(self, **_: Any) -> str:
        """The configuration as JSON, here or for Keras."""
        return saving.to_json(self)

    def get_config(self) -> dict[str, Any]:
        return functional_config(self) if self.graph is not None else super().get_config()

    @classmethod
    def from_config(cls, config: Mapping[str, Any], custom_objects: Any = None) -> Any:
        """The model that `get_config` describes, here or in Keras, with new weights."""
        if "input_layers" in config:
            with saving.custom_object_scope(custom_objects):
                return Reading("from_config", keeps_training=True).functional(cls, config)
        return super().from_config(config)


class Functional(Model):
    """What `Model(inputs, outputs)` gives: the calls between symbolic inputs and outputs."""

    keras_module = "keras.src.models.functional"


def _is_chosen(layer: Layer, filters: Any) -> bool:
    """Whether the filters of `quantize` take a layer."""
    if filters is None:
        return True
    if isinstance(filters, (str, list, tuple)):
        return any(re.search(one, layer.name) for one in ([filters] if isinstance(filters, str) else filters))
    if callable(filters):
        return bool(filters(layer))
    raise ValueError(f"quantize: filters are regular expressions or a function of a layer, not {filters!r:.60}")


def single(tensors: Any) -> Any:
    """What a list or tuple of one has; anything else as it is."""
    return tensors[0] if isinstance(tensors, (list, tuple)) and len(tensors) == 1 else tensors
